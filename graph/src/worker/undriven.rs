//! Runs that could not be driven because of the store, or because this worker is too old.
//!
//! The store may be down, or it may be unable to read only this run (a bad block, a damaged page).
//!
//! 1. Such a run is delayed in the store. After that it is due later than other waiting runs, so it
//!    delays none of them.
//! 2. It counts as a failed takeover of the run only if reading the run failed and right after that
//!    the store can read a record of another run.

use crate::lease::{ReleaseWork, RunLease};
use crate::store::{Held, Parts, Release, Rows, StoreError};
use crate::util::future::either;
use crate::worker::core::{CALL_MAX, DELAY, WorkerCore};
use crate::worker::event::{RunEnd, Undriven, WorkerEvent};
use std::sync::Arc;
use std::time::Duration;

/// The longest delay of a run that this worker is too old for. The delay grows with the time since
/// the run's last commit.
const DELAY_TOO_NEW_MAX: Duration = Duration::from_secs(60);

/// The number of other runs that are tried, the latest first.
const PROBES_MAX: usize = 8;

impl WorkerCore {
    /// Releases a run that the store prevented from being driven. It stays in `held` for a moment,
    /// because the store may answer again soon.
    pub(super) fn handle_undriven(self: &Arc<Self>, held: Held, lease: &Arc<RunLease>, undriven: Undriven) {
        let (wait, release_work) = (self.jitter(DELAY.0), lease.take_release_work());
        let end = RunEnd::Trouble { error: undriven.error.clone(), wait };
        let (core, lease, run) = (Arc::clone(self), Arc::clone(lease), held.clone());
        let release = async move {
            let mut is_run_broken = false;
            let delay = core.runtime.sleep_until(core.runtime.now() + wait);
            let probe = async {
                is_run_broken = undriven.while_reading && core.can_read_another(&run.run).await;
                delay.await;
            };
            // A closing worker skips the probe and releases the run at once.
            either(Box::pin(core.closing()), Box::pin(probe)).await;
            if let Some(ReleaseWork { commit, .. }) = release_work {
                commit.await;
            }
            if lease.is_held()
                && let Err(error) = core.release_undriven(&run, is_run_broken.then_some(&undriven.error)).await
            {
                // The lease will expire.
                core.store_failed("release", &error, Duration::ZERO);
            }
        };
        self.finish(held, end, Some(Box::pin(release)));
    }

    /// Releases the run. `trouble` is the reason that counts against it, if any.
    async fn release_undriven(&self, held: &Held, trouble: Option<&String>) -> Result<(), StoreError> {
        if let Some(error) = trouble {
            let result = self.release_troubled(held, error).await?;
            result.event(&held.run, error).iter().for_each(|event| self.report(event));
            return Ok(());
        }
        let how = Release::ForOthers { delay: self.jitter(DELAY.0) };
        self.bounded(CALL_MAX, self.store.release(vec![held.clone()], how)).await?;
        Ok(())
    }

    /// Returns whether the store can read the last record of another run.
    async fn can_read_another(&self, run: &str) -> bool {
        let Ok(list) = self.bounded(CALL_MAX, self.store.list(Vec::new(), None, PROBES_MAX)).await else { return false };
        for other in list.runs.iter().filter(|other| other.id != run) {
            let last = Rows::Each(vec![other.head]);
            if self.bounded(CALL_MAX, self.store.read(&other.id, last, Parts::Whole)).await.is_ok() {
                return true;
            }
        }
        false
    }

    /// Releases a run that this worker is too old for. No takeover is counted, and newer workers
    /// can claim it after its delay.
    pub(super) fn handle_too_new(self: &Arc<Self>, held: Held, lease: &Arc<RunLease>, reason: String) {
        let (core, lease) = (Arc::clone(self), Arc::clone(lease));
        self.runtime.spawn(Box::pin(async move {
            if let Some(ReleaseWork { commit, .. }) = lease.take_release_work() {
                commit.await;
            }
            let (wait, follows) = match core.release_to_newer(&held, &lease).await {
                Ok(delay) => (delay, Some(WorkerEvent::LeftToNewer { run: held.run.clone(), reason: reason.clone(), delay })),
                Err(error) => {
                    // The lease will expire.
                    core.store_failed("release", &error, Duration::ZERO);
                    (core.settings.lease, None)
                }
            };
            tracing::warn!(run = %held.run, %reason, delay = ?wait, "a newer version wrote this run and this worker cannot read it; released it for newer workers; upgrade this worker");
            core.watch.note_too_new(&held.run, core.runtime.now());
            core.report(&WorkerEvent::Ended { run: held.run.clone(), end: RunEnd::Trouble { error: reason, wait } });
            follows.iter().for_each(|event| core.report(event));
            core.remove_held(&held);
        }));
    }

    /// Releases the run and returns its delay: the time since its last commit, within bounds. The
    /// delays grow without a stored count.
    async fn release_to_newer(&self, held: &Held, lease: &RunLease) -> Result<Duration, StoreError> {
        let changed = self.bounded(CALL_MAX, self.store.head(&held.run)).await?.changed;
        let delay = self.jitter(lease.clock.now().since(changed).clamp(DELAY.0, DELAY_TOO_NEW_MAX));
        let how = Release::ForOthers { delay };
        self.bounded(CALL_MAX, self.store.release(vec![held.clone()], how)).await?;
        Ok(delay)
    }
}
