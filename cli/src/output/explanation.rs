//! [`Explanation`]: the answer of `pleach why`, in the order in which a reader needs it.

use super::escape::OneLine;
use super::table::width_of;
use super::{Colour, Style};
pub use pleach_console::report::Explanation;
use pleach_console::report::explanation::COMMENT;

/// Returns one line for each sentence. On a terminal long lines are wrapped.
pub fn text(explanation: &Explanation, style: &Style) -> String {
    let parts = [
        ("cause", Colour::Red, &explanation.cause),
        ("so", Colour::Yellow, &explanation.so),
        ("note", Colour::Dim, &explanation.note),
        ("do", Colour::Green, &explanation.advice),
    ];
    let mut text = String::new();
    for (label, colour, sentences) in parts {
        for sentence in sentences {
            text.push_str(&style.paint(colour, &format!("{label}:")));
            let sentence = OneLine(sentence).to_string();
            // A command stays on one line, so that it can be copied.
            let width = style.width.filter(|_| !sentence.contains(COMMENT)).map(|width| width - INDENT);
            let lines = wrapped(&sentence, width);
            for (at, line) in lines.iter().enumerate() {
                let indent = if at == 0 { INDENT - label.len() - 1 } else { INDENT };
                text.push_str(&format!("{:indent$}{line}\n", ""));
            }
        }
    }
    text
}
/// The columns before a sentence: the longest label, a colon and a space.
const INDENT: usize = 7;

/// Breaks a text at spaces, so that lines have at most `width` columns. A longer word stays whole.
pub fn wrapped(text: &str, width: Option<usize>) -> Vec<String> {
    let Some(width) = width else { return vec![text.to_string()] };
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("it begins with one line");
        if last.is_empty() {
            last.push_str(word);
        } else if width_of(last) + 1 + width_of(word) <= width {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_string());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::times::Times;
    use super::*;

    #[test]
    fn sentences_are_wrapped_on_a_terminal_only() {
        let explanation = Explanation {
            cause: vec!["/user/bank has been handling bank::Charge for 12.4 s and handles nothing else".into()],
            advice: vec!["set a \u{1b}timeout".into()],
            ..Explanation::default()
        };
        let style = |width| Style { width, colour: false, times: Times::new(true) };
        assert_eq!(
            text(&explanation, &style(Some(60))),
            "cause: /user/bank has been handling bank::Charge for 12.4 s\n       and handles nothing else\ndo:    set a \\x1btimeout\n"
        );
        assert_eq!(text(&explanation, &style(None)).lines().count(), 2);
        let command = "pleach runs answer orders.db order-7 approve JSON  # answers it, and the run continues";
        let explanation = Explanation { advice: vec![command.into()], ..Explanation::default() };
        assert_eq!(text(&explanation, &style(Some(60))), format!("do:    {command}\n"));
    }
}
