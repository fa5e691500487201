//! From the reasons of a process's health to problems of the home page. Consequences and advice are
//! the words of the process itself, which `pleach health` and `pleach doctor` print too.

use crate::failure::Failure;
use crate::problem::{Advice, Problem, Severity};
use crate::process::examine::{Report, micros};
use crate::process::history::{time, unix_micros};
use crate::process::link::Session;
use crate::report::times::short;
use pleach::actor::ActorPath;
use pleach::inspect::{Activity, HealthReason, Why};
use std::time::Duration;

/// What is said if no reason of a kind was found.
pub(super) const QUIET: [(&str, &str); 5] = [
    ("gave_up", "No supervisor has given up"),
    ("pool_short", "Every pool has its workers"),
    ("mailbox_full", "No mailbox is full for long"),
    ("handler_stuck", "No handler is stuck"),
    ("unhandled_failures", "No failure is unhandled"),
];

/// Why the mailbox of a suspended member is full.
const SUSPENDED: &str = "it is suspended: it handles nothing until it is resumed";

/// How many members of a chain of waits a cause names.
const CHAIN_NAMED_MAX: usize = 5;

/// Returns the kind of a reason, as the protocol names it.
pub(super) fn kind(reason: &HealthReason) -> &'static str {
    match reason {
        HealthReason::GaveUp { .. } => "gave_up",
        HealthReason::PoolShort { .. } => "pool_short",
        HealthReason::MailboxFull { .. } => "mailbox_full",
        HealthReason::HandlerStuck { .. } => "handler_stuck",
        HealthReason::UnhandledFailures { .. } => "unhandled_failures",
        HealthReason::Reported { .. } => "reported",
        HealthReason::More { .. } => "more",
        _ => "unknown",
    }
}

/// Returns why a member does not continue: the end of what it waits for.
pub(super) async fn deepest_cause(session: &mut Session<'_>, reason: &HealthReason) -> Result<Option<String>, Failure> {
    let (HealthReason::HandlerStuck { path, .. } | HealthReason::MailboxFull { path, .. }) = reason else { return Ok(None) };
    match session.ask(|client| client.why(path)).await {
        Ok(why) => Ok(cause_of(&why)),
        // It has ended meanwhile.
        Err(failure) if failure.code == "not_found" => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn cause_of(why: &Why) -> Option<String> {
    let last = why.chain.last()?;
    if why.chain.len() < 2 {
        return (last.activity == Activity::Suspended).then(|| SUSPENDED.to_string());
    }
    let mut names: Vec<String> = why.chain.iter().map(|member| member.path.to_string()).collect();
    if why.is_cycle {
        names.extend(names.first().cloned());
        return Some(format!("they wait for each other: {}", shown(&names)));
    }
    let does = match last.actor.as_ref().filter(|_| last.handling_for().is_some()) {
        Some(actor) => format!("does not finish a {}", actor.message_type),
        None if last.activity == Activity::Suspended => "is suspended".to_string(),
        None => "does not answer".to_string(),
    };
    Some(format!("it waits for {}, which {does}", shown(&names[1..])))
}

fn shown(names: &[String]) -> String {
    let (first, last) = (names.first().cloned().unwrap_or_default(), names.last().cloned().unwrap_or_default());
    if names.len() > CHAIN_NAMED_MAX {
        return format!("{first} → … ({} members) → {last}", names.len() - 2);
    }
    names.join(" → ")
}

impl Report<'_> {
    /// Adds the problem of a reason. `cause` is the deepest one, if it is known.
    pub(super) fn reason(&mut self, reason: &HealthReason, cause: Option<String>) {
        if matches!(reason, HealthReason::More { .. }) {
            return self.cut();
        }
        let of_kind = self.problem(severity(reason), kind(reason), &path_of(reason), title(reason));
        let mut problem = Problem {
            cause: cause_in(reason).or(cause),
            so: reason.consequence().map(String::from).into_iter().collect(),
            since: lasts(reason).map(|lasts| time(unix_micros().saturating_sub(micros(lasts)))),
            ..of_kind
        };
        match reason {
            HealthReason::GaveUp { child, .. } => problem.key = format!("{}:{child}", problem.key),
            HealthReason::UnhandledFailures { count, .. } => problem.count = *count,
            HealthReason::Reported { key, .. } => problem.key = format!("{}:{key}", problem.key),
            _ => {}
        }
        if problem.cause.as_deref() == Some(SUSPENDED) {
            let command = self.command("resume", &path_of(reason));
            problem.advice.push(Advice { text: "Resume it".to_string(), view: None, command });
        }
        problem.advice.extend(self.advice(reason));
        self.add(problem);
    }

    /// What to do, in the words of the process, with the command for it if there is one.
    fn advice(&self, reason: &HealthReason) -> Option<Advice> {
        let command = match reason {
            HealthReason::PoolShort { path, workers: 0, .. } => self.command("restart", path),
            HealthReason::HandlerStuck { waits_for: Some(on), .. } => self.command("why", on),
            _ => None,
        };
        let text = sentence(&reason.advice()?);
        Some(Advice { text, view: None, command })
    }
}

fn severity(reason: &HealthReason) -> Severity {
    match reason {
        HealthReason::GaveUp { .. }
        | HealthReason::PoolShort { workers: 0, .. }
        | HealthReason::HandlerStuck { .. }
        | HealthReason::UnhandledFailures { .. }
        | HealthReason::Reported { blocks_readiness: true, .. } => Severity::Error,
        _ => Severity::Warning,
    }
}

/// Says what is wrong, without times: those would change from look to look.
fn title(reason: &HealthReason) -> String {
    match reason {
        HealthReason::GaveUp { supervisor, child, restarts, window, .. } => {
            format!("{supervisor} gave up on {child} after {restarts} restarts in {}", short(*window))
        }
        HealthReason::PoolShort { path, workers: 0, size } => format!("Pool {path} has none of its {size} workers"),
        HealthReason::PoolShort { path, workers, size } => format!("Pool {path} has {workers} of {size} workers"),
        HealthReason::MailboxFull { path, .. } => format!("The mailbox of {path} is full"),
        HealthReason::HandlerStuck { path, message_type, .. } => format!("{path} does not finish a {message_type}"),
        HealthReason::UnhandledFailures { count: 1, origin, .. } => {
            format!("A failure of {origin} reached the root, and nothing handled it")
        }
        HealthReason::UnhandledFailures { count, origin, .. } => {
            format!("{count} failures reached the root, and nothing handled them, first {origin}")
        }
        HealthReason::Reported { source, text, .. } => format!("{source}: {text}"),
        reason => sentence(&reason.to_string()),
    }
}

/// The cause that the reason itself names.
fn cause_in(reason: &HealthReason) -> Option<String> {
    match reason {
        HealthReason::GaveUp { reason, .. } | HealthReason::UnhandledFailures { reason, .. } => {
            Some(reason.clone()).filter(|reason| !reason.is_empty())
        }
        _ => None,
    }
}

fn path_of(reason: &HealthReason) -> ActorPath {
    match reason {
        HealthReason::GaveUp { supervisor: path, .. }
        | HealthReason::PoolShort { path, .. }
        | HealthReason::MailboxFull { path, .. }
        | HealthReason::HandlerStuck { path, .. }
        | HealthReason::UnhandledFailures { origin: path, .. }
        | HealthReason::Reported { source: path, .. } => path.clone(),
        _ => ActorPath::root(),
    }
}

fn lasts(reason: &HealthReason) -> Option<Duration> {
    match reason {
        HealthReason::GaveUp { ago: lasts, .. }
        | HealthReason::MailboxFull { for_at_least: lasts, .. }
        | HealthReason::HandlerStuck { for_at_least: lasts, .. }
        | HealthReason::Reported { reported_for: lasts, .. } => Some(*lasts),
        _ => None,
    }
}

/// Returns the text with an upper-case letter first.
fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}
