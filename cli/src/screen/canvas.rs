//! [`Canvas`]: the cells of one frame. [`Frames`]: what changed since the frame before, as bytes.

use super::look::Look;
use super::text::visible;
use super::{CellStyle, Line, Rect, Span};
use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::queue;
use crossterm::style::{Attribute, Color as Shade, Colors, Print, SetAttribute, SetColors};
use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::layout::Position;
use ratatui_core::style::{Color, Modifier};
use std::io;

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
    queue!(bytes, SetAttribute(Attribute::Reset))
}

fn write_style(bytes: &mut Vec<u8>, (front, back, modifier): (Color, Color, Modifier)) -> io::Result<()> {
    queue!(bytes, SetAttribute(Attribute::Reset))?;
    for (flag, attribute) in [
        (Modifier::BOLD, Attribute::Bold),
        (Modifier::DIM, Attribute::Dim),
        (Modifier::UNDERLINED, Attribute::Underlined),
        (Modifier::REVERSED, Attribute::Reverse),
    ] {
        if modifier.contains(flag) {
            queue!(bytes, SetAttribute(attribute))?;
        }
    }
    if (front, back) == (Color::Reset, Color::Reset) {
        return Ok(());
    }
    queue!(bytes, SetColors(Colors { foreground: shade(front), background: shade(back) }))
}

/// The eight colours of every terminal. A theme has no others.
fn shade(colour: Color) -> Option<Shade> {
    Some(match colour {
        Color::Black => Shade::Black,
        Color::Red => Shade::DarkRed,
        Color::Green => Shade::DarkGreen,
        Color::Yellow => Shade::DarkYellow,
        Color::Blue => Shade::DarkBlue,
        Color::Magenta => Shade::DarkMagenta,
        Color::Cyan => Shade::DarkCyan,
        Color::Gray => Shade::Grey,
        _ => return None,
    })
}
