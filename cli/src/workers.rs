//! The crew of the demo: one worker type, seven characters.

use pleach::prelude::*;
use std::fmt;

/// What a worker is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Character {
    /// Does every job.
    Steady,
    /// Returns an error now and then.
    Forgetful,
    /// Panics now and then.
    Jumpy,
    /// Takes its time, and has a small mailbox.
    Slow,
    /// Is told to stop half-way.
    Stopped,
    /// Hangs in a job half-way, and is cancelled.
    Stuck,
    /// Fails at everything, until its supervisor has had enough.
    Hopeless,
}

/// The jobs that the characters are offered, each.
const JOBS: u32 = 2_000;
/// Which of its jobs a forgetful one forgets, and which is too much for a jumpy one: each so many.
const FORGETS_EVERY: u32 = 100;
const JUMPS_EVERY: u32 = 250;
/// A planned panic begins with this, so that the demo can keep the terminal free of it and of no other.
pub const PLANNED_PANIC: &str = "too much: job ";

impl Character {
    pub const ALL: [Self; 7] =
        [Self::Steady, Self::Forgetful, Self::Jumpy, Self::Slow, Self::Stopped, Self::Stuck, Self::Hopeless];

    pub fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
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
            // All that lies behind the job it hangs in must fit into its mailbox.
            Self::Stuck => JOBS / 2,
            _ => JOBS,
        }
    }

    /// How to make such a worker, again and again.
    pub fn props(self) -> Props<Worker> {
        let mailbox = if self == Self::Slow { Mailbox::bounded(16) } else { Mailbox::default() };
        Props::new(move || Worker { character: self }).mailbox(mailbox).describe(|job| format!("job {job}"))
    }
}

/// An actor whose messages are the numbers of jobs.
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
