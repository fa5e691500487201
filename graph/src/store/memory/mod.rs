//! [`MemoryStore`]: durable runs in memory, without durability.
//!
//! It implements the whole contract of [`Store`] in plain data, for tests and for programs that may
//! lose their runs. `runs` has the data and the changes of a run.
//!
//! Invariants:
//! 1. One lock guards all runs. Each method takes it once, so every method is atomic.
//! 2. No waker is woken and no foreign code is called under the lock.

mod runs;

use super::hint::Hints;
use super::limits::{READ_BYTES_MAX, READ_ROWS_MAX, check_lease};
use super::overdue::before;
use super::query::{Answer, Page, Query, RowQuery};
use super::time::EARLY_END_MAX;
use super::{
    Claim, Commit, Committed, Filter, Held, InboxMessage, Lease, NewMessage, NewRun, OverdueRuns, Parts, Prune, RefusedMessage,
    Release, Renewed, Row, Rows, RunCursor, RunInfo, RunList, Store, StoreError, StoreFuture, Timestamp, Wanted,
};
use crate::util::work_count;
use pleach_core::{BoxFuture, Runtime};
use runs::{Run, Runs};
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// A store in memory. The runs are lost when the last clone is dropped.
///
/// Clones are cheap and share the same runs.
///
/// # Examples
/// ```
/// use pleach::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = Graph::<u32>::new("double")
///     .add_node("double", |n: u32| async move { Ok::<_, String>(n * 2) })
///     .add_edge("double", END)
///     .set_entry("double")
///     .compile()?;
///
/// let store = MemoryStore::new();
/// assert_eq!(graph.run(21).id("job-1").checkpoint(&store).await?, 42);
/// assert_eq!(store.head("job-1").await?.status.as_str(), "finished");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MemoryStore(Arc<MemoryParts>);

struct MemoryParts {
    runs: Mutex<Runs>,
    hints: Hints,
    /// The clock of the store; `None` means the machine's clock.
    runtime: Option<Arc<dyn Runtime>>,
}

impl MemoryStore {
    /// Creates an empty store that uses the machine's clock.
    pub fn new() -> Self {
        Self::with_clock(None)
    }

    /// Creates an empty store that uses the clock of `runtime`.
    ///
    /// On a simulator, leases and timers then run in virtual time.
    pub fn on(runtime: Arc<dyn Runtime>) -> Self {
        Self::with_clock(Some(runtime))
    }

    fn with_clock(runtime: Option<Arc<dyn Runtime>>) -> Self {
        Self(Arc::new(MemoryParts { runs: Mutex::default(), hints: Hints::default(), runtime }))
    }

    fn now(&self) -> Timestamp {
        match &self.0.runtime {
            Some(runtime) => Timestamp::default().after(runtime.now().since_start()),
            None => SystemTime::now().into(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Runs> {
        self.0.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `act` under the lock when the future is polled.
    fn answer<'a, T: Send + 'a>(
        &'a self,
        act: impl FnOnce(&mut Runs, Timestamp) -> Result<T, StoreError> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move { act(&mut self.lock(), self.now()) })
    }

    /// Runs `act` under the lock, and sends a hint if `sends_hint` is true and `act` succeeds.
    fn answer_with_hint<'a, T: Send + 'a>(
        &'a self,
        sends_hint: bool,
        act: impl FnOnce(&mut Runs, Timestamp) -> Result<T, StoreError> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            let answer = act(&mut self.lock(), self.now());
            if sends_hint && answer.is_ok() {
                self.0.hints.notify();
            }
            answer
        })
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("runs", &self.lock().by_id.len()).finish()
    }
}

impl Store for MemoryStore {
    fn create(&self, run: NewRun, rows: Vec<Row>) -> StoreFuture<'_, Claim> {
        self.answer_with_hint(run.lease.is_none(), |runs, now| {
            run.check(&rows)?;
            runs.create(run, rows, now)
        })
    }

    fn claim(&self, wanted: Wanted, lease: Lease) -> StoreFuture<'_, Vec<Claim>> {
        self.answer(move |runs, now| {
            wanted.check(&lease)?;
            match wanted {
                Wanted::One { run, force } => Ok(vec![runs.get(&run)?.claim(&lease, force, now)?]),
                Wanted::Ready { graphs, count } => Ok(runs.claim_ready(&graphs, count, &lease, now)),
            }
        })
    }

    fn renew(&self, held: Vec<Held>, lease: Duration) -> StoreFuture<'_, Renewed> {
        self.answer(move |runs, now| {
            check_lease(lease)?;
            let lost = runs.for_each_held(held, |info| info.lease_until = Some(now.after(lease)));
            Ok(Renewed { lost, busy: Vec::new(), now })
        })
    }

    fn release(&self, held: Vec<Held>, how: Release) -> StoreFuture<'_, Vec<Held>> {
        self.answer_with_hint(true, move |runs, now| Ok(runs.for_each_held(held, |info| info.apply_release(&how, now))))
    }

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        self.answer_with_hint(commit.may_make_ready(), move |runs, now| {
            let head = commit.check()?;
            let fenced = StoreError::Fenced { run: commit.run.clone(), epoch: commit.epoch };
            let Some(run) = runs.by_id.get_mut(&commit.run) else { return Err(fenced) };
            if run.info.is_held_as(&commit.held()) && run.info.head == head {
                run.apply(commit, now);
            } else if !run.has_committed(commit.instance, commit.epoch, &commit.rows) {
                return Err(fenced);
            }
            Ok(Committed { last_message: run.info.last_message, now })
        })
    }

    fn head<'a>(&'a self, run: &'a str) -> StoreFuture<'a, RunInfo> {
        self.answer(|runs, _| Ok(runs.get(run)?.info.clone()))
    }

    fn read<'a>(&'a self, run: &'a str, which: Rows, parts: Parts) -> StoreFuture<'a, Vec<Row>> {
        self.answer(move |runs, _| {
            let query = RowQuery::new(which)?;
            let stored = runs.get(run)?;
            let mut answer = Answer::new(run, stored.info.oldest);
            for sequence in query.of_run(run, stored.info.head, stored.info.oldest)? {
                let found = stored.log.get(&sequence).map(|row| match parts {
                    Parts::Whole => row.clone(),
                    Parts::Headers => Row { header: row.header.clone(), body: Vec::new(), ..*row },
                });
                if !answer.add(sequence, found)? {
                    break;
                }
            }
            Ok(answer.into_rows())
        })
    }

    fn list(&self, filters: Vec<Filter>, after: Option<RunCursor>, count: usize) -> StoreFuture<'_, RunList> {
        self.answer(move |runs, _| {
            let Some(query) = Query::new(filters) else { return Ok(RunList::default()) };
            let (before, since) = (query.before(after), query.created_since);
            let mut page = Page::new(query, count);
            let newest_first = runs.by_age.range((Bound::Unbounded, before.map_or(Bound::Unbounded, Bound::Excluded))).rev();
            for (at, id) in newest_first.take_while(|(at, _)| since.is_none_or(|since| at.created >= since)) {
                if !page.add(*at, Ok(runs.by_id[id].info.clone())) {
                    break;
                }
            }
            Ok(page.into_list())
        })
    }

    fn overdue(&self, due_for: Duration, count: usize) -> StoreFuture<'_, Vec<OverdueRuns>> {
        self.answer(move |runs, now| Ok(runs.overdue(before(now, due_for), count, now)))
    }

    fn send_message<'a>(&'a self, run: &'a str, message: NewMessage) -> StoreFuture<'a, u64> {
        self.answer_with_hint(true, move |runs, now| {
            message.check()?;
            runs.get(run)?.add_message(message, now)
        })
    }

    fn inbox<'a>(&'a self, run: &'a str, after: u64) -> StoreFuture<'a, Vec<InboxMessage>> {
        self.answer(move |runs, _| {
            let mut messages: Vec<InboxMessage> = Vec::new();
            let mut bytes = 0;
            let numbers = after.saturating_add(1)..;
            for stored in
                runs.get(run)?.inbox.range(numbers).map(|(_, stored)| stored).filter(|stored| stored.taken_by.is_none())
            {
                work_count::count(1);
                bytes += stored.message.message.payload.len();
                if messages.len() == READ_ROWS_MAX || (!messages.is_empty() && bytes > READ_BYTES_MAX) {
                    break;
                }
                messages.push(stored.message.clone());
            }
            Ok(messages)
        })
    }

    fn is_untaken<'a>(&'a self, run: &'a str, number: u64) -> StoreFuture<'a, bool> {
        self.answer(move |runs, _| Ok(runs.get(run)?.inbox.get(&number).is_some_and(|stored| stored.taken_by.is_none())))
    }

    fn refused<'a>(&'a self, run: &'a str) -> StoreFuture<'a, Vec<RefusedMessage>> {
        self.answer(move |runs, _| Ok(runs.get(run)?.refused.iter().cloned().collect()))
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        self.answer(move |runs, now| match prune {
            Prune::Rows { held, before, keep } => {
                let run = runs.by_id.get_mut(&held.run).filter(|run| run.info.is_held_as(&held));
                run.map(|run| run.prune(before, &keep)).ok_or(StoreError::Fenced { run: held.run, epoch: held.epoch })
            }
            Prune::Ended { unchanged_for, count } => {
                let is_old = |run: &&Run| {
                    run.info.status.has_ended()
                        && run.info.changed.after(EARLY_END_MAX) >= run.info.created
                        && run.info.changed.after(unchanged_for) <= now
                        && run.info.check_free(now).is_ok()
                };
                let mut old: Vec<(u64, String)> =
                    runs.by_id.values().filter(is_old).map(|run| (run.number, run.info.id.clone())).collect();
                old.sort_unstable();
                old.truncate(count);
                old.iter().for_each(|(_, id)| runs.remove(id));
                Ok(old.len() as u64)
            }
        })
    }

    fn delete<'a>(&'a self, run: &'a str) -> StoreFuture<'a, ()> {
        self.answer(|runs, now| {
            runs.get(run)?.info.check_free(now)?;
            runs.remove(run);
            Ok(())
        })
    }

    fn hint(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.hints.wait())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{GraphVersion, RunStatus, Tags, Wake};

    #[test]
    fn c11_prune_keeps_runs_that_ended_before_their_creation() {
        let store = MemoryStore::new();
        let version = GraphVersion { fingerprint: "print".into(), schema: 1 };
        for id in ["true", "jitter", "untrue"] {
            let (id, graph, version) = (id.to_string(), "graph".to_string(), version.clone());
            let (wake, tags) = (Wake::Now, Tags::default());
            let new = NewRun { id, graph, version, instance: 7, from: None, lease: None, wake, deadline: None, tags };
            store.lock().create(new, Vec::new(), Timestamp::from_millis(100_000)).unwrap();
        }
        for (id, ended) in [("true", 100_001), ("jitter", 40_000), ("untrue", 39_999)] {
            let mut runs = store.lock();
            let info = &mut runs.get(id).unwrap().info;
            (info.status, info.changed) = (RunStatus::Finished, Timestamp::from_millis(ended));
        }
        let ended = Prune::Ended { unchanged_for: Duration::ZERO, count: 9 };
        assert_eq!(pleach_core::block_on(store.prune(ended)).unwrap(), 2);
        assert!(store.lock().get("untrue").is_ok());
    }
}
