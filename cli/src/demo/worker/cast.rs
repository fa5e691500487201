//! The actors of the demo: one actor type with five characters, in a small shop.
//!
//! ```text
//! /user/shop           restarts its children after a wait that grows
//!   front              does every job
//!   stock              returns an error now and then
//!   prices             panics now and then
//!   mail               takes long for each message, and drops the oldest when its mailbox is full
//!   payments           restarts its children at once, at most 3 times in 5 s
//!     bank             fails in bad patches, until its supervisor gives up
//!     ledger           does every job
//! ```

use super::pace::Pace;
use crate::demo::protocol::{Account, ActorAccount};
use pleach::prelude::*;
use pleach::supervise::ExponentialBackoff;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// The start of every planned panic text. The demo does not print panics that begin like this.
pub const PLANNED_PANIC: &str = "planned panic: ";

/// How many messages an overload sends at once.
const OVERLOAD: u64 = 5_000;

/// How an actor behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Character {
    Front,
    Stock,
    Prices,
    Mail,
    Bank,
    Ledger,
}

impl Character {
    pub const ALL: [Self; 6] = [Self::Front, Self::Stock, Self::Prices, Self::Mail, Self::Bank, Self::Ledger];

    pub fn name(self) -> &'static str {
        match self {
            Self::Front => "front",
            Self::Stock => "stock",
            Self::Prices => "prices",
            Self::Mail => "mail",
            Self::Bank => "bank",
            Self::Ledger => "ledger",
        }
    }

    fn mailbox(self) -> Mailbox {
        match self {
            Self::Front => Mailbox::bounded(400),
            Self::Mail => Mailbox::bounded(60).drop_oldest(),
            // Small enough to be filled while it waits for its restart.
            Self::Stock | Self::Prices => Mailbox::bounded(120),
            _ => Mailbox::bounded(200),
        }
    }

    /// Returns how long one message takes.
    fn work(self) -> Duration {
        match self {
            Self::Front | Self::Ledger => Duration::ZERO,
            Self::Stock | Self::Prices | Self::Bank => Duration::from_millis(2),
            Self::Mail => Duration::from_millis(30),
        }
    }

    /// Returns why a bad job of this actor fails.
    fn mishap(self, number: u64) -> Mishap {
        Mishap(match self {
            Self::Stock => format!("shelf {} is empty", number % 40 + 1),
            Self::Bank => "the bank does not answer".to_string(),
            _ => format!("job {number} is not possible"),
        })
    }
}

/// What an actor is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    Good(u64),
    /// Fails in the manner of the actor.
    Bad(u64),
    /// Panics the handler of any actor.
    Poison,
}

/// Why a job failed.
#[derive(Debug)]
pub struct Mishap(String);

impl fmt::Display for Mishap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mishap {}

struct ShopActor {
    character: Character,
    pace: Pace,
    tally: Arc<Tally>,
}

impl Actor for ShopActor {
    type Msg = Job;
    type Error = Mishap;

    async fn handle(&mut self, job: Job, _cx: &mut Context<Self>) -> Result<(), Mishap> {
        self.tally.entered.fetch_add(1, Relaxed);
        match job {
            Job::Poison => panic!("{PLANNED_PANIC}the message is poisonous"),
            Job::Bad(number) if self.character == Character::Prices => {
                panic!("{PLANNED_PANIC}no price for item {}", number % 90 + 10)
            }
            Job::Bad(number) => Err(self.character.mishap(number)),
            Job::Good(_) => {
                let work = self.character.work();
                if !work.is_zero() && !self.pace.is_finishing() {
                    tokio::time::sleep(work).await;
                }
                Ok(())
            }
        }
    }
}

/// What senders and handlers count themselves, beside the counts of pleach.
#[derive(Default)]
struct Tally {
    sent: AtomicU64,
    returned: AtomicU64,
    entered: AtomicU64,
}

/// One actor, for its senders.
#[derive(Clone)]
pub struct Member {
    pub character: Character,
    actor: ActorRef<Job>,
    tally: Arc<Tally>,
}

/// What the tree reported about its members.
#[derive(Default)]
struct Seen {
    failures: u64,
    restarts: u64,
}

/// All actors.
#[derive(Clone)]
pub struct Cast {
    members: Vec<Member>,
    seen: Arc<Mutex<HashMap<String, Seen>>>,
}

impl Cast {
    /// Starts all actors.
    pub fn start(system: &ActorSystem, pace: &Pace) -> Result<Self, pleach::Error> {
        let backoff = ExponentialBackoff::new(Duration::from_millis(400), Duration::from_secs(3));
        let shop = system.supervisor("shop", OneForOne::new().restart_limit(100, Duration::from_secs(60)).backoff(backoff))?;
        let mut payments = None;
        let mut members = Vec::new();
        for character in Character::ALL {
            let above = match (character, &payments) {
                (Character::Bank, _) => {
                    payments.insert(shop.supervisor("payments", OneForOne::new().restart_limit(3, Duration::from_secs(5)))?)
                }
                (Character::Ledger, Some(payments)) => payments,
                _ => &shop,
            };
            let tally = Arc::new(Tally::default());
            let (pace, entries) = (pace.clone(), Arc::clone(&tally));
            let props = Props::new(move || ShopActor { character, pace: pace.clone(), tally: Arc::clone(&entries) })
                .mailbox(character.mailbox())
                .restart(RestartPolicy::Permanent)
                .describe(|job| format!("{job:?}"));
            members.push(Member { character, actor: above.spawn(character.name(), props)?, tally });
        }
        Ok(Self { members, seen: Arc::default() })
    }

    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Returns the actor at a path.
    pub fn at(&self, path: &str) -> Option<&Member> {
        let path: ActorPath = path.parse().ok()?;
        self.members.iter().find(|member| member.actor.path() == path)
    }

    pub fn note_failure(&self, path: &ActorPath) {
        self.seen(path, |seen| seen.failures += 1);
    }

    pub fn note_restart(&self, path: &ActorPath) {
        self.seen(path, |seen| seen.restarts += 1);
    }

    fn seen(&self, path: &ActorPath, change: impl FnOnce(&mut Seen)) {
        change(self.seen.lock().unwrap_or_else(PoisonError::into_inner).entry(path.to_string()).or_default());
    }

    /// Returns the account of each actor.
    pub fn accounts(&self) -> Vec<ActorAccount> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let account_of = |member: &Member| {
            let path = member.actor.path().to_string();
            let (failures, restarts) = seen.get(&path).map_or((0, 0), |seen| (seen.failures, seen.restarts));
            ActorAccount { path, account: Account { failures, restarts, ..member.account() } }
        };
        self.members.iter().map(account_of).collect()
    }

    /// Returns how many messages of each actor became dead letters since the last call with these
    /// counts, and whether a full mailbox dropped them.
    pub fn dead_letters(&self, counts: &mut Vec<u64>) -> Vec<(String, u64, bool)> {
        counts.resize(self.members.len(), 0);
        let more = self.members.iter().zip(counts).map(|(member, before)| {
            let now = member.actor.counts().dead_lettered;
            let drops = member.character == Character::Mail;
            (member.actor.path().to_string(), now - std::mem::replace(before, now), drops)
        });
        more.filter(|(_, count, _)| *count > 0).collect()
    }

    /// Returns the sum of all accounts.
    pub fn total(&self) -> Account {
        self.accounts().iter().fold(Account::default(), |mut sum, actor| {
            sum += actor.account;
            sum
        })
    }
}

impl Member {
    /// Sends a job without waiting. A full mailbox hands it back, or drops its oldest message.
    /// Returns whether it was accepted.
    pub fn tell(&self, job: Job) -> bool {
        self.tally.sent.fetch_add(1, Relaxed);
        let is_accepted = self.actor.tell(job).is_ok();
        self.tally.returned.fetch_add(u64::from(!is_accepted), Relaxed);
        is_accepted
    }

    /// Sends many jobs at once. Returns how many were sent and handed back.
    pub fn overload(&self) -> (u64, u64) {
        let before = self.tally.returned.load(Relaxed);
        for number in 0..OVERLOAD {
            self.tell(Job::Good(number));
        }
        (OVERLOAD, self.tally.returned.load(Relaxed) - before)
    }

    fn account(&self) -> Account {
        let counts = self.actor.counts();
        let of = |count: &AtomicU64| count.load(Relaxed);
        let Tally { sent, returned, entered } = &*self.tally;
        Account { sent: of(sent), returned: of(returned), counts, entered: of(entered), failures: 0, restarts: 0 }
    }
}
