//! Four processes share the runs of one store. They are killed at random moments and kill points,
//! stopped past their leases, and disconnected from a server that is itself killed.

use crate::graph::Variant;
use crate::ledger_client::lock;
use crate::processes::DriverProcess;
use crate::queue::Queue;
use crate::report::{CLASSES, Spec};
use crate::server::Server;
use crate::store_under_test::StoreUnderTest;
use pleach::runtime::Random;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

const PROCESSES: usize = 4;
const SLOTS: usize = 3;
/// How many deaths each class of kill points needs.
const EACH_CLASS: u64 = 5;
/// How many processes must be stopped past their leases, and, with a server, how many connections
/// must be lost.
const STOPS_MIN: u64 = 3;
const CONNECTIONS_LOST_MIN: u64 = 4;
/// How long an armed process is not killed: it will die at a kill point.
const ARMED_FOR: Duration = Duration::from_millis(1500);
/// Time limit for the remaining runs at the end.
const LAST_MAX: Duration = Duration::from_secs(90);

#[derive(Debug, Default)]
pub struct Kills {
    pub all: u64,
    /// Kills that hit a process in the middle of a step.
    pub open: u64,
    pub stops: u64,
    pub connections_lost: u64,
    pub servers: u64,
    pub runs: usize,
    /// Runs whose records were pruned.
    pub pruned: usize,
}

/// One process.
struct DriverSlot {
    driver: DriverProcess,
    /// Until when it is not killed: it will die at a kill point.
    armed_until: Option<Instant>,
    /// Until when it is stopped.
    stopped_until: Option<Instant>,
}

struct RandomTest<'a> {
    tested: &'a StoreUnderTest,
    server: Option<&'a mut Server>,
    random: Random,
    set: String,
    /// Set if the processes are workers.
    queue: Option<Queue>,
    slots: Vec<DriverSlot>,
    kills: Kills,
}

/// How processes get their runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RunSource {
    /// Drivers that get runs from the ledger, sometimes two the same one. Each class of kill
    /// points needs deaths.
    Ledger,
    /// Workers that claim ready runs.
    Store,
}

/// Kills until enough kills hit an open step and each class has enough deaths, but no longer than
/// `time`.
pub fn run(
    tested: &StoreUnderTest,
    source: RunSource,
    server: Option<&mut Server>,
    open: u64,
    time: Duration,
    seed: u64,
) -> Result<Kills, String> {
    let set = if source == RunSource::Store { "workers" } else { "drivers" }.to_string();
    tested.ledger.with(|book| {
        if source == RunSource::Store {
            book.assignments.add_for_workers(&set);
        } else {
            book.assignments.add_endless(&set);
        }
        book.deaths.clear();
    });
    let queue = if source == RunSource::Store { Some(Queue::new(&set)?) } else { None };
    let (random, slots, kills) = (Random::seeded(seed), Vec::new(), Kills::default());
    let mut test = RandomTest { tested, server, random, set, queue, slots, kills };
    for _ in 0..PROCESSES {
        let slot = test.start_process()?;
        test.slots.push(slot);
    }
    let begun = Instant::now();
    let mut servers_left = if test.server.is_some() { 2 } else { 0 };
    while !test.missing(open).is_empty() {
        if begun.elapsed() > time {
            return Err(format!("after {time:?}: {:?}, {}", test.kills, test.missing(open)));
        }
        thread::sleep(Duration::from_millis(5 + test.random.below(35) as u64));
        test.replace_dead()?;
        test.continue_stopped();
        test.check_queue(true);
        if servers_left > 0 && test.kills.open * 3 > open * (3 - servers_left) {
            servers_left -= 1;
            test.kill_server()?;
        }
        test.disturb_one()?;
    }
    test.finish()
}

impl RandomTest<'_> {
    /// Creates runs for workers and continues their runs from outside.
    fn check_queue(&mut self, is_open: bool) {
        if let Some(queue) = &mut self.queue {
            queue.advance_runs(self.tested, is_open);
        }
    }

    /// What is still missing before the test may end; empty if nothing is.
    fn missing(&self, open: u64) -> String {
        let mut missing = Vec::new();
        let mut need = |is_there: bool, what: &str| (!is_there).then(|| missing.push(what.to_string()));
        need(self.kills.open >= open, "too few kills in open steps");
        need(self.kills.stops >= STOPS_MIN, "too few stops past the lease");
        if let Some(server) = &self.server {
            need(self.kills.connections_lost >= CONNECTIONS_LOST_MIN, "too few lost connections");
            need(server.answers_lost() > 0, "no answer to a commit was lost (does the proxy recognize commits?)");
        }
        let rare = self.rare();
        need(rare.is_empty(), &format!("too few deaths at {rare:?}"));
        missing.join(", ")
    }

    /// The classes with too few deaths.
    fn rare(&self) -> Vec<&'static str> {
        if self.queue.is_some() {
            return Vec::new();
        }
        let deaths: BTreeMap<String, u64> = self.tested.ledger.with(|book| book.deaths.clone());
        let is_rare = |class: &&str| deaths.get(*class).copied().unwrap_or(0) < EACH_CLASS;
        CLASSES.iter().copied().filter(is_rare).collect()
    }

    fn spec(&self) -> Spec {
        Spec { slots: SLOTS, is_worker: self.queue.is_some(), ..self.tested.spec(&self.set) }
    }

    /// Starts a new process. Most of them will die at a kill point.
    fn start_process(&mut self) -> Result<DriverSlot, String> {
        let mut spec = self.spec();
        let mut armed_until = None;
        if self.random.below(100) < 60 {
            let rare = self.rare();
            let among = if rare.is_empty() { CLASSES.to_vec() } else { rare };
            let class = among[self.random.below(among.len())];
            let passes_max = match class {
                "commit before" | "commit after" | "acknowledged" | "node start" | "node end" => 40,
                "read before" | "read after" => 6,
                _ => 2,
            };
            spec.preferred = match class.split_once(' ').map_or(class, |(what, _)| what) {
                "prune" => Some(Variant::Long),
                "undo" => Some(if self.random.below(2) == 0 { Variant::Undone } else { Variant::Refused }),
                _ => None,
            };
            spec.dies_at = Some((class.to_string(), 1 + self.random.below(passes_max) as u64));
            armed_until = Some(Instant::now() + ARMED_FOR);
        }
        Ok(DriverSlot { driver: self.tested.start(&spec)?, armed_until, stopped_until: None })
    }

    /// Replaces a dead process, after its runs were checked.
    fn replace(&mut self, at: usize, counts: bool) -> Result<(), String> {
        let pid = self.slots[at].driver.pid;
        let was_busy = self.tested.check_after_death(pid);
        if counts {
            self.kills.all += 1;
            self.kills.open += u64::from(was_busy);
        }
        self.slots[at] = self.start_process()?;
        Ok(())
    }

    /// Replaces the processes that died at their kill point.
    fn replace_dead(&mut self) -> Result<(), String> {
        for at in 0..self.slots.len() {
            if let Some(status) = self.slots[at].driver.ended() {
                // A process that ended with an error had no server.
                self.replace(at, status.code().is_none())?;
            }
        }
        Ok(())
    }

    /// Kills or stops one process, or cuts a connection, unless that process is armed or stopped.
    fn disturb_one(&mut self) -> Result<(), String> {
        let at = self.random.below(self.slots.len());
        let DriverSlot { armed_until, stopped_until, .. } = &self.slots[at];
        if armed_until.is_some_and(|until| Instant::now() < until) || stopped_until.is_some() {
            return Ok(());
        }
        match self.random.below(100) {
            0..6 => self.stop_past_lease(at),
            6..20 => self.lose_connection()?,
            _ => {
                self.slots[at].driver.kill();
                self.replace(at, true)?;
            }
        }
        Ok(())
    }

    /// Sends SIGSTOP: others take its runs once its leases have expired.
    fn stop_past_lease(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        self.tested.ledger.with(|book| {
            book.were_stopped.insert(slot.driver.pid);
            book.assignments.share(slot.driver.pid);
        });
        slot.driver.stop();
        slot.stopped_until = Some(Instant::now() + self.tested.lease * 2);
        self.kills.stops += 1;
    }

    /// Sends SIGCONT to processes that were stopped long enough, after a reading of their runs.
    fn continue_stopped(&mut self) {
        for slot in &mut self.slots {
            if slot.stopped_until.take_if(|until| *until < Instant::now()).is_some() {
                for run in self.tested.ledger.with(|book| book.assignments.runs_of(slot.driver.pid)) {
                    lock(&self.tested.checker).read(&self.tested.ledger, &run);
                }
                slot.driver.continue_now();
            }
        }
    }

    /// Makes the server close a connection, or loses the answers to some commits.
    fn lose_connection(&mut self) -> Result<(), String> {
        if let Some(server) = &mut self.server {
            self.kills.connections_lost += 1;
            if self.random.below(2) == 0 {
                server.terminate_one()?;
            } else {
                server.lose_answers(1 + self.random.below(4) as u64);
            }
        }
        Ok(())
    }

    /// Kills the server, starts it again, and reads all runs of the processes.
    fn kill_server(&mut self) -> Result<(), String> {
        let Some(server) = &mut self.server else { return Ok(()) };
        server.kill_and_restart()?;
        self.kills.servers += 1;
        let runs: Vec<String> = self
            .slots
            .iter()
            .flat_map(|slot| self.tested.ledger.with(|book| book.assignments.runs_of(slot.driver.pid)))
            .collect();
        for run in runs {
            lock(&self.tested.checker).read(&self.tested.ledger, &run);
        }
        Ok(())
    }

    /// Ends the kills and drives all runs to their ends.
    fn finish(mut self) -> Result<Kills, String> {
        self.tested.ledger.with(|book| book.assignments.close(&self.set));
        let spec = self.spec();
        for at in 0..self.slots.len() {
            self.slots[at].driver.kill();
            self.tested.check_after_death(self.slots[at].driver.pid);
            self.slots[at].driver = self.tested.start(&spec)?;
        }
        let (begun, set) = (Instant::now(), self.set.clone());
        let is_over = || self.tested.ledger.wait(Duration::from_millis(20), |book| book.assignments.is_done(&set));
        let mut is_done = is_over();
        while !is_done && begun.elapsed() < LAST_MAX {
            if let Some(queue) = &mut self.queue {
                queue.advance_runs(self.tested, false);
            }
            is_done = is_over();
        }
        let runs: Vec<(String, bool, String)> = self.tested.ledger.with(|book| {
            let of_set = book.assignments.runs.iter().filter(|(_, tracked)| tracked.set == self.set);
            of_set.map(|(run, tracked)| (run.clone(), tracked.is_done, format!("{tracked:?}"))).collect()
        });
        if !is_done {
            let left: Vec<&String> = runs.iter().filter(|(_, is_done, _)| !is_done).map(|(_, _, tracked)| tracked).collect();
            return Err(format!("{} runs did not end: {left:#?}", left.len()));
        }
        self.kills.runs = runs.len();
        for (run, _, _) in runs {
            let reading = lock(&self.tested.checker).finish(&self.tested.ledger, &run, &self.tested.reference);
            self.kills.pruned += usize::from(reading.is_some_and(|reading| reading.info.oldest > 1));
        }
        if self.queue.is_some() && self.kills.pruned == 0 {
            return Err(format!("no run was pruned: {:?}", self.kills));
        }
        Ok(self.kills)
    }
}
