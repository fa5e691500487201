//! [`History`]: what the console has heard of a process while somebody watched.
//!
//! | file | owns |
//! |---|---|
//! | `ring` | the newest entries |
//! | `groups` | failures and dead letters, counted |
//! | `follow` | the connection that hears the events |
//! | `past` | what the process itself remembers: the last failure of each member, give-ups |
//!
//! Invariants:
//! 1. Nothing is connected until somebody asks. When nobody has asked for [`KEPT_FOR`], the
//!    connection is closed and everything is forgotten, except the last number.
//! 2. A number is never used twice. Entries that were not kept, and events that the process left
//!    out, have numbers too.
//! 3. What could not be heard because the connection was lost is an entry of the kind [`GAP`].

pub(super) mod follow;
pub(super) mod groups;
mod past;
pub(super) mod ring;

use crate::clock;
use crate::failure::Failure;
use crate::process::link::Link;
use groups::Groups;
use pleach::inspect::EventInfo;
use ring::{Entry, Ring};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// How long the history is kept when nobody asks.
pub(crate) const KEPT_FOR: Duration = Duration::from_secs(120);

/// The kind of an entry that says that events are missing.
pub(crate) const GAP: &str = "gap";

/// What the console has heard of one process.
pub(crate) struct History {
    link: Arc<Link>,
    heard: Mutex<Heard>,
    /// Whether the past was read, or why it could not be.
    ready: watch::Sender<Readiness>,
}

/// Whether the first connection has been made.
type Readiness = Option<Result<(), Failure>>;

/// What was heard, and who hears.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) ring: Ring,
    pub(crate) failures: Groups,
    pub(crate) dead_letters: Groups,
    /// Since when the console listens, in microseconds since 1970.
    pub(crate) since_us: u64,
    /// How many events the process left out.
    missed: u64,
    last_seq: u64,
    /// Events of the past that may come again, because they happened while the console began.
    doubtful: Vec<EventInfo>,
    asked_at: Option<Instant>,
    task: Option<AbortHandle>,
}

impl History {
    pub(crate) fn new(link: Arc<Link>) -> Arc<Self> {
        Arc::new(Self { link, heard: Mutex::default(), ready: watch::Sender::new(None) })
    }

    /// Begins to listen, if nobody does, and returns when the past is known.
    pub(crate) async fn listen(self: &Arc<Self>) -> Result<(), Failure> {
        let mut ready = self.begin();
        let known = ready.wait_for(Option::is_some).await.map(|known| known.clone());
        known.ok().flatten().unwrap_or_else(|| Err(Failure::new("internal", "the console stopped to listen")))
    }

    fn begin(self: &Arc<Self>) -> watch::Receiver<Readiness> {
        let mut heard = self.heard();
        heard.asked_at = Some(Instant::now());
        let receiver = self.ready.subscribe();
        if heard.task.is_none() {
            self.ready.send_replace(None);
            heard.since_us = unix_micros();
            heard.task = Some(tokio::spawn(follow::follow(Arc::downgrade(self), self.ready.clone())).abort_handle());
        }
        receiver
    }

    /// Looks at what was heard.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Heard) -> T) -> T {
        look(&self.heard())
    }

    /// Forgets everything if nobody has asked for long. Returns until when it is kept otherwise.
    fn end_unused(&self) -> Option<Instant> {
        let mut heard = self.heard();
        let until = heard.asked_at.map(|asked| asked + KEPT_FOR).filter(|until| Instant::now() < *until);
        if until.is_none() {
            *heard = Heard { last_seq: heard.last_seq, ..Heard::default() };
        }
        until
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for History {
    fn drop(&mut self) {
        if let Some(task) = self.heard().task.take() {
            task.abort();
        }
    }
}

impl Heard {
    /// Returns how many entries are not kept, or were never heard.
    pub(crate) fn missed(&self) -> u64 {
        self.missed + self.ring.dropped
    }

    /// Returns how many events the process left out.
    pub(crate) fn missed_events(&self) -> u64 {
        self.missed
    }

    /// Adds what the process remembers. It may send the same again, if it happened after `begun_us`,
    /// when the console began to follow; and the console may have heard it already.
    fn add_past(&mut self, past: Vec<(EventInfo, u64)>, begun_us: u64) {
        self.doubtful.clear();
        for (event, unix_us) in past {
            if self.ring.knows(&event, unix_us) {
                continue;
            }
            if unix_us >= begun_us {
                self.doubtful.push(event.clone());
            }
            self.add(event, unix_us);
        }
    }

    /// Adds an event as the process sends it, unless it is known from the past.
    fn hear(&mut self, event: EventInfo) {
        let what = |event: &EventInfo| {
            let failure = event.failure.as_ref().map(|failure| (failure.origin.clone(), failure.reason.clone()));
            (event.kind.clone(), event.path.clone(), failure)
        };
        let known = self.doubtful.iter().position(|known| what(known) == what(&event));
        match known {
            Some(known) => drop(self.doubtful.swap_remove(known)),
            None => {
                let unix_us = event.unix_us;
                self.add(event, unix_us);
            }
        }
    }

    /// Adds an event that happened at `unix_us`.
    fn add(&mut self, event: EventInfo, unix_us: u64) {
        self.last_seq += 1;
        let seq = self.last_seq;
        match event.kind.as_str() {
            // Every member starts; what matters is what became of it.
            "started" => return,
            "dead_letter" => {
                let letter = event.dead_letter.unwrap_or_default();
                let path = event.path.unwrap_or_default();
                return self.dead_letters.add(path, Some(&letter.message_type), &letter.reason, seq, unix_us);
            }
            "failed" => {
                let failure = event.failure.clone().unwrap_or_default();
                let path = event.path.clone().unwrap_or_default();
                let message = failure.message_type.as_deref().or(failure.message.as_deref());
                let reason = if failure.reason.is_empty() { &event.text } else { &failure.reason };
                self.failures.add(path, message, reason, seq, unix_us);
            }
            _ => {}
        }
        self.ring.push(Entry::of(event, seq, unix_us));
    }

    /// Notes events that the process left out.
    fn miss(&mut self, count: u64) {
        (self.last_seq, self.missed) = (self.last_seq + count, self.missed + count);
    }

    /// Notes that events are missing, and why.
    fn add_gap(&mut self, text: String) {
        self.last_seq += 1;
        self.ring.push(Entry::of_console(self.last_seq, unix_micros(), GAP, text));
    }
}

/// Returns a time of the protocol as RFC 3339.
pub(crate) fn time(unix_us: u64) -> String {
    let micros = i64::try_from(unix_us).unwrap_or(i64::MAX);
    clock::text(jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX))
}

/// Returns the present time of day, in microseconds since 1970.
pub(crate) fn unix_micros() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or(0)
}
