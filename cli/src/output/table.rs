//! [`Table`]: rows in columns that fit the terminal.
//!
//! On a terminal the columns that may shrink are cut until the row fits. If that is not enough,
//! columns that may be hidden are left out, the last first. In a pipe nothing is cut or hidden.
//! Columns are separated by two spaces.

use super::escape::OneLine;
use super::{Colour, Style};
pub use pleach_console::report::text::{cut, cut_with, width_of};

/// The narrowest width of a column that shrinks.
const SHRUNK_MIN: usize = 8;

/// A column: its title, and what happens if the rows do not fit.
pub struct Column {
    title: &'static str,
    may_shrink: bool,
    may_hide: bool,
    is_number: bool,
}

impl Column {
    /// A column that is never cut.
    pub const fn fixed(title: &'static str) -> Self {
        Self { title, may_shrink: false, may_hide: false, is_number: false }
    }

    /// A column that is cut if the rows do not fit.
    pub const fn shrinks(title: &'static str) -> Self {
        Self { may_shrink: true, ..Self::fixed(title) }
    }

    /// A column of numbers, aligned to the right.
    pub const fn number(title: &'static str) -> Self {
        Self { is_number: true, ..Self::fixed(title) }
    }

    /// Lets the column be left out on a narrow terminal.
    pub const fn may_hide(self) -> Self {
        Self { may_hide: true, ..self }
    }
}

/// A text in a table, with its colour.
pub struct Cell {
    text: String,
    colour: Option<Colour>,
}

impl Cell {
    pub fn painted(text: &str, colour: Colour) -> Self {
        Self { text: text.to_string(), colour: Some(colour) }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, colour: None }
    }
}

/// Rows of text in columns.
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row. Control characters in it are made visible.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let visible = |cell: Cell| Cell { text: OneLine(&cell.text).to_string(), ..cell };
        self.rows.push(cells.into_iter().map(visible).collect());
    }

    /// Returns the table as text.
    pub fn render(&self, style: &Style) -> String {
        let widths = self.widths(style.width);
        let titles: Vec<Cell> =
            self.columns.iter().map(|column| Cell { text: column.title.to_string(), colour: Some(Colour::Bold) }).collect();
        let mut text = String::new();
        for row in std::iter::once(&titles).chain(&self.rows) {
            self.write_row(&mut text, row, &widths, style);
        }
        text
    }

    /// Returns the width of each column; 0 for a hidden one.
    fn widths(&self, limit: Option<usize>) -> Vec<usize> {
        let widest = |at: usize| self.rows.iter().map(|row| row.get(at).map_or(0, |cell| width_of(&cell.text))).max();
        let columns = self.columns.iter().enumerate();
        let mut widths: Vec<usize> = columns.map(|(at, column)| widest(at).unwrap_or(0).max(width_of(column.title))).collect();
        let Some(limit) = limit else { return widths };
        loop {
            let shown = widths.iter().filter(|width| **width > 0).count();
            let total = widths.iter().sum::<usize>() + 2 * shown.saturating_sub(1);
            if total <= limit {
                return widths;
            }
            let may_shrink = |at: &usize| self.columns[*at].may_shrink && widths[*at] > SHRUNK_MIN;
            let may_hide = |at: &usize| self.columns[*at].may_hide && widths[*at] > 0;
            if let Some(at) = (0..widths.len()).filter(may_shrink).max_by_key(|at| widths[*at]) {
                widths[at] -= (total - limit).min(widths[at] - SHRUNK_MIN).min(4);
            } else if let Some(at) = (0..widths.len()).rfind(may_hide) {
                widths[at] = 0;
            } else {
                return widths;
            }
        }
    }

    fn write_row(&self, text: &mut String, cells: &[Cell], widths: &[usize], style: &Style) {
        let mut line = String::new();
        let (mut is_first, mut padding) = (true, String::new());
        for (at, (cell, width)) in cells.iter().zip(widths).enumerate().filter(|(_, (_, width))| **width > 0) {
            if !is_first {
                padding.push_str("  ");
            }
            is_first = false;
            let shown = cut(&cell.text, *width);
            let space = " ".repeat(width.saturating_sub(width_of(&shown)));
            let painted = cell.colour.filter(|_| !shown.is_empty()).map_or(shown.clone(), |colour| style.paint(colour, &shown));
            let (before, after) = if self.columns[at].is_number { (space, String::new()) } else { (String::new(), space) };
            // Padding is written only if a text follows, so no line ends with spaces.
            if !shown.is_empty() {
                line.push_str(&std::mem::take(&mut padding));
                line.push_str(&before);
                line.push_str(&painted);
            } else {
                padding.push_str(&before);
            }
            padding.push_str(&after);
        }
        text.push_str(&line);
        text.push('\n');
    }
}

/// Writes a number with commas: `99,900`.
pub fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::times::Times;
    use super::*;

    fn style(width: Option<usize>, colour: bool) -> Style {
        Style { width, colour, times: Times::new(true) }
    }

    fn table() -> Table {
        let columns =
            [Column::fixed("ID"), Column::shrinks("GRAPH").may_hide(), Column::number("STEP"), Column::shrinks("REASON")];
        let mut table = Table::new(columns);
        let reason = "the card of the customer was refused\nagain".to_string();
        table.row(["order-1".to_string(), "shop".into(), "7".into(), reason].map(Cell::from));
        table.row(["漢字".to_string(), "essay".into(), "12".into(), String::new()].map(Cell::from));
        table
    }

    #[test]
    fn pipe_gets_everything_on_one_line_per_row() {
        let expected = "ID       GRAPH  STEP  REASON\norder-1  shop      7  the card of the customer was refused\\nagain\n漢字     essay    12\n";
        assert_eq!(table().render(&style(None, false)), expected);
    }

    #[test]
    fn terminal_gets_rows_that_fit() {
        for width in [24, 40, 60, 80, 200] {
            let text = table().render(&style(Some(width), false));
            assert!(text.lines().all(|line| width_of(line) <= width), "{text}");
            assert!(text.contains("order-1"), "ids are never cut: {text}");
            assert_eq!(text.contains("GRAPH"), width >= 40, "{text}");
        }
    }

    #[test]
    fn colours_do_not_change_the_layout() {
        let painted = table().render(&style(Some(60), true));
        let plain = painted.replace("\x1b[1m", "").replace("\x1b[0m", "");
        assert_ne!(painted, plain);
        assert_eq!(plain, table().render(&style(Some(60), false)));
    }

    #[test]
    fn numbers_have_commas() {
        assert_eq!([0, 999, 1_000, 99_900, 1_234_567].map(with_commas), ["0", "999", "1,000", "99,900", "1,234,567"]);
    }
}
