//! [`Canvas`]: the cells of one frame. [`Frames`]: what changed since the frame before, as bytes.

use super::look::Look;
use super::text::visible;
use super::{CellStyle, Line, Rect, Span};
use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::queue;
use crossterm::style::Print;
use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::layout::Position;
use ratatui_core::style::{Color, Modifier};
use std::io::{self, Write as _};

/// Begin and end of synchronized output: the terminal shows what is between them at once.
const BEGIN: &[u8] = b"\x1b[?2026h";
const END: &[u8] = b"\x1b[?2026l";

/// The cells of one frame, and how they look.
pub struct Canvas<'a> {
    cells: &'a mut Buffer,
    look: &'a Look,
    cursor: &'a mut Option<Position>,
}

impl Canvas<'_> {
    /// Returns the whole screen.
    pub fn area(&self) -> Rect {
        self.cells.area
    }

    pub fn look(&self) -> &Look {
        self.look
    }

    /// Writes a line into the first row of `area`, cut at its end. Cells behind it keep what they
    /// have.
    pub fn line<'b>(&mut self, area: Rect, line: impl Into<Line<'b>>) {
        let (area, line) = (area.intersection(self.cells.area), harmless(line.into(), self.look));
        if !area.is_empty() {
            self.cells.set_line(area.x, area.y, &line, area.width);
        }
    }

    /// Writes a line so that it ends at the right side of the first row of `area`.
    pub fn line_right<'b>(&mut self, area: Rect, line: impl Into<Line<'b>>) {
        let line = harmless(line.into(), self.look);
        let width = u16::try_from(line.width()).unwrap_or(u16::MAX).min(area.width);
        self.line(Rect { x: area.right() - width, width, ..area }, line);
    }

    /// Writes lines from the top of `area` on, and returns the rows below them.
    pub fn lines<'b>(&mut self, area: Rect, lines: impl IntoIterator<Item = Line<'b>>) -> Rect {
        let mut rest = area;
        for line in lines {
            if rest.height == 0 {
                break;
            }
            self.line(rest, line);
            (_, rest) = split_top(rest, 1);
        }
        rest
    }

    /// Changes the style of all cells of `area`.
    pub fn style(&mut self, area: Rect, style: CellStyle) {
        self.cells.set_style(area, style);
    }

    /// Returns whether a cell of this frame is empty.
    pub fn is_blank(&self, x: u16, y: u16) -> bool {
        self.cells.cell((x, y)).is_none_or(|cell| cell.symbol() == " ")
    }

    /// Replaces the style of all cells of `area`.
    pub fn restyle(&mut self, area: Rect, style: CellStyle) {
        self.cells.set_style(area, CellStyle::reset().patch(style));
    }

    /// Empties `area`.
    pub fn clear(&mut self, area: Rect) {
        let area = area.intersection(self.cells.area);
        for position in area.positions() {
            self.cells[position].reset();
        }
    }

    /// Shows the cursor at a cell of this frame.
    pub fn cursor(&mut self, x: u16, y: u16) {
        let position = Position { x, y };
        *self.cursor = self.cells.area.contains(position).then_some(position);
    }
}

/// Splits rows from the top of an area.
pub fn split_top(area: Rect, rows: u16) -> (Rect, Rect) {
    let rows = rows.min(area.height);
    (Rect { height: rows, ..area }, Rect { y: area.y + rows, height: area.height - rows, ..area })
}

/// Splits rows from the bottom of an area. Returns them second.
pub fn split_bottom(area: Rect, rows: u16) -> (Rect, Rect) {
    let rows = rows.min(area.height);
    split_top(area, area.height - rows)
}

/// Makes control characters of all spans visible.
fn harmless<'a>(line: Line<'a>, look: &Look) -> Line<'a> {
    let (style, alignment) = (line.style, line.alignment);
    let spans = line.spans.into_iter().map(|span| match visible(&span.content, look) {
        Some(text) => Span { content: text.into(), style: span.style },
        None => span,
    });
    Line { spans: spans.collect(), style, alignment }
}

/// The frame that the terminal shows.
pub struct Frames {
    /// `None` if the terminal may show something else.
    shown: Option<Buffer>,
    next: Buffer,
    cursor: Option<Position>,
}

impl Frames {
    pub fn new(area: Rect) -> Self {
        Self { shown: None, next: Buffer::empty(area), cursor: None }
    }

    /// Makes the next frame write all its cells.
    pub fn forget(&mut self) {
        (self.shown, self.cursor) = (None, None);
    }

    /// Paints a frame and returns the bytes that bring the terminal there. Empty if it shows it.
    pub fn draw(&mut self, area: Rect, look: &Look, paint: impl FnOnce(&mut Canvas<'_>)) -> Vec<u8> {
        if self.next.area != area {
            self.next.resize(area);
            self.forget();
        }
        self.next.reset();
        let mut cursor = None;
        paint(&mut Canvas { cells: &mut self.next, look, cursor: &mut cursor });
        let empty = Buffer::empty(area);
        let mut bytes = BEGIN.to_vec();
        if self.shown.is_none() {
            bytes.extend_from_slice(b"\x1b[0m\x1b[2J");
        }
        let changed = self.shown.as_ref().unwrap_or(&empty).diff(&self.next);
        if changed.is_empty() && self.shown.is_some() && self.cursor == cursor {
            return Vec::new();
        }
        // Writing to a vector cannot fail.
        drop(write_cells(&mut bytes, &changed, look));
        drop(write_cursor(&mut bytes, cursor));
        bytes.extend_from_slice(END);
        let before = self.shown.take().unwrap_or(empty);
        self.shown = Some(std::mem::replace(&mut self.next, before));
        self.cursor = cursor;
        bytes
    }
}

fn write_cursor(bytes: &mut Vec<u8>, cursor: Option<Position>) -> io::Result<()> {
    match cursor {
        Some(position) => queue!(bytes, MoveTo(position.x, position.y), Show),
        None => queue!(bytes, Hide),
    }
}

fn write_cells(bytes: &mut Vec<u8>, cells: &[(u16, u16, &Cell)], look: &Look) -> io::Result<()> {
    let (mut after, mut style) = (None, (Color::Reset, Color::Reset, Modifier::empty()));
    for (x, y, cell) in cells {
        if after != Some((*x, *y)) {
            queue!(bytes, MoveTo(*x, *y))?;
        }
        let wanted = (cell.fg, cell.bg, cell.modifier);
        if wanted != style {
            write_style(bytes, wanted)?;
            style = wanted;
        }
        // The last wall: whatever painted this cell, a terminal executes nothing in it.
        let symbol = if visible(cell.symbol(), look).is_some() { "?" } else { cell.symbol() };
        queue!(bytes, Print(symbol))?;
        after = Some((x + crate::output::table::width_of(symbol) as u16, *y));
    }
    write!(bytes, "\x1b[0m")
}

/// Writes a style with the codes that every terminal with colours knows.
fn write_style(bytes: &mut Vec<u8>, (front, back, modifier): (Color, Color, Modifier)) -> io::Result<()> {
    write!(bytes, "\x1b[0")?;
    let flags = [(Modifier::BOLD, 1), (Modifier::DIM, 2), (Modifier::UNDERLINED, 4), (Modifier::REVERSED, 7)];
    for (_, code) in flags.iter().filter(|(flag, _)| modifier.contains(*flag)) {
        write!(bytes, ";{code}")?;
    }
    for (base, colour) in [(30, front), (40, back)] {
        if let Some(number) = number_of(colour) {
            write!(bytes, ";{}", base + number)?;
        }
    }
    write!(bytes, "m")
}

/// Returns the number of one of the eight basic colours. A theme has no others.
fn number_of(colour: Color) -> Option<u8> {
    Some(match colour {
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(frames: &mut Frames, text: &str) -> String {
        let look = Look::with(true, false);
        let paint = |canvas: &mut Canvas<'_>| canvas.line(canvas.area(), Span::styled(text, look.theme.bad));
        String::from_utf8(frames.draw(Rect::new(0, 0, 20, 2), &look, paint)).unwrap()
    }

    #[test]
    fn only_changed_cells_are_written() {
        let mut frames = Frames::new(Rect::new(0, 0, 20, 2));
        assert!(drawn(&mut frames, "handled").contains("\x1b[0;1;31mhandled"));
        assert_eq!(drawn(&mut frames, "handled"), "", "an equal frame writes nothing");
        let next = drawn(&mut frames, "handler");
        assert!(next.contains("\x1b[1;7H\x1b[0;1;31mr\x1b[0m") && !next.contains("handle"), "{next:?}");
        frames.forget();
        assert!(drawn(&mut frames, "handler").contains("\x1b[2J"));
    }

    #[test]
    fn painted_text_is_harmless() {
        let mut frames = Frames::new(Rect::new(0, 0, 20, 2));
        let written = drawn(&mut frames, "a\u{1b}]0;x\u{7}b\u{202e}c");
        assert!(written.contains("a\\x1b]0;x\\x07b\\u{2"), "{written:?}");
        // What is painted around the canvas does not get through either.
        let mut bytes = Vec::new();
        write_cells(&mut bytes, &[(0, 0, &Cell::new("\u{1b}"))], &Look::with(false, false)).unwrap();
        assert_eq!(bytes, b"\x1b[1;1H?\x1b[0m");
    }

    #[test]
    fn painting_outside_of_the_screen_is_ignored() {
        let mut frames = Frames::new(Rect::new(0, 0, 20, 2));
        let look = Look::with(false, true);
        let outside = Rect::new(15, 1, 20, 9);
        let bytes = frames.draw(Rect::new(0, 0, 20, 2), &look, |canvas| {
            canvas.line(outside, "0123456789");
            canvas.line_right(Rect::new(0, 7, 5, 1), "below");
            canvas.style(outside, look.theme.selected);
            canvas.clear(Rect::new(30, 0, 5, 5));
            canvas.cursor(20, 0);
        });
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains("01234") && !text.contains("012345") && !text.contains("below"), "{text:?}");
    }
}
