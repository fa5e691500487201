//! Suspects: runs that were taken over several times without a commit. Such a run may crash its
//! process each time.
//!
//! 1. A worker drives one suspect at a time, until it commits, ends, or was driven for the duration
//!    of a lease. The others are released before it starts: they have no owner if the process dies,
//!    so no takeover is counted for them.
//! 2. Other runs are driven beside it. If the process dies, they are taken over and at worst become
//!    suspects.

use crate::lease::{LEASE_PARTS, Moment};
use crate::store::{Claim, Held, Release};
use crate::worker::core::WorkerCore;
use pleach_core::Instant;
use std::sync::Arc;
use std::time::Duration;

/// The number of takeovers without a commit that makes a run a suspect.
const SUSPECT_AT: u32 = 2;

/// How long a released suspect is delayed.
const SUSPECT_DELAY: Duration = Duration::from_secs(1);

/// The suspect that the worker drives.
#[derive(Clone)]
pub(super) struct Suspect {
    pub(super) held: Held,
    since: Instant,
}

/// Claimed suspects that are not driven yet. Dropping it releases them, so that no lease stays
/// behind.
#[must_use]
pub(super) struct Suspects {
    core: Arc<WorkerCore>,
    claims: Vec<Claim>,
}

impl Suspects {
    /// Drives the first suspect, unless the worker already drives one. Releases the others first.
    pub(super) async fn drive_one(mut self, asked_at: Moment) {
        if self.claims.is_empty() {
            return;
        }
        let driven = usize::from(!self.core.drives_a_suspect().await);
        let others_held = self.held().split_off(driven);
        if !others_held.is_empty() {
            self.core.release_suspects(others_held).await;
        }
        let mut claims = std::mem::take(&mut self.claims);
        claims.truncate(driven);
        for claim in claims {
            self.core.set_suspect(Suspect { held: Held::of(&claim.run), since: self.core.runtime.now() });
            self.core.take(claim, asked_at);
        }
    }

    fn held(&self) -> Vec<Held> {
        self.claims.iter().map(|claim| Held::of(&claim.run)).collect()
    }
}

impl Drop for Suspects {
    fn drop(&mut self) {
        let held = self.held();
        if !held.is_empty() {
            let core = Arc::clone(&self.core);
            self.core.runtime.spawn(Box::pin(async move { core.release_suspects(held).await }));
        }
    }
}

impl WorkerCore {
    /// Drives all claims that are not suspects, and returns the suspects.
    pub(super) fn take_all_but_suspects(self: &Arc<Self>, claims: Vec<Claim>, asked_at: Moment) -> Suspects {
        let (suspects, others): (Vec<_>, Vec<_>) = claims.into_iter().partition(|claim| claim.run.takeovers >= SUSPECT_AT);
        let suspects = Suspects { core: Arc::clone(self), claims: suspects };
        others.into_iter().for_each(|claim| self.take(claim, asked_at));
        suspects
    }

    /// Releases suspects with a short delay.
    async fn release_suspects(&self, suspects: Vec<Held>) {
        let how = Release::ForOthers { delay: self.jitter(SUSPECT_DELAY) };
        if let Err(error) = self.bounded(self.settings.lease / LEASE_PARTS, self.store.release(suspects, how)).await {
            // Their leases will expire.
            self.store_failed("release", &error, Duration::ZERO);
        }
    }

    /// Returns whether a suspect is held that has not committed and was not driven for a full
    /// lease.
    async fn drives_a_suspect(&self) -> bool {
        let Some(Suspect { held, since }) = self.suspect() else { return false };
        if self.runtime.now().since(since) >= self.settings.lease {
            return false;
        }
        // A commit resets the count.
        match self.bounded(self.settings.lease / LEASE_PARTS, self.store.head(&held.run)).await {
            Ok(info) => info.epoch == held.epoch && info.takeovers >= SUSPECT_AT,
            Err(_) => true,
        }
    }
}
