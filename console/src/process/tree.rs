//! The views that list members: a window of the tree, those with the most of something, and those
//! that are not well. The process selects and sorts; only what is shown is read.

use crate::failure::Failure;
use crate::process::link::Link;
use crate::process::member::reason_json;
use crate::process::{parse_path, path_or, to_json};
use crate::view::{NotWell, TopMembers, TreeWindow};
use pleach::actor::ActorPath;
use pleach::inspect::{Cursor, HealthReason, Row, RowsRequest, SnapshotRequest, TopBy, TopRequest};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// How many rows an answer has by default, and at most.
const ROWS: (u64, u64) = (60, 200);

/// How many members `top` lists by default, and at most.
const TOP: (u64, u64) = (50, 200);

/// How many members a page of those that are not well has.
const NOT_WELL_MAX: usize = 50;

/// The length of the rows of an answer, in bytes. What follows is one row that says how many are
/// not read. A frame has at most 64 KiB.
const ROWS_LEN_MAX: usize = 56 * 1024;

/// Answers the view `tree`.
pub(super) async fn tree(link: &Arc<Link>, window: &TreeWindow) -> Result<Value, Failure> {
    let open: Vec<ActorPath> = window.open.iter().map(|path| parse_path(path)).collect::<Result<_, _>>()?;
    let count = window.count.unwrap_or(ROWS.0).min(ROWS.1);
    let mut request = RowsRequest::new(open, window.first);
    request.path = Some(path_or(window.path.as_ref(), "/")?);
    request.count = usize::try_from(count).ok();
    let found = link.session().await?.ask(|client| client.rows(request)).await?;
    let (mut rows, mut len) = (Vec::new(), 0);
    for row in &found.rows {
        let row_json = row_json(row)?;
        len += row_json.to_string().len();
        if len > ROWS_LEN_MAX {
            rows.push(json!({ "depth": row.depth, "more": found.rows.len() - rows.len() }));
            break;
        }
        rows.push(row_json);
    }
    Ok(json!({ "rows": rows, "first": found.first, "total": found.total }))
}

fn row_json(row: &Row) -> Result<Value, Failure> {
    Ok(json!({ "depth": row.depth, "member": to_json(&row.member)?, "is_open": row.is_open }))
}

/// Answers the view `top`.
pub(super) async fn top(link: &Arc<Link>, top: &TopMembers) -> Result<Value, Failure> {
    let by = match &top.by {
        Some(by) => TopBy::deserialize(Value::from(by.as_str()))
            .map_err(|_| Failure::new("bad_request", format_args!("members are not sorted by {by:?}")))?,
        None => TopBy::default(),
    };
    let mut request = TopRequest::by(by);
    request.path = Some(path_or(top.path.as_ref(), "/user")?);
    request.limit = usize::try_from(top.limit.unwrap_or(TOP.0).min(TOP.1)).ok();
    request.contains = top.contains.clone().filter(|text| !text.is_empty());
    to_json(&link.session().await?.ask(|client| client.top(request)).await?)
}

/// Answers the view `not_well`.
pub(super) async fn not_well(link: &Arc<Link>, page: &NotWell) -> Result<Value, Failure> {
    let mut request = SnapshotRequest::new();
    let path = path_or(page.path.as_ref(), "/")?;
    (request.path, request.not_well, request.limit) = (Some(path.clone()), true, Some(NOT_WELL_MAX));
    request.cursor = match &page.cursor {
        Some(cursor) => Some(cursor.parse::<Cursor>().map_err(|error| Failure::new("bad_request", error))?),
        None => None,
    };
    let mut session = link.session().await?;
    let asked = session.ask(async |client| Ok((client.snapshot(request).await?, client.health().await?)));
    let (found, health) = asked.await?;
    let is_near = |reason: &&HealthReason| {
        places(reason).iter().any(|place| is_within(place, &path)) || places(reason).is_empty() && path == ActorPath::root()
    };
    let reasons: Vec<Value> = health.reasons().iter().filter(is_near).map(reason_json).collect();
    Ok(json!({ "members": to_json(&found.members)?, "next": found.next.map(|next| next.to_string()), "reasons": reasons }))
}

/// Returns the members that a health reason names.
fn places(reason: &HealthReason) -> Vec<&ActorPath> {
    match reason {
        HealthReason::GaveUp { supervisor, child, .. } => vec![supervisor, child],
        HealthReason::PoolShort { path, .. }
        | HealthReason::MailboxFull { path, .. }
        | HealthReason::HandlerStuck { path, .. } => vec![path],
        HealthReason::UnhandledFailures { origin, .. } => vec![origin],
        HealthReason::Reported { source, .. } => vec![source],
        _ => Vec::new(),
    }
}

/// Returns whether `path` is `above` or below it.
pub(super) fn is_within(path: &ActorPath, above: &ActorPath) -> bool {
    path.segments().starts_with(above.segments())
}
