//! `WorkerList`: which workers a pool has, and for how many it has indices. A value that is replaced whole; every change is a pure function.
//!
//! Invariants: workers are in the order of their indices, each index is below `size`, and no two share one. A index with no worker is
//! *vacant*: its worker has ended for good, or could not be started. A permanent worker that somebody closed is *restarting*: it takes no
//! message until its supervisor has restarted it, and keeps its index.

use crate::actor::actor_ref::ActorRef;
use crate::base::visits;
use crate::routing::pool::choice::Worker;
use alloc::vec::Vec;

pub(super) struct WorkerList<M: Send + 'static> {
    pub(super) workers: Vec<Worker<M>>,
    /// In the order of their indices too. Nearly always nobody.
    pub(super) restarting: Vec<Worker<M>>,
    pub(super) size: usize,
}

impl<M: Send + 'static> WorkerList<M> {
    /// No worker yet, and indices for `size`.
    pub(super) fn vacant(size: usize) -> Self {
        Self { workers: Vec::new(), restarting: Vec::new(), size }
    }

    /// All workers that have not ended, in the order of their indices.
    pub(super) fn living(&self) -> Vec<&Worker<M>> {
        let all = self.workers.iter().chain(&self.restarting);
        let mut living: Vec<_> = all.filter(|worker| worker.actor.exit().is_none()).collect();
        if !self.restarting.is_empty() {
            living.sort_unstable_by_key(|worker| worker.index);
        }
        living
    }

    /// The indices that have no worker, or one that has ended.
    pub(super) fn vacancies(&self) -> Vec<usize> {
        let mut taken = self.living().into_iter().map(|worker| worker.index).peekable();
        (0..self.size).filter(|index| taken.next_if_eq(index).is_none()).collect()
    }

    /// With indices for `size`, and the workers that have none any more.
    pub(super) fn resized(&self, size: usize) -> (Self, Vec<Worker<M>>) {
        let has_index = |worker: &Worker<M>| worker.index < size;
        let (workers, mut redundant): (Vec<_>, Vec<_>) = self.workers.iter().cloned().partition(has_index);
        let (restarting, gone): (Vec<_>, Vec<_>) = self.restarting.iter().cloned().partition(has_index);
        redundant.extend(gone);
        (Self { workers, restarting, size }, redundant)
    }

    /// Without `actor`, which takes no more messages, and without all others that have ended: after the end of a large pool one look is
    /// enough. Gives the indices that are vacant now. `None` if `actor` is not here.
    pub(super) fn without(&self, actor: &ActorRef<M>) -> Option<(Self, Vec<usize>)> {
        visits::visit(self.workers.len());
        self.workers.iter().find(|worker| worker.actor == *actor)?;
        let (mut workers, mut restarting, mut vacant) =
            (Vec::with_capacity(self.workers.len()), self.restarting.clone(), Vec::new());
        for worker in &self.workers {
            if worker.actor != *actor && worker.actor.exit().is_none() {
                workers.push(worker.clone());
            } else if worker.will_restart() {
                restarting.push(worker.clone());
            } else {
                vacant.push(worker.index);
            }
        }
        restarting.sort_unstable_by_key(|worker| worker.index);
        Some((Self { workers, restarting, size: self.size }, vacant))
    }

    /// With those among the workers again that were restarting and take messages by now; without those that have ended meanwhile. `None` if
    /// there are neither.
    pub(super) fn rejoined(&self) -> Option<(Self, ())> {
        let is_back = |worker: &&Worker<M>| !worker.will_restart() || !worker.actor.cell().mailbox().is_closed();
        let (back, restarting): (Vec<_>, Vec<_>) = self.restarting.iter().partition(is_back);
        if back.is_empty() {
            return None;
        }
        let back = back.into_iter().filter(|worker| worker.actor.exit().is_none());
        let mut workers: Vec<_> = self.workers.iter().chain(back).cloned().collect();
        workers.sort_unstable_by_key(|worker| worker.index);
        Some((Self { workers, restarting: restarting.into_iter().cloned().collect(), size: self.size }, ()))
    }

    /// With `started`, which are in the order of their indices, and those of them whose index is gone or has somebody else by now.
    pub(super) fn joined_by(&self, started: &[Worker<M>]) -> (Self, Vec<Worker<M>>) {
        let vacancies = self.vacancies();
        let fits = |worker: &&Worker<M>| vacancies.binary_search(&worker.index).is_ok();
        let (joining, redundant): (Vec<_>, Vec<_>) = started.iter().partition(fits);
        let stays = |worker: &&Worker<M>| joining.binary_search_by_key(&worker.index, |new| new.index).is_err();
        let mut workers: Vec<_> = self.workers.iter().filter(stays).chain(joining.iter().copied()).cloned().collect();
        workers.sort_unstable_by_key(|worker| worker.index);
        let restarting = self.restarting.iter().filter(stays).cloned().collect();
        (Self { workers, restarting, size: self.size }, redundant.into_iter().cloned().collect())
    }
}
