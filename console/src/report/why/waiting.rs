//! The part of an explanation that the tokens of a run give: open waits, failed attempts, branches.

use super::causes::{Why, of_failure};
use super::{Line, RunExplanation};
use crate::report::command::quoted;
use crate::report::info::{branches, place_text};
use crate::report::text::cut;
use pleach::durable::{RunView, TokenView, WaitView};
use pleach::store::{Place, Timestamp};
use serde_json::Value;
use std::borrow::Cow;

/// The most tokens of one kind that are explained one by one.
const SHOWN_MAX: usize = 5;

/// The longest question that an explanation shows, in columns.
const QUESTION_MAX: usize = 120;

/// The fields in which an object says what it asks, the most likely first.
const TEXTS: [&str; 5] = ["text", "question", "prompt", "title", "message"];

/// Returns the text that a question contains, if it is an object with one. Otherwise its JSON.
fn spoken(question: &str) -> Cow<'_, str> {
    let text = match serde_json::from_str(question) {
        Ok(Value::Object(mut fields)) => TEXTS.iter().find_map(|name| match fields.remove(*name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }),
        _ => None,
    };
    text.map_or(Cow::Borrowed(question), Cow::Owned)
}

/// Returns where the run is, such as `at pay, at node "ship" in branch [2]`.
pub fn places(view: &RunView) -> String {
    if view.is_undoing {
        return "on the undo of its completed nodes".into();
    }
    // The tokens inside a fan-out or a subgraph say more than the one that opened it.
    let is_leaf = |token: &&TokenView| !view.tokens.iter().any(|inner| is_inside(inner, token));
    let texts: Vec<String> =
        view.tokens.iter().filter(is_leaf).map(|token| format!("{}{}", place(&token.at), inside(token))).collect();
    let more = if texts.len() > SHOWN_MAX { format!(" and {} more places", texts.len() - SHOWN_MAX) } else { String::new() };
    let shown: Vec<String> = texts.into_iter().take(SHOWN_MAX).collect();
    if shown.is_empty() { "at its start".into() } else { shown.join(", ") + &more }
}

fn place(place: &Place) -> String {
    match place {
        Place::Node(node) => format!("at node {node:?}"),
        other => place_text(other),
    }
}

fn inside(token: &TokenView) -> String {
    let branch = branches(&token.branch);
    if branch.is_empty() { String::new() } else { format!(" in branch {branch:?}") }
}

fn is_inside(inner: &TokenView, outer: &TokenView) -> bool {
    inner.branch.len() > outer.branch.len() && inner.branch.starts_with(&outer.branch)
}

fn node_of(token: &TokenView) -> &str {
    match &token.at {
        Place::Node(node) | Place::Router(node) | Place::Fork(node) | Place::Join(node) | Place::Failed(node) => node,
        _ => "",
    }
}

/// Adds the failed attempts after which nodes are tried again.
pub fn attempts(view: &RunView, now: Timestamp, found: &mut RunExplanation) {
    let retried = view.tokens.iter().filter_map(|token| token.failure.as_ref()).filter(|failure| !failure.is_final);
    for failure in retried.filter(|failure| failure.retry_at.is_some()).take(SHOWN_MAX) {
        found.cause(Line { due: None, ..of_failure(failure) });
        let next = failure.attempt + 1;
        let text = match failure.retry_at.filter(|at| *at > now) {
            Some(_) => format!("node {:?} waits for attempt {next}", failure.node),
            None => format!("attempt {next} of node {:?} is due", failure.node),
        };
        found.so(Line::new("retry", text).due(failure.retry_at.filter(|at| *at > now)));
    }
}

/// Adds the open waits: for a person, a signal or a time.
pub fn open_waits(why: &Why<'_>, view: &RunView, found: &mut RunExplanation) {
    let waits = view.tokens.iter().flat_map(|token| token.waits.iter().map(move |wait| (token, wait)));
    // A message for it is on its way, and only a driver is missing.
    let is_answered = |wait: &WaitView| {
        let kind = if wait.is_signal { "signal" } else { "answer" };
        why.facts.inbox.iter().any(|(name, _)| name.split_once('/') == Some((kind, &wait.key)))
    };
    let open: Vec<_> = waits.filter(|(_, wait)| !is_answered(wait)).collect();
    for (token, wait) in open.iter().take(SHOWN_MAX) {
        add_refusal(view, wait, found);
        let (node, key) = (node_of(token), quoted(&wait.key));
        let (kind, what) = match (wait.is_signal, &wait.question, wait.due) {
            (true, ..) => ("signal", format!("waits for the signal {key}")),
            (false, None, Some(_)) => ("time", format!("sleeps ({key})")),
            (false, question, _) => {
                let question =
                    question.as_deref().map(|text| format!(": {}", cut(&spoken(text), QUESTION_MAX))).unwrap_or_default();
                ("question", format!("waits for an answer to {key}{question}"))
            }
        };
        let line = Line::new(kind, format!("node {node:?}{} {what}", inside(token))).at(node, branches(&token.branch));
        found.cause(Line { since: wait.since, ..line }.due(wait.due));
        match kind {
            "signal" => found.advise("sends it", why.command("signal", &format!("{key} JSON"))),
            "question" => found.advise("answers it", why.command("answer", &format!("{key} JSON"))),
            _ => {}
        }
    }
    if open.len() > SHOWN_MAX {
        found.so(Line::new("waiting", format!("{} more waits are open", open.len() - SHOWN_MAX)));
    }
    let needs_message = open.iter().any(|(_, wait)| wait.due.is_none() || wait.question.is_some() || wait.is_signal);
    if needs_message && !view.is_paused {
        found.so(Line::new("waiting", "the run waits, and no worker is needed until then"));
    } else if !needs_message && !open.is_empty() {
        found.so(Line::new("waiting", "the run continues at that time, if a worker serves it then"));
    }
}

/// Adds the last message for this wait that the run refused.
fn add_refusal(view: &RunView, wait: &WaitView, found: &mut RunExplanation) {
    let kind = if wait.is_signal { "signal" } else { "answer" };
    let is_for = |name: &str| name.split_once('/') == Some((kind, &wait.key));
    if let Some(refused) = view.refused.iter().rev().find(|refused| is_for(&refused.name)) {
        let text = format!("the run refused the last {kind} to {}: {}", quoted(&wait.key), refused.reason);
        found.cause(Line::new("refused", text).happened(refused.at));
    }
}

/// Adds what waits for branches and subgraphs.
pub fn forks(view: &RunView, found: &mut RunExplanation) {
    for token in &view.tokens {
        let within = view.tokens.iter().filter(|inner| is_inside(inner, token));
        let line = match &token.at {
            Place::Fork(node) => {
                let arrived = within.clone().filter(|inner| matches!(inner.at, Place::Join(_))).count();
                let failed = within.clone().filter(|inner| matches!(inner.at, Place::Failed(_))).count();
                let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
                Line::new("fan_out", format!("the fan-out after node {node:?} waits for its branches: {arrived} done{failed}"))
            }
            Place::Node(node) if within.clone().next().is_some() => {
                Line::new("subgraph", format!("node {node:?} waits for its subgraph"))
            }
            _ => continue,
        };
        found.so(line.at(node_of(token), branches(&token.branch)));
        if found.so.len() > 4 * SHOWN_MAX {
            return;
        }
    }
}
