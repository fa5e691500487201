//! What a live run lets go of: its records, but for the last ones, and for those that going on, going back or undoing take.
//!
//! Every record that is left can be gone back to. Such a record needs the last whole frontier before it (its base), the headers in between, the
//! records that its frontier names, and those that could be undone then. So the log is cut at the base of the oldest record that is to be kept, and
//! what that base needs stays. Whatever is later needs nothing older, but for what was written anew by a rewind: those are known, too.
//!
//! It happens once a commit is durable, beside further commits, by the hundred, so that it costs next to nothing a step.

use crate::log::frontier::Frontier;
use crate::log::last_step::LastStep;
use crate::log::{LogState, RunLog, open};
use crate::store::{Header, Prune, StoreError};
use pleach_core::BoxFuture;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Context;

/// It is pruned when there are this many more records than are to be kept, at least.
const SPARE_MIN: u64 = 64;

/// The records of a run that can be undone: each leads to the one before it.
#[derive(Default)]
pub(super) struct UndoChain {
    /// Where the chain of those begins that nobody has looked for yet; 0 if all are known.
    unknown: u64,
    /// In the order of their sequences. The last ones may be undone already.
    known: Vec<u64>,
    /// Up to which record nobody has looked for chains that are not this one.
    pub(super) unscanned: u64,
    /// Where other chains begin that later records have, since the run was rewound; each with the last record that has it.
    others: Vec<(u64, u64)>,
    /// What precedes a record on such a chain, as far as it was looked for.
    before: HashMap<u64, u64>,
}

impl UndoChain {
    /// The chain that begins here.
    pub(super) fn from(last: u64) -> Self {
        Self { unknown: last, ..Self::default() }
    }

    pub(super) fn known(known: Vec<u64>) -> Self {
        Self { known, ..Self::default() }
    }

    /// A record that can be undone follows `before` on the chain.
    pub(super) fn push(&mut self, sequence: u64, before: u64) {
        while self.known.pop_if(|last| *last > before).is_some() {}
        self.known.push(sequence);
    }

    /// Those after this one are undone.
    pub(super) fn cut_back(&mut self, last: u64) {
        self.unknown = self.unknown.min(last);
    }

    /// From this record on the run has this chain.
    pub(super) fn rewound(&mut self, sequence: u64, undo: u64) {
        self.others.push((sequence, undo));
    }

    /// Those of the chain from `last` on, if they are known.
    fn chain(&self, last: u64) -> Option<&[u64]> {
        let at = self.known.binary_search(&last).ok().filter(|_| self.unknown == 0)?;
        Some(&self.known[..=at])
    }
}

/// Lets go of records that nobody needs any more.
#[derive(Default)]
pub(super) struct Pruner {
    /// The oldest record that is to be kept, once the commit that is under way is durable.
    planned: Option<u64>,
    /// The head when it was last planned.
    planned_at: u64,
    work: Option<BoxFuture<'static, Result<(), StoreError>>>,
}

impl Pruner {
    /// A commit of all that was submitted begins.
    pub(super) fn plan(&mut self, state: &LogState, kept: u64) {
        // What is kept in any case is looked at each time: as many steps pay for it.
        let spare = kept.max(SPARE_MIN).max(state.frontier.width() as u64).max(state.undos.known.len() as u64);
        let is_due = (state.head + 1).saturating_sub(state.oldest) > kept.saturating_add(spare);
        // What failed is not tried again with the next step.
        if self.work.is_none() && is_due && state.head >= self.planned_at + SPARE_MIN {
            self.planned_at = state.head;
            self.planned = Some(state.head + 1 - kept);
        }
    }

    /// What was planned may be done: the commit is durable.
    pub(super) fn begin(&mut self, log: &Arc<RunLog>) {
        let Some(oldest_kept) = self.planned.take() else { return };
        let log = Arc::clone(log);
        self.work = Some(Box::pin(async move { log.prune(oldest_kept).await }));
    }

    /// What could not be done now is done another time.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) {
        if self.work.as_mut().is_some_and(|work| work.as_mut().poll(cx).is_ready()) {
            self.work = None;
        }
    }
}

impl RunLog {
    /// Removes what no record from `at` on needs, and no replay of the last step.
    async fn prune(&self, at: u64) -> Result<(), StoreError> {
        let at = self.before_last_step(at).await?;
        let header = self.header(at).await?;
        let base = if header.frontier.is_some() { at } else { header.base.unwrap_or(at) };
        let before = at.min(base);
        if before <= self.lock().oldest {
            return Ok(());
        }
        let whole = if base == at { header } else { self.header(base).await? };
        let missing = || StoreError::Damaged { run: self.run.to_string(), sequence: base, why: "it has no frontier" };
        let rows: Vec<u64> = Frontier::of(whole.frontier.ok_or_else(missing)?).rows().collect();
        let mut keep = BTreeSet::from_iter(rows);
        self.find_undos().await?;
        self.find_other_chains(base).await?;
        let mut chains: Vec<u64> = self.lock().undos.others.iter().map(|(_, undo)| *undo).collect();
        chains.push(whole.undo);
        for undo in chains {
            self.keep_chain(undo, &mut keep).await?;
        }
        self.lock().undos.before.retain(|record, _| keep.contains(record));
        let _later = keep.split_off(&before);
        let (held, keep) = (self.held(), Vec::from_iter(keep));
        crate::util::work_count::visit(keep.len() as u64);
        self.options.store.prune(Prune::Rows { held, before, keep }).await?;
        let mut state = self.lock();
        state.oldest = state.oldest.max(before);
        Ok(())
    }

    /// The record before the last step, if that is earlier than `at`: `replay_last` goes back to it, however few records are kept.
    async fn before_last_step(&self, at: u64) -> Result<u64, StoreError> {
        let durable = self.durable.load(Ordering::Acquire);
        match LastStep::find(&*self.options.store, &self.run, durable).await {
            Ok(step) => Ok(step.map_or(at, |step| at.min(step.sequence - 1))),
            // An earlier version has removed it.
            Err(StoreError::Pruned { .. }) => Ok(at),
            Err(error) => Err(error),
        }
    }

    async fn header(&self, sequence: u64) -> Result<Header, StoreError> {
        let found = open::headers(&*self.options.store, &self.run, sequence, sequence).await?.pop();
        let missing = || StoreError::Damaged { run: self.run.to_string(), sequence, why: "it is not there" };
        found.map(|(_, header)| header).ok_or_else(missing)
    }

    /// Finds the records that can be undone, since a resumed run does not know them.
    async fn find_undos(&self) -> Result<(), StoreError> {
        let last = self.lock().undos.unknown;
        let (mut found, mut next) = (Vec::new(), last);
        while next > 0 {
            found.push(next);
            next = open::undo_of(self, next).await?.1.before;
        }
        found.reverse();
        let undos = &mut self.lock().undos;
        // Meanwhile some may have been undone.
        if last > 0 && undos.unknown == last {
            found.append(&mut undos.known);
            (undos.known, undos.unknown) = (found, 0);
        }
        Ok(())
    }

    /// Finds out, once, which chains the records have that earlier drivers left. Those that only records before `base` have are forgotten.
    async fn find_other_chains(&self, base: u64) -> Result<(), StoreError> {
        let unscanned = self.lock().undos.unscanned;
        let mut found: HashMap<u64, u64> = HashMap::new();
        if base <= unscanned {
            for (sequence, header) in open::headers(&*self.options.store, &self.run, base, unscanned).await? {
                found.insert(header.undo, sequence);
            }
        }
        let undos = &mut self.lock().undos;
        undos.unscanned = 0;
        undos.others.extend(found.into_iter().filter(|(undo, _)| *undo > 0).map(|(undo, sequence)| (sequence, undo)));
        undos.others.retain(|(sequence, _)| *sequence >= base);
        Ok(())
    }

    /// Keeps the records of a chain.
    async fn keep_chain(&self, last: u64, keep: &mut BTreeSet<u64>) -> Result<(), StoreError> {
        let mut next = last;
        while next > 0 {
            let known = {
                let undos = &self.lock().undos;
                if let Some(chain) = undos.chain(next) {
                    keep.extend(chain);
                    return Ok(());
                }
                undos.before.get(&next).copied()
            };
            keep.insert(next);
            next = match known {
                Some(before) => before,
                None => {
                    let before = open::undo_of(self, next).await?.1.before;
                    self.lock().undos.before.insert(next, before);
                    before
                }
            };
        }
        Ok(())
    }
}
