//! The deadline of a stored run.
//!
//! It is an absolute time by the store's clock, kept with the run, and counts across drivers: whoever drives the run when it passes ends the run for
//! good. The first deadline of a run counts. One that is named later counts only if the run has none, and is stored with the driver's first
//! commit. A run that is rewound, replayed or given another state begins with a new deadline, or with none.

use crate::error::RunFault;
use crate::log::RunLog;
use crate::store::{Deadline, RunInfo, Timestamp, Wake};
use pleach_core::{BoxFuture, Cause, Instant, Runtime};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// What the options of a run say about its deadline.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timeout {
    /// When the run was started, and how long it may take.
    asked: Option<(Instant, Duration)>,
    /// What is stored does not count any more.
    is_anew: bool,
}

impl Timeout {
    pub(crate) fn new(started: Instant, length: Option<Duration>) -> Self {
        Self { asked: length.map(|length| (started, length)), is_anew: false }
    }

    /// The same for a run that goes on from elsewhere, or with another state.
    pub(crate) fn anew(self) -> Self {
        Self { is_anew: true, ..self }
    }

    /// How much time is left at `now`.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        self.asked.map(|(started, length)| (started + length).since(now))
    }

    /// When opening the run is given up. One whose time is over is opened all the same, to be ended: that may take as long as a lease.
    pub(crate) fn open_until(&self, lease: Duration) -> Option<Instant> {
        self.asked.map(|(started, length)| started + if length.is_zero() { lease } else { length })
    }

    /// The same for a claimed run, whose own deadline may count.
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

    /// The deadline of a claimed run, and what is to be stored about it. The claim was asked for at `asked_at`, when the store's clock said `now`.
    pub(super) fn of_claim(&self, info: &RunInfo, now: Timestamp, asked_at: Instant) -> (Option<Timestamp>, Option<Deadline>) {
        let own = self.left(asked_at).map(|left| now.after(left));
        match (info.deadline.filter(|_| !self.is_anew), own) {
            (Some(stored), _) => (Some(stored), None),
            (None, Some(own)) => (Some(own), Some(Deadline::At(own))),
            (None, None) => (None, info.deadline.map(|_| Deadline::Never)),
        }
    }
}

impl RunLog {
    /// Whether the deadline of the run has passed.
    pub(crate) fn is_overdue(&self) -> bool {
        self.deadline.is_some_and(|at| self.now() >= at)
    }

    /// When a run that waits is due: at its deadline at the latest.
    pub(crate) fn due(&self, wake: Wake) -> Wake {
        match (wake, self.deadline) {
            (Wake::OnPost, Some(deadline)) => Wake::At(deadline),
            (Wake::At(at), Some(deadline)) => Wake::At(at.min(deadline)),
            (wake, _) => wake,
        }
    }
}

/// Opens a run until `at` at the latest. After that it is cancelled, and stays as it is in the store.
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
