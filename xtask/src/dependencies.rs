//! Limits how many crates a user compiles with ours, so that each new dependency is a decision.

use std::collections::BTreeSet;
use xtask::step::{Outcome, cargo, output_of};

/// A package and the largest number of dependencies of its default build.
const BOUNDS: [(&str, usize); 2] = [("pleach-core", 10), ("pleach", 40)];

/// Counts the normal dependencies of each package, including indirect ones.
pub fn check() -> Outcome {
    for (package, crates_max) in BOUNDS {
        let tree = output_of(&mut cargo(&["tree", "--package", package, "--edges", "normal", "--prefix", "none"]))?;
        let crates = parse(&tree, package);
        if crates.len() > crates_max {
            let names: Vec<&str> = crates.into_iter().collect();
            let count = names.len();
            return Err(format!("{package} has {count} dependencies, {crates_max} are allowed: {}", names.join(", ")));
        }
    }
    Ok(())
}

/// Returns the crates in the output of `cargo tree --prefix none` once each, without `package`.
fn parse<'a>(tree: &'a str, package: &str) -> BTreeSet<&'a str> {
    // A line is `name v1.2.3 (path, or `*` if repeated)`; two versions of a crate count twice.
    let name_and_version = |line: &'a str| line.match_indices(' ').nth(1).map_or(line, |(at, _)| &line[..at]);
    let is_other = |name: &&str| !name.is_empty() && name.split(' ').next() != Some(package);
    tree.lines().map(str::trim).map(name_and_version).filter(is_other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_counted_without_repeats_and_without_the_package() {
        let tree = "pleach v0.1.0 (/somewhere)\ntokio v1.54.1\nslab v0.4.12\nslab v0.4.12 (*)\nslab v0.3.0\n\n";
        let crates: Vec<&str> = parse(tree, "pleach").into_iter().collect();
        assert_eq!(crates, ["slab v0.3.0", "slab v0.4.12", "tokio v1.54.1"]);
    }
}
