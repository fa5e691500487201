//! [`EventSubscription`]: events in a bounded queue that counts what it had to drop.
//!
//! Invariants:
//! 1. Received events, the counts in `Event::Missed` and queued events add up to the events of the
//!    subscribed kinds since the subscription. `missed` counts events older than all queued ones,
//!    so it is delivered first.
//! 2. A push never waits and never fails: the newest event replaces the oldest.
//! 3. The queue ends once. Events that are queued by then, or arrive later, can still be received
//!    before the end.

use crate::base::lock::Lock;
use crate::base::sync::Arc;
use crate::base::wakers;
use crate::base::wakers::ClonedWaker;
use crate::events::event::{Event, EventKinds};
use crate::events::hub::ListenerRegistration;
use alloc::collections::VecDeque;
use core::fmt;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use futures_core::Stream;

/// The default queue capacity of a subscription: 1,024 events.
pub const SUBSCRIPTION_CAPACITY_DEFAULT: usize = 1024;

/// The options of a subscription: event kinds and queue capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "options do nothing until they are given to `subscribe_with`"]
pub struct SubscriptionOptions {
    pub(crate) kinds: EventKinds,
    pub(crate) capacity: usize,
}

impl SubscriptionOptions {
    /// Creates the default options: all kinds, 1,024 events.
    pub fn new() -> Self {
        Self { kinds: EventKinds::ALL, capacity: SUBSCRIPTION_CAPACITY_DEFAULT }
    }

    /// Sets the kinds to receive. Default: all. Events of other kinds do not count as missed.
    pub fn kinds(mut self, kinds: EventKinds) -> Self {
        self.kinds = kinds;
        self
    }

    /// Sets how many events may be queued. Default: 1,024; 0 counts as 1.
    ///
    /// When the queue is full, the oldest event is dropped and counted in [`Event::Missed`].
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

/// A subscription to the events of a system. Use [`next`](Self::next), or use it as a `Stream`.
///
/// It ends after the root of the system has ended. Dropping it unsubscribes.
///
/// # Examples
///
/// ```
/// use pleach::{BoxError, Props};
/// use pleach::events::{Event, SubscriptionOptions};
/// use pleach::runtime::Dispatcher;
/// use pleach::system::System;
///
/// let sim = Dispatcher::seeded(1);
/// let system = System::builder("shop", sim.runtime()).build().unwrap();
/// let mut events = system.hub().subscribe_with(SubscriptionOptions::new().capacity(1));
/// for name in ["first", "second", "third"] {
///     let props = Props::from_fn(|| (), |_, _: u32| Ok::<(), BoxError>(()));
///     system.spawn(name, props).unwrap();
/// }
/// sim.drain_ready();
/// // The queue holds one event, so the first two were dropped.
/// assert!(matches!(events.try_next(), Some(Event::Missed(2))));
/// assert!(matches!(events.try_next(), Some(Event::Started { .. })));
/// assert!(events.try_next().is_none());
/// ```
pub struct EventSubscription {
    queue: Arc<EventQueue>,
    listener: ListenerRegistration,
}

impl EventSubscription {
    pub(crate) fn new(queue: Arc<EventQueue>, listener: ListenerRegistration) -> Self {
        Self { queue, listener }
    }

    /// Waits for the next event, or for the number of [missed](Event::Missed) events before it.
    /// `None` after the end of the system.
    ///
    /// Cancel safe: no event is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|cx| self.queue.poll(cx.waker())).await
    }

    /// Returns the next event if one is queued.
    pub fn try_next(&mut self) -> Option<Event> {
        self.queue.state.with(EventQueueState::take)
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
        self.listener.unregister();
    }
}

impl fmt::Debug for EventSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (queued, missed) = self.queue.state.with(|state| (state.events.len(), state.missed));
        f.debug_struct("EventSubscription").field("queued", &queued).field("missed", &missed).finish_non_exhaustive()
    }
}

/// The queue of one subscription.
pub(crate) struct EventQueue {
    state: Lock<EventQueueState>,
}

struct EventQueueState {
    events: VecDeque<Event>,
    capacity: usize,
    missed: u64,
    ended: bool,
    waker: Option<Waker>,
}

impl EventQueue {
    pub(crate) fn new(capacity: usize) -> Self {
        // Allocated here, so that pushes up to the default capacity do not allocate under the lock.
        let events = VecDeque::with_capacity(capacity.min(SUBSCRIPTION_CAPACITY_DEFAULT));
        Self { state: Lock::new(EventQueueState { events, capacity, missed: 0, ended: false, waker: None }) }
    }

    pub(crate) fn push(&self, event: Event) {
        let (evicted, waker) = self.state.with(|state| {
            let evicted = if state.events.len() >= state.capacity { state.events.pop_front() } else { None };
            state.missed += u64::from(evicted.is_some());
            state.events.push_back(event);
            (evicted, state.waker.take())
        });
        wakers::wake_each(waker);
        drop(evicted);
    }

    pub(crate) fn end(&self) {
        let waker = self.state.with(|state| {
            state.ended = true;
            state.waker.take()
        });
        wakers::wake_each(waker);
    }

    fn poll(&self, waker: &Waker) -> Poll<Option<Event>> {
        let mut waker = ClonedWaker::of(waker);
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

impl EventQueueState {
    fn take(&mut self) -> Option<Event> {
        match core::mem::take(&mut self.missed) {
            0 => self.events.pop_front(),
            missed => Some(Event::Missed(missed)),
        }
    }
}
