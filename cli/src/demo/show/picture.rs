//! [`Picture`]: what the show knows at one moment. Painting and plain lines read it; updates change
//! it.

use super::orders::OrdersSeen;
use crate::demo::protocol::Account;
use pleach::inspect::{Health, MemberInfo};
use pleach::prelude::ActorPath;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// How long a restarted member is marked.
pub const FLASH: Duration = Duration::from_millis(1_200);

/// How many narrated lines are kept.
const LINES_MAX: usize = 100;

/// How many rates the graph of messages per second keeps, and the time between two.
const RATES_MAX: usize = 240;
const RATE_EVERY: Duration = Duration::from_millis(500);

/// How long the messages of a member are counted for one rate.
const COUNTED_FOR: Duration = Duration::from_millis(900);

/// How important a narrated line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Something happened as it should.
    Plain,
    /// Something failed, and pleach acts.
    Trouble,
    /// It is well again.
    Good,
    /// The user did something.
    User,
}

/// One sentence about what happened and what pleach did about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The time since the start of the show.
    pub at: Duration,
    pub tone: Tone,
    pub text: String,
}

/// A worker process as the show sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerState {
    Starting,
    Running,
    /// It has died, and another one is started soon.
    Dead,
}

/// Counts of one member, to compute its rate.
#[derive(Clone, Copy)]
struct Counted {
    at: Instant,
    handled: u64,
    rate: f64,
}

/// What the show knows.
pub struct Picture {
    pub begun: Instant,
    pub worker: WorkerState,
    pub pid: u32,
    /// How many worker processes there were.
    pub generation: u32,
    /// How many of them were killed.
    pub kills: u32,
    pub is_paused: bool,
    /// The URL of the web console, if one is served.
    pub console: Option<String>,
    /// The members of the tree, in the order of a walk.
    pub members: Vec<MemberInfo>,
    pub health: Option<Health>,
    pub account: Account,
    pub orders: OrdersSeen,
    pub lines: VecDeque<Line>,
    /// How many lines were narrated, including forgotten ones.
    pub said: usize,
    /// Messages per second, the newest last.
    pub rates: VecDeque<f64>,
    flashes: HashMap<String, Instant>,
    counted: HashMap<String, Counted>,
    rated: Option<(Instant, u64)>,
}

impl Picture {
    pub fn new(now: Instant) -> Self {
        Self {
            begun: now,
            worker: WorkerState::Starting,
            pid: 0,
            generation: 0,
            kills: 0,
            is_paused: false,
            console: None,
            members: Vec::new(),
            health: None,
            account: Account::default(),
            orders: OrdersSeen::default(),
            lines: VecDeque::new(),
            said: 0,
            rates: VecDeque::new(),
            flashes: HashMap::new(),
            counted: HashMap::new(),
            rated: None,
        }
    }

    /// Adds a narrated line.
    pub fn say(&mut self, now: Instant, tone: Tone, text: String) {
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
        }
        self.said += 1;
        self.lines.push_back(Line { at: now - self.begun, tone, text });
    }

    /// Marks a member for a moment.
    pub fn flash(&mut self, now: Instant, path: &str) {
        self.flashes.retain(|_, since| now.duration_since(*since) < FLASH);
        self.flashes.insert(path.to_string(), now);
    }

    pub fn is_flashing(&self, now: Instant, path: &str) -> bool {
        self.flashes.get(path).is_some_and(|since| now.duration_since(*since) < FLASH)
    }

    pub fn member(&self, path: &str) -> Option<&MemberInfo> {
        let path: ActorPath = path.parse().ok()?;
        self.members.iter().find(|member| member.path == path)
    }

    /// Takes the members of a snapshot, and computes their rates.
    pub fn see_members(&mut self, now: Instant, members: Vec<MemberInfo>) {
        for member in &members {
            let Some(actor) = &member.actor else { continue };
            let (path, handled) = (member.path.to_string(), actor.counts.handled);
            let counted = self.counted.entry(path).or_insert(Counted { at: now, handled, rate: 0.0 });
            let since = now.duration_since(counted.at);
            if since >= COUNTED_FOR {
                let rate = handled.saturating_sub(counted.handled) as f64 / since.as_secs_f64();
                *counted = Counted { at: now, handled, rate };
            }
        }
        self.members = members;
    }

    /// Takes the account of the worker, and computes its rate.
    pub fn see_account(&mut self, now: Instant, account: Account) {
        self.account = account;
        let handled = account.counts.handled + account.counts.failed;
        let Some((at, before)) = self.rated else { return self.rated = Some((now, handled)) };
        let since = now.duration_since(at);
        if since >= RATE_EVERY {
            if self.rates.len() == RATES_MAX {
                self.rates.pop_front();
            }
            self.rates.push_back(handled.saturating_sub(before) as f64 / since.as_secs_f64());
            self.rated = Some((now, handled));
        }
    }

    /// Returns the messages per second that a member handles.
    pub fn rate_of(&self, path: &str) -> f64 {
        self.counted.get(path).map_or(0.0, |counted| counted.rate)
    }

    /// Returns the messages per second of all members, averaged over two seconds.
    pub fn rate(&self) -> f64 {
        let newest = self.rates.iter().rev().take(4);
        newest.clone().sum::<f64>() / newest.count().max(1) as f64
    }

    /// Forgets what belonged to a worker that has died. Its last account stays until the next one.
    pub fn lose_worker(&mut self) {
        (self.worker, self.health, self.rated) = (WorkerState::Dead, None, None);
        self.members.clear();
        self.counted.clear();
    }
}
