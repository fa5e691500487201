//! Command lines of `pleach`, for people to copy.

use super::escape::OneLine;

/// Returns a command line for a run, such as `pleach runs show runs.db order-7`.
///
/// `store` is the argument STORE; `more` is appended as it is.
pub fn of_run(store: &str, run: &str, word: &str, more: &str) -> String {
    let separator = if more.is_empty() { "" } else { " " };
    format!("pleach runs {word} {} {}{separator}{more}", quoted(store), quoted(run))
}

/// Returns the command line that says which runs of a store a new program would not serve.
pub fn check(store: &str) -> String {
    format!("pleach check {} --graphs FILE.json", quoted(store))
}

/// Quotes a text for a shell, if needed. Control characters become escapes.
pub fn quoted(text: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_./:@%+,=".contains(character);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_string();
    }
    let visible = OneLine(text).to_string();
    if visible == text {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let mut escaped = String::from("$'");
    for character in text.chars() {
        match character {
            '\'' => escaped.push_str("\\'"),
            '\\' => escaped.push_str("\\\\"),
            character if OneLine(character.encode_utf8(&mut [0; 4])).to_string().len() == character.len_utf8() => {
                escaped.push(character);
            }
            character => {
                let mut bytes = [0; 4];
                character.encode_utf8(&mut bytes).bytes().for_each(|byte| escaped.push_str(&format!("\\x{byte:02x}")));
            }
        }
    }
    escaped + "'"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_quoted_for_a_shell() {
        for (text, expected) in
            [("order-7", "order-7"), ("essay on actors", "'essay on actors'"), ("it's", r"'it'\''s'"), ("", "''")]
        {
            assert_eq!(quoted(text), expected);
        }
        assert_eq!(quoted("a\u{1b}[31m'\u{9b}"), r"$'a\x1b[31m\'\xc2\x9b'");
    }
}
