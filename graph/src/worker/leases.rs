//! Background tasks of a worker: lease renewal and removal of runs that ended long ago.

use crate::lease::{LEASE_PARTS, Moment};
use crate::store::{Held, Prune, Renewed};
use crate::util::future::either;
use crate::worker::claims::RETRY_WAIT;
use crate::worker::core::{CALL_MAX, WorkerCore};
use crate::worker::event::WorkerEvent;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// The time between two removals of ended runs, and before the first one.
const PRUNE_EVERY: Duration = Duration::from_secs(60 * 60);
const PRUNE_FIRST: Duration = Duration::from_secs(60);

/// The most runs that one call removes.
const PRUNED_MAX: usize = 256;

/// Renews the leases of all held runs until the worker is closing and holds none.
pub(super) async fn renew_leases(core: Arc<WorkerCore>) {
    let part = core.settings.lease / LEASE_PARTS;
    let renewing = async {
        let (mut wait, mut failures) = (part, 0);
        loop {
            either(Box::pin(core.sleep(wait)), Box::pin(core.renewal_wanted())).await;
            wait = renew(&core, part, &mut failures).await;
        }
    };
    either(Box::pin(renewing), Box::pin(core.all_ended())).await;
}

/// Renews all leases in one call. Returns the wait until the next renewal.
async fn renew(core: &WorkerCore, part: Duration, failures: &mut u32) -> Duration {
    let held = core.held_to_renew();
    if held.is_empty() {
        return part;
    }
    let asked_at = Moment::now(&*core.runtime);
    let all = held.iter().map(|(held, _)| held.clone()).collect();
    // The last renewal is one part old and the run stops after three: two parts remain.
    match core.bounded(part * 2, core.store.renew(all, core.settings.lease)).await {
        Ok(Renewed { lost, busy, now }) => {
            core.store_answered();
            *failures = 0;
            let wait = if busy.is_empty() { part } else { part / LEASE_PARTS };
            let (lost, busy): (HashSet<Held>, HashSet<Held>) = (lost.into_iter().collect(), busy.into_iter().collect());
            for (held, lease) in held {
                if lost.contains(&held) {
                    lease.lost();
                } else if busy.contains(&held) {
                    lease.busy();
                } else {
                    lease.renewed(asked_at, now);
                }
            }
            wait.saturating_sub(core.runtime.now().since(asked_at.at))
        }
        Err(error) => {
            *failures += 1;
            let wait = core.backoff(RETRY_WAIT, *failures).min(part);
            core.store_failed("renew", &error, wait);
            held.iter().for_each(|(_, lease)| lease.failed(error.clone()));
            wait
        }
    }
}

/// Removes ended runs periodically until the worker is closing.
pub(super) async fn prune_runs(core: Arc<WorkerCore>) {
    let pruning = async {
        core.sleep(core.jitter(PRUNE_FIRST)).await;
        loop {
            let wait = prune(&core).await;
            core.sleep(core.jitter(wait)).await;
        }
    };
    either(Box::pin(pruning), Box::pin(core.closing())).await;
}

/// Removes one batch of ended runs. Returns the wait until the next batch.
async fn prune(core: &WorkerCore) -> Duration {
    let ended = Prune::Ended { unchanged_for: core.settings.ended_kept, count: PRUNED_MAX };
    match core.bounded(CALL_MAX, core.store.prune(ended)).await {
        Ok(0) => PRUNE_EVERY,
        Ok(runs) => {
            core.report(&WorkerEvent::Pruned { runs });
            if runs < PRUNED_MAX as u64 { PRUNE_EVERY } else { RETRY_WAIT.0 }
        }
        Err(error) => {
            core.store_failed("prune", &error, PRUNE_FIRST);
            PRUNE_FIRST
        }
    }
}
