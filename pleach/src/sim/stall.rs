//! Who waits for what, once a simulation cannot continue.

use crate::actor::AnyRef;
use crate::inspect::{Activity, MemberInfo, MemberKind, WaitInfo, WaitKind};
use crate::sim::FaultKind;

/// How many members are looked at.
const MEMBERS_MAX: usize = 10_000;

/// How many lines the text has at most for waits, and how many names for idle actors.
const LINES_MAX: usize = 32;

/// What tells a member from the others: its path and its number.
type Key = (String, u64);

/// Returns the text for the trees below `roots` and the pending I/O.
pub(super) fn text(roots: &[AnyRef], pending_io: &[(String, Option<FaultKind>)]) -> String {
    let members = members(roots);
    let mut lines: Vec<String> = cycles(&members).iter().map(|cycle| format!("wait cycle: {}", cycle.join(" -> "))).collect();
    lines.extend(members.iter().flat_map(waits));
    lines.extend(pending_io.iter().map(|(name, fault)| io(name, *fault)));
    let idle: Vec<String> = members.iter().filter(|member| is_idle(member)).map(|member| member.path.to_string()).collect();
    let mut text = match lines.len() {
        0 => String::from("no member of a tree waits for anything: the future passed to `run` waits for something else"),
        _ => shortened(lines, "\n  ").replacen("", "waiting:\n  ", 1),
    };
    if !idle.is_empty() {
        text.push_str("\nidle, with an empty mailbox: ");
        text.push_str(&shortened(idle, ", "));
    }
    text
}

fn shortened(mut parts: Vec<String>, separator: &str) -> String {
    let left_out = parts.len().saturating_sub(LINES_MAX);
    parts.truncate(LINES_MAX);
    if left_out > 0 {
        parts.push(format!("and {left_out} more"));
    }
    parts.join(separator)
}

/// Reads all members, parents first.
fn members(roots: &[AnyRef]) -> Vec<MemberInfo> {
    let mut found = Vec::new();
    let mut left: Vec<AnyRef> = roots.iter().rev().filter(|root| root.exit().is_none()).cloned().collect();
    while let Some(member) = left.pop().filter(|_| found.len() < MEMBERS_MAX) {
        found.push(member.info());
        let children: Vec<AnyRef> = member.children_from(0).take(MEMBERS_MAX).collect();
        left.extend(children.into_iter().rev());
    }
    found
}

fn is_idle(member: &MemberInfo) -> bool {
    member.activity == Activity::Idle && member.waits.is_empty()
}

/// Describes what one member waits for.
fn waits(member: &MemberInfo) -> Vec<String> {
    let MemberInfo { path, kind, activity, waits, waits_left_out, .. } = member;
    let mut lines: Vec<String> = waits.iter().map(|wait| format!("{path} ({kind}) waits for {}", awaited(wait))).collect();
    if *waits_left_out > 0 {
        lines.push(format!("{path} ({kind}) has {waits_left_out} more waits"));
    }
    if !lines.is_empty() {
        return lines;
    }
    let queued = member.actor.as_ref().map_or(0, |actor| actor.queued);
    let outside = "something outside of the tree: a channel, a lock or I/O";
    let what = match activity {
        Activity::Handling { .. } => format!("handles a message and awaits {outside}; {queued} more are queued"),
        Activity::Waiting if *kind == MemberKind::Task => format!("awaits {outside}"),
        Activity::InHook | Activity::Starting => format!("is in a hook that awaits {outside}"),
        Activity::Suspended => format!("is suspended until it is resumed; {queued} messages are queued"),
        Activity::WaitingToRestart { .. } => "waits to be restarted together with its siblings".to_string(),
        Activity::Restarting | Activity::Stopping => format!("ends, and awaits {outside}"),
        _ => return lines,
    };
    lines.push(format!("{path} ({kind}) {what}"));
    lines
}

fn awaited(wait: &WaitInfo) -> String {
    let on = &wait.on;
    match wait.kind {
        WaitKind::Answer => format!("an answer from {on}"),
        WaitKind::Room => format!("room in the mailbox of {on}"),
        WaitKind::Exit => format!("the exit of {on}"),
        WaitKind::Children => format!("the children of {on} to end"),
        WaitKind::Tasks => format!("the tasks of {on} to end"),
        WaitKind::Result => format!("a result of {on}"),
        WaitKind::Slot => format!("a free slot of {on}"),
        _ => on.to_string(),
    }
}

fn io(name: &str, fault: Option<FaultKind>) -> String {
    match fault {
        Some(FaultKind::IoSilent) => format!("I/O {name:?} never completes: injected fault {}", FaultKind::IoSilent),
        _ => format!("I/O {name:?} has not completed"),
    }
}

/// Finds the wait cycles. Each is listed once, and ends with the member with which it begins.
fn cycles(members: &[MemberInfo]) -> Vec<Vec<String>> {
    let mut listed: Vec<(Key, &MemberInfo)> =
        members.iter().map(|member| ((member.path.to_string(), member.id), member)).collect();
    listed.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    // A target that is not listed waits for nothing, as far as is known.
    let place = |target: Key| listed.binary_search_by(|(known, _)| known.cmp(&target)).ok();
    let places = |member: &MemberInfo| {
        member.waits.iter().filter_map(|wait| place((wait.on.to_string(), wait.id))).collect::<Vec<usize>>()
    };
    let targets: Vec<Vec<usize>> = listed.iter().map(|(_, member)| places(member)).collect();
    let (mut found, mut is_done) = (Vec::new(), vec![false; listed.len()]);
    for start in 0..listed.len() {
        let mut way = vec![(start, 0)];
        while let Some((at, next)) = way.last_mut() {
            let target = targets[*at].get(*next).copied();
            *next += 1;
            match target {
                None => {
                    is_done[*at] = true;
                    way.pop();
                }
                Some(target) if is_done[target] => {}
                Some(target) => match way.iter().position(|(on_way, _)| *on_way == target) {
                    Some(begin) => {
                        let cycle = way[begin..].iter().map(|(on_way, _)| *on_way).chain([target]);
                        found.push(cycle.map(|at| listed[at].0.0.clone()).collect());
                    }
                    None => way.push((target, 0)),
                },
            }
        }
    }
    found
}
