//! [`SystemMetrics`]: counters and gauges of one system, through the `metrics` facade.
//!
//! Counters of messages and gauges are sampled: a tell costs nothing. Counters of rare things
//! (failures, decisions, dead letters) follow the events of the system.

use super::dead_letters::reason_name;
use pleach_core::{
    ActorSample, CancelToken, Event, EventKinds, Lint, ListenerHandle, Reason, RootContext, SupervisorDirective, System,
};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The most values of the label `actor` per system. Further kinds of actors are counted as `other`.
pub const ACTOR_LABELS_MAX: usize = 100;

/// The value of the label `actor` for all kinds of actors above [`ACTOR_LABELS_MAX`].
const OTHER: &str = "other";

/// Records the metrics of one system with the installed `metrics` recorder.
///
/// Call [`sample`](Self::sample) when metrics are scraped, or let
/// [`sample_every`](Self::sample_every) do it. Dropping it stops the counters.
///
/// | name | kind | labels | meaning |
/// |---|---|---|---|
/// | `pleach.messages.accepted` | counter | `system` | messages that mailboxes accepted |
/// | `pleach.messages` | counter | `system`, `outcome` | `handled`, `failed`, `dead_lettered` |
/// | `pleach.failures` | counter | `system`, `error.type` | failures: `error`, `panic` |
/// | `pleach.failures.unhandled` | counter | `system` | failures that reached the root |
/// | `pleach.supervision.decisions` | counter | `system`, `directive` | decisions: `restart`, … |
/// | `pleach.supervision.gave_up` | counter | `system` | supervisors that gave up |
/// | `pleach.dead_letters` | counter | `system`, `reason` | messages that were not handled |
/// | `pleach.lints` | counter | `system`, `lint` | `mailbox_filling`, `ask_cycle`, `send_cycle` |
/// | `pleach.actors` | gauge | `system`, `actor` | running actors |
/// | `pleach.mailbox.queued` | gauge | `system`, `actor` | queued messages of all these actors |
/// | `pleach.mailbox.queued.max` | gauge | `system`, `actor` | the longest queue of them |
///
/// `actor` is the label of the props ([`Props::label`](pleach_core::Props::label)), or else the
/// name of the message type, and never a path. It has at most [`ACTOR_LABELS_MAX`] values.
///
/// ```
/// use pleach::prelude::*;
/// use pleach::telemetry::SystemMetrics;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), pleach::Error> {
/// let system = ActorSystem::new("shop")?;
/// let metrics = SystemMetrics::new(&system);
/// system.spawn("till", Props::from_fn(|| (), |_, _: u32| Ok::<(), pleach::BoxError>(())).label("till"))?;
/// metrics.sample(); // in the handler of `/metrics`
/// # Ok(())
/// # }
/// ```
pub struct SystemMetrics {
    system: Arc<str>,
    root: RootContext,
    token: CancelToken,
    listener: Option<ListenerHandle>,
    /// The labels with a gauge. They are set to 0 when the last such actor has ended.
    labels: Mutex<BTreeMap<&'static str, Actors>>,
}

/// The actors with one label.
#[derive(Clone, Copy, Default)]
struct Actors {
    count: usize,
    queued: usize,
    queued_max: usize,
}

impl SystemMetrics {
    /// Starts to count what happens in `system`.
    pub fn new(system: &System) -> Self {
        let name: Arc<str> = system.name().into();
        let counted = Arc::clone(&name);
        let kinds = EventKinds::FAILURES
            | EventKinds::UNHANDLED
            | EventKinds::DECISIONS
            | EventKinds::GAVE_UP
            | EventKinds::DEAD_LETTERS
            | EventKinds::MAILBOXES
            | EventKinds::WAIT_CYCLES;
        let listener = system.hub().listen_to(kinds, move |event| count(&counted, event));
        Self {
            system: name,
            root: system.root(),
            token: system.shutdown_token(),
            listener: Some(listener),
            labels: Mutex::default(),
        }
    }

    /// Reads the counts and mailboxes of all actors, and sets counters and gauges.
    ///
    /// Takes time in proportion to the number of actors, and stops none of them.
    pub fn sample(&self) {
        let counts = self.root.counts();
        let system = || self.system.to_string();
        metrics::counter!("pleach.messages.accepted", "system" => system()).absolute(counts.accepted);
        for (outcome, count) in
            [("handled", counts.handled), ("failed", counts.failed), ("dead_lettered", counts.dead_lettered)]
        {
            metrics::counter!("pleach.messages", "system" => system(), "outcome" => outcome).absolute(count);
        }
        let mut labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        labels.values_mut().for_each(|actors| *actors = Actors::default());
        self.root.sample_actors(|sample| add(&mut labels, sample));
        for (label, actors) in labels.iter() {
            let set = |name: &'static str, value: usize| {
                metrics::gauge!(name, "system" => system(), "actor" => *label).set(value as f64);
            };
            set("pleach.actors", actors.count);
            set("pleach.mailbox.queued", actors.queued);
            set("pleach.mailbox.queued.max", actors.queued_max);
        }
    }

    /// Samples after each `interval` until the system begins to end, and once more then. Launch it
    /// in a scope.
    pub async fn sample_every(self, interval: Duration) {
        let runtime = Arc::clone(self.token.runtime());
        while !self.token.is_cancelled() {
            self.sample();
            let mut sleep = runtime.sleep_until(runtime.now() + interval);
            let mut ends = Box::pin(self.token.cancelled());
            std::future::poll_fn(|cx| match (ends.as_mut().poll(cx), sleep.as_mut().poll(cx)) {
                (std::task::Poll::Pending, std::task::Poll::Pending) => std::task::Poll::Pending,
                _ => std::task::Poll::Ready(()),
            })
            .await;
        }
        self.sample();
    }
}

impl Drop for SystemMetrics {
    fn drop(&mut self) {
        self.listener.take().into_iter().for_each(ListenerHandle::stop);
    }
}

impl fmt::Debug for SystemMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemMetrics").field("system", &self.system).finish_non_exhaustive()
    }
}

/// Adds an actor to its label, or to `other` if there are too many labels.
fn add(labels: &mut BTreeMap<&'static str, Actors>, sample: &ActorSample) {
    let has_room = labels.len() < ACTOR_LABELS_MAX - 1 || labels.contains_key(sample.label);
    let actors = labels.entry(if has_room { sample.label } else { OTHER }).or_default();
    actors.count += 1;
    actors.queued += sample.queued;
    actors.queued_max = actors.queued_max.max(sample.queued);
}

/// Counts an event.
fn count(system: &Arc<str>, event: &Event) {
    let system = system.to_string();
    match event {
        Event::Failed(failure) => {
            let error_type = if matches!(failure.reason(), Reason::Panic { .. }) { "panic" } else { "error" };
            metrics::counter!("pleach.failures", "system" => system, "error.type" => error_type).increment(1);
        }
        Event::Unhandled(_) => metrics::counter!("pleach.failures.unhandled", "system" => system).increment(1),
        Event::Decided { directive, .. } => {
            let directive = match directive {
                SupervisorDirective::Restart => "restart",
                SupervisorDirective::Resume => "resume",
                SupervisorDirective::Stop => "stop",
                _ => "escalate",
            };
            metrics::counter!("pleach.supervision.decisions", "system" => system, "directive" => directive).increment(1);
        }
        Event::GaveUp(_) => metrics::counter!("pleach.supervision.gave_up", "system" => system).increment(1),
        Event::DeadLetter(letter) => {
            let reason = reason_name(letter.reason);
            metrics::counter!("pleach.dead_letters", "system" => system, "reason" => reason).increment(1);
        }
        Event::Lint(lint) => {
            let lint = match lint {
                Lint::MailboxFilling { .. } => "mailbox_filling",
                Lint::AskCycle(_) => "ask_cycle",
                Lint::SendCycle(_) => "send_cycle",
                Lint::LimitReached(_) => "limit_reached",
                _ => OTHER,
            };
            metrics::counter!("pleach.lints", "system" => system, "lint" => lint).increment(1);
        }
        _ => {}
    }
}
