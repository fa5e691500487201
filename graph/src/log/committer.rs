//! `Committer`: the commit loop of one durable run, polled by the run's engine. It owns:
//! - the commit in flight: at most one; records submitted meanwhile form the next batch,
//! - the lease, through `LeaseRenewal`,
//! - the position in the inbox, through `InboxReader`.
//!
//! Invariants:
//! 1. Records are committed in the order of their sequence numbers.
//! 2. A waiter is woken for a record only after the store has confirmed it.
//! 3. Once the run is given up, nothing is submitted again.

use crate::lease::ReleaseWork;
use crate::log::inbox_reader::InboxReader;
use crate::log::pruning::Pruner;
use crate::log::renewal::LeaseRenewal;
use crate::log::{Batch, RunLog};
use crate::store::{Commit, Committed, InboxMessage, Release, Row, RunStatus, StoreError, Wake};
use crate::util::future::either;
use pleach_core::{BoxFuture, CancelToken, Cause, Instant};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// How much one commit holds. What is more waits for the next, so that a wide fan-out is no obstacle to others that use the store.
pub(crate) const COMMIT_ROWS_MAX: usize = 1_000;
const COMMIT_BYTES_MAX: usize = 16 << 20;
/// How long a run that ends waits for the store to let it go.
pub(crate) const RELEASE_MAX: Duration = Duration::from_secs(5);

/// What the store was asked.
pub(super) type StoreCall<T> = BoxFuture<'static, Result<T, StoreError>>;

pub(crate) struct Committer {
    log: Arc<RunLog>,
    commit: Option<CommitCall>,
    /// None once a run that goes on without its store could not keep its lease.
    renewal: Option<LeaseRenewal>,
    inbox: InboxReader,
    pruner: Pruner,
    /// The token of a run with a deadline, and the time until then.
    deadline: Option<(CancelToken, BoxFuture<'static, ()>)>,
    is_released: bool,
    /// The numbers of the pause commands. The resume takes them.
    pub(crate) pauses: Vec<u64>,
    /// The numbers of other commands that stay in the inbox until the record of the run's end takes them: cancels, and all that came too late.
    pub(crate) taken_at_end: Vec<u64>,
    /// The run was told to end for good, and why.
    pub(crate) is_cancelled: Option<String>,
}

/// A commit on its way.
struct CommitCall {
    last: u64,
    /// Whether the run is given up with it.
    releases: bool,
    asked_at: Instant,
    asked: StoreCall<Committed>,
}

/// What the committer has to say.
pub(crate) enum CommitterEvent {
    /// These sequences are durable from now on.
    Durable(std::ops::RangeInclusive<u64>),
    /// New messages.
    Messages(Vec<InboxMessage>),
    /// The run cannot go on.
    Fault(StoreFailure),
    /// The store failed, and the run goes on without it.
    Lost(StoreError),
}

/// Why a run cannot go on.
pub(crate) struct StoreFailure {
    pub(crate) op: &'static str,
    pub(crate) error: StoreError,
}

/// How the run stands, when something is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunActivity {
    Busy,
    /// Some work, and some wait for messages.
    Asking,
    /// Every line of control waits, until then or for messages, if this is still the last record.
    Parked {
        wake: Wake,
        head: u64,
    },
}

impl Committer {
    pub(crate) fn new(log: Arc<RunLog>, posted: u64) -> Self {
        let renewal = Some(LeaseRenewal::new(&log));
        Self {
            log,
            commit: None,
            renewal,
            inbox: InboxReader::new(posted),
            pruner: Pruner::default(),
            deadline: None,
            is_released: false,
            pauses: Vec::new(),
            taken_at_end: Vec::new(),
            is_cancelled: None,
        }
    }

    /// Cancels the token at the deadline of the run, by the store's clock.
    pub(crate) fn watch_deadline(&mut self, token: &CancelToken) {
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

    /// Goes on writing. Pending when there is nothing to say, and a waker is left with all that is under way.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, standing: RunActivity) -> Poll<CommitterEvent> {
        if let Some(renewal) = &mut self.renewal
            && let Poll::Ready(error) = renewal.poll(&self.log, cx)
        {
            self.renewal = None;
            if !self.log.is_lost() {
                return self.fail("renew", error);
            }
        }
        self.poll_deadline(cx);
        if self.log.is_lost() {
            return Poll::Pending;
        }
        self.pruner.poll(cx);
        if let Some(CommitCall { last, releases, asked_at, asked }) = &mut self.commit {
            let (last, releases, asked_at) = (*last, *releases, *asked_at);
            return match std::task::ready!(asked.as_mut().poll(cx)) {
                Ok(Committed { posted, now }) => {
                    self.log.lease.clock.correct(now, asked_at);
                    (self.commit, self.is_released) = (None, releases);
                    self.expect_messages(posted);
                    self.inbox.heard_at = Some(self.log.runtime().now());
                    Poll::Ready(CommitterEvent::Durable(self.acknowledge(last)))
                }
                Err(error) => {
                    self.commit = None;
                    self.fail("commit", error)
                }
            };
        }
        if self.begin_commit(cx.waker(), standing) {
            return self.poll(cx, standing);
        }
        if let Poll::Ready(read) = self.inbox.poll(&self.log, cx, standing) {
            return match read {
                Ok(messages) => Poll::Ready(CommitterEvent::Messages(messages)),
                Err(error) => self.fail("inbox", error),
            };
        }
        Poll::Pending
    }

    /// Ready if nodes may be polled: the lease has not ended and will not end soon, or the run goes on without its store.
    pub(crate) fn poll_lease(&self, cx: &Context<'_>) -> Poll<()> {
        match self.log.lease.poll_driver(cx) {
            Poll::Pending if self.log.is_lost() => Poll::Ready(()),
            polled => polled,
        }
    }

    /// The store is said to have a message of this number.
    pub(crate) fn expect_messages(&mut self, posted: u64) {
        self.inbox.posted = self.inbox.posted.max(posted);
    }

    /// Whether nothing is to be written, and all messages were read.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.log.lock();
        state.is_lost || (self.commit.is_none() && state.next.rows.is_empty() && self.inbox.posted <= state.seen)
    }

    fn fail(&mut self, op: &'static str, error: StoreError) -> Poll<CommitterEvent> {
        let is_ours = !matches!(error, StoreError::Fenced { .. });
        if !(self.log.options.is_best_effort && is_ours) {
            return Poll::Ready(CommitterEvent::Fault(StoreFailure { op, error }));
        }
        (self.is_released, self.commit) = (true, None);
        let waiting = {
            let mut state = self.log.lock();
            state.is_lost = true;
            state.take_waiting(u64::MAX)
        };
        waiting.into_values().flatten().for_each(Waker::wake);
        self.log.lease.let_all_go();
        Poll::Ready(CommitterEvent::Lost(error))
    }

    fn acknowledge(&mut self, last: u64) -> std::ops::RangeInclusive<u64> {
        let first = self.log.durable.load(Ordering::Relaxed) + 1;
        let waiting = {
            let mut state = self.log.lock();
            self.log.durable.store(last, Ordering::Release);
            while state.unwritten.first_entry().is_some_and(|first| *first.key() <= last) {
                state.unwritten.pop_first();
            }
            state.take_waiting(last)
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

    /// Takes what was submitted, if anything was.
    fn begin_commit(&mut self, driver: &Waker, standing: RunActivity) -> bool {
        let log = &self.log;
        log.set_driver(driver);
        let mut state = log.lock();
        if state.next.rows.is_empty() {
            return false;
        }
        let (rows, mut takes) = state.next.some(log.options.commit_rows_max);
        takes.append(&mut state.to_take);
        let last = rows.last().map_or(0, |row: &Row| row.sequence);
        let is_all = state.next.rows.is_empty();
        let parked = match standing {
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
            ..Commit::new(log.held(), rows)
        };
        let store = Arc::clone(&log.options.store);
        let asked = Box::pin(async move { store.commit(commit).await });
        self.commit = Some(CommitCall { last, releases, asked_at: log.runtime().now(), asked });
        true
    }

    /// Gives the run up after its end, so that others need not wait for its lease to end; or leaves that to whoever keeps the lease.
    pub(crate) fn release(&mut self) -> Option<BoxFuture<'static, ()>> {
        self.is_released |= self.log.options.kept_lease.is_some();
        self.give_up().map(ReleaseWork::all)
    }

    fn give_up(&mut self) -> Option<ReleaseWork> {
        // Before the store is asked: a node that was cut off in the middle of a poll may be about to begin an effect.
        self.log.lease.give_up();
        if std::mem::replace(&mut self.is_released, true) {
            return None;
        }
        // The store may have locked the run's row for it, and nobody polls it any more.
        self.pruner = Pruner::default();
        let log = Arc::clone(&self.log);
        let commit = self.commit.take();
        let runtime = Arc::clone(log.runtime());
        let until = runtime.now() + RELEASE_MAX;
        let bounded = |work| -> BoxFuture<'static, ()> { Box::pin(either(work, runtime.sleep_until(until))) };
        // It lands or it does not; what follows must come after.
        let commit = bounded(Box::pin(async move {
            if let Some(CommitCall { asked, .. }) = commit {
                drop(asked.await);
            }
        }));
        let release = bounded(Box::pin(async move {
            drop(log.options.store.release(vec![log.held()], Release::AsIs).await);
        }));
        Some(ReleaseWork { commit, release })
    }
}

/// A run that was dropped is given up by whoever keeps its lease, else by a task of its own.
impl Drop for Committer {
    fn drop(&mut self) {
        let Some(release) = self.give_up() else { return };
        match self.log.lease.is_kept() {
            true => self.log.lease.leave(release),
            false => self.log.runtime().spawn(release.all()),
        }
    }
}

impl Batch {
    /// As many rows as one commit may have, and the messages that are taken with them.
    fn some(&mut self, rows_max: usize) -> (Vec<Row>, Vec<u64>) {
        let (mut rows, mut takes, mut bytes) = (Vec::new(), Vec::new(), 0);
        while self.rows.front().is_some_and(|(row, _)| rows.is_empty() || bytes + row.size() <= COMMIT_BYTES_MAX)
            && let Some((row, taken)) = self.rows.pop_front()
        {
            bytes += row.size();
            rows.push(row);
            takes.extend(taken);
            if rows.len() >= rows_max {
                break;
            }
        }
        (rows, takes)
    }
}
