//! `Wakers`: the tasks that wait for one thing. A waiter that is dropped leaves nothing behind.

use alloc::collections::BTreeMap;
use core::task::Waker;

/// The tasks waiting for one event, each under a key that its future keeps. Keys are never reused, so a future that was woken may
/// come back with its old key.
#[derive(Default)]
pub(crate) struct Wakers {
    waiting: BTreeMap<u64, Waker>,
    next_key: u64,
}

impl Wakers {
    /// Puts `waker` under `key`, or under a new key if there is none yet. Gives back the waker it replaced, for the caller to drop
    /// outside its lock.
    pub(crate) fn register(&mut self, key: &mut Option<u64>, waker: &Waker) -> Option<Waker> {
        let key = *key.get_or_insert_with(|| {
            self.next_key += 1;
            self.next_key
        });
        match self.waiting.get_mut(&key) {
            Some(known) if known.will_wake(waker) => None,
            Some(known) => Some(core::mem::replace(known, waker.clone())),
            None => self.waiting.insert(key, waker.clone()),
        }
    }

    /// Forgets a waiter. Gives back its waker, for the caller to drop outside its lock.
    pub(crate) fn remove(&mut self, key: &mut Option<u64>) -> Option<Waker> {
        key.take().and_then(|key| self.waiting.remove(&key))
    }

    /// Takes all waiters, for the caller to wake outside its lock.
    #[inline]
    pub(crate) fn take(&mut self) -> Taken {
        if self.waiting.is_empty() { None } else { Some(core::mem::take(&mut self.waiting)) }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// Those that were waiting, if there were any.
pub(crate) type Taken = Option<BTreeMap<u64, Waker>>;

/// Wakes all of them, in the order they came.
#[inline]
pub(crate) fn wake_all(waiting: Taken) {
    if let Some(waiting) = waiting {
        waiting.into_values().for_each(Waker::wake);
    }
}
