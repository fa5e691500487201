//! The world as a driver sees it: the ledger it reports to, the places where it dies, and what one drive of one run knows.

use crate::report::{Reply, Report, Spec};
use pleach::store::{Row, Store};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The ledger, and where this process dies. Shared by all that happens in a driver.
#[derive(Clone)]
pub struct Outside(Arc<Inner>);

struct Inner {
    spec: Spec,
    line: Mutex<BufReader<TcpStream>>,
    passes: Mutex<HashMap<String, u64>>,
    begun: Instant,
    /// When this process was last found not to be scheduled, in milliseconds since it began, plus one.
    stalled_at: AtomicU64,
    chance: AtomicU64,
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What tells one row from any other.
pub fn sum_of(row: &Row) -> u64 {
    let mut hash = DefaultHasher::new();
    (row.sequence, &row.header, &row.body, row.sum).hash(&mut hash);
    hash.finish()
}

impl Outside {
    pub fn connect(spec: Spec) -> std::io::Result<Self> {
        let line = Mutex::new(BufReader::new(dial(&spec)?));
        let chance = AtomicU64::new(u64::from(std::process::id()));
        let inner =
            Inner { spec, line, passes: Mutex::default(), begun: Instant::now(), stalled_at: AtomicU64::new(0), chance };
        let outside = Self(Arc::new(inner));
        outside.say(&Report::Hello { pid: std::process::id() });
        let watched = outside.clone();
        thread::spawn(move || watched.watch_for_stalls());
        Ok(outside)
    }

    pub fn spec(&self) -> &Spec {
        &self.0.spec
    }

    /// Reports, and waits until it is written down. Without a ledger there is no point in living.
    pub fn say(&self, report: &Report) -> Reply {
        tell(&mut lock(&self.0.line), report).unwrap_or_else(|_| std::process::exit(3))
    }

    /// A place where a process can be made to die, or to stop for a while.
    pub fn pass(&self, class: &'static str) {
        let Spec { dies_at, holds_at, .. } = &self.0.spec;
        let concerns = |at: &Option<(String, u64)>| at.as_ref().is_some_and(|(at, _)| at == class);
        if !concerns(dies_at) && !concerns(holds_at) {
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
        if is_now(holds_at) {
            // On a line of its own: the others go on reporting.
            let held = dial(&self.0.spec).map(BufReader::new);
            let answer = held.and_then(|mut line| tell(&mut line, &Report::Holds { pid: std::process::id() }));
            answer.map_or_else(|_| std::process::exit(3), drop);
        }
    }

    fn watch_for_stalls(&self) {
        let patience = Duration::from_millis(self.0.spec.lease_millis / 4);
        loop {
            let before = Instant::now();
            thread::sleep(Duration::from_millis(5));
            if before.elapsed() > patience {
                self.0.stalled_at.store(self.0.begun.elapsed().as_millis() as u64 + 1, SeqCst);
            }
        }
    }

    fn has_stalled(&self) -> bool {
        let at = self.0.stalled_at.load(SeqCst);
        at > 0 && (self.0.begun.elapsed().as_millis() as u64) < at + 4 * self.0.spec.lease_millis
    }
}

fn dial(spec: &Spec) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", spec.ledger))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn tell(line: &mut BufReader<TcpStream>, report: &Report) -> std::io::Result<Reply> {
    let mut text = serde_json::to_string(report)?;
    text.push('\n');
    line.get_mut().write_all(text.as_bytes())?;
    let mut answer = String::new();
    line.read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}

/// One run, from when this process takes it up until it lets go of it.
#[derive(Clone)]
pub struct Drive {
    pub run: Arc<str>,
    outside: Outside,
    store: Arc<dyn Store>,
    known: Arc<Known>,
}

#[derive(Default)]
struct Known {
    epoch: AtomicU64,
    /// Of the rows that were handed to the store.
    sums: Mutex<HashMap<u64, u64>>,
}

impl Drive {
    pub fn new(outside: Outside, store: Arc<dyn Store>, run: &str) -> Self {
        Self { run: run.into(), outside, store, known: Arc::default() }
    }

    /// The same drive, whose nodes use this store.
    pub fn posting_to(mut self, store: Arc<dyn Store>) -> Self {
        self.store = store;
        self
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub fn pass(&self, class: &'static str) {
        self.outside.pass(class);
    }

    fn epoch(&self) -> u64 {
        self.known.epoch.load(SeqCst)
    }

    pub fn claimed(&self, epoch: u64) {
        self.known.epoch.store(epoch, SeqCst);
        self.outside.say(&Report::Claimed { run: self.run.to_string(), epoch });
    }

    pub fn begins(&self, thing: String, rests_on: Vec<String>, once: bool) {
        let (run, epoch, stalled) = (self.run.to_string(), self.epoch(), self.outside.has_stalled());
        self.outside.say(&Report::Began { run, thing, epoch, rests_on, once, stalled });
    }

    pub fn writes(&self, rows: &[Row]) {
        lock(&self.known.sums).extend(rows.iter().map(|row| (row.sequence, sum_of(row))));
    }

    /// The engine, or the store if it made the run, says that a record is durable.
    pub fn acknowledged(&self, sequence: u64) {
        let sum = lock(&self.known.sums).remove(&sequence).unwrap_or(0);
        let (run, epoch) = (self.run.to_string(), self.epoch());
        self.outside.say(&Report::Acknowledged { run, epoch, sequence, sum });
        self.pass("acknowledged");
    }

    /// A number below `max`, for short waits.
    pub fn chance(&self, max: u64) -> u64 {
        crate::dice::mixed(self.outside.0.chance.fetch_add(1, SeqCst)) % max
    }
}
