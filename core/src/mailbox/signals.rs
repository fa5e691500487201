//! The queue of signals. A newer signal of the same kind about the same actor replaces the older
//! one.

use crate::base::sorted::SortedMap;
use crate::events::signal::Signal;
use crate::ids::path::ActorId;

/// Signals in order of arrival, at most one for each kind and actor. So the number of actors that
/// can be reported on bounds the queue.
#[derive(Default)]
pub(crate) struct SignalQueue {
    in_order: SortedMap<u64, Signal>,
    positions: SortedMap<(u8, ActorId), u64>,
    next: u64,
}

impl SignalQueue {
    /// Adds a signal and returns the one it replaces, for the caller to drop outside its lock.
    pub(crate) fn push(&mut self, signal: Signal) -> Option<Signal> {
        let position = *self.positions.entry(key(&signal)).or_insert_with(|| {
            self.next += 1;
            self.next
        });
        self.in_order.insert(position, signal)
    }

    pub(crate) fn pop(&mut self) -> Option<Signal> {
        let (_, signal) = self.in_order.pop_first()?;
        self.positions.remove(&key(&signal));
        Some(signal)
    }

    /// Removes the signal that `id` has terminated, if it is still queued.
    pub(crate) fn remove_terminated(&mut self, id: ActorId) -> Option<Signal> {
        self.positions.remove(&(TERMINATED, id)).and_then(|position| self.in_order.remove(&position))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.in_order.is_empty()
    }
}

const TERMINATED: u8 = 0;

fn key(signal: &Signal) -> (u8, ActorId) {
    match signal {
        Signal::Terminated(terminated) => (TERMINATED, terminated.id),
        Signal::Failure(failure) => (1, failure.actor()),
        Signal::Escalate(failure) => (2, failure.actor()),
    }
}
