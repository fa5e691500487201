//! What a process remembers by itself: the last failure of each member, and supervisors that gave
//! up. So a console that is opened after a failure still shows it.

use super::unix_micros;
use pleach::actor::ActorPath;
use pleach::inspect::{Client, ClientError, EventInfo, HealthReason, MemberKind, TopBy, TopRequest};
use serde_json::json;
use std::time::Duration;

/// How many members with failures are read: those with the most.
const MEMBERS_MAX: usize = 200;

/// Reads what happened after `since_us`, or at all, the oldest first, with its time.
pub(super) async fn read(client: &mut Client, since_us: Option<u64>) -> Result<Vec<(EventInfo, u64)>, ClientError> {
    let now = unix_micros();
    let at = |ago: Duration| now.saturating_sub(u64::try_from(ago.as_micros()).unwrap_or(u64::MAX));
    let mut past = Vec::new();
    let mut request = TopRequest::by(TopBy::Failed);
    (request.limit, request.kinds) = (Some(MEMBERS_MAX), Some(vec![MemberKind::Actor, MemberKind::Pool]));
    for row in client.top(request).await?.rows {
        let member = row.member;
        let Some(last) = member.last_failure else { continue };
        let handling = last.message.as_ref().map_or_else(String::new, |message| format!(" (handling {message})"));
        let text = format!("{} failed: {}{handling}", last.origin, last.reason);
        let message_type = member.actor.filter(|_| last.message.is_some()).map(|actor| actor.message_type);
        let failure = json!({
            "reason": last.reason, "origin": last.origin, "message": last.message, "message_type": message_type,
            "incarnation": last.incarnation,
        });
        past.extend(event("failed", &member.path, text, failure).map(|event| (event, at(last.ago))));
    }
    for reason in client.health().await?.reasons() {
        let HealthReason::GaveUp { supervisor, child, restarts, window, reason: cause, ago, .. } = reason else { continue };
        let failure = json!({ "reason": cause, "origin": child, "incarnation": 0 });
        // Without the time: the text is kept.
        let mut text = format!("supervisor {supervisor} gave up on {child} after {restarts} restarts in {window:?}");
        for more in [reason.consequence(), reason.advice()].into_iter().flatten() {
            text.push_str("; ");
            text.push_str(&more);
        }
        past.extend(event("gave_up", supervisor, text, failure).map(|event| (event, at(*ago))));
    }
    past.retain(|(_, unix_us)| since_us.is_none_or(|since| *unix_us >= since));
    past.sort_by_key(|(_, unix_us)| *unix_us);
    Ok(past)
}

/// An event as a process sends it.
fn event(kind: &str, path: &ActorPath, text: String, failure: serde_json::Value) -> Option<EventInfo> {
    let event = json!({ "seq": 0, "unix_us": 0, "kind": kind, "path": path, "text": text, "failure": failure });
    serde_json::from_value(event).ok()
}
