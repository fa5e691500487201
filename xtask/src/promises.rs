//! Checks that every promise in `docs/semantics/` has a test, and that every number in the name of
//! a test is that of a promise.
//!
//! A promise is a section such as `### A13.3 Stash`. Its number is `A13`; the part after the dot
//! only divides a long promise into sections. The tests of promise `A13` are the test functions
//! whose names begin with `a13_`, in Rust, and in the scripts that test the console's page. The
//! last line of each section names test prefixes: ``Tests: `a13_*`, `s8_*` ``.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use xtask::step::Outcome;

/// The folder of the promises, one file per area.
const FOLDER: &str = "docs/semantics";

/// The front page, which must link to every area.
const FRONT_PAGE: &str = "SEMANTICS.md";

/// The folders whose tests count: the packages that users depend on, and the command.
const SOURCES: [&str; 6] = ["cli", "console", "core", "embassy", "graph", "pleach"];

/// One section of an area: a promise or a part of one.
#[derive(Debug, PartialEq, Eq)]
struct Section {
    /// `A13.3`, or `A12` for a promise in one section.
    number: String,
    /// The area file, such as `actors.md`.
    file: String,
    /// The prefixes of its `Tests:` line, such as `a13_`.
    prefixes: Vec<String>,
}

impl Section {
    /// The number of the promise, without the number of the section.
    fn promise(&self) -> &str {
        self.number.split('.').next().unwrap_or(&self.number)
    }
}

/// Fails if a promise has no test, is listed twice, or names tests that do not exist, if a test has
/// the number of no promise, or if the front page does not link to an area.
pub fn check(root: &Path) -> Outcome {
    let front_page = read(&root.join(FRONT_PAGE))?;
    let mut faults = faults(&sections(root)?, &tests(root)?);
    for file in area_files(root)? {
        let link = format!("{FOLDER}/{}", file_name(&file));
        if !front_page.contains(&link) {
            faults.push(format!("{FRONT_PAGE} has no link to {link}"));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// Returns a line for each promise with its tests. Fails with that list if [`check`] fails.
pub fn list(root: &Path) -> Result<String, String> {
    let (sections, tests) = (sections(root)?, tests(root)?);
    let mut list = String::new();
    for (promise, prefixes) in promises(&sections) {
        let found: Vec<&str> = tests.iter().filter(|test| matches_any(test, &prefixes)).map(String::as_str).collect();
        let _ = writeln!(list, "{promise:4} {}", if found.is_empty() { "no test".into() } else { found.join("\n     ") });
    }
    check(root).map_err(|faults| format!("{list}{faults}"))?;
    Ok(list)
}

/// Returns the promises in the order of the areas, each with the prefixes of its tests: its own,
/// and those of its sections that are not another promise's own.
fn promises(sections: &[Section]) -> Vec<(&str, BTreeSet<String>)> {
    let own: BTreeSet<String> = sections.iter().map(|section| own_prefix(section.promise())).collect();
    let mut promises: Vec<(&str, BTreeSet<String>)> = Vec::new();
    for section in sections {
        let promise = section.promise();
        let at = promises.iter().position(|(number, _)| *number == promise).unwrap_or_else(|| {
            promises.push((promise, BTreeSet::from([own_prefix(promise)])));
            promises.len() - 1
        });
        promises[at].1.extend(section.prefixes.iter().filter(|prefix| !own.contains(*prefix)).cloned());
    }
    promises
}

/// Returns a sentence for each fault in the sections.
fn faults(sections: &[Section], tests: &BTreeSet<String>) -> Vec<String> {
    let mut faults = Vec::new();
    if sections.is_empty() {
        faults.push(format!("{FOLDER} has no promise: expected headings such as `### T1 Cancel tokens`"));
    }
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    let mut home: BTreeMap<&str, &str> = BTreeMap::new();
    for section in sections {
        let Section { number, file, prefixes } = section;
        if let Some(first) = seen.insert(number, file) {
            faults.push(format!("{number} is listed twice: in {first} and in {file}"));
        }
        let first = *home.entry(section.promise()).or_insert(file);
        if first != file {
            faults.push(format!("{} is listed in two areas: {first} and {file}", section.promise()));
        }
        if prefixes.is_empty() {
            faults.push(format!("{number} in {file} has no line such as: Tests: `{}*`", own_prefix(section.promise())));
        }
        for prefix in prefixes.iter().filter(|prefix| !tests.iter().any(|test| test.starts_with(*prefix))) {
            faults.push(format!("{number} in {file} names tests `{prefix}*`, and no test has that prefix"));
        }
    }
    for promise in home.keys() {
        let prefix = own_prefix(promise);
        if !tests.iter().any(|test| test.starts_with(&prefix)) {
            faults.push(format!("{promise} has no test: add one named `{prefix}…`, or remove the promise"));
        }
    }
    let known: BTreeSet<String> = home.keys().map(|promise| own_prefix(promise)).collect();
    for test in tests.iter().filter(|test| !matches_any(test, &known)) {
        faults.push(format!("test {test} has the number of no promise: use another number, or none"));
    }
    faults
}

/// Returns `a13_` for `A13`.
fn own_prefix(promise: &str) -> String {
    promise.to_lowercase() + "_"
}

fn matches_any(test: &str, prefixes: &BTreeSet<String>) -> bool {
    prefixes.iter().any(|prefix| test.starts_with(prefix))
}

fn sections(root: &Path) -> Result<Vec<Section>, String> {
    let mut sections = Vec::new();
    for file in area_files(root)? {
        sections.extend(parse_sections(&file_name(&file), &read(&file)?));
    }
    Ok(sections)
}

/// Returns the sections of one area. A paragraph that contains `Tests:` ends with the prefixes.
fn parse_sections(file: &str, text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut in_promise = false;
    let mut in_tests = false;
    for line in text.lines() {
        if line.starts_with('#') {
            let number = line.strip_prefix("### ").and_then(section_number);
            (in_promise, in_tests) = (number.is_some(), false);
            sections.extend(number.map(|number| Section { number, file: file.into(), prefixes: Vec::new() }));
        } else if line.trim().is_empty() {
            in_tests = false;
        } else if let Some(section) = sections.last_mut().filter(|_| in_promise) {
            let prefixes = match line.split_once("Tests:") {
                Some((_, rest)) => rest,
                None if in_tests => line,
                None => continue,
            };
            in_tests = true;
            section.prefixes.extend(parse_prefixes(prefixes));
        }
    }
    sections
}

/// Returns the number that a heading begins with: a letter and digits, with an optional part after
/// a dot.
fn section_number(heading: &str) -> Option<String> {
    let number = heading.split_whitespace().next()?;
    let digits = number.strip_prefix(|letter: char| letter.is_ascii_uppercase())?;
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (promise, section) = digits.split_once('.').unwrap_or((digits, "0"));
    (is_number(promise) && is_number(section)).then(|| number.to_string())
}

/// Returns `a13_` and `s8_` from ``  `a13_*`, `s8_*` ``.
fn parse_prefixes(text: &str) -> impl Iterator<Item = String> {
    text.split('`').filter_map(|part| part.strip_suffix('*')).map(str::to_string)
}

fn area_files(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = entries(&root.join(FOLDER))?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    files.sort();
    Ok(files)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the names of all numbered tests.
fn tests(root: &Path) -> Result<BTreeSet<String>, String> {
    let mut tests = BTreeSet::new();
    for folder in SOURCES {
        collect_tests(&root.join(folder), &mut tests)?;
    }
    Ok(tests)
}

fn collect_tests(folder: &Path, tests: &mut BTreeSet<String>) -> Outcome {
    for path in entries(folder)? {
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.is_dir() {
            collect_tests(&path, tests)?;
        } else if extension == Some("rs") {
            tests.extend(numbered_tests(&read(&path)?));
        } else if path.to_string_lossy().ends_with(".test.js") || extension == Some("mjs") {
            tests.extend(numbered_scripts(&read(&path)?));
        }
    }
    Ok(())
}

/// Returns the numbered tests of a source file: functions below a test attribute, and the names in
/// the list of a `cases!` macro. Other functions do not count, whatever their names are.
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
            tests.extend(numbered_name(line));
        } else if let Some(signature) = function(line) {
            tests.extend(numbered_name(signature).filter(|_| is_test));
            is_test = false;
        }
    }
    tests
}

/// Returns the numbered tests of a script: the names that are given to `test`. A name with a part
/// that the script fills in ends before that part.
fn numbered_scripts(source: &str) -> Vec<String> {
    let calls = source.lines().filter_map(|line| line.trim().strip_prefix("test("));
    calls.filter_map(|call| numbered_name(call.trim_start_matches(['"', '`']))).collect()
}

/// Returns the text after `fn` in a line that begins a function.
fn function(line: &str) -> Option<&str> {
    line.trim_start_matches("pub ").trim_start_matches("async ").strip_prefix("fn ")
}

/// Returns the name that `text` begins with, if it has a number: `a-z`, digits, optional `a-z` and
/// an underscore, as in `a13_` and `w9b_`.
fn numbered_name(text: &str) -> Option<String> {
    let name = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
    let (number, _) = name.split_once('_')?;
    let is_lowercase = |letter: char| letter.is_ascii_lowercase();
    let digits = number.trim_start_matches(is_lowercase);
    let has_area = digits.len() < number.len();
    let digits = digits.trim_end_matches(is_lowercase);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (has_area && is_number).then(|| name.to_string())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(number: &str, file: &str, prefixes: &[&str]) -> Section {
        Section {
            number: number.into(),
            file: file.into(),
            prefixes: prefixes.iter().map(|prefix| prefix.to_string()).collect(),
        }
    }

    fn tests_named(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn sections_are_numbered_headings_with_their_prefixes() {
        let text = "# T: the tree\n\n### T1 Tokens\nText.\n\nTests: `t1_*`, `w9b_*`\n\n## Part\n\n### T2.10 Causes\n\n\
                    Limit: 3. Tests:\n`t2_*`\n\nSee `x_*`.\n\n### Notes\nTests: `n_*`\n";
        let expected = [section("T1", "tree.md", &["t1_", "w9b_"]), section("T2.10", "tree.md", &["t2_"])];
        assert_eq!(parse_sections("tree.md", text), expected);
    }

    #[test]
    fn sections_with_tests_have_no_fault() {
        let sections =
            [section("A13.1", "a.md", &["a13_"]), section("A13.2", "a.md", &["a13_", "s8_"]), section("S8", "s.md", &["s8_"])];
        assert_eq!(faults(&sections, &tests_named(&["a13_stash", "s8_hook"])), [""; 0]);
    }

    #[test]
    fn test_with_the_number_of_no_promise_is_a_fault() {
        let sections = [section("A1", "a.md", &["a1_"])];
        let faults = faults(&sections, &tests_named(&["a1_order", "a1b_order", "a12_timer", "w5_hook"]));
        let expected = ["a12_timer", "a1b_order", "w5_hook"];
        let expected = expected.map(|test| format!("test {test} has the number of no promise: use another number, or none"));
        assert_eq!(faults, expected);
    }

    #[test]
    fn promise_without_a_test_is_a_fault() {
        let sections = [section("A1", "a.md", &["a10_"])];
        let faults = faults(&sections, &tests_named(&["a10_ask"]));
        let missing = "A1 has no test: add one named `a1_…`, or remove the promise";
        assert_eq!(faults, [missing, "test a10_ask has the number of no promise: use another number, or none"]);
    }

    #[test]
    fn promise_listed_twice_is_a_fault() {
        let twice = [section("A1", "a.md", &["a1_"]), section("A1", "a.md", &["a1_"])];
        let tests = tests_named(&["a1_order"]);
        assert_eq!(faults(&twice, &tests), ["A1 is listed twice: in a.md and in a.md"]);
        let apart = [section("A1.1", "a.md", &["a1_"]), section("A1.2", "b.md", &["a1_"])];
        assert_eq!(faults(&apart, &tests), ["A1 is listed in two areas: a.md and b.md"]);
    }

    #[test]
    fn missing_and_unknown_prefixes_are_faults() {
        let sections = [section("A1", "a.md", &[]), section("A2", "a.md", &["a2_", "w3_"])];
        let faults = faults(&sections, &tests_named(&["a1_order", "a2_counts"]));
        assert_eq!(
            faults,
            ["A1 in a.md has no line such as: Tests: `a1_*`", "A2 in a.md names tests `w3_*`, and no test has that prefix"]
        );
    }

    #[test]
    fn promise_has_the_prefixes_of_its_sections_but_no_other_promise() {
        let sections =
            [section("A1.1", "a.md", &["a1_"]), section("A1.2", "a.md", &["w5_", "a2_"]), section("A2", "a.md", &["a2_"])];
        let (first, second) = (tests_named(&["a1_", "w5_"]), tests_named(&["a2_"]));
        assert_eq!(promises(&sections), [("A1", first), ("A2", second)]);
    }

    #[test]
    fn tests_of_scripts_are_named_by_their_calls() {
        let source = "test(\"k9_axe_is_silent\", async () => {});\n  test(`k4_${kind}_is_planned`, run);\n\
                      test(`k9_at_${width}_pixels`, run);\ntest(\"words are sorted\", run);\nconst k1_not = 1;";
        assert_eq!(numbered_scripts(source), ["k9_axe_is_silent", "k4_", "k9_at_"]);
    }

    #[test]
    fn only_functions_that_a_test_runner_calls_are_tests() {
        let source = "#[test]\nfn t1_goes_down() {}\n#[tokio::test(start_paused = true)]\n#[cfg(unix)]\nasync fn w9b_counts() {}\n\
                      fn t3_is_no_test() {}\n#[test]\nfn helper() {}\nfn t4_neither() {}\n#[test]\nfn ab3_is_numbered() {}\n#[test]\nfn five_5_is_not() {}\ncases!(\n    c1_listed,\n);\nfn c2_unlisted() {}";
        assert_eq!(numbered_tests(source), ["t1_goes_down", "w9b_counts", "ab3_is_numbered", "c1_listed"]);
    }
}
