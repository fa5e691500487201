//! The log of one durable run, as its driver sees it.
//!
//! [`RunLog`] numbers records, updates the frontier and knows which records are durable. Lanes,
//! subgraphs and nodes **submit** records from any thread. The engine of the run commits them
//! through its [`Committer`](committer::Committer).
//!
//! Invariants:
//! 1. Submission order is log order: a record gets its sequence number when it is submitted.
//! 2. Nothing that follows a record happens before the record is durable, except the merge of a
//!    fan-out, which is pure.
//! 3. At most one commit is in flight. Records submitted meanwhile form the next batch.
//! 4. After a fault no record becomes durable. Waiters keep waiting until the engine drops them.
//!
//! Locks: `RunLog` has one lock, for [`LogState`]. It may be taken while the lock of the visit
//! records is held, never the other way round. Under it, no waker is called, cloned or dropped, and
//! nothing is encoded, compressed or checksummed.
//!
//! Flags of [`LogState`]. Each is set once and never cleared:
//!
//! | flag | set by | effect |
//! |---|---|---|
//! | `has_ended` | the record of the run's end | later records are dropped, except those of undos |
//! | `is_detached` | a store failure of a best-effort run | nothing is written; waiters continue |
//!
//! Read in this order: this file, `new_record`, `append`, `frontier`, `codec`, `committer`,
//! `renewal`, `inbox_reader`, `retrying_store`, `deadline`, `pruning`, `open`, `snapshot`,
//! `rewrite`, `lines`, `message_waits`, `signals`, `tags`, `failure`, `visit`.

mod append;
pub(crate) mod codec;
pub(crate) mod committer;
pub(crate) mod deadline;
pub(crate) mod failure;
pub(crate) mod frontier;
mod inbox_reader;
pub(crate) mod last_step;
pub(crate) mod lines;
pub(crate) mod message;
pub(crate) mod message_waits;
mod new_record;
pub(crate) mod open;
mod pruning;
mod renewal;
pub(crate) mod retrying_store;
mod rewrite;
mod rewritten_records;
mod signals;
pub(crate) mod snapshot;
mod structure;
mod tags;
pub(crate) mod undo_payload;
pub(crate) mod visit;

use new_record::NumberedRecord;
pub(crate) use new_record::{NewRecord, PackedRecord};

use crate::lease::RunLease;
use crate::log::deadline::Timeout;
use crate::log::frontier::Frontier;
use crate::log::pruning::UndoChain;
use crate::log::retrying_store::StoreMonitor;
use crate::log::signals::RecordedSignals;
use crate::log::tags::LogTags;
use crate::store::{
    Deadline, Fork, GraphVersion, Held, Kind, LiveToken, Record, Refusal, RunFailure, RunStatus, Store, StoreError, Timestamp,
    Wake,
};
use crate::util::waker::set_waker;

use pleach_core::{BoxFuture, Instant, Runtime};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The sequence number of a record that was submitted too late. It never becomes durable.
pub(crate) const NEVER: u64 = u64::MAX;

/// The storage options of a run.
#[derive(Clone)]
pub(crate) struct LogOptions {
    /// The store of the run. `with_retries` wraps it when the run is opened.
    pub(crate) store: Arc<dyn Store>,
    /// The duration of the lease.
    pub(crate) lease: Duration,
    /// The size limit of a record body.
    pub(crate) body_bytes_max: usize,
    /// The number of latest records that a live run retains.
    pub(crate) rows_kept: u64,
    /// The most records in one commit.
    pub(crate) commit_rows_max: usize,
    /// True if the run continues without its store after a failure of the store.
    pub(crate) is_best_effort: bool,
    /// The lease, if a worker renews it together with the leases of other runs.
    pub(crate) worker_lease: Option<Arc<RunLease>>,
    /// How long a parked run stays claimed. `None`: without limit.
    pub(crate) hold_waiting_for: Option<Duration>,
    /// Logs and reports outages of the store.
    pub(crate) monitor: Arc<StoreMonitor>,
    pub(crate) timeout: Timeout,
}

/// The log of one run, shared by all its writers.
pub(crate) struct RunLog {
    pub(crate) options: LogOptions,
    pub(crate) run: Arc<str>,
    pub(crate) epoch: u64,
    /// The instance of the run id; see [`RunInfo::instance`](crate::store::RunInfo::instance).
    pub(crate) instance: u64,
    graph: String,
    version: GraphVersion,
    runtime: Arc<dyn Runtime>,
    pub(crate) lease: Arc<RunLease>,
    /// The deadline of the run, by the clock of the store.
    deadline: Option<Timestamp>,
    /// The last durable record.
    durable: AtomicU64,
    state: Mutex<LogState>,
}

/// The mutable part of a [`RunLog`].
struct LogState {
    /// The sequence number of the last submitted record.
    head: u64,
    frontier: Frontier,
    /// The last record that lists the whole frontier.
    base: u64,
    visits: u64,
    /// The last record that can be undone.
    undo: u64,
    /// The chain of all records that can be undone.
    undos: UndoChain,
    /// For a best-effort run: the undoable records that are not durable.
    unwritten: BTreeMap<u64, NumberedRecord>,
    /// The oldest record from which on none was pruned.
    oldest: u64,
    status: RunStatus,
    /// Set while the log says that every token waits: the wake time, and the last message read.
    parked: Option<(Wake, u64)>,
    /// The records of the next commit.
    next: Batch,
    /// The change of the deadline that the next commit stores.
    deadline: Option<Deadline>,
    /// The highest number of a message that was read.
    seen: u64,
    /// The messages that the next commit removes from the inbox: delivered signals and cancels that
    /// came too late.
    to_take: Vec<u64>,
    /// The messages that the next commit refuses, and why.
    to_refuse: Vec<Refusal>,
    tags: LogTags,
    signals: RecordedSignals,
    /// For a resumed run: its live records, by sequence number.
    restored: HashMap<u64, Record>,
    /// The records that a migration rewrote, with the records whose idempotency keys they keep.
    keys_of: HashMap<u64, u64>,
    /// The wakers of tasks that wait until a record is durable.
    waiting: BTreeMap<u64, Vec<Waker>>,
    /// The waker of the engine. Shared, so that it is neither cloned nor dropped while the lock is
    /// held.
    driver: Option<Arc<Waker>>,
    /// True if the run continues without its store: nothing is written, and no task waits for it.
    is_detached: bool,
    /// True if the record of the run's end was submitted. Only records of undos may follow.
    has_ended: bool,
}

/// Submitted records that are not part of a commit yet.
#[derive(Default)]
struct Batch {
    /// Each record with the messages that it takes from the inbox.
    records: VecDeque<(NumberedRecord, Vec<u64>)>,
    /// The status of the run after all these records.
    status: Option<RunStatus>,
    /// The last failure in these records.
    failure: Option<RunFailure>,
}

impl RunLog {
    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the id, instance and epoch by which this driver holds the run.
    pub(crate) fn held(&self) -> Held {
        Held { run: self.run.to_string(), instance: self.instance, epoch: self.epoch }
    }

    pub(crate) fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }

    /// Returns the current time by the clock of the store.
    pub(crate) fn now(&self) -> Timestamp {
        self.lease.clock.now()
    }

    /// Converts a time of the store's clock to the runtime's clock, by the current offset.
    pub(crate) fn instant_of(&self, at: Timestamp) -> Instant {
        self.lease.clock.instant_of(at)
    }

    /// Waits until `at` by the clock of the store. Time during which the machine was suspended
    /// counts after the next commit or renewal.
    pub(crate) fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        self.lease.clock.sleep_until(at)
    }

    /// Returns the deadline of the run, by the clock of the runtime.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline.map(|at| self.instant_of(at))
    }

    /// Returns the sequence number of the last durable record.
    pub(crate) fn last_durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Ready when the record with this sequence number is durable, or the run is detached.
    pub(crate) fn poll_durable(&self, sequence: u64, cx: &Context<'_>) -> Poll<()> {
        if self.durable.load(Ordering::Acquire) >= sequence {
            return Poll::Ready(());
        }
        // Cloned before the lock is taken and, if not needed, dropped after it.
        let mut waker = Some(cx.waker().clone());
        let mut state = self.lock();
        if self.durable.load(Ordering::Acquire) >= sequence || state.is_detached {
            return Poll::Ready(());
        }
        let waiting = state.waiting.entry(sequence).or_default();
        crate::util::work_count::count(1 + waiting.len() as u64);
        if !waiting.iter().any(|known| known.will_wake(cx.waker())) {
            waiting.extend(waker.take());
        }
        Poll::Pending
    }

    /// Ready if this driver holds the lease for certain. Nothing outside the run may start before
    /// that.
    pub(crate) fn poll_lease(&self, cx: &Context<'_>) -> Poll<()> {
        match self.lease.poll_valid(cx) {
            Poll::Pending if self.is_detached() && !self.lease.has_stopped() => Poll::Ready(()),
            polled => polled,
        }
    }

    /// Takes the record with this sequence number of a resumed run.
    pub(crate) fn take_restored(&self, sequence: u64) -> Option<Record> {
        self.lock().restored.remove(&sequence)
    }

    /// Returns the record whose idempotency keys the token placed by this record uses.
    pub(crate) fn keys_of(&self, sequence: u64) -> u64 {
        self.lock().keys_of.get(&sequence).copied().unwrap_or(sequence)
    }

    /// Takes the tokens below a path of a resumed run, with their visit records. Skips tokens whose
    /// records were taken before.
    pub(crate) fn take_restored_below(&self, path: &[Fork]) -> Vec<(LiveToken, Vec<Record>)> {
        let mut state = self.lock();
        let LogState { frontier, restored, .. } = &mut *state;
        let with_records = frontier.below(path).filter(|token| !token.visit_records.is_empty());
        let mut found = Vec::new();
        for token in with_records {
            if token.visit_records.iter().all(|row| restored.contains_key(row)) {
                found.push((token.clone(), token.visit_records.iter().filter_map(|row| restored.remove(row)).collect()));
            }
        }
        found
    }

    /// Returns the sequence number of the last submitted record.
    pub(crate) fn head(&self) -> u64 {
        self.lock().head
    }

    /// Returns the number of completed visits.
    pub(crate) fn visits(&self) -> u64 {
        self.lock().visits
    }

    /// Returns true if the record of the run's end was submitted.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().has_ended
    }

    /// Returns the live token at a path.
    pub(crate) fn token_at(&self, path: &[Fork]) -> Option<LiveToken> {
        self.lock().frontier.get(path).cloned()
    }

    /// Returns the last record that can be undone.
    pub(crate) fn undo(&self) -> u64 {
        self.lock().undo
    }

    /// Returns a record that can be undone and is not in the store.
    fn unwritten(&self, sequence: u64) -> Option<NumberedRecord> {
        self.lock().unwritten.get(&sequence).cloned()
    }

    /// Moves the end of the undo chain back to `undo`: the records after it are undone.
    pub(crate) fn set_undo(&self, undo: u64) {
        let mut state = self.lock();
        state.undo = undo;
        state.undos.truncate(undo);
    }

    /// Wakes the engine.
    pub(crate) fn wake_driver(&self) {
        let driver = self.lock().driver.clone();
        driver.iter().for_each(|driver| driver.wake_by_ref());
    }

    /// Sets the waker of the engine, which is woken when a record is submitted.
    fn set_driver(&self, waker: &Waker) {
        set_waker(|| self.lock(), |state| &mut state.driver, waker);
    }

    /// Returns true if the run continues without its store.
    pub(crate) fn is_detached(&self) -> bool {
        self.lock().is_detached
    }

    /// Removes this message from the inbox with the next commit.
    pub(crate) fn take_with_next_commit(&self, number: u64) {
        self.lock().to_take.push(number);
    }

    /// Refuses a message with the next commit.
    pub(crate) fn refuse_with_next_commit(&self, refusal: Refusal) {
        self.lock().to_refuse.push(refusal);
    }

    /// Returns true if a commit would remove messages from the inbox.
    pub(crate) fn has_messages_to_take(&self) -> bool {
        let state = self.lock();
        !state.is_detached && !state.has_no_messages_to_take()
    }

    /// Records that every token waits, for messages or until a time. Returns false if that is
    /// already recorded.
    pub(crate) fn write_parked(&self, wake: Wake) -> Result<bool, StoreError> {
        {
            let state = self.lock();
            if state.is_detached || (state.parked == Some((wake, state.seen)) && state.has_no_messages_to_take()) {
                return Ok(false);
            }
        }
        self.submit(NewRecord::new(Kind::Wait, Vec::new(), "")).map(|_| true)
    }
}

impl LogState {
    pub(super) fn new(head: u64, frontier: Frontier) -> Self {
        Self {
            head,
            frontier,
            base: 0,
            visits: 0,
            undo: 0,
            undos: UndoChain::default(),
            unwritten: BTreeMap::new(),
            oldest: 1,
            status: RunStatus::Running,
            parked: None,
            next: Batch::default(),
            deadline: None,
            seen: 0,
            to_take: Vec::new(),
            to_refuse: Vec::new(),
            tags: LogTags::default(),
            signals: RecordedSignals::default(),
            restored: HashMap::new(),
            keys_of: HashMap::new(),
            waiting: BTreeMap::new(),
            driver: None,
            is_detached: false,
            has_ended: false,
        }
    }

    fn has_no_messages_to_take(&self) -> bool {
        self.to_take.is_empty() && self.to_refuse.is_empty()
    }

    /// Takes the wakers of all tasks that wait for records up to `durable`.
    fn take_wakers(&mut self, durable: u64) -> BTreeMap<u64, Vec<Waker>> {
        let later = self.waiting.split_off(&durable.saturating_add(1));
        std::mem::replace(&mut self.waiting, later)
    }
}
