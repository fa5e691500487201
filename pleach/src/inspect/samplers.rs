//! [`Samplers`]: the rate samplers of an inspection socket, one for each path that clients ask for,
//! shared by all connections.
//!
//! A sampler works only during a request, at most once in [`PASS_EVERY`]. One connection makes the
//! pass; others that ask meanwhile get the rates of the pass before.

use crate::inspect::{RateSampler, Rates};
use pleach_core::{ActorPath, AnyRef, Instant};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many paths have a sampler at the same time. The one that was used longest ago is dropped.
const SAMPLERS_MAX: usize = 16;

/// The shortest time between two passes over the same subtree.
const PASS_EVERY: Duration = Duration::from_millis(500);

/// How many members a pass visits before it lets other tasks run.
const MEMBERS_PER_STEP: usize = 1_000;

#[derive(Default)]
pub(super) struct Samplers(Mutex<BTreeMap<(ActorPath, u64), Entry>>);

struct Entry {
    /// `None` while a connection makes a pass with it.
    sampler: Option<Box<RateSampler>>,
    rates: Rates,
    used_at: Instant,
}

impl Samplers {
    /// Takes the sampler of a member, after a pass if one is due. `None` if another connection
    /// makes a pass now.
    pub(super) async fn sampled(&self, member: &AnyRef, now: Instant) -> Option<BorrowedSampler<'_>> {
        let key = (member.path(), member.id().get());
        let (sampler, is_due) = self.take(&key, member, now)?;
        if is_due {
            let mut borrowed = BorrowedSampler { samplers: self, key, sampler: Some(sampler) };
            while !borrowed.sampler.as_mut().is_none_or(|sampler| sampler.advance(MEMBERS_PER_STEP)) {
                tokio::task::yield_now().await;
            }
            return Some(borrowed);
        }
        Some(BorrowedSampler { samplers: self, key, sampler: Some(sampler) })
    }

    /// Returns the rates of a member as they are known.
    pub(super) fn known(&self, member: &AnyRef) -> Rates {
        let key = (member.path(), member.id().get());
        self.entries().get(&key).map_or_else(Rates::default, |entry| entry.rates)
    }

    fn take(&self, key: &(ActorPath, u64), member: &AnyRef, now: Instant) -> Option<(Box<RateSampler>, bool)> {
        let mut entries = self.entries();
        if let Some(entry) = entries.get_mut(key) {
            let is_due = now.since(entry.used_at) >= PASS_EVERY;
            let sampler = entry.sampler.take()?;
            if is_due {
                entry.used_at = now;
            }
            return Some((sampler, is_due));
        }
        if entries.len() >= SAMPLERS_MAX {
            let oldest = entries.iter().min_by_key(|(_, entry)| entry.used_at).map(|(key, _)| key.clone());
            oldest.into_iter().for_each(|key| drop(entries.remove(&key)));
        }
        entries.insert(key.clone(), Entry { sampler: None, rates: Rates::default(), used_at: now });
        Some((Box::new(RateSampler::new(member.clone())), true))
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<(ActorPath, u64), Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A sampler in use. Dropping it puts it back.
pub(super) struct BorrowedSampler<'a> {
    samplers: &'a Samplers,
    key: (ActorPath, u64),
    sampler: Option<Box<RateSampler>>,
}

impl BorrowedSampler<'_> {
    pub(super) fn rates(&self) -> Rates {
        self.sampler.as_ref().map_or_else(Rates::default, |sampler| sampler.rates())
    }

    pub(super) fn rate_of(&self, id: u64) -> Option<(f64, f64)> {
        self.sampler.as_ref()?.rate_of(id)
    }
}

impl Drop for BorrowedSampler<'_> {
    fn drop(&mut self) {
        let Some(sampler) = self.sampler.take() else { return };
        let mut entries = self.samplers.entries();
        // Its entry may have been dropped meanwhile, for another path.
        if let Some(entry) = entries.get_mut(&self.key) {
            entry.rates = sampler.rates();
            entry.sampler = Some(sampler);
        }
    }
}
