//! The columns of a list of members, chosen by the width of the terminal.

use super::args::SortBy;
use super::rows::RateBook;
use crate::output::times::short;
use crate::screen::text::{fit, fit_end, pad, pad_left};
use crate::screen::widgets::{mailbox_bar, sparkline};
use crate::screen::{CellStyle, Line, Look, Span};
use pleach::inspect::{Activity, MemberInfo};
use std::time::Duration;

/// The narrowest column of paths, before other columns are left out.
const NAME_MIN: usize = 20;

/// The widest column of paths, before further columns are added.
const NAME_GOOD: usize = 34;

/// A handler that takes longer is marked.
const SLOW: Duration = Duration::from_secs(1);
const STUCK: Duration = Duration::from_secs(10);

/// A column beside the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Bar,
    Sorted(SortBy),
    Trend,
    Reason,
}

/// Columns in the order of their importance. The sorted one is always shown.
const BY_IMPORTANCE: [Column; 9] = [
    Column::Sorted(SortBy::Queued),
    Column::Sorted(SortBy::Rate),
    Column::Sorted(SortBy::Handling),
    Column::Bar,
    Column::Sorted(SortBy::Restarts),
    Column::Sorted(SortBy::Failed),
    Column::Trend,
    Column::Sorted(SortBy::Children),
    Column::Reason,
];

/// The same columns from the left to the right.
const BY_PLACE: [Column; 9] = [
    Column::Bar,
    Column::Sorted(SortBy::Queued),
    Column::Sorted(SortBy::Rate),
    Column::Trend,
    Column::Sorted(SortBy::Handling),
    Column::Sorted(SortBy::Restarts),
    Column::Sorted(SortBy::Failed),
    Column::Sorted(SortBy::Children),
    Column::Reason,
];

impl Column {
    fn title(self) -> &'static str {
        match self {
            Self::Bar => "MAILBOX",
            Self::Sorted(SortBy::Queued) => "QUEUED",
            Self::Sorted(SortBy::Rate) => "RATE/s",
            Self::Sorted(SortBy::Handling) => "HANDLING",
            Self::Sorted(SortBy::Restarts) => "RESTARTS",
            Self::Sorted(SortBy::Failed) => "FAILED",
            Self::Sorted(SortBy::Children) => "CHILDREN",
            Self::Trend => "TREND",
            Self::Reason => "WAITS FOR, OR LAST FAILURE",
        }
    }

    fn width(self) -> usize {
        match self {
            Self::Bar => 8,
            // A title, and the mark of the sorted column.
            Self::Sorted(SortBy::Queued | SortBy::Rate | SortBy::Failed) => 7,
            Self::Sorted(SortBy::Handling) => 10,
            Self::Sorted(_) => 9,
            Self::Trend => 14,
            Self::Reason => 30,
        }
    }

    fn is_number(self) -> bool {
        matches!(self, Self::Sorted(_))
    }
}

/// The columns that fit, and how wide the paths may be.
#[derive(Debug)]
pub struct Columns {
    name: usize,
    shown: Vec<Column>,
    /// More than its usual width.
    reason_extra: usize,
    by: SortBy,
}

impl Columns {
    /// Chooses columns for a width. `longest` is the width of the longest path.
    pub fn new(width: usize, longest: usize, by: SortBy) -> Self {
        let mut shown = vec![Column::Sorted(by)];
        let used = |shown: &[Column]| shown.iter().map(|column| column.width() + 2).sum::<usize>();
        for column in BY_IMPORTANCE {
            let name = if matches!(column, Column::Trend | Column::Reason) { longest.max(NAME_GOOD) } else { NAME_MIN };
            if !shown.contains(&column) && name + used(&shown) + column.width() + 2 <= width {
                shown.push(column);
            }
        }
        let shown: Vec<Column> = BY_PLACE.into_iter().filter(|column| shown.contains(column)).collect();
        let rest = width.saturating_sub(used(&shown));
        let name = if shown.contains(&Column::Reason) { longest.max(NAME_GOOD).min(rest) } else { rest };
        Self { name, reason_extra: rest - name, shown, by }
    }

    /// Returns the titles. The letter that sorts by a column is marked.
    pub fn header(&self, look: &Look, direction: &'static str) -> Line<'static> {
        let mut line = Line::from(Span::styled(pad("MEMBER", self.name), look.theme.weak));
        for column in &self.shown {
            let title = column.title();
            let is_sorted = *column == Column::Sorted(self.by);
            let style = if is_sorted { look.theme.accent } else { look.theme.weak };
            let mark = if is_sorted { direction } else { "" };
            let space = self.width(*column).saturating_sub(title.len() + usize::from(is_sorted));
            line.spans.push(Span::raw(" ".repeat(if column.is_number() { 2 + space } else { 2 })));
            match column {
                Column::Sorted(by) => {
                    let at = title.find(by.letter()).unwrap_or(0);
                    let (before, rest) = title.split_at(at);
                    let (letter, after) = rest.split_at(1);
                    let marked = look.theme.key.add_modifier(ratatui_core::style::Modifier::UNDERLINED);
                    line.spans.extend([Span::styled(before, style), Span::styled(letter, marked), Span::styled(after, style)]);
                }
                _ => line.spans.push(Span::styled(title, style)),
            }
            line.spans.push(Span::styled(mark, look.theme.accent));
            if !column.is_number() {
                line.spans.push(Span::raw(" ".repeat(space)));
            }
        }
        line
    }

    /// Returns the row of a member. `lead` stands before its name: the place in the tree.
    pub fn row(&self, member: &MemberInfo, name: Name<'_>, rates: &RateBook, look: &Look) -> Line<'static> {
        let lead = fit(name.lead, self.name, look);
        let room = self.name.saturating_sub(crate::output::table::width_of(&lead));
        let text = if name.is_path { fit_end(name.text, room, look) } else { fit(name.text, room, look) };
        let mut line = Line::from(vec![Span::styled(lead, look.theme.weak), Span::raw(pad(&text, room))]);
        for column in &self.shown {
            line.spans.push(Span::raw("  "));
            let width = self.width(*column);
            match column {
                Column::Bar => line.spans.extend(match &member.actor {
                    Some(actor) if actor.queued > 0 => mailbox_bar(actor.queued, actor.capacity, width, look),
                    _ => vec![Span::raw(" ".repeat(width))],
                }),
                // Without any message there is nothing to see.
                Column::Trend if rates.trend(member.id).all(|rate| rate <= 0.0) => {
                    line.spans.push(Span::raw(" ".repeat(width)));
                }
                Column::Trend => line.spans.push(sparkline(rates.trend(member.id), width, look)),
                column => {
                    let (text, style) = cell(*column, member, rates, look);
                    let text = fit(&text, width, look);
                    let text = if column.is_number() { pad_left(&text, width) } else { pad(&text, width) };
                    line.spans.push(Span::styled(text, style));
                }
            }
        }
        line
    }

    /// Returns where graphs are: their first column and their width.
    pub fn graphs(&self) -> Vec<(usize, usize)> {
        let mut at = self.name;
        let mut graphs = Vec::new();
        for column in &self.shown {
            let width = self.width(*column);
            if matches!(column, Column::Bar | Column::Trend) {
                graphs.push((at + 2, width));
            }
            at += 2 + width;
        }
        graphs
    }

    fn width(&self, column: Column) -> usize {
        column.width() + if column == Column::Reason { self.reason_extra } else { 0 }
    }
}

/// The name of a row.
pub struct Name<'a> {
    /// What stands before it: its place in the tree.
    pub lead: &'a str,
    pub text: &'a str,
    /// Whether it is a path, of which the end matters.
    pub is_path: bool,
}

fn cell(column: Column, member: &MemberInfo, rates: &RateBook, look: &Look) -> (String, CellStyle) {
    let theme = look.theme;
    let actor = member.actor.as_ref();
    let number = |number: u64, style: CellStyle| (count(number), if number == 0 { theme.weak } else { style });
    match column {
        Column::Sorted(SortBy::Queued) => actor.map_or_else(Default::default, |actor| {
            number(actor.queued, if actor.is_full() { theme.bad } else { CellStyle::default() })
        }),
        Column::Sorted(SortBy::Rate) => match rates.rate(member.id) {
            Some(rate) => (per_second(rate), if rate > 0.0 { CellStyle::default() } else { theme.weak }),
            None => Default::default(),
        },
        Column::Sorted(SortBy::Handling) => match member.handling_for() {
            Some(running) if running >= STUCK => (short(running), theme.bad),
            Some(running) if running >= SLOW => (short(running), theme.warn),
            Some(running) => (short(running), CellStyle::default()),
            None => (state(&member.activity).to_string(), activity_style(&member.activity, look)),
        },
        Column::Sorted(SortBy::Restarts) => match member.restarts {
            Some(restarts) => {
                let allowed = restarts.allowed.map_or_else(String::new, |allowed| format!("/{allowed}"));
                let is_last = restarts.allowed.is_some_and(|allowed| restarts.used >= allowed);
                let style = if restarts.used == 0 {
                    theme.weak
                } else if is_last {
                    theme.bad
                } else {
                    theme.warn
                };
                (format!("{}{allowed}", restarts.used), style)
            }
            None => Default::default(),
        },
        Column::Sorted(SortBy::Failed) => actor.map_or_else(Default::default, |actor| number(actor.counts.failed, theme.bad)),
        Column::Sorted(SortBy::Children) => number(member.children, CellStyle::default()),
        Column::Reason => match (member.waits.first(), &member.last_failure) {
            (Some(wait), _) => (wait.to_string(), theme.warn),
            (None, Some(failure)) => (format!("{} ago: {}", short(failure.ago), failure.reason), theme.bad),
            (None, None) => Default::default(),
        },
        Column::Bar | Column::Trend => Default::default(),
    }
}

/// Returns the state in one word.
pub fn state(activity: &Activity) -> &'static str {
    match activity {
        Activity::Open => "open",
        Activity::Starting => "starting",
        Activity::Idle => "idle",
        Activity::Ready => "ready",
        Activity::Running => "running",
        Activity::Waiting => "waiting",
        Activity::Handling { .. } => "handling",
        Activity::InHook => "in hook",
        Activity::Suspended => "suspended",
        Activity::WaitingToRestart { .. } => "backoff",
        Activity::Restarting => "restarting",
        Activity::Stopping => "stopping",
        Activity::Ended => "ended",
        _ => "other",
    }
}

pub fn activity_style(activity: &Activity, look: &Look) -> CellStyle {
    match activity {
        Activity::Suspended | Activity::Stopping => look.theme.warn,
        Activity::WaitingToRestart { .. } | Activity::Restarting => look.theme.bad,
        Activity::Idle | Activity::Open | Activity::Waiting => look.theme.weak,
        Activity::Handling { for_at_least, .. } if *for_at_least >= STUCK => look.theme.bad,
        Activity::Handling { for_at_least, .. } if *for_at_least >= SLOW => look.theme.warn,
        Activity::Handling { .. } | Activity::Running | Activity::Ready => look.theme.good,
        _ => CellStyle::default(),
    }
}

/// Writes a number in at most six columns: `9,999`, `12.3k`, `4.5M`.
pub fn count(number: u64) -> String {
    let tenths = |unit: u64, name: &str| {
        let tenths = number / (unit / 10);
        if tenths >= 1_000 { format!("{}{name}", tenths / 10) } else { format!("{}.{}{name}", tenths / 10, tenths % 10) }
    };
    match number {
        0..1_000 => number.to_string(),
        1_000..10_000 => format!("{},{:03}", number / 1_000, number % 1_000),
        10_000..1_000_000 => tenths(1_000, "k"),
        1_000_000..1_000_000_000 => tenths(1_000_000, "M"),
        _ => tenths(1_000_000_000, "G"),
    }
}

/// Writes a rate: with a decimal if it is small.
pub fn per_second(rate: f64) -> String {
    match rate {
        rate if rate <= 0.0 => "0".to_string(),
        rate if rate < 10.0 => format!("{rate:.1}"),
        rate => count(rate.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_never_round_up_to_a_wrong_one() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (9_999, "9,999"),
            (40_213, "40.2k"),
            (999_999, "999k"),
            (1_000_000, "1.0M"),
            (123_456_789, "123M"),
            (u64::MAX, "18446744073G"),
        ] {
            assert_eq!(count(number), text);
        }
        assert_eq!([0.0, 0.06, 9.94, 1_204.4].map(per_second), ["0", "0.1", "9.9", "1,204"]);
    }

    #[test]
    fn sorted_column_is_shown_at_every_width() {
        for width in [60, 80, 120, 200] {
            for by in SortBy::ALL {
                let columns = Columns::new(width, 30, by);
                let header = columns.header(&Look::with(false, true), "v");
                let text: String = header.spans.iter().map(|span| span.content.as_ref()).collect();
                assert!(text.contains(&format!("{}v", Column::Sorted(by).title())), "{width} {by:?}: {text}");
                assert!(crate::output::table::width_of(&text) <= width, "{width} {by:?}: {text}");
            }
        }
    }
}
