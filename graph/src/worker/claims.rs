//! The claim loop of a worker: claims as many ready runs as the limit has room for.

use crate::lease::{ClaimCall, Moment};
use crate::store::{Claim, Lease, StoreError, Wanted};
use crate::util::future::either;
use crate::worker::core::{CALL_MAX, WorkerCore};
use std::sync::Arc;
use std::time::Duration;

/// The first and the longest wait before a failed store call is retried.
pub(super) const RETRY_WAIT: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));

/// A claim waits for room for this part of the limit, but not longer than [`ROOM_WAIT`].
const ROOM_PARTS: usize = 4;
const ROOM_WAIT: Duration = Duration::from_millis(5);

/// The shortest time between a claim that returned less than the room and a claim after a hint.
const HINT_GAP: Duration = Duration::from_millis(20);

/// Claims runs until the worker is closing.
pub(super) async fn claim_runs(core: Arc<WorkerCore>) {
    let mut failures = 0;
    while core.room(1).await.is_some() {
        // Runs that end at about the same time share one claim instead of causing one each.
        let more = async {
            core.room(core.settings.limit.div_ceil(ROOM_PARTS)).await;
        };
        either(Box::pin(more), Box::pin(core.sleep(ROOM_WAIT))).await;
        let Some(room) = core.room(1).await else { return };
        let Some(claiming) = core.begin_claim() else { return };
        // Subscribed before the claim, so that no run that becomes ready meanwhile is missed.
        let hinted = core.store.hint();
        let wait = match claim(&core, room).await {
            Ok((claims, asked_at)) => {
                failures = 0;
                core.store_answered();
                let is_full = claims.len() >= room;
                let suspects = core.take_all_but_suspects(claims, asked_at);
                suspects.drive_one(asked_at).await;
                drop(claiming);
                if is_full {
                    continue;
                }
                core.jitter(core.settings.poll_every)
            }
            Err(error) => {
                drop(claiming);
                failures += 1;
                let wait = core.backoff(RETRY_WAIT, failures);
                core.store_failed("claim", &error, wait);
                wait
            }
        };
        let is_up = failures == 0;
        let hint = async {
            core.sleep(core.jitter(HINT_GAP)).await;
            if is_up { hinted.await } else { std::future::pending().await }
        };
        let wake = either(Box::pin(core.sleep(wait)), Box::pin(hint));
        either(Box::pin(wake), Box::pin(core.closing())).await;
    }
}

async fn claim(core: &WorkerCore, room: usize) -> Result<(Vec<Claim>, Moment), StoreError> {
    let graphs = core.graphs.iter().flat_map(|known| known.served()).collect();
    let lease = Lease { owner: core.next_owner(), length: core.settings.lease };
    let asked_at = Moment::now(&*core.runtime);
    let claiming = ClaimCall::claim(&core.store, &core.runtime, Wanted::Ready { graphs, count: room }, lease);
    let claims = core.bounded(CALL_MAX, Box::pin(claiming)).await?;
    Ok((claims, asked_at))
}
