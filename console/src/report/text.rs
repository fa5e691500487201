//! Lengths and counts in texts.

use unicode_width::UnicodeWidthChar as _;

/// Returns the columns that a text takes on a terminal.
pub fn width_of(text: &str) -> usize {
    text.chars().map(|character| character.width().unwrap_or(0)).sum()
}

/// Cuts a text to `width` columns. A cut text ends with `…`.
pub fn cut(text: &str, width: usize) -> String {
    cut_with(text, width, "…")
}

/// Cuts a text to `width` columns. A cut text ends with `mark`.
pub fn cut_with(text: &str, width: usize, mark: &str) -> String {
    if width_of(text) <= width {
        return text.to_string();
    }
    if width < width_of(mark) {
        return String::new();
    }
    let (mut kept, mut used) = (String::new(), width_of(mark));
    for character in text.chars() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_by_columns() {
        assert_eq!((cut("order", 5).as_str(), cut("orders", 5).as_str()), ("order", "orde…"));
        assert_eq!((cut("漢字漢字", 5).as_str(), width_of("漢字")), ("漢字…", 4));
        assert_eq!((counted(1, "run"), counted(3, "run")), ("1 run".into(), "3 runs".into()));
    }
}
