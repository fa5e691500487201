//! What waits for people: the view `waiting`, and [`WaitCache`], which reads each position once.
//!
//! A wait is a question or a signal; a run that sleeps waits for nobody. Runs whose branches all
//! wait have the status `waiting`. A run with another branch at work is `running`, and held by a
//! driver. The view lists the former, then the latter.

use super::{StoreSource, level};
use crate::failure::Failure;
use crate::report::info::branches;
use crate::report::show::kind_of;
use crate::report::times::rfc3339;
use crate::report::{ProgramValue, Values, Version};
use crate::view::Waiting;
use pleach::durable::{RunControlError, RunView, TokenView, WaitView};
use pleach::store::{Filter, Place, RunCursor, RunInfo, RunStatus, StoreError, Timestamp};
use serde::Serialize;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The runs of a page: default and limit.
const PAGE: (u64, u64) = (25, 100);

/// The most runs whose position is read for one page. A page can be short and have a `next`.
const VIEWS_MAX: usize = 200;

/// The largest question in bytes that a page includes. The view `value` has larger ones.
const QUESTION_BYTES_MAX: usize = 8 << 10;

/// The most waits of one run in a page.
const WAITS_PER_RUN_MAX: usize = 20;

/// The most positions that are kept.
const KEPT_MAX: usize = 2_000;

/// The open waits of a run for people.
#[derive(Debug, Default)]
pub(super) struct RunWaits {
    pub(super) waits: Vec<PersonWait>,
    pub(super) is_paused: bool,
    /// What is wrong with the log of the run, if its position cannot be read.
    pub(super) damage: Option<String>,
}

/// A question, or a signal that a node waits for.
#[derive(Clone, Debug)]
pub(super) struct PersonWait {
    pub(super) key: String,
    pub(super) kind: &'static str,
    pub(super) node: String,
    pub(super) branch: Vec<u32>,
    pub(super) question: Option<String>,
    pub(super) since: Option<Timestamp>,
    pub(super) due: Option<Timestamp>,
    /// Why the run refused the last message for it, and when.
    pub(super) refused: Option<(String, Timestamp)>,
}

/// The waits of runs that did not change since they were read.
#[derive(Default)]
pub(super) struct WaitCache(Mutex<HashMap<String, Kept>>);

struct Kept {
    instance: u64,
    head: u64,
    last_message: u64,
    waits: Arc<RunWaits>,
}

impl WaitCache {
    /// Returns the waits of a run if they are known and still hold.
    pub(super) fn known(&self, info: &RunInfo) -> Option<Arc<RunWaits>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.get(&info.id)?;
        // A refusal is a commit, so it changes the head or the last message.
        let is_same = (found.instance, found.head, found.last_message) == (info.instance, info.head, info.last_message);
        is_same.then(|| Arc::clone(&found.waits))
    }

    /// Returns the waits of a run. A run that is damaged or gone has none.
    pub(super) async fn of(&self, source: &StoreSource, info: &RunInfo) -> Result<Arc<RunWaits>, Failure> {
        if let Some(known) = self.known(info) {
            return Ok(known);
        }
        let waits = match source.remote(&info.id).view().await {
            Ok(view) => Arc::new(RunWaits::of(&view)),
            Err(RunControlError::Store(error @ StoreError::Damaged { .. })) => {
                Arc::new(RunWaits { damage: Some(error.to_string()), ..RunWaits::default() })
            }
            Err(RunControlError::Store(StoreError::RunNotFound { .. } | StoreError::Pruned { .. })) => Arc::default(),
            Err(error) => return Err(error.into()),
        };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        let RunInfo { id, instance, head, last_message, .. } = info.clone();
        kept.insert(id, Kept { instance, head, last_message, waits: Arc::clone(&waits) });
        Ok(waits)
    }
}

impl RunWaits {
    pub(super) fn of(view: &RunView) -> Self {
        let waits = view.tokens.iter().flat_map(|token| token.waits.iter().map(move |wait| (token, wait)));
        let waits = waits.filter(|(_, wait)| kind_of(wait) != "time");
        let waits = waits.map(|(token, wait)| PersonWait::of(view, token, wait)).collect();
        Self { waits, is_paused: view.is_paused, damage: None }
    }
}

impl PersonWait {
    fn of(view: &RunView, token: &TokenView, wait: &WaitView) -> Self {
        let kind = kind_of(wait);
        let message = format!("{}/{}", if wait.is_signal { "signal" } else { "answer" }, wait.key);
        let is_for = |name: &str, at| name == message && wait.since.is_none_or(|since| at >= since);
        let refused = view.refused.iter().rev().find(|refused| is_for(&refused.name, refused.at));
        Self {
            key: wait.key.clone(),
            kind,
            node: node_of(&token.at).to_string(),
            branch: branches(&token.branch),
            question: wait.question.clone(),
            since: wait.since,
            due: wait.due,
            refused: refused.map(|refused| (refused.reason.clone(), refused.at)),
        }
    }

    /// Returns the JSON schema of the answer, if the question is an object with the field `schema`.
    fn schema(&self) -> Option<String> {
        let schema = level::find(self.question.as_deref()?, "/schema").ok()?;
        (level::kind_of(schema) == "object" && schema.len() <= QUESTION_BYTES_MAX).then(|| schema.to_string())
    }
}

/// Returns the node of a place; empty at the end.
pub(super) fn node_of(place: &Place) -> &str {
    match place {
        Place::Node(node) | Place::Router(node) | Place::Fork(node) | Place::Join(node) | Place::Failed(node) => node,
        _ => "",
    }
}

#[derive(Serialize)]
struct WaitingJson<'a> {
    version: Version,
    store: &'a str,
    waits: Vec<WaitJson<'a>>,
    next: Option<String>,
}

#[derive(Serialize)]
struct WaitJson<'a> {
    run: &'a str,
    graph: &'a str,
    key: &'a str,
    kind: &'static str,
    node: &'a str,
    branch: &'a [u32],
    question: Option<ProgramValue<'a>>,
    schema: Option<String>,
    since: Option<String>,
    due: Option<String>,
    refused: Option<RefusedJson<'a>>,
    is_paused: bool,
}

#[derive(Serialize)]
struct RefusedJson<'a> {
    reason: &'a str,
    at: String,
}

pub(super) async fn page(source: &StoreSource, asked: &Waiting) -> Result<Value, Failure> {
    let mut limit = asked.limit.unwrap_or(PAGE.0).clamp(1, PAGE.1) as usize;
    // Large questions make a shorter page.
    loop {
        let answer = page_of(source, asked, limit).await?;
        if limit == 1 || super::size_of(&answer) <= super::ANSWER_BYTES_MAX {
            return Ok(answer);
        }
        limit /= 2;
    }
}

async fn page_of(source: &StoreSource, asked: &Waiting, limit: usize) -> Result<Value, Failure> {
    let (mut status, mut after) = match &asked.after {
        None => (RunStatus::Waiting, None),
        Some(cursor) => position(cursor)?,
    };
    let (mut found, mut examined) = (Vec::new(), 0);
    let next = loop {
        if found.len() >= limit || examined >= VIEWS_MAX {
            break Some((status, after));
        }
        let count = (limit - found.len()).min(VIEWS_MAX - examined);
        let page = source.store().store().list(vec![Filter::Status(status)], after, count).await?;
        // A run that nobody holds and that is running has no open wait, or will be driven soon.
        let may_wait = |run: &RunInfo| status == RunStatus::Waiting || run.owner.is_some();
        // A page of rows alone is cheap, but not free.
        examined += 1 + page.runs.len() / 10;
        for run in page.runs.into_iter().filter(may_wait) {
            examined += 1;
            let waits = source.waits().of(source, &run).await?;
            if !waits.waits.is_empty() {
                found.push((run, waits));
            }
        }
        (status, after) = match (page.next, status) {
            (Some(next), status) => (status, Some(next)),
            (None, RunStatus::Waiting) => (RunStatus::Running, None),
            (None, _) => break None,
        };
    };
    let next = next.map(|(status, after)| {
        let after = after.map(|after| after.to_string()).unwrap_or_default();
        format!("{}:{after}", status.as_str())
    });
    let mut waits = Vec::new();
    for (run, of_run) in &found {
        waits.extend(of_run.waits.iter().take(WAITS_PER_RUN_MAX).map(|wait| WaitJson::of(run, wait, of_run.is_paused)));
    }
    super::value_of(&WaitingJson { version: Version, store: source.store().name(), waits, next })
}

fn position(cursor: &str) -> Result<(RunStatus, Option<RunCursor>), Failure> {
    let wrong = || Failure::new("bad_request", format_args!("{cursor:?} is not a cursor of this list"));
    let (status, after) = cursor.split_once(':').ok_or_else(wrong)?;
    let status = RunStatus::parse(status).filter(|status| status.is_live()).ok_or_else(wrong)?;
    Ok((status, if after.is_empty() { None } else { Some(after.parse()?) }))
}

impl<'a> WaitJson<'a> {
    fn of(run: &'a RunInfo, wait: &'a PersonWait, is_paused: bool) -> Self {
        Self {
            run: &run.id,
            graph: &run.graph,
            key: &wait.key,
            kind: wait.kind,
            node: &wait.node,
            branch: &wait.branch,
            question: wait.question.as_deref().map(|json| ProgramValue::new(json, Values::Text(QUESTION_BYTES_MAX))),
            schema: wait.schema(),
            since: wait.since.map(rfc3339),
            due: wait.due.map(rfc3339),
            refused: wait.refused.as_ref().map(|(reason, at)| RefusedJson { reason, at: rfc3339(*at) }),
            is_paused,
        }
    }
}
