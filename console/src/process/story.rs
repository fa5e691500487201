//! The views of what happened: the story of a member, and failures or dead letters in groups.

use crate::failure::Failure;
use crate::process::history::{History, time, unix_micros};
use crate::process::{path_or, to_json};
use crate::view::{FailureGroups, Story};
use serde_json::{Value, json};
use std::sync::Arc;

/// How many entries or groups an answer has by default, and at most.
const ENTRIES: (u64, u64) = (50, 200);

/// The length of the entries of an answer, in bytes. A line of a stream has at most 64 KiB.
const ENTRIES_LEN_MAX: usize = 56 * 1024;

/// Answers the view `story`: a page of entries, the newest first.
pub(super) async fn story(history: &Arc<History>, asked: &Story) -> Result<Value, Failure> {
    let path = path_or(asked.path.as_ref(), "/")?;
    let limit = bounded(asked.limit);
    history.listen().await?;
    history.look(|heard| {
        let (mut entries, mut len, mut next) = (Vec::new(), 0, None);
        for entry in heard.ring.newest_first(asked.before).filter(|entry| entry.concerns(&path)) {
            let value = to_json(entry)?;
            len += value.to_string().len();
            let is_full = entries.len() >= limit || (len > ENTRIES_LEN_MAX && !entries.is_empty());
            if is_full {
                next = entries.last().map(|(seq, _)| *seq);
                break;
            }
            entries.push((entry.seq, value));
        }
        let entries: Vec<Value> = entries.into_iter().map(|(_, value)| value).collect();
        Ok(json!({ "entries": entries, "next": next, "missed": heard.missed() }))
    })
}

/// Answers the view `failures`.
pub(super) async fn failures(history: &Arc<History>, asked: &FailureGroups) -> Result<Value, Failure> {
    let is_dead_letters = match asked.kind.as_deref() {
        None | Some("failures") => false,
        Some("dead_letters") => true,
        Some(kind) => {
            let text = format!("{kind:?} is neither `failures` nor `dead_letters`");
            return Err(Failure::new("bad_request", text));
        }
    };
    let limit = bounded(asked.limit);
    history.listen().await?;
    history.look(|heard| {
        let kept = if is_dead_letters { &heard.dead_letters } else { &heard.failures };
        let found = kept.list(asked.contains.as_deref().unwrap_or_default(), unix_micros(), time);
        let (mut groups, mut len) = (Vec::new(), 0);
        for group in found.iter().take(limit) {
            let value = to_json(group)?;
            len += value.to_string().len();
            if len > ENTRIES_LEN_MAX {
                break;
            }
            groups.push(value);
        }
        let is_cut = groups.len() < found.len();
        let missed = heard.missed_events() + kept.dropped;
        Ok(json!({ "groups": groups, "since": time(heard.since_us), "missed": missed, "is_cut": is_cut }))
    })
}

fn bounded(limit: Option<u64>) -> usize {
    usize::try_from(limit.unwrap_or(ENTRIES.0).clamp(1, ENTRIES.1)).unwrap_or(usize::MAX)
}
