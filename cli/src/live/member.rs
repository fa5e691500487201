//! Members of a process in words: what a member does now, and one line with all that is worth
//! knowing.

use crate::output::escape::OneLine;
use pleach::actor::ActorPath;
use pleach::inspect::{Activity, MemberInfo, MemberKind};
use std::fmt::Write as _;
use std::time::Duration;

/// Writes a duration as people say it: `350 ms`, `12.4 s`, `4 min`, `7 h`.
pub fn spoken(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        1..60 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ 60..600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds @ 600..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}

/// Says what a member does now, with the type of the message that it handles.
pub fn activity(member: &MemberInfo) -> String {
    match (member.activity, &member.actor) {
        (Activity::Handling { for_at_least, is_exact }, Some(actor)) => {
            let at_least = if is_exact { "" } else { "at least " };
            format!("handling {} for {at_least}{}", actor.message_type, spoken(for_at_least))
        }
        (activity, _) => activity.to_string(),
    }
}

/// Returns the name of a member within its parent, or the whole path for the start of a list.
pub fn name(path: &ActorPath, is_start: bool) -> String {
    match path.last() {
        Some(name) if !is_start => name.to_string(),
        _ => path.to_string(),
    }
}

/// Describes a member on one line, after its name. What matters most comes first, because a narrow
/// terminal cuts the end.
pub fn line(member: &MemberInfo) -> String {
    let mut text = format!("({}) {}", member.kind, activity(member));
    for wait in &member.waits {
        let _ = write!(text, ", {wait}");
    }
    if member.waits_left_out > 0 {
        let _ = write!(text, " and {} more waits", member.waits_left_out);
    }
    if let Some(ago) = member.cancelled_for {
        let _ = write!(text, ", cancelled {} ago", spoken(ago));
    }
    if let Some(actor) = &member.actor {
        let _ = write!(text, "; {actor}");
    }
    match (member.pool_size, member.children) {
        (Some(size), workers) => drop(write!(text, "; {workers} of {size} workers")),
        (None, 0) => {}
        (None, 1) => text.push_str("; 1 child"),
        (None, children) => drop(write!(text, "; {children} children")),
    }
    if let Some(restarts) = member.restarts.filter(|restarts| restarts.used > 0) {
        let _ = write!(text, "; {restarts}");
    }
    if let Some(failure) = &member.last_failure {
        let _ = write!(text, "; failed {} ago: {}", spoken(failure.ago), failure.reason);
    }
    OneLine(&text).to_string()
}

/// Parses the name of a kind, as the protocol writes it.
pub fn parse_kind(text: &str) -> Result<MemberKind, String> {
    KINDS.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| {
        let names: Vec<&str> = KINDS.iter().map(|kind| kind.as_str()).collect();
        format!("unknown kind {text:?}; the kinds are: {}", names.join(", "))
    })
}

const KINDS: [MemberKind; 10] = [
    MemberKind::Root,
    MemberKind::Guardian,
    MemberKind::Actor,
    MemberKind::Supervisor,
    MemberKind::Pool,
    MemberKind::Scope,
    MemberKind::Run,
    MemberKind::Task,
    MemberKind::BlockingJob,
    MemberKind::Group,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_spoken_with_their_unit() {
        for (millis, text) in
            [(350, "350 ms"), (12_440, "12.4 s"), (65_000, "1 min 5 s"), (900_000, "15 min"), (7_200_000, "2 h")]
        {
            assert_eq!(spoken(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn kinds_are_parsed_by_name() {
        assert_eq!(parse_kind("blocking_job"), Ok(MemberKind::BlockingJob));
        assert!(parse_kind("robot").is_err_and(|error| error.contains("actor, supervisor")));
    }
}
