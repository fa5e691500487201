//! Lengths, counts and indentation of texts.

use unicode_width::UnicodeWidthChar as _;

/// The deepest indentation, so that deep values do not become long texts.
const INDENT_MAX: usize = 64;

/// The most characters for each column. Some characters take no column.
const CHARACTERS_PER_COLUMN: usize = 4;

/// Returns the columns that a text takes on a terminal.
pub fn width_of(text: &str) -> usize {
    text.chars().map(|character| character.width().unwrap_or(0)).sum()
}

/// Cuts a text to `width` columns, and to four characters for each. A cut text ends with `…`.
pub fn cut(text: &str, width: usize) -> String {
    cut_with(text, width, "…")
}

/// Cuts a text to `width` columns. A cut text ends with `mark`.
pub fn cut_with(text: &str, width: usize, mark: &str) -> String {
    let characters_max = width.saturating_mul(CHARACTERS_PER_COLUMN);
    let is_short = text.chars().nth(characters_max).is_none();
    if is_short && width_of(text) <= width {
        return text.to_string();
    }
    if width < width_of(mark) {
        return String::new();
    }
    let (mut kept, mut used) = (String::new(), width_of(mark));
    for character in text.chars().take(characters_max) {
        used += character.width().unwrap_or(0);
        if used > width {
            break;
        }
        kept.push(character);
    }
    kept.push_str(mark);
    kept
}

/// Returns a count with its noun: `1 run`, `3 runs`.
pub fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Adds line breaks and indentation to a JSON text. Nothing of it is decoded. The 65th level and
/// deeper ones are indented as the 64th.
pub fn indented(json: &str) -> String {
    let (mut text, mut depth, mut in_string, mut is_escaped) = (String::with_capacity(json.len() * 2), 0usize, false, false);
    let mut characters = json.chars().peekable();
    let line = |text: &mut String, depth: usize| {
        text.push('\n');
        text.extend(std::iter::repeat_n("  ", depth.min(INDENT_MAX)));
    };
    while let Some(character) = characters.next() {
        if in_string {
            text.push(character);
            in_string = is_escaped || character != '"';
            is_escaped = character == '\\' && !is_escaped;
            continue;
        }
        match character {
            '"' => {
                in_string = true;
                text.push('"');
            }
            '{' | '[' => {
                text.push(character);
                if matches!(characters.peek(), Some('}' | ']')) {
                    text.extend(characters.next());
                } else {
                    depth += 1;
                    line(&mut text, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut text, depth);
                text.push(character);
            }
            ',' => {
                text.push(',');
                line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            ' ' | '\n' | '\t' | '\r' => {}
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_by_columns() {
        assert_eq!((cut("order", 5).as_str(), cut("orders", 5).as_str()), ("order", "orde…"));
        assert_eq!((cut("漢字漢字", 5).as_str(), width_of("漢字")), ("漢字…", 4));
        assert_eq!((counted(1, "run"), counted(3, "run")), ("1 run".into(), "3 runs".into()));
    }

    #[test]
    fn k5_texts_without_columns_and_deep_values_stay_short() {
        assert_eq!(cut(&"\u{1b}".repeat(1_000_000), 10).chars().count(), 41);
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let text = indented(&deep);
        assert!(text.len() < 20_000 * (2 + 2 * INDENT_MAX), "{} bytes", text.len());
        assert_eq!(text.split_whitespace().collect::<String>(), deep);
    }

    #[test]
    fn json_is_indented() {
        assert_eq!(indented(r#"{"a":[1,{}],"b":"x,{\"y"}"#), "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": \"x,{\\\"y\"\n}");
    }
}
