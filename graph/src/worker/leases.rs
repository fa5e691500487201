//! What a worker does for the runs it holds, and for the store: it renews all leases at once, and removes runs that ended long ago.

use crate::lease::{LEASE_PARTS, Moment};
use crate::store::{Held, Prune, Renewed};
use crate::util::future::either;
use crate::worker::claim_loop::{CALL_MAX, WorkerCore};
use crate::worker::claims::ASK_AGAIN;
use crate::worker::event::WorkerEvent;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// How often runs that have ended are pruned, and how soon for the first time.
const PRUNE_EVERY: Duration = Duration::from_secs(60 * 60);
const PRUNE_FIRST: Duration = Duration::from_secs(60);

/// How many runs are removed at once.
const PRUNED_MAX: usize = 256;

/// Renews the leases of all runs until the worker is closing and holds none.
pub(super) async fn renew_leases(shift: Arc<WorkerCore>) {
    let part = shift.settings.lease / LEASE_PARTS;
    let renewing = async {
        let (mut wait, mut failures) = (part, 0);
        loop {
            either(Box::pin(shift.sleep(wait)), Box::pin(shift.renewal_wanted())).await;
            wait = renew(&shift, part, &mut failures).await;
        }
    };
    either(Box::pin(renewing), Box::pin(shift.all_ended())).await;
}

/// Renews all leases. Returns the wait until the next time.
async fn renew(shift: &WorkerCore, part: Duration, failures: &mut u32) -> Duration {
    let held = shift.held_to_renew();
    if held.is_empty() {
        return part;
    }
    let asked_at = Moment::now(&*shift.runtime);
    let all = held.iter().map(|(held, _)| held.clone()).collect();
    // A lease that is renewed after one part is good for two more, until its run stops.
    match shift.bounded(part * 2, shift.store.renew(all, shift.settings.lease)).await {
        Ok(Renewed { lost, busy, now }) => {
            shift.store_answered();
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
            wait.saturating_sub(shift.runtime.now().since(asked_at.at))
        }
        Err(error) => {
            *failures += 1;
            let wait = shift.backoff(ASK_AGAIN, *failures).min(part);
            shift.store_failed("renew", &error, wait);
            held.iter().for_each(|(_, lease)| lease.failed(error.clone()));
            wait
        }
    }
}

/// Removes runs that ended long ago, now and then, until the worker is closing.
pub(super) async fn prune_runs(shift: Arc<WorkerCore>) {
    let pruning = async {
        shift.sleep(shift.jitter(PRUNE_FIRST)).await;
        loop {
            let wait = prune(&shift).await;
            shift.sleep(shift.jitter(wait)).await;
        }
    };
    either(Box::pin(pruning), Box::pin(shift.closing())).await;
}

/// Removes some. How long until there may be more.
async fn prune(shift: &WorkerCore) -> Duration {
    let ended = Prune::Ended { unchanged_for: shift.settings.ended_kept, count: PRUNED_MAX };
    match shift.bounded(CALL_MAX, shift.store.prune(ended)).await {
        Ok(0) => PRUNE_EVERY,
        Ok(runs) => {
            shift.tell(&WorkerEvent::Pruned { runs });
            if runs < PRUNED_MAX as u64 { PRUNE_EVERY } else { ASK_AGAIN.0 }
        }
        Err(error) => {
            shift.store_failed("prune", &error, PRUNE_FIRST);
            PRUNE_FIRST
        }
    }
}
