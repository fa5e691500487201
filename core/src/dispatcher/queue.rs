//! `Queue`: what is ready, what sleeps, and which comes next.

use crate::base::runtime::Random;
use crate::base::time::Instant;
use crate::base::wakers::{Taken, Wakers};
use crate::dispatcher::job::Job;
use crate::dispatcher::{Ready, Step};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::Waker;

pub(super) struct Queue {
    pub(super) jobs: BTreeMap<u64, Arc<Job>>,
    pub(super) last_job: u64,
    pub(super) drivers: Wakers,
    pub(super) random: Random,
    pub(super) now: Instant,
    pub(super) polls: u64,
    pub(super) trace: u64,
    pub(super) steps: Option<Vec<Step>>,
    pub(super) is_shut: bool,
    /// The future a simulation runs for is ready.
    pub(super) main: bool,
    seeded: bool,
    control: VecDeque<Ready>,
    ready: VecDeque<Ready>,
    timers: BTreeMap<(Instant, u64), Waker>,
    last_timer: u64,
}

/// One sleep: when it ends, and its key once it is in the queue.
pub(super) struct Timer {
    pub(super) at: Instant,
    key: Option<u64>,
}

impl Timer {
    pub(super) fn at(at: Instant) -> Self {
        Self { at, key: None }
    }
}

impl Queue {
    pub(super) fn in_order() -> Self {
        Self::new(false, 0)
    }

    pub(super) fn seeded(seed: u64) -> Self {
        Self::new(true, seed)
    }

    fn new(seeded: bool, seed: u64) -> Self {
        Self {
            jobs: BTreeMap::new(),
            last_job: 0,
            drivers: Wakers::default(),
            random: Random::seeded(seed),
            now: Instant::ZERO,
            polls: 0,
            trace: seed,
            steps: None,
            is_shut: false,
            main: false,
            seeded,
            control: VecDeque::new(),
            ready: VecDeque::new(),
            timers: BTreeMap::new(),
            last_timer: 0,
        }
    }

    /// Control goes first, except in a simulation, which must try every order.
    pub(super) fn push(&mut self, ready: Ready, control: bool) {
        match ready {
            Ready::Main => self.main = true,
            Ready::Job(_) if control && !self.seeded => self.control.push_back(ready),
            Ready::Job(_) => self.ready.push_back(ready),
        }
    }

    /// What runs next. The future a simulation runs for stays where it is if nobody is there to poll it: it may itself be driving the
    /// others.
    pub(super) fn pick(&mut self, with_main: bool) -> Option<Ready> {
        let jobs = self.ready.len();
        let main = with_main && self.main;
        let picked = if self.seeded {
            let at = self.random.below(jobs + usize::from(main));
            self.ready.swap_remove_back(at)
        } else {
            self.control.pop_front().or_else(|| self.ready.pop_front())
        };
        if picked.is_none() && main {
            self.main = false;
        }
        let picked = picked.or(main.then_some(Ready::Main))?;
        self.polls += 1;
        if self.seeded {
            let task = match &picked {
                Ready::Job(job) => job.id,
                Ready::Main => 0,
            };
            self.mix(task);
            let step = Step { task, at: self.now };
            self.steps.iter_mut().for_each(|steps| steps.push(step));
        }
        Some(picked)
    }

    pub(super) fn is_ready(&self) -> bool {
        !self.control.is_empty() || !self.ready.is_empty()
    }

    /// Mixes a number and the time into the trace.
    pub(super) fn mix(&mut self, what: u64) {
        let time = self.now.since_start().as_nanos() as u64;
        self.trace = Random::seeded(self.trace ^ what.rotate_left(32) ^ time).next_u64();
    }

    /// Sets a timer that wakes `waker`. Gives the waker that it replaces, for the caller to drop, and the drivers to wake if it is a new
    /// one and the earliest of all.
    pub(super) fn set_timer(&mut self, timer: &mut Timer, waker: Waker) -> (Option<Waker>, Taken) {
        let key = *timer.key.get_or_insert_with(|| {
            self.last_timer += 1;
            self.last_timer
        });
        let place = (timer.at, key);
        let replaced = self.timers.insert(place, waker);
        let is_news = replaced.is_none() && self.timers.first_key_value().is_some_and(|(first, _)| *first == place);
        (replaced, if is_news { self.drivers.take() } else { None })
    }

    pub(super) fn drop_timer(&mut self, timer: &Timer) -> Option<Waker> {
        timer.key.and_then(|key| self.timers.remove(&(timer.at, key)))
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Waker> {
        let mut due = Vec::new();
        while self.next_timer().is_some_and(|at| at <= now) {
            due.extend(self.timers.pop_first().map(|(_, waker)| waker));
        }
        due
    }

    /// Takes nothing more, and gives up all it holds.
    #[allow(clippy::type_complexity, reason = "three collections, named where they are taken apart")]
    pub(super) fn shut(&mut self) -> (BTreeMap<u64, Arc<Job>>, VecDeque<Ready>, BTreeMap<(Instant, u64), Waker>) {
        self.is_shut = true;
        let mut ready = core::mem::take(&mut self.ready);
        ready.append(&mut self.control);
        (core::mem::take(&mut self.jobs), ready, core::mem::take(&mut self.timers))
    }
}
