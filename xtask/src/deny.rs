//! Checks licences, duplicates and sources of the dependencies against `deny.toml`, offline.
//!
//! `cargo deny` checks the same and advisories too, in the workflow `.github/workflows/deny.yml`.
//! It takes minutes to build and needs a network, so it is not a step here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use xtask::step::{Outcome, cargo, output_of};

/// Which packages are checked, with which features.
const GRAPH: [&str; 5] = ["--workspace", "--all-features", "--locked", "--edges", "normal,build"];

/// The rules of `deny.toml` that this check reads.
struct Rules {
    licences: BTreeSet<String>,
    denied: BTreeSet<String>,
    skipped: BTreeSet<String>,
    registries: BTreeSet<String>,
    excluded: BTreeSet<String>,
}

/// Fails with a line for each dependency that breaks a rule.
pub fn check(root: &Path) -> Outcome {
    let read = |name: &str| fs::read_to_string(root.join(name)).map_err(|error| format!("cannot read {name}: {error}"));
    let rules = Rules::read(&read("deny.toml")?);
    let excluded = rules.excluded.iter().flat_map(|package| ["--exclude", package]);
    let mut tree = cargo(&["tree", "--prefix", "none", "--format", "{p}|{l}"]);
    let listed = output_of(tree.args(GRAPH).args(excluded))?;
    let mut faults = faults_of_packages(&listed, &rules);
    faults.extend(faults_of_sources(&read("Cargo.lock")?, &rules));
    if faults.is_empty() { Ok(()) } else { Err(format!("{}\nsee deny.toml", faults.join("\n"))) }
}

impl Rules {
    fn read(text: &str) -> Self {
        // An entry is `"name"` or `{ crate = "name@1.2.3", .. }`: the first text in it.
        let names = |section, key| -> BTreeSet<String> {
            let entries = array(text, section, key);
            entries.split(['{', '}']).flat_map(|entry| entry.split('"').nth(1)).map(String::from).collect()
        };
        let texts = |section, key| array(text, section, key).split('"').skip(1).step_by(2).map(String::from).collect();
        Self {
            licences: texts("licenses", "allow"),
            denied: names("bans", "deny"),
            skipped: names("bans", "skip"),
            registries: texts("sources", "allow-registry"),
            excluded: texts("graph", "exclude"),
        }
    }
}

/// Returns the text between the brackets of `key = [..]` in a section of a TOML file.
fn array<'a>(text: &'a str, section: &str, key: &str) -> &'a str {
    let section = text.split("\n[").find(|part| part.starts_with(&format!("{section}]")));
    let begin = format!("\n{key} = [");
    let array = section.and_then(|section| section.split_once(&begin)).map_or("", |(_, rest)| rest);
    array.split_once(']').map_or("", |(array, _)| array)
}

/// Finds faults in the output of `cargo tree --format '{p}|{l}'`.
fn faults_of_packages(listed: &str, rules: &Rules) -> Vec<String> {
    let (mut faults, mut versions) = (BTreeSet::new(), BTreeMap::<&str, BTreeSet<&str>>::new());
    for line in listed.lines() {
        let Some((package, licence)) = line.split_once('|') else { continue };
        let mut words = package.split(' ');
        let (name, version) = (words.next().unwrap_or_default(), words.next().unwrap_or_default().trim_start_matches('v'));
        versions.entry(name).or_default().insert(version);
        let licence = licence.trim_end_matches(" (*)");
        if !is_allowed(licence, &rules.licences) {
            faults.insert(format!("{name} {version} has the licence {licence:?}, which is not allowed"));
        }
        if rules.denied.contains(name) {
            faults.insert(format!("{name} {version} is denied"));
        }
    }
    let is_skipped = |name: &str, version: &str| rules.skipped.contains(&format!("{name}@{version}"));
    for (name, mut versions) in versions {
        versions.retain(|version| !is_skipped(name, version));
        if versions.len() > 1 {
            let versions: Vec<&str> = versions.into_iter().collect();
            faults.insert(format!("{name} has versions {}; unify them, or skip the older one", versions.join(" and ")));
        }
    }
    faults.into_iter().collect()
}

/// Finds sources in a Cargo.lock that are not allowed.
fn faults_of_sources(lock: &str, rules: &Rules) -> Vec<String> {
    let sources: BTreeSet<&str> = lock.lines().filter_map(|line| line.strip_prefix("source = ")).collect();
    let is_known =
        |source: &&str| source.trim_matches('"').strip_prefix("registry+").is_some_and(|url| rules.registries.contains(url));
    sources.into_iter().filter(|source| !is_known(source)).map(|source| format!("the source {source} is not allowed")).collect()
}

/// Whether allowed licences satisfy an SPDX expression. `/` is an old spelling of `OR`.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let text = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut at = 0;
    let is_satisfied = either(&words, &mut at, allowed);
    is_satisfied && at == words.len()
}

fn either(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut is_satisfied = both(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        is_satisfied |= both(words, at, allowed);
    }
    is_satisfied
}

fn both(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut is_satisfied = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        is_satisfied &= one(words, at, allowed);
    }
    is_satisfied
}

/// A licence, with its exception if it has one, or an expression in parentheses.
fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let word = words.get(*at);
    *at += 1;
    let Some(word) = word else { return false };
    if *word == "(" {
        let is_satisfied = either(words, at, allowed);
        *at += 1;
        return is_satisfied;
    }
    if words.get(*at) == Some(&"WITH") {
        let exception = words.get(*at + 1).copied().unwrap_or_default();
        *at += 2;
        return allowed.contains(&format!("{word} WITH {exception}"));
    }
    allowed.contains(*word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "[graph]\nexclude = [\"bench\"]\n\n[licenses]\nallow = [\"MIT\", \"ISC\"]\n\n[bans]\ndeny = [\n  { crate = \"bad\", \
                         use-instead = \"good\" },\n]\nskip = [\n  { crate = \"old@1.0.0\", reason = \"why\" },\n]\n\n[sources]\n\
                         allow-registry = [\"https://known\"]\n";

    #[test]
    fn the_rules_are_read_from_their_sections() {
        let rules = Rules::read(&format!("\n{RULES}"));
        let list = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(list(&rules.licences), "ISC MIT");
        assert_eq!([list(&rules.denied), list(&rules.skipped)], ["bad", "old@1.0.0"]);
        assert_eq!([list(&rules.registries), list(&rules.excluded)], ["https://known", "bench"]);
    }

    #[test]
    fn an_expression_is_allowed_if_a_choice_satisfies_it() {
        let allowed = ["MIT", "ISC"].map(String::from).into();
        for allowed_one in
            ["MIT", "Apache-2.0 OR MIT", "GPL/MIT", "ISC AND (GPL OR MIT)", "Apache-2.0 WITH LLVM-exception OR MIT"]
        {
            assert!(is_allowed(allowed_one, &allowed), "{allowed_one}");
        }
        for bad in ["", "GPL", "MIT AND GPL", "MIT OR", "MIT WITH LLVM-exception", "(MIT OR ISC) AND GPL"] {
            assert!(!is_allowed(bad, &allowed), "{bad}");
        }
    }

    #[test]
    fn packages_and_sources_that_break_a_rule_are_named() {
        let rules = Rules::read(&format!("\n{RULES}"));
        let listed = "a v1.0.0|MIT\na v1.0.0|MIT (*)\nold v1.0.0|MIT\nold v2.0.0|MIT\nb v1.0.0|GPL\nbad v1.0.0|MIT\nc v1.0.0|MIT\nc v2.0.0|MIT";
        let faults = faults_of_packages(listed, &rules);
        let names: Vec<&str> = faults.iter().filter_map(|fault| fault.split(' ').next()).collect();
        assert_eq!(names, ["b", "bad", "c"]);
        let lock = "source = \"registry+https://known\"\nsource = \"git+https://other\"\n";
        assert_eq!(faults_of_sources(lock, &rules), ["the source \"git+https://other\" is not allowed"]);
    }
}
