//! `Routing`: chooses the worker of a pool for a message.
//!
//! It takes no lock and decides nothing else. The pool decides what happens at a full or ended
//! worker.
//!
//! Keys use *rendezvous* hashing: each worker's index is hashed together with the key, and the
//! largest hash wins. Removing a worker moves only its own keys. Adding one moves about 1/n of the
//! keys. The hash has no random seed, so a key has the same worker in every run.

use crate::actor::actor_ref::ActorRef;
use crate::base::hash::Fnv;
use crate::base::runtime::Random;
use crate::base::sync::{AtomicUsize, Ordering};
use crate::mailbox::control;
use crate::supervise::decide::RestartPolicy;
use alloc::boxed::Box;
use core::fmt;
use core::hash::{Hash, Hasher};

/// One worker: its index in the pool, which a replacement inherits, and its address.
pub(super) struct Worker<M: Send + 'static> {
    pub(super) index: usize,
    pub(super) actor: ActorRef<M>,
}

impl<M: Send + 'static> Clone for Worker<M> {
    fn clone(&self) -> Self {
        Self { index: self.index, actor: self.actor.clone() }
    }
}

impl<M: Send + 'static> Worker<M> {
    /// Returns whether its supervisor restarts it after it was closed or stopped through its
    /// address.
    pub(super) fn will_restart(&self) -> bool {
        let cell = self.actor.cell();
        let is_permanent = cell.node().policy() == RestartPolicy::Permanent;
        is_permanent && cell.mailbox().control_word() & control::FINAL == 0 && self.actor.exit().is_none()
    }
}

/// How a worker is chosen.
pub(super) enum Routing<M> {
    RoundRobin,
    LeastLoaded,
    ByKey(KeyHash<M>),
}

/// Returns the hash of a message's key.
pub(super) type KeyHash<M> = Box<dyn Fn(&M) -> u64 + Send + Sync>;

impl<M: Send + 'static> Routing<M> {
    pub(super) fn by_key<K: Hash>(key: impl Fn(&M) -> K + Send + Sync + 'static) -> Self {
        Self::ByKey(Box::new(move |message| {
            let mut hasher = Fnv::default();
            key(message).hash(&mut hasher);
            hasher.finish()
        }))
    }

    /// Chooses a worker for `message`; `None` if there are none. `turns` counts the choices made so
    /// far.
    pub(super) fn choose<'a>(&self, workers: &'a [Worker<M>], turns: &AtomicUsize, message: &M) -> Option<&'a Worker<M>> {
        match self {
            Self::RoundRobin => workers.get(turn(turns, workers.len())),
            Self::LeastLoaded => {
                // Equally loaded workers take turns, so that idle workers share the load.
                let (before, from) = workers.split_at(turn(turns, workers.len()));
                least(from.iter().chain(before), |worker| worker.actor.counts().open())
            }
            Self::ByKey(hash) => {
                let key = hash(message);
                workers.iter().max_by_key(|worker| weight(key, worker.index))
            }
        }
    }
}

/// Returns the first item with the smallest load. Stops at an item without load.
fn least<T>(items: impl Iterator<Item = T>, load: impl Fn(&T) -> u64) -> Option<T> {
    let mut best: Option<(u64, T)> = None;
    for item in items {
        let load = load(&item);
        if best.as_ref().is_none_or(|(least, _)| load < *least) {
            best = Some((load, item));
        }
        if load == 0 {
            break;
        }
    }
    best.map(|(_, item)| item)
}

fn turn(turns: &AtomicUsize, workers: usize) -> usize {
    turns.fetch_add(1, Ordering::Relaxed).checked_rem(workers).unwrap_or(0)
}

/// Returns the rendezvous hash of `key` and `index`: a pseudo-random number per pair.
fn weight(key: u64, index: usize) -> u64 {
    Random::seeded(key ^ Random::seeded(index as u64).next_u64()).next_u64()
}

impl<M> fmt::Debug for Routing<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RoundRobin => "RoundRobin",
            Self::LeastLoaded => "LeastLoaded",
            Self::ByKey(_) => "ByKey",
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::vec;
    use alloc::vec::Vec;

    const KEYS: usize = 10_000;

    fn hash_of(key: impl Hash) -> u64 {
        let mut hasher = Fnv::default();
        key.hash(&mut hasher);
        hasher.finish()
    }

    fn owners(indices: &[usize]) -> Vec<usize> {
        let owner = |key: usize| *indices.iter().max_by_key(|index| weight(hash_of(key), **index)).unwrap();
        (0..KEYS).map(owner).collect()
    }

    #[test]
    fn a13_keys_are_spread_evenly_over_the_workers() {
        for size in [2, 3, 8, 50] {
            let mut shares = vec![0usize; size];
            owners(&(0..size).collect::<Vec<_>>()).into_iter().for_each(|index| shares[index] += 1);
            let fair = KEYS / size;
            // Six standard deviations of a fair draw, about sqrt(fair) each.
            let slack = 6 * fair.isqrt();
            assert!(shares.iter().all(|share| share.abs_diff(fair) < slack), "{size}: {shares:?}");
        }
    }

    #[test]
    fn a13_string_keys_are_spread_evenly() {
        let mut shares = [0; 4];
        for user in 0..KEYS {
            let key = hash_of(format!("user-{user}"));
            shares[(0..4).max_by_key(|index| weight(key, *index)).unwrap()] += 1;
        }
        assert!(shares.iter().all(|share: &usize| share.abs_diff(KEYS / 4) < 300), "{shares:?}");
    }

    #[test]
    fn a13_a_new_worker_takes_its_share_and_no_other_key_moves() {
        for size in [1, 2, 4, 9, 31] {
            let (before, after) = (owners(&(0..size).collect::<Vec<_>>()), owners(&(0..=size).collect::<Vec<_>>()));
            let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
            assert!(
                before.iter().zip(&after).all(|(before, after)| before == after || *after == size),
                "keys move only to the new worker"
            );
            let share = KEYS / (size + 1);
            assert!(moved.abs_diff(share) < 6 * share.isqrt(), "{moved} of {KEYS} moved, a share is {share}");
        }
    }

    #[test]
    fn a13_a_removed_worker_moves_only_its_own_keys() {
        let (before, after) = (owners(&[0, 1, 2, 3]), owners(&[0, 2, 3]));
        assert!(before.iter().zip(&after).all(|(before, after)| before == after || *before == 1));
        assert!(after.iter().all(|index| *index != 1));
    }

    #[test]
    fn a13_the_first_of_the_least_loaded_workers_is_chosen() {
        let chosen = |loads: &[u64]| least(0..loads.len(), |at| loads[*at]);
        assert_eq!(chosen(&[]), None);
        assert_eq!(chosen(&[3, 1, 2, 1]), Some(1));
        assert_eq!(chosen(&[3, 0, 0]), Some(1));
        assert_eq!(chosen(&[5]), Some(0));
    }
}
