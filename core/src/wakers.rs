//! `Wakers`: the tasks that wait for one thing. A waiter that is dropped leaves nothing behind, and a single one costs no allocation.

use crate::catch;
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
    /// Puts `waker` under `key`, or under a new key if there is none yet. Gives back the waker it replaced, for the caller to drop
    /// outside its lock.
    pub(crate) fn register(&mut self, key: &mut Key, waker: &Waker) -> Option<Waker> {
        match key.and_then(|place| self.get_mut(place)) {
            Some(known) if known.will_wake(waker) => None,
            Some(known) => Some(core::mem::replace(known, waker.clone())),
            None => {
                let at = match &mut self.first {
                    Some(_) => Some(self.rest.get_or_insert_default().insert(waker.clone()) as u32),
                    none => {
                        *none = Some(waker.clone());
                        None
                    }
                };
                *key = Some(Place { generation: self.generation, at });
                None
            }
        }
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

/// Those that were waiting, if there were any.
pub(crate) type Taken = Option<Waiters>;

/// The first, and the others.
pub(crate) type Waiters = (Option<Waker>, Option<Box<Slab<Waker>>>);

/// Wakes all of them. One that panics harms nobody else.
#[inline]
pub(crate) fn wake_all(waiting: Taken) {
    if let Some(waiters) = waiting {
        wake_each(waiters);
    }
}

#[inline(never)]
fn wake_each((first, rest): Waiters) {
    let wake = |waker: Waker| drop(catch::catch(|| waker.wake()));
    first.into_iter().for_each(wake);
    if let Some(rest) = rest {
        rest.into_iter().for_each(|(_, waker)| wake(waker));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_an_earlier_generation_touches_nobody_else() {
        let mut wakers = Wakers::default();
        let (mut early, mut late) = (None, None);
        wakers.register(&mut early, Waker::noop());
        drop(wakers.take());
        wakers.register(&mut late, Waker::noop());
        assert!(wakers.remove(&mut early).is_none());
        assert_eq!(wakers.len(), 1);
        wakers.register(&mut early, Waker::noop());
        assert_eq!(wakers.len(), 2);
        assert!(wakers.remove(&mut late).is_some() && wakers.remove(&mut early).is_some());
        assert_eq!(wakers.len(), 0);
    }
}
