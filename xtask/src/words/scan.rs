//! Finds the faults of a tree of files, line by line.

use super::short_docs::short_docs;
use super::{ALLOWED, COLUMNS_MAX, NAMES, PHRASES, WORDS};
use std::fs;
use std::path::Path;

/// The extensions of files that people read.
const EXTENSIONS: [&str; 4] = ["rs", "md", "sql", "toml"];

/// The packages whose public items need docs.
const DOCUMENTED: [&str; 5] = ["core", "embassy", "graph", "macros", "pleach"];

/// This check itself has to name the words.
const SELF: &str = "xtask/src/words";

/// What can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A word of `WORDS`.
    Word,
    /// A phrase of `PHRASES`.
    Phrase,
    /// A type, module or file of `NAMES`.
    Name,
    /// A comment or a line of Markdown that is too long.
    Width,
    /// A public item with too short a doc.
    Doc,
}

impl Kind {
    /// How reports call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Word => "word",
            Self::Phrase => "phrase",
            Self::Name => "name",
            Self::Width => "width",
            Self::Doc => "doc",
        }
    }
}

/// One place, and what is wrong there.
#[derive(Debug)]
pub struct Fault {
    /// What kind of fault it is.
    pub kind: Kind,
    /// The package, `docs` or `root`.
    pub area: String,
    /// The path below the root of the workspace.
    pub file: String,
    /// Counted from 1.
    pub line: usize,
    /// What is wrong, and what to write instead.
    pub why: String,
}

/// All faults, in the order of the files; only below paths that begin with one of `prefixes` if
/// there are any.
pub fn faults(root: &Path, prefixes: &[&str]) -> Result<Vec<Fault>, String> {
    let mut files = Vec::new();
    collect(root, "", &mut files)?;
    files.retain(|file| prefixes.is_empty() || prefixes.iter().any(|prefix| file.starts_with(prefix)));
    let mut faults = Vec::new();
    for file in files {
        let text = fs::read_to_string(root.join(&file)).map_err(|error| format!("cannot read {file}: {error}"))?;
        faults.extend(faults_of(&file, &text));
    }
    Ok(faults)
}

/// Collects the files to read, sorted; `below` is the path of `folder`.
fn collect(folder: &Path, below: &str, files: &mut Vec<String>) -> Result<(), String> {
    let complain = |error: std::io::Error| format!("cannot read {}: {error}", folder.display());
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(folder).map_err(complain)? {
        names.extend(entry.map_err(complain)?.file_name().into_string());
    }
    names.sort();
    for name in names {
        let (path, full) = (format!("{below}{name}"), folder.join(&name));
        if full.is_symlink() || name.starts_with('.') && name != ".github" || name == "target" {
            continue;
        }
        if full.is_dir() {
            collect(&full, &format!("{path}/"), files)?;
        } else if !path.starts_with(SELF) && EXTENSIONS.iter().any(|known| extension(&name) == *known) {
            files.push(path);
        }
    }
    Ok(())
}

fn extension(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// The faults of one file.
fn faults_of(file: &str, text: &str) -> Vec<Fault> {
    let (is_rust, is_markdown) = (extension(file) == "rs", extension(file) == "md");
    let folder = file.split_once('/').map_or("root", |(folder, _)| folder);
    let area = if is_markdown { "docs" } else { folder };
    let mut faults = Vec::new();
    let mut add = |kind, line, why| faults.push(Fault { kind, area: area.into(), file: file.into(), line, why });
    if is_rust && let Some(plain) = banned_file_name(file) {
        add(Kind::Name, 1, format!("the name of this file; use {plain}"));
    }
    let mut is_code = false;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let plain = normalized(line);
        listed(&plain, WORDS).for_each(|why| add(Kind::Word, number, why));
        listed(&plain, PHRASES).for_each(|why| add(Kind::Phrase, number, why));
        if is_rust {
            names_in(line).for_each(|why| add(Kind::Name, number, why));
        }
        is_code ^= fence(line, is_markdown);
        let columns = line.chars().count();
        if columns > COLUMNS_MAX && !is_code && (is_rust && is_comment(line) || is_markdown && is_prose(line)) {
            add(Kind::Width, number, format!("{columns} columns; wrap at {COLUMNS_MAX}"));
        }
    }
    if is_rust && DOCUMENTED.iter().any(|package| file.starts_with(&format!("{package}/src/"))) {
        short_docs(text).into_iter().for_each(|(line, why)| add(Kind::Doc, line, why));
    }
    faults.sort_by_key(|fault| fault.line);
    faults
}

/// Whether this line begins or ends a block of code, in Markdown or in a doc comment.
fn fence(line: &str, is_markdown: bool) -> bool {
    let line = line.trim_start();
    let text = if is_markdown { Some(line) } else { line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) };
    text.is_some_and(|text| text.trim_start().starts_with("```"))
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

/// Rows of tables cannot be wrapped, nor can a line of one word, such as a link.
fn is_prose(line: &str) -> bool {
    !line.starts_with('|') && line.trim().contains(' ')
}

/// The line in lower case, with spaces for `_` and `-`.
fn normalized(line: &str) -> String {
    let mut plain = line.to_ascii_lowercase();
    if plain.contains('_') || plain.contains('-') {
        plain = plain.replace(['_', '-'], " ");
    }
    plain
}

/// The entries of `list` that occur in a normalized line, each once.
fn listed<'a>(plain: &'a str, list: &'static [(&str, &str)]) -> impl Iterator<Item = String> + 'a {
    list.iter().filter(|(term, _)| plain.contains(term)).filter_map(move |(term, instead)| {
        let is_allowed_in = |allowed: &&&str| allowed.split(|c: char| !c.is_alphanumeric()).any(|word| word == *term);
        let allowed: usize = ALLOWED.iter().filter(is_allowed_in).map(|allowed| whole(plain, allowed)).sum();
        (whole(plain, term) > allowed).then(|| format!("\"{term}\": write {instead}"))
    })
}

/// How often `term` occurs in `text` as whole words.
fn whole(text: &str, term: &str) -> usize {
    let is_free = |letter: Option<char>| !letter.is_some_and(char::is_alphanumeric);
    let is_whole = |at: &usize| is_free(text[..*at].chars().next_back()) && is_free(text[at + term.len()..].chars().next());
    text.match_indices(term).map(|(at, _)| at).filter(is_whole).count()
}

/// The old names that a line of code uses as a type or declares as a module.
fn names_in(line: &str) -> impl Iterator<Item = String> {
    let code = line.split_once("//").map_or(line, |(code, _)| code);
    let module =
        code.trim_start().trim_start_matches("pub ").strip_prefix("mod ").map(|rest| rest.trim_end_matches([';', ' ', '{']));
    let is_type = |name: &str| {
        let is_free = |letter: Option<char>| !letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
        code.match_indices(name)
            .any(|(at, _)| is_free(code[..at].chars().next_back()) && is_free(code[at + name.len()..].chars().next()))
    };
    let is_used = move |name: &str| is_type(name) || module.is_some_and(|module| name.eq_ignore_ascii_case(module));
    NAMES.iter().filter(move |(name, _)| is_used(name)).map(|(name, instead)| format!("{name}: use {instead}"))
}

/// The name to use instead, if the file or its folder has an old one.
fn banned_file_name(file: &str) -> Option<&'static str> {
    let stem = file.rsplit('/').next()?.strip_suffix(".rs")?;
    NAMES.iter().find(|(name, _)| name.to_lowercase() == stem).map(|(_, instead)| *instead)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(file: &str, text: &str) -> Vec<(Kind, usize)> {
        faults_of(file, text).into_iter().map(|fault| (fault.kind, fault.line)).collect()
    }

    #[test]
    fn words_match_whole_and_in_any_case() {
        assert_eq!(
            found("core/src/a.rs", "// Told.\nfn undo_told() {}\n// untold, retold"),
            [(Kind::Word, 1), (Kind::Word, 2)]
        );
        assert_eq!(found("a.sql", "-- the crew"), [(Kind::Word, 1)]);
    }

    #[test]
    fn dead_letters_are_allowed_and_letters_are_not() {
        assert!(found("docs/a.md", "dead letters, dead-letters, `dead_letters`").is_empty());
        assert_eq!(found("docs/a.md", "dead letters and letters"), [(Kind::Word, 1)]);
    }

    #[test]
    fn phrases_match_across_spaces_and_underscores() {
        assert_eq!(
            found("cli/src/a.rs", "mod in_hand;\n// It is on record."),
            [(Kind::Phrase, 1), (Kind::Phrase, 2), (Kind::Phrase, 2)]
        );
    }

    #[test]
    fn names_match_types_modules_and_files() {
        assert_eq!(
            found("core/src/a.rs", "mod care;\nlet care = Spot::new();\nlet spot = a << b;"),
            [(Kind::Name, 1), (Kind::Name, 2)]
        );
        assert_eq!(found("core/src/shift.rs", ""), [(Kind::Name, 1)]);
        assert!(found("core/src/a.rs", "// A Shift of work").is_empty());
    }

    #[test]
    fn long_comments_and_prose_are_found_and_code_is_not() {
        let long = "word ".repeat(21);
        assert_eq!(found("xtask/src/a.rs", &format!("    /// {long}\nlet a = {long};")), [(Kind::Width, 1)]);
        assert_eq!(found("a.md", &format!("{long}\n| {long}|\n```\n{long}\n```\n{}", "x".repeat(120))), [(Kind::Width, 1)]);
    }

    #[test]
    fn areas_are_packages_docs_and_the_root() {
        let area = |file: &str| faults_of(file, "# told")[0].area.clone();
        assert_eq!([area("core/Cargo.toml"), area("bench/README.md"), area("deny.toml")], ["core", "docs", "root"]);
    }
}
