//! [`SystemLog`]: writes what happens in one system to `tracing`.
//!
//! Failures, decisions and wait cycles are always listened to: they are rare. Events that could
//! cost a program something, or set a timer (starts and ends, the time of handlers, full mailboxes,
//! dead letters), are listened to only while a subscriber wants them. That is checked when the
//! system is built, whenever a line is written, and by [`refresh`](SystemLog::refresh).

use super::dead_letters::{DeadLetters, INTERVAL, Recorded, Summary, reason_name};
use super::mailboxes::{EPISODES_MAX, Filled, Mailboxes};
use pleach_core::{
    ActorPath, Event, EventKinds, Exit, FailureInfo, GaveUp, Instant, Lint, ListenerHandle, Reason, Recovery, Runtime,
    SubscriptionOptions, SupervisorDirective, System,
};
use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;
use tracing::Level;

const SUPERVISION: &str = "pleach::supervision";
const HANDLER: &str = "pleach::handler";
const MAILBOX: &str = "pleach::mailbox";
const DEAD_LETTERS: &str = "pleach::dead_letters";
const WAITS: &str = "pleach::waits";
const LIFECYCLE: &str = "pleach::lifecycle";

/// How many recent failures of supervisors that gave up are kept, so that they are not written
/// twice.
const GAVE_UP_KEPT: usize = 16;

/// How many stuck handlers are kept at once. Above that, the end of each long handler is written.
const STUCK_KEPT_MAX: usize = 256;

/// The log of one system.
pub(crate) struct SystemLog {
    system: String,
    runtime: Arc<dyn Runtime>,
    listener: OnceLock<ListenerHandle>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kinds: Option<EventKinds>,
    dead_letters: DeadLetters,
    mailboxes: Mailboxes,
    gave_up: VecDeque<GaveUp>,
    /// The actors whose handlers were written as stuck, each once. A handler that only another
    /// listener has timed has no line at its end.
    stuck: Vec<ActorPath>,
}

impl SystemLog {
    /// Starts to log what happens in `system`.
    pub(crate) fn start(system: &System) -> Arc<Self> {
        let log = Arc::new(Self {
            system: system.name().to_string(),
            runtime: Arc::clone(system.shutdown_token().runtime()),
            listener: OnceLock::new(),
            state: Mutex::default(),
        });
        let kinds = wanted_kinds();
        log.state().kinds = Some(kinds);
        // The log holds no tree, so the tree may hold it, also while the system is mounted.
        let listening = Arc::clone(&log);
        let handle = system.hub().listen_to(kinds, move |event| listening.write(event));
        let _ = log.listener.set(handle);
        log
    }

    /// Asks the subscriber again which lines it wants.
    pub(crate) fn refresh(&self) {
        let kinds = wanted_kinds();
        let changed = self.state().kinds.replace(kinds) != Some(kinds);
        if let (true, Some(listener)) = (changed, self.listener.get()) {
            listener.set_kinds(kinds);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(self: &Arc<Self>, event: &Event) {
        match event {
            Event::DeadLetter(letter) => {
                let recorded = self.state().dead_letters.record(letter, || self.runtime.now());
                match recorded {
                    Recorded::Write(summary) => write_dead_letters(&self.system, &summary),
                    Recorded::SetTimer(at) => self.set_timer(at, Self::write_due_summaries),
                    Recorded::Counted => {}
                }
                return;
            }
            Event::Decided { failure, directive, .. } => self.write_decision(failure, *directive),
            Event::GaveUp(gave_up) => self.write_gave_up(gave_up),
            Event::Unhandled(failure) => self.write_unhandled(failure),
            Event::Lint(lint) => self.write_lint(lint),
            Event::Recovered(recovery) => self.write_recovery(recovery),
            event => return write_lifecycle(&self.system, event),
        }
        self.refresh();
    }

    fn write_decision(&self, failure: &FailureInfo, directive: SupervisorDirective) {
        let (system, path, origin) = (&self.system, failure.path(), failure.origin());
        let (incarnation, error_type, reason) = (failure.incarnation(), error_type(failure.reason()), text(failure.reason()));
        match directive {
            SupervisorDirective::Restart => {
                let (restarts, limit, window) = (failure.restarts(), failure.restart_limit(), failure.window());
                let delay = failure.restart_delay().unwrap_or_default();
                let when = if delay.is_zero() { "now".to_string() } else { format!("in {delay:?}") };
                let of = limit.map_or_else(String::new, |limit| format!(" of {limit}"));
                tracing::warn!(
                    target: SUPERVISION, system, %path, %origin, incarnation, error.r#type = error_type, reason, restarts, limit,
                    window_ms = window.as_millis() as u64, delay_ms = delay.as_millis() as u64,
                    "{path} failed and restarts {when} (restart {restarts}{of} in {window:?})"
                );
            }
            SupervisorDirective::Resume => tracing::warn!(
                target: SUPERVISION, system, %path, %origin, incarnation, error.r#type = error_type, reason,
                "{path} failed and continues with its state; the failed message is not handled again"
            ),
            SupervisorDirective::Stop if !self.gave_up_on(failure, |_| true) => tracing::warn!(
                target: SUPERVISION, system, %path, %origin, incarnation, error.r#type = error_type, reason,
                "{path} failed and its supervisor stops it; it is not restarted, and its messages become dead letters"
            ),
            // The supervisor that gave up, or the ancestor that decides next, writes the line.
            _ => {}
        }
    }

    fn write_gave_up(&self, gave_up: &GaveUp) {
        let GaveUp { supervisor, child, restarts, window, stopped, left, failure, .. } = gave_up;
        let (system, error_type, reason) = (&self.system, error_type(failure.reason()), text(failure.reason()));
        // The error in it is a user's value: it leaves the lock before it is dropped.
        let oldest = {
            let mut state = self.state();
            state.gave_up.push_back(gave_up.clone());
            if state.gave_up.len() > GAVE_UP_KEPT { state.gave_up.pop_front() } else { None }
        };
        drop(oldest);
        tracing::error!(
            target: SUPERVISION, system, %supervisor, %child, error.r#type = error_type, reason, restarts,
            window_ms = window.as_millis() as u64, stopped, left,
            "{gave_up}; queued messages become dead letters. Fix the cause, or set a higher restart limit or a backoff"
        );
    }

    fn write_unhandled(&self, failure: &FailureInfo) {
        let (origin, path, reason) = (failure.origin(), failure.path(), text(failure.reason()));
        if self.gave_up_on(failure, |gave_up| gave_up.supervisor == *path) {
            return;
        }
        tracing::error!(
            target: SUPERVISION, system = self.system, %origin, %path, incarnation = failure.incarnation(),
            error.r#type = error_type(failure.reason()), reason,
            "{origin} failed and no supervisor handled it; it is not restarted, and the other children of {path} keep running"
        );
    }

    /// Returns whether a line says already that a supervisor gave up because of this failure.
    fn gave_up_on(&self, failure: &FailureInfo, by: impl Fn(&GaveUp) -> bool) -> bool {
        self.state().gave_up.iter().any(|gave_up| gave_up.failure.is_same_as(failure) && by(gave_up))
    }

    fn write_lint(self: &Arc<Self>, lint: &Lint) {
        let system = &self.system;
        match lint {
            Lint::MailboxFilling { path, queued, capacity } => {
                let now = self.runtime.now();
                let filled = self.state().mailboxes.filled(path, now);
                match filled {
                    Filled::Begins => tracing::warn!(
                        target: MAILBOX, system, %path, queued, capacity,
                        "the mailbox of {path} is filling up: {queued} of {capacity} messages are queued; when it is full, \
                         senders wait, fail or lose messages, as its overflow rule says"
                    ),
                    Filled::TooMany => tracing::warn!(
                        target: MAILBOX, system, mailboxes = EPISODES_MAX,
                        "more than {EPISODES_MAX} mailboxes are filling up; further ones are not named until one has room again"
                    ),
                    Filled::Known | Filled::Ignored => {}
                }
            }
            Lint::StuckHandler { path, message, running_for } => {
                let mut state = self.state();
                if state.stuck.len() < STUCK_KEPT_MAX && !state.stuck.contains(path) {
                    state.stuck.push(path.clone());
                }
                drop(state);
                tracing::warn!(
                    target: HANDLER, system, %path, message_type = %message, running_ms = running_for.as_millis() as u64,
                    "{path} has been handling one message for {running_for:?} and handles no other meanwhile; move slow work \
                     to a task, or give it a timeout"
                );
            }
            Lint::AskCycle(cycle) => tracing::warn!(
                target: WAITS, system, cycle = %Cycle(cycle),
                "an ask closes a wait cycle and can only time out: {}", Cycle(cycle)
            ),
            Lint::SendCycle(cycle) => tracing::warn!(
                target: WAITS, system, cycle = %Cycle(cycle),
                "a send that waits for room closed a wait cycle and was accepted above the capacity: {}", Cycle(cycle)
            ),
            Lint::LimitReached(reached) => tracing::warn!(
                target: WAITS, system, path = %reached.member, reserved = reached.reserved,
                "{reached}; further refusals are counted in the health of the system"
            ),
            _ => {}
        }
    }

    fn write_recovery(self: &Arc<Self>, recovery: &Recovery) {
        match recovery {
            Recovery::HandlerReturned { path, message, ran_for } => {
                let mut state = self.state();
                let is_full = state.stuck.len() >= STUCK_KEPT_MAX;
                let known = state.stuck.iter().position(|stuck| stuck == path);
                let is_known = known.map(|at| state.stuck.swap_remove(at)).is_some();
                drop(state);
                if is_known || is_full {
                    tracing::info!(
                        target: HANDLER, system = self.system, %path, message_type = %message, ran_ms = ran_for.as_millis() as u64,
                        "{path} is no longer at the message that took {ran_for:?}: its handler returned, failed or was cancelled"
                    );
                }
            }
            Recovery::MailboxDrained { path, .. } => {
                let now = self.runtime.now();
                let due = self.state().mailboxes.drained(path, now);
                due.into_iter().for_each(|at| self.set_timer(at, Self::write_ended_episodes));
            }
            _ => {}
        }
    }

    /// Writes what is due at `at`, or the rest when the system has ended. The timer keeps neither
    /// the log nor the system alive.
    fn set_timer(self: &Arc<Self>, at: Instant, write_due: fn(&Arc<Self>)) {
        let Some(hub) = self.listener.get().and_then(ListenerHandle::hub) else { return };
        let mut end = hub.subscribe_with(SubscriptionOptions::new().kinds(EventKinds::NONE).capacity(1));
        let (log, mut sleep) = (Arc::downgrade(self), self.runtime.sleep_until(at));
        self.runtime.spawn_observer(Box::pin(async move {
            let mut ended = Box::pin(end.next());
            let has_ended = poll_fn(|cx| match (ended.as_mut().poll(cx), sleep.as_mut().poll(cx)) {
                (Poll::Ready(_), _) => Poll::Ready(true),
                (_, Poll::Ready(())) => Poll::Ready(false),
                _ => Poll::Pending,
            })
            .await;
            if let Some(log) = log.upgrade() {
                if has_ended { log.write_rest() } else { write_due(&log) }
            }
        }));
    }

    /// Writes the dead letters that were not written yet.
    fn write_rest(&self) {
        let rest = self.state().dead_letters.take_rest();
        rest.iter().for_each(|summary| write_dead_letters(&self.system, summary));
    }

    fn write_due_summaries(self: &Arc<Self>) {
        let summaries = self.state().dead_letters.take_due(self.runtime.now());
        summaries.iter().for_each(|summary| write_dead_letters(&self.system, summary));
    }

    fn write_ended_episodes(self: &Arc<Self>) {
        let (ended, next) = self.state().mailboxes.take_ended(self.runtime.now());
        for ended in ended {
            let (path, fills, lasted) = (&ended.path, ended.fills, ended.lasted);
            tracing::info!(
                target: MAILBOX, system = self.system, path, fills, lasted_ms = lasted.as_millis() as u64,
                "the mailbox of {path} has room again, after it filled up {fills} times within {lasted:?}"
            );
        }
        next.into_iter().for_each(|at| self.set_timer(at, Self::write_ended_episodes));
    }
}

/// The runtime may have ended before the system.
impl Drop for SystemLog {
    fn drop(&mut self) {
        self.write_rest();
    }
}

impl fmt::Debug for SystemLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemLog").field("system", &self.system).finish_non_exhaustive()
    }
}

/// Returns the kinds of events that can become a line of a level that a subscriber wants.
fn wanted_kinds() -> EventKinds {
    let mut kinds = EventKinds::UNHANDLED | EventKinds::GAVE_UP | EventKinds::DECISIONS | EventKinds::WAIT_CYCLES;
    if tracing::enabled!(target: MAILBOX, Level::WARN) {
        kinds |= EventKinds::MAILBOXES | EventKinds::RECOVERIES;
    }
    if tracing::enabled!(target: DEAD_LETTERS, Level::WARN) {
        kinds |= EventKinds::LOST;
    }
    if tracing::enabled!(target: HANDLER, Level::WARN) {
        kinds |= EventKinds::STUCK_HANDLERS | EventKinds::RECOVERIES;
    }
    if tracing::enabled!(target: LIFECYCLE, Level::DEBUG) {
        kinds |= EventKinds::LIFECYCLE;
    }
    kinds
}

/// Returns a text that contains the text of a user's error, which may panic. The line is written in
/// any case.
fn text(shown: &impl fmt::Display) -> String {
    pleach_core::catch_panic(|| shown.to_string()).unwrap_or_else(|_| "the error panicked when its text was asked for".into())
}

/// Returns the value of `error.type`.
fn error_type(reason: &Reason) -> &'static str {
    match reason {
        Reason::Panic { .. } => "panic",
        _ => "error",
    }
}

fn write_dead_letters(system: &str, summary: &Summary) {
    let Summary { count, samples, .. } = summary;
    let (reason, explanation) = (reason_name(summary.reason), summary.explanation());
    let messages = if *count == 1 { "1 message was".to_string() } else { format!("{count} messages were") };
    tracing::warn!(
        target: DEAD_LETTERS, system, reason, count, samples,
        "{messages} not handled: {explanation} (further ones are counted for {} s)", INTERVAL.as_secs()
    );
}

fn write_lifecycle(system: &str, event: &Event) {
    match event {
        Event::Started { path } => tracing::debug!(target: LIFECYCLE, system, %path, "{path} started"),
        Event::Restarted { path, incarnation } => {
            tracing::debug!(target: LIFECYCLE, system, %path, incarnation, "{path} restarted");
        }
        Event::Suspended { path } => tracing::debug!(target: LIFECYCLE, system, %path, "{path} was suspended"),
        Event::Resumed { path } => tracing::debug!(target: LIFECYCLE, system, %path, "{path} was resumed"),
        Event::Ended { path, exit } => {
            let exit_kind = exit_kind(exit);
            tracing::debug!(target: LIFECYCLE, system, %path, exit = exit_kind, "{path} ended: {}", text(exit));
        }
        _ => {}
    }
}

fn exit_kind(exit: &Exit) -> &'static str {
    match exit {
        Exit::Stopped => "stopped",
        Exit::Closed => "closed",
        Exit::Cancelled(_) => "cancelled",
        Exit::TidiedUp(_) => "tidied_up",
        Exit::Failed(_) => "failed",
        _ => "other",
    }
}

/// Writes a wait cycle as `/a -> /b -> /a`.
struct Cycle<'a>(&'a [ActorPath]);

impl fmt::Display for Cycle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for path in self.0 {
            write!(f, "{path} -> ")?;
        }
        self.0.first().map_or(Ok(()), |first| write!(f, "{first}"))
    }
}
