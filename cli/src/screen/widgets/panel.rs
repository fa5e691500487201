//! Frames around areas.

use crate::screen::text::fit;
use crate::screen::{Canvas, Line, Rect, Span};

/// Paints a frame with a title around `area`, and returns the area inside.
pub fn panel(canvas: &mut Canvas<'_>, area: Rect, title: &str) -> Rect {
    let area = area.intersection(canvas.area());
    if area.width < 4 || area.height < 2 {
        return Rect { width: 0, height: 0, ..area };
    }
    let (glyphs, theme) = (canvas.look().glyphs, canvas.look().theme);
    let [top_left, top_right, bottom_left, bottom_right, side, upright] = glyphs.frame;
    let inside = usize::from(area.width) - 2;
    let title =
        if title.is_empty() { String::new() } else { format!(" {} ", fit(title, inside.saturating_sub(3), canvas.look())) };
    let used = crate::output::table::width_of(&title) + usize::from(!title.is_empty());
    let lead = if title.is_empty() { "" } else { side };
    let top = Line::from(vec![
        Span::styled(format!("{top_left}{lead}"), theme.weak),
        Span::styled(title, theme.strong),
        Span::styled(format!("{}{top_right}", side.repeat(inside.saturating_sub(used))), theme.weak),
    ]);
    canvas.line(area, top);
    for y in area.top() + 1..area.bottom() - 1 {
        let row = Rect { y, height: 1, ..area };
        canvas.line(row, Span::styled(upright, theme.weak));
        canvas.line_right(row, Span::styled(upright, theme.weak));
    }
    let bottom = Rect { y: area.bottom() - 1, height: 1, ..area };
    canvas.line(bottom, Span::styled(format!("{bottom_left}{}{bottom_right}", side.repeat(inside)), theme.weak));
    Rect { x: area.x + 1, y: area.y + 1, width: area.width - 2, height: area.height - 2 }
}

/// Paints an empty frame over the middle of the screen, with room for `rows` lines of `columns`, or
/// as much as there is. Returns the area for the text.
pub fn dialog(canvas: &mut Canvas<'_>, title: &str, columns: u16, rows: u16) -> Rect {
    let screen = canvas.area();
    let (width, height) = ((columns + 4).min(screen.width), (rows + 2).min(screen.height));
    let area = Rect { x: (screen.width - width) / 2, y: (screen.height - height) / 2, width, height };
    canvas.clear(area);
    let inside = panel(canvas, area, title);
    Rect { x: inside.x + 1, width: inside.width.saturating_sub(2), ..inside }
}
