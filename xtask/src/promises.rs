//! Every promise in SEMANTICS.md has a test: the tests of promise `T3` are those whose names begin with `t3_`.

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

/// Collects the names of all tests below `folder` that carry a number.
fn collect_tests(folder: &Path, tests: &mut BTreeSet<String>) -> Outcome {
    let entries = fs::read_dir(folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() {
            collect_tests(&path, tests)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            tests.extend(numbered_tests(&read(&path)?));
        }
    }
    Ok(())
}

/// The numbered functions of `source` that a test runner calls: those below a test attribute, and those in the list of a
/// `cases!` macro. A function that merely has such a name proves nothing.
fn numbered_tests(source: &str) -> Vec<String> {
    let mut tests = Vec::new();
    let (mut is_test, mut in_cases) = (false, false);
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if line.starts_with("cases!(") {
            in_cases = true;
        } else if line.starts_with(')') && in_cases {
            in_cases = false;
        } else if in_cases {
            tests.extend(number_and_name(line));
        } else if let Some(signature) = function(line) {
            tests.extend(number_and_name(signature).filter(|_| is_test));
            is_test = false;
        }
    }
    tests
}

/// What follows `fn` in a line that begins a function.
fn function(line: &str) -> Option<&str> {
    line.trim_start_matches("pub ").trim_start_matches("async ").strip_prefix("fn ")
}

/// The name that `text` begins with, if it is a letter, digits and an underscore, then anything.
fn number_and_name(text: &str) -> Option<String> {
    let name = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
    let (number, _) = name.split_once('_')?;
    let digits = number.strip_prefix(|letter: char| letter.is_ascii_lowercase())?;
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| name.to_string())
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
    fn only_what_a_test_runner_calls_is_a_test() {
        let source = "#[test]\nfn t1_goes_down() {}\n#[tokio::test(start_paused = true)]\n#[cfg(unix)]\nasync fn a2_counts() {}\n\
                      fn t3_is_no_test() {}\n#[test]\nfn helper() {}\nfn t4_neither() {}\ncases!(\n    c1_listed,\n);\nfn c2_unlisted() {}";
        assert_eq!(numbered_tests(source), ["t1_goes_down", "a2_counts", "c1_listed"]);
    }
}
