//! Checks the packages to publish: README, both licences, examples, and valid metadata.

use std::fs;
use std::path::Path;
use xtask::step::{Outcome, cargo, output_of};

/// The folders and names of the packages that are published.
const PUBLISHED: [(&str, &str); 7] = [
    ("core", "pleach-core"),
    ("embassy", "pleach-embassy"),
    ("graph", "pleach-graph"),
    ("macros", "pleach-macros"),
    ("pleach", "pleach"),
    ("console", "pleach-console"),
    ("cli", "pleach-cli"),
];

/// Files that each package has at its root.
const FILES: [&str; 3] = ["README.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Keys that each manifest sets, itself or through the workspace.
const KEYS: [&str; 7] = ["description", "license", "rust-version", "readme", "documentation", "keywords", "categories"];

/// What a library says so that its documentation shows the items behind features.
const ALL_FEATURES: &str = "[package.metadata.docs.rs]\nall-features = true\n";

/// The limits of the registry.
const KEYWORDS_MAX: usize = 5;
const KEYWORD_LEN_MAX: usize = 20;

/// Fails with a line for each thing that a package lacks.
pub fn check(root: &Path) -> Outcome {
    let mut faults = Vec::new();
    for (folder, package) in PUBLISHED {
        let listed = output_of(&mut cargo(&["package", "--list", "--no-verify", "--allow-dirty", "--package", package]))?;
        let manifest = fs::read_to_string(root.join(folder).join("Cargo.toml"));
        let manifest = manifest.map_err(|error| format!("cannot read {folder}/Cargo.toml: {error}"))?;
        let examples = examples(&root.join(folder).join("examples"));
        let found = missing_files(&listed, &examples).into_iter().chain(wrong_metadata(&manifest));
        faults.extend(found.map(|fault| format!("{package}: {fault}")));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// The examples of a package, as paths in it.
fn examples(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.ends_with(".rs")).map(|name| format!("examples/{name}")).collect()
}

fn missing_files(listed: &str, examples: &[String]) -> Vec<String> {
    let is_missing = |file: &&str| !listed.lines().any(|line| line == *file);
    let wanted = FILES.into_iter().chain(examples.iter().map(String::as_str));
    wanted.filter(is_missing).map(|file| format!("the package does not contain {file}")).collect()
}

fn wrong_metadata(manifest: &str) -> Vec<String> {
    let value = |key: &str| {
        let line = manifest.lines().find(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with([' ', '.'])));
        line.and_then(|line| line.split_once(" = ")).map(|(_, value)| value)
    };
    let mut faults: Vec<String> =
        KEYS.into_iter().filter(|key| value(key).is_none()).map(|key| format!("Cargo.toml has no {key}")).collect();
    if !manifest.contains("[[bin]]") && !manifest.contains(ALL_FEATURES) {
        faults.push("the documentation is not built with all features".into());
    }
    let keywords: Vec<&str> = value("keywords").unwrap_or_default().split('"').skip(1).step_by(2).collect();
    if keywords.len() > KEYWORDS_MAX {
        faults.push(format!("{} keywords; {KEYWORDS_MAX} are allowed", keywords.len()));
    }
    let long = keywords.iter().filter(|keyword| keyword.len() > KEYWORD_LEN_MAX);
    faults.extend(long.map(|keyword| format!("the keyword {keyword:?} is longer than {KEYWORD_LEN_MAX}")));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_files_are_named() {
        let faults = missing_files(
            "README.md\nLICENSE-MIT\nLICENSE-APACHE\nexamples/a.rs\n",
            &["examples/a.rs".into(), "examples/b.rs".into()],
        );
        assert_eq!(faults, ["the package does not contain examples/b.rs"]);
    }

    #[test]
    fn missing_keys_and_long_keywords_are_named() {
        let manifest = "description = \"a\"\nlicense.workspace = true\nrust-version.workspace = true\nreadme = \"README.md\"\n\
                        keywords = [\"actor\", \"structured-concurrency\"]\ncategories = [\"asynchronous\"]\n";
        let expected = [
            "Cargo.toml has no documentation",
            "the documentation is not built with all features",
            "the keyword \"structured-concurrency\" is longer than 20",
        ];
        assert_eq!(wrong_metadata(manifest), expected);
        let program = format!("{manifest}[[bin]]\n");
        assert_eq!(wrong_metadata(&program), [expected[0], expected[2]]);
    }
}
