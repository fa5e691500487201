//! [`Samplers`]: the rate samplers of an inspection socket, one for each path that clients ask for,
//! shared by all connections.
//!
//! A sampler works only during a request, at most once in [`PASS_EVERY`], and less often if a pass
//! takes long: it rests for [`REST_PER_COST`] times as long. One connection makes the pass; others
//! that ask meanwhile get the rates of the pass before.

use crate::inspect::{RateSampler, Rates};
use pleach_core::{ActorPath, AnyRef, Instant, Runtime};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many paths have a sampler at the same time. The one that was used longest ago is dropped.
const SAMPLERS_MAX: usize = 16;

/// The shortest time between two passes over the same subtree.
const PASS_EVERY: Duration = Duration::from_millis(500);

/// How many times as long as a pass took no other one begins, and how long at most.
const REST_PER_COST: u32 = 100;
const REST_MAX: Duration = Duration::from_secs(5);

/// How many members a pass visits before it lets other tasks run.
const MEMBERS_PER_STEP: usize = 1_000;

#[derive(Default)]
pub(super) struct Samplers(Mutex<BTreeMap<(ActorPath, u64), Entry>>);

struct Entry {
    /// `None` while a connection makes a pass with it.
    sampler: Option<Box<RateSampler>>,
    rates: Rates,
    used_at: Instant,
    /// How long after `used_at` the next pass may begin.
    rest: Duration,
}

impl Samplers {
    /// Takes the sampler of a member, after a pass if one is due. `None` if another connection
    /// makes a pass now.
    pub(super) async fn sampled(&self, member: &AnyRef, runtime: &dyn Runtime) -> Option<BorrowedSampler<'_>> {
        let (key, begun) = ((member.path(), member.id().get()), runtime.now());
        let (sampler, is_due) = self.take(&key, member, begun)?;
        let mut borrowed = BorrowedSampler { samplers: self, key, sampler: Some(sampler), took: None };
        if is_due {
            while !borrowed.sampler.as_mut().is_none_or(|sampler| sampler.advance(MEMBERS_PER_STEP)) {
                tokio::task::yield_now().await;
            }
            borrowed.took = Some(runtime.now().since(begun));
        }
        Some(borrowed)
    }

    /// Returns the rates of a member as they are known.
    pub(super) fn known(&self, member: &AnyRef) -> Rates {
        let key = (member.path(), member.id().get());
        self.entries().get(&key).map_or_else(Rates::default, |entry| entry.rates)
    }

    fn take(&self, key: &(ActorPath, u64), member: &AnyRef, now: Instant) -> Option<(Box<RateSampler>, bool)> {
        let mut entries = self.entries();
        if let Some(entry) = entries.get_mut(key) {
            let is_due = now.since(entry.used_at) >= entry.rest;
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
        let entry = Entry { sampler: None, rates: Rates::default(), used_at: now, rest: PASS_EVERY };
        entries.insert(key.clone(), entry);
        Some((Box::new(RateSampler::new(member.clone())), true))
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<(ActorPath, u64), Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn rest_after(pass: Duration) -> Duration {
    (pass * REST_PER_COST).clamp(PASS_EVERY, REST_MAX)
}

/// A sampler in use. Dropping it puts it back.
pub(super) struct BorrowedSampler<'a> {
    samplers: &'a Samplers,
    key: (ActorPath, u64),
    sampler: Option<Box<RateSampler>>,
    /// How long the pass took, if one was made.
    took: Option<Duration>,
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
            entry.rest = self.took.map_or(entry.rest, rest_after);
            entry.sampler = Some(sampler);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o1_after_a_long_pass_a_sampler_rests_for_long() {
        assert_eq!(rest_after(Duration::from_millis(1)), PASS_EVERY);
        assert_eq!(rest_after(Duration::from_millis(20)), Duration::from_secs(2));
        assert_eq!(rest_after(Duration::from_secs(1)), REST_MAX);
    }
}
