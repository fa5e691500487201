//! Draws a [`View`]: header, the picture of its mode, what lies over it, footer.

use super::action::{self, OFFERS};
use super::columns::{Columns, Name, count};
use super::tree::{Tree, TreeItem};
use super::view::{Mode, Overlay, View};
use crate::output::table::width_of;
use crate::screen::text::wrap;
use crate::screen::widgets::{HelpSection, Hint, footer};
use crate::screen::{Canvas, Line, Rect, Span, split_bottom, split_top};
use pleach::inspect::Health;

const ALWAYS: [Hint; 2] = [Hint::new("?", "keys"), Hint::new("q", "quit")];

const HELP: [HelpSection; 5] = [
    HelpSection {
        title: "Move",
        hints: &[
            Hint::new("↑ ↓ j k", "select another row"),
            Hint::new("PgUp PgDn", "a page up or down"),
            Hint::new("g G", "to the first row, to the last one"),
            Hint::new("Enter", "everything about the selected member"),
            Hint::new("Esc", "back; without a filter, the whole list"),
        ],
    },
    HelpSection {
        title: "Pictures",
        hints: &[
            Hint::new("1", "busiest: the sorted list"),
            Hint::new("2", "tree: → ← open and close a branch"),
            Hint::new("3", "problems: only what is not well"),
            Hint::new("Tab", "the next picture"),
            Hint::new("t", "the selected member in the tree"),
            Hint::new("Q R H", "sort by queued, rate, time in the handler"),
            Hint::new("S F C", "sort by restarts, failed, children"),
            Hint::new("/", "list only members whose path has a text"),
            Hint::new(":", "jump to a path, or run a command"),
        ],
    },
    HelpSection {
        title: "Time",
        hints: &[Hint::new("Space p", "freeze the picture, or continue"), Hint::new("- +", "ask more often, less often")],
    },
    HelpSection {
        title: "Actions, with --write and as far as the process allows them",
        hints: &[
            Hint::new("r", "restart the selected member"),
            Hint::new("s u", "suspend it, resume it"),
            Hint::new("x", "stop it"),
        ],
    },
    HelpSection {
        title: "Command",
        hints: &[Hint::new("Ctrl-Z", "suspend this view; fg continues it"), Hint::new("q Ctrl-C", "quit")],
    },
];

impl View {
    pub fn paint(&mut self, canvas: &mut Canvas<'_>) {
        let (head, rest) = split_top(canvas.area(), 4);
        self.paint_header(canvas, head);
        let (rest, last) = split_bottom(rest, 1);
        let (body, note) = split_bottom(rest, self.note_lines(canvas));
        self.paint_note(canvas, note);
        if self.detail.is_some() {
            self.paint_detail(canvas, body);
        } else {
            match self.mode {
                Mode::Busiest => self.paint_list(canvas, body),
                Mode::Tree => self.paint_tree(canvas, body),
                Mode::Problems => self.paint_problems(canvas, body),
            }
        }
        if self.lost.is_some() {
            canvas.style(body, canvas.look().theme.weak);
        }
        self.paint_footer(canvas, last);
        self.paint_overlay(canvas);
    }

    fn paint_list(&mut self, canvas: &mut Canvas<'_>, area: Rect) {
        let look = canvas.look().clone();
        let (head, body) = split_top(area, 1);
        self.height = usize::from(body.height);
        let names: Vec<String> = self.list.rows.iter().map(|row| row.path.to_string()).collect();
        let longest = names.iter().map(|name| width_of(name)).max().unwrap_or(0) + 2;
        let columns = Columns::new(usize::from(area.width).saturating_sub(2), longest.min(60), self.by);
        canvas.line(indented(head), columns.header(&look, look.glyphs.down));
        if self.list.rows.is_empty() {
            let text = match () {
                () if !self.list.is_read => "reading",
                () if self.filter.is_empty() => "no actors",
                () => "no actor has this text in its path; Esc shows all",
            };
            canvas.line(indented(body), Span::styled(text, look.theme.weak));
            return;
        }
        self.list.selection.scroll(self.height, self.list.rows.len());
        let first = self.list.selection.first;
        let mut rest = body;
        for (at, (member, name)) in self.list.rows.iter().zip(&names).enumerate().skip(first).take(self.height) {
            let (row, below) = split_top(rest, 1);
            rest = below;
            let is_outside = self.list.has_outsider && at + 1 == self.list.rows.len();
            let lead = if is_outside { look.glyphs.ellipsis } else { "" };
            canvas.line(indented(row), columns.row(member, Name { lead, text: name, is_path: true }, &self.rates, &look));
            if at == self.list.selection.index {
                paint_selection(canvas, row, &columns.graphs());
            }
        }
    }

    fn paint_tree(&mut self, canvas: &mut Canvas<'_>, area: Rect) {
        let look = canvas.look().clone();
        let (head, body) = split_top(area, 1);
        self.height = usize::from(body.height);
        let name_of = |row: &super::tree::TreeRow| {
            let name = row.member().and_then(|member| member.path.last()).map_or_else(String::new, ToString::to_string);
            (2 * row.level + 2 + width_of(&name), name)
        };
        let longest = self.tree.rows.iter().map(|row| name_of(row).0).max().unwrap_or(0);
        let columns = Columns::new(usize::from(area.width).saturating_sub(2), longest.min(60), self.by);
        canvas.line(indented(head), columns.header(&look, ""));
        if self.tree.rows.is_empty() {
            canvas.line(indented(body), Span::styled("reading", look.theme.weak));
        }
        self.tree.selection.scroll(self.height, self.tree.rows.len());
        let mut rest = body;
        for (at, row) in self.tree.rows.iter().enumerate().skip(self.tree.selection.first).take(self.height) {
            let (line, below) = split_top(rest, 1);
            rest = below;
            let indent = "  ".repeat(row.level);
            match &row.what {
                TreeItem::Member { member, is_open } => {
                    let mark = match (member.children, is_open) {
                        (0, _) => look.glyphs.leaf,
                        (_, true) => look.glyphs.open,
                        (_, false) => look.glyphs.closed,
                    };
                    let name = Name { lead: &format!("{indent}{mark} "), text: &name_of(row).1, is_path: false };
                    canvas.line(indented(line), columns.row(member, name, &self.rates, &look));
                }
                TreeItem::More(is_end) => {
                    let text = match is_end {
                        true => format!("{indent}only {} are shown: use / or : to find others", count(Tree::kept_max() as u64)),
                        false => format!("{indent}{} more", look.glyphs.ellipsis),
                    };
                    canvas.line(indented(line), Span::styled(text, look.theme.weak));
                }
            }
            if at == self.tree.selection.index {
                paint_selection(canvas, line, &columns.graphs());
            }
        }
    }

    fn paint_problems(&mut self, canvas: &mut Canvas<'_>, area: Rect) {
        let look = canvas.look().clone();
        let text = match &self.general {
            None => Some("reading"),
            Some(general) if matches!(general.health, Health::Down) => Some("the system is shutting down or has ended"),
            Some(_) if self.problems.rows.is_empty() => Some("no problem is known"),
            Some(_) => None,
        };
        let (_, body) = split_top(area, 1);
        if let Some(text) = text {
            let style = if text.starts_with("no") { look.theme.good } else { look.theme.weak };
            return canvas.line(indented(body), Span::styled(text, style));
        }
        // Each takes a title, its text and an empty line.
        let width = usize::from(body.width).saturating_sub(4);
        let texts: Vec<Vec<String>> = self.problems.rows.iter().map(|problem| wrap(&problem.text, width, &look)).collect();
        let tallest = texts.iter().map(Vec::len).max().unwrap_or(1) + 2;
        self.height = (usize::from(body.height) / tallest).max(1);
        self.problems.selection.scroll(self.height, texts.len());
        let mut rest = body;
        for (at, (problem, text)) in self.problems.rows.iter().zip(&texts).enumerate().skip(self.problems.selection.first) {
            let (title, below) = split_top(rest, 1);
            let path = problem.path.as_ref().map_or_else(String::new, |path| format!(" {path}"));
            let style = if problem.kind == "gave up" || problem.kind == "stuck" { look.theme.bad } else { look.theme.warn };
            canvas.line(
                indented(title),
                vec![
                    Span::styled(format!("{} {}", look.glyphs.warn, problem.kind), style),
                    Span::styled(path, look.theme.strong),
                ],
            );
            if at == self.problems.selection.index {
                paint_selection(canvas, title, &[]);
            }
            let inner = Rect { x: below.x + 4.min(below.width), width: below.width.saturating_sub(4), ..below };
            let after = canvas.lines(inner, text.iter().map(|line| Line::from(line.clone())));
            (_, rest) = split_top(Rect { x: body.x, width: body.width, ..after }, 1);
        }
    }

    fn paint_detail(&mut self, canvas: &mut Canvas<'_>, area: Rect) {
        let look = canvas.look().clone();
        let Some(detail) = &mut self.detail else { return };
        let inside = crate::screen::widgets::panel(canvas, area, &detail.path.to_string());
        let inside = Rect { x: inside.x + 1, width: inside.width.saturating_sub(2), ..inside };
        self.height = usize::from(inside.height);
        let lines = detail.lines(&self.rates, &self.times, usize::from(inside.width), &look);
        detail.first = detail.first.min(lines.len().saturating_sub(self.height));
        canvas.lines(inside, lines.into_iter().skip(detail.first));
    }

    /// Returns how many rows the note takes.
    fn note_lines(&self, canvas: &Canvas<'_>) -> u16 {
        let width = usize::from(canvas.area().width);
        self.note_text().map_or(0, |(text, _)| wrap(&text, width, canvas.look()).len().min(3) as u16)
    }

    fn note_text(&self) -> Option<(String, bool)> {
        match (&self.lost, &self.note) {
            (_, Some(note)) => Some((note.text.clone(), note.is_bad)),
            (Some(reason), None) => Some((format!("{reason}; this picture is old, trying again"), true)),
            (None, None) => None,
        }
    }

    fn paint_note(&self, canvas: &mut Canvas<'_>, area: Rect) {
        let Some((text, is_bad)) = self.note_text() else { return };
        let theme = canvas.look().theme;
        let style = if is_bad { theme.bad } else { theme.accent };
        let lines = wrap(&text, usize::from(area.width), canvas.look());
        canvas.lines(area, lines.into_iter().map(|line| Line::from(Span::styled(line, style))));
    }

    /// Returns the actions that are possible now.
    pub fn offered(&self) -> Vec<Hint> {
        let can = |offer: &&action::Offer| action::refusal(offer, self.hello.as_ref(), self.can_write).is_none();
        OFFERS.iter().filter(can).map(|offer| offer.hint).collect()
    }

    fn paint_footer(&self, canvas: &mut Canvas<'_>, area: Rect) {
        if let Overlay::Filter(prompt, _) = &self.overlay {
            return prompt.paint(canvas, area, "filter: ");
        }
        let mut hints = match (&self.detail, self.mode) {
            (Some(_), _) => vec![Hint::new("Esc", "back"), Hint::new("j k", "scroll"), Hint::new("t", "in tree")],
            (None, Mode::Busiest) => {
                vec![
                    Hint::new("Enter", "detail"),
                    Hint::new("/", "filter"),
                    Hint::new("QRHSFC", "sort"),
                    Hint::new("t", "in tree"),
                ]
            }
            (None, Mode::Tree) => vec![Hint::new("l h", "open, close"), Hint::new("Enter", "detail"), Hint::new("Esc", "list")],
            (None, Mode::Problems) => vec![Hint::new("Enter", "detail"), Hint::new("Esc", "list")],
        };
        if self.detail.is_some() || self.mode != Mode::Problems {
            hints.extend(self.offered());
        }
        hints.extend([
            Hint::new("Space", "freeze"),
            Hint::new("Tab", "next"),
            Hint::new(":", "jump"),
            Hint::new("- +", "interval"),
        ]);
        footer(canvas, area, &hints, &ALWAYS);
    }

    fn paint_overlay(&mut self, canvas: &mut Canvas<'_>) {
        let paths = if matches!(self.overlay, Overlay::Palette(_)) { self.paths() } else { Vec::new() };
        match &mut self.overlay {
            Overlay::Help(help) => help.paint(canvas, &HELP),
            Overlay::Confirm(confirm, _) => confirm.paint(canvas),
            Overlay::Palette(palette) => palette.paint(canvas, &paths),
            Overlay::None | Overlay::Filter(..) => {}
        }
    }
}

/// Leaves room for the mark of the selected row.
fn indented(row: Rect) -> Rect {
    Rect { x: row.x + 2.min(row.width), width: row.width.saturating_sub(2), ..row }
}

/// Marks the selected row. Its graphs, at these columns, keep their colours.
fn paint_selection(canvas: &mut Canvas<'_>, row: Rect, graphs: &[(usize, usize)]) {
    let (theme, glyphs) = (canvas.look().theme, canvas.look().glyphs);
    canvas.line(row, Span::styled(glyphs.pointer, theme.accent));
    let text = Rect { x: row.x + 1.min(row.width), width: row.width.saturating_sub(1), ..row };
    let is_graph =
        |x: u16| graphs.iter().any(|(at, width)| (*at..at + width).contains(&usize::from(x - row.x).wrapping_sub(2)));
    for x in text.left()..text.right() {
        if is_graph(x) && !canvas.is_blank(x, row.y) {
            continue;
        }
        canvas.restyle(Rect { x, width: 1, ..row }, theme.selected);
    }
}
