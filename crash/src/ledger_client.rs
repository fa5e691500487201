//! [`LedgerClient`]: the connection of a driver to the ledger, and the points where it
//! dies.

use crate::report::{Reply, Report, Spec};
use pleach::runtime::Random;
use pleach::store::Row;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The connection to the ledger, and the point where this process dies. Shared within a driver.
#[derive(Clone)]
pub struct LedgerClient(Arc<ClientState>);

struct ClientState {
    spec: Spec,
    connection: Mutex<Connection>,
    passes: Mutex<HashMap<String, u64>>,
    begun: Instant,
    /// When this process was last not scheduled for too long, in milliseconds since its start, plus
    /// one.
    stalled_at: AtomicU64,
    chance: AtomicU64,
    claims: Mutex<Claims>,
}

type Connection = BufReader<TcpStream>;

/// Claims and written rows of this process.
#[derive(Default)]
struct Claims {
    /// The last epoch of each run that this process claimed.
    epochs: HashMap<String, u64>,
    /// The sums of rows that were written and not yet acknowledged.
    sums: HashMap<(String, u64), u64>,
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A hash that identifies a row.
pub fn sum_of(row: &Row) -> u64 {
    let mut hash = DefaultHasher::new();
    (row.sequence, &row.header, &row.body, row.sum).hash(&mut hash);
    hash.finish()
}

impl LedgerClient {
    pub fn connect(spec: Spec) -> std::io::Result<Self> {
        let connection = Mutex::new(BufReader::new(dial(&spec)?));
        let chance = AtomicU64::new(u64::from(std::process::id()));
        let (passes, claims, stalled_at) = (Mutex::default(), Mutex::default(), AtomicU64::new(0));
        let state = ClientState { spec, connection, passes, begun: Instant::now(), stalled_at, chance, claims };
        let ledger = Self(Arc::new(state));
        ledger.say(&Report::Hello { pid: std::process::id() });
        let watched = ledger.clone();
        thread::spawn(move || watched.watch_for_stalls());
        Ok(ledger)
    }

    pub fn spec(&self) -> &Spec {
        &self.0.spec
    }

    /// Reports and waits until the report is recorded. Exits the process if the ledger is gone.
    pub fn say(&self, report: &Report) -> Reply {
        tell(&mut lock(&self.0.connection), report).unwrap_or_else(|_| std::process::exit(3))
    }

    /// Reports something that must be recorded before the lease can have expired. If that took too
    /// long, reports `Waited`.
    pub fn say_in_time(&self, report: &Report) {
        let begun = Instant::now();
        self.say(report);
        if begun.elapsed() > self.stall_max() {
            self.say(&Report::Waited);
        }
    }

    /// How long this process may stall before its lease is in doubt.
    fn stall_max(&self) -> Duration {
        Duration::from_millis(self.0.spec.lease_millis / 4)
    }

    /// A point where a process can be made to die or to pause.
    pub fn pass(&self, class: &'static str) {
        let Spec { dies_at, pauses_at, .. } = &self.0.spec;
        let concerns = |at: &Option<(String, u64)>| at.as_ref().is_some_and(|(at, _)| at == class);
        if !concerns(dies_at) && !concerns(pauses_at) {
            return;
        }
        let pass = {
            let mut passes = lock(&self.0.passes);
            let count = passes.entry(class.to_string()).or_default();
            *count += 1;
            *count
        };
        let is_now = |at: &Option<(String, u64)>| at.as_ref().is_some_and(|(at, n)| at == class && *n == pass);
        if is_now(dies_at) {
            self.say(&Report::Dies { class: class.to_string() });
            std::process::abort();
        }
        if is_now(pauses_at) {
            // On a separate connection: other tasks keep reporting.
            let second = dial(&self.0.spec).map(BufReader::new);
            let answer = second.and_then(|mut connection| tell(&mut connection, &Report::PausedAt { pid: std::process::id() }));
            answer.map_or_else(|_| std::process::exit(3), drop);
        }
    }

    fn watch_for_stalls(&self) {
        let stall_max = self.stall_max();
        loop {
            let before = Instant::now();
            thread::sleep(Duration::from_millis(5));
            if before.elapsed() > stall_max {
                self.0.stalled_at.store(self.0.begun.elapsed().as_millis() as u64 + 1, SeqCst);
            }
        }
    }

    /// Records and reports a claim.
    pub fn claimed(&self, run: &str, epoch: u64) {
        lock(&self.0.claims).epochs.insert(run.to_string(), epoch);
        self.say(&Report::Claimed { run: run.to_string(), epoch });
    }

    /// The epoch of the last claim of a run.
    pub fn epoch_of(&self, run: &str) -> u64 {
        lock(&self.0.claims).epochs.get(run).copied().unwrap_or(0)
    }

    /// Records the sums of rows that are about to be written.
    pub fn writes(&self, run: &str, rows: &[Row]) {
        lock(&self.0.claims).sums.extend(rows.iter().map(|row| ((run.to_string(), row.sequence), sum_of(row))));
    }

    /// Reports that a row is durable.
    pub fn acknowledged(&self, run: &str, epoch: u64, sequence: u64) {
        let run = run.to_string();
        let sum = lock(&self.0.claims).sums.remove(&(run.clone(), sequence)).unwrap_or(0);
        self.say(&Report::Acknowledged { run, epoch, sequence, sum });
        self.pass("acknowledged");
    }

    /// A number below `max`, for short waits.
    pub fn chance(&self, max: u64) -> u64 {
        Random::seeded(self.0.chance.fetch_add(1, SeqCst)).next_u64() % max
    }

    pub fn has_stalled(&self) -> bool {
        let at = self.0.stalled_at.load(SeqCst);
        at > 0 && (self.0.begun.elapsed().as_millis() as u64) < at + 4 * self.0.spec.lease_millis
    }
}

fn dial(spec: &Spec) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", spec.ledger_port))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn tell(connection: &mut Connection, report: &Report) -> std::io::Result<Reply> {
    let mut text = serde_json::to_string(report)?;
    text.push('\n');
    connection.get_mut().write_all(text.as_bytes())?;
    let mut answer = String::new();
    connection.read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}
