//! [`plan`]: the consequences of each action, as sentences. Nothing is changed.

use super::{guard, level_of, named, of_process, path_of};
use crate::action::{Action, Plan, ProcessAction, ProcessOrder};
use crate::failure::Failure;
use crate::process::link::{Link, Session};
use crate::report::command::quoted;
use pleach::actor::ActorPath;
use pleach::inspect::{Hello, InspectAction, MemberInfo, MemberKind, Supervision, Why};
use std::sync::Arc;

/// How many waiting members are named.
const WAITERS_NAMED_MAX: usize = 3;

pub(in crate::process) async fn plan(link: &Arc<Link>, action: &Action) -> Result<Plan, Failure> {
    let action = of_process(action)?;
    let mut session = link.session().await?;
    let socket = link.socket();
    if action.kind == ProcessOrder::LogLevel {
        return of_log_level(&session.hello()?, socket, level_of(action)?);
    }
    of_member(&mut session, socket, action).await
}

fn of_log_level(hello: &Hello, socket: Option<String>, level: &str) -> Result<Plan, Failure> {
    Ok(Plan {
        title: format!("Set the log level to {level}"),
        will: vec![
            format!("the program sets its log level to {level}, if it knows this level"),
            "it stays until it is set again or the process ends".to_string(),
        ],
        preview: None,
        refusal: not_allowed(hello, ProcessOrder::LogLevel),
        is_destructive: false,
        command: socket.map(|socket| format!("pleach log-level {} {}", quoted(&socket), quoted(level))),
        guard: String::new(),
        found: None,
    })
}

async fn of_member(session: &mut Session<'_>, socket: Option<String>, action: &ProcessAction) -> Result<Plan, Failure> {
    let (path, (order, verb)) = (path_of(action)?, named(action.kind));
    let member = session.ask(|client| client.member(&path)).await?;
    if let Some(id) = action.member_id.filter(|id| *id != member.id) {
        let text = format!("the member at {path} has id {} now, not {id}: it was replaced", member.id);
        return Err(Failure::new("changed", text).advice("look at it again"));
    }
    let supervision = match session.ask(|client| client.supervision(&path)).await {
        // An older process does not know the question.
        Err(failure) if failure.code == "bad_request" => Supervision::default(),
        supervision => supervision?,
    };
    let why = session.ask(|client| client.why(&path)).await?;
    let mut will = supervision.consequences(order, &member);
    will.extend(unchanged(order, &member));
    will.extend(waiting(order, &member, &why));
    Ok(Plan {
        title: format!("{} {path}", capital(verb)),
        will,
        preview: None,
        refusal: not_allowed(&session.hello()?, action.kind)
            .or_else(|| protected(&path))
            .or_else(|| not_possible(order, &member)),
        is_destructive: matches!(order, InspectAction::Stop | InspectAction::Restart),
        command: socket.map(|socket| format!("pleach {verb} {} {}", quoted(&socket), quoted(&path.to_string()))),
        guard: guard(&member),
        found: None,
    })
}

/// Says that the process will refuse, which checks again.
fn not_allowed(hello: &Hello, order: ProcessOrder) -> Option<String> {
    let (action, verb) = named(order);
    if hello.actions.contains(&action) {
        return None;
    }
    let name = |action: &InspectAction| serde_json::to_value(action).ok()?.as_str().map(str::to_string);
    let allowed: Vec<String> = hello.actions.iter().filter_map(name).collect();
    let allowed = if allowed.is_empty() { "nothing".to_string() } else { allowed.join(", ") };
    let needs = match order {
        ProcessOrder::LogLevel => "call `InspectOptions::on_log_level`",
        _ => "pass the action to `InspectOptions::allow`",
    };
    Some(format!("the process {} does not allow {verb}; it allows {allowed}. The program must {needs}", hello.name))
}

fn protected(path: &ActorPath) -> Option<String> {
    let segments = path.segments();
    let is_own = segments.len() < 2 || segments.first().is_some_and(|first| *first == "system");
    is_own.then(|| format!("{path} belongs to the system itself; only members below /user can be changed"))
}

fn not_possible(order: InspectAction, member: &MemberInfo) -> Option<String> {
    let MemberInfo { kind, path, .. } = member;
    let can_restart = matches!(kind, MemberKind::Actor | MemberKind::Supervisor | MemberKind::Pool);
    match order {
        InspectAction::Restart if !can_restart => {
            Some(format!("{path} is a {kind}: only actors and supervisors can start again"))
        }
        InspectAction::Suspend | InspectAction::Resume if *kind != MemberKind::Actor => {
            Some(format!("{path} is a {kind}: only actors have a mailbox to wait with"))
        }
        _ => None,
    }
}

/// Says that an order would change nothing.
fn unchanged(order: InspectAction, member: &MemberInfo) -> Option<String> {
    let is_suspended = member.activity == pleach::inspect::Activity::Suspended;
    match order {
        InspectAction::Suspend if is_suspended => Some("nothing changes: it is suspended already".to_string()),
        InspectAction::Resume if !is_suspended => Some("nothing changes: it is not suspended".to_string()),
        _ => None,
    }
}

/// Says who waits for the member, and what that means for them.
fn waiting(order: InspectAction, member: &MemberInfo, why: &Why) -> Option<String> {
    let waiters: Vec<_> = why.waiters.iter().filter(|waiter| waiter.wait.id == member.id).collect();
    if waiters.is_empty() || order == InspectAction::Resume {
        return None;
    }
    let named: Vec<String> = waiters.iter().take(WAITERS_NAMED_MAX).map(|waiter| waiter.path.to_string()).collect();
    let others = waiters.len() as u64 - named.len() as u64 + why.waiters_left_out;
    let more = if others > 0 { format!(" and {others} more") } else { String::new() };
    let then = match order {
        InspectAction::Stop => "what it does not answer before it ends fails there",
        InspectAction::Restart => "what the current message does not answer fails there",
        _ => "they wait until it is resumed, or for their own time limits",
    };
    Some(format!("{}{more} wait for it: {then}", named.join(", ")))
}

fn capital(verb: &str) -> String {
    let mut characters = verb.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}
