//! [`Wakers`]: the wakers of all tasks that wait for one event.
//!
//! Invariants:
//! 1. A dropped waiter removes its waker.
//! 2. One waiter needs no allocation.
//! 3. A waker is user code. It is cloned, woken and dropped outside of locks, and a panic in it
//!    stays contained.

use crate::base::catch;
use alloc::boxed::Box;
use core::task::Waker;
use slab::Slab;

/// The wakers of the tasks that wait for one event. Each future keeps the key of its waker.
///
/// Taking all wakers starts a new generation. A future with a key of an earlier generation is
/// registered again.
#[derive(Default)]
pub(crate) struct Wakers {
    first: Option<Waker>,
    /// Boxed, because most events have at most one waiter.
    rest: Option<Box<Slab<Waker>>>,
    generation: u32,
}

/// Where a waiter is registered; `None` while it is not.
pub(crate) type WakerKey = Option<Registration>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Registration {
    generation: u32,
    /// `None` means the inline waker `first`, which needs no allocation.
    at: Option<u32>,
}

impl Wakers {
    /// Stores a waker under `key`, or under a new key if `key` is `None` or outdated.
    pub(crate) fn register(&mut self, key: &mut WakerKey, waker: &mut ClonedWaker) {
        if let Some(known) = key.and_then(|registration| self.get_mut(registration)) {
            return waker.replace(known);
        }
        let Some(waker) = waker.0.take() else { return };
        let at = match &mut self.first {
            Some(_) => Some(self.rest.get_or_insert_default().insert(waker) as u32),
            none => {
                *none = Some(waker);
                None
            }
        };
        *key = Some(Registration { generation: self.generation, at });
    }

    fn get_mut(&mut self, registration: Registration) -> Option<&mut Waker> {
        match registration.at {
            _ if registration.generation != self.generation => None,
            None => self.first.as_mut(),
            Some(at) => self.rest.as_mut()?.get_mut(at as usize),
        }
    }

    /// Removes a waiter and returns its waker, which the caller drops outside of its lock.
    pub(crate) fn remove(&mut self, key: &mut WakerKey) -> Option<Waker> {
        match key.take()? {
            registration if registration.generation != self.generation => None,
            Registration { at: None, .. } => self.first.take(),
            Registration { at: Some(at), .. } => self.rest.as_mut()?.try_remove(at as usize),
        }
    }

    /// Takes all wakers, which the caller wakes outside of its lock.
    #[inline]
    pub(crate) fn take(&mut self) -> TakenWakers {
        if self.first.is_none() && self.rest.is_none() {
            return None;
        }
        self.generation = self.generation.wrapping_add(1);
        Some((self.first.take(), self.rest.take()))
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.rest.as_ref().map_or(0, |rest| rest.len()) + usize::from(self.first.is_some())
    }
}

/// A waker that was cloned before a lock is taken, on its way into or out of a field behind that
/// lock.
///
/// A waker is user code: cloning and dropping it may panic. The clone is made before the lock is
/// taken. The waker that is left over is dropped after the lock is released, and its panic is
/// contained.
pub(crate) struct ClonedWaker(Option<Waker>);

impl ClonedWaker {
    /// Clones `waker`. The caller must hold no lock; a panic of the clone reaches the caller.
    #[inline]
    pub(crate) fn of(waker: &Waker) -> Self {
        Self(Some(waker.clone()))
    }

    /// Stores the waker in `slot` and keeps the one that was there before.
    pub(crate) fn put(&mut self, slot: &mut Option<Waker>) {
        match slot {
            Some(known) => self.replace(known),
            none => *none = self.0.take(),
        }
    }

    fn replace(&mut self, known: &mut Waker) {
        if let Some(waker) = &mut self.0
            && !known.will_wake(waker)
        {
            core::mem::swap(known, waker);
        }
    }
}

impl Drop for ClonedWaker {
    #[inline]
    fn drop(&mut self) {
        if self.0.is_some() {
            discard(self.0.take());
        }
    }
}

/// All wakers of a [`Wakers`], or `None` if no task was waiting.
pub(crate) type TakenWakers = Option<Waiters>;

/// The inline waker and the others.
pub(crate) type Waiters = (Option<Waker>, Option<Box<Slab<Waker>>>);

/// Wakes all of them. A panic in one waker does not affect the others.
#[inline]
pub(crate) fn wake_all(waiting: TakenWakers) {
    if let Some(waiters) = waiting {
        wake_waiters(waiters);
    }
}

#[inline(never)]
fn wake_waiters((first, rest): Waiters) {
    wake_each(first);
    if let Some(rest) = rest {
        wake_each(rest.into_iter().map(|(_, waker)| waker));
    }
}

/// Wakes each waker. The caller must hold no lock. A panic in one waker does not affect the others.
#[inline]
pub(crate) fn wake_each(wakers: impl IntoIterator<Item = Waker>) {
    wakers.into_iter().for_each(|waker| drop(catch::catch(|| waker.wake())));
}

/// Drops wakers that are no longer needed. The caller must hold no lock. A panic in one waker does
/// not affect the others.
#[inline]
pub(crate) fn discard(wakers: impl IntoIterator<Item = Waker>) {
    wakers.into_iter().for_each(|waker| drop(catch::catch(|| drop(waker))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_an_earlier_generation_removes_no_other_waker() {
        let noop = || ClonedWaker::of(Waker::noop());
        let mut wakers = Wakers::default();
        let (mut early, mut late) = (None, None);
        wakers.register(&mut early, &mut noop());
        drop(wakers.take());
        wakers.register(&mut late, &mut noop());
        assert!(wakers.remove(&mut early).is_none());
        assert_eq!(wakers.len(), 1);
        wakers.register(&mut early, &mut noop());
        assert_eq!(wakers.len(), 2);
        assert!(wakers.remove(&mut late).is_some() && wakers.remove(&mut early).is_some());
        assert_eq!(wakers.len(), 0);
    }
}
