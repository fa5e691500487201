//! Makes text from a store or a process harmless to a terminal.
//!
//! Ids, states, errors and panics are written by programs and users. A terminal executes the escape
//! sequences in them: they could change its title, hide lines or answer questions.

use std::fmt;

/// Shows `text` with every control character made visible, on one line.
///
/// Line breaks become `\n`, other control characters `\xNN` or `\u{NNNN}`, and so do the characters
/// that change the direction of text.
#[derive(Clone, Copy, Debug)]
pub struct OneLine<'a>(pub &'a str);

/// Shows `text` with control characters made visible, except line breaks and tabs.
#[derive(Clone, Copy, Debug)]
pub struct ManyLines<'a>(pub &'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| write_visible(f, character))
    }
}

impl fmt::Display for ManyLines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        self.0.chars().try_for_each(|character| match character {
            '\n' | '\t' => f.write_char(character),
            character => write_visible(f, character),
        })
    }
}

fn write_visible(f: &mut fmt::Formatter<'_>, character: char) -> fmt::Result {
    use fmt::Write as _;
    match character {
        '\n' => f.write_str("\\n"),
        '\t' => f.write_str("\\t"),
        '\r' => f.write_str("\\r"),
        '\0'..='\u{1f}' | '\u{7f}' => write!(f, "\\x{:02x}", character as u32),
        '\u{80}'..='\u{9f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => {
            write!(f, "\\u{{{:x}}}", character as u32)
        }
        character => f.write_char(character),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_visible() {
        assert_eq!(OneLine("a\u{1b}[31mb\r\n\t\u{7f}").to_string(), "a\\x1b[31mb\\r\\n\\t\\x7f");
        assert_eq!(OneLine("c\u{9b}d\u{202e}e").to_string(), "c\\u{9b}d\\u{202e}e");
        assert_eq!(ManyLines("a\n\tb\u{7}").to_string(), "a\n\tb\\x07");
        assert_eq!(OneLine("größe 漢字 🙂").to_string(), "größe 漢字 🙂");
    }
}
