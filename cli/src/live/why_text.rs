//! The sentences of `pleach why` for a member of a process: from [`Facts`] to an [`Explanation`].
//! Pure: it asks nothing.

use super::act::word;
use super::member::{line, spoken};
use super::why::{Facts, places};
use crate::output::explanation::Explanation;
use pleach::inspect::{Activity, InspectAction, MemberInfo, WaitKind};
use std::collections::BTreeSet;

/// How many waiting members are named in a sentence.
const NAMED_MAX: usize = 5;

pub fn explain(facts: &Facts) -> Explanation {
    let mut explanation = Explanation::default();
    match (facts.chain.last(), facts.is_cycle) {
        (None, _) => explain_missing(facts, &mut explanation),
        (Some(_), true) => explain_cycle(facts, &mut explanation),
        (Some(deepest), false) => explain_chain(facts, deepest, &mut explanation),
    }
    for member in facts.chain.iter().rev() {
        add_crowd(facts, member, &mut explanation);
        add_story(member, &mut explanation);
    }
    let problems = facts.reasons.iter().map(ToString::to_string).filter(|problem| !explanation.cause.contains(problem));
    let problems: Vec<String> = problems.map(|problem| format!("known problem: {problem}")).collect();
    explanation.note.extend(problems);
    explanation.advice.dedup();
    explanation
}

/// The member is gone, but problems say why.
fn explain_missing(facts: &Facts, explanation: &mut Explanation) {
    explanation.cause.extend(facts.reasons.iter().map(ToString::to_string));
    explanation.so.push(format!("no member runs at {}", facts.path));
    explanation.advice.push("remove the cause, and start the program or that part of it again".into());
}

fn explain_cycle(facts: &Facts, explanation: &mut Explanation) {
    let back = facts.chain.last().and_then(|last| last.waits.first()).map(|wait| wait.id);
    let begin = facts.chain.iter().position(|member| Some(member.id) == back).unwrap_or(0);
    let (before, cycle) = facts.chain.split_at(begin);
    let names: Vec<String> = cycle.iter().map(|member| member.path.to_string()).collect();
    explanation.cause.push(match cycle {
        [one] => format!("{} waits for itself, so nothing can continue", one.path),
        _ => format!("{} wait for each other in a cycle, so none can continue", join(&names)),
    });
    for (member, next) in cycle.iter().zip(cycle.iter().cycle().skip(1)) {
        explanation.so.push(waits(member, next));
    }
    for (at, member) in before.iter().enumerate().rev() {
        explanation.so.push(waits(member, &facts.chain[at + 1]));
    }
    let has_ask = cycle.iter().any(|member| member.waits.first().is_some_and(|wait| wait.kind == WaitKind::Answer));
    explanation.advice.push(match has_ask {
        true => "let one of them answer without asking back: send a message instead of an ask, or ask from a task of its own; \
                 until then the cycle ends only when an ask times out"
            .into(),
        false => "let one of them wait in a task of its own".into(),
    });
}

fn explain_chain(facts: &Facts, deepest: &MemberInfo, explanation: &mut Explanation) {
    let path = &deepest.path;
    let queued = deepest.actor.as_ref().map_or(0, |actor| actor.queued);
    match deepest.activity {
        Activity::Handling { for_at_least, is_exact } => explain_handler(facts, deepest, (for_at_least, is_exact), explanation),
        Activity::Suspended => {
            explanation.cause.push(format!("{path} is suspended, by its program or by an operator, and handles no message"));
            explanation.advice.push(format!("resume it: {}", order(facts, InspectAction::Resume, deepest)));
        }
        Activity::WaitingToRestart { remaining } => {
            let when = remaining.map_or("with its siblings".to_string(), |time| format!("in {}", spoken(time)));
            explanation.cause.push(format!("{path} has failed and starts again {when}"));
            explanation
                .advice
                .push(format!("remove the cause of the failure of {path}; then it starts again without an order"));
        }
        Activity::Restarting | Activity::Stopping => {
            let does = if deepest.activity == Activity::Stopping { "stopping" } else { "ending before a restart" };
            explanation.cause.push(format!("{path} is {does}: a hook runs, or its children end"));
            explanation.advice.push(format!("see which child does not end: pleach tree {} {path}", facts.socket));
        }
        Activity::Starting => {
            explanation.cause.push(format!("{path} is starting: its `started` hook has not returned"));
            explanation.advice.push("look at what the hook awaits, and give that a timeout".into());
        }
        Activity::InHook => {
            explanation.cause.push(format!("{path} runs its `signal` hook, which awaits something"));
            explanation.advice.push("look at what the hook awaits, and give that a timeout".into());
        }
        Activity::Ready => {
            explanation.cause.push(format!("{path} has work to do and waits for a thread"));
            explanation
                .advice
                .push("if that lasts, all threads are busy or blocked: move blocking work to `spawn_blocking`".into());
        }
        Activity::Running => explanation.cause.push(format!("{path} runs on a thread now")),
        Activity::Idle if queued == 0 => explanation.cause.push(format!("{path} is idle: its mailbox is empty")),
        Activity::Idle => explanation.cause.push(format!("{path} was idle when it was looked at, and messages have just come")),
        Activity::Waiting => {
            explanation.cause.push(format!(
                "{path} ({}) awaits something that is no member of the tree, such as I/O, a timer or a channel",
                deepest.kind
            ));
            explanation.advice.push(format!("if that lasts, give what {path} awaits a timeout"));
        }
        Activity::Ended => explanation.cause.push(format!("{path} has ended")),
        _ => explain_parent(facts, deepest, explanation),
    }
    for at in (1..facts.chain.len()).rev() {
        explanation.so.push(waits(&facts.chain[at - 1], &facts.chain[at]));
    }
}

fn explain_handler(
    facts: &Facts,
    deepest: &MemberInfo,
    (time, is_exact): (std::time::Duration, bool),
    explanation: &mut Explanation,
) {
    let path = &deepest.path;
    let message = deepest.actor.as_ref().map_or("a message".into(), |actor| actor.message_type.clone());
    let at_least = if is_exact { "" } else { "at least " };
    let gone = deepest.waits.first().map(|wait| format!(", and {wait}")).unwrap_or_default();
    explanation.cause.push(format!("{path} has been handling {message} for {at_least}{}{gone}", spoken(time)));
    if deepest.waits.is_empty() {
        explanation.note.push(format!(
            "the handler of {path} waits for no member: it awaits I/O, a timer or a lock, it computes, or it blocks its thread"
        ));
    }
    explanation
        .advice
        .push(format!("give what the handler of {path} awaits a timeout, or move it to a task or `spawn_blocking`"));
    if facts.actions.contains(&InspectAction::Restart) {
        explanation.note.push(format!("an order to stop or restart {path} waits for its handler too"));
    }
}

/// A supervisor, a pool, a scope or a guardian: what is wrong is below it.
fn explain_parent(facts: &Facts, member: &MemberInfo, explanation: &mut Explanation) {
    let path = &member.path;
    explanation.cause.extend(facts.reasons.iter().map(ToString::to_string));
    let is_named = |below: &&MemberInfo| facts.reasons.iter().any(|reason| places(reason).contains(&&below.path));
    let mut cycles = BTreeSet::new();
    for below in facts.below.iter().filter(|below| !is_named(below)) {
        match role(below, &facts.below) {
            Role::Cause => explanation.cause.push(format!("{} {}", below.path, line(below))),
            Role::Waits(next) => explanation.so.push(waits(below, next)),
            Role::Cycle(ids) => {
                let in_cycle = facts.below.iter().filter(|one| ids.contains(&one.id));
                let names: Vec<String> = in_cycle.map(|one| one.path.to_string()).collect();
                if cycles.insert(ids) {
                    explanation.cause.push(format!("{} wait for each other in a cycle, so none can continue", join(&names)));
                }
            }
        }
    }
    if explanation.cause.is_empty() {
        explanation.cause.push(format!("{path} ({}) works, and every member below it is well", member.kind));
        return;
    }
    if facts.below_is_cut {
        explanation.note.push(format!("more members are not well: pleach tree {} {path} --not-well", facts.socket));
    }
    if let Some(first) = facts.below.iter().find(|below| !is_named(below)) {
        explanation.advice.push(format!("ask about one of them: pleach why {} {}", facts.socket, first.path));
    }
}

/// What a member that is not well is among others.
enum Role<'a> {
    /// It waits for none of them.
    Cause,
    /// It waits for this one.
    Waits(&'a MemberInfo),
    /// It waits for itself through members with these numbers.
    Cycle(BTreeSet<u64>),
}

fn role<'a>(member: &MemberInfo, others: &'a [MemberInfo]) -> Role<'a> {
    let next = |one: &MemberInfo| one.waits.first().and_then(|wait| others.iter().find(|other| other.id == wait.id));
    let Some(first) = next(member) else { return Role::Cause };
    let (mut at, mut passed) = (first, BTreeSet::from([member.id]));
    while at.id != member.id {
        match next(at).filter(|_| passed.insert(at.id)) {
            Some(next) => at = next,
            None => return Role::Waits(first),
        }
    }
    Role::Cycle(passed)
}

/// Says what one member of the chain waits for.
fn waits(member: &MemberInfo, next: &MemberInfo) -> String {
    let kind = member.waits.iter().find(|wait| wait.id == next.id).map(|wait| wait.kind);
    let time = member.handling_for().filter(|time| !time.is_zero());
    let time = time.map_or_else(String::new, |time| format!(", {}", spoken(time)));
    let (path, next) = (&member.path, &next.path);
    match kind {
        Some(WaitKind::Answer) => format!("{path} waits for the answer of {next} (ask{time})"),
        Some(WaitKind::Room) => format!("{path} waits for room in the mailbox of {next} (send{time})"),
        Some(WaitKind::Exit) => format!("{path} waits until {next} has ended{time}"),
        Some(WaitKind::Children) => format!("{path} waits until the children of {next} have ended{time}"),
        Some(WaitKind::Tasks) => format!("{path} waits for the tasks of {next}{time}"),
        Some(WaitKind::Result) => format!("{path} waits for a result of {next}{time}"),
        Some(WaitKind::Slot) => format!("{path} waits for a free slot of {next}{time}"),
        _ => format!("{path} waits for {next}{time}"),
    }
}

/// Says how many messages and members wait because of a member of the chain.
fn add_crowd(facts: &Facts, member: &MemberInfo, explanation: &mut Explanation) {
    let path = &member.path;
    if let Some(actor) = &member.actor {
        match actor.queued {
            0 => {}
            queued if actor.is_full() => {
                explanation.so.push(format!("the mailbox of {path} is full: {queued} messages wait"));
                explanation.advice.push(format!("make the handler of {path} faster, add workers, or send it less"));
            }
            1 => explanation.so.push(format!("1 message waits in {path}")),
            queued => explanation.so.push(format!("{queued} messages wait in {path}")),
        }
        if actor.waiting_senders > 0 {
            let senders =
                if actor.waiting_senders == 1 { "1 send waits" } else { &format!("{} sends wait", actor.waiting_senders) };
            explanation.so.push(format!("{senders} for room in the mailbox of {path}"));
        }
    }
    let names: Vec<String> =
        facts.waiters.iter().filter(|one| one.wait.id == member.id).map(|one| one.path.to_string()).collect();
    if !names.is_empty() {
        let more = facts.waiters_left_out + names.len().saturating_sub(NAMED_MAX) as u64;
        let shown = join(&names[..names.len().min(NAMED_MAX)]);
        let (verb, more) = (
            if names.len() == 1 { "waits" } else { "wait" },
            if more > 0 { format!(", and {more} more waits of others") } else { String::new() },
        );
        explanation.so.push(format!("{shown} {verb} for {path} too{more}"));
    }
}

/// Adds the failures and restarts of a member.
fn add_story(member: &MemberInfo, explanation: &mut Explanation) {
    let path = &member.path;
    if let Some(failure) = &member.last_failure {
        let message = failure.message.as_ref().map_or_else(String::new, |message| format!(" (handling {message})"));
        let origin = if failure.origin == *path { String::new() } else { format!(", first at {}", failure.origin) };
        explanation.note.push(format!("{path} failed {} ago{origin}: {}{message}", spoken(failure.ago), failure.reason));
    }
    if let Some(restarts) = member.restarts.filter(|restarts| restarts.used > 0) {
        let shared = if restarts.is_shared { ", shared with its siblings" } else { "" };
        let last = if restarts.allowed.is_some_and(|allowed| restarts.used >= allowed) {
            "; with one more its supervisor gives up"
        } else {
            ""
        };
        explanation.note.push(format!("{path} has used {restarts}{shared}{last}"));
    }
    if let Some(ago) = member.cancelled_for {
        explanation.note.push(format!("{path} was cancelled {} ago, and ends when its code awaits something", spoken(ago)));
    }
}

/// Returns the command for an order, or why it cannot be given.
fn order(facts: &Facts, action: InspectAction, member: &MemberInfo) -> String {
    let command = format!("pleach {} {} {}", word(action), facts.socket, member.path);
    match facts.actions.contains(&action) {
        true => command,
        false => format!("{command} (this process does not allow it yet: see `InspectOptions::allow`)"),
    }
}

/// Joins names: `a, b and c`.
fn join(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
