//! Counted work of a store: bytes and blocks instead of times, which depend on everything else that
//! the machine does.

use std::time::Duration;

use tokio_postgres::Client;

/// PostgreSQL reports what an idle connection did after ten seconds.
const REPORTED_AFTER: Duration = Duration::from_secs(12);

/// What was read and written.
#[derive(Clone, Copy, Default)]
pub struct Work {
    pub read: u64,
    pub written: u64,
}

/// Counts the work of one store.
pub enum Meter {
    /// The bytes that this process reads from and writes to files. Linux only, else it counts 0.
    Process { at: Work, sum: Work },
    /// The blocks that a database used, and the rows that it changed.
    Database { admin: Client, name: String, at: Work },
}

impl Meter {
    pub fn of_process() -> Self {
        Self::Process { at: Work::default(), sum: Work::default() }
    }

    pub fn of_database(admin: Client, name: String) -> Self {
        Self::Database { admin, name, at: Work::default() }
    }

    /// The units of what is read and written.
    pub fn units(&self) -> [&'static str; 2] {
        match self {
            Self::Process { .. } => ["bytes read", "bytes written"],
            Self::Database { .. } => ["blocks used", "rows changed"],
        }
    }

    /// Begins an operation of many blocks.
    pub async fn begin(&mut self) {
        match self {
            Self::Process { sum, .. } => *sum = Work::default(),
            Self::Database { admin, name, at } => {
                tokio::time::sleep(REPORTED_AFTER).await;
                *at = of_database(admin, name).await;
            }
        }
    }

    /// Begins a block: until it is paused, the work belongs to this store.
    pub fn resume(&mut self) {
        if let Self::Process { at, .. } = self {
            *at = of_process();
        }
    }

    pub fn pause(&mut self) {
        if let Self::Process { at, sum } = self {
            let now = of_process();
            sum.read += now.read - at.read;
            sum.written += now.written - at.written;
        }
    }

    /// Returns the work since [`begin`](Self::begin).
    pub async fn end(&self) -> Work {
        match self {
            Self::Process { sum, .. } => *sum,
            Self::Database { admin, name, at } => {
                tokio::time::sleep(REPORTED_AFTER).await;
                let now = of_database(admin, name).await;
                Work { read: now.read - at.read, written: now.written - at.written }
            }
        }
    }
}

fn of_process() -> Work {
    let counts = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let count = |name: &str| {
        let line = counts.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    };
    Work { read: count("rchar:"), written: count("wchar:") }
}

async fn of_database(admin: &Client, name: &str) -> Work {
    let counts =
        "SELECT blks_hit + blks_read, tup_inserted + tup_updated + tup_deleted FROM pg_stat_database WHERE datname = $1";
    let counts = admin.query_one(counts, &[&name]).await.expect("the counts of a database");
    let count = |at: usize| counts.get::<_, i64>(at) as u64;
    Work { read: count(0), written: count(1) }
}
