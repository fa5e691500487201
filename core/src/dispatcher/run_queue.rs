//! [`RunQueue`]: all tasks, the ready ones, the timers, and the choice of the next task.
//!
//! It is plain data behind the scheduler's lock. Its methods return wakers and tasks that the
//! caller wakes or drops outside of that lock.

use crate::base::runtime::{Random, SleepSlot};
use crate::base::sorted;
use crate::base::sorted::SortedMap;
use crate::base::sync::Arc;
use crate::base::time::Instant;
use crate::base::wakers::{TakenWakers, Wakers};
use crate::dispatcher::spawned_task::SpawnedTask;
use crate::dispatcher::{Ready, Step};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::task::Waker;

/// The numbers of observers are above this.
const FIRST_OBSERVER: u64 = 1 << 63;

/// How many timers of each task a sealed system has room for.
const SLEEPS_PER_TASK: usize = 4;

pub(super) struct RunQueue {
    pub(super) tasks: SortedMap<u64, Arc<SpawnedTask>>,
    last_task: u64,
    last_observer: u64,
    pub(super) drivers: Wakers,
    pub(super) random: Random,
    pub(super) now: Instant,
    pub(super) polls: u64,
    pub(super) trace: u64,
    pub(super) steps: Option<Vec<Step>>,
    pub(super) is_closed: bool,
    /// The future of a simulation is ready to be polled.
    pub(super) main: bool,
    seeded: bool,
    control: VecDeque<Ready>,
    ready: VecDeque<Ready>,
    /// Ready observers. They run before the next choice, in order, and are in no trace.
    observers: VecDeque<Ready>,
    timers: SortedMap<(Instant, u64), Waker>,
    last_timer: u64,
}

impl RunQueue {
    pub(super) fn fifo() -> Self {
        Self::new(false, 0)
    }

    pub(super) fn seeded(seed: u64) -> Self {
        Self::new(true, seed)
    }

    fn new(seeded: bool, seed: u64) -> Self {
        Self {
            tasks: SortedMap::new(),
            last_task: 0,
            last_observer: 0,
            drivers: Wakers::default(),
            random: Random::seeded(seed),
            now: Instant::ZERO,
            polls: 0,
            trace: seed,
            steps: None,
            is_closed: false,
            main: false,
            seeded,
            control: VecDeque::new(),
            ready: VecDeque::new(),
            observers: VecDeque::new(),
            timers: SortedMap::new(),
            last_timer: 0,
        }
    }

    /// Adds a ready task. Control goes first, except in a simulation, which must try every order.
    pub(super) fn push(&mut self, ready: Ready, control: bool) {
        match ready {
            Ready::Main => self.main = true,
            Ready::Task(ref task) if task.is_observer => self.observers.push_back(ready),
            Ready::Task(_) if control && !self.seeded => self.control.push_back(ready),
            Ready::Task(_) => self.ready.push_back(ready),
        }
    }

    /// Reserves room for all present tasks to be ready, each with [`SLEEPS_PER_TASK`] timers.
    pub(super) fn reserve(&mut self) {
        let tasks = self.tasks.len();
        self.ready.reserve(tasks.saturating_sub(self.ready.len()));
        self.control.reserve(tasks.saturating_sub(self.control.len()));
        sorted::reserve(&mut self.timers, tasks * SLEEPS_PER_TASK);
    }

    /// Returns the number of a new task. Observers have numbers of their own, so that they do not
    /// change the numbers of other tasks.
    pub(super) fn next_id(&mut self, is_observer: bool) -> u64 {
        if is_observer {
            self.last_observer += 1;
            return FIRST_OBSERVER + self.last_observer;
        }
        self.last_task += 1;
        self.last_task
    }

    /// Takes the next ready observer.
    pub(super) fn pop_observer(&mut self) -> Option<Ready> {
        self.observers.pop_front()
    }

    /// Chooses what runs next. Without `with_main` the future of a simulation stays queued: it may
    /// itself be driving the other tasks.
    pub(super) fn pick(&mut self, with_main: bool) -> Option<Ready> {
        let tasks = self.ready.len();
        let main = with_main && self.main;
        let picked = if self.seeded {
            // No number is used up without a choice: how often time stops must not change the
            // schedule, because observers set timers too.
            if tasks == 0 && !main {
                return None;
            }
            let at = self.random.below(tasks + usize::from(main));
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
                Ready::Task(task) => task.id,
                Ready::Main => 0,
            };
            self.mix(task);
            let step = Step { task, at: self.now };
            self.steps.iter_mut().for_each(|steps| steps.push(step));
        }
        Some(picked)
    }

    pub(super) fn is_ready(&self) -> bool {
        !self.control.is_empty() || !self.ready.is_empty() || !self.observers.is_empty()
    }

    /// Mixes a number and the current time into the trace.
    pub(super) fn mix(&mut self, what: u64) {
        let time = self.now.since_start().as_nanos() as u64;
        self.trace = Random::seeded(self.trace ^ what.rotate_left(32) ^ time).next_u64();
    }

    /// Sets a timer that wakes `waker`. Returns the replaced waker for the caller to drop, and the
    /// drivers to wake if the timer is new and the earliest.
    pub(super) fn set_timer(&mut self, sleep: &mut SleepSlot, waker: Waker) -> (Option<Waker>, TakenWakers) {
        if sleep.key == 0 {
            self.last_timer += 1;
            sleep.key = self.last_timer;
        }
        let timer_key = (sleep.at, sleep.key);
        let replaced = self.timers.insert(timer_key, waker);
        let is_earliest = replaced.is_none() && self.timers.first_key_value().is_some_and(|(first, _)| *first == timer_key);
        (replaced, if is_earliest { self.drivers.take() } else { None })
    }

    pub(super) fn drop_timer(&mut self, sleep: &SleepSlot) -> Option<Waker> {
        if sleep.key == 0 { None } else { self.timers.remove(&(sleep.at, sleep.key)) }
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the first timer that is due.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Waker> {
        self.next_timer().filter(|at| *at <= now)?;
        self.timers.pop_first().map(|(_, waker)| waker)
    }

    /// Rejects further tasks and returns everything in the queue, for the caller to drop.
    #[allow(clippy::type_complexity, reason = "three collections, named where they are taken apart")]
    pub(super) fn close(&mut self) -> (SortedMap<u64, Arc<SpawnedTask>>, VecDeque<Ready>, SortedMap<(Instant, u64), Waker>) {
        self.is_closed = true;
        let mut ready = core::mem::take(&mut self.ready);
        ready.append(&mut self.control);
        ready.append(&mut self.observers);
        (core::mem::take(&mut self.tasks), ready, core::mem::take(&mut self.timers))
    }
}
