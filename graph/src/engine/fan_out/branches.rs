//! [`Branches`]: the lanes of all open fan-outs, the fan-outs themselves, and the queue of ready
//! lanes.
//!
//! With few lanes, all waiting lanes are polled whenever the run is. With many lanes, each has its
//! own waker. The choice is made at the start of a poll and holds for that poll, so that no lane
//! keeps a waker that is not checked.

use crate::engine::fan_out::wakeups::{LaneWaker, POLLED_ALL_MAX, Wakeups};
use crate::engine::lane::{Lane, Phase};
use crate::engine::parked::ParkedLanes;
use crate::error::{Outcome, RunError};
use crate::token::FanOutAt;
use crate::util::work_count;
use pleach_core::BoxFuture;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::vec;

/// All lanes except the root, which has number 0, and their fan-outs.
pub(in crate::engine) struct Branches<S> {
    lanes: Vec<Option<Lane<S>>>,
    free: Vec<usize>,
    /// The index of each lane in the list of its fan-out.
    listed_at: Vec<u32>,
    open: Vec<Option<OpenFanOut<S>>>,
    free_open: Vec<usize>,
    /// The number of open fan-outs with a timer.
    timed: usize,
    /// The lanes that are ready.
    pub(in crate::engine) queue: VecDeque<usize>,
    /// Present after the first time with many lanes.
    wide: Option<ManyLanes>,
    is_wide: bool,
    /// The lanes that only wait.
    pub(in crate::engine) parked: ParkedLanes,
}

struct ManyLanes {
    wakeups: Arc<Wakeups>,
    wakers: Vec<Option<Waker>>,
}

/// A fan-out whose branches have not all ended.
pub(in crate::engine) struct OpenFanOut<S> {
    /// The node where it starts.
    pub(in crate::engine) node: u32,
    /// The lane that forked.
    pub(in crate::engine) parent: usize,
    /// The sequence number of the commit that opened it.
    pub(in crate::engine) sequence: u64,
    /// The path that its branches share.
    pub(in crate::engine) path: Arc<FanOutAt>,
    /// Whether the nodes of its branches run as tasks.
    pub(in crate::engine) spawned: bool,
    /// The state before the fan-out.
    pub(in crate::engine) before: S,
    /// The states of the branches of a `map` that have not started.
    pub(in crate::engine) items: Option<vec::IntoIter<S>>,
    pub(in crate::engine) total: usize,
    /// The next branch to start, unless it was restored.
    pub(in crate::engine) started: usize,
    pub(in crate::engine) running: usize,
    /// The numbers of its lanes, unordered. With this list, the end of one fan-out does not visit
    /// all lanes.
    pub(in crate::engine) lanes: Vec<u32>,
    /// The largest iteration count of its ended branches.
    pub(in crate::engine) iteration: u64,
    /// The branches of a resumed run that need no start, from `started` on, the last first.
    pub(in crate::engine) restored: Vec<usize>,
    /// The results of the branches, in the order of declaration.
    pub(in crate::engine) ended: Vec<Option<Outcome<S>>>,
    pub(in crate::engine) first_error: Option<RunError<S>>,
    pub(in crate::engine) timer: Option<BoxFuture<'static, ()>>,
    /// Set after its branches were cancelled, while nodes of some use their grace.
    pub(in crate::engine) closing: Option<Box<ClosingFanOut<S>>>,
}

/// A cancelled fan-out that ends after its last node in grace.
pub(in crate::engine) struct ClosingFanOut<S> {
    /// The number of its nodes in grace.
    pub(in crate::engine) left: usize,
    /// The numbers in `GraceLanes` that these nodes had when the fan-out was cancelled.
    pub(in crate::engine) in_grace: Vec<usize>,
    /// The error that ends the fan-out. `None` after a timeout, when the results are merged.
    pub(in crate::engine) error: Option<RunError<S>>,
}

impl<S> OpenFanOut<S> {
    /// Returns the number of branches that have not started.
    pub(in crate::engine) fn unstarted(&self) -> usize {
        self.total - self.started - self.restored.len()
    }

    /// Skips branches that an earlier process started.
    pub(in crate::engine) fn skip_restored(&mut self) {
        while self.restored.pop_if(|next| *next == self.started).is_some() {
            self.started += 1;
        }
    }
}

impl<S> Branches<S> {
    pub(in crate::engine) fn new() -> Box<Self> {
        Box::new(Self {
            lanes: Vec::new(),
            free: Vec::new(),
            listed_at: Vec::new(),
            open: Vec::with_capacity(1),
            free_open: Vec::new(),
            timed: 0,
            queue: VecDeque::new(),
            wide: None,
            is_wide: false,
            parked: ParkedLanes::default(),
        })
    }

    pub(in crate::engine) fn lanes(&self) -> impl Iterator<Item = &Lane<S>> {
        self.lanes.iter().flatten()
    }

    /// Returns the number of lane slots. Lanes are numbered from 1.
    pub(in crate::engine) fn places(&self) -> usize {
        self.lanes.len()
    }

    /// Returns a lane without marking it as changed.
    pub(in crate::engine) fn get(&self, number: usize) -> Option<&Lane<S>> {
        self.lanes.get(number - 1)?.as_ref()
    }

    /// Reserves memory for more lanes of a fan-out.
    pub(in crate::engine) fn reserve(&mut self, place: usize, lanes: usize) {
        let new = lanes.saturating_sub(self.free.len());
        self.lanes.reserve(new);
        self.listed_at.reserve(new);
        if let Some(open) = self.opened(place) {
            open.lanes.reserve(lanes);
        }
        self.queue.reserve(lanes);
        self.free.reserve(lanes);
    }

    /// Adds a lane and returns its number.
    pub(in crate::engine) fn add(&mut self, lane: Lane<S>) -> usize {
        let (place, fan_out) = (self.free.pop().unwrap_or(self.lanes.len()), lane.fan_out);
        if place == self.lanes.len() {
            self.lanes.push(Some(lane));
            self.listed_at.push(0);
        } else {
            self.lanes[place] = Some(lane);
        }
        if let Some(open) = fan_out.and_then(|fan_out| self.opened(fan_out.get() as usize - 1)) {
            open.lanes.push(place as u32 + 1);
            self.listed_at[place] = open.lanes.len() as u32 - 1;
        }
        self.parked.touch(place + 1);
        place + 1
    }

    pub(in crate::engine) fn lane(&mut self, number: usize) -> Option<&mut Lane<S>> {
        self.parked.touch(number);
        self.lanes.get_mut(number - 1)?.as_mut()
    }

    /// Removes an ended lane. Returns its fan-out, branch and state. Its fan-out keeps the
    /// iteration count.
    pub(in crate::engine) fn end(&mut self, number: usize) -> Option<((usize, u32), Option<S>)> {
        self.parked.touch(number);
        let slot = self.lanes.get_mut(number - 1)?;
        let lane = slot.as_mut()?;
        let place = lane.fan_out?.get() as usize - 1;
        let (ended, iteration) = (((place, lane.token.branch), lane.state.take()), lane.iteration);
        *slot = None;
        if let Some(open) = self.opened(place) {
            open.iteration = open.iteration.max(iteration);
        }
        self.unlist(number, place);
        self.free(number);
        Some(ended)
    }

    /// Removes a lane that has not ended.
    pub(in crate::engine) fn remove(&mut self, number: usize) -> Option<Lane<S>> {
        self.parked.touch(number);
        let lane = self.lanes.get_mut(number - 1)?.take()?;
        if let Some(fan_out) = lane.fan_out {
            self.unlist(number, fan_out.get() as usize - 1);
        }
        self.free(number);
        Some(lane)
    }

    /// Removes a lane from the list of its fan-out.
    fn unlist(&mut self, number: usize, place: usize) {
        let Some(open) = self.open.get_mut(place).and_then(Option::as_mut) else { return };
        let at = self.listed_at[number - 1] as usize;
        open.lanes.swap_remove(at);
        if let Some(moved) = open.lanes.get(at) {
            self.listed_at[*moved as usize - 1] = at as u32;
        }
    }

    /// Frees the slot of a lane. When all slots are free, they are cleared, because the next
    /// fan-out may be much narrower.
    fn free(&mut self, number: usize) {
        self.free.push(number - 1);
        if self.free.len() == self.lanes.len() {
            self.free.clear();
            self.lanes.clear();
            self.listed_at.clear();
        }
    }

    /// Returns the numbers of the lanes of a fan-out, the lowest first.
    pub(in crate::engine) fn lanes_of(&self, place: usize) -> Vec<usize> {
        let listed = self.open.get(place).and_then(Option::as_ref).map_or(&[][..], |open| &open.lanes);
        work_count::count(listed.len() as u64);
        let mut numbers: Vec<usize> = listed.iter().map(|number| *number as usize).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Returns the numbers of the nodes in grace that a fan-out waited for when it was cancelled.
    /// Some may have ended since.
    pub(in crate::engine) fn in_grace_of(&self, place: usize) -> &[usize] {
        let closing = self.open.get(place).and_then(Option::as_ref).and_then(|open| open.closing.as_ref());
        closing.map_or(&[], |closing| &closing.in_grace)
    }

    pub(in crate::engine) fn open(&mut self, open: OpenFanOut<S>) -> usize {
        self.timed += usize::from(open.timer.is_some());
        let place = self.free_open.pop().unwrap_or(self.open.len());
        if place == self.open.len() {
            self.open.push(Some(open));
        } else {
            self.open[place] = Some(open);
        }
        place
    }

    pub(in crate::engine) fn opened(&mut self, place: usize) -> Option<&mut OpenFanOut<S>> {
        self.open.get_mut(place)?.as_mut()
    }

    /// Returns the indexes where a fan-out with a timer may be.
    pub(in crate::engine) fn timed_places(&self) -> Range<usize> {
        if self.timed > 0 { 0..self.open.len() } else { 0..0 }
    }

    /// Keeps a fan-out open for its nodes in grace. Returns the states that are no longer needed.
    pub(in crate::engine) fn close_later(&mut self, place: usize, closing: ClosingFanOut<S>) -> Option<vec::IntoIter<S>> {
        let open = self.open.get_mut(place)?.as_mut()?;
        self.timed -= usize::from(open.timer.take().is_some());
        open.closing = Some(Box::new(closing));
        open.items.take()
    }

    pub(in crate::engine) fn close(&mut self, place: usize) -> Option<OpenFanOut<S>> {
        let open = self.open.get_mut(place)?.take()?;
        if place + 1 == self.open.len() {
            self.open.pop();
        } else {
            self.free_open.push(place);
        }
        self.timed -= usize::from(open.timer.is_some());
        Some(open)
    }

    /// Returns whether each lane has its own waker.
    pub(in crate::engine) fn is_wide(&self) -> bool {
        self.is_wide
    }

    /// Queues the lanes that may have been woken, at the start of a poll.
    pub(in crate::engine) fn queue_woken(&mut self, task: &Waker) {
        let in_use = self.lanes.len() - self.free.len();
        let was_wide = self.is_wide;
        // A few remaining lanes of many keep their wakers: finding them would visit all slots.
        self.is_wide = in_use > POLLED_ALL_MAX || (was_wide && in_use > 0);
        if self.is_wide && self.wide.is_none() {
            self.wide = Some(ManyLanes { wakeups: Arc::default(), wakers: Vec::new() });
        }
        let woken = self.wide.as_ref().map(|wide| wide.wakeups.take(task));
        match woken {
            Some(woken) if was_wide && self.is_wide => self.queue.extend(woken),
            _ if in_use == 0 => self.queue.clear(),
            _ => {
                let waits = |lane: &Option<Lane<S>>| matches!(lane, Some(lane) if !matches!(lane.phase, Phase::Forked(_)));
                work_count::count(self.lanes.len() as u64);
                self.queue.clear();
                self.queue.extend((1..=self.lanes.len()).filter(|number| waits(&self.lanes[number - 1])));
            }
        }
    }

    /// Returns the next ready lane, with the waker for its poll.
    pub(in crate::engine) fn next<'a>(&'a mut self, cx: &'a Context<'_>) -> Option<(usize, &'a mut Lane<S>, &'a Waker)> {
        let number = loop {
            let number = self.queue.pop_front()?;
            if self.lanes.get(number - 1).is_some_and(Option::is_some) {
                break number;
            }
        };
        work_count::count(1);
        self.parked.touch(number);
        let lane = self.lanes[number - 1].as_mut()?;
        let Some(wide) = self.wide.as_mut().filter(|_| self.is_wide) else { return Some((number, lane, cx.waker())) };
        if wide.wakers.len() < number {
            wide.wakers.resize_with(number, || None);
        }
        let waker = wide.wakers[number - 1].get_or_insert_with(|| LaneWaker::waker(number, &wide.wakeups));
        Some((number, lane, waker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::BranchPath;

    #[test]
    fn c3_a_million_branches_that_need_no_start_are_passed_over() {
        let (total, before, items, first_error, timer) = (1_000_000, (), None, None, None);
        let restored: Vec<usize> = (0..total).filter(|branch| *branch != total / 2).rev().collect();
        let (node, parent, sequence, path, spawned) = (0, 0, 1, BranchPath::default().fan_out(1), false);
        let (started, running, lanes, iteration, ended) = (0, 0, Vec::new(), 0, Vec::new());
        let mut open = OpenFanOut {
            node,
            parent,
            sequence,
            path,
            spawned,
            before,
            items,
            total,
            started,
            running,
            lanes,
            iteration,
            restored,
            ended,
            first_error,
            timer,
            closing: None,
        };
        open.skip_restored();
        assert_eq!((open.started, open.unstarted()), (total / 2, 1));
        open.started += 1;
        open.skip_restored();
        assert_eq!((open.started, open.unstarted()), (total, 0));
    }
}
