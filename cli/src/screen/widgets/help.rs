//! [`Help`]: a panel with all keys.

use super::{Hint, dialog};
use crate::output::table::width_of;
use crate::screen::text::pad;
use crate::screen::{Canvas, Key, Line, Span};

/// Keys under a title.
#[derive(Clone, Copy, Debug)]
pub struct HelpSection {
    pub title: &'static str,
    pub hints: &'static [Hint],
}

/// The help panel. The view keeps it while it is open, and gives it all keys.
#[derive(Debug, Default)]
pub struct Help {
    /// The first line that is shown, if there is not room for all.
    first: usize,
}

impl Help {
    /// Reacts to a key. Returns false if the panel must be closed.
    pub fn key(&mut self, key: Key) -> bool {
        match key {
            Key::Down | Key::Char('j') | Key::PageDown | Key::Char(' ') => self.first += 1,
            Key::Up | Key::Char('k') | Key::PageUp => self.first = self.first.saturating_sub(1),
            _ => return false,
        }
        true
    }

    pub fn paint(&mut self, canvas: &mut Canvas<'_>, sections: &[HelpSection]) {
        let theme = canvas.look().theme;
        let keys = sections.iter().flat_map(|section| section.hints).map(|hint| width_of(hint.key)).max().unwrap_or(0);
        let mut lines = Vec::new();
        for section in sections.iter().filter(|section| !section.hints.is_empty()) {
            lines.extend((!lines.is_empty()).then(Line::default));
            lines.push(Line::from(Span::styled(section.title, theme.strong)));
            lines.extend(section.hints.iter().map(|hint| {
                let key = Span::styled(pad(hint.key, keys), theme.key);
                Line::from(vec![Span::raw("  "), key, Span::raw("  "), Span::raw(hint.does)])
            }));
        }
        let columns = lines.iter().map(Line::width).max().unwrap_or(0);
        let (rows, columns) = (u16::try_from(lines.len()).unwrap_or(u16::MAX - 2), u16::try_from(columns).unwrap_or(200));
        let is_cut = rows + 2 > canvas.area().height;
        let title = if is_cut { "Keys: j k scroll, others close this" } else { "Keys: any other key closes this" };
        let area = dialog(canvas, title, columns.max(40), rows);
        self.first = self.first.min(lines.len().saturating_sub(usize::from(area.height)));
        canvas.lines(area, lines.into_iter().skip(self.first));
    }
}
