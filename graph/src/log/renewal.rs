//! `LeaseRenewal`: renews the lease of a run, and stops the run before the lease expires.
//!
//! A single run renews its own lease. A worker renews the leases of all its runs at once and
//! reports to each through its [`RunLease`].
//!
//! Rules:
//! 1. The lease is renewed after a quarter of its duration.
//! 2. When less than a quarter is left, no node is polled, no effect starts, and the run ends.
//! 3. Exception: if the task was not polled for a long time (a blocked thread, a stopped process),
//!    one renewal is tried first. An expired lease can be renewed while no other driver has claimed
//!    the run.

use crate::lease::{LEASE_PARTS, Moment, RunLease};
use crate::log::RunLog;
use crate::log::committer::StoreCall;
use crate::store::{Renewed, StoreError};
use pleach_core::{BoxFuture, ExponentialBackoff, Instant};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The first wait before a failed renewal is repeated. It doubles, up to a quarter of the lease.
const RENEW_AGAIN: Duration = Duration::from_millis(50);

/// The lease of one run and its renewals.
pub(super) struct LeaseRenewal {
    lease: Arc<RunLease>,
    /// `None` if a worker renews the lease.
    renewal: Option<RenewalState>,
    timer: (Instant, BoxFuture<'static, ()>),
    /// The run does not end before this time: set after a silence, for one more renewal.
    patient_until: Instant,
    /// How long the task was not polled, if that was too long.
    silence: Option<Duration>,
}

/// The renewals of a run that renews its own lease.
struct RenewalState {
    due: Instant,
    failures: u32,
    call: Option<(Moment, StoreCall<Renewed>)>,
}

impl LeaseRenewal {
    pub(super) fn new(log: &RunLog) -> Self {
        let (lease, runtime) = (Arc::clone(&log.lease), log.runtime());
        // Opening the run has used part of the lease.
        let due = lease.renewed_at() + lease.part();
        let renewal = (!lease.is_renewed_by_worker()).then_some(RenewalState { due, failures: 0, call: None });
        Self { lease, renewal, timer: (due, runtime.sleep_until(due)), patient_until: Instant::ZERO, silence: None }
    }

    /// Ready with the error when the lease is lost or about to expire.
    pub(super) fn poll(&mut self, log: &Arc<RunLog>, cx: &mut Context<'_>) -> Poll<StoreError> {
        loop {
            let is_answered = self.poll_renewal(log, cx);
            let seen = self.lease.status(cx.waker());
            if seen.is_lost {
                return Poll::Ready(StoreError::Fenced { run: log.run.to_string(), epoch: log.epoch });
            }
            let is_wanted = seen.is_wanted && self.renewal.as_ref().is_some_and(RenewalState::is_idle);
            let is_due = self.timer.1.as_mut().poll(cx).is_ready();
            if !(is_answered || is_wanted || is_due || seen.was_silent) {
                return Poll::Pending;
            }
            if let Some(error) = self.advance(log, is_wanted) {
                return Poll::Ready(error);
            }
        }
    }

    /// Polls the renewal in flight. Returns true if it was answered.
    fn poll_renewal(&mut self, log: &RunLog, cx: &mut Context<'_>) -> bool {
        let part = self.lease.part();
        let Some(RenewalState { due, failures, call: slot }) = &mut self.renewal else { return false };
        let Some((asked_at, call)) = slot else { return false };
        let Poll::Ready(answer) = call.as_mut().poll(cx) else { return false };
        let asked_at = *asked_at;
        *slot = None;
        let now = log.runtime().now();
        match answer {
            Ok(Renewed { lost, .. }) if !lost.is_empty() => {
                self.lease.lost();
                *due = now + part;
            }
            // Another transaction uses the row of the run.
            Ok(Renewed { busy, .. }) if !busy.is_empty() => {
                self.lease.busy();
                (*due, *failures) = (now + part / LEASE_PARTS, *failures + 1);
            }
            Ok(Renewed { now: store_now, .. }) => {
                self.lease.renewed(asked_at, store_now);
                log.options.monitor.answered();
                (*due, *failures, self.silence) = (asked_at.at + part, 0, None);
            }
            Err(error) => {
                log.options.monitor.failed("renew", &error);
                self.lease.failed(error);
                *failures += 1;
                *due = now + ExponentialBackoff::new(RENEW_AGAIN.min(part), part).jitter(0.0).delay(*failures, 0);
            }
        }
        true
    }

    /// Requests a renewal if it is due and sets the timer. Returns an error if the run must end.
    fn advance(&mut self, log: &Arc<RunLog>, is_wanted: bool) -> Option<StoreError> {
        let (runtime, part) = (log.runtime(), self.lease.part());
        let now = Moment::now(&**runtime);
        if let Some(silence) = self.lease.take_silence(now) {
            (self.silence, self.patient_until) = (Some(silence), now.at + part);
            // The answer to an earlier request may never arrive.
            if let Some(renewal) = &mut self.renewal {
                *renewal = RenewalState { due: now.at, failures: 0, call: None };
            }
        }
        let left = self.lease.left(now);
        if left <= part && now.at >= self.patient_until {
            return Some(self.expiry_error(part));
        }
        // The lease was renewed since, so a later outage is a separate case.
        if left > part && now.at >= self.patient_until {
            self.silence = None;
        }
        let given_up_at = (now.at + left.saturating_sub(part)).max(self.patient_until);
        // The task is polled at least once per quarter, so a due timer is never taken for a
        // silence.
        let mut next = given_up_at.min(now.at + part);
        if let Some(renewal) = &mut self.renewal {
            if renewal.call.is_none() && (is_wanted || now.at >= renewal.due) {
                let (store, held, length) = (Arc::clone(&log.options.store), log.held(), self.lease.length);
                let call = Box::pin(async move { store.renew(vec![held], length).await });
                renewal.call = Some((now, call));
            }
            if renewal.call.is_none() {
                next = next.min(renewal.due);
            }
        }
        if next != self.timer.0 || now.at >= next {
            self.timer = (next, runtime.sleep_until(next));
        }
        None
    }

    fn expiry_error(&self, part: Duration) -> StoreError {
        let error = self.lease.take_error();
        let length = self.lease.length;
        match (self.silence, error) {
            (None, Some(error)) => error,
            (None, None) => StoreError::unavailable(format!(
                "the store answered no renewal of the lease, and less than {part:?} of its {length:?} remains; the run stops and can be resumed"
            )),
            (Some(silence), error) => {
                let error = error.map_or_else(|| "the store did not answer".to_string(), |error| error.to_string());
                StoreError::unavailable(format!(
                    "the run was not polled for {silence:?}, and its lease of {length:?} could not be renewed afterwards \
                     ({error}); the run stops and can be resumed; look for a node that blocks its thread, or a suspended process"
                ))
            }
        }
    }
}

impl RenewalState {
    /// Returns true if no renewal is in flight and the last one did not fail.
    fn is_idle(&self) -> bool {
        self.call.is_none() && self.failures == 0
    }
}
