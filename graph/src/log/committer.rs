//! The commit loop of one durable run.
//!
//! [`Committer`] is polled by the run's engine. It owns:
//! - the commit in flight: at most one; records submitted meanwhile form the next batch,
//! - the lease, through `LeaseRenewal`,
//! - the position in the inbox, through `InboxReader`,
//! - pruning, through `Pruner`.
//!
//! | state | entered by | left by |
//! |---|---|---|
//! | idle | start, `acknowledge` | `begin_commit` when records were submitted |
//! | committing | `begin_commit` | the answer of the store: `acknowledge` or `fail` |
//! | released | the commit of the run's end, `begin_release` | never |
//! | detached (best effort) | `fail` | never |
//!
//! Invariants:
//! 1. Records are committed in the order of their sequence numbers.
//! 2. A waiter is woken for a record only after the store has confirmed it.
//! 3. Once the run is released, nothing is committed.

use crate::lease::ReleaseWork;
use crate::log::inbox_reader::InboxReader;
use crate::log::pruning::Pruner;
use crate::log::renewal::LeaseRenewal;
use crate::log::{Batch, NumberedRecord, RunLog};
use crate::store::{Commit, Committed, InboxMessage, Release, Row, RunStatus, StoreError, Wake};
use crate::util::future::either;
use pleach_core::{BoxFuture, CancelToken, Cause, Instant};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The limits of one commit. Further records wait for the next one, so that a wide fan-out does not
/// block other users of the store. The bytes are those of the bodies.
pub(crate) const COMMIT_ROWS_MAX: usize = 1_000;
const COMMIT_BYTES_MAX: usize = 16 << 20;
/// How long a run that ends waits for the store to release its lease.
pub(crate) const RELEASE_MAX: Duration = Duration::from_secs(5);

/// A call to the store in flight.
pub(super) type StoreCall<T> = BoxFuture<'static, Result<T, StoreError>>;

/// Writes the log of one run, renews its lease and reads its inbox.
pub(crate) struct Committer {
    log: Arc<RunLog>,
    commit: Option<CommitCall>,
    /// `None` after a best-effort run has lost its lease.
    renewal: Option<LeaseRenewal>,
    inbox: InboxReader,
    pruner: Pruner,
    /// The token of a run with a deadline, and the timer for it.
    deadline: Option<(CancelToken, BoxFuture<'static, ()>)>,
    is_released: bool,
    /// The numbers of the pause commands. They are removed with the next resume command.
    pub(crate) pauses: Vec<u64>,
    /// The numbers of other commands that stay in the inbox until the run ends: cancels, and pauses
    /// of a run that ends.
    pub(crate) taken_at_end: Vec<u64>,
    /// The numbers of commands that came too late. They stay in the inbox until the run ends, too.
    pub(crate) refused_at_end: Vec<u64>,
    /// The cause, if a cancel command arrived.
    pub(crate) is_cancelled: Option<String>,
}

/// A commit in flight.
struct CommitCall {
    last: u64,
    /// True if this commit releases the run.
    releases: bool,
    asked_at: Instant,
    call: StoreCall<Committed>,
}

/// What [`Committer::poll`] reports to the engine.
pub(crate) enum CommitterEvent {
    /// These records became durable.
    Durable(std::ops::RangeInclusive<u64>),
    /// New messages arrived in the inbox.
    Messages(Vec<InboxMessage>),
    /// The run must end: the store failed or the lease is lost.
    Fault(StoreFailure),
    /// The store failed, and the best-effort run continues without it.
    Detached(StoreError),
}

/// The failed store operation and its error.
pub(crate) struct StoreFailure {
    pub(crate) op: &'static str,
    pub(crate) error: StoreError,
}

/// What the run is doing while records are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunActivity {
    /// At least one node runs, and no node waits for messages.
    Busy,
    /// Some nodes run and some wait for messages.
    AwaitingMessages,
    /// Every token waits, for messages or until `wake`. Valid while `head` is the last record.
    Parked { wake: Wake, head: u64 },
}

impl Committer {
    pub(crate) fn new(log: Arc<RunLog>, last_message: u64) -> Self {
        let renewal = Some(LeaseRenewal::new(&log));
        Self {
            log,
            commit: None,
            renewal,
            inbox: InboxReader::new(last_message),
            pruner: Pruner::default(),
            deadline: None,
            is_released: false,
            pauses: Vec::new(),
            taken_at_end: Vec::new(),
            refused_at_end: Vec::new(),
            is_cancelled: None,
        }
    }

    /// Cancels `token` at the deadline of the run, by the clock of the store.
    pub(crate) fn cancel_at_deadline(&mut self, token: &CancelToken) {
        self.deadline = self.log.deadline.map(|at| (token.clone(), self.log.sleep_until(at)));
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) {
        if let Some((token, _)) = self.deadline.take_if(|(_, time)| time.as_mut().poll(cx).is_ready()) {
            token.cancel(Cause::DeadlineExceeded);
        }
    }

    pub(crate) fn log(&self) -> &Arc<RunLog> {
        &self.log
    }

    /// Continues writing, renewing and reading. Pending when nothing is to report; all calls in
    /// flight hold the waker.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, activity: RunActivity) -> Poll<CommitterEvent> {
        if let Some(renewal) = &mut self.renewal
            && let Poll::Ready(error) = renewal.poll(&self.log, cx)
        {
            self.renewal = None;
            if !self.log.is_detached() {
                return self.fail("renew", error);
            }
        }
        self.poll_deadline(cx);
        if self.log.is_detached() {
            return Poll::Pending;
        }
        self.pruner.poll(cx);
        if let Some(CommitCall { last, releases, asked_at, call }) = &mut self.commit {
            let (last, releases, asked_at) = (*last, *releases, *asked_at);
            return match std::task::ready!(call.as_mut().poll(cx)) {
                Ok(Committed { last_message, now }) => {
                    self.log.lease.clock.correct(now, asked_at);
                    (self.commit, self.is_released) = (None, releases);
                    self.expect_messages(last_message);
                    self.inbox.reported_at = Some(self.log.runtime().now());
                    Poll::Ready(CommitterEvent::Durable(self.acknowledge(last)))
                }
                Err(error) => {
                    self.commit = None;
                    self.fail("commit", error)
                }
            };
        }
        // Before the next commit: a run of quick nodes always has one to begin.
        if let Poll::Ready(read) = self.inbox.poll(&self.log, cx, activity) {
            return match read {
                Ok(messages) => Poll::Ready(CommitterEvent::Messages(messages)),
                Err(error) => self.fail("inbox", error),
            };
        }
        if self.begin_commit(cx.waker(), activity) {
            return self.poll(cx, activity);
        }
        Poll::Pending
    }

    /// Ready if nodes may be polled: the lease will not expire soon, or the run is detached from
    /// its store.
    pub(crate) fn poll_lease(&self, cx: &Context<'_>) -> Poll<()> {
        match self.log.lease.poll_driver(cx) {
            Poll::Pending if self.log.is_detached() => Poll::Ready(()),
            polled => polled,
        }
    }

    /// Reports that the store has a message with this number.
    pub(crate) fn expect_messages(&mut self, last_message: u64) {
        self.inbox.last_message = self.inbox.last_message.max(last_message);
    }

    /// Returns true if no record is to be written and all messages were read.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.log.lock();
        state.is_detached || (self.commit.is_none() && state.next.records.is_empty() && self.inbox.last_message <= state.seen)
    }

    /// Ends the run with the error of a store operation. A best-effort run is detached from its
    /// store instead, unless it was fenced.
    fn fail(&mut self, op: &'static str, error: StoreError) -> Poll<CommitterEvent> {
        let is_ours = !matches!(error, StoreError::Fenced { .. });
        if !(self.log.options.is_best_effort && is_ours) {
            return Poll::Ready(CommitterEvent::Fault(StoreFailure { op, error }));
        }
        (self.is_released, self.commit) = (true, None);
        let waiting = {
            let mut state = self.log.lock();
            state.is_detached = true;
            state.take_wakers(u64::MAX)
        };
        waiting.into_values().flatten().for_each(Waker::wake);
        self.log.lease.wake_all();
        Poll::Ready(CommitterEvent::Detached(error))
    }

    /// Marks all records up to `last` as durable and wakes their waiters.
    fn acknowledge(&mut self, last: u64) -> std::ops::RangeInclusive<u64> {
        let first = self.log.durable.load(Ordering::Relaxed) + 1;
        let waiting = {
            let mut state = self.log.lock();
            self.log.durable.store(last, Ordering::Release);
            while state.unwritten.first_entry().is_some_and(|first| *first.key() <= last) {
                state.unwritten.pop_first();
            }
            state.take_wakers(last)
        };
        waiting.into_values().flatten().for_each(Waker::wake);
        if !self.is_released {
            self.pruner.begin(&self.log);
        }
        if self.is_released {
            self.log.lease.released();
        }
        first..=last
    }

    /// Starts a commit of submitted records. Returns false if none were submitted.
    fn begin_commit(&mut self, driver: &Waker, activity: RunActivity) -> bool {
        let log = &self.log;
        log.set_driver(driver);
        let mut state = log.lock();
        if state.next.records.is_empty() {
            return false;
        }
        let (records, mut takes) = state.next.take_records(log.options.commit_rows_max);
        takes.append(&mut state.to_take);
        let last = records.last().map_or(0, |record: &NumberedRecord| record.sequence);
        let is_all = state.next.records.is_empty();
        let parked = match activity {
            RunActivity::Parked { wake, head } if is_all && head == state.head => Some(wake),
            _ => None,
        };
        let (status, wake) = match (state.next.status.filter(|_| is_all), parked) {
            (Some(status), _) if status.has_ended() => (status, None),
            (_, Some(wake)) => (RunStatus::Waiting, Some(wake)),
            _ => (RunStatus::Running, Some(Wake::Now)),
        };
        if is_all {
            state.next.status = None;
        }
        let changes = status != state.status;
        state.status = status;
        let (seen, deadline) = (state.seen, state.deadline.take());
        let (tags, failure, refuses) =
            (state.tags.take_changed(), state.next.failure.take(), std::mem::take(&mut state.to_refuse));
        state.parked = parked.map(|wake| (wake, seen));
        if is_all {
            self.pruner.plan(&state, log.options.rows_kept);
        }
        drop(state);
        let releases = status.has_ended();
        if releases {
            log.lease.releasing();
        }
        let commit = Commit {
            status: changes.then_some(status),
            wake: wake.filter(|wake| changes || *wake != Wake::Now),
            takes,
            seen,
            release: releases,
            deadline,
            tags,
            failure,
            refuses,
            ..Commit::new(log.held(), Vec::new())
        };
        let call = Box::pin(seal_and_commit(Arc::clone(log), commit, records));
        self.commit = Some(CommitCall { last, releases, asked_at: log.runtime().now(), call });
        true
    }

    /// Releases the run after its end, so that other drivers need not wait for its lease to expire.
    /// If a worker renews the lease, the worker also releases it.
    pub(crate) fn release(&mut self) -> Option<BoxFuture<'static, ()>> {
        self.is_released |= self.log.options.worker_lease.is_some();
        self.begin_release().map(ReleaseWork::all)
    }

    fn begin_release(&mut self) -> Option<ReleaseWork> {
        // Before the call: an abandoned node in the middle of a poll may be about to start an
        // effect.
        self.log.lease.stop_driving();
        if std::mem::replace(&mut self.is_released, true) {
            return None;
        }
        // The store may have locked the row of the run for pruning, which is not polled any more.
        self.pruner = Pruner::default();
        let log = Arc::clone(&self.log);
        let commit = self.commit.take();
        let runtime = Arc::clone(log.runtime());
        let until = runtime.now() + RELEASE_MAX;
        let bounded = |work| -> BoxFuture<'static, ()> { Box::pin(either(work, runtime.sleep_until(until))) };
        // Wait for the commit in flight, whether it succeeds or not: the release must come after
        // it.
        let commit = bounded(Box::pin(async move {
            if let Some(CommitCall { call, .. }) = commit {
                drop(call.await);
            }
        }));
        let release = bounded(Box::pin(async move {
            drop(log.options.store.release(vec![log.held()], Release::AsIs).await);
        }));
        Some(ReleaseWork { commit, release })
    }
}

/// A dropped run is released by its worker, or by a spawned task.
impl Drop for Committer {
    fn drop(&mut self) {
        let Some(release) = self.begin_release() else { return };
        match self.log.lease.is_renewed_by_worker() {
            true => self.log.lease.set_release_work(release),
            false => self.log.runtime().spawn(release.all()),
        }
    }
}

/// Encodes the records of a commit, and writes it.
async fn seal_and_commit(log: Arc<RunLog>, mut commit: Commit, records: Vec<NumberedRecord>) -> Result<Committed, StoreError> {
    let rows: Result<Vec<Row>, StoreError> = records.into_iter().map(|record| record.seal(&log.run)).collect();
    commit.rows = rows?;
    log.options.store.commit(commit).await
}

impl Batch {
    /// Takes as many records as one commit may have, with the messages that they take.
    fn take_records(&mut self, records_max: usize) -> (Vec<NumberedRecord>, Vec<u64>) {
        let (mut records, mut takes, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some((first, _)) = self.records.front()
            && (records.is_empty() || bytes + first.body.size() <= COMMIT_BYTES_MAX)
            && let Some((record, taken)) = self.records.pop_front()
        {
            bytes += record.body.size();
            records.push(record);
            takes.extend(taken);
            if records.len() >= records_max {
                break;
            }
        }
        (records, takes)
    }
}
