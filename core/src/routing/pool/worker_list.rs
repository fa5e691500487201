//! `WorkerList`: the workers of a pool and the number of its indices.
//!
//! An immutable value. Every change is a pure function that returns a new list.
//!
//! Invariants:
//! 1. Workers are sorted by index. Each index is below `size` and used at most once.
//! 2. An index without a worker is *vacant*: its worker has ended permanently, or could not be
//!    started.
//! 3. A permanent worker that was closed through its address is *restarting*: it gets no message
//!    until its supervisor has restarted it, and keeps its index.

use crate::actor::actor_ref::ActorRef;
use crate::base::sorted::sort_by_key;
use crate::base::work_count;
use crate::routing::pool::choice::Worker;
use alloc::vec::Vec;

pub(super) struct WorkerList<M: Send + 'static> {
    pub(super) workers: Vec<Worker<M>>,
    /// Sorted by index. Almost always empty.
    pub(super) restarting: Vec<Worker<M>>,
    pub(super) size: usize,
}

impl<M: Send + 'static> WorkerList<M> {
    /// Returns a list of `size` vacant indices.
    pub(super) fn vacant(size: usize) -> Self {
        Self { workers: Vec::new(), restarting: Vec::new(), size }
    }

    /// Returns all workers that have not ended, sorted by index.
    pub(super) fn living(&self) -> Vec<&Worker<M>> {
        let all = self.workers.iter().chain(&self.restarting);
        let mut living: Vec<_> = all.filter(|worker| worker.actor.exit().is_none()).collect();
        if !self.restarting.is_empty() {
            sort_by_key(&mut living, |worker| worker.index);
        }
        living
    }

    /// Returns the indices without a worker, or with an ended one.
    pub(super) fn vacancies(&self) -> Vec<usize> {
        let mut taken = self.living().into_iter().map(|worker| worker.index).peekable();
        (0..self.size).filter(|index| taken.next_if_eq(index).is_none()).collect()
    }

    /// Returns a list with `size` indices, and the workers that have none any more.
    pub(super) fn resized(&self, size: usize) -> (Self, Vec<Worker<M>>) {
        let has_index = |worker: &Worker<M>| worker.index < size;
        let (workers, mut redundant): (Vec<_>, Vec<_>) = self.workers.iter().cloned().partition(has_index);
        let (restarting, gone): (Vec<_>, Vec<_>) = self.restarting.iter().cloned().partition(has_index);
        redundant.extend(gone);
        (Self { workers, restarting, size }, redundant)
    }

    /// Returns the list without `actor`, which accepts no more messages, and without all ended
    /// workers, together with the new vacant indices. `None` if `actor` is not in the list.
    ///
    /// Removing all ended workers at once keeps the end of a large pool linear.
    pub(super) fn without(&self, actor: &ActorRef<M>) -> Option<(Self, Vec<usize>)> {
        work_count::count(self.workers.len());
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
        sort_by_key(&mut restarting, |worker| worker.index);
        Some((Self { workers, restarting, size: self.size }, vacant))
    }

    /// Returns the list with the restarted workers back in place, and without the ended
    /// ones. `None` if nothing changes.
    pub(super) fn rejoined(&self) -> Option<(Self, ())> {
        let is_back = |worker: &&Worker<M>| !worker.will_restart() || !worker.actor.cell().any().mailbox().is_closed();
        let (back, restarting): (Vec<_>, Vec<_>) = self.restarting.iter().partition(is_back);
        if back.is_empty() {
            return None;
        }
        let back = back.into_iter().filter(|worker| worker.actor.exit().is_none());
        let mut workers: Vec<_> = self.workers.iter().chain(back).cloned().collect();
        sort_by_key(&mut workers, |worker| worker.index);
        Some((Self { workers, restarting: restarting.into_iter().cloned().collect(), size: self.size }, ()))
    }

    /// Adds `started`, which is sorted by index. Also returns the workers whose index is gone or in
    /// use.
    pub(super) fn joined_by(&self, started: &[Worker<M>]) -> (Self, Vec<Worker<M>>) {
        let vacancies = self.vacancies();
        let fits = |worker: &&Worker<M>| vacancies.binary_search(&worker.index).is_ok();
        let (joining, redundant): (Vec<_>, Vec<_>) = started.iter().partition(fits);
        let stays = |worker: &&Worker<M>| joining.binary_search_by_key(&worker.index, |new| new.index).is_err();
        let mut workers: Vec<_> = self.workers.iter().filter(stays).chain(joining.iter().copied()).cloned().collect();
        sort_by_key(&mut workers, |worker| worker.index);
        let restarting = self.restarting.iter().filter(stays).cloned().collect();
        (Self { workers, restarting, size: self.size }, redundant.into_iter().cloned().collect())
    }
}
