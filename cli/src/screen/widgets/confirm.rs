//! [`Confirm`]: asks before something is changed, and names the consequence.

use super::dialog;
use crate::screen::text::wrap;
use crate::screen::{Canvas, Key, Line, Span};

/// The widest text of a dialog, in columns.
const WIDTH_MAX: u16 = 64;

/// A question. The view keeps it while it is open, and gives it all keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirm {
    /// What is asked, such as `Restart /user/till?`.
    pub question: String,
    /// What will happen, in sentences.
    pub consequence: String,
    /// What `y` does, such as `restart it`.
    pub yes: String,
}

/// The answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Yes,
    No,
}

impl Confirm {
    /// Returns the answer that a key gives. Enter gives none: it is typed too easily.
    pub fn key(&self, key: Key) -> Option<Answer> {
        match key {
            Key::Char('y' | 'Y') => Some(Answer::Yes),
            Key::Char('n' | 'N' | 'q') | Key::Esc => Some(Answer::No),
            _ => None,
        }
    }

    pub fn paint(&self, canvas: &mut Canvas<'_>) {
        let (look, theme) = (canvas.look().clone(), canvas.look().theme);
        let columns = WIDTH_MAX.min(canvas.area().width.saturating_sub(4));
        let mut lines: Vec<Line<'_>> = wrap(&self.question, usize::from(columns), &look)
            .into_iter()
            .map(|line| Line::from(Span::styled(line, theme.strong)))
            .collect();
        lines.push(Line::default());
        lines.extend(wrap(&self.consequence, usize::from(columns), &look).into_iter().map(Line::from));
        lines.push(Line::default());
        lines.push(Line::from(vec![
            Span::styled("y", theme.key),
            Span::raw(format!(" {}     ", self.yes)),
            Span::styled("n", theme.key),
            Span::raw(" do nothing"),
        ]));
        let rows = u16::try_from(lines.len()).unwrap_or(u16::MAX - 2);
        let area = dialog(canvas, "Confirm", columns, rows);
        canvas.lines(area, lines);
    }
}
