//! [`View`]: what is shown, and what answers do to it. `keys` reacts to keys, `paint` draws it.

use super::action::OFFERS;
use super::args::SortBy;
use super::detail::Detail;
use super::palette::Palette;
use super::problems::Problems;
use super::rows::{RateBook, RowKey, Selection};
use super::tree::Tree;
use super::wish::{Answer, General, ListWish, Order, Round, Shown, Update, Wish};
use crate::output::times::Times;
use crate::screen::widgets::{Confirm, Help, Prompt};
use pleach::actor::ActorPath;
use pleach::inspect::{Health, Hello, MemberInfo, TopSums};
use pleach::store::Timestamp;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// The rows that are asked for beyond the visible ones.
const ROWS_AHEAD: usize = 32;

/// How many totals are kept for the trend.
const TOTALS_MAX: usize = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Busiest,
    Tree,
    Problems,
}

/// The sorted list.
#[derive(Debug, Default)]
pub struct List {
    pub rows: Vec<MemberInfo>,
    /// Whether the last row is the selected member, which is not among the first ones.
    pub has_outsider: bool,
    pub selection: Selection,
    pub sums: Option<TopSums>,
    pub compared: u64,
    pub is_complete: bool,
    pub took: Option<Duration>,
    /// Whether an answer to the current wish was shown.
    pub is_read: bool,
    /// A member to select by its path: after a new connection its id may be another one.
    reselect: Option<ActorPath>,
}

/// What lies over the picture.
#[derive(Debug, Default)]
pub enum Overlay {
    #[default]
    None,
    Help(Help),
    Confirm(Confirm, Order),
    /// The filter that is being typed, and the one before.
    Filter(Prompt, String),
    Palette(Palette),
}

/// A sentence for the person at the terminal.
#[derive(Debug)]
pub struct Note {
    pub text: String,
    pub is_bad: bool,
}

/// What the caller must do after a key.
#[derive(Debug, PartialEq)]
pub enum Act {
    Nothing,
    Quit,
    Order(Order),
    /// Follow events again, because the connection was lost.
    FollowAgain,
}

pub struct View {
    pub can_write: bool,
    pub times: Times,
    pub mode: Mode,
    pub by: SortBy,
    pub below: Option<ActorPath>,
    pub filter: String,
    pub list: List,
    pub tree: Tree,
    pub problems: Problems,
    pub detail: Option<Detail>,
    pub overlay: Overlay,
    pub hello: Option<Hello>,
    pub general: Option<General>,
    /// Why there is no connection.
    pub lost: Option<String>,
    pub as_of: Option<Timestamp>,
    pub is_frozen: bool,
    pub interval: Duration,
    pub rates: RateBook,
    /// Messages handled per second by all listed members, the oldest first.
    pub totals: VecDeque<f64>,
    /// The sum of handled messages of the last list, and when that was.
    total: Option<(u64, Instant)>,
    pub note: Option<Note>,
    /// The rows of the last picture.
    pub height: usize,
}

impl View {
    pub fn new(hello: Hello, by: SortBy, times: Times) -> Self {
        Self {
            can_write: false,
            times,
            mode: Mode::Busiest,
            by,
            below: user_path(),
            filter: String::new(),
            list: List::default(),
            tree: Tree::default(),
            problems: Problems::default(),
            detail: None,
            overlay: Overlay::None,
            hello: Some(hello),
            general: None,
            lost: None,
            as_of: None,
            is_frozen: false,
            interval: Duration::from_secs(1),
            rates: RateBook::default(),
            totals: VecDeque::new(),
            total: None,
            note: None,
            height: 20,
        }
    }

    /// Returns what the process is asked for.
    pub fn wish(&self) -> Wish {
        let shown = match (&self.detail, self.mode) {
            (Some(detail), _) => Shown::Detail(detail.path.clone()),
            (None, Mode::Busiest) => Shown::List(self.list_wish()),
            (None, Mode::Tree) => Shown::Tree(self.tree.wishes(self.height)),
            (None, Mode::Problems) => Shown::Problems,
        };
        let selected = self.list_chosen().filter(|_| matches!(shown, Shown::List(_)));
        Wish { shown, selected: selected.map(|row| row.path.clone()), interval: self.interval, is_frozen: self.is_frozen }
    }

    fn list_wish(&self) -> ListWish {
        // In steps, so that a step of the selection does not ask again.
        let index = if self.list.has_outsider { 0 } else { self.list.selection.index };
        let limit = (index + self.height + ROWS_AHEAD).next_multiple_of(ROWS_AHEAD).min(1_000);
        ListWish { by: self.by.wire(), below: self.below.clone(), contains: self.filter.clone(), limit }
    }

    /// Takes what came from the process.
    pub fn apply(&mut self, update: Update) -> Act {
        match update {
            Update::Connected(hello) => return self.connected(hello),
            Update::Lost(reason) => self.lost = Some(reason),
            Update::Round(round) => self.answered(*round),
            Update::Acted(order, outcome) => self.acted(&order, outcome),
            Update::Event(path, event) => {
                if let Some(detail) = self.detail.as_mut().filter(|detail| detail.path == path) {
                    detail.event(event);
                }
            }
            Update::NoEvents(path, reason) => {
                if let Some(detail) = self.detail.as_mut().filter(|detail| detail.path == path) {
                    detail.no_events(format!("events cannot be followed: {reason}"));
                }
            }
        }
        Act::Nothing
    }

    fn connected(&mut self, hello: Hello) -> Act {
        let before = self.hello.replace(hello.clone());
        if self.lost.take().is_none() {
            return Act::Nothing;
        }
        // Ids may mean other members now.
        self.tree.forget();
        (self.rates, self.total) = (RateBook::default(), None);
        self.list.reselect = self.list_chosen().map(|member| member.path.clone());
        if let Some(detail) = &mut self.detail {
            *detail = Detail::new(detail.path.clone(), None);
        }
        let is_other = before.is_some_and(|before| before.pid != hello.pid);
        let to = if is_other { format!(", to another process: pid {}", hello.pid) } else { String::new() };
        self.say(format!("connected again{to}"), false);
        Act::FollowAgain
    }

    fn answered(&mut self, round: Round) {
        self.as_of = Some(round.at);
        if let Some(general) = round.general {
            self.problems.apply(&general.health);
            self.hello = Some(general.hello.clone());
            self.general = Some(general);
        }
        match round.answer {
            Answer::List(wish, top) => self.listed(&wish, top, round.selected, round.list_took),
            Answer::Tree(answers) => {
                self.tree.apply(answers);
                let members = self.tree.rows.iter().filter_map(|row| row.member());
                self.rates.note(members.map(|member| (member, None)), Instant::now());
            }
            Answer::Problems(members) => self.problems.not_well(members),
            Answer::Detail(path, answer) => {
                if let Some(detail) = self.detail.as_mut().filter(|detail| detail.path == path) {
                    detail.apply(answer);
                    self.rates.note(detail.member.iter().map(|member| (member, None)), Instant::now());
                }
            }
        }
    }

    fn listed(
        &mut self,
        wish: &ListWish,
        top: Option<pleach::inspect::Top>,
        selected: Option<(ActorPath, Option<MemberInfo>)>,
        took: Option<Duration>,
    ) {
        let current = self.list_wish();
        if (wish.by, &wish.contains, &wish.below) != (current.by, &current.contains, &current.below) {
            return;
        }
        let Some(top) = top else {
            let gone = std::mem::replace(&mut self.below, user_path()).map_or_else(String::new, |path| path.to_string());
            return self.say(format!("{gone} has ended; everything below /user is listed again"), true);
        };
        self.rates.note(top.rows.iter().map(|row| (&row.member, row.handled_per_s)), Instant::now());
        self.note_total(top.sums);
        let chosen = self.list_chosen().filter(|_| self.list.reselect.is_none()).cloned();
        let list = &mut self.list;
        list.rows = top.rows.into_iter().map(|row| row.member).collect();
        (list.sums, list.compared, list.is_complete) = (top.sums, top.compared, top.is_complete);
        (list.took, list.is_read, list.has_outsider) = (took, true, false);
        if list.sums.is_none() && !wish.contains.is_empty() {
            // An older process: what it sent is filtered here.
            let wanted = wish.contains.to_lowercase();
            list.rows.retain(|member| member.path.to_string().to_lowercase().contains(&wanted));
        }
        if let Some(chosen) = chosen.filter(|chosen| list.rows.iter().all(|row| row.id != chosen.id)) {
            // Asked for by path; without an answer, as it was known.
            let now = match selected {
                Some((path, found)) if path == chosen.path => found.filter(|found| found.id == chosen.id),
                _ => Some(chosen),
            };
            list.has_outsider = now.is_some();
            list.rows.extend(now);
        }
        let keys = self.list_keys();
        if let Some(path) = self.list.reselect.take() {
            match self.list.rows.iter().position(|row| row.path == path) {
                Some(index) => self.list.selection.select(index, &keys),
                None => self.list.selection.stay_at_top(),
            }
        } else if self.list.selection.settle(&keys) {
            self.say("the selected member has ended".to_string(), false);
        }
    }

    /// Notes how many messages were handled between two lists of the same members.
    fn note_total(&mut self, sums: Option<TopSums>) {
        let (Some(sums), now) = (sums, Instant::now()) else { return };
        let handled = sums.counts.handled;
        match self.total {
            Some((_, at)) if now.duration_since(at) < Duration::from_millis(200) => return,
            Some((before, at)) if self.list.is_read => {
                if self.totals.len() == TOTALS_MAX {
                    self.totals.pop_front();
                }
                let seconds = now.duration_since(at).as_secs_f64();
                self.totals.push_back(handled.saturating_sub(before) as f64 / seconds);
            }
            _ => self.totals.clear(),
        }
        self.total = Some((handled, now));
    }

    fn acted(&mut self, order: &Order, outcome: Result<(), String>) {
        let name = OFFERS.iter().find(|offer| offer.action == order.action).map_or("action", |offer| offer.name);
        match outcome {
            Ok(()) => self.say(format!("{name} of {} was ordered", order.path), false),
            Err(reason) => self.say(format!("{name} of {} was refused: {reason}", order.path), true),
        }
    }

    pub fn say(&mut self, text: String, is_bad: bool) {
        self.note = Some(Note { text, is_bad });
    }

    /// Returns the member on which the selection of the list stays.
    fn list_chosen(&self) -> Option<&MemberInfo> {
        self.list.rows.get(self.list.selection.index).filter(|_| self.list.selection.is_on_node())
    }

    pub fn list_keys(&self) -> Vec<RowKey> {
        self.list.rows.iter().map(|row| RowKey::Member(row.id)).collect()
    }

    /// Returns the member that actions are about.
    pub fn chosen(&self) -> Option<&MemberInfo> {
        match (&self.detail, self.mode) {
            (Some(detail), _) => detail.member.as_ref(),
            (None, Mode::Busiest) => self.list.rows.get(self.list.selection.index),
            (None, Mode::Tree) => self.tree.selected().and_then(|row| row.member()),
            (None, Mode::Problems) => None,
        }
    }

    /// Returns the paths that the palette suggests.
    pub fn paths(&self) -> Vec<ActorPath> {
        let tree = self.tree.rows.iter().filter_map(|row| row.member()).map(|member| member.path.clone());
        let mut paths: Vec<_> = self.list.rows.iter().map(|row| row.path.clone()).chain(tree).collect();
        paths.sort();
        paths.dedup();
        paths
    }

    /// Returns how many problems are known.
    pub fn problem_count(&self) -> usize {
        self.general.as_ref().map_or(0, |general| match &general.health {
            Health::Degraded(reasons) => reasons.len(),
            _ => 0,
        })
    }
}

/// Where the program's own members are. The rest is pleach itself, this connection among it.
pub fn user_path() -> Option<ActorPath> {
    "/user".parse().ok()
}
