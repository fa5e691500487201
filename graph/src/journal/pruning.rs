//! What a live run lets go of: its records, but for the last ones, and for those that going on or undoing take.
//!
//! What is needed is written down when a commit begins, and what is not is removed once that commit is durable: until then a crash would go back
//! to records that the commit makes superfluous. It happens beside further commits, by the hundred, so that it costs next to nothing a step.

use super::{Journal, State, opening};
use crate::store::{Prune, StoreError};
use pleach_core::BoxFuture;
use std::sync::Arc;
use std::task::Context;

/// It is pruned when there are this many more records than are to be kept, at least.
const SPARE_MIN: u64 = 64;

/// The records of a run that can be undone.
#[derive(Default)]
pub(super) struct Undos {
    /// Where the chain of those begins that nobody has looked for yet; 0 if all are known.
    unknown: u64,
    /// In the order of their sequences.
    known: Vec<u64>,
}

impl Undos {
    /// The chain that begins here.
    pub(super) fn from(last: u64) -> Self {
        Self { unknown: last, known: Vec::new() }
    }

    pub(super) fn known(known: Vec<u64>) -> Self {
        Self { unknown: 0, known }
    }

    pub(super) fn push(&mut self, sequence: u64) {
        self.known.push(sequence);
    }

    /// Those after this one are undone.
    pub(super) fn cut_back(&mut self, last: u64) {
        self.known.retain(|row| *row <= last);
        self.unknown = self.unknown.min(last);
    }
}

/// Lets go of records that nobody needs any more.
#[derive(Default)]
pub(super) struct Pruner {
    planned: Option<Plan>,
    /// The head when it was last planned.
    planned_at: u64,
    work: Option<BoxFuture<'static, Result<(), StoreError>>>,
}

/// What is to be done when a commit is durable.
enum Plan {
    Find(u64),
    Remove { before: u64, keep: Vec<u64> },
}

impl Pruner {
    /// A commit of all that was submitted begins.
    pub(super) fn plan(&mut self, state: &State, kept: u64) {
        let spare = kept.max(SPARE_MIN).max(state.frontier.width() as u64);
        let is_due = (state.head + 1).saturating_sub(state.oldest) > kept.saturating_add(spare);
        // What failed is not tried again with the next step.
        if self.work.is_some() || !is_due || state.head < self.planned_at + SPARE_MIN {
            return;
        }
        self.planned_at = state.head;
        if state.undos.unknown > 0 {
            self.planned = Some(Plan::Find(state.undos.unknown));
            return;
        }
        // From the last whole frontier on, every record counts.
        let before = (state.head + 1 - kept).min(state.base);
        if before <= state.oldest {
            return;
        }
        let rows = state.frontier.rows().chain(state.undos.known.iter().copied());
        let mut keep: Vec<u64> = rows.filter(|row| *row < before).collect();
        keep.sort_unstable();
        keep.dedup();
        self.planned = Some(Plan::Remove { before, keep });
    }

    /// What was planned may be done: the commit is durable.
    pub(super) fn begin(&mut self, journal: &Arc<Journal>) {
        let Some(planned) = self.planned.take() else { return };
        let journal = Arc::clone(journal);
        self.work = Some(match planned {
            Plan::Find(last) => Box::pin(async move { journal.find_undos(last).await }),
            Plan::Remove { before, keep } => Box::pin(async move { journal.prune(before, keep).await }),
        });
    }

    /// What could not be done now is done another time.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) {
        if self.work.as_mut().is_some_and(|work| work.as_mut().poll(cx).is_ready()) {
            self.work = None;
        }
    }
}

impl Journal {
    async fn prune(&self, before: u64, keep: Vec<u64>) -> Result<(), StoreError> {
        let held = self.held();
        self.terms.store.prune(Prune::Rows { held, before, keep }).await?;
        let mut state = self.lock();
        state.oldest = state.oldest.max(before);
        Ok(())
    }

    /// Finds the records that can be undone, since a resumed run does not know them.
    async fn find_undos(&self, last: u64) -> Result<(), StoreError> {
        let (mut found, mut next) = (Vec::new(), last);
        while next > 0 {
            found.push(next);
            next = opening::undo_of(self, next).await?.1.before;
        }
        found.reverse();
        let mut state = self.lock();
        // Meanwhile some may have been undone.
        if state.undos.unknown == last {
            found.append(&mut state.undos.known);
            state.undos = Undos::known(found);
        }
        Ok(())
    }
}
