//! `FailureEventHub`: one stream of all that happens in a system (failures, dead letters, lifecycle, lints), for any number of subscribers.
//!
//! A site where something may be told of loads one word: the kinds that anybody wants. Only if its own kind is among them is the event
//! made and handed to each ear: a callback is called, in the thread in which it happens; a subscription has a bounded queue, in which
//! the newest pushes out the oldest (see `subscription`).
//!
//! Invariants:
//! 1. `wanted` is the union of the kinds of all ears, written under the lock that guards them. With no ear it is 0.
//! 2. User code (callbacks, wakers, destructors of errors) runs under no lock, each in a `catch` of its own: it harms no other ear and
//!    not the code in which the event happened.
//! 3. An ear is registered until its `Place` leaves. A place holds the tree weakly: whoever listens keeps no tree alive.

use crate::base::catch;
use crate::base::lock::Lock;
use crate::base::sync::{AtomicU32, AtomicUsize, Ordering};
use crate::events::event::{Event, EventKinds};
use crate::events::failure::FailureInfo;
use crate::events::subscription::{EventSubscription, Queue, SubscriptionOptions};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::AtomicUsize as AtomicUsizeOfCore;

/// How many trees have somebody who wants lints, and how many somebody who follows lives. Hints and no more: they spare every batch of messages,
/// and every life, the way up to its own tree's ears, and a tree that finds its hint raised looks there.
static LINTED_TREES: AtomicUsizeOfCore = AtomicUsizeOfCore::new(0);
static FOLLOWED_TREES: AtomicUsizeOfCore = AtomicUsizeOfCore::new(0);

/// Whether handlers may have to be timed, in this tree or another.
#[inline]
pub(crate) fn any_tree_wants_lints() -> bool {
    LINTED_TREES.load(Ordering::Relaxed) != 0
}

/// Whether anybody may want to hear of starts and ends, in this tree or another.
#[inline]
pub(crate) fn any_tree_wants_lifecycle() -> bool {
    FOLLOWED_TREES.load(Ordering::Relaxed) != 0
}

/// Where a system tells what happens in it; from `System::hub`. A cheap handle that owns nothing that runs.
///
/// ```
/// use pleach::{Dispatcher, Event, EventKinds, Props, SubscriptionOptions, System};
///
/// let sim = Dispatcher::seeded(1);
/// let system = System::builder("shop", sim.runtime()).build().unwrap();
/// let options = SubscriptionOptions::new().kinds(EventKinds::FAILURES).capacity(16);
/// let mut failures = system.hub().subscribe_with(options);
///
/// let till = system.spawn("till", Props::from_fn(|| (), |_, paid: u32| if paid > 0 { Ok(()) } else { Err("nothing paid") })).unwrap();
/// till.tell(0).unwrap();
/// sim.drain_ready();
/// assert!(matches!(failures.try_next(), Some(Event::Failed(failure)) if failure.origin().to_string() == "/user/till"));
/// ```
#[derive(Clone)]
pub struct FailureEventHub {
    events: Arc<Events>,
}

impl FailureEventHub {
    pub(crate) fn of(events: &Arc<Events>) -> Self {
        Self { events: Arc::clone(events) }
    }

    /// Every event from now on, 1,024 of them waiting at most.
    pub fn subscribe(&self) -> EventSubscription {
        self.subscribe_with(SubscriptionOptions::new())
    }

    /// The events that `options` ask for, from now on.
    pub fn subscribe_with(&self, options: SubscriptionOptions) -> EventSubscription {
        let queue = Arc::new(Queue::new(options.capacity));
        let id = self.events.add(options.kinds, Ear::Queue(Arc::clone(&queue)));
        EventSubscription::new(queue, Place { events: Arc::downgrade(&self.events), id })
    }

    /// Calls `listener` for every event from now on, in the thread in which it happens: be quick, or subscribe. A listener that panics
    /// harms nobody. Events that it causes itself are told like any other, to it as well.
    pub fn listen(&self, listener: impl Fn(&Event) + Send + Sync + 'static) -> Listening {
        self.listen_to(EventKinds::ALL, listener)
    }

    /// As [`listen`](Self::listen), for these kinds only.
    pub fn listen_to(&self, kinds: EventKinds, listener: impl Fn(&Event) + Send + Sync + 'static) -> Listening {
        let id = self.events.listen(kinds, Arc::new(listener));
        Listening(Place { events: Arc::downgrade(&self.events), id })
    }

    /// How many listen and subscribe now.
    pub fn subscribers(&self) -> usize {
        self.events.ears.with(|ears| ears.all.len())
    }
}

impl fmt::Debug for FailureEventHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailureEventHub").field("subscribers", &self.subscribers()).finish_non_exhaustive()
    }
}

/// A callback that hears events. Dropping this handle changes nothing: it listens until it is told to [`stop`](Self::stop).
pub struct Listening(Place);

impl Listening {
    /// Takes the callback out and drops it. A call that has begun in another thread may still be running.
    pub fn stop(self) {
        self.0.leave();
    }
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listening({})", self.0.id)
    }
}

/// Where an ear is registered.
pub(crate) struct Place {
    events: Weak<Events>,
    id: usize,
}

impl Place {
    pub(crate) fn leave(&self) {
        if let Some(events) = self.events.upgrade() {
            events.remove(self.id);
        }
    }
}

/// A callback.
pub(crate) type Listener = Arc<dyn Fn(&Event) + Send + Sync>;

#[derive(Clone)]
enum Ear {
    Call(Listener),
    Queue(Arc<Queue>),
}

/// Everybody who hears of a tree, and the failures there were.
pub(crate) struct Events {
    wanted: AtomicU32,
    failures: AtomicUsize,
    ears: Lock<Ears>,
}

#[derive(Default)]
struct Ears {
    /// Replaced as a whole when somebody comes or goes, so that telling an event clones one reference.
    all: Arc<Vec<Registered>>,
    last_id: usize,
    ended: bool,
}

#[derive(Clone)]
struct Registered {
    id: usize,
    kinds: EventKinds,
    ear: Ear,
}

impl Events {
    pub(crate) fn new() -> Self {
        Self { wanted: AtomicU32::new(0), failures: AtomicUsize::new(0), ears: Lock::new(Ears::default()) }
    }

    /// Whether anybody wants events of this kind.
    #[inline]
    pub(crate) fn wants(&self, kind: EventKinds) -> bool {
        self.wanted.load(Ordering::Relaxed) & kind.bits() != 0
    }

    /// Makes an event of this kind only if somebody wants it.
    #[inline]
    pub(crate) fn emit(&self, kind: EventKinds, make: impl FnOnce() -> Event) {
        if self.wants(kind) {
            self.tell(kind, &make());
        }
    }

    /// Puts a failure on record.
    pub(crate) fn failure(&self, failure: &FailureInfo) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.emit(EventKinds::FAILURES, || Event::Failed(failure.clone()));
    }

    /// How many failures there were so far.
    pub(crate) fn failures(&self) -> usize {
        self.failures.load(Ordering::Relaxed)
    }

    /// The root has ended: subscriptions end when they have told what they have.
    pub(crate) fn end(&self) {
        let ears = self.ears.with(|ears| {
            ears.ended = true;
            Arc::clone(&ears.all)
        });
        for registered in ears.iter() {
            if let Ear::Queue(queue) = &registered.ear {
                queue.end();
            }
        }
    }

    /// A panic of an ear is swallowed here, because telling of it would be one more event.
    #[cold]
    fn tell(&self, kind: EventKinds, event: &Event) {
        let ears = self.ears.with(|ears| Arc::clone(&ears.all));
        for registered in ears.iter().filter(|registered| registered.kinds.contains(kind)) {
            drop(catch::catch(|| match &registered.ear {
                Ear::Call(listener) => listener(event),
                Ear::Queue(queue) => queue.push(event.clone()),
            }));
        }
        // Whoever left meanwhile leaves its callback to be dropped here.
        drop(catch::catch(|| drop(ears)));
    }

    /// Has `listener` called from now on, for as long as the tree is there or until its id is removed.
    pub(crate) fn listen(&self, kinds: EventKinds, listener: Listener) -> usize {
        self.add(kinds, Ear::Call(listener))
    }

    fn add(&self, kinds: EventKinds, ear: Ear) -> usize {
        let (id, before, late) = self.ears.with(|ears| {
            ears.last_id += 1;
            let id = ears.last_id;
            let late = if let (true, Ear::Queue(queue)) = (ears.ended, &ear) { Some(Arc::clone(queue)) } else { None };
            let mut all = Vec::with_capacity(ears.all.len() + 1);
            all.extend(ears.all.iter().cloned());
            all.push(Registered { id, kinds, ear });
            (id, self.replace(ears, all), late)
        });
        drop(before);
        if let Some(queue) = late {
            queue.end();
        }
        id
    }

    fn remove(&self, id: usize) {
        let before = self.ears.with(|ears| {
            let all = ears.all.iter().filter(|registered| registered.id != id).cloned().collect();
            self.replace(ears, all)
        });
        drop(before);
    }

    /// The list as it was comes back, for the caller to drop outside the lock.
    fn replace(&self, ears: &mut Ears, all: Vec<Registered>) -> Arc<Vec<Registered>> {
        let wanted = all.iter().fold(EventKinds::NONE, |wanted, registered| wanted | registered.kinds);
        let before = self.wanted.swap(wanted.bits(), Ordering::AcqRel);
        note_hints(before, wanted.bits());
        core::mem::replace(&mut ears.all, Arc::new(all))
    }
}

fn note_hints(before: u32, after: u32) {
    for (kind, trees) in [(EventKinds::LINTS, &LINTED_TREES), (EventKinds::LIFECYCLE, &FOLLOWED_TREES)] {
        let wanted = |bits| bits & kind.bits() != 0;
        match (wanted(before), wanted(after)) {
            (false, true) => drop(trees.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(trees.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
    }
}

/// The tree is gone: nobody is left to tell anything.
impl Drop for Events {
    fn drop(&mut self) {
        note_hints(self.wanted.swap(0, Ordering::AcqRel), 0);
        self.end();
    }
}
