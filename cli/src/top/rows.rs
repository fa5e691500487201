//! Rows of members: [`Selection`], which stays on the node, and [`RateBook`].

use pleach::actor::ActorPath;
use pleach::inspect::MemberInfo;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// How many rates of a member are kept.
const TREND_LEN: usize = 60;

/// What a row is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RowKey {
    /// The member with this id.
    Member(u64),
    /// The page of children of this member with this number, which is not read yet.
    More(ActorPath, usize),
    /// A problem, by its kind and its path.
    Problem(String),
}

/// Which row is selected, and which rows are visible.
#[derive(Debug, Default)]
pub struct Selection {
    /// Its row, wherever it moves. `None`: the first row, whatever it is.
    key: Option<RowKey>,
    pub index: usize,
    /// The first visible row.
    pub first: usize,
}

impl Selection {
    /// Finds the selected row again after the rows or their order changed. If it has gone, the row
    /// in its place is selected. Returns whether it has gone.
    pub fn settle(&mut self, keys: &[RowKey]) -> bool {
        let Some(key) = &self.key else {
            self.index = 0;
            return false;
        };
        match keys.iter().position(|other| other == key) {
            Some(index) => {
                self.index = index;
                false
            }
            None => {
                self.index = self.index.min(keys.len().saturating_sub(1));
                self.key = keys.get(self.index).cloned();
                true
            }
        }
    }

    /// Selects another row.
    pub fn select(&mut self, index: usize, keys: &[RowKey]) {
        self.index = index.min(keys.len().saturating_sub(1));
        self.key = keys.get(self.index).cloned();
    }

    pub fn move_by(&mut self, by: isize, keys: &[RowKey]) {
        self.select(self.index.saturating_add_signed(by), keys);
    }

    /// Selects the first row, also if another one becomes the first.
    pub fn stay_at_top(&mut self) {
        *self = Self::default();
    }

    /// Whether the selection belongs to a node, and not to the first row.
    pub fn is_on_node(&self) -> bool {
        self.key.is_some()
    }

    /// Moves the visible rows so that the selected one is among them.
    pub fn scroll(&mut self, height: usize, rows: usize) {
        let height = height.max(1);
        self.first = self.first.min(rows.saturating_sub(height)).min(self.index);
        if self.index >= self.first + height {
            self.first = self.index + 1 - height;
        }
    }
}

/// How many messages members handle per second, from the counts of one answer to the next.
#[derive(Debug, Default)]
pub struct RateBook(HashMap<u64, Known>);

#[derive(Debug)]
struct Known {
    handled: u64,
    at: Instant,
    rates: VecDeque<f64>,
}

impl RateBook {
    /// Notes the members of an answer, and forgets all others. A rate that the process computed
    /// counts more than two looks at the counts.
    pub fn note<'a>(&mut self, members: impl Iterator<Item = (&'a MemberInfo, Option<f64>)>, now: Instant) {
        let mut next = HashMap::new();
        for (member, exact) in members {
            let Some(actor) = &member.actor else { continue };
            let handled = actor.counts.handled;
            let known = match self.0.remove(&member.id) {
                // Two answers in quick succession say little about a second.
                Some(known) if now.duration_since(known.at) < Duration::from_millis(200) => known,
                Some(mut known) => {
                    let seconds = now.duration_since(known.at).as_secs_f64();
                    let rate = exact.unwrap_or(handled.saturating_sub(known.handled) as f64 / seconds);
                    if known.rates.len() == TREND_LEN {
                        known.rates.pop_front();
                    }
                    known.rates.push_back(rate);
                    Known { handled, at: now, ..known }
                }
                None => Known { handled, at: now, rates: VecDeque::new() },
            };
            next.insert(member.id, known);
        }
        self.0 = next;
    }

    /// Returns the last rate of a member, from its second answer on.
    pub fn rate(&self, id: u64) -> Option<f64> {
        self.0.get(&id)?.rates.back().copied()
    }

    /// Returns the rates of a member, the oldest first.
    pub fn trend(&self, id: u64) -> impl DoubleEndedIterator<Item = f64> + '_ {
        self.0.get(&id).into_iter().flat_map(|known| known.rates.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(ids: &[u64]) -> Vec<RowKey> {
        ids.iter().map(|id| RowKey::Member(*id)).collect()
    }

    #[test]
    fn selection_follows_the_node() {
        let mut selection = Selection::default();
        selection.settle(&keys(&[1, 2, 3]));
        assert!(!selection.settle(&keys(&[3, 2, 1])) && selection.index == 0, "untouched, it stays at the top");
        selection.move_by(2, &keys(&[3, 2, 1]));
        assert!(!selection.settle(&keys(&[1, 3, 2])));
        assert_eq!(selection.index, 0);
        assert!(selection.settle(&keys(&[9, 8])), "member 1 has gone");
        assert!(!selection.settle(&keys(&[8, 9])), "the row in its place is followed now");
        assert_eq!(selection.index, 1);
        assert!(selection.settle(&keys(&[])) && selection.index == 0);
    }

    #[test]
    fn selected_row_stays_visible() {
        let (mut selection, all) = (Selection::default(), keys(&(0..100).collect::<Vec<_>>()));
        selection.move_by(30, &all);
        selection.scroll(10, 100);
        assert_eq!(selection.first, 21);
        selection.move_by(-5, &all);
        selection.scroll(10, 100);
        assert_eq!(selection.first, 21, "it does not scroll without need");
        selection.move_by(-100, &all);
        selection.scroll(10, 100);
        assert_eq!((selection.index, selection.first), (0, 0));
        selection.move_by(1_000, &all);
        selection.scroll(200, 100);
        assert_eq!((selection.index, selection.first), (99, 0));
    }
}
