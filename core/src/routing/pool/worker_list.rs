//! `WorkerList`: which workers a pool has, and for how many it has places. A value that is replaced whole; every change is a pure function.
//!
//! Invariants: workers are in the order of their places, each place is below `size`, and no two share one. A place with no worker is
//! *vacant*: its worker has ended for good, or could not be started. A permanent worker that somebody closed is *away*: it takes no
//! message until its supervisor has restarted it, and keeps its place.

use crate::actor::actor_ref::ActorRef;
use crate::base::visits;
use crate::routing::pool::choice::Worker;
use alloc::vec::Vec;

pub(super) struct WorkerList<M: Send + 'static> {
    pub(super) workers: Vec<Worker<M>>,
    /// In the order of their places too. Nearly always nobody.
    pub(super) away: Vec<Worker<M>>,
    pub(super) size: usize,
}

impl<M: Send + 'static> WorkerList<M> {
    /// No worker yet, and places for `size`.
    pub(super) fn vacant(size: usize) -> Self {
        Self { workers: Vec::new(), away: Vec::new(), size }
    }

    /// All workers that have not ended, in the order of their places.
    pub(super) fn living(&self) -> Vec<&Worker<M>> {
        let all = self.workers.iter().chain(&self.away);
        let mut living: Vec<_> = all.filter(|worker| worker.actor.exit().is_none()).collect();
        if !self.away.is_empty() {
            living.sort_unstable_by_key(|worker| worker.place);
        }
        living
    }

    /// The places that have no worker, or one that has ended.
    pub(super) fn vacancies(&self) -> Vec<usize> {
        let mut taken = self.living().into_iter().map(|worker| worker.place).peekable();
        (0..self.size).filter(|place| taken.next_if_eq(place).is_none()).collect()
    }

    /// With places for `size`, and the workers that have none any more.
    pub(super) fn resized(&self, size: usize) -> (Self, Vec<Worker<M>>) {
        let has_place = |worker: &Worker<M>| worker.place < size;
        let (workers, mut redundant): (Vec<_>, Vec<_>) = self.workers.iter().cloned().partition(has_place);
        let (away, gone): (Vec<_>, Vec<_>) = self.away.iter().cloned().partition(has_place);
        redundant.extend(gone);
        (Self { workers, away, size }, redundant)
    }

    /// Without `actor`, which takes no more messages, and without all others that have ended: after the end of a large pool one look is
    /// enough. Gives the places that are vacant now. `None` if `actor` is not here.
    pub(super) fn without(&self, actor: &ActorRef<M>) -> Option<(Self, Vec<usize>)> {
        visits::visit(self.workers.len());
        self.workers.iter().find(|worker| worker.actor == *actor)?;
        let (mut workers, mut away, mut vacant) = (Vec::with_capacity(self.workers.len()), self.away.clone(), Vec::new());
        for worker in &self.workers {
            if worker.actor != *actor && worker.actor.exit().is_none() {
                workers.push(worker.clone());
            } else if worker.comes_back() {
                away.push(worker.clone());
            } else {
                vacant.push(worker.place);
            }
        }
        away.sort_unstable_by_key(|worker| worker.place);
        Some((Self { workers, away, size: self.size }, vacant))
    }

    /// With those among the workers again that were away and take messages by now; without those that have ended meanwhile. `None` if
    /// there are neither.
    pub(super) fn rejoined(&self) -> Option<(Self, ())> {
        let is_back = |worker: &&Worker<M>| !worker.comes_back() || !worker.actor.cell().mailbox().is_closed();
        let (back, away): (Vec<_>, Vec<_>) = self.away.iter().partition(is_back);
        if back.is_empty() {
            return None;
        }
        let back = back.into_iter().filter(|worker| worker.actor.exit().is_none());
        let mut workers: Vec<_> = self.workers.iter().chain(back).cloned().collect();
        workers.sort_unstable_by_key(|worker| worker.place);
        Some((Self { workers, away: away.into_iter().cloned().collect(), size: self.size }, ()))
    }

    /// With `hired`, which are in the order of their places, and those of them whose place is gone or has somebody else by now.
    pub(super) fn joined_by(&self, hired: &[Worker<M>]) -> (Self, Vec<Worker<M>>) {
        let vacancies = self.vacancies();
        let fits = |worker: &&Worker<M>| vacancies.binary_search(&worker.place).is_ok();
        let (joining, redundant): (Vec<_>, Vec<_>) = hired.iter().partition(fits);
        let stays = |worker: &&Worker<M>| joining.binary_search_by_key(&worker.place, |new| new.place).is_err();
        let mut workers: Vec<_> = self.workers.iter().filter(stays).chain(joining.iter().copied()).cloned().collect();
        workers.sort_unstable_by_key(|worker| worker.place);
        let away = self.away.iter().filter(stays).cloned().collect();
        (Self { workers, away, size: self.size }, redundant.into_iter().cloned().collect())
    }
}
