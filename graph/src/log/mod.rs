//! `RunLog`: the log of one run, from the side of its driver. It numbers what is to be written, keeps the frontier, and knows what is durable.
//!
//! Lanes, subgraphs and nodes **submit** entries, from whatever thread; the engine at the root of the run writes them, through its `Committer`, at
//! most one commit at a time. What is submitted meanwhile rides in the next. Invariants:
//!
//! 1. The order of submission is the order of the log: a sequence is given when an entry is submitted.
//! 2. Nothing that follows an entry happens before it is durable, except the merge of a fan-out, which is pure.
//! 3. After a fault nothing more becomes durable, and whoever waits, waits until the engine has dropped it.
//!
//! Read in this order: this file, `frontier`, `codec`, `scribe`, `clock`, `lease`, `keeper`, `steady`, `deadline`, `pruning`, `asking`, `opening`,
//! `relocate`, `moving`, `signals`.

pub(crate) mod codec;
pub(crate) mod committer;
pub(crate) mod deadline;
pub(crate) mod frontier;
mod last_step;
pub(crate) mod message;
pub(crate) mod open;
mod pruning;
mod renewal;
pub(crate) mod retrying_store;
pub(crate) mod rewrite;
mod rewritten_records;
mod signals;
mod structure;
pub(crate) mod undo_payload;
pub(crate) mod visit;

use crate::lease::RunLease;
use crate::log::deadline::Timeout;
use crate::log::frontier::Frontier;
use crate::log::message::Message;
use crate::log::pruning::UndoChain;
use crate::log::retrying_store::StoreMonitor;
use crate::log::signals::RecordedSignals;
use crate::log::undo_payload::UndoPayload;
use crate::store::{
    Deadline, Fork, GraphVersion, Header, Held, Kind, LiveToken, PackedBody, Place, Record, Row, RunStatus, Store, StoreError,
    Timestamp, Wake,
};

use pleach_core::{BoxFuture, Instant, Runtime};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The most bytes of a record that says how something failed, where states have a lower limit.
const FAILURE_BYTES_MAX: usize = 1 << 20;

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
    /// That every line of control waits, until when, and which mail was read before, if that is written down.
    parked: Option<(Wake, u64)>,
    /// What the next commit holds.
    next: Batch,
    /// What the next commit says about the deadline.
    deadline: Option<Deadline>,
    /// The highest number of mail that was read.
    seen: u64,
    /// Mail that no node could read, and signals that nodes were given: it is taken with the next commit.
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
    /// Each with the mail that is taken with it.
    rows: VecDeque<(Row, Vec<u64>)>,
    /// The status once all of it is written.
    status: Option<RunStatus>,
}

/// Something to be written down.
pub(crate) struct NewRecord {
    pub(crate) kind: Kind,
    pub(crate) path: Vec<Fork>,
    pub(crate) parent: u64,
    pub(crate) node: String,
    pub(crate) next: Option<Place>,
    pub(crate) attempt: u32,
    /// Whether a visit of a node is over with it.
    pub(crate) is_visit: bool,
    /// How many visits led to it on its line of control; 0 if as many as the whole run has had.
    pub(crate) iteration: u64,
    pub(crate) body: Vec<u8>,
    /// What an undo of it is given.
    pub(crate) undo: Option<UndoPayload>,
    /// The status from now on.
    pub(crate) status: Option<RunStatus>,
    /// Mail that is taken with it.
    pub(crate) takes: Vec<u64>,
    /// A signal that a wait took with it: its mail is taken once the node was given it.
    pub(crate) signal: Option<Message>,
    /// The record whose idempotency keys go on with it; 0 if it has its own.
    pub(crate) keys_of: u64,
}

impl NewRecord {
    pub(crate) fn new(kind: Kind, path: Vec<Fork>, node: impl Into<String>) -> Self {
        Self {
            kind,
            path,
            parent: 0,
            node: node.into(),
            next: None,
            attempt: 0,
            is_visit: false,
            iteration: 0,
            body: Vec::new(),
            undo: None,
            status: None,
            takes: Vec::new(),
            signal: None,
            keys_of: 0,
        }
    }

    /// Compresses and checksums the body. This takes time, so it is done before the journal's lock is taken.
    fn pack(mut self, body_bytes_max: usize) -> Result<PackedRecord, StoreError> {
        let mut body = std::mem::take(&mut self.body);
        if let Some(payload) = &self.undo {
            codec::add_undo(&mut body, payload);
        }
        // The limit is for states. That something failed can always be written down.
        let is_failure = matches!(self.kind, Kind::Attempt | Kind::Undo | Kind::End);
        let limit = if is_failure { body_bytes_max.max(FAILURE_BYTES_MAX) } else { body_bytes_max };
        Ok(PackedRecord { entry: self, body: PackedBody::pack(body, limit)? })
    }

    /// Whether it is about an undo: that it is over, or what happens on its way.
    fn is_of_undo(&self) -> bool {
        self.kind == Kind::Undo || frontier::undone_at(&self.path).is_some()
    }

    /// Whether a node says it about the visit that it is at.
    fn is_of_visit(&self) -> bool {
        let is_note = matches!(self.kind, Kind::Effect | Kind::Started | Kind::Wait | Kind::Wake);
        is_note && !self.node.is_empty() && !self.is_of_undo()
    }
}

/// An entry whose body is ready to be stored.
pub(crate) struct PackedRecord {
    entry: NewRecord,
    body: PackedBody,
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

    /// Adds an entry to the log, and gives its sequence. It is durable when [`poll_durable`](Self::poll_durable) says so.
    ///
    /// A node on another thread may not have noticed yet that the run has failed: what it submits is dropped, and never becomes durable.
    pub(crate) fn submit(&self, entry: NewRecord) -> Result<u64, StoreError> {
        let added = self.add(self.pack(entry)?);
        self.wake_driver();
        added
    }

    /// Prepares an entry to be [added](Self::add).
    pub(crate) fn pack(&self, entry: NewRecord) -> Result<PackedRecord, StoreError> {
        entry.pack(self.options.body_bytes_max)
    }

    /// Adds an entry as [`submit`](Self::submit) does, and wakes nobody: the caller holds a lock, and calls [`wake_driver`](Self::wake_driver) after it.
    pub(crate) fn add(&self, mut packed: PackedRecord) -> Result<u64, StoreError> {
        let entry = &mut packed.entry;
        let takes = std::mem::take(&mut entry.takes);
        let signal = entry.signal.take().map(|message| (entry.path.clone(), message));
        let mut state = self.lock();
        if state.is_lost {
            // What can be undone is, from memory.
            if packed.entry.undo.is_some() {
                return self.seal(&mut state, packed, None).map(|(sequence, _)| sequence);
            }
            state.head += 1;
            return Ok(state.head);
        }
        if state.has_ended && !packed.entry.is_of_undo() {
            return Ok(NEVER);
        }
        // Nor may a visit that is over say anything: its line of control stands at another visit now.
        if packed.entry.is_of_visit() && !state.frontier.is_at(&packed.entry.path, packed.entry.parent) {
            return Ok(NEVER);
        }
        let (sequence, row) = self.seal(&mut state, packed, None)?;
        if let Some((path, message)) = signal {
            state.signals.note(path, sequence, message);
        }
        state.next.rows.push_back((row, takes));
        Ok(sequence)
    }

    /// Numbers an entry. Of several that make sense only together, `whole_at` is the sequence of the last: it has the frontier of them all.
    fn seal(&self, state: &mut LogState, packed: PackedRecord, whole_at: Option<u64>) -> Result<(u64, Row), StoreError> {
        let NewRecord { kind, path, parent, node, next, attempt, is_visit, iteration, undo, status, keys_of, .. } =
            packed.entry;
        let sequence = state.head + 1;
        let visits = state.visits + u64::from(is_visit);
        let (undo, undo_before) = if undo.is_some() { (sequence, state.undo) } else { (state.undo, 0) };
        let mut header = Header {
            graph: self.graph.clone(),
            fingerprint: self.version.fingerprint.clone(),
            schema: self.version.schema,
            epoch: self.epoch,
            kind,
            parent,
            path,
            node,
            next,
            attempt,
            visits,
            iteration: if iteration == visits { 0 } else { iteration },
            at: self.now(),
            undo,
            undo_before,
            keys_of,
            frontier: None,
            base: Some(whole_at.unwrap_or(state.base)),
        };
        let mut frontier = std::mem::take(&mut state.frontier);
        frontier.apply(sequence, &header);
        if header.next.is_some() || kind == Kind::Attempt {
            state.signals.moved(&header.path, &frontier);
        }
        // As long as it is cheaper to read what followed it than to write it again, an earlier list will do.
        let is_listed = match whole_at {
            Some(last) => sequence == last,
            // A run that is undone goes back to the record of its failure, to know why.
            None => kind == Kind::End || (!header.is_of_undo() && sequence - state.base >= frontier.width() as u64),
        };
        if is_listed {
            (header.frontier, header.base) = (Some(frontier.list()), None);
        }
        let sealed = Row::seal_packed(&self.run, sequence, &header, packed.body);
        state.frontier = frontier;
        let row = sealed?;
        state.head = sequence;
        if undo == sequence {
            state.undos.push(sequence, undo_before);
            if self.options.is_best_effort {
                state.unwritten.insert(sequence, row.clone());
            }
        }
        if whole_at == Some(sequence) {
            state.undos.rewound(sequence, undo);
        }
        state.undo = undo;
        state.visits = header.visits;
        state.has_ended |= kind == Kind::End;
        if header.frontier.is_some() {
            state.base = sequence;
        }
        if let Some(status) = status {
            state.next.status = Some(status);
        }
        Ok((sequence, row))
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

    /// What a resumed run was before: the tokens below a path, with the records of their notes, as far as nobody has taken these.
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
        if self.lock().driver.as_ref().is_some_and(|known| known.will_wake(waker)) {
            return;
        }
        let new = Some(Arc::new(waker.clone()));
        let _replaced = std::mem::replace(&mut self.lock().driver, new);
    }

    /// Whether the run goes on without its store.
    pub(crate) fn is_lost(&self) -> bool {
        self.lock().is_lost
    }

    /// Mail that no node could read goes with the next commit.
    pub(crate) fn take_refused(&self, number: u64) {
        self.lock().to_take.push(number);
    }

    /// Whether there is mail to be taken, and a commit would take it.
    pub(crate) fn has_refused(&self) -> bool {
        let state = self.lock();
        !state.is_lost && !state.to_take.is_empty()
    }

    /// Writes down that everything waits, for mail or until then, unless that is so. Whether there was anything to write.
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
