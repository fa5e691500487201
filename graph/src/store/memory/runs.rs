//! [`Runs`]: the runs of a [`MemoryStore`](super::MemoryStore), and the changes of one run.
//!
//! All functions run under the lock of the store. They do not wait, wake or call foreign code.

use crate::store::limits::{check_text, cut_reason};
use crate::store::overdue::Collector;
use crate::store::{
    Claim, CommandAction, Commit, GraphVersion, Held, InboxMessage, InboxMessageKind, Lease, NewMessage, NewRun, OverdueRun,
    OverdueRuns, REFUSED_MAX, RefusedMessage, Row, RunCursor, RunInfo, StoreError, Timestamp,
};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// All runs of a store.
#[derive(Default)]
pub(super) struct Runs {
    pub(super) by_id: BTreeMap<String, Run>,
    /// The ids of all runs in the order of lists, the oldest first.
    pub(super) by_age: BTreeMap<RunCursor, String>,
    /// The number of runs created so far.
    created: u64,
}

/// One run: its own row, its log and its inbox.
pub(super) struct Run {
    /// The position in the order of creation, from 1.
    pub(super) number: u64,
    pub(super) info: RunInfo,
    pub(super) log: BTreeMap<u64, Row>,
    pub(super) inbox: BTreeMap<u64, StoredMessage>,
    /// The dedup texts of all messages, including removed ones, with the numbers of the messages.
    dedups: HashMap<String, u64>,
    /// The last refused messages, the oldest first.
    pub(super) refused: VecDeque<RefusedMessage>,
}

/// A message of an inbox, and the row that took it.
pub(super) struct StoredMessage {
    pub(super) message: InboxMessage,
    pub(super) taken_by: Option<u64>,
}

impl Runs {
    /// Finds a run by its id.
    pub(super) fn get(&mut self, id: &str) -> Result<&mut Run, StoreError> {
        check_text("run id", id)?;
        self.by_id.get_mut(id).ok_or_else(|| StoreError::RunNotFound { run: id.to_string() })
    }

    /// Creates a run, or repeats the answer to an equal creation.
    pub(super) fn create(&mut self, new: NewRun, rows: Vec<Row>, now: Timestamp) -> Result<Claim, StoreError> {
        if let Some(run) = self.by_id.get(&new.id) {
            let same_owner = new.lease.as_ref().is_some_and(|lease| run.info.owner.as_ref() == Some(&lease.owner));
            return if same_owner && run.has_committed(new.instance, 1, &rows) {
                Ok(Claim { run: run.info.clone(), now })
            } else {
                Err(StoreError::Exists { run: new.id })
            };
        }
        self.created += 1;
        let info = RunInfo::new(new, rows.len() as u64, now);
        let claim = Claim { run: info.clone(), now };
        let log = rows.into_iter().map(|row| (row.sequence, row)).collect();
        let (inbox, dedups, refused) = (BTreeMap::new(), HashMap::new(), VecDeque::new());
        let run = Run { number: self.created, info, log, inbox, dedups, refused };
        self.by_age.insert(run.cursor(), claim.run.id.clone());
        self.by_id.insert(claim.run.id.clone(), run);
        Ok(claim)
    }

    /// Removes a run.
    pub(super) fn remove(&mut self, id: &str) {
        if let Some(run) = self.by_id.remove(id) {
            self.by_age.remove(&run.cursor());
        }
    }

    /// Changes the rows of the runs that the caller holds, and returns the others.
    pub(super) fn for_each_held(&mut self, held: Vec<Held>, mut change: impl FnMut(&mut RunInfo)) -> Vec<Held> {
        let mut lost = Vec::new();
        for one in held {
            match self.by_id.get_mut(&one.run).filter(|run| run.info.is_held_as(&one)) {
                Some(run) => change(&mut run.info),
                None => lost.push(one),
            }
        }
        lost
    }

    /// Claims up to `count` ready runs, the longest due first.
    pub(super) fn claim_ready(
        &mut self,
        graphs: &[(String, GraphVersion)],
        count: usize,
        lease: &Lease,
        now: Timestamp,
    ) -> Vec<Claim> {
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

impl Runs {
    /// Returns the runs that are due since `latest` or earlier and unclaimed.
    pub(super) fn overdue(&self, latest: Timestamp, count: usize, now: Timestamp) -> Vec<OverdueRuns> {
        let since = |run: &Run| run.info.overdue_since(now).filter(|since| *since <= latest);
        let mut found: Vec<(Timestamp, &RunInfo)> =
            self.by_id.values().filter_map(|run| Some((since(run)?, &run.info))).collect();
        found.sort_by_key(|(since, _)| *since);
        let mut collector = Collector::new(count);
        for (since, info) in found {
            collector.add(info.graph.clone(), info.version.clone(), Ok(OverdueRun { id: info.id.clone(), since }));
        }
        collector.finish()
    }
}

impl Run {
    /// Returns the place of the run in lists.
    fn cursor(&self) -> RunCursor {
        RunCursor { created: self.info.created, number: self.number as i64 }
    }

    /// Claims the run.
    pub(super) fn claim(&mut self, lease: &Lease, force: bool, now: Timestamp) -> Result<Claim, StoreError> {
        self.info.claim(lease, force, now)?;
        Ok(Claim { run: self.info.clone(), now })
    }

    /// Returns whether these rows are the last ones of the log, written with this epoch.
    pub(super) fn has_committed(&self, instance: u64, epoch: u64, rows: &[Row]) -> bool {
        let last = rows.last();
        let is_same = self.info.instance == instance && self.info.epoch == epoch;
        is_same && last.is_some_and(|last| self.log.last_key_value().is_some_and(|(_, row)| row == last))
    }

    /// Applies a commit whose fence was checked.
    pub(super) fn apply(&mut self, commit: Commit, now: Timestamp) {
        let head = self.info.head + commit.rows.len() as u64;
        self.info.apply_commit(&commit, now);
        self.log.extend(commit.rows.into_iter().map(|row| (row.sequence, row)));
        for number in commit.takes {
            self.take_message(number, head);
        }
        for refusal in commit.refuses {
            if let Some(InboxMessage { number, at, message }) = self.take_message(refusal.number, head) {
                let refused = RefusedMessage::new(number, message.name, cut_reason(refusal.reason), at);
                self.refused.push_back(refused.because(refusal.cause, refusal.wait));
            }
        }
        let excess = self.refused.len().saturating_sub(REFUSED_MAX);
        self.refused.drain(..excess);
        let info = &mut self.info;
        (info.head, info.takeovers, info.trouble, info.changed) = (head, 0, None, now);
        info.version = commit.version.unwrap_or_else(|| info.version.clone());
        if commit.release {
            self.info.release();
        }
    }

    /// Takes a message with the commit of row `head`. Returns it without its payload, or `None` if
    /// it was already taken.
    fn take_message(&mut self, number: u64, head: u64) -> Option<InboxMessage> {
        let stored = self.inbox.get_mut(&number).filter(|stored| stored.taken_by.is_none())?;
        stored.taken_by = Some(head);
        stored.message.message.payload = Vec::new();
        Some(stored.message.clone())
    }

    /// Adds a message to the inbox, unless it is a duplicate, and returns its number.
    pub(super) fn add_message(&mut self, message: NewMessage, now: Timestamp) -> Result<u64, StoreError> {
        if let Some(first) = message.dedup.as_ref().and_then(|dedup| self.dedups.get(dedup)) {
            return Ok(*first);
        }
        let kind = message.kind();
        let untaken =
            self.inbox.iter().filter(|(_, stored)| stored.taken_by.is_none() && stored.message.message.kind() == kind);
        if kind == InboxMessageKind::Command {
            self.info.check_open()?;
            let commands: Vec<(u64, String)> =
                untaken.map(|(number, stored)| (*number, stored.message.message.name.clone())).collect();
            match message.against_queued(&commands) {
                CommandAction::AlreadyQueued(number) => return Ok(number),
                CommandAction::Replace(others) => {
                    self.inbox.retain(|number, _| !others.contains(number));
                    self.dedups.retain(|_, number| !others.contains(number));
                }
            }
        } else {
            self.info.check_room(untaken.count())?;
        }
        self.info.count_message(now)?;
        let number = self.info.last_message;
        self.dedups.extend(message.dedup.clone().map(|dedup| (dedup, number)));
        self.inbox.insert(number, StoredMessage { message: InboxMessage { number, at: now, message }, taken_by: None });
        Ok(number)
    }

    /// Removes the rows below `before` that are not in `keep`, and returns their number.
    pub(super) fn prune(&mut self, before: u64, keep: &[u64]) -> u64 {
        let before = before.min(self.info.head);
        let keep: HashSet<u64> = keep.iter().copied().collect();
        let removed: Vec<u64> = self.log.range(..before).map(|(row, _)| *row).filter(|row| !keep.contains(row)).collect();
        removed.iter().for_each(|row| drop(self.log.remove(row)));
        self.inbox.retain(|_, stored| stored.taken_by.is_none_or(|sequence| sequence >= before));
        self.info.oldest = self.info.oldest.max(before);
        removed.len() as u64
    }
}
