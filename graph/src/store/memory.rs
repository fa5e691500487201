//! `MemoryStore`: runs in memory, for tests and for programs that need no durability. The fences are those of every store.
//!
//! One lock guards everything, and each method holds it once: what the contract calls "all or nothing" is plain here. Nothing is woken or called
//! under it.

use super::hint::Hints;
use super::limits::{LIST_MAX, READ_BYTES_MAX, READ_ROWS_MAX, check_lease, check_text};
use super::query::{Answer, Query, RowQuery};
use super::time::EARLY_END_MAX;
use super::{
    Claim, CommandAction, Commit, Committed, Filter, GraphVersion, Held, InboxMessage, InboxMessageKind, Lease, NewMessage,
    NewRun, Parts, Prune, Release, Renewed, Row, Rows, RunInfo, RunList, Store, StoreError, StoreFuture, Timestamp, Wanted,
};
use pleach_core::{BoxFuture, Runtime};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Runs in memory: they are gone with the last clone of it. Cloning is cheap, and gives the same store.
#[derive(Clone)]
pub struct MemoryStore(Arc<MemoryParts>);

struct MemoryParts {
    runs: Mutex<Runs>,
    hints: Hints,
    /// The clock; `None` is that of the machine.
    runtime: Option<Arc<dyn Runtime>>,
}

#[derive(Default)]
struct Runs {
    by_id: BTreeMap<String, Run>,
    created: u64,
}

struct Run {
    /// Counts upwards as runs are made.
    number: u64,
    info: RunInfo,
    log: BTreeMap<u64, Row>,
    inbox: BTreeMap<u64, StoredMessage>,
    /// The dedup texts of all messages, those that are gone included, and their numbers.
    dedups: HashMap<String, u64>,
}

struct StoredMessage {
    message: InboxMessage,
    taken_by: Option<u64>,
}

impl MemoryStore {
    /// An empty store, by the machine's clock.
    pub fn new() -> Self {
        Self::with_clock(None)
    }

    /// An empty store, by a runtime's clock: in a simulation leases and timers pass in virtual time.
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

    /// Does it at once: nothing here waits.
    fn answer<'a, T: Send + 'a>(
        &'a self,
        act: impl FnOnce(&mut Runs, Timestamp) -> Result<T, StoreError> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move { act(&mut self.lock(), self.now()) })
    }

    /// The same for what may make a run ready.
    fn answer_and_nudge<'a, T: Send + 'a>(
        &'a self,
        nudges: bool,
        act: impl FnOnce(&mut Runs, Timestamp) -> Result<T, StoreError> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            let answer = act(&mut self.lock(), self.now());
            if nudges && answer.is_ok() {
                self.0.hints.ring();
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
        self.answer_and_nudge(run.lease.is_none(), |runs, now| {
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
        self.answer_and_nudge(true, move |runs, now| Ok(runs.for_each_held(held, |info| info.give_up(&how, now))))
    }

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        self.answer_and_nudge(commit.may_make_ready(), move |runs, now| {
            let head = commit.check()?;
            let fenced = StoreError::Fenced { run: commit.run.clone(), epoch: commit.epoch };
            let Some(run) = runs.by_id.get_mut(&commit.run) else { return Err(fenced) };
            if run.info.is_held_as(&commit.held()) && run.info.head == head {
                run.apply(commit, now);
            } else if !run.has_landed(commit.instance, commit.epoch, &commit.rows) {
                return Err(fenced);
            }
            Ok(Committed { posted: run.info.posted, now })
        })
    }

    fn head<'a>(&'a self, run: &'a str) -> StoreFuture<'a, RunInfo> {
        self.answer(|runs, _| Ok(runs.get(run)?.info.clone()))
    }

    fn read<'a>(&'a self, run: &'a str, which: Rows, parts: Parts) -> StoreFuture<'a, Vec<Row>> {
        self.answer(move |runs, _| {
            let sought = RowQuery::new(which)?;
            let stored = runs.get(run)?;
            let mut answer = Answer::new(run, stored.info.oldest);
            for sequence in sought.of_run(run, stored.info.head, stored.info.oldest)? {
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

    fn list(&self, filters: Vec<Filter>, after: Option<u64>, count: usize) -> StoreFuture<'_, RunList> {
        self.answer(move |runs, _| {
            let Some(query) = Query::new(filters) else { return Ok(RunList::default()) };
            let is_listed = |run: &&Run| after.is_none_or(|after| run.number < after) && query.matches(&run.info);
            let mut found: Vec<&Run> = runs.by_id.values().filter(is_listed).collect();
            found.sort_unstable_by_key(|run| std::cmp::Reverse(run.number));
            let count = count.min(LIST_MAX);
            let next = found.len().gt(&count).then(|| count.checked_sub(1).map(|last| found[last].number)).flatten();
            let runs = found.into_iter().take(count).map(|run| run.info.clone()).collect();
            Ok(RunList { runs, damaged: Vec::new(), next })
        })
    }

    fn post<'a>(&'a self, run: &'a str, post: NewMessage) -> StoreFuture<'a, u64> {
        self.answer_and_nudge(true, move |runs, now| {
            post.check()?;
            runs.get(run)?.post(post, now)
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
                bytes += stored.message.post.payload.len();
                if messages.len() == READ_ROWS_MAX || (!messages.is_empty() && bytes > READ_BYTES_MAX) {
                    break;
                }
                messages.push(stored.message.clone());
            }
            Ok(messages)
        })
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
                old.iter().for_each(|(_, id)| drop(runs.by_id.remove(id)));
                Ok(old.len() as u64)
            }
        })
    }

    fn delete<'a>(&'a self, run: &'a str) -> StoreFuture<'a, ()> {
        self.answer(|runs, now| {
            runs.get(run)?.info.check_free(now)?;
            runs.by_id.remove(run);
            Ok(())
        })
    }

    fn nudged(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.hints.wait())
    }
}

impl Runs {
    fn get(&mut self, id: &str) -> Result<&mut Run, StoreError> {
        check_text("run id", id)?;
        self.by_id.get_mut(id).ok_or_else(|| StoreError::Unknown { run: id.to_string() })
    }

    fn create(&mut self, new: NewRun, rows: Vec<Row>, now: Timestamp) -> Result<Claim, StoreError> {
        if let Some(run) = self.by_id.get(&new.id) {
            let same_owner = new.lease.as_ref().is_some_and(|lease| run.info.owner.as_ref() == Some(&lease.owner));
            return if same_owner && run.has_landed(new.instance, 1, &rows) {
                Ok(Claim { run: run.info.clone(), now })
            } else {
                Err(StoreError::Exists { run: new.id })
            };
        }
        self.created += 1;
        let info = RunInfo::new(new, rows.len() as u64, now);
        let claim = Claim { run: info.clone(), now };
        let log = rows.into_iter().map(|row| (row.sequence, row)).collect();
        let (inbox, dedups) = (BTreeMap::new(), HashMap::new());
        self.by_id.insert(claim.run.id.clone(), Run { number: self.created, info, log, inbox, dedups });
        Ok(claim)
    }

    /// Changes the rows of runs that are held so, and gives back those that are not.
    fn for_each_held(&mut self, held: Vec<Held>, mut change: impl FnMut(&mut RunInfo)) -> Vec<Held> {
        let mut lost = Vec::new();
        for one in held {
            match self.by_id.get_mut(&one.run).filter(|run| run.info.is_held_as(&one)) {
                Some(run) => change(&mut run.info),
                None => lost.push(one),
            }
        }
        lost
    }

    fn claim_ready(&mut self, graphs: &[(String, GraphVersion)], count: usize, lease: &Lease, now: Timestamp) -> Vec<Claim> {
        let is_ready = |run: &&mut Run| {
            let known = graphs.iter().any(|(name, version)| *name == run.info.graph && *version == run.info.version);
            let is_due = run.info.wake_at.is_some_and(|at| at <= now);
            known && is_due && run.info.status.is_live() && run.info.check_free(now).is_ok()
        };
        let mut ready: Vec<&mut Run> = self.by_id.values_mut().filter(is_ready).collect();
        ready.sort_unstable_by_key(|run| (run.info.wake_at.max(run.info.lease_until), run.number));
        ready.into_iter().filter_map(|run| run.claim(lease, false, now).ok()).take(count).collect()
    }
}

impl Run {
    fn claim(&mut self, lease: &Lease, force: bool, now: Timestamp) -> Result<Claim, StoreError> {
        self.info.claim(lease, force, now)?;
        Ok(Claim { run: self.info.clone(), now })
    }

    /// Whether these rows are the last that were written, under this epoch.
    fn has_landed(&self, instance: u64, epoch: u64, rows: &[Row]) -> bool {
        let last = rows.last();
        let is_same = self.info.instance == instance && self.info.epoch == epoch;
        is_same && last.is_some_and(|last| self.log.last_key_value().is_some_and(|(_, row)| row == last))
    }

    fn apply(&mut self, commit: Commit, now: Timestamp) {
        let head = self.info.head + commit.rows.len() as u64;
        self.info.settle(&commit, now);
        self.log.extend(commit.rows.into_iter().map(|row| (row.sequence, row)));
        for number in commit.takes {
            if let Some(stored) = self.inbox.get_mut(&number).filter(|stored| stored.taken_by.is_none()) {
                stored.taken_by = Some(head);
                stored.message.post.payload = Vec::new();
            }
        }
        let info = &mut self.info;
        (info.head, info.takeovers, info.trouble, info.changed) = (head, 0, None, now);
        info.version = commit.version.unwrap_or_else(|| info.version.clone());
        if commit.release {
            self.info.release();
        }
    }

    fn post(&mut self, post: NewMessage, now: Timestamp) -> Result<u64, StoreError> {
        if let Some(first) = post.dedup.as_ref().and_then(|dedup| self.dedups.get(dedup)) {
            return Ok(*first);
        }
        let kind = post.kind();
        let untaken = self.inbox.iter().filter(|(_, stored)| stored.taken_by.is_none() && stored.message.post.kind() == kind);
        if kind == InboxMessageKind::Command {
            self.info.check_open()?;
            let commands: Vec<(u64, String)> =
                untaken.map(|(number, stored)| (*number, stored.message.post.name.clone())).collect();
            match post.among(&commands) {
                CommandAction::Known(number) => return Ok(number),
                CommandAction::Instead(others) => {
                    self.inbox.retain(|number, _| !others.contains(number));
                    self.dedups.retain(|_, number| !others.contains(number));
                }
            }
        } else {
            self.info.check_room(untaken.count())?;
        }
        self.info.post(now)?;
        let number = self.info.posted;
        self.dedups.extend(post.dedup.clone().map(|dedup| (dedup, number)));
        self.inbox.insert(number, StoredMessage { message: InboxMessage { number, at: now, post }, taken_by: None });
        Ok(number)
    }

    fn prune(&mut self, before: u64, keep: &[u64]) -> u64 {
        let before = before.min(self.info.head);
        let keep: HashSet<u64> = keep.iter().copied().collect();
        // Only what is older is looked at.
        let gone: Vec<u64> = self.log.range(..before).map(|(row, _)| *row).filter(|row| !keep.contains(row)).collect();
        gone.iter().for_each(|row| drop(self.log.remove(row)));
        self.inbox.retain(|_, stored| stored.taken_by.is_none_or(|sequence| sequence >= before));
        self.info.oldest = self.info.oldest.max(before);
        gone.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Wake;
    use crate::store::run_info::RunStatus;

    #[test]
    fn c11_run_that_ended_before_it_was_made_is_kept() {
        let store = MemoryStore::new();
        let version = GraphVersion { fingerprint: "print".into(), schema: 1 };
        for id in ["true", "jitter", "untrue"] {
            let (id, graph, version) = (id.to_string(), "graph".to_string(), version.clone());
            let new = NewRun { id, graph, version, instance: 7, from: None, lease: None, wake: Wake::Now, deadline: None };
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
