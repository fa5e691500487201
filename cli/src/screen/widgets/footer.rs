//! The last line of a view: the keys that work here.

use crate::screen::{Canvas, Line, Rect, Span};

/// A key, and what it does here in one or two words.
#[derive(Clone, Copy, Debug)]
pub struct Hint {
    pub key: &'static str,
    pub does: &'static str,
}

impl Hint {
    pub const fn new(key: &'static str, does: &'static str) -> Self {
        Self { key, does }
    }
}

/// Paints the hints that fit, the most useful first, and at the right the ones that must be there,
/// such as `?` and `q`.
pub fn footer(canvas: &mut Canvas<'_>, area: Rect, hints: &[Hint], always: &[Hint]) {
    let theme = canvas.look().theme;
    let spans = |hint: &Hint| vec![Span::styled(hint.key, theme.key), Span::raw(" "), Span::styled(hint.does, theme.weak)];
    let joined = |hints: &[Hint]| {
        let mut line = Line::default();
        for (at, hint) in hints.iter().enumerate() {
            line.spans.extend((at > 0).then(|| Span::raw("  ")));
            line.spans.extend(spans(hint));
        }
        line
    };
    let (end, mut shown) = (joined(always), hints.len());
    let room = usize::from(area.width).saturating_sub(end.width() + 2);
    while shown > 0 && joined(&hints[..shown]).width() > room {
        shown -= 1;
    }
    canvas.line(area, joined(&hints[..shown]));
    canvas.line_right(area, end);
}
