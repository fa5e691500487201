//! `Subscribers`: the list of a topic. Subscribing and unsubscribing take logarithmic time; whoever publishes gets the list whole.
//!
//! The list that publishers go through is made when one asks for it, and kept until the next change: publishing costs as much as the list
//! is long in any case.
//!
//! Invariants: an actor is in the list at most once, in the order of subscribing. Nothing of a user's is dropped under the lock, and no
//! other lock is taken under it.

use crate::base::lock::Lock;
use crate::base::visits;
use crate::routing::topic::Subscriber;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// So many are kept before anybody looks whether they have ended.
const UNLOOKED_MAX: usize = 16;

pub(super) type List<M> = Arc<Vec<Arc<Subscriber<M>>>>;

pub(super) struct Subscribers<M>(Lock<Entries<M>>);

struct Entries<M> {
    in_order: BTreeMap<u64, Arc<Subscriber<M>>>,
    /// The place of an actor, by the address of its node. The entry keeps the node, so no other has that address.
    places: BTreeMap<usize, u64>,
    next_place: u64,
    /// How many there may be before those that have ended are looked for.
    look_at: usize,
    whole: Option<List<M>>,
}

impl<M> Entries<M> {
    fn take(&mut self, address: usize) -> Option<Arc<Subscriber<M>>> {
        let place = self.places.remove(&address)?;
        self.in_order.remove(&place)
    }

    fn holds(&self, subscriber: &Subscriber<M>) -> bool {
        let known = self.places.get(&subscriber.address()).and_then(|place| self.in_order.get(place));
        known.is_some_and(|known| core::ptr::eq(Arc::as_ptr(known), subscriber))
    }
}

impl<M> Subscribers<M> {
    pub(super) fn new() -> Self {
        let (in_order, places) = (BTreeMap::new(), BTreeMap::new());
        Self(Lock::new(Entries { in_order, places, next_place: 0, look_at: UNLOOKED_MAX, whole: None }))
    }

    /// Adds `subscriber` at the end, in place of one for the same actor.
    pub(super) fn add(&self, subscriber: &Arc<Subscriber<M>>) {
        let (replaced, outdated, many) = self.0.with(|entries| {
            let replaced = entries.take(subscriber.address());
            let place = entries.next_place;
            entries.next_place += 1;
            entries.places.insert(subscriber.address(), place);
            entries.in_order.insert(place, Arc::clone(subscriber));
            (replaced, entries.whole.take(), entries.in_order.len() > entries.look_at)
        });
        drop((replaced, outdated));
        if many {
            self.take_out_ended();
        }
    }

    /// Takes these out, if they are in the list and no other has taken their place.
    pub(super) fn take_out(&self, over: &[Arc<Subscriber<M>>]) {
        let mut out = Vec::with_capacity(over.len());
        let outdated = self.0.with(|entries| {
            for one in over {
                if entries.holds(one) {
                    out.extend(entries.take(one.address()));
                }
            }
            if out.is_empty() { None } else { entries.whole.take() }
        });
        drop((out, outdated));
    }

    pub(super) fn contains(&self, subscriber: &Subscriber<M>) -> bool {
        self.0.with(|entries| entries.holds(subscriber))
    }

    /// All of them, as they are now.
    pub(super) fn all(&self) -> List<M> {
        self.0.with(|entries| {
            let Entries { whole, in_order, .. } = entries;
            Arc::clone(whole.get_or_insert_with(|| {
                visits::visit(in_order.len());
                Arc::new(in_order.values().cloned().collect())
            }))
        })
    }

    /// So that a topic in which nothing is published does not grow. The next look is when there are twice as many.
    fn take_out_ended(&self) {
        let all = self.all();
        visits::visit(all.len());
        let ended: Vec<_> = all.iter().filter(|subscriber| subscriber.who.exit().is_some()).cloned().collect();
        self.take_out(&ended);
        self.0.with(|entries| entries.look_at = UNLOOKED_MAX.max(entries.in_order.len() * 2));
    }
}
