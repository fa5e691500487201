//! Events of a system as values, for clients that follow them.

use crate::events::{DeadLetter, DecisionScope, Event, EventKinds, Lint, Recovery};
use crate::inspect::event_info::{DeadLetterDetails, DecisionDetails, EventInfo, FailureDetails};
use crate::inspect::protocol::{EVENT_KINDS, EVENT_KINDS_DEFAULT, Failure};
use crate::telemetry::dead_letters::reason_name;
use pleach_core::{ActorPath, Cause, Exit, FailureInfo, METADATA_MAX, SupervisorDirective};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The longest text or reason of an event, in characters. A longer one is shortened.
const TEXT_LEN_MAX: usize = 2_048;

/// The longest message of a failure or dead letter, and the longest part of its metadata, in
/// characters.
const MESSAGE_LEN_MAX: usize = 512;
const METADATA_LEN_MAX: usize = 256;

/// Describes an event, without its number and time. Texts of the program are shortened; message
/// contents are described only as the program's `Props::describe` describes them.
pub(super) fn described(event: &Event) -> EventInfo {
    let (kind, path) = (kind_of(event), path_of(event).cloned());
    // It can contain the text of a user's error, which may panic.
    let text = pleach_core::catch_panic(|| text_of(event))
        .unwrap_or_else(|_| format!("{kind}; the error panicked when its text was asked for"));
    let mut info = EventInfo::new(kind, path, shortened(text, TEXT_LEN_MAX));
    match event {
        Event::Failed(failure) | Event::Unhandled(failure) => info.failure = Some(Box::new(FailureDetails::of(failure))),
        Event::GaveUp(gave_up) => info.failure = Some(Box::new(FailureDetails::of(&gave_up.failure))),
        Event::Decided { failure, directive, scope } => {
            info.failure = Some(Box::new(FailureDetails::of(failure)));
            info.decision = Some(Box::new(DecisionDetails::of(failure, *directive, scope)));
        }
        Event::DeadLetter(letter) => info.dead_letter = Some(DeadLetterDetails::of(letter)),
        _ => {}
    }
    info
}

impl EventInfo {
    /// An event without details, number and time.
    pub(super) fn new(kind: &str, path: Option<ActorPath>, text: String) -> Self {
        let kind = kind.to_string();
        Self { seq: 0, unix_us: 0, kind, path, text, failure: None, decision: None, dead_letter: None }
    }
}

impl FailureDetails {
    fn of(failure: &FailureInfo) -> Self {
        let reason = pleach_core::catch_panic(|| failure.reason().to_string())
            .unwrap_or_else(|_| "the error panicked when its text was asked for".to_string());
        let pair = |(key, value): (&String, &String)| {
            (shortened(key.clone(), METADATA_LEN_MAX), shortened(value.clone(), METADATA_LEN_MAX))
        };
        Self {
            reason: shortened(reason, TEXT_LEN_MAX),
            origin: failure.origin().clone(),
            message: failure.message().map(|message| shortened(message.to_string(), MESSAGE_LEN_MAX)),
            message_type: failure.message_type().map(ToString::to_string),
            incarnation: failure.incarnation(),
            metadata: failure.metadata().iter().take(METADATA_MAX).map(pair).collect(),
        }
    }
}

impl DecisionDetails {
    fn of(failure: &FailureInfo, directive: SupervisorDirective, scope: &DecisionScope) -> Self {
        Self {
            directive: directive_name(directive).to_string(),
            supervisor: failure.path().parent().unwrap_or_default(),
            strategy: scope.strategy.to_string(),
            restarts: failure.restarts(),
            limit: failure.restart_limit(),
            window_us: micros(failure.window()),
            delay_us: failure.restart_delay().map(micros),
            also: scope.siblings.clone(),
            also_left_out: scope.siblings_left_out as u64,
        }
    }
}

impl DeadLetterDetails {
    fn of(letter: &DeadLetter) -> Self {
        Self {
            message: shortened(letter.message.to_string(), MESSAGE_LEN_MAX),
            message_type: shortened(letter.message_type.to_string(), MESSAGE_LEN_MAX),
            reason: reason_name(letter.reason).to_string(),
        }
    }
}

/// Returns the name of a directive in the protocol.
pub(super) fn directive_name(directive: SupervisorDirective) -> &'static str {
    match directive {
        SupervisorDirective::Resume => "resume",
        SupervisorDirective::Restart => "restart",
        SupervisorDirective::Stop => "stop",
        SupervisorDirective::Escalate => "escalate",
        _ => "other",
    }
}

/// Returns a duration in whole microseconds.
pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the name of an event's kind.
fn kind_of(event: &Event) -> &'static str {
    match event {
        Event::Started { .. } => "started",
        Event::Restarted { .. } => "restarted",
        Event::Suspended { .. } => "suspended",
        Event::Resumed { .. } => "resumed",
        Event::Ended { .. } => "ended",
        Event::Failed(_) => "failed",
        Event::Decided { .. } => "decided",
        Event::GaveUp(_) => "gave_up",
        Event::Unhandled(_) => "unhandled",
        Event::DeadLetter(_) => "dead_letter",
        Event::Lint(Lint::StuckHandler { .. }) => "stuck_handler",
        Event::Lint(Lint::LongHandler { .. }) => "long_handler",
        Event::Lint(Lint::MailboxFilling { .. }) => "mailbox_filling",
        Event::Lint(Lint::AskCycle(_) | Lint::SendCycle(_)) => "wait_cycle",
        Event::Lint(Lint::LimitReached(_)) => "limit_reached",
        Event::Recovered(Recovery::HandlerReturned { .. }) => "handler_returned",
        Event::Recovered(Recovery::MailboxDrained { .. }) => "mailbox_drained",
        _ => "other",
    }
}

/// Describes an event in one sentence.
fn text_of(event: &Event) -> String {
    match event {
        Event::Started { path } => format!("{path} started"),
        Event::Restarted { path, incarnation } => format!("{path} restarted, incarnation {incarnation}"),
        Event::Suspended { path } => format!("{path} was suspended"),
        Event::Resumed { path } => format!("{path} was resumed"),
        Event::Ended { path, exit } => format!("{path} ended: {}", exit_text(exit)),
        Event::Failed(failure) => failure.to_string(),
        Event::Decided { failure, directive, .. } => decision_text(failure, *directive),
        Event::GaveUp(gave_up) => gave_up.to_string(),
        Event::Unhandled(failure) => format!("unhandled: {failure}"),
        Event::DeadLetter(letter) => letter.to_string(),
        Event::Lint(lint) => lint_text(lint),
        Event::Recovered(Recovery::HandlerReturned { path, message, ran_for }) => {
            format!("{path} has ended a {message} that took {ran_for:.1?}")
        }
        Event::Recovered(Recovery::MailboxDrained { path, queued, capacity }) => {
            format!("the mailbox of {path} has room again: {queued} of {capacity} messages are queued")
        }
        other => format!("{other:?}"),
    }
}

fn decision_text(failure: &FailureInfo, directive: SupervisorDirective) -> String {
    let path = failure.path();
    let does = match directive {
        SupervisorDirective::Resume => "continues with its state".to_string(),
        SupervisorDirective::Stop => "is stopped and not restarted".to_string(),
        SupervisorDirective::Restart => {
            let limit = failure.restart_limit().map_or_else(String::new, |limit| format!(" of {limit}"));
            let delay = failure.restart_delay().filter(|delay| !delay.is_zero());
            let when = delay.map_or_else(|| "now".to_string(), |delay| format!("in {delay:?}"));
            format!("restarts {when} (restart {}{limit} in {:?})", failure.restarts(), failure.window())
        }
        _ => "leaves the failure to the supervisor above".to_string(),
    };
    format!("{path} {does} after: {failure}")
}

fn lint_text(lint: &Lint) -> String {
    let chain = |paths: &[ActorPath]| {
        let paths: Vec<_> = paths.iter().chain(paths.first()).map(ToString::to_string).collect();
        paths.join(" waits for ")
    };
    match lint {
        Lint::StuckHandler { path, message, running_for } | Lint::LongHandler { path, message, running_for } => {
            format!("{path} has been handling one {message} for {running_for:.1?} and handles no other meanwhile")
        }
        Lint::MailboxFilling { path, queued, capacity } => {
            format!("the mailbox of {path} is filling up: {queued} of {capacity} messages are queued")
        }
        Lint::AskCycle(cycle) => format!("an ask closes a wait cycle and can only time out: {}", chain(cycle)),
        Lint::SendCycle(cycle) => {
            format!("a send closed a wait cycle and was accepted above the capacity: {}", chain(cycle))
        }
        Lint::LimitReached(reached) => reached.to_string(),
        lint => format!("{lint:?}"),
    }
}

/// Returns the member that an event is about, without describing it.
pub(super) fn path_of(event: &Event) -> Option<&ActorPath> {
    match event {
        Event::Started { path }
        | Event::Restarted { path, .. }
        | Event::Suspended { path }
        | Event::Resumed { path }
        | Event::Ended { path, .. } => Some(path),
        Event::Failed(failure) | Event::Decided { failure, .. } | Event::Unhandled(failure) => Some(failure.path()),
        Event::GaveUp(gave_up) => Some(&gave_up.supervisor),
        Event::DeadLetter(letter) => Some(&letter.to),
        Event::Lint(lint) => lint_path(lint),
        Event::Recovered(Recovery::HandlerReturned { path, .. } | Recovery::MailboxDrained { path, .. }) => Some(path),
        _ => None,
    }
}

fn exit_text(exit: &Exit) -> String {
    match exit {
        Exit::Cancelled(Cause::Cancelled) => "cancelled".to_string(),
        exit => exit.to_string(),
    }
}

fn lint_path(lint: &Lint) -> Option<&ActorPath> {
    match lint {
        Lint::AskCycle(paths) | Lint::SendCycle(paths) => paths.first(),
        Lint::LimitReached(reached) => Some(&reached.member),
        Lint::MailboxFilling { path, .. } | Lint::LongHandler { path, .. } | Lint::StuckHandler { path, .. } => Some(path),
        _ => None,
    }
}

fn shortened(text: String, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// What a connection follows.
#[derive(Clone, Copy)]
pub(super) struct FollowedKinds {
    pub(super) kinds: EventKinds,
    pub(super) health: bool,
    /// Whether the ends of stuck handlers, and of full mailboxes, are followed.
    handler_ends: bool,
    mailbox_ends: bool,
}

impl FollowedKinds {
    const NONE: Self = Self { kinds: EventKinds::NONE, health: false, handler_ends: false, mailbox_ends: false };

    /// Returns the kinds with these names. Default: all that cost nothing until they happen.
    pub(super) fn of(names: Option<&[String]>) -> Result<Self, Failure> {
        let default = || EVENT_KINDS.iter().take(EVENT_KINDS_DEFAULT).map(ToString::to_string).collect();
        let names = names.map_or_else(default, <[String]>::to_vec);
        names.iter().try_fold(Self::NONE, |followed, name| followed.and(name))
    }

    fn and(mut self, name: &str) -> Result<Self, Failure> {
        self.kinds |= match name {
            "failures" => EventKinds::FAILURES,
            "unhandled" => EventKinds::UNHANDLED,
            "dead_letters" => EventKinds::DEAD_LETTERS,
            "lifecycle" => EventKinds::LIFECYCLE,
            "decisions" => EventKinds::DECISIONS,
            "gave_up" => EventKinds::GAVE_UP,
            "lints" => EventKinds::LINTS,
            "wait_cycles" => EventKinds::WAIT_CYCLES,
            "stuck_handlers" => {
                self.handler_ends = true;
                EventKinds::STUCK_HANDLERS | EventKinds::RECOVERIES
            }
            "mailboxes" => {
                self.mailbox_ends = true;
                EventKinds::MAILBOXES | EventKinds::RECOVERIES
            }
            "health" => {
                self.health = true;
                EventKinds::NONE
            }
            name => {
                let text = format!("unknown event kind {name:?}; known: {}", EVENT_KINDS.join(", "));
                return Err(Failure::new("bad_request", text));
            }
        };
        Ok(self)
    }

    /// Returns whether an event of the followed kinds is sent. A listener gets all recoveries or
    /// none, and a client wants some of them.
    pub(super) fn sends(&self, event: &Event) -> bool {
        match event {
            Event::Recovered(Recovery::HandlerReturned { .. }) => self.handler_ends,
            Event::Recovered(Recovery::MailboxDrained { .. }) => self.mailbox_ends,
            _ => true,
        }
    }
}

/// Returns the time of day in microseconds since 1970.
pub(super) fn unix_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
