//! Suspects: runs that were taken over several times without a commit. One of them may kill its process each time.
//!
//! 1. A worker drives one suspect at a time, until it commits, ends, or was driven for the length of a lease. The others are given up before it begins: they
//!    have no owner when the process dies, so nothing is counted against them.
//! 2. Runs that are no suspects are driven beside it. If the process dies, they are taken over, and become suspects at most.

use super::shift::Shift;
use crate::journal::keeper::LEASE_PARTS;
use crate::store::{Claim, Held, Release};
use pleach_core::Instant;
use std::time::Duration;

/// A run that was taken over so often is a suspect.
const SUSPECT_AT: u32 = 2;

/// How long suspects that were given up rest.
const SET_ASIDE: Duration = Duration::from_secs(1);

/// The suspect that is driven.
#[derive(Clone)]
pub(super) struct Suspect {
    pub(super) held: Held,
    since: Instant,
}

impl Shift {
    /// Of these claims, those that are to be driven now. Other suspects are given up.
    pub(super) async fn set_suspects_aside(&self, claims: Vec<Claim>) -> Vec<Claim> {
        let (suspects, mut driven): (Vec<_>, Vec<_>) = claims.into_iter().partition(|claim| claim.run.takeovers >= SUSPECT_AT);
        let mut suspects = suspects.into_iter();
        if suspects.len() > 0
            && !self.drives_a_suspect().await
            && let Some(first) = suspects.next()
        {
            let (held, since) = (Held::of(&first.run), self.runtime.now());
            self.set_suspect(Suspect { held, since });
            driven.push(first);
        }
        let aside: Vec<Held> = suspects.map(|claim| Held::of(&claim.run)).collect();
        if !aside.is_empty() {
            let how = Release::LeftToOthers { rest: self.jitter(SET_ASIDE) };
            if let Err(error) = self.bounded(self.settings.lease / LEASE_PARTS, self.store.release(aside, how)).await {
                // Their leases will end.
                self.store_failed("release", &error, Duration::ZERO);
            }
        }
        driven
    }

    /// Whether there is a suspect that is still held and has not committed, and not for too long.
    async fn drives_a_suspect(&self) -> bool {
        let Some(Suspect { held, since }) = self.suspect() else { return false };
        if self.runtime.now().since(since) >= self.settings.lease {
            return false;
        }
        // A commit sets the count back.
        match self.bounded(self.settings.lease / LEASE_PARTS, self.store.head(&held.run)).await {
            Ok(info) => info.epoch == held.epoch && info.takeovers >= SUSPECT_AT,
            Err(_) => true,
        }
    }
}
