//! The group workloads: the shapes of groups, and one file per peer. One operation is a task; a
//! sample has as many groups as needed.
//!
//! The tasks, and the handling of their results, are the same for all peers. Each peer fills and
//! reads its group in one task, as a program would.

pub mod futures;
pub mod joinset;
pub mod pleach;
pub mod tracker;

use std::hint::black_box;
use std::time::{Duration, Instant};

/// One group of tasks.
#[derive(Clone, Copy)]
pub struct Shape {
    pub tasks: u64,
    /// The number of tasks that may run at once.
    pub limit: Option<usize>,
    pub work: Work,
    /// Task 0 fails, which cancels the others.
    pub fail_fast: bool,
    pub feed: Feed,
}

/// How the group is filled and read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Feed {
    /// One loop adds all tasks, then another reads all results.
    First,
    /// Both loops run at once, in one task by `join!`.
    Joined,
    /// Both loops run at once; that which adds is a task of its own.
    TwoTasks,
}

/// The work of the tasks.
#[derive(Clone, Copy)]
pub enum Work {
    /// No work: ready at the first poll.
    Tiny,
    /// Waits once and is woken at once.
    PendsOnce,
    /// Every eighth task sleeps for 200 µs.
    Mixed,
    /// Computes for a millisecond.
    Cpu,
}

#[derive(Debug)]
pub struct Failed;

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("failed")
    }
}

impl std::error::Error for Failed {}

const SLEEP: Duration = Duration::from_micros(200);

const COMPUTES: Duration = Duration::from_millis(1);

impl Shape {
    pub const fn tiny(tasks: u64) -> Self {
        Self { tasks, limit: None, work: Work::Tiny, fail_fast: false, feed: Feed::First }
    }

    pub const fn limit(self, limit: usize) -> Self {
        Self { limit: Some(limit), ..self }
    }

    pub const fn work(self, work: Work) -> Self {
        Self { work, ..self }
    }

    pub const fn fail_fast(self) -> Self {
        Self { fail_fast: true, ..self }
    }

    pub const fn feed(self, feed: Feed) -> Self {
        Self { feed, ..self }
    }

    /// Runs the n-th task of a group.
    pub async fn task(self, n: u64) -> Result<u64, Failed> {
        match self.work {
            Work::Tiny => {}
            Work::PendsOnce => tokio::task::yield_now().await,
            Work::Mixed if n % 8 == 7 => tokio::time::sleep(SLEEP).await,
            Work::Mixed => {}
            Work::Cpu => {
                let start = Instant::now();
                while start.elapsed() < COMPUTES {
                    black_box(n);
                }
            }
        }
        if self.fail_fast && n == 0 { Err(Failed) } else { Ok(n) }
    }
}
