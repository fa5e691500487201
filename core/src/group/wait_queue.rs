//! `WaitQueue` and `WakeList`: who waits for their turn, in the order they came, and whom to wake once the lock is released.
//!
//! Both are used under the lock of a group, and wakers are a user's: they are moved in and out here, and cloned, woken and dropped outside.

use crate::base::wakers;
use crate::base::wakers::Spare;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::task::Waker;

/// A ticket in a queue: `None` while its future stands in none.
pub(super) type Ticket = Option<u64>;

/// A queue in which the first is served first. What somebody was served (`G`) is kept for it until it comes for it, or leaves.
///
/// Places count up and are served in that order, so both queues are sorted by ticket.
pub(super) struct WaitQueue<G> {
    /// Without a waker once that was used: whoever was woken comes back, and leaves another.
    waiting: VecDeque<(u64, Option<Waker>)>,
    served: VecDeque<(u64, G)>,
    last: u64,
}

impl<G> WaitQueue<G> {
    pub(super) fn new() -> Self {
        Self { waiting: VecDeque::new(), served: VecDeque::new(), last: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn is_served(&self, ticket: Ticket) -> bool {
        ticket.is_some_and(|ticket| self.served.binary_search_by_key(&ticket, |(served, _)| *served).is_ok())
    }

    pub(super) fn is_waiting(&self, ticket: u64) -> bool {
        self.waiting.binary_search_by_key(&ticket, |(known, _)| *known).is_ok()
    }

    /// How many were served and have not come yet.
    pub(super) fn served(&self) -> usize {
        self.served.len()
    }

    /// Joins at the end, or stays where it stands, if there is a waker to enqueue with.
    pub(super) fn enqueue(&mut self, ticket: &mut Ticket, waker: Option<&mut Spare>) {
        let Some(waker) = waker else { return };
        let known = ticket.and_then(|ticket| self.waiting.binary_search_by_key(&ticket, |(known, _)| *known).ok());
        match known {
            Some(at) => waker.put(&mut self.waiting[at].1),
            None => {
                self.last += 1;
                *ticket = Some(self.last);
                let mut new = None;
                waker.put(&mut new);
                self.waiting.push_back((self.last, new));
            }
        }
    }

    /// Serves the first in queue. With nobody there what was to be served comes back.
    pub(super) fn serve(&mut self, item: G) -> Result<Option<Waker>, G> {
        let Some((ticket, waker)) = self.waiting.pop_front() else { return Err(item) };
        self.served.push_back((ticket, item));
        Ok(waker)
    }

    /// What was served at `ticket`, which is given up with it.
    pub(super) fn take(&mut self, ticket: &mut Ticket) -> Option<G> {
        let at = self.served.binary_search_by_key(&(*ticket)?, |(served, _)| *served).ok()?;
        *ticket = None;
        self.served.remove(at).map(|(_, item)| item)
    }

    /// Gives up a ticket, and gives what was served there.
    pub(super) fn leave(&mut self, ticket: &mut Ticket, wakes: &mut WakeList) -> Option<G> {
        let item = self.take(ticket);
        if let Some(ticket) = ticket.take()
            && let Ok(at) = self.waiting.binary_search_by_key(&ticket, |(known, _)| *known)
        {
            self.waiting.remove(at).and_then(|(_, waker)| waker).into_iter().for_each(|waker| wakes.discard(waker));
        }
        item
    }

    /// WakeList everybody who waits. They keep their places.
    pub(super) fn wake_waiting(&mut self, wakes: &mut WakeList) {
        self.waiting.iter_mut().for_each(|(_, waker)| wakes.push(waker.take()));
    }

    /// Sends everybody home who has not been served.
    pub(super) fn wake_and_clear(&mut self, wakes: &mut WakeList) {
        self.waiting.drain(..).for_each(|(_, waker)| wakes.push(waker));
    }
}

/// Whom to wake once the lock is released, and which wakers are to be dropped there. One needs no allocation, and there are seldom more.
#[derive(Default)]
#[must_use = "whoever is not woken sleeps for good"]
pub(super) struct WakeList {
    first: Option<Waker>,
    /// Boxed, because this is made and dropped at every holding of the lock, and mostly empty.
    more: Option<Box<MoreWakers>>,
}

#[derive(Default)]
struct MoreWakers {
    wakers: Vec<Waker>,
    discarded: Vec<Waker>,
}

impl WakeList {
    #[inline]
    pub(super) fn push(&mut self, waker: Option<Waker>) {
        let Some(waker) = waker else { return };
        if self.first.is_none() {
            self.first = Some(waker);
        } else {
            self.more.get_or_insert_default().wakers.push(waker);
        }
    }

    /// A waker that is needed no more.
    pub(super) fn discard(&mut self, waker: Waker) {
        self.more.get_or_insert_default().discarded.push(waker);
    }

    /// WakeList all of them. One that panics harms nobody else.
    #[inline]
    pub(super) fn wake(self) {
        if self.first.is_some() || self.more.is_some() {
            self.wake_all();
        }
    }

    fn wake_all(self) {
        let (wakers, discarded) = self.more.map(|more| (more.wakers, more.discarded)).unwrap_or_default();
        wakers::wake_each(self.first.into_iter().chain(wakers));
        wakers::discard(discarded);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_served_first_and_one_who_leaves_gives_back() {
        let (mut queue, mut wakes, waker) = (WaitQueue::new(), WakeList::default(), || Spare::of(Waker::noop()));
        let (mut a, mut b) = (None, None);
        queue.enqueue(&mut a, Some(&mut waker()));
        queue.enqueue(&mut b, Some(&mut waker()));
        assert!(queue.serve('x').is_ok() && queue.serve('y').is_ok());
        assert_eq!(queue.serve('z').err(), Some('z'));
        assert_eq!(queue.take(&mut b), Some('y'));
        assert_eq!(queue.leave(&mut a, &mut wakes), Some('x'));
        assert_eq!((queue.served(), queue.is_empty(), a, b), (0, true, None, None));
    }

    #[test]
    fn a_place_is_kept_until_it_is_left() {
        let (mut queue, mut wakes, waker) = (WaitQueue::<()>::new(), WakeList::default(), || Spare::of(Waker::noop()));
        let (mut a, mut b) = (None, None);
        queue.enqueue(&mut a, Some(&mut waker()));
        queue.enqueue(&mut b, Some(&mut waker()));
        queue.enqueue(&mut a, Some(&mut waker()));
        assert_eq!((a, b), (Some(1), Some(2)));
        assert!(queue.leave(&mut a, &mut wakes).is_none() && wakes.more.is_some_and(|more| !more.discarded.is_empty()));
        assert!(queue.serve(()).is_ok() && queue.serve(()).is_err());
        assert!(queue.take(&mut b).is_some());
    }

    #[test]
    fn those_who_are_woken_keep_their_places_and_leave_another_waker() {
        let (mut queue, mut wakes, waker) = (WaitQueue::<()>::new(), WakeList::default(), || Spare::of(Waker::noop()));
        let mut a = None;
        queue.enqueue(&mut a, Some(&mut waker()));
        queue.wake_waiting(&mut wakes);
        assert!(wakes.first.is_some());
        let mut again = WakeList::default();
        queue.wake_waiting(&mut again);
        assert!(again.first.is_none(), "it was woken, and has not come back yet");
        queue.enqueue(&mut a, Some(&mut waker()));
        assert_eq!(a, Some(1));
        assert!(matches!(queue.serve(()), Ok(Some(_))));
    }
}
