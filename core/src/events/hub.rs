//! [`EventHub`]: delivers the events of a system (failures, dead letters, lifecycle, lints)
//! to any number of listeners.
//!
//! Code that may report an event loads one word: the kinds that any listener wants. It creates the
//! event only if its kind is among them, and delivers it to each listener. A callback runs in the
//! thread of the event. A subscription has a bounded queue, in which the newest event replaces the
//! oldest (see `subscription`).
//!
//! Invariants:
//! 1. `wanted` is the union of the kinds of all listeners, written under the lock that protects
//!    them. Without listeners it is 0.
//! 2. User code (callbacks, wakers, destructors of errors) runs outside of locks, each call in its
//!    own `catch`. Its panic affects neither other listeners nor the code that reports the event.
//! 3. A listener stays registered until its `ListenerRegistration` unregisters it. The handle
//!    references the tree weakly, so a listener keeps no tree alive.

use crate::base::catch;
use crate::base::lock::Lock;
use crate::base::sync::{Arc, AtomicU32, AtomicUsize, CoreAtomicUsize, Ordering, Weak, unsize};
use crate::events::event::{Event, EventKinds};
use crate::events::failure::FailureInfo;
use crate::events::subscription::{EventQueue, EventSubscription, SubscriptionOptions};
use alloc::vec::Vec;
use core::fmt;

/// How many trees have a listener for long handlers, for stuck handlers, for one of these two, and
/// for lifecycle events.
///
/// These are hints for the hot path: while a hint is 0, no batch of messages and no start or end
/// has to look up the listeners of its tree. While it is not 0, each tree checks its own listeners.
static TREES_TIMING_HANDLERS: CoreAtomicUsize = CoreAtomicUsize::new(0);
static TREES_WATCHING_HANDLERS: CoreAtomicUsize = CoreAtomicUsize::new(0);
static TREES_OBSERVING_HANDLERS: CoreAtomicUsize = CoreAtomicUsize::new(0);
static TREES_WANTING_LIFECYCLE: CoreAtomicUsize = CoreAtomicUsize::new(0);

/// Returns whether any tree of the process wants long handlers, so that handlers may have to be
/// timed.
#[inline]
pub(crate) fn any_tree_times_handlers() -> bool {
    TREES_TIMING_HANDLERS.load(Ordering::Relaxed) != 0
}

/// Returns whether any tree of the process wants stuck handlers, so that busy actors are listed.
#[inline]
pub(crate) fn any_tree_watches_handlers() -> bool {
    TREES_WATCHING_HANDLERS.load(Ordering::Relaxed) != 0
}

/// Returns whether any tree of the process wants long or stuck handlers: the only check of a batch
/// of messages.
#[inline]
pub(crate) fn any_tree_observes_handlers() -> bool {
    TREES_OBSERVING_HANDLERS.load(Ordering::Relaxed) != 0
}

/// Returns whether any tree of the process wants lifecycle events.
#[inline]
pub(crate) fn any_tree_wants_lifecycle() -> bool {
    TREES_WANTING_LIFECYCLE.load(Ordering::Relaxed) != 0
}

/// The event hub of a system; returned by `System::hub`. A cheap handle that keeps nothing running.
///
/// ```
/// use pleach::Props;
/// use pleach::events::{Event, EventKinds, SubscriptionOptions};
/// use pleach::runtime::Dispatcher;
/// use pleach::system::System;
///
/// let sim = Dispatcher::seeded(1);
/// let system = System::builder("shop", sim.runtime()).build().unwrap();
/// let options = SubscriptionOptions::new().kinds(EventKinds::FAILURES).capacity(16);
/// let mut failures = system.hub().subscribe_with(options);
///
/// let pay = |_: &mut (), paid: u32| if paid > 0 { Ok(()) } else { Err("nothing paid") };
/// let till = system.spawn("till", Props::from_fn(|| (), pay)).unwrap();
/// till.tell(0).unwrap();
/// sim.drain_ready();
/// let event = failures.try_next();
/// assert!(matches!(event, Some(Event::Failed(failure)) if *failure.origin() == "/user/till"));
/// ```
#[derive(Clone)]
pub struct EventHub {
    events: Arc<Events>,
}

impl EventHub {
    pub(crate) fn of(events: &Arc<Events>) -> Self {
        Self { events: Arc::clone(events) }
    }

    /// Subscribes to all later events, with a queue of 1,024 events.
    pub fn subscribe(&self) -> EventSubscription {
        self.subscribe_with(SubscriptionOptions::new())
    }

    /// Subscribes to later events, with the kinds and the capacity in `options`.
    pub fn subscribe_with(&self, options: SubscriptionOptions) -> EventSubscription {
        let queue = Arc::new(EventQueue::new(options.capacity));
        let id = self.events.add(options.kinds, Listener::Queue(Arc::clone(&queue)));
        EventSubscription::new(queue, ListenerRegistration { events: Arc::downgrade(&self.events), id })
    }

    /// Calls `listener` for every later event, in the thread in which the event happens.
    ///
    /// Return quickly, or use [`subscribe`](Self::subscribe) instead. A panic in `listener` is
    /// contained. Events that it causes are delivered too, also to `listener` itself.
    pub fn listen(&self, listener: impl Fn(&Event) + Send + Sync + 'static) -> ListenerHandle {
        self.listen_to(EventKinds::ALL, listener)
    }

    /// Like [`listen`](Self::listen), for these kinds only.
    pub fn listen_to(&self, kinds: EventKinds, listener: impl Fn(&Event) + Send + Sync + 'static) -> ListenerHandle {
        let id = self.events.listen(kinds, unsize!(Arc::new(listener) => dyn Fn(&Event) + Send + Sync));
        ListenerHandle(ListenerRegistration { events: Arc::downgrade(&self.events), id })
    }

    /// Returns the current number of listeners and subscriptions.
    pub fn subscribers(&self) -> usize {
        self.events.listeners.with(|listeners| listeners.all.len())
    }
}

impl fmt::Debug for EventHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventHub").field("subscribers", &self.subscribers()).finish_non_exhaustive()
    }
}

/// A registered callback; returned by [`EventHub::listen`]. Dropping this handle does not
/// unregister it; call [`stop`](Self::stop).
pub struct ListenerHandle(ListenerRegistration);

impl ListenerHandle {
    /// Unregisters the callback and drops it. A call that has begun in another thread may still be
    /// running.
    pub fn stop(self) {
        self.0.unregister();
    }

    /// Returns the hub, while its tree exists. Unlike a hub, this handle keeps no callback alive.
    pub fn hub(&self) -> Option<EventHub> {
        self.0.events.upgrade().map(|events| EventHub { events })
    }

    /// Replaces the kinds that the callback gets. Nothing happens if the tree is gone.
    pub fn set_kinds(&self, kinds: EventKinds) {
        if let Some(events) = self.0.events.upgrade() {
            events.set_kinds(self.0.id, kinds);
        }
    }
}

impl fmt::Debug for ListenerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ListenerHandle({})", self.0.id)
    }
}

/// The registration of one listener.
pub(crate) struct ListenerRegistration {
    events: Weak<Events>,
    id: usize,
}

impl ListenerRegistration {
    pub(crate) fn unregister(&self) {
        if let Some(events) = self.events.upgrade() {
            events.remove(self.id);
        }
    }
}

/// A callback for events.
pub(crate) type Callback = Arc<dyn Fn(&Event) + Send + Sync>;

/// A receiver of events: a callback or the queue of a subscription.
#[derive(Clone)]
enum Listener {
    Call(Callback),
    Queue(Arc<EventQueue>),
}

/// The listeners of a tree, and its failure count.
pub(crate) struct Events {
    wanted: AtomicU32,
    failures: AtomicUsize,
    listeners: Lock<Listeners>,
}

#[derive(Default)]
struct Listeners {
    /// Replaced as a whole when a listener is added or removed, so that delivering an event clones
    /// one `Arc`.
    all: Arc<Vec<RegisteredListener>>,
    last_id: usize,
    ended: bool,
}

#[derive(Clone)]
struct RegisteredListener {
    id: usize,
    kinds: EventKinds,
    listener: Listener,
}

impl Events {
    pub(crate) fn new() -> Self {
        Self { wanted: AtomicU32::new(0), failures: AtomicUsize::new(0), listeners: Lock::new(Listeners::default()) }
    }

    /// Returns whether any listener wants events of this kind.
    #[inline]
    pub(crate) fn wants(&self, kind: EventKinds) -> bool {
        self.wanted.load(Ordering::Relaxed) & kind.bits() != 0
    }

    /// Creates and delivers an event, only if a listener wants its kind.
    #[inline]
    pub(crate) fn emit(&self, kind: EventKinds, make: impl FnOnce() -> Event) {
        if self.wants(kind) {
            self.deliver(kind, &make());
        }
    }

    /// Counts a failure and reports it.
    pub(crate) fn record_failure(&self, failure: &FailureInfo) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.emit(EventKinds::FAILURES, || Event::Failed(failure.clone()));
    }

    /// Returns how many failures were recorded so far.
    pub(crate) fn failure_count(&self) -> usize {
        self.failures.load(Ordering::Relaxed)
    }

    /// Ends all subscriptions because the root has ended. They still return the events in their
    /// queues.
    pub(crate) fn end(&self) {
        let listeners = self.listeners.with(|listeners| {
            listeners.ended = true;
            Arc::clone(&listeners.all)
        });
        for registered in listeners.iter() {
            if let Listener::Queue(queue) = &registered.listener {
                queue.end();
            }
        }
    }

    /// Delivers an event. A panic of a listener is discarded, because reporting it would be another
    /// event.
    #[cold]
    fn deliver(&self, kind: EventKinds, event: &Event) {
        let listeners = self.listeners.with(|listeners| Arc::clone(&listeners.all));
        for registered in listeners.iter().filter(|registered| registered.kinds.contains(kind)) {
            drop(catch::catch(|| match &registered.listener {
                Listener::Call(callback) => callback(event),
                Listener::Queue(queue) => queue.push(event.clone()),
            }));
        }
        // A callback that was unregistered meanwhile may be dropped here.
        drop(catch::catch(|| drop(listeners)));
    }

    /// Registers a callback for as long as the tree exists, or until its id is removed.
    pub(crate) fn listen(&self, kinds: EventKinds, callback: Callback) -> usize {
        self.add(kinds, Listener::Call(callback))
    }

    fn add(&self, kinds: EventKinds, listener: Listener) -> usize {
        let (id, before, already_ended) = self.listeners.with(|listeners| {
            listeners.last_id += 1;
            let id = listeners.last_id;
            let already_ended =
                if let (true, Listener::Queue(queue)) = (listeners.ended, &listener) { Some(Arc::clone(queue)) } else { None };
            let mut all = Vec::with_capacity(listeners.all.len() + 1);
            all.extend(listeners.all.iter().cloned());
            all.push(RegisteredListener { id, kinds, listener });
            (id, self.replace(listeners, all), already_ended)
        });
        drop(before);
        if let Some(queue) = already_ended {
            queue.end();
        }
        id
    }

    fn remove(&self, id: usize) {
        let before = self.listeners.with(|listeners| {
            let all = listeners.all.iter().filter(|registered| registered.id != id).cloned().collect();
            self.replace(listeners, all)
        });
        drop(before);
    }

    fn set_kinds(&self, id: usize, kinds: EventKinds) {
        let before = self.listeners.with(|listeners| {
            let mut all: Vec<_> = listeners.all.iter().cloned().collect();
            all.iter_mut().filter(|registered| registered.id == id).for_each(|registered| registered.kinds = kinds);
            self.replace(listeners, all)
        });
        drop(before);
    }

    /// Replaces the list. Returns the earlier one, which the caller drops outside of the lock.
    fn replace(&self, listeners: &mut Listeners, all: Vec<RegisteredListener>) -> Arc<Vec<RegisteredListener>> {
        let wanted = all.iter().fold(EventKinds::NONE, |wanted, registered| wanted | registered.kinds);
        let before = self.wanted.swap(wanted.bits(), Ordering::AcqRel);
        update_hints(before, wanted.bits());
        core::mem::replace(&mut listeners.all, Arc::new(all))
    }
}

fn update_hints(before: u32, after: u32) {
    for (kinds, trees) in [
        (EventKinds::LONG_HANDLERS, &TREES_TIMING_HANDLERS),
        (EventKinds::STUCK_HANDLERS, &TREES_WATCHING_HANDLERS),
        (EventKinds::LONG_HANDLERS | EventKinds::STUCK_HANDLERS, &TREES_OBSERVING_HANDLERS),
        (EventKinds::LIFECYCLE, &TREES_WANTING_LIFECYCLE),
    ] {
        let wanted = |bits| bits & kinds.bits() != 0;
        match (wanted(before), wanted(after)) {
            (false, true) => drop(trees.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(trees.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
    }
}

/// The tree is gone, so no further event can come.
impl Drop for Events {
    fn drop(&mut self) {
        update_hints(self.wanted.swap(0, Ordering::AcqRel), 0);
        self.end();
    }
}
