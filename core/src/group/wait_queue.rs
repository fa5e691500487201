//! `WaitQueue`, the FIFO of waiting callers, and `WakeList`, the wakers to wake after the lock.
//!
//! Both are used under the lock of a group. Wakers are user code: they are moved in and out here,
//! and cloned, woken and dropped after the lock is released.

use crate::base::wakers;
use crate::base::wakers::ClonedWaker;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::task::Waker;

/// The position of a caller in a queue. `None` while the caller is not queued.
pub(super) type Ticket = Option<u64>;

/// A FIFO queue. An item served to a caller (`G`) is kept until the caller takes it or leaves.
///
/// Tickets count up and are served in that order, so both deques are sorted by ticket.
pub(super) struct WaitQueue<G> {
    /// The waker is `None` after a wake. The woken caller polls again and stores a new one.
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

    /// Returns how many served items were not taken yet.
    pub(super) fn served(&self) -> usize {
        self.served.len()
    }

    /// Queues a caller at the end, or keeps its position. Does nothing without a waker.
    pub(super) fn enqueue(&mut self, ticket: &mut Ticket, waker: Option<&mut ClonedWaker>) {
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

    /// Serves the first waiting caller. Returns the item if the queue is empty.
    pub(super) fn serve(&mut self, item: G) -> Result<Option<Waker>, G> {
        let Some((ticket, waker)) = self.waiting.pop_front() else { return Err(item) };
        self.served.push_back((ticket, item));
        Ok(waker)
    }

    /// Takes the item served to `ticket` and clears the ticket.
    pub(super) fn take(&mut self, ticket: &mut Ticket) -> Option<G> {
        let at = self.served.binary_search_by_key(&(*ticket)?, |(served, _)| *served).ok()?;
        *ticket = None;
        self.served.remove(at).map(|(_, item)| item)
    }

    /// Removes a caller and clears its ticket. Returns the item it was served, if any.
    pub(super) fn leave(&mut self, ticket: &mut Ticket, wakes: &mut WakeList) -> Option<G> {
        let item = self.take(ticket);
        if let Some(ticket) = ticket.take()
            && let Ok(at) = self.waiting.binary_search_by_key(&ticket, |(known, _)| *known)
        {
            self.waiting.remove(at).and_then(|(_, waker)| waker).into_iter().for_each(|waker| wakes.discard(waker));
        }
        item
    }

    /// Wakes all waiting callers. They keep their positions.
    pub(super) fn wake_waiting(&mut self, wakes: &mut WakeList) {
        self.waiting.iter_mut().for_each(|(_, waker)| wakes.push(waker.take()));
    }

    /// Wakes and removes all callers that were not served.
    pub(super) fn wake_and_clear(&mut self, wakes: &mut WakeList) {
        self.waiting.drain(..).for_each(|(_, waker)| wakes.push(waker));
    }
}

/// Wakers to wake or to drop after the lock is released. One waker needs no allocation, and more
/// are rare.
#[derive(Default)]
#[must_use = "a caller that is not woken sleeps forever"]
pub(super) struct WakeList {
    first: Option<Waker>,
    /// Boxed: a list is created on every lock, and this part is mostly empty.
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

    /// Adds a waker that is dropped without a wake.
    pub(super) fn discard(&mut self, waker: Waker) {
        self.more.get_or_insert_default().discarded.push(waker);
    }

    /// Wakes all wakers. A panic in one does not affect the others.
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
    fn callers_are_served_in_order_and_leaving_returns_the_item() {
        let (mut queue, mut wakes, waker) = (WaitQueue::new(), WakeList::default(), || ClonedWaker::of(Waker::noop()));
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
    fn enqueue_again_keeps_the_position() {
        let (mut queue, mut wakes, waker) = (WaitQueue::<()>::new(), WakeList::default(), || ClonedWaker::of(Waker::noop()));
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
    fn woken_callers_keep_their_position_and_store_a_new_waker() {
        let (mut queue, mut wakes, waker) = (WaitQueue::<()>::new(), WakeList::default(), || ClonedWaker::of(Waker::noop()));
        let mut a = None;
        queue.enqueue(&mut a, Some(&mut waker()));
        queue.wake_waiting(&mut wakes);
        assert!(wakes.first.is_some());
        let mut again = WakeList::default();
        queue.wake_waiting(&mut again);
        assert!(again.first.is_none(), "the caller was woken and has not polled again");
        queue.enqueue(&mut a, Some(&mut waker()));
        assert_eq!(a, Some(1));
        assert!(matches!(queue.serve(()), Ok(Some(_))));
    }
}
