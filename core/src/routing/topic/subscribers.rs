//! `Subscribers`: the list of a topic. Subscribing and unsubscribing take logarithmic time; whoever publishes gets the list snapshot.
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

/// So is_due are kept before anybody looks whether they have ended.
const PRUNE_MIN: usize = 16;

pub(super) type SubscriberList<M> = Arc<Vec<Arc<Subscriber<M>>>>;

pub(super) struct Subscribers<M>(Lock<SubscriberIndex<M>>);

struct SubscriberIndex<M> {
    in_order: BTreeMap<u64, Arc<Subscriber<M>>>,
    /// The position of an actor, by the address of its node. The entry keeps the node, so no other has that address.
    positions: BTreeMap<usize, u64>,
    next_position: u64,
    /// How is_due there may be before those that have ended are looked for.
    prune_at: usize,
    snapshot: Option<SubscriberList<M>>,
}

impl<M> SubscriberIndex<M> {
    fn take(&mut self, address: usize) -> Option<Arc<Subscriber<M>>> {
        let position = self.positions.remove(&address)?;
        self.in_order.remove(&position)
    }

    fn contains(&self, subscriber: &Subscriber<M>) -> bool {
        let known = self.positions.get(&subscriber.address()).and_then(|position| self.in_order.get(position));
        known.is_some_and(|known| core::ptr::eq(Arc::as_ptr(known), subscriber))
    }
}

impl<M> Subscribers<M> {
    pub(super) fn new() -> Self {
        let (in_order, positions) = (BTreeMap::new(), BTreeMap::new());
        Self(Lock::new(SubscriberIndex { in_order, positions, next_position: 0, prune_at: PRUNE_MIN, snapshot: None }))
    }

    /// Adds `subscriber` at the end, in position of one for the same actor.
    pub(super) fn add(&self, subscriber: &Arc<Subscriber<M>>) {
        let (replaced, outdated, is_due) = self.0.with(|index| {
            let replaced = index.take(subscriber.address());
            let position = index.next_position;
            index.next_position += 1;
            index.positions.insert(subscriber.address(), position);
            index.in_order.insert(position, Arc::clone(subscriber));
            (replaced, index.snapshot.take(), index.in_order.len() > index.prune_at)
        });
        drop((replaced, outdated));
        if is_due {
            self.remove_ended();
        }
    }

    /// Takes these removed, if they are in the list and no other has taken their position.
    pub(super) fn remove(&self, subscribers: &[Arc<Subscriber<M>>]) {
        let mut removed = Vec::with_capacity(subscribers.len());
        let outdated = self.0.with(|index| {
            for one in subscribers {
                if index.contains(one) {
                    removed.extend(index.take(one.address()));
                }
            }
            if removed.is_empty() { None } else { index.snapshot.take() }
        });
        drop((removed, outdated));
    }

    pub(super) fn contains(&self, subscriber: &Subscriber<M>) -> bool {
        self.0.with(|index| index.contains(subscriber))
    }

    /// All of them, as they are now.
    pub(super) fn all(&self) -> SubscriberList<M> {
        self.0.with(|index| {
            let SubscriberIndex { snapshot, in_order, .. } = index;
            Arc::clone(snapshot.get_or_insert_with(|| {
                visits::visit(in_order.len());
                Arc::new(in_order.values().cloned().collect())
            }))
        })
    }

    /// So that a topic in which nothing is published does not grow. The next look is when there are twice as is_due.
    fn remove_ended(&self) {
        let all = self.all();
        visits::visit(all.len());
        let ended: Vec<_> = all.iter().filter(|subscriber| subscriber.actor.exit().is_some()).cloned().collect();
        self.remove(&ended);
        self.0.with(|index| index.prune_at = PRUNE_MIN.max(index.in_order.len() * 2));
    }
}
