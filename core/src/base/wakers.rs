//! `Wakers`: the tasks that wait for one thing. A waiter that is dropped leaves nothing behind, and a single one costs no allocation.

use crate::base::catch;
use alloc::boxed::Box;
use core::task::Waker;
use slab::Slab;

/// The tasks waiting for one event, each under a key that its future keeps.
///
/// Taking all waiters begins a new generation. A future that comes back with a key of an earlier one is registered anew.
#[derive(Default)]
pub(crate) struct Wakers {
    first: Option<Waker>,
    /// Boxed, because most things have one waiter at most.
    rest: Option<Box<Slab<Waker>>>,
    generation: u32,
}

/// Where a waiter is registered: `None` while it is not.
pub(crate) type Key = Option<Place>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    generation: u32,
    /// `None` is the first place, which needs no allocation.
    at: Option<u32>,
}

impl Wakers {
    /// Puts a waker under `key`, or under a new key if there is none yet.
    pub(crate) fn register(&mut self, key: &mut Key, waker: &mut Spare) {
        if let Some(known) = key.and_then(|place| self.get_mut(place)) {
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
        *key = Some(Place { generation: self.generation, at });
    }

    fn get_mut(&mut self, place: Place) -> Option<&mut Waker> {
        match place.at {
            _ if place.generation != self.generation => None,
            None => self.first.as_mut(),
            Some(at) => self.rest.as_mut()?.get_mut(at as usize),
        }
    }

    /// Forgets a waiter. Gives back its waker, for the caller to drop outside its lock.
    pub(crate) fn remove(&mut self, key: &mut Key) -> Option<Waker> {
        match key.take()? {
            place if place.generation != self.generation => None,
            Place { at: None, .. } => self.first.take(),
            Place { at: Some(at), .. } => self.rest.as_mut()?.try_remove(at as usize),
        }
    }

    /// Takes all waiters, for the caller to wake outside its lock.
    #[inline]
    pub(crate) fn take(&mut self) -> Taken {
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

/// A waker on its way into a place behind a lock, or out of it. A waker is a user's: this one is cloned before the lock is taken, and
/// whichever is left over is dropped after that, where a panic harms nobody.
pub(crate) struct Spare(Option<Waker>);

impl Spare {
    /// A clone, made by a caller that holds no lock. One that panics is the panic of whoever is polled.
    #[inline]
    pub(crate) fn of(waker: &Waker) -> Self {
        Self(Some(waker.clone()))
    }

    /// Puts it into a place, and holds the one that was there.
    pub(crate) fn put(&mut self, place: &mut Option<Waker>) {
        match place {
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

impl Drop for Spare {
    #[inline]
    fn drop(&mut self) {
        if self.0.is_some() {
            discard(self.0.take());
        }
    }
}

/// Those that were waiting, if there were any.
pub(crate) type Taken = Option<Waiters>;

/// The first, and the others.
pub(crate) type Waiters = (Option<Waker>, Option<Box<Slab<Waker>>>);

/// Wakes all of them. One that panics harms nobody else.
#[inline]
pub(crate) fn wake_all(waiting: Taken) {
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

/// Wakes each of them, for a caller that holds no lock. One that panics harms nobody else.
#[inline]
pub(crate) fn wake_each(wakers: impl IntoIterator<Item = Waker>) {
    wakers.into_iter().for_each(|waker| drop(catch::catch(|| waker.wake())));
}

/// Drops wakers that are needed no more, for a caller that holds no lock. One that panics harms nobody else.
#[inline]
pub(crate) fn discard(wakers: impl IntoIterator<Item = Waker>) {
    wakers.into_iter().for_each(|waker| drop(catch::catch(|| drop(waker))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_an_earlier_generation_touches_nobody_else() {
        let noop = || Spare::of(Waker::noop());
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
