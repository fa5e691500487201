//! Runs that could not be driven because of the store, or because this worker is too old. The store
//! may be down, or only this run may be unreadable (a bad block, a damaged page).
//!
//! 1. Such a run rests in the store for a while. Then it is due later than other waiting runs, so
//!    it delays none of them.
//! 2. It counts against the run only if reading the run failed and the store reads records of
//!    another run right after that.

use crate::lease::{ReleaseWork, RunLease};
use crate::store::{Held, Parts, Release, Rows, StoreError};
use crate::util::future::either;
use crate::worker::core::{CALL_MAX, REST, WorkerCore};
use crate::worker::event::{RunEnd, Unserved, WorkerEvent};
use std::sync::Arc;
use std::time::Duration;

/// How long a run that this worker is too old for is left alone at most. The rest grows with the time since its last commit.
const REST_TOO_NEW_MAX: Duration = Duration::from_secs(60);

/// How many other runs are tried, the latest first.
const OTHERS_MAX: usize = 8;

impl WorkerCore {
    /// Gives a run up that could not be driven because of the store. It keeps its place for a moment: the store may answer again soon.
    pub(super) fn give_back(self: &Arc<Self>, held: Held, lease: &Arc<RunLease>, why: Unserved) {
        let (wait, leaving) = (self.jitter(REST.0), lease.take_leaving());
        let end = RunEnd::Trouble { error: why.error.clone(), wait };
        let (core, lease, run) = (Arc::clone(self), Arc::clone(lease), held.clone());
        let release = async move {
            let mut is_to_blame = false;
            let rest = core.runtime.sleep_until(core.runtime.now() + wait);
            let probe = async {
                is_to_blame = why.while_reading && core.can_read_another(&run.run).await;
                rest.await;
            };
            // A worker that is closing does not ask: the run is given up at once.
            either(Box::pin(core.closing()), Box::pin(probe)).await;
            if let Some(ReleaseWork { commit, .. }) = leaving {
                commit.await;
            }
            if lease.is_held()
                && let Err(error) = core.release_prevented(&run, is_to_blame.then_some(&why.error)).await
            {
                // Its lease will end.
                core.store_failed("release", &error, Duration::ZERO);
            }
        };
        self.settle(held, end, Some(Box::pin(release)));
    }

    /// `trouble` is what counts against the run.
    async fn release_prevented(&self, held: &Held, trouble: Option<&String>) -> Result<(), StoreError> {
        if let Some(error) = trouble {
            let left = self.release_troubled(held, error).await?;
            left.event(&held.run, error).iter().for_each(|event| self.tell(event));
            return Ok(());
        }
        let how = Release::LeftToOthers { rest: self.jitter(REST.0) };
        self.bounded(CALL_MAX, self.store.release(vec![held.clone()], how)).await?;
        Ok(())
    }

    /// Whether the store reads the last record of another run.
    async fn can_read_another(&self, run: &str) -> bool {
        let Ok(list) = self.bounded(CALL_MAX, self.store.list(Vec::new(), None, OTHERS_MAX)).await else { return false };
        for other in list.runs.iter().filter(|other| other.id != run) {
            let last = Rows::Each(vec![other.head]);
            if self.bounded(CALL_MAX, self.store.read(&other.id, last, Parts::Whole)).await.is_ok() {
                return true;
            }
        }
        false
    }

    /// Gives a run up that this worker is too old for. It rests in the store, so that newer workers find it, and nothing is counted.
    pub(super) fn leave_to_newer(self: &Arc<Self>, held: Held, lease: &Arc<RunLease>, reason: String) {
        let (core, lease) = (Arc::clone(self), Arc::clone(lease));
        self.runtime.spawn(Box::pin(async move {
            if let Some(ReleaseWork { commit, .. }) = lease.take_leaving() {
                commit.await;
            }
            let (wait, follows) = match core.release_to_newer(&held, &lease).await {
                Ok(rest) => (rest, Some(WorkerEvent::LeftToNewer { run: held.run.clone(), reason: reason.clone(), rest })),
                Err(error) => {
                    // Its lease will end.
                    core.store_failed("release", &error, Duration::ZERO);
                    (core.settings.lease, None)
                }
            };
            tracing::warn!(run = %held.run, %reason, rest = ?wait, "this worker is too old for the run and leaves it to newer ones");
            core.tell(&WorkerEvent::Ended { run: held.run.clone(), end: RunEnd::Trouble { error: reason, wait } });
            follows.iter().for_each(|event| core.tell(event));
            core.let_go(&held);
        }));
    }

    /// How long the run rests: as long as it has gone without a commit, within bounds. So the rests grow without anything being counted.
    async fn release_to_newer(&self, held: &Held, lease: &RunLease) -> Result<Duration, StoreError> {
        let changed = self.bounded(CALL_MAX, self.store.head(&held.run)).await?.changed;
        let rest = self.jitter(lease.clock.now().since(changed).clamp(REST.0, REST_TOO_NEW_MAX));
        let how = Release::LeftToOthers { rest };
        self.bounded(CALL_MAX, self.store.release(vec![held.clone()], how)).await?;
        Ok(rest)
    }
}
