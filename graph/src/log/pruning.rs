//! Pruning: removes records of a live run that are no longer needed.
//!
//! A run can go back to every remaining record. Such a record needs the last whole frontier before
//! it (its base), the headers in between, the records that its frontier names, and the records that
//! could be undone then. So:
//! 1. The log is cut at the base of the oldest retained record.
//! 2. Everything that this base needs is retained. Later records need nothing older, except records
//!    that a rewind rewrote; they are tracked as other undo chains.
//! 3. Pruning runs after a durable commit, beside further commits, in batches of at least 64
//!    records, so its cost per step is small.

use crate::log::frontier::Frontier;
use crate::log::last_step::LastStep;
use crate::log::{LogState, RunLog, open};
use crate::store::{Header, Prune, StoreError};
use pleach_core::BoxFuture;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Context;

/// The smallest number of surplus records that starts pruning.
const SPARE_MIN: u64 = 64;

/// The records that can be undone, as a chain: each names its predecessor.
#[derive(Default)]
pub(super) struct UndoChain {
    /// The end of the part that was not read yet; 0 if all records are known.
    unknown: u64,
    /// The known records, in order. The last ones may be undone already.
    known: Vec<u64>,
    /// The record up to which other chains were not searched.
    pub(super) unscanned: u64,
    /// The ends of other chains, from before rewinds, each with the last record that uses it:
    /// (record, end of chain).
    others: Vec<(u64, u64)>,
    /// The known predecessors on such chains.
    before: HashMap<u64, u64>,
}

impl UndoChain {
    /// Creates a chain that ends at `last` and was not read yet.
    pub(super) fn from(last: u64) -> Self {
        Self { unknown: last, ..Self::default() }
    }

    pub(super) fn known(known: Vec<u64>) -> Self {
        Self { known, ..Self::default() }
    }

    /// Appends a record whose predecessor is `before`.
    pub(super) fn push(&mut self, sequence: u64, before: u64) {
        while self.known.pop_if(|last| *last > before).is_some() {}
        self.known.push(sequence);
    }

    /// Notes that the records after `last` are undone. The next [`push`](Self::push) removes them.
    pub(super) fn truncate(&mut self, last: u64) {
        self.unknown = self.unknown.min(last);
    }

    /// Notes that the records from `sequence` on use the chain that ends at `undo`.
    pub(super) fn rewound(&mut self, sequence: u64, undo: u64) {
        self.others.push((sequence, undo));
    }

    /// Returns the chain up to `last`, if it is known.
    fn chain(&self, last: u64) -> Option<&[u64]> {
        let at = self.known.binary_search(&last).ok().filter(|_| self.unknown == 0)?;
        Some(&self.known[..=at])
    }
}

/// Removes records that are no longer needed.
#[derive(Default)]
pub(super) struct Pruner {
    /// The oldest record to retain, once the commit in flight is durable.
    planned: Option<u64>,
    /// The head at the last plan.
    planned_at: u64,
    work: Option<BoxFuture<'static, Result<(), StoreError>>>,
}

impl Pruner {
    /// Plans pruning when a commit of all submitted records begins.
    pub(super) fn plan(&mut self, state: &LogState, retained: u64) {
        // Each pruning visits all retained records, so at least as many steps must pay for it.
        let spare = retained.max(SPARE_MIN).max(state.frontier.width() as u64).max(state.undos.known.len() as u64);
        let is_due = (state.head + 1).saturating_sub(state.oldest) > retained.saturating_add(spare);
        // A failed pruning is not repeated with the next step.
        if self.work.is_none() && is_due && state.head >= self.planned_at + SPARE_MIN {
            self.planned_at = state.head;
            self.planned = Some(state.head + 1 - retained);
        }
    }

    /// Starts the planned pruning: the commit is durable.
    pub(super) fn begin(&mut self, log: &Arc<RunLog>) {
        let Some(oldest_kept) = self.planned.take() else { return };
        let log = Arc::clone(log);
        self.work = Some(Box::pin(async move { log.prune(oldest_kept).await }));
    }

    /// Polls the pruning in flight. An error is ignored: the next pruning repeats the work.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) {
        if self.work.as_mut().is_some_and(|work| work.as_mut().poll(cx).is_ready()) {
            self.work = None;
        }
    }
}

impl RunLog {
    /// Removes the records that no record from `at` on needs, and no replay of the last step.
    async fn prune(&self, at: u64) -> Result<(), StoreError> {
        let at = self.before_last_step(at).await?;
        let header = self.header(at).await?;
        let base = if header.frontier.is_some() { at } else { header.base.unwrap_or(at) };
        let before = at.min(base);
        if before <= self.lock().oldest {
            return Ok(());
        }
        let whole = if base == at { header } else { self.header(base).await? };
        let missing = || StoreError::Damaged { run: self.run.to_string(), sequence: base, reason: "it has no frontier" };
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
        crate::util::work_count::count(keep.len() as u64);
        self.options.store.prune(Prune::Rows { held, before, keep }).await?;
        let mut state = self.lock();
        state.oldest = state.oldest.max(before);
        Ok(())
    }

    /// Returns the record before the last step, if that is earlier than `at`: `replay_last` needs
    /// it, however few records are retained.
    async fn before_last_step(&self, at: u64) -> Result<u64, StoreError> {
        let durable = self.durable.load(Ordering::Acquire);
        match LastStep::find(&*self.options.store, &self.run, durable).await {
            Ok(step) => Ok(step.map_or(at, |step| at.min(step.sequence - 1))),
            // An earlier version has pruned it.
            Err(StoreError::Pruned { .. }) => Ok(at),
            Err(error) => Err(error),
        }
    }

    async fn header(&self, sequence: u64) -> Result<Header, StoreError> {
        let found = open::headers(&*self.options.store, &self.run, sequence, sequence).await?.pop();
        let missing = || StoreError::Damaged { run: self.run.to_string(), sequence, reason: "it is not there" };
        found.map(|(_, header)| header).ok_or_else(missing)
    }

    /// Reads the undo chain, which a resumed run does not know.
    async fn find_undos(&self) -> Result<(), StoreError> {
        let last = self.lock().undos.unknown;
        let (mut found, mut next) = (Vec::new(), last);
        while next > 0 {
            found.push(next);
            next = open::undo_of(self, next).await?.1.before;
        }
        found.reverse();
        let undos = &mut self.lock().undos;
        // Some may have been undone meanwhile.
        if last > 0 && undos.unknown == last {
            found.append(&mut undos.known);
            (undos.known, undos.unknown) = (found, 0);
        }
        Ok(())
    }

    /// Finds, once, the chains used by records of earlier drivers. Forgets chains used only by
    /// records before `base`.
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

    /// Adds the records of a chain to `keep`.
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
