//! The workers of the demo: one actor type with seven characters.

use pleach::prelude::*;
use std::fmt;

/// How a worker behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Character {
    /// Does every job.
    Reliable,
    /// Returns an error at some jobs.
    Forgetful,
    /// Panics at some jobs.
    Jumpy,
    /// Takes long for each job, and has a small mailbox.
    Slow,
    /// Is stopped after half of the jobs.
    Stopped,
    /// Hangs in a job after half of the jobs, and is cancelled.
    Stuck,
    /// Fails at every job, until its supervisor gives up.
    Hopeless,
}

/// The number of jobs for each worker.
const JOBS: u32 = 2_000;
/// A forgetful worker fails at every 100th job; a jumpy worker panics at every 250th.
const FORGETS_EVERY: u32 = 100;
const JUMPS_EVERY: u32 = 250;
/// The start of every planned panic text. The demo does not print panics that begin like this.
pub const PLANNED_PANIC: &str = "too much: job ";

impl Character {
    pub const ALL: [Self; 7] =
        [Self::Reliable, Self::Forgetful, Self::Jumpy, Self::Slow, Self::Stopped, Self::Stuck, Self::Hopeless];

    pub fn name(self) -> &'static str {
        match self {
            Self::Reliable => "reliable",
            Self::Forgetful => "forgetful",
            Self::Jumpy => "jumpy",
            Self::Slow => "slow",
            Self::Stopped => "stopped",
            Self::Stuck => "stuck",
            Self::Hopeless => "hopeless",
        }
    }

    pub fn jobs(self) -> u32 {
        match self {
            Self::Slow => JOBS / 10,
            // All jobs after the one in which it hangs must fit into its mailbox.
            Self::Stuck => JOBS / 2,
            _ => JOBS,
        }
    }

    /// Returns the props of such a worker.
    pub fn props(self) -> Props<Worker> {
        let mailbox = if self == Self::Slow { Mailbox::bounded(16) } else { Mailbox::default() };
        Props::new(move || Worker { character: self }).mailbox(mailbox).describe(|job| format!("job {job}"))
    }
}

/// An actor whose messages are job numbers.
pub struct Worker {
    character: Character,
}

/// Why a job failed.
#[derive(Debug)]
pub enum Excuse {
    Forgot(u32),
    NoIdea(u32),
}

impl fmt::Display for Excuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forgot(job) => write!(f, "forgot how to do job {job}"),
            Self::NoIdea(job) => write!(f, "never knew how to do job {job}"),
        }
    }
}

impl std::error::Error for Excuse {}

impl Actor for Worker {
    type Msg = u32;
    type Error = Excuse;

    async fn handle(&mut self, job: u32, _cx: &mut Context<Self>) -> Result<(), Excuse> {
        match self.character {
            Character::Forgetful if job.is_multiple_of(FORGETS_EVERY) => return Err(Excuse::Forgot(job)),
            Character::Jumpy if job.is_multiple_of(JUMPS_EVERY) => panic!("{PLANNED_PANIC}{job}"),
            Character::Slow => tokio::time::sleep(Duration::from_millis(1)).await,
            Character::Stuck if job == self.character.jobs() / 2 => std::future::pending().await,
            Character::Hopeless => return Err(Excuse::NoIdea(job)),
            _ => {}
        }
        Ok(())
    }
}
