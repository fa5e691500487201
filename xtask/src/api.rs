//! Lists the public API of each library in its `public-api.txt`, so that reviews show API changes.
//!
//! The lists come from the rustdoc JSON of the oldest supported Rust, so that a new compiler does
//! not change them. The JSON format is unstable: rustdoc needs `RUSTC_BOOTSTRAP` to write it.

use crate::msrv::Toolchain;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use xtask::step::{Outcome, cargo, output_of};

/// The libraries: their folder, package and crate.
const LIBRARIES: [(&str, &str, &str); 4] = [
    ("core", "pleach-core", "pleach_core"),
    ("embassy", "pleach-embassy", "pleach_embassy"),
    ("graph", "pleach-graph", "pleach_graph"),
    ("pleach", "pleach", "pleach"),
];

/// The file in the folder of each library.
const FILE: &str = "public-api.txt";

/// How many changed lines a failure shows.
const LINES_MAX: usize = 40;

/// Writes the lists.
pub fn write(root: &Path) -> Outcome {
    for (path, list) in lists(root)? {
        fs::write(&path, list).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        println!("{}", path.strip_prefix(root).unwrap_or(&path).display());
    }
    Ok(())
}

/// Fails if a list differs from the code.
pub fn check(root: &Path) -> Outcome {
    let mut changes = Vec::new();
    for (path, list) in lists(root)? {
        let known = fs::read_to_string(&path).unwrap_or_default();
        changes.extend(difference(&known, &list));
    }
    if changes.is_empty() {
        return Ok(());
    }
    let count = changes.len();
    changes.truncate(LINES_MAX);
    Err(format!("{}\n{count} lines of the public API changed; if that is intended, run `cargo xtask api`", changes.join("\n")))
}

/// Returns the path and contents of each list, or nothing if the toolchain cannot be installed.
fn lists(root: &Path) -> Result<Vec<(PathBuf, String)>, String> {
    let Some(toolchain) = Toolchain::install(root)? else { return Ok(Vec::new()) };
    let rustdoc = rustdoc(toolchain.target())?;
    let mut lists = Vec::new();
    for (folder, package, library) in LIBRARIES {
        let arguments = ["rustdoc", "--locked", "--lib", "--all-features", "--package", package, "--"];
        let mut command = toolchain.cargo(&arguments);
        output_of(command.args(["-Z", "unstable-options", "--output-format", "json"]).env("RUSTDOC", &rustdoc))?;
        let json = toolchain.target().join(format!("doc/{library}.json"));
        let list = output_of(cargo(&["run", "--quiet", "--package", "xtask-api", "--"]).arg(json))?;
        lists.push((root.join(folder).join(FILE), list));
    }
    Ok(lists)
}

/// Writes a script that runs rustdoc with unstable options allowed. With the variable set for all
/// of cargo, the build scripts of dependencies would run again.
fn rustdoc(target: &Path) -> Result<PathBuf, String> {
    let path = target.join("rustdoc-unstable");
    let complain = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
    fs::create_dir_all(target).map_err(complain)?;
    fs::write(&path, "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n").map_err(complain)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(complain)?;
    Ok(path)
}

/// Returns the lines that only one of two lists has, marked `-` and `+`.
fn difference(known: &str, list: &str) -> Vec<String> {
    let only_in = |one: &str, other: &str, sign: char| -> Vec<String> {
        let there: std::collections::HashSet<&str> = other.lines().collect();
        one.lines().filter(|line| !there.contains(line)).map(|line| format!("{sign}{line}")).collect()
    };
    let mut changes = only_in(known, list, '-');
    changes.extend(only_in(list, known, '+'));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_both_sides() {
        assert_eq!(difference("a\nb\n", "b\nc\n"), ["-a", "+c"]);
        assert!(difference("a\nb\n", "a\nb\n").is_empty());
    }
}
