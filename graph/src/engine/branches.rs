//! `Branches`: the lanes of all open fan-outs, the fan-outs themselves, and which lanes can go on.
//!
//! While there are few lanes, all that wait are polled whenever the run is. Once there are many, each has a waker of its own.
//! Which of the two it is is settled at the beginning of a poll and holds for all of it, so that no lane is left with a waker
//! that nobody looks at.

use super::Outcome;
use super::lane::{Lane, Phase};
use super::parked::Parked;
use super::wakeups::{LaneWaker, POLLED_ALL_MAX, Wakeups};
use crate::counted;
use crate::error::RunError;
use crate::token::FanOutAt;
use pleach_core::BoxFuture;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::vec;

/// All lanes but the root, which is number 0, and the fan-outs they are branches of.
pub(super) struct Branches<S> {
    lanes: Vec<Option<Lane<S>>>,
    free: Vec<usize>,
    open: Vec<Option<Open<S>>>,
    free_open: Vec<usize>,
    /// How many of the open ones have a timer.
    timed: usize,
    /// The lanes that can go on now.
    pub(super) queue: VecDeque<usize>,
    /// There once there were many lanes.
    wide: Option<Wide>,
    is_wide: bool,
    /// The lanes that do nothing but wait.
    pub(super) parked: Parked,
}

struct Wide {
    wakeups: Arc<Wakeups>,
    wakers: Vec<Option<Waker>>,
}

/// A fan-out whose branches have not all ended.
pub(super) struct Open<S> {
    /// The node it starts from.
    pub(super) node: u32,
    /// The lane that forked.
    pub(super) parent: usize,
    /// The commit that opened it.
    pub(super) sequence: u64,
    /// Where its branches stand.
    pub(super) path: Arc<FanOutAt>,
    /// Whether their nodes run as tasks.
    pub(super) spawned: bool,
    /// The state before it.
    pub(super) before: S,
    /// The states of branches of a `map` that are still to be started.
    pub(super) items: Option<vec::IntoIter<S>>,
    pub(super) total: usize,
    /// The next to be started, if it was not restored.
    pub(super) started: usize,
    pub(super) running: usize,
    /// How many visits led to the end of a branch that has ended, the most.
    pub(super) iteration: u64,
    /// The branches of a resumed run that need no start, from `started` on, the last first.
    pub(super) restored: Vec<usize>,
    /// How the branches ended, in the order in which they were declared.
    pub(super) ended: Vec<Option<Outcome<S>>>,
    pub(super) first_error: Option<RunError<S>>,
    pub(super) timer: Option<BoxFuture<'static, ()>>,
    /// Its branches were cut off, and nodes of some run on for their grace.
    pub(super) closing: Option<Box<Closing<S>>>,
}

/// A fan-out that ends once its last node in grace has.
pub(super) struct Closing<S> {
    /// How many such nodes there are.
    pub(super) left: usize,
    /// With which failure it ends; without one, its time was up, and it is merged.
    pub(super) error: Option<RunError<S>>,
}

impl<S> Open<S> {
    /// How many branches have not been started.
    pub(super) fn unstarted(&self) -> usize {
        self.total - self.started - self.restored.len()
    }

    /// Passes over branches that an earlier process started.
    pub(super) fn skip_restored(&mut self) {
        while self.restored.pop_if(|next| *next == self.started).is_some() {
            self.started += 1;
        }
    }
}

impl<S> Branches<S> {
    pub(super) fn new() -> Box<Self> {
        Box::new(Self {
            lanes: Vec::new(),
            free: Vec::new(),
            open: Vec::with_capacity(1),
            free_open: Vec::new(),
            timed: 0,
            queue: VecDeque::new(),
            wide: None,
            is_wide: false,
            parked: Parked::default(),
        })
    }

    pub(super) fn lanes(&self) -> impl Iterator<Item = &Lane<S>> {
        self.lanes.iter().flatten()
    }

    /// How many places for lanes there are. They are numbered from 1.
    pub(super) fn places(&self) -> usize {
        self.lanes.len()
    }

    /// A lane that is only looked at.
    pub(super) fn see(&self, number: usize) -> Option<&Lane<S>> {
        self.lanes.get(number - 1)?.as_ref()
    }

    /// Makes room for so many more lanes.
    pub(super) fn reserve(&mut self, lanes: usize) {
        self.lanes.reserve(lanes.saturating_sub(self.free.len()));
        self.queue.reserve(lanes);
        self.free.reserve(lanes);
    }

    /// Adds a lane, and gives its number.
    pub(super) fn add(&mut self, lane: Lane<S>) -> usize {
        let place = self.free.pop().unwrap_or(self.lanes.len());
        if place == self.lanes.len() {
            self.lanes.push(Some(lane));
        } else {
            self.lanes[place] = Some(lane);
        }
        self.parked.touch(place + 1);
        place + 1
    }

    pub(super) fn lane(&mut self, number: usize) -> Option<&mut Lane<S>> {
        self.parked.touch(number);
        self.lanes.get_mut(number - 1)?.as_mut()
    }

    /// Lets go of a lane that has ended, and gives its place and branch, and its state. Its fan-out remembers how many visits it had.
    pub(super) fn end(&mut self, number: usize) -> Option<((usize, u32), Option<S>)> {
        self.parked.touch(number);
        let slot = self.lanes.get_mut(number - 1)?;
        let lane = slot.as_mut()?;
        let place = lane.home?.get() as usize - 1;
        let (ended, iteration) = (((place, lane.token.branch), lane.state.take()), lane.iteration);
        *slot = None;
        if let Some(open) = self.opened(place) {
            open.iteration = open.iteration.max(iteration);
        }
        self.free(number);
        Some(ended)
    }

    /// Takes out a lane that has not ended.
    pub(super) fn remove(&mut self, number: usize) -> Option<Lane<S>> {
        self.parked.touch(number);
        let lane = self.lanes.get_mut(number - 1)?.take()?;
        self.free(number);
        Some(lane)
    }

    /// The place of a lane is free. Once all are, none is kept: the next fan-out may be much narrower.
    fn free(&mut self, number: usize) {
        self.free.push(number - 1);
        if self.free.len() == self.lanes.len() {
            self.free.clear();
            self.lanes.clear();
        }
    }

    /// The numbers of the lanes of each open fan-out, by its place.
    pub(super) fn lanes_by_place(&self) -> HashMap<usize, Vec<usize>> {
        let mut by_place: HashMap<usize, Vec<usize>> = HashMap::new();
        counted::visit(self.lanes.len() as u64);
        for (at, lane) in self.lanes.iter().enumerate() {
            if let Some(Lane { home: Some(home), .. }) = lane {
                by_place.entry(home.get() as usize - 1).or_default().push(at + 1);
            }
        }
        by_place
    }

    pub(super) fn open(&mut self, open: Open<S>) -> usize {
        self.timed += usize::from(open.timer.is_some());
        let place = self.free_open.pop().unwrap_or(self.open.len());
        if place == self.open.len() {
            self.open.push(Some(open));
        } else {
            self.open[place] = Some(open);
        }
        place
    }

    pub(super) fn opened(&mut self, place: usize) -> Option<&mut Open<S>> {
        self.open.get_mut(place)?.as_mut()
    }

    /// The places where an open fan-out with a timer may be.
    pub(super) fn timed_places(&self) -> Range<usize> {
        if self.timed > 0 { 0..self.open.len() } else { 0..0 }
    }

    /// Lets a fan-out whose branches are gone wait for nodes in their grace. Gives what is not needed meanwhile.
    pub(super) fn close_later(&mut self, place: usize, closing: Closing<S>) -> Option<vec::IntoIter<S>> {
        let open = self.open.get_mut(place)?.as_mut()?;
        self.timed -= usize::from(open.timer.take().is_some());
        open.closing = Some(Box::new(closing));
        open.items.take()
    }

    pub(super) fn close(&mut self, place: usize) -> Option<Open<S>> {
        let open = self.open.get_mut(place)?.take()?;
        if place + 1 == self.open.len() {
            self.open.pop();
        } else {
            self.free_open.push(place);
        }
        self.timed -= usize::from(open.timer.is_some());
        Some(open)
    }

    /// Whether each lane is polled with a waker of its own.
    pub(super) fn is_wide(&self) -> bool {
        self.is_wide
    }

    /// At the beginning of a poll: whoever may have been woken can go on.
    pub(super) fn queue_what_waits(&mut self, task: &Waker) {
        let in_use = self.lanes.len() - self.free.len();
        let was_wide = self.is_wide;
        // When few of many are left, they keep their wakers: to look for them among all places would cost as much as all.
        self.is_wide = in_use > POLLED_ALL_MAX || (was_wide && in_use > 0);
        if self.is_wide && self.wide.is_none() {
            self.wide = Some(Wide { wakeups: Arc::default(), wakers: Vec::new() });
        }
        let woken = self.wide.as_ref().map(|wide| wide.wakeups.take(task));
        match woken {
            Some(woken) if was_wide && self.is_wide => self.queue.extend(woken),
            _ if in_use == 0 => self.queue.clear(),
            _ => {
                let waits = |lane: &Option<Lane<S>>| matches!(lane, Some(lane) if !matches!(lane.phase, Phase::Forked(_)));
                counted::visit(self.lanes.len() as u64);
                self.queue.clear();
                self.queue.extend((1..=self.lanes.len()).filter(|number| waits(&self.lanes[number - 1])));
            }
        }
    }

    /// The next lane that can go on, with the waker that it is to be polled with.
    pub(super) fn next<'a>(&'a mut self, cx: &'a Context<'_>) -> Option<(usize, &'a mut Lane<S>, &'a Waker)> {
        let number = loop {
            let number = self.queue.pop_front()?;
            if self.lanes.get(number - 1).is_some_and(Option::is_some) {
                break number;
            }
        };
        counted::visit(1);
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
        let (started, running, iteration, ended) = (0, 0, 0, Vec::new());
        let mut open = Open {
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
