//! Every promise in SEMANTICS.md has a test: the tests of promise `T3` are the functions whose names begin with `t3_`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use xtask::step::Outcome;

/// Where tests are: the crates a user gets.
const SOURCES: [&str; 3] = ["core", "graph", "pleach"];

/// A promise of the table, and the tests that carry its number.
struct Promise {
    number: String,
    tests: BTreeSet<String>,
}

/// Fails with the promises that no test carries.
pub fn check(root: &Path) -> Outcome {
    let promises = promises(root)?;
    if promises.is_empty() {
        return Err("SEMANTICS.md lists no promise: its tables have rows such as `| T1 | … | … |`".into());
    }
    let unproven: Vec<&str> = promises.iter().filter(|one| one.tests.is_empty()).map(|one| one.number.as_str()).collect();
    if unproven.is_empty() {
        return Ok(());
    }
    let (first, all) = (unproven[0].to_lowercase(), unproven.join(", "));
    Err(format!("promises of SEMANTICS.md without a test: {all}\nname a test `{first}_…`, or take the promise back"))
}

/// A line for each promise with its tests.
pub fn list(root: &Path) -> Result<String, String> {
    let mut list = String::new();
    for Promise { number, tests } in promises(root)? {
        let tests: Vec<&str> = tests.iter().map(String::as_str).collect();
        let _ = writeln!(list, "{number:4} {}", if tests.is_empty() { "no test".into() } else { tests.join("\n     ") });
    }
    Ok(list)
}

fn promises(root: &Path) -> Result<Vec<Promise>, String> {
    let semantics = read(&root.join("SEMANTICS.md"))?;
    let mut tests = BTreeSet::new();
    for folder in SOURCES {
        collect_tests(&root.join(folder), &mut tests)?;
    }
    let proven_by = |number: String| {
        let prefix = number.to_lowercase() + "_";
        let tests = tests.iter().filter(|name| name.starts_with(&prefix)).cloned().collect();
        Promise { number, tests }
    };
    Ok(numbers(&semantics).map(proven_by).collect())
}

/// The first cells of table rows that are a promise's number: a letter and digits.
fn numbers(semantics: &str) -> impl Iterator<Item = String> {
    semantics.lines().filter_map(|line| {
        let first = line.strip_prefix('|')?.split('|').next()?.trim();
        let digits = first.strip_prefix(|letter: char| letter.is_ascii_uppercase())?;
        (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| first.to_string())
    })
}

/// The names of all functions that begin with a letter, digits and an underscore.
fn collect_tests(folder: &Path, tests: &mut BTreeSet<String>) -> Outcome {
    let entries = fs::read_dir(folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() {
            collect_tests(&path, tests)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            tests.extend(numbered_functions(&read(&path)?));
        }
    }
    Ok(())
}

fn numbered_functions(source: &str) -> Vec<String> {
    let name_of = |line: &str| {
        let after = line.trim_start().trim_start_matches("pub ").trim_start_matches("async ").strip_prefix("fn ")?;
        let name = after.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
        let (number, _) = name.split_once('_')?;
        let digits = number.strip_prefix(|letter: char| letter.is_ascii_lowercase())?;
        (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| name.to_string())
    };
    source.lines().filter_map(name_of).collect()
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_table_rows_only() {
        let text = "# T9 title\n| promise | what |\n|---|---|\n| T1 | one |\n| A14 | two |\n| word | T3 |\nT4";
        assert_eq!(numbers(text).collect::<Vec<_>>(), ["T1", "A14"]);
    }

    #[test]
    fn tests_are_found_by_their_number() {
        let source = "    fn t1_goes_down() {}\nasync fn a2_counts() {}\nfn helper() {}\nfn to_text() {}\nlet fn_t3_ = 1;";
        assert_eq!(numbered_functions(source), ["t1_goes_down", "a2_counts"]);
    }
}
