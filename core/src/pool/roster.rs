//! `Roster`: which workers a pool has, and for how many it has places. A value that is replaced whole; every change is a pure function.
//!
//! Invariants: workers are in the order of their places, each place is below `size`, and no two share one. A place with no worker is
//! *vacant*: its worker has ended for good, or could not be started.

use super::routing::Worker;
use crate::ActorRef;
use alloc::vec::Vec;

pub(super) struct Roster<M: Send + 'static> {
    pub(super) workers: Vec<Worker<M>>,
    pub(super) size: usize,
}

impl<M: Send + 'static> Roster<M> {
    /// No worker yet, and places for `size`.
    pub(super) fn vacant(size: usize) -> Self {
        Self { workers: Vec::new(), size }
    }

    /// The places that have no worker, or one that has ended.
    pub(super) fn vacancies(&self) -> Vec<usize> {
        let mut taken =
            self.workers.iter().filter(|worker| worker.actor.exit().is_none()).map(|worker| worker.place).peekable();
        (0..self.size).filter(|place| taken.next_if_eq(place).is_none()).collect()
    }

    /// With places for `size`, and the workers that have none any more.
    pub(super) fn resized(&self, size: usize) -> (Self, Vec<Worker<M>>) {
        let (workers, redundant) = self.workers.iter().cloned().partition(|worker| worker.place < size);
        (Self { workers, size }, redundant)
    }

    /// Without `actor`, and the place it had; `None` if it is not here.
    pub(super) fn without(&self, actor: &ActorRef<M>) -> Option<(Self, usize)> {
        let at = self.workers.iter().position(|worker| worker.actor == *actor)?;
        let mut workers = self.workers.clone();
        let left = workers.remove(at);
        Some((Self { workers, size: self.size }, left.place))
    }

    /// With `hired`, which are in the order of their places, and those of them whose place is gone or has somebody else by now.
    pub(super) fn joined_by(&self, hired: &[Worker<M>]) -> (Self, Vec<Worker<M>>) {
        let vacancies = self.vacancies();
        let fits = |worker: &&Worker<M>| vacancies.binary_search(&worker.place).is_ok();
        let (joining, redundant): (Vec<_>, Vec<_>) = hired.iter().partition(fits);
        let stays = |worker: &&Worker<M>| joining.binary_search_by_key(&worker.place, |new| new.place).is_err();
        let mut workers: Vec<_> = self.workers.iter().filter(stays).chain(joining.iter().copied()).cloned().collect();
        workers.sort_unstable_by_key(|worker| worker.place);
        (Self { workers, size: self.size }, redundant.into_iter().cloned().collect())
    }
}
