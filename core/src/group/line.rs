//! `Line` and `Wakes`: who waits for their turn, in the order they came, and whom to wake once the lock is released.

use crate::catch;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::task::Waker;

/// A place in a line: `None` while its future stands in none.
pub(super) type Place = Option<u64>;

/// A line in which the first is served first. What somebody was served (`G`) is kept for it until it comes for it, or leaves.
///
/// Places count up and are served in that order, so both queues are sorted by place.
pub(super) struct Line<G> {
    waiting: VecDeque<(u64, Waker)>,
    served: VecDeque<(u64, G)>,
    last: u64,
}

impl<G> Line<G> {
    pub(super) fn new() -> Self {
        Self { waiting: VecDeque::new(), served: VecDeque::new(), last: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many were served and have not come yet.
    pub(super) fn served(&self) -> usize {
        self.served.len()
    }

    /// Joins at the end, or stays where it stands. Gives back the waker it replaced, for the caller to drop outside its lock.
    pub(super) fn join(&mut self, place: &mut Place, waker: &Waker) -> Option<Waker> {
        let known = place.and_then(|place| self.waiting.binary_search_by_key(&place, |(known, _)| *known).ok());
        match known.map(|at| &mut self.waiting[at].1) {
            Some(known) if known.will_wake(waker) => None,
            Some(known) => Some(core::mem::replace(known, waker.clone())),
            None => {
                self.last += 1;
                *place = Some(self.last);
                self.waiting.push_back((self.last, waker.clone()));
                None
            }
        }
    }

    /// Serves the first in line. With nobody there what was to be served comes back.
    pub(super) fn serve(&mut self, gift: G) -> Result<Waker, G> {
        let Some((place, waker)) = self.waiting.pop_front() else { return Err(gift) };
        self.served.push_back((place, gift));
        Ok(waker)
    }

    /// What was served at `place`, which is given up with it.
    pub(super) fn take(&mut self, place: &mut Place) -> Option<G> {
        let at = self.served.binary_search_by_key(&(*place)?, |(served, _)| *served).ok()?;
        *place = None;
        self.served.remove(at).map(|(_, gift)| gift)
    }

    /// Gives up a place: what was served there, and the waker, for the caller to drop outside its lock.
    pub(super) fn leave(&mut self, place: &mut Place) -> (Option<G>, Option<Waker>) {
        let gift = self.take(place);
        let Some(place) = place.take() else { return (gift, None) };
        let at = self.waiting.binary_search_by_key(&place, |(known, _)| *known);
        (gift, at.ok().and_then(|at| self.waiting.remove(at)).map(|(_, waker)| waker))
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = &Waker> {
        self.waiting.iter().map(|(_, waker)| waker)
    }

    /// Sends everybody home who has not been served.
    pub(super) fn dismiss(&mut self, wakes: &mut Wakes) {
        self.waiting.drain(..).for_each(|(_, waker)| wakes.push(waker));
    }
}

/// Whom to wake outside the lock. Two need no allocation, and there are seldom more.
#[derive(Default)]
#[must_use = "whoever is not woken sleeps for good"]
pub(super) struct Wakes {
    first: Option<Waker>,
    second: Option<Waker>,
    rest: Vec<Waker>,
}

impl Wakes {
    pub(super) fn push(&mut self, waker: Waker) {
        match (&self.first, &self.second) {
            (None, _) => self.first = Some(waker),
            (_, None) => self.second = Some(waker),
            _ => self.rest.push(waker),
        }
    }

    /// Wakes all of them. One that panics harms nobody else.
    #[inline]
    pub(super) fn wake(self) {
        let all = self.first.into_iter().chain(self.second).chain(self.rest);
        all.for_each(|waker| drop(catch::catch(|| waker.wake())));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_served_first_and_one_who_leaves_gives_back() {
        let mut line = Line::new();
        let (mut a, mut b) = (None, None);
        line.join(&mut a, Waker::noop());
        line.join(&mut b, Waker::noop());
        assert!(line.serve('x').is_ok() && line.serve('y').is_ok());
        assert_eq!(line.serve('z').err(), Some('z'));
        assert_eq!(line.take(&mut b), Some('y'));
        assert_eq!(line.leave(&mut a).0, Some('x'));
        assert_eq!((line.served(), line.is_empty(), a, b), (0, true, None, None));
    }

    #[test]
    fn a_place_is_kept_until_it_is_left() {
        let mut line = Line::<()>::new();
        let (mut a, mut b) = (None, None);
        line.join(&mut a, Waker::noop());
        line.join(&mut b, Waker::noop());
        line.join(&mut a, Waker::noop());
        assert_eq!((a, b), (Some(1), Some(2)));
        assert!(line.leave(&mut a).1.is_some());
        assert!(line.serve(()).is_ok() && line.serve(()).is_err());
        assert!(line.take(&mut b).is_some());
    }
}
