//! `Subscribers`: the subscriber list of a topic.
//!
//! Subscribing and unsubscribing take logarithmic time. A publisher gets a snapshot of the list,
//! which is built on demand and kept until the next change: a publish visits every subscriber
//! anyway.
//!
//! Invariants:
//! 1. An actor is in the list at most once. The list is in subscription order.
//! 2. No user value is dropped, and no other lock is taken, under the lock.

use crate::base::lock::Lock;
use crate::base::sorted::SortedMap;
use crate::base::sync::Arc;
use crate::base::work_count;
use crate::routing::topic::Subscriber;
use alloc::vec::Vec;

/// The smallest list length at which ended subscribers are removed.
const PRUNE_MIN: usize = 16;

pub(super) type SubscriberList<M> = Arc<Vec<Arc<Subscriber<M>>>>;

pub(super) struct Subscribers<M>(Lock<SubscriberIndex<M>>);

struct SubscriberIndex<M> {
    in_order: SortedMap<u64, Arc<Subscriber<M>>>,
    /// The position of an actor, by the address of its node. The subscriber keeps its node alive,
    /// so no other node has that address.
    positions: SortedMap<usize, u64>,
    next_position: u64,
    /// The list length at which ended subscribers are removed next.
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
        let (in_order, positions) = (SortedMap::new(), SortedMap::new());
        Self(Lock::new(SubscriberIndex { in_order, positions, next_position: 0, prune_at: PRUNE_MIN, snapshot: None }))
    }

    /// Adds a subscriber at the end. Replaces the subscriber of the same actor.
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

    /// Removes these subscribers, unless they were replaced or removed before.
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

    /// Returns a snapshot of the list.
    pub(super) fn all(&self) -> SubscriberList<M> {
        self.0.with(|index| {
            let SubscriberIndex { snapshot, in_order, .. } = index;
            Arc::clone(snapshot.get_or_insert_with(|| {
                work_count::count(in_order.len());
                Arc::new(in_order.values().cloned().collect())
            }))
        })
    }

    /// Removes ended subscribers, so that a topic without publishes does not grow. Runs again when
    /// the list has doubled.
    fn remove_ended(&self) {
        let all = self.all();
        work_count::count(all.len());
        let ended: Vec<_> = all.iter().filter(|subscriber| subscriber.actor.exit().is_some()).cloned().collect();
        self.remove(&ended);
        self.0.with(|index| index.prune_at = PRUNE_MIN.max(index.in_order.len() * 2));
    }
}
