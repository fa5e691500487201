//! Four processes share the runs of one store. They are killed at random moments and places,
//! stopped past their leases, and disconnected from a server that is itself killed.

use crate::dice::Dice;
use crate::graph::Variant;
use crate::outside::lock;
use crate::processes::Driver;
use crate::queue::Queue;
use crate::report::{CLASSES, Spec};
use crate::server::Server;
use crate::site::Site;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

const PROCESSES: usize = 4;
const SLOTS: usize = 3;
/// How many deaths each class of places needs.
const EACH_CLASS: u64 = 5;
/// How many processes must be stopped past their leases, and, with a server, how many connections
/// must be cut.
const STOPS_MIN: u64 = 3;
const CUT_OFF_MIN: u64 = 4;
/// How long an armed process is not killed: it will die at some place.
const ARMED_FOR: Duration = Duration::from_millis(1500);
/// Time limit for the remaining runs at the end.
const LAST_MAX: Duration = Duration::from_secs(90);

#[derive(Debug, Default)]
pub struct Kills {
    pub all: u64,
    /// Kills that hit a process in the middle of a step.
    pub open: u64,
    pub stops: u64,
    pub cut_off: u64,
    pub servers: u64,
    pub runs: usize,
    /// Runs whose records were pruned.
    pub pruned: usize,
}

/// One process.
struct Post {
    driver: Driver,
    /// Until when it is not killed: it will die at some place.
    armed_until: Option<Instant>,
    /// Until when it is stopped.
    stopped_until: Option<Instant>,
}

struct Field<'a> {
    site: &'a Site,
    server: Option<&'a mut Server>,
    dice: Dice,
    lot: String,
    /// Set if the processes are workers.
    queue: Option<Queue>,
    posts: Vec<Post>,
    kills: Kills,
}

/// How processes get their runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Drivers that get runs from the ledger, sometimes two the same one. Each class of places
    /// needs deaths.
    Orders,
    /// Workers that claim ready runs.
    Claims,
}

/// Kills until enough kills hit an open step and each class has enough deaths, but no longer than
/// `time`.
pub fn run(site: &Site, by: By, server: Option<&mut Server>, open: u64, time: Duration, seed: u64) -> Result<Kills, String> {
    let lot = if by == By::Claims { "queue" } else { "crowd" }.to_string();
    site.ledger.with(|book| {
        if by == By::Claims {
            book.assignments.add_queue(&lot);
        } else {
            book.assignments.add_crowd(&lot);
        }
        book.deaths.clear();
    });
    let queue = if by == By::Claims { Some(Queue::new(&lot)?) } else { None };
    let (dice, posts, kills) = (Dice::new(seed), Vec::new(), Kills::default());
    let mut field = Field { site, server, dice, lot, queue, posts, kills };
    for _ in 0..PROCESSES {
        let post = field.enlist()?;
        field.posts.push(post);
    }
    let begun = Instant::now();
    let mut servers_left = if field.server.is_some() { 2 } else { 0 };
    while !field.lacks(open).is_empty() {
        if begun.elapsed() > time {
            return Err(format!("after {time:?}: {:?}, {}", field.kills, field.lacks(open)));
        }
        thread::sleep(Duration::from_millis(5 + field.dice.below(35)));
        field.bury()?;
        field.wake();
        field.tend(true);
        if servers_left > 0 && field.kills.open * 3 > open * (3 - servers_left) {
            servers_left -= 1;
            field.kill_server()?;
        }
        field.strike()?;
    }
    field.finish()
}

impl Field<'_> {
    fn tend(&mut self, is_open: bool) {
        if let Some(queue) = &mut self.queue {
            queue.tend(self.site, is_open);
        }
    }

    /// What is still missing before the test may end; empty if nothing is.
    fn lacks(&self, open: u64) -> String {
        let mut lacks = Vec::new();
        let mut need = |is_there: bool, what: &str| (!is_there).then(|| lacks.push(what.to_string()));
        need(self.kills.open >= open, "too few kills in open steps");
        need(self.kills.stops >= STOPS_MIN, "too few stops past the lease");
        if let Some(server) = &self.server {
            need(self.kills.cut_off >= CUT_OFF_MIN, "too few cut connections");
            need(server.answers_lost() > 0, "no answer to a commit was lost (does the proxy recognize commits?)");
        }
        let rare = self.rare();
        need(rare.is_empty(), &format!("too few deaths at {rare:?}"));
        lacks.join(", ")
    }

    /// The classes with too few deaths.
    fn rare(&self) -> Vec<&'static str> {
        if self.queue.is_some() {
            return Vec::new();
        }
        let deaths: BTreeMap<String, u64> = self.site.ledger.with(|book| book.deaths.clone());
        let is_rare = |class: &&str| deaths.get(*class).copied().unwrap_or(0) < EACH_CLASS;
        CLASSES.iter().copied().filter(is_rare).collect()
    }

    fn spec(&self) -> Spec {
        Spec { slots: SLOTS, is_worker: self.queue.is_some(), ..self.site.spec(&self.lot) }
    }

    /// Starts a new process. Most of them will die at some place.
    fn enlist(&mut self) -> Result<Post, String> {
        let mut spec = self.spec();
        let mut armed_until = None;
        if self.dice.percent(60) {
            let rare = self.rare();
            let among = if rare.is_empty() { CLASSES.to_vec() } else { rare };
            let class = among[self.dice.below(among.len() as u64) as usize];
            let passes_max = match class {
                "commit before" | "commit after" | "acknowledged" | "node start" | "node end" => 40,
                "read before" | "read after" => 6,
                _ => 2,
            };
            spec.wish = match class.split_once(' ').map_or(class, |(what, _)| what) {
                "prune" => Some(Variant::Long),
                "undo" => Some(if self.dice.percent(50) { Variant::Undone } else { Variant::Refused }),
                _ => None,
            };
            spec.dies_at = Some((class.to_string(), 1 + self.dice.below(passes_max)));
            armed_until = Some(Instant::now() + ARMED_FOR);
        }
        Ok(Post { driver: self.site.start(&spec)?, armed_until, stopped_until: None })
    }

    /// Replaces a dead process, after its runs were checked.
    fn replace(&mut self, at: usize, counts: bool) -> Result<(), String> {
        let pid = self.posts[at].driver.pid;
        let was_busy = self.site.autopsy(pid);
        if counts {
            self.kills.all += 1;
            self.kills.open += u64::from(was_busy);
        }
        self.posts[at] = self.enlist()?;
        Ok(())
    }

    /// Replaces the processes that died at their place.
    fn bury(&mut self) -> Result<(), String> {
        for at in 0..self.posts.len() {
            if let Some(status) = self.posts[at].driver.ended() {
                // A process that ended with an error had no server.
                self.replace(at, status.code().is_none())?;
            }
        }
        Ok(())
    }

    fn strike(&mut self) -> Result<(), String> {
        let at = self.dice.below(self.posts.len() as u64) as usize;
        let Post { armed_until, stopped_until, .. } = &self.posts[at];
        if armed_until.is_some_and(|until| Instant::now() < until) || stopped_until.is_some() {
            return Ok(());
        }
        match self.dice.below(100) {
            0..6 => self.stop_past_lease(at),
            6..20 => self.cut_off()?,
            _ => {
                self.posts[at].driver.kill();
                self.replace(at, true)?;
            }
        }
        Ok(())
    }

    /// Sends SIGSTOP: others take its runs once its leases have expired.
    fn stop_past_lease(&mut self, at: usize) {
        let post = &mut self.posts[at];
        self.site.ledger.with(|book| {
            book.were_stopped.insert(post.driver.pid);
            book.assignments.share(post.driver.pid);
        });
        post.driver.stop();
        post.stopped_until = Some(Instant::now() + self.site.lease * 2);
        self.kills.stops += 1;
    }

    /// Sends SIGCONT to processes that were stopped long enough, after a reading of their runs.
    fn wake(&mut self) {
        for post in &mut self.posts {
            if post.stopped_until.take_if(|until| *until < Instant::now()).is_some() {
                for run in self.site.ledger.with(|book| book.assignments.runs_of(post.driver.pid)) {
                    lock(&self.site.checker).read(&self.site.ledger, &run);
                }
                post.driver.continue_now();
            }
        }
    }

    /// Makes the server close a connection, or loses the answers to some commits.
    fn cut_off(&mut self) -> Result<(), String> {
        if let Some(server) = &mut self.server {
            self.kills.cut_off += 1;
            if self.dice.percent(50) { server.terminate_one()? } else { server.lose_answers(1 + self.dice.below(4)) }
        }
        Ok(())
    }

    fn kill_server(&mut self) -> Result<(), String> {
        let Some(server) = &mut self.server else { return Ok(()) };
        server.kill_and_restart()?;
        self.kills.servers += 1;
        let runs: Vec<String> = self
            .posts
            .iter()
            .flat_map(|post| self.site.ledger.with(|book| book.assignments.runs_of(post.driver.pid)))
            .collect();
        for run in runs {
            lock(&self.site.checker).read(&self.site.ledger, &run);
        }
        Ok(())
    }

    /// Ends the kills and drives all runs to their ends.
    fn finish(mut self) -> Result<Kills, String> {
        self.site.ledger.with(|book| book.assignments.close(&self.lot));
        let spec = self.spec();
        for at in 0..self.posts.len() {
            self.posts[at].driver.kill();
            self.site.autopsy(self.posts[at].driver.pid);
            self.posts[at].driver = self.site.start(&spec)?;
        }
        let (begun, lot) = (Instant::now(), self.lot.clone());
        let is_over = || self.site.ledger.wait(Duration::from_millis(20), |book| book.assignments.is_done(&lot));
        let mut is_done = is_over();
        while !is_done && begun.elapsed() < LAST_MAX {
            if let Some(queue) = &mut self.queue {
                queue.tend(self.site, false);
            }
            is_done = is_over();
        }
        let runs: Vec<(String, bool, String)> = self.site.ledger.with(|book| {
            let of_lot = book.assignments.tasks.iter().filter(|(_, task)| task.lot == self.lot);
            of_lot.map(|(run, task)| (run.clone(), task.is_done, format!("{task:?}"))).collect()
        });
        if !is_done {
            let left: Vec<&String> = runs.iter().filter(|(_, is_done, _)| !is_done).map(|(_, _, task)| task).collect();
            return Err(format!("{} runs did not end: {left:#?}", left.len()));
        }
        self.kills.runs = runs.len();
        for (run, _, _) in runs {
            let reading = lock(&self.site.checker).finish(&self.site.ledger, &run, &self.site.reference);
            self.kills.pruned += usize::from(reading.is_some_and(|reading| reading.info.oldest > 1));
        }
        if self.queue.is_some() && self.kills.pruned == 0 {
            return Err(format!("no run was pruned: {:?}", self.kills));
        }
        Ok(self.kills)
    }
}
