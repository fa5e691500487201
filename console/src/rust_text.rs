//! Texts of programs as Rust: names, literals and comments of the tests that the console writes.

use crate::report::escape::OneLine;
use std::fmt::Write as _;

/// The longest name of a test, in characters.
const NAME_MAX: usize = 60;

/// The longest line of a comment that quotes a program, in characters.
const COMMENT_MAX: usize = 200;

/// Returns a name of a function from words: ASCII letters and digits in lower case, and `_`.
pub(crate) fn name(words: &str) -> String {
    let mut name = String::new();
    for character in words.chars() {
        match character {
            letter if letter.is_ascii_alphanumeric() => name.push(letter.to_ascii_lowercase()),
            _ if name.is_empty() || name.ends_with('_') => {}
            _ => name.push('_'),
        }
    }
    name.truncate(NAME_MAX);
    let name = name.trim_end_matches('_');
    if name.starts_with(|first: char| first.is_ascii_digit()) { format!("test_{name}") } else { name.to_string() }
}

/// Returns a text for a comment: on one line, with control characters made visible.
pub(crate) fn comment(text: &str) -> String {
    let text = OneLine(text).to_string();
    match text.char_indices().nth(COMMENT_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Returns a text as a string literal.
pub(crate) fn literal(text: &str) -> String {
    let mut escaped = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => escaped.extend(['\\', character]),
            character if OneLine(character.encode_utf8(&mut [0; 4])).to_string() == character.to_string() => {
                escaped.push(character);
            }
            // Writing to a string does not fail.
            character => drop(write!(escaped, "\\u{{{:x}}}", character as u32)),
        }
    }
    escaped.push('"');
    escaped
}

/// Returns a JSON text as a raw string literal. Characters that change the direction of text become
/// escapes of JSON, because the compiler refuses them.
pub(crate) fn raw_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        let code = character as u32;
        let is_hidden = matches!(code, 0x7f..=0x9f | 0x200b..=0x200f | 0x2028..=0x202e | 0x2066..=0x2069 | 0xfeff);
        match is_hidden {
            true => drop(write!(text, "\\u{code:04x}")),
            false => text.push(character),
        }
    }
    let mut hashes = String::from("#");
    while text.contains(&format!("\"{hashes}")) {
        hashes.push('#');
    }
    format!("r{hashes}\"{text}\"{hashes}")
}

/// Compares a text with a file of `console/tests/generated`, which is compiled and run. With
/// `PLEACH_WRITE_GOLDEN=1` the file is written instead.
#[cfg(test)]
pub(crate) fn assert_sample(file: &str, text: &str) {
    let path = format!("{}/tests/generated/{file}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("PLEACH_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&path).unwrap_or_default(), "{path}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k6_hostile_texts_become_harmless_rust() {
        assert_eq!(name("Order 7/β „x“ fails"), "order_7_x_fails");
        assert_eq!(name("7 up"), "test_7_up");
        assert_eq!(comment("a\n#![evil]\u{202e}"), "a\\n#![evil]\\u{202e}");
        assert_eq!(literal("a\"\\\n\u{202e}ü"), r#""a\"\\\u{a}\u{202e}ü""#);
        assert_eq!(raw_json("{\"a\":\"#\u{202e}\"}"), "r##\"{\"a\":\"#\\u202e\"}\"##");
    }
}
