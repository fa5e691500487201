//! The summary of dead letters: the first one of a reason is written at once, further ones at most
//! once in 10 s, with their number and a few samples.

use pleach_core::{DeadLetter, DeadLetterReason, Instant};
use std::fmt::Write as _;
use std::time::Duration;

/// The shortest time between two lines about dead letters of the same reason.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);

/// How many different actors one line names.
const SAMPLES_MAX: usize = 3;

/// What one line says.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) reason: DeadLetterReason,
    pub(super) count: u64,
    pub(super) samples: String,
}

/// The dead letters of one reason that were not written yet.
#[derive(Debug)]
struct Window {
    reason: DeadLetterReason,
    /// No line is written before this time.
    until: Instant,
    count: u64,
    /// Path and type of message.
    samples: Vec<(String, &'static str)>,
    has_timer: bool,
}

/// What a caller does after it has recorded a dead letter.
#[derive(Debug)]
pub(super) enum Recorded {
    /// Writes this line now.
    Write(Summary),
    /// Calls [`DeadLetters::take_due`] at this time.
    SetTimer(Instant),
    /// Nothing: a timer is set.
    Counted,
}

/// One window for each reason that occurred.
#[derive(Debug, Default)]
pub(super) struct DeadLetters(Vec<Window>);

impl DeadLetters {
    /// Records a dead letter. `now` is called only if no timer is set for its reason.
    pub(super) fn record(&mut self, letter: &DeadLetter, now: impl FnOnce() -> Instant) -> Recorded {
        let reason = letter.reason;
        let Some(window) = self.0.iter_mut().find(|window| window.reason == reason) else {
            let window = Window { reason, until: now() + INTERVAL, count: 0, samples: Vec::new(), has_timer: false };
            self.0.push(window);
            return Recorded::Write(Summary { reason, count: 1, samples: sample(&letter.to.to_string(), letter.message_type) });
        };
        window.add(letter);
        if window.has_timer {
            return Recorded::Counted;
        }
        let now = now();
        if now >= window.until {
            return Recorded::Write(window.take(now));
        }
        window.has_timer = true;
        Recorded::SetTimer(window.until)
    }

    /// Returns the lines that may be written at `now`.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Summary> {
        let due = self.0.iter_mut().filter(|window| window.count > 0 && now >= window.until);
        due.map(|window| window.take(now)).collect()
    }

    /// Returns what was not written yet, because the system is gone.
    pub(super) fn take_rest(&mut self) -> Vec<Summary> {
        self.0.iter_mut().filter(|window| window.count > 0).map(|window| window.take(window.until)).collect()
    }
}

impl Window {
    fn add(&mut self, letter: &DeadLetter) {
        self.count += 1;
        if self.samples.len() < SAMPLES_MAX {
            let sample = (letter.to.to_string(), letter.message_type);
            if !self.samples.contains(&sample) {
                self.samples.push(sample);
            }
        }
    }

    /// Empties the window, and opens the next one.
    fn take(&mut self, now: Instant) -> Summary {
        let mut samples = String::new();
        for (path, message_type) in self.samples.drain(..) {
            let separator = if samples.is_empty() { "" } else { ", " };
            let _ = write!(samples, "{separator}{}", sample(&path, message_type));
        }
        (self.until, self.has_timer) = (now + INTERVAL, false);
        Summary { reason: self.reason, count: std::mem::take(&mut self.count), samples }
    }
}

fn sample(path: &str, message_type: &str) -> String {
    format!("{path} ({message_type})")
}

impl Summary {
    /// Returns why, and what to do.
    pub(super) fn explanation(&self) -> &'static str {
        match self.reason {
            DeadLetterReason::Stopped => "the actor stopped first; end it with `close` to have its queued messages handled",
            DeadLetterReason::Cancelled => "the actor was cancelled first; shut down with a longer timeout if they matter",
            DeadLetterReason::Failed => "the actor failed and was not restarted; its failure is in target pleach::supervision",
            DeadLetterReason::DroppedNewest | DeadLetterReason::DroppedOldest => {
                "the mailbox was full and drops messages; raise its capacity, or send more slowly"
            }
            DeadLetterReason::HandlerFailed => "the handler failed, and its props turn failed messages into dead letters",
            DeadLetterReason::NoTimer => "the system is sealed and had no room for their timers; reserve more",
            _ => "the actor did not reach them",
        }
    }
}

/// Returns the name of a reason in fields and labels.
pub(crate) fn reason_name(reason: DeadLetterReason) -> &'static str {
    match reason {
        DeadLetterReason::Stopped => "stopped",
        DeadLetterReason::Cancelled => "cancelled",
        DeadLetterReason::Failed => "failed",
        DeadLetterReason::DroppedNewest => "dropped_newest",
        DeadLetterReason::DroppedOldest => "dropped_oldest",
        DeadLetterReason::Conflated => "conflated",
        DeadLetterReason::HandlerFailed => "handler_failed",
        DeadLetterReason::NoTimer => "no_timer",
        _ => "other",
    }
}
