//! [`Prompt`]: a line of text that is being typed, such as a filter.

use crate::output::table::width_of;
use crate::screen::text::{fit_end, visible};
use crate::screen::{Canvas, Key, Line, Rect, Span};

/// The longest text, in characters.
const LEN_MAX: usize = 512;

/// A line of text. Typing and deleting happen at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    pub text: String,
}

/// What a key did to a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typed {
    /// The text may have changed.
    Changed,
    /// Enter.
    Done,
    /// Esc, or Backspace in an empty line.
    Left,
    /// The key is not for a prompt.
    Other,
}

impl Prompt {
    pub fn key(&mut self, key: Key) -> Typed {
        match key {
            Key::Char(character) => self.paste(character.encode_utf8(&mut [0; 4])),
            Key::Backspace if self.text.is_empty() => return Typed::Left,
            Key::Backspace => drop(self.text.pop()),
            Key::Ctrl('u') => self.text.clear(),
            Key::Ctrl('w') => {
                let kept = self.text.trim_end_matches(['/', ' ']).rfind(['/', ' ']).map_or(0, |at| at + 1);
                self.text.truncate(kept);
            }
            Key::Enter => return Typed::Done,
            Key::Esc => return Typed::Left,
            _ => return Typed::Other,
        }
        Typed::Changed
    }

    /// Adds text at the end, without its control characters.
    pub fn paste(&mut self, text: &str) {
        let room = LEN_MAX.saturating_sub(self.text.chars().count());
        self.text.extend(text.chars().filter(|character| !character.is_control()).take(room));
    }

    /// Paints the line behind a mark, with the cursor at its end.
    pub fn paint(&self, canvas: &mut Canvas<'_>, area: Rect, mark: &'static str) {
        let room = usize::from(area.width).saturating_sub(mark.len() + 1);
        let text = fit_end(visible(&self.text, canvas.look()).as_deref().unwrap_or(&self.text), room, canvas.look());
        let end = mark.len() + width_of(&text);
        canvas.line(area, Line::from(vec![Span::styled(mark, canvas.look().theme.key), Span::raw(text)]));
        canvas.cursor(area.x + u16::try_from(end).unwrap_or(u16::MAX), area.y);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_is_typed_pasted_and_deleted() {
        let mut prompt = Prompt::default();
        assert_eq!(prompt.key(Key::Char('a')), Typed::Changed);
        prompt.paste("\u{1b}[31m/b/c\n");
        assert_eq!(prompt.text, "a[31m/b/c");
        prompt.key(Key::Ctrl('w'));
        assert_eq!(prompt.text, "a[31m/b/");
        prompt.key(Key::Ctrl('u'));
        assert_eq!((prompt.key(Key::Backspace), prompt.key(Key::Enter)), (Typed::Left, Typed::Done));
        prompt.paste(&"x".repeat(LEN_MAX + 9));
        assert_eq!(prompt.text.len(), LEN_MAX);
    }
}
