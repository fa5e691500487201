//! What a worker does for the runs it holds, and for the store: it renews all leases at once, and removes runs that ended long ago.

use super::claims::ASK_AGAIN;
use super::event::WorkerEvent;
use super::shift::{CALL_MAX, Shift, either};
use crate::journal::keeper::LEASE_PARTS;
use crate::store::{Held, Prune, Renewed};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// How often runs that have ended are pruned, and how soon for the first time.
const PRUNE_EVERY: Duration = Duration::from_secs(60 * 60);
const PRUNE_FIRST: Duration = Duration::from_secs(60);

/// How many runs are removed at once.
const PRUNED_MAX: usize = 256;

/// Renews the leases of all runs until the worker is closing and holds none.
pub(super) async fn renew_leases(shift: Arc<Shift>) {
    let part = shift.settings.lease / LEASE_PARTS;
    let renewing = async {
        loop {
            shift.sleep(part).await;
            renew(&shift, part).await;
        }
    };
    either(Box::pin(renewing), Box::pin(shift.all_ended())).await;
}

async fn renew(shift: &Shift, part: Duration) {
    let held = shift.held();
    if held.is_empty() {
        return;
    }
    let asked_at = shift.runtime.now();
    let all = held.iter().map(|(held, _)| held.clone()).collect();
    match shift.bounded(part, shift.store.renew(all, shift.settings.lease)).await {
        Ok(Renewed { lost, busy }) => {
            shift.store_answered();
            let (lost, busy): (HashSet<Held>, HashSet<Held>) = (lost.into_iter().collect(), busy.into_iter().collect());
            for (held, lease) in held {
                if lost.contains(&held) {
                    lease.lost();
                } else if !busy.contains(&held) {
                    lease.renewed(asked_at + shift.settings.lease);
                }
            }
        }
        Err(error) => {
            shift.store_failed("renew", &error, part);
            held.iter().for_each(|(_, lease)| lease.failed(error.clone()));
        }
    }
}

/// Removes runs that ended long ago, now and then, until the worker is closing.
pub(super) async fn prune_runs(shift: Arc<Shift>) {
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
async fn prune(shift: &Shift) -> Duration {
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
