//! Events of a system as values, for clients that follow them.

use crate::events::{Event, EventKinds, Lint};
use crate::inspect::protocol::{EVENT_KINDS, Failure};
use pleach_core::{ActorPath, Cause, Exit};
use std::time::{SystemTime, UNIX_EPOCH};

/// The longest text of an event, in characters. A longer one is shortened.
const TEXT_LEN_MAX: usize = 2_048;

/// What of an event travels to clients.
pub(super) struct EventText {
    pub(super) kind: &'static str,
    pub(super) path: Option<ActorPath>,
    pub(super) text: String,
}

impl EventText {
    /// Describes an event. Texts of the program are shortened; message contents are described only
    /// as the program's `Props::describe` describes them.
    pub(super) fn of(event: &Event) -> Self {
        let (kind, path) = (kind_of(event), path_of(event).cloned());
        // It can contain the text of a user's error, which may panic.
        let text = pleach_core::catch_panic(|| text_of(event))
            .unwrap_or_else(|_| format!("{kind}; the error panicked when its text was asked for"));
        Self { kind, path, text: shortened(text) }
    }
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
        Event::Lint(_) => "lint",
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
        Event::Decided { failure, directive } => format!("decided {directive:?} after: {failure}"),
        Event::GaveUp(gave_up) => gave_up.to_string(),
        Event::Unhandled(failure) => format!("unhandled: {failure}"),
        Event::DeadLetter(letter) => letter.to_string(),
        Event::Lint(lint) => format!("{lint:?}"),
        other => format!("{other:?}"),
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
        Lint::MailboxFilling { path, .. } | Lint::LongHandler { path, .. } => Some(path),
        _ => None,
    }
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(TEXT_LEN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Returns the kinds with these names. Default: all except lints, because timing handlers costs
/// every message.
pub(super) fn kinds_of(names: Option<&[String]>) -> Result<EventKinds, Failure> {
    let kind = |name: &str| match name {
        "failures" => Some(EventKinds::FAILURES),
        "unhandled" => Some(EventKinds::UNHANDLED),
        "dead_letters" => Some(EventKinds::DEAD_LETTERS),
        "lifecycle" => Some(EventKinds::LIFECYCLE),
        "decisions" => Some(EventKinds::DECISIONS),
        "gave_up" => Some(EventKinds::GAVE_UP),
        "lints" => Some(EventKinds::LINTS),
        _ => None,
    };
    let all_but_lints = || EVENT_KINDS.iter().filter(|name| **name != "lints").map(|name| name.to_string()).collect();
    let names = names.map_or_else(all_but_lints, <[String]>::to_vec);
    names.iter().try_fold(EventKinds::NONE, |kinds, name| {
        let unknown = || format!("unknown event kind {name:?}; known: {}", EVENT_KINDS.join(", "));
        Ok(kinds | kind(name).ok_or_else(|| Failure::new("bad_request", unknown()))?)
    })
}

/// Returns the time of day in microseconds since 1970.
pub(super) fn unix_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
