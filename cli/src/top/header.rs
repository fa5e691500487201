//! The four lines at the top of a [`View`]: who is shown, what it does, what this view costs, and
//! which picture it is.
//!
//! Each line has a right side that is always shown, and a left side of parts in the order of their
//! importance, of which the last ones give way on a narrow terminal.

use super::columns::{count, per_second};
use super::view::{Mode, Overlay, View};
use crate::output::times::short;
use crate::screen::text::fit;
use crate::screen::widgets::sparkline;
use crate::screen::{Canvas, Line, Rect, Span, split_top};
use pleach::inspect::Health;

impl View {
    pub fn paint_header(&self, canvas: &mut Canvas<'_>, area: Rect) {
        let mut rest = area;
        for (left, right) in [self.who(canvas), self.traffic(canvas), self.cost(canvas), self.tabs(canvas)] {
            let (row, below) = split_top(rest, 1);
            rest = below;
            // The left side gives way: it is ordered by importance.
            let room = usize::from(row.width).saturating_sub(right.width() + 2);
            canvas.line(row, shortened(left, room));
            canvas.line_right(row, right);
        }
    }

    /// Who is shown, and how well it is.
    fn who(&self, canvas: &Canvas<'_>) -> (Vec<Vec<Span<'static>>>, Line<'static>) {
        let (theme, glyphs) = (canvas.look().theme, canvas.look().glyphs);
        let mut parts = Vec::new();
        if let Some(hello) = &self.hello {
            let name = fit(&hello.name, 30, canvas.look());
            parts.push(vec![Span::styled(name, theme.accent.patch(theme.strong))]);
        }
        parts.push(vec![match (&self.lost, self.general.as_ref().map(|general| &general.health)) {
            (Some(_), _) => Span::styled(" no connection ", theme.bad_badge),
            (None, None) => Span::styled("connecting", theme.weak),
            (None, Some(Health::Healthy)) => Span::styled(format!("{} healthy", glyphs.good), theme.good),
            (None, Some(Health::Degraded(reasons))) => {
                let problems = if reasons.len() == 1 { "problem" } else { "problems" };
                Span::styled(format!(" {} degraded: {} {problems} ", glyphs.warn, reasons.len()), theme.warn_badge)
            }
            (None, Some(_)) => Span::styled(format!(" {} down ", glyphs.bad), theme.bad_badge),
        }]);
        if self.is_frozen {
            parts.push(vec![Span::styled(" frozen ", theme.warn_badge)]);
        }
        if let Some(hello) = &self.hello {
            parts.push(vec![Span::styled(format!("pid {}", hello.pid), theme.weak)]);
            parts.push(vec![Span::styled(format!("pleach {}", fit(&hello.version, 12, canvas.look())), theme.weak)]);
        }
        let as_of = self.as_of.map_or_else(String::new, |at| format!("as of {}", self.times.clock(at)));
        let style = if self.lost.is_some() || self.is_frozen { theme.warn } else { theme.weak };
        (parts, Line::from(Span::styled(as_of, style)))
    }

    /// What the whole system does.
    fn traffic(&self, canvas: &Canvas<'_>) -> (Vec<Vec<Span<'static>>>, Line<'static>) {
        let (look, theme) = (canvas.look(), canvas.look().theme);
        let mut parts = Vec::new();
        let number =
            |number: String, what: &str, style| vec![Span::styled(number, style), Span::styled(format!(" {what}"), theme.weak)];
        let plain = crate::screen::CellStyle::default();
        let bad = |is_bad: bool| if is_bad { theme.bad } else { plain };
        match self.general.as_ref().map(|general| general.rates.last_10s) {
            Some(Some(rates)) => {
                parts.push(number(per_second(rates.handled), "handled/s", theme.strong));
                parts.push(vec![sparkline(self.totals.iter().copied(), 12, look)]);
                parts.push(number(per_second(rates.failed), "failed/s", bad(rates.failed > 0.0)));
                parts.push(number(per_second(rates.dead_lettered), "dead letters/s", bad(rates.dead_lettered > 0.0)));
                parts.push(number(per_second(rates.accepted), "accepted/s", plain));
            }
            _ => parts.push(vec![Span::styled("rates are known after two answers", theme.weak)]),
        }
        let sums = self.list.sums.filter(|_| self.mode == Mode::Busiest && self.detail.is_none() && self.list.is_read);
        let Some(sums) = sums else { return (parts, Line::default()) };
        let matching = if self.filter.is_empty() { "" } else { "matching " };
        let actors = if sums.members == 1 { "actor" } else { "actors" };
        let waiting =
            (sums.waiting_senders > 0).then(|| format!(" {} {} senders wait", look.glyphs.dot, count(sums.waiting_senders)));
        parts.extend([
            number(count(sums.counts.failed), "failed so far", plain),
            number(count(sums.counts.dead_lettered), "dead letters so far", plain),
        ]);
        let right = vec![
            Span::styled(count(sums.queued), theme.strong),
            Span::styled(" queued in ", theme.weak),
            Span::styled(count(sums.members), theme.strong),
            Span::styled(format!(" {matching}{actors}"), theme.weak),
            Span::styled(waiting.unwrap_or_default(), theme.bad),
        ];
        (parts, Line::from(right))
    }

    /// What this view costs the process.
    fn cost(&self, canvas: &Canvas<'_>) -> (Vec<Vec<Span<'static>>>, Line<'static>) {
        let theme = canvas.look().theme;
        let weak = |text: String| vec![Span::styled(text, theme.weak)];
        let mut parts = vec![weak(format!("every {}", short(self.interval)))];
        if let Some(took) = self.list.took.filter(|_| self.mode == Mode::Busiest) {
            let at_most = if self.list.is_complete { "" } else { " (its limit)" };
            parts.push(weak(format!("{} compared{at_most} in {}", count(self.list.compared), short(took))));
        }
        if let Some(stats) = self.hello.as_ref().map(|hello| hello.stats) {
            let missed = format!("{} events missed", count(stats.missed_events));
            parts.push(vec![Span::styled(missed, if stats.missed_events > 0 { theme.warn } else { theme.weak })]);
            parts.push(weak(format!("{} requests", count(stats.requests))));
            let connections = if stats.connections == 1 { "connection" } else { "connections" };
            parts.push(weak(format!("{} {connections}", count(stats.connections))));
            if stats.too_slow + stats.refused > 0 {
                let text = format!("{} too slow, {} refused", count(stats.too_slow), count(stats.refused));
                parts.push(vec![Span::styled(text, theme.warn)]);
            }
        }
        let offered = self.offered();
        let right = match (self.can_write, offered.is_empty()) {
            (true, false) => Span::styled(" actions on ", theme.warn_badge),
            (true, true) => Span::styled("the process allows no actions", theme.warn),
            (false, _) => Span::styled("read-only", theme.weak),
        };
        (parts, Line::from(right))
    }

    fn tabs(&self, canvas: &Canvas<'_>) -> (Vec<Vec<Span<'static>>>, Line<'static>) {
        let theme = canvas.look().theme;
        let problems = match self.problem_count() {
            0 => "problems".to_string(),
            some => format!("problems ({some})"),
        };
        let tab = |key: &'static str, mode: Mode, name: String| {
            if self.mode == mode && self.detail.is_none() {
                return vec![Span::styled(format!(" {key} {name} "), theme.strong.patch(theme.selected))];
            }
            vec![Span::raw(" "), Span::styled(key, theme.key), Span::styled(format!(" {name} "), theme.weak)]
        };
        let parts = vec![
            tab("1", Mode::Busiest, "busiest".to_string()),
            tab("2", Mode::Tree, "tree".to_string()),
            tab("3", Mode::Problems, problems),
        ];
        let mut limits = Vec::new();
        if self.below.is_none() {
            limits.push("all members".to_string());
        }
        if let Some(below) = self.below.as_ref().filter(|below| Some(*below) != super::view::user_path().as_ref()) {
            limits.push(format!("below {}", fit(&below.to_string(), 30, canvas.look())));
        }
        if !self.filter.is_empty() && !matches!(self.overlay, Overlay::Filter(..)) {
            limits.push(format!("/{}", fit(&self.filter, 20, canvas.look())));
        }
        (parts, Line::from(Span::styled(limits.join("  "), theme.accent)))
    }
}

/// Joins the parts that fit.
fn shortened(parts: Vec<Vec<Span<'static>>>, room: usize) -> Line<'static> {
    let mut line = Line::default();
    for part in parts {
        let width: usize = part.iter().map(Span::width).sum();
        let gap = if line.spans.is_empty() { 0 } else { 2 };
        if line.width() + gap + width > room {
            break;
        }
        line.spans.extend((gap > 0).then(|| Span::raw("  ")));
        line.spans.extend(part);
    }
    line
}
