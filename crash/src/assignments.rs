//! [`Assignments`]: which runs exist, which processes drive them, and what a free driver does next.
//! Pure; the ledger keeps it under its lock.

use crate::graph::{State, Variant};
use crate::report::{Ending, Reply};
use pleach::runtime::Random;
use std::collections::BTreeMap;

/// How often, in percent, a driver gets a run that another one drives.
const SHARED_PERCENT: usize = 8;
/// How often, in percent, such a run, or one whose driver died, is taken over by force.
const FORCED_PERCENT: usize = 30;
/// Every n-th run for workers is long enough to be pruned.
const LONG_EVERY: usize = 8;

/// A run as seen from outside.
#[derive(Debug)]
pub struct TrackedRun {
    pub variant: Variant,
    pub set: String,
    /// The processes that drive it or try to.
    pub drivers: Vec<u32>,
    /// Whether it is in the store.
    pub is_created: bool,
    /// Whether it waits for an answer.
    pub is_paused: bool,
    pub is_done: bool,
    /// Whether it was taken by force from a live driver.
    pub was_forced: bool,
    is_to_be_forced: bool,
    /// Whether another driver may get it although it is driven.
    is_shared: bool,
    pub state: Option<State>,
    /// How often a driver has stopped driving it.
    pub endings: u32,
    /// The errors of its drivers.
    pub errors: Vec<String>,
}

/// A set of runs. Its drivers get no other runs.
enum RunSet {
    /// A single run.
    Single,
    /// An endless number of runs: the number of the next new run, or `None` once no more are added.
    Endless(Option<u64>),
    /// Runs that workers find in the store, and whether more will follow.
    ForWorkers(bool),
}

pub struct Assignments {
    pub runs: BTreeMap<String, TrackedRun>,
    sets: BTreeMap<String, RunSet>,
    random: Random,
}

impl Assignments {
    pub fn new(seed: u64) -> Self {
        Self { runs: BTreeMap::new(), sets: BTreeMap::new(), random: Random::seeded(seed) }
    }

    /// Adds a single run, unless it exists.
    pub fn add_single(&mut self, run: &str, variant: Variant) {
        if self.runs.contains_key(run) {
            return;
        }
        self.sets.insert(run.into(), RunSet::Single);
        self.add(run.into(), run, variant);
    }

    /// Adds an endless set, until it is closed.
    pub fn add_endless(&mut self, set: &str) {
        self.sets.insert(set.into(), RunSet::Endless(Some(1)));
    }

    /// Adds a set of runs that workers find in the store; see
    /// [`add_run_for_workers`](Self::add_run_for_workers).
    pub fn add_for_workers(&mut self, set: &str) {
        self.sets.insert(set.into(), RunSet::ForWorkers(true));
    }

    /// Adds a new run for the workers of a set.
    pub fn add_run_for_workers(&mut self, set: &str) -> (String, Variant) {
        let run = format!("{set}-{}", self.runs.len());
        let variant = match self.random.below(10) {
            _ if self.runs.len().is_multiple_of(LONG_EVERY) => Variant::Long,
            0 => Variant::Undone,
            1 => Variant::Refused,
            _ => Variant::Full,
        };
        self.add(run.clone(), set, variant);
        (run, variant)
    }

    /// Records that a process has claimed a run.
    pub fn claimed(&mut self, pid: u32, run: &str) {
        if let Some(tracked) = self.runs.get_mut(run) {
            tracked.is_created = true;
            if !tracked.drivers.contains(&pid) {
                tracked.drivers.push(pid);
            }
        }
    }

    /// Adds no more runs to the set; existing ones are driven to their end.
    pub fn close(&mut self, set: &str) {
        match self.sets.get_mut(set) {
            Some(RunSet::Endless(next)) => *next = None,
            Some(RunSet::ForWorkers(is_open)) => *is_open = false,
            Some(RunSet::Single) | None => {}
        }
    }

    fn add(&mut self, run: String, set: &str, variant: Variant) {
        let tracked = TrackedRun {
            variant,
            set: set.into(),
            drivers: Vec::new(),
            is_created: false,
            is_paused: false,
            is_done: false,
            was_forced: false,
            is_to_be_forced: false,
            is_shared: false,
            state: None,
            endings: 0,
            errors: Vec::new(),
        };
        self.runs.insert(run, tracked);
    }

    /// Forgets the drivers of a run. The next driver takes it over by force.
    pub fn force_next(&mut self, run: &str) {
        if let Some(tracked) = self.runs.get_mut(run) {
            tracked.drivers.clear();
            tracked.is_to_be_forced = true;
        }
    }

    pub fn is_done(&self, set: &str) -> bool {
        self.runs.values().all(|tracked| tracked.set != set || tracked.is_done)
    }

    /// The runs that a process drives.
    pub fn runs_of(&self, pid: u32) -> Vec<String> {
        self.runs.iter().filter(|(_, tracked)| tracked.drivers.contains(&pid)).map(|(run, _)| run.clone()).collect()
    }

    /// A process is stopped: other drivers may get its runs.
    pub fn share(&mut self, pid: u32) {
        self.runs.values_mut().filter(|tracked| tracked.drivers == [pid]).for_each(|tracked| tracked.is_shared = true);
    }

    /// Removes a dead process.
    pub fn died(&mut self, pid: u32) {
        self.runs.values_mut().for_each(|tracked| tracked.drivers.retain(|driver| *driver != pid));
    }

    /// What a process does next. It can ask for runs of one variant.
    pub fn next(&mut self, pid: u32, set: &str, preferred: Option<Variant>) -> Reply {
        if let Some(RunSet::ForWorkers(is_open)) = self.sets.get(set) {
            return if *is_open || !self.is_done(set) { Reply::Idle } else { Reply::Quit };
        }
        let is_endless = matches!(self.sets.get(set), Some(RunSet::Endless(Some(_))));
        let may_share = is_endless && self.random.below(100) < SHARED_PERCENT;
        let open = |tracked: &TrackedRun| tracked.set == set && !tracked.is_done;
        let is_preferred = |tracked: &TrackedRun| preferred.is_none_or(|preferred| tracked.variant == preferred);
        let is_free = |tracked: &TrackedRun| {
            let shares = (may_share || tracked.is_shared) && tracked.is_created && !tracked.drivers.contains(&pid);
            tracked.drivers.is_empty() || shares
        };
        let mut found: Vec<&String> = self
            .runs
            .iter()
            .filter(|(_, tracked)| open(tracked) && is_free(tracked) && is_preferred(tracked))
            .map(|(run, _)| run)
            .collect();
        if may_share {
            found.sort_by_key(|run| self.runs[*run].drivers.is_empty());
        }
        if let Some(run) = found.first() {
            return self.assign(pid, &run.to_string());
        }
        let Some(RunSet::Endless(Some(number))) = self.sets.get_mut(set) else {
            let may_get_others = preferred.is_some() && !self.is_done(set);
            return if may_get_others {
                self.next(pid, set, None)
            } else if self.is_done(set) {
                Reply::Quit
            } else {
                Reply::Idle
            };
        };
        let run = format!("{set}-{number}");
        *number += 1;
        let by_chance = match self.random.below(10) {
            0 => Variant::Long,
            1 => Variant::Undone,
            2 => Variant::Refused,
            _ => Variant::Full,
        };
        let variant = preferred.unwrap_or(by_chance);
        self.add(run.clone(), set, variant);
        self.assign(pid, &run)
    }

    fn assign(&mut self, pid: u32, run: &str) -> Reply {
        let by_chance = self.random.below(100) < FORCED_PERCENT;
        let tracked = self.runs.get_mut(run).expect("it was found there");
        let take_over = by_chance || std::mem::take(&mut tracked.is_to_be_forced);
        tracked.was_forced |= take_over && !tracked.drivers.is_empty();
        tracked.drivers.push(pid);
        tracked.is_shared = false;
        let (run, variant) = (run.to_string(), tracked.variant);
        if !tracked.is_created {
            return Reply::Begin { run, variant };
        }
        Reply::Resume { run, variant, take_over, answer: std::mem::take(&mut tracked.is_paused) }
    }

    /// A process has stopped driving a run.
    pub fn ended(&mut self, pid: u32, run: &str, how: Ending) {
        let Some(tracked) = self.runs.get_mut(run) else { return };
        if let Some(at) = tracked.drivers.iter().position(|driver| *driver == pid) {
            tracked.drivers.swap_remove(at);
        }
        tracked.endings += 1;
        match how {
            Ending::Finished(state) => (tracked.is_done, tracked.state) = (true, Some(*state)),
            Ending::Compensated => tracked.is_done = true,
            Ending::Paused => tracked.is_paused = true,
            Ending::ReleasedByWorker => {}
            Ending::Stopped(why) | Ending::Failed(why) => tracked.errors.push(why),
        }
    }
}
