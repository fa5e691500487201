//! The deadline of a stored run.
//!
//! It is an absolute time by the clock of the store, and it is stored with the run. The driver that
//! executes the run when the deadline passes ends the run permanently.
//!
//! Rules:
//! 1. The first deadline of a run counts. A later option counts only if the run has none; it is
//!    stored with the first commit of the driver.
//! 2. A run that is rewound, replayed or given another state starts with a new deadline, or with
//!    none.

use crate::error::RunFault;
use crate::log::RunLog;
use crate::store::{Deadline, RunInfo, Timestamp, Wake};
use pleach_core::{BoxFuture, Cause, Instant, Runtime};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// The deadline in the options of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timeout {
    /// The start of the run and its time limit.
    limit: Option<(Instant, Duration)>,
    /// True if the stored deadline is replaced.
    replaces_stored: bool,
}

impl Timeout {
    pub(crate) fn new(started: Instant, length: Option<Duration>) -> Self {
        Self { limit: length.map(|length| (started, length)), replaces_stored: false }
    }

    /// Returns the deadline for a run that is rewound, replayed or given another state.
    pub(crate) fn replacing_stored(self) -> Self {
        Self { replaces_stored: true, ..self }
    }

    /// Returns the remaining time at `now`.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        self.limit.map(|(started, length)| (started + length).since(now))
    }

    /// Returns when opening the run times out. A run past its deadline is still opened, to be
    /// ended; that may take as long as a lease.
    pub(crate) fn open_until(&self, lease: Duration) -> Option<Instant> {
        self.limit.map(|(started, length)| started + if length.is_zero() { lease } else { length })
    }

    /// Returns when opening a claimed run times out; its stored deadline may apply.
    pub(crate) fn open_claimed_until(
        &self,
        info: &RunInfo,
        now: Timestamp,
        asked_at: Instant,
        lease: Duration,
    ) -> Option<Instant> {
        let left = self.of_claim(info, now, asked_at).0?.since(now);
        Some(asked_at + if left.is_zero() { lease } else { left })
    }

    /// Returns the deadline of a claimed run and the change to store. `now` is the store's time
    /// when the claim was requested at `asked_at`.
    pub(super) fn of_claim(&self, info: &RunInfo, now: Timestamp, asked_at: Instant) -> (Option<Timestamp>, Option<Deadline>) {
        let own = self.left(asked_at).map(|left| now.after(left));
        match (info.deadline.filter(|_| !self.replaces_stored), own) {
            (Some(stored), _) => (Some(stored), None),
            (None, Some(own)) => (Some(own), Some(Deadline::At(own))),
            (None, None) => (None, info.deadline.map(|_| Deadline::Never)),
        }
    }
}

impl RunLog {
    /// Returns true if the deadline of the run has passed.
    pub(crate) fn is_overdue(&self) -> bool {
        self.deadline.is_some_and(|at| self.now() >= at)
    }

    /// Returns when a waiting run must wake: at its deadline at the latest.
    pub(crate) fn due(&self, wake: Wake) -> Wake {
        match (wake, self.deadline) {
            (Wake::OnMessage, Some(deadline)) => Wake::At(deadline),
            (Wake::At(at), Some(deadline)) => Wake::At(at.min(deadline)),
            (wake, _) => wake,
        }
    }
}

/// Opens a run until `at` at the latest. Then the opening is cancelled, and the stored run stays
/// unchanged.
pub(crate) async fn opened_until<T, E: From<RunFault>>(
    runtime: &Arc<dyn Runtime>,
    at: Option<Instant>,
    opening: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let mut timer: Option<BoxFuture<'static, ()>> = at.map(|at| runtime.sleep_until(at));
    let mut opening = pin!(opening);
    poll_fn(|cx| {
        if let Poll::Ready(opened) = opening.as_mut().poll(cx) {
            return Poll::Ready(opened);
        }
        match timer.as_mut().map(|timer| timer.as_mut().poll(cx)) {
            Some(Poll::Ready(())) => {
                let (node, cause) = (String::new(), Cause::DeadlineExceeded);
                Poll::Ready(Err(RunFault::Cancelled { node, cause, was_executing: false, grace: None }.into()))
            }
            _ => Poll::Pending,
        }
    })
    .await
}
