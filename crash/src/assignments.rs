//! [`Assignments`]: which runs exist, which processes drive them, and what a free driver does next.
//! Pure; the ledger keeps it under its lock.

use crate::dice::Dice;
use crate::graph::{State, Variant};
use crate::report::{Ending, Reply};
use std::collections::BTreeMap;

/// How often, in percent, a driver gets a run that another one drives.
const SHARED_PERCENT: u64 = 8;
/// How often, in percent, such a run, or one whose driver died, is taken over by force.
const FORCED_PERCENT: u64 = 30;
/// Every n-th run for workers is long enough to be pruned.
const LONG_EVERY: usize = 8;

/// A run as seen from outside.
#[derive(Debug)]
pub struct Task {
    pub variant: Variant,
    pub lot: String,
    /// The processes that drive it or try to.
    pub hands: Vec<u32>,
    /// Whether it is in the store.
    pub is_made: bool,
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
    pub complaints: Vec<String>,
}

/// A group of runs. The drivers of a lot get only its runs.
enum Lot {
    /// A single run.
    Case,
    /// An endless number of runs: the number of the next new run, or `None` once no more are added.
    Crowd(Option<u64>),
    /// Runs that workers find in the store, and whether more will follow.
    Queue(bool),
}

pub struct Assignments {
    pub tasks: BTreeMap<String, Task>,
    lots: BTreeMap<String, Lot>,
    dice: Dice,
}

impl Assignments {
    pub fn new(seed: u64) -> Self {
        Self { tasks: BTreeMap::new(), lots: BTreeMap::new(), dice: Dice::new(seed) }
    }

    /// Adds a single run, unless it exists.
    pub fn add_case(&mut self, run: &str, variant: Variant) {
        if self.tasks.contains_key(run) {
            return;
        }
        self.lots.insert(run.into(), Lot::Case);
        self.add(run.into(), run, variant);
    }

    /// Adds an endless lot, until it is closed.
    pub fn add_crowd(&mut self, lot: &str) {
        self.lots.insert(lot.into(), Lot::Crowd(Some(1)));
    }

    /// Adds a lot of runs that workers find in the store; see [`leave`](Self::leave).
    pub fn add_queue(&mut self, lot: &str) {
        self.lots.insert(lot.into(), Lot::Queue(true));
    }

    /// Adds a new run for the workers of a lot.
    pub fn leave(&mut self, lot: &str) -> (String, Variant) {
        let run = format!("{lot}-{}", self.tasks.len());
        let variant = match self.dice.below(10) {
            _ if self.tasks.len().is_multiple_of(LONG_EVERY) => Variant::Long,
            0 => Variant::Undone,
            1 => Variant::Refused,
            _ => Variant::Full,
        };
        self.add(run.clone(), lot, variant);
        (run, variant)
    }

    /// Records that a process has claimed a run.
    pub fn claimed(&mut self, pid: u32, run: &str) {
        if let Some(task) = self.tasks.get_mut(run) {
            task.is_made = true;
            if !task.hands.contains(&pid) {
                task.hands.push(pid);
            }
        }
    }

    /// Adds no more runs to the lot; existing ones are driven to their end.
    pub fn close(&mut self, lot: &str) {
        match self.lots.get_mut(lot) {
            Some(Lot::Crowd(next)) => *next = None,
            Some(Lot::Queue(is_open)) => *is_open = false,
            Some(Lot::Case) | None => {}
        }
    }

    fn add(&mut self, run: String, lot: &str, variant: Variant) {
        let task = Task {
            variant,
            lot: lot.into(),
            hands: Vec::new(),
            is_made: false,
            is_paused: false,
            is_done: false,
            was_forced: false,
            is_to_be_forced: false,
            is_shared: false,
            state: None,
            endings: 0,
            complaints: Vec::new(),
        };
        self.tasks.insert(run, task);
    }

    /// Forgets the drivers of a run. The next driver takes it over by force.
    pub fn hand_over(&mut self, run: &str) {
        if let Some(task) = self.tasks.get_mut(run) {
            task.hands.clear();
            task.is_to_be_forced = true;
        }
    }

    pub fn is_done(&self, lot: &str) -> bool {
        self.tasks.values().all(|task| task.lot != lot || task.is_done)
    }

    /// The runs that a process drives.
    pub fn runs_of(&self, pid: u32) -> Vec<String> {
        self.tasks.iter().filter(|(_, task)| task.hands.contains(&pid)).map(|(run, _)| run.clone()).collect()
    }

    /// A process is stopped: other drivers may get its runs.
    pub fn share(&mut self, pid: u32) {
        self.tasks.values_mut().filter(|task| task.hands == [pid]).for_each(|task| task.is_shared = true);
    }

    /// Removes a dead process.
    pub fn died(&mut self, pid: u32) {
        self.tasks.values_mut().for_each(|task| task.hands.retain(|hand| *hand != pid));
    }

    /// What a process does next. It can ask for runs of one variant.
    pub fn next(&mut self, pid: u32, lot: &str, wish: Option<Variant>) -> Reply {
        if let Some(Lot::Queue(is_open)) = self.lots.get(lot) {
            return if *is_open || !self.is_done(lot) { Reply::Idle } else { Reply::Quit };
        }
        let is_crowd = matches!(self.lots.get(lot), Some(Lot::Crowd(Some(_))));
        let may_share = is_crowd && self.dice.percent(SHARED_PERCENT);
        let open = |task: &Task| task.lot == lot && !task.is_done;
        let is_wished = |task: &Task| wish.is_none_or(|wish| task.variant == wish);
        let is_free = |task: &Task| {
            let shares = (may_share || task.is_shared) && task.is_made && !task.hands.contains(&pid);
            task.hands.is_empty() || shares
        };
        let mut found: Vec<&String> =
            self.tasks.iter().filter(|(_, task)| open(task) && is_free(task) && is_wished(task)).map(|(run, _)| run).collect();
        if may_share {
            found.sort_by_key(|run| self.tasks[*run].hands.is_empty());
        }
        if let Some(run) = found.first() {
            return self.hand_out(pid, &run.to_string());
        }
        let Some(Lot::Crowd(Some(number))) = self.lots.get_mut(lot) else {
            let is_wish = wish.is_some() && !self.is_done(lot);
            return if is_wish {
                self.next(pid, lot, None)
            } else if self.is_done(lot) {
                Reply::Quit
            } else {
                Reply::Idle
            };
        };
        let run = format!("{lot}-{number}");
        *number += 1;
        let by_chance = match self.dice.below(10) {
            0 => Variant::Long,
            1 => Variant::Undone,
            2 => Variant::Refused,
            _ => Variant::Full,
        };
        let variant = wish.unwrap_or(by_chance);
        self.add(run.clone(), lot, variant);
        self.hand_out(pid, &run)
    }

    fn hand_out(&mut self, pid: u32, run: &str) -> Reply {
        let by_chance = self.dice.percent(FORCED_PERCENT);
        let task = self.tasks.get_mut(run).expect("it was found there");
        let take_over = by_chance || std::mem::take(&mut task.is_to_be_forced);
        task.was_forced |= take_over && !task.hands.is_empty();
        task.hands.push(pid);
        task.is_shared = false;
        let (run, variant) = (run.to_string(), task.variant);
        if !task.is_made {
            return Reply::Begin { run, variant };
        }
        Reply::GoOn { run, variant, take_over, answer: std::mem::take(&mut task.is_paused) }
    }

    /// A process has stopped driving a run.
    pub fn ended(&mut self, pid: u32, run: &str, how: Ending) {
        let Some(task) = self.tasks.get_mut(run) else { return };
        if let Some(at) = task.hands.iter().position(|hand| *hand == pid) {
            task.hands.swap_remove(at);
        }
        task.endings += 1;
        match how {
            Ending::Finished(state) => (task.is_done, task.state) = (true, Some(*state)),
            Ending::Compensated => task.is_done = true,
            Ending::Paused => task.is_paused = true,
            Ending::LetGo => {}
            Ending::Stopped(why) | Ending::Failed(why) => task.complaints.push(why),
        }
    }
}
