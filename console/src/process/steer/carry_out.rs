//! [`carry_out`]: gives the order that was planned, and says what became of it.
//!
//! | outcome | meaning |
//! |---|---|
//! | `done` | it has happened; the text says what |
//! | `taken` | the order was given, and has not been carried out within [`SEEN_WITHIN`] |
//!
//! A refusal of the process is a failure with its code. The console follows the events of the
//! member before it gives the order, so it sees what the order does.

use super::{guard, level_of, named, of_process, path_of};
use crate::action::{Action, Outcome, ProcessOrder};
use crate::failure::Failure;
use crate::process::link::Link;
use crate::process::target::within;
use pleach::actor::ActorPath;
use pleach::inspect::{Activity, Client, ClientError, EventInfo, Followed, InspectAction, MemberInfo, MemberKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long an order may take to be seen.
const SEEN_WITHIN: Duration = Duration::from_secs(3);

/// What is followed while an order is carried out.
const KINDS: [&str; 3] = ["lifecycle", "decisions", "gave_up"];

pub(in crate::process) async fn carry_out(link: &Arc<Link>, action: &Action, planned: &str) -> Result<Outcome, Failure> {
    let action = of_process(action)?;
    let mut client = link.connect().await?;
    if action.kind == ProcessOrder::LogLevel {
        let level = level_of(action)?;
        within(client.set_log_level(level)).await?;
        return Ok(outcome("done", format!("the log level is {level} now")));
    }
    let (path, (order, _)) = (path_of(action)?, named(action.kind));
    let member = match within(client.member(&path)).await {
        Err(failure) if failure.code == "not_found" => return Err(changed(&path, "it has ended")),
        member => member?,
    };
    if guard(&member) != planned {
        let is_other = !planned.starts_with(&format!("{} ", member.id));
        return Err(changed(&path, if is_other { "another member has its path" } else { "it was restarted" }));
    }
    within(client.follow_below(&path, Some(&KINDS))).await?;
    within(client.act(order, &path, Some(member.id))).await?;
    let seen = watch(&mut client, order, &member).await;
    Ok(seen.unwrap_or_else(|| pending(order, &member)))
}

fn changed(path: &ActorPath, how: &str) -> Failure {
    Failure::new("changed", format_args!("{path} has changed since it was planned: {how}"))
        .advice("look at it, and plan the action again")
}

fn outcome(outcome: &str, text: impl Into<String>) -> Outcome {
    Outcome { outcome: outcome.to_string(), text: text.into(), record: None, run: None }
}

/// Waits a moment for the effect of an order. `None`: nothing was seen.
async fn watch(client: &mut Client, order: InspectAction, member: &MemberInfo) -> Option<Outcome> {
    if is_so_already(order, member) {
        return Some(outcome("done", "nothing has changed: it was so already"));
    }
    let until = Instant::now() + SEEN_WITHIN;
    let mut decided: Option<String> = None;
    loop {
        let event = next(client, until).await?;
        if event.path.as_ref() != Some(&member.path) {
            continue;
        }
        let after = |text: &str| decided.as_ref().map_or_else(|| text.to_string(), |decided| format!("{text}; {decided}"));
        match (order, event.kind.as_str()) {
            (_, "decided") => decided = Some(event.text),
            (_, "ended") => return Some(outcome("done", after(&event.text))),
            (InspectAction::Stop, "restarted") => {
                return Some(outcome("done", after("it stopped, and its supervisor has started it again")));
            }
            (InspectAction::Restart, "restarted") => return Some(outcome("done", event.text)),
            (InspectAction::Suspend, "suspended") | (InspectAction::Resume, "resumed") => {
                return Some(outcome("done", event.text));
            }
            _ => {}
        }
    }
}

async fn next(client: &mut Client, until: Instant) -> Option<EventInfo> {
    loop {
        let followed: Result<Followed, ClientError> = timeout_at(until, client.next_event()).await.ok()?;
        match followed {
            Ok(Followed::Event(event)) => return Some(event),
            Ok(_) => {}
            // The connection is lost. The order was given.
            Err(_) => return None,
        }
    }
}

fn is_so_already(order: InspectAction, member: &MemberInfo) -> bool {
    let is_suspended = member.activity == Activity::Suspended;
    match order {
        InspectAction::Suspend => is_suspended,
        InspectAction::Resume => !is_suspended,
        _ => false,
    }
}

/// Says why an order was not seen to be carried out.
fn pending(order: InspectAction, member: &MemberInfo) -> Outcome {
    let is_busy = member.handling_for().is_some();
    outcome(
        "taken",
        match order {
            InspectAction::Restart if member.kind != MemberKind::Actor => {
                "the order was given; its children restart one by one".to_string()
            }
            _ if is_busy => "the order was given; it is carried out after the current message".to_string(),
            _ => format!("the order was given; it was not seen to be carried out within {} s", SEEN_WITHIN.as_secs()),
        },
    )
}
