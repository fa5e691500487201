//! `RunLog`: the log of one run, as its driver sees it. It numbers records, keeps the frontier and
//! knows what is durable.
//!
//! Lanes, subgraphs and nodes **submit** records from any thread. The engine of the run commits
//! them through its [`Committer`](committer::Committer), at most one commit at a time; records
//! submitted meanwhile form the next batch. Invariants:
//! 1. Submission order is log order: a record gets its sequence number when it is submitted.
//! 2. Nothing that follows a record happens before it is durable, except the merge of a fan-out,
//!    which is pure.
//! 3. After a fault no record becomes durable. Waiters keep waiting until the engine drops them.
//!
//! Read in this order: this file, `new_record`, `append`, `frontier`, `codec`, `committer`,
//! `renewal`, `inbox_reader`, `retrying_store`, `deadline`, `pruning`, `open`, `snapshot`,
//! `rewrite`, `signals`, `visit`.

mod append;
pub(crate) mod codec;
pub(crate) mod committer;
pub(crate) mod deadline;
pub(crate) mod frontier;
mod inbox_reader;
mod last_step;
pub(crate) mod message;
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
pub(crate) mod undo_payload;
pub(crate) mod visit;

pub(crate) use new_record::{NewRecord, PackedRecord};

use crate::lease::RunLease;
use crate::log::deadline::Timeout;
use crate::log::frontier::Frontier;
use crate::log::pruning::UndoChain;
use crate::log::retrying_store::StoreMonitor;
use crate::log::signals::RecordedSignals;
use crate::store::{
    Deadline, Fork, GraphVersion, Held, Kind, LiveToken, Record, Row, RunStatus, Store, StoreError, Timestamp, Wake,
};
use crate::util::waker::set_waker;

use pleach_core::{BoxFuture, Instant, Runtime};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The sequence of what was submitted too late: it never becomes durable.
pub(crate) const NEVER: u64 = u64::MAX;

/// How a run is kept.
#[derive(Clone)]
pub(crate) struct LogOptions {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) lease: Duration,
    pub(crate) body_bytes_max: usize,
    /// How many of the last records of a live run are kept.
    pub(crate) rows_kept: u64,
    /// The most rows of one commit.
    pub(crate) commit_rows_max: usize,
    pub(crate) is_best_effort: bool,
    /// The lease, if somebody keeps it for this run and others.
    pub(crate) kept_lease: Option<Arc<RunLease>>,
    /// For how long a run that does nothing but wait is held; for as long as it takes unless given.
    pub(crate) patience: Option<Duration>,
    pub(crate) watch: Arc<StoreMonitor>,
    pub(crate) timeout: Timeout,
}

/// What all who write to the log of one run share.
pub(crate) struct RunLog {
    pub(crate) options: LogOptions,
    pub(crate) run: Arc<str>,
    pub(crate) epoch: u64,
    /// Which run of this id: see [`RunInfo::instance`](crate::store::RunInfo::instance).
    pub(crate) instance: u64,
    graph: String,
    version: GraphVersion,
    runtime: Arc<dyn Runtime>,
    pub(crate) lease: Arc<RunLease>,
    /// When the run is to end at the latest.
    deadline: Option<Timestamp>,
    durable: AtomicU64,
    state: Mutex<LogState>,
}

struct LogState {
    /// The last sequence that was given.
    head: u64,
    frontier: Frontier,
    /// The last record that has the whole frontier.
    base: u64,
    visits: u64,
    /// The last record that can be undone.
    undo: u64,
    /// All of them, as far as is known.
    undos: UndoChain,
    /// Of a run that goes on when its store fails: those that are not durable, or never will be.
    unwritten: BTreeMap<u64, Row>,
    /// From which record on all are there.
    oldest: u64,
    status: RunStatus,
    /// That every line of control waits, until when, and which messages were read before, if that is written down.
    parked: Option<(Wake, u64)>,
    /// What the next commit holds.
    next: Batch,
    /// What the next commit says about the deadline.
    deadline: Option<Deadline>,
    /// The highest number of a message that was read.
    seen: u64,
    /// Messages that no node could read, and signals that nodes were given: it is taken with the next commit.
    to_take: Vec<u64>,
    signals: RecordedSignals,
    /// What a resumed run was before: live records by their sequences.
    restored: HashMap<u64, Record>,
    /// Live records that a migration wrote anew, and those whose idempotency keys they go on with.
    keys_of: HashMap<u64, u64>,
    /// Those that wait until a sequence is durable.
    waiting: BTreeMap<u64, Vec<Waker>>,
    /// The task of the run. Shared, so that it is neither cloned nor dropped while the lock is held.
    driver: Option<Arc<Waker>>,
    /// Nothing is written any more, and nobody waits for it: the run goes on without.
    is_lost: bool,
    /// The record of the run's end is submitted: nothing but undos may follow.
    has_ended: bool,
}

/// What is submitted and not under way.
#[derive(Default)]
struct Batch {
    /// Each with the messages that are taken with it.
    rows: VecDeque<(Row, Vec<u64>)>,
    /// The status once all of it is written.
    status: Option<RunStatus>,
}

impl RunLog {
    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run, as this driver holds it.
    pub(crate) fn held(&self) -> Held {
        Held { run: self.run.to_string(), instance: self.instance, epoch: self.epoch }
    }

    pub(crate) fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }

    /// The time by the store's clock: see [`StoreClock`](clock::StoreClock).
    pub(crate) fn now(&self) -> Timestamp {
        self.lease.clock.now()
    }

    /// When it is `at` by the store's clock, as far as is known now.
    pub(crate) fn instant_of(&self, at: Timestamp) -> Instant {
        self.lease.clock.instant_of(at)
    }

    /// Waits until it is `at` by the store's clock. Time in which the machine was suspended counts from the next commit or renewal on.
    pub(crate) fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        self.lease.clock.sleep_until(at)
    }

    /// When the run is to end at the latest, by the clock of the runtime.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline.map(|at| self.instant_of(at))
    }

    /// The last record that is durable.
    pub(crate) fn last_durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Ready once a sequence is durable.
    pub(crate) fn poll_durable(&self, sequence: u64, cx: &Context<'_>) -> Poll<()> {
        if self.durable.load(Ordering::Acquire) >= sequence {
            return Poll::Ready(());
        }
        // Before the lock, and what is left of it is dropped after.
        let mut waker = Some(cx.waker().clone());
        let mut state = self.lock();
        if self.durable.load(Ordering::Acquire) >= sequence || state.is_lost {
            return Poll::Ready(());
        }
        let waiting = state.waiting.entry(sequence).or_default();
        crate::util::work_count::visit(1 + waiting.len() as u64);
        if !waiting.iter().any(|known| known.will_wake(cx.waker())) {
            waiting.extend(waker.take());
        }
        Poll::Pending
    }

    /// Ready if this driver holds the run for certain. Nothing may start outside the run before that.
    pub(crate) fn poll_lease(&self, cx: &Context<'_>) -> Poll<()> {
        match self.lease.poll_valid(cx) {
            Poll::Pending if self.is_lost() && !self.lease.is_given_up() => Poll::Ready(()),
            polled => polled,
        }
    }

    /// What a resumed run was before: the record of this sequence, once.
    pub(crate) fn take_restored(&self, sequence: u64) -> Option<Record> {
        self.lock().restored.remove(&sequence)
    }

    /// The record whose idempotency keys a token has that this record placed.
    pub(crate) fn keys_of(&self, sequence: u64) -> u64 {
        self.lock().keys_of.get(&sequence).copied().unwrap_or(sequence)
    }

    /// What a resumed run was before: the tokens below a path, with the records of their visit records, as far as nobody has taken these.
    pub(crate) fn take_restored_below(&self, path: &[Fork]) -> Vec<(LiveToken, Vec<Record>)> {
        let mut state = self.lock();
        let LogState { frontier, restored, .. } = &mut *state;
        let with_notes = frontier.below(path).filter(|token| !token.notes.is_empty());
        let mut found = Vec::new();
        for token in with_notes {
            if token.notes.iter().all(|note| restored.contains_key(note)) {
                found.push((token.clone(), token.notes.iter().filter_map(|note| restored.remove(note)).collect()));
            }
        }
        found
    }

    /// The last sequence that was given.
    pub(crate) fn head(&self) -> u64 {
        self.lock().head
    }

    /// How many visits are over.
    pub(crate) fn visits(&self) -> u64 {
        self.lock().visits
    }

    /// Whether the record of the run's end is submitted.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().has_ended
    }

    /// The live token at a path.
    pub(crate) fn token_at(&self, path: &[Fork]) -> Option<LiveToken> {
        self.lock().frontier.get(path).cloned()
    }

    /// The last record that can be undone.
    pub(crate) fn undo(&self) -> u64 {
        self.lock().undo
    }

    /// A record that can be undone, if it is not in the store.
    pub(crate) fn unwritten(&self, sequence: u64) -> Option<Row> {
        self.lock().unwritten.get(&sequence).cloned()
    }

    /// Goes back to an earlier one: what was the last is undone.
    pub(crate) fn set_undo(&self, undo: u64) {
        let mut state = self.lock();
        state.undo = undo;
        state.undos.cut_back(undo);
    }

    /// Wakes the task of the run.
    pub(crate) fn wake_driver(&self) {
        let driver = self.lock().driver.clone();
        driver.iter().for_each(|driver| driver.wake_by_ref());
    }

    /// This task is woken from now on when there is something to write.
    fn set_driver(&self, waker: &Waker) {
        set_waker(|| self.lock(), |state| &mut state.driver, waker);
    }

    /// Whether the run goes on without its store.
    pub(crate) fn is_lost(&self) -> bool {
        self.lock().is_lost
    }

    /// Messages that no node could read goes with the next commit.
    pub(crate) fn take_refused(&self, number: u64) {
        self.lock().to_take.push(number);
    }

    /// Whether there are messages to be taken, and a commit would take it.
    pub(crate) fn has_refused(&self) -> bool {
        let state = self.lock();
        !state.is_lost && !state.to_take.is_empty()
    }

    /// Writes down that everything waits, for messages or until then, unless that is so. Whether there was anything to write.
    pub(crate) fn write_pause(&self, wake: Wake) -> Result<bool, StoreError> {
        {
            let state = self.lock();
            if state.is_lost || (state.parked == Some((wake, state.seen)) && state.to_take.is_empty()) {
                return Ok(false);
            }
        }
        self.submit(NewRecord::new(Kind::Wait, Vec::new(), "")).map(|_| true)
    }
}

impl LogState {
    /// Takes those that wait for a sequence up to this one.
    fn take_waiting(&mut self, durable: u64) -> BTreeMap<u64, Vec<Waker>> {
        let later = self.waiting.split_off(&durable.saturating_add(1));
        std::mem::replace(&mut self.waiting, later)
    }
}
