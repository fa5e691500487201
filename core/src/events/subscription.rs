//! `EventSubscription`: events as they happen, in a bounded queue that says what it had no room for.
//!
//! Invariants:
//! 1. What a subscriber received, the counts in its `Missed` and what is queued add up to the events of its kinds since it subscribed.
//!    `missed` counts what is older than all that is queued, so it is told first.
//! 2. A push never waits for the subscriber, and never fails: the newest pushes out the oldest.
//! 3. The queue ends once; what is in it by then, or comes later still, can be received before the end is told.

use crate::base::lock::Lock;
use crate::base::wakers;
use crate::base::wakers::Spare;
use crate::events::event::{Event, EventKinds};
use crate::events::hub::Place;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::fmt;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use futures_core::Stream;

/// How many events wait for a subscriber unless it asks for another number.
pub const SUBSCRIPTION_CAPACITY_DEFAULT: usize = 1024;

/// What a subscriber asks for: which kinds, and how many events may wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "options do nothing until they are given to `subscribe_with`"]
pub struct SubscriptionOptions {
    pub(crate) kinds: EventKinds,
    pub(crate) capacity: usize,
}

impl SubscriptionOptions {
    /// All kinds, 1,024 events.
    pub fn new() -> Self {
        Self { kinds: EventKinds::ALL, capacity: SUBSCRIPTION_CAPACITY_DEFAULT }
    }

    /// Only these kinds. What is of another kind is not missed, and not counted as such.
    pub fn kinds(mut self, kinds: EventKinds) -> Self {
        self.kinds = kinds;
        self
    }

    /// At most this many events wait; 0 is taken for 1. Past it the oldest are missed, and [`Event::Missed`] says how many.
    pub fn capacity(mut self, capacity: usize) -> Self {
        self.capacity = capacity.max(1);
        self
    }
}

impl Default for SubscriptionOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Events as they happen: item by item, or as a `Stream`. It ends once the root of the system has ended. Dropping it unsubscribes.
pub struct EventSubscription {
    queue: Arc<Queue>,
    place: Place,
}

impl EventSubscription {
    pub(crate) fn new(queue: Arc<Queue>, place: Place) -> Self {
        Self { queue, place }
    }

    /// The next event, or how many were [missed](Event::Missed) before it; `None` after the end of the system.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|cx| self.queue.poll(cx.waker())).await
    }

    /// The next event if there is one now.
    pub fn try_next(&mut self) -> Option<Event> {
        self.queue.state.with(QueueState::take)
    }
}

impl Stream for EventSubscription {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.queue.poll(cx.waker())
    }
}

impl Drop for EventSubscription {
    fn drop(&mut self) {
        self.place.leave();
    }
}

impl fmt::Debug for EventSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (queued, missed) = self.queue.state.with(|state| (state.events.len(), state.missed));
        f.debug_struct("EventSubscription").field("queued", &queued).field("missed", &missed).finish_non_exhaustive()
    }
}

/// The events that wait for one subscriber.
pub(crate) struct Queue {
    state: Lock<QueueState>,
}

struct QueueState {
    events: VecDeque<Event>,
    capacity: usize,
    missed: u64,
    ended: bool,
    waker: Option<Waker>,
}

impl Queue {
    pub(crate) fn new(capacity: usize) -> Self {
        // What most subscribers need is allocated here and not under the lock.
        let events = VecDeque::with_capacity(capacity.min(SUBSCRIPTION_CAPACITY_DEFAULT));
        Self { state: Lock::new(QueueState { events, capacity, missed: 0, ended: false, waker: None }) }
    }

    pub(crate) fn push(&self, event: Event) {
        let (pushed_out, waker) = self.state.with(|state| {
            let pushed_out = if state.events.len() >= state.capacity { state.events.pop_front() } else { None };
            state.missed += u64::from(pushed_out.is_some());
            state.events.push_back(event);
            (pushed_out, state.waker.take())
        });
        wakers::wake_each(waker);
        drop(pushed_out);
    }

    pub(crate) fn end(&self) {
        let waker = self.state.with(|state| {
            state.ended = true;
            state.waker.take()
        });
        wakers::wake_each(waker);
    }

    fn poll(&self, waker: &Waker) -> Poll<Option<Event>> {
        let mut waker = Spare::of(waker);
        self.state.with(|state| match state.take() {
            Some(event) => Poll::Ready(Some(event)),
            None if state.ended => Poll::Ready(None),
            None => {
                waker.put(&mut state.waker);
                Poll::Pending
            }
        })
    }
}

impl QueueState {
    fn take(&mut self) -> Option<Event> {
        match core::mem::take(&mut self.missed) {
            0 => self.events.pop_front(),
            missed => Some(Event::Missed(missed)),
        }
    }
}
