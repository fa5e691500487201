//! Text on a screen: made harmless, cut and wrapped by display width.

use super::look::Look;
use crate::output::escape::OneLine;
use crate::output::table::{cut_with, width_of};
use unicode_width::UnicodeWidthChar as _;

/// Returns `text` with control characters as escapes, and other characters that the terminal cannot
/// show as `?`. `None` if nothing has to change.
pub fn visible(text: &str, look: &Look) -> Option<String> {
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return None;
    }
    let mut shown = OneLine(text).to_string();
    if look.glyphs.is_ascii && !shown.is_ascii() {
        shown = shown.chars().map(|character| if character.is_ascii() { character } else { '?' }).collect();
    }
    (shown != text).then_some(shown)
}

/// Makes a text harmless and cuts its end to `width` columns.
pub fn fit(text: &str, width: usize, look: &Look) -> String {
    let shown = visible(text, look);
    cut_with(shown.as_deref().unwrap_or(text), width, look.glyphs.ellipsis)
}

/// Makes a text harmless and cuts its beginning, for paths: their ends tell them apart.
pub fn fit_end(text: &str, width: usize, look: &Look) -> String {
    let shown = visible(text, look).unwrap_or_else(|| text.to_string());
    if width_of(&shown) <= width {
        return shown;
    }
    let (mut used, mut start) = (width_of(look.glyphs.ellipsis), shown.len());
    for (at, character) in shown.char_indices().rev() {
        used += character.width().unwrap_or(0);
        if used > width {
            break;
        }
        start = at;
    }
    if width < width_of(look.glyphs.ellipsis) { String::new() } else { format!("{}{}", look.glyphs.ellipsis, &shown[start..]) }
}

/// Adds spaces up to `width` columns.
pub fn pad(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(width_of(text))))
}

/// Adds spaces before the text, up to `width` columns.
pub fn pad_left(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(width.saturating_sub(width_of(text))))
}

/// Makes a text harmless and breaks it into lines of at most `width` columns, at spaces if it can.
pub fn wrap(text: &str, width: usize, look: &Look) -> Vec<String> {
    let (width, shown) = (width.max(1), visible(text, look));
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in shown.as_deref().unwrap_or(text).split(' ') {
        if !line.is_empty() && width_of(&line) + 1 + width_of(word) > width {
            lines.push(std::mem::take(&mut line));
        } else if !line.is_empty() {
            line.push(' ');
        }
        for character in word.chars() {
            if width_of(&line) + character.width().unwrap_or(0) > width {
                lines.push(std::mem::take(&mut line));
            }
            line.push(character);
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_display_width() {
        let look = &Look::with(false, false);
        let ascii = &Look::with(false, true);
        assert_eq!(fit("漢字漢字", 5, ascii), "????");
        assert_eq!(fit("/user/workers/17", 8, ascii), "/user/w~");
        assert_eq!(fit_end("/user/workers/17", 8, ascii), "~kers/17");
        assert_eq!((fit_end("ab", 2, ascii), fit_end("abc", 0, ascii)), ("ab".into(), String::new()));
        assert_eq!(fit("a\u{1b}[31mb", 20, look), "a\\x1b[31mb");
        assert_eq!(visible("plain", look), None);
        for width in 0..12 {
            assert!(width_of(&fit("日本 supervisor", width, look)) <= width);
            assert!(width_of(&fit_end("日本 supervisor", width, look)) <= width);
        }
    }

    #[test]
    fn text_is_wrapped_at_spaces() {
        let look = &Look::with(false, true);
        assert_eq!(wrap("stop it now", 7, look), ["stop it", "now"]);
        assert_eq!(wrap("abcdefghij", 4, look), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("", 4, look), [""]);
        assert_eq!(wrap("a\nb", 10, look), ["a\\nb"]);
    }
}
