//! One run: its position, what it waits for, what failed, and the commands that help.

use super::command::{check, of_run, quoted};
use super::info::{FailureJson, InfoJson, PlaceJson, branches};
use super::times::rfc3339;
use super::{ProgramValue, Values, Version};
use pleach::durable::{RunView, TokenView, WaitView};
use pleach::store::{RefusedMessage, RunInfo, RunStatus};
use serde::Serialize;

/// One run: the object *show* of `docs/cli.md`.
#[derive(Debug, Serialize)]
pub struct ShowJson<'a> {
    version: Version,
    store: &'a str,
    #[serde(flatten)]
    info: InfoJson<'a>,
    is_paused: bool,
    visits: u64,
    tokens: Vec<TokenJson<'a>>,
    refused: Vec<RefusedJson<'a>>,
    next_commands: Vec<String>,
}

impl<'a> ShowJson<'a> {
    /// Builds the object without a position, for a run whose log is damaged.
    pub fn of_row(store: &'a str, info: &'a RunInfo) -> Self {
        let (tokens, refused, next_commands) = (Vec::new(), Vec::new(), Vec::new());
        let info = InfoJson::of(info);
        Self { version: Version, store, info, is_paused: false, visits: 0, tokens, refused, next_commands }
    }
}

/// The position of a token: the object *token* of `docs/cli.md`.
#[derive(Debug, Serialize)]
pub struct TokenJson<'a> {
    at: PlaceJson<'a>,
    branch: Vec<u32>,
    state: Option<ProgramValue<'a>>,
    waits: Vec<WaitJson<'a>>,
    failure: Option<FailureJson<'a>>,
}

/// An open wait of a token.
#[derive(Debug, Serialize)]
struct WaitJson<'a> {
    kind: &'static str,
    key: &'a str,
    question: Option<ProgramValue<'a>>,
    due: Option<String>,
}

/// A message that the run refused.
#[derive(Debug, Serialize)]
pub struct RefusedJson<'a> {
    number: u64,
    name: &'a str,
    reason: &'a str,
    at: String,
}

impl<'a> ShowJson<'a> {
    /// Builds the object from a run's row and its position. At most `tokens_max` tokens are
    /// included.
    pub fn of(store: &'a str, info: &'a RunInfo, view: &'a RunView, how: Values, tokens_max: usize) -> Self {
        Self {
            version: Version,
            store,
            info: InfoJson::of(info),
            is_paused: view.is_paused,
            visits: view.visits,
            tokens: view.tokens.iter().take(tokens_max).map(|token| TokenJson::of(token, how)).collect(),
            refused: view.refused.iter().map(RefusedJson::of).collect(),
            next_commands: next_commands(store, info, view),
        }
    }
}

impl<'a> TokenJson<'a> {
    fn of(token: &'a TokenView, how: Values) -> Self {
        Self {
            at: PlaceJson::of(&token.at),
            branch: branches(&token.branch),
            state: token.state.as_deref().map(|state| ProgramValue::new(state, how)),
            waits: token.waits.iter().map(|wait| WaitJson::of(wait, how)).collect(),
            failure: token.failure.as_ref().map(FailureJson::of),
        }
    }
}

impl<'a> WaitJson<'a> {
    fn of(wait: &'a WaitView, how: Values) -> Self {
        Self {
            kind: kind_of(wait),
            key: &wait.key,
            question: wait.question.as_deref().map(|question| ProgramValue::new(question, how)),
            due: wait.due.map(rfc3339),
        }
    }
}

impl<'a> RefusedJson<'a> {
    /// Builds the object from a refused message.
    pub fn of(message: &'a RefusedMessage) -> Self {
        Self { number: message.number, name: &message.name, reason: &message.reason, at: rfc3339(message.at) }
    }
}

/// Returns what a wait is for: `signal`, `question` or `time`.
pub fn kind_of(wait: &WaitView) -> &'static str {
    match (wait.is_signal, &wait.question) {
        (true, _) => "signal",
        (false, Some(_)) => "question",
        (false, None) if wait.due.is_some() => "time",
        (false, None) => "question",
    }
}

/// Returns the commands that a person needs next, the most useful first.
pub fn next_commands(store: &str, info: &RunInfo, view: &RunView) -> Vec<String> {
    let command = |word: &str, more: &str| of_run(store, &info.id, word, more);
    let mut next = Vec::new();
    if view.is_paused {
        next.push(command("resume", ""));
    }
    for wait in view.waits().take(3) {
        match kind_of(wait) {
            "signal" => next.push(command("signal", &format!("{} JSON", quoted(&wait.key)))),
            "question" => next.push(command("answer", &format!("{} JSON", quoted(&wait.key)))),
            _ => {}
        }
    }
    match info.status {
        RunStatus::Failed | RunStatus::CompensationFailed => next.push(command("retry", "")),
        RunStatus::Stuck => next.push(command("unstick", "")),
        RunStatus::Cancelled | RunStatus::Compensated => {
            next.push(command("history", ""));
            next.push(command("rewind", "RECORD"));
        }
        RunStatus::Running if info.owner.is_none() => {
            next.push(check(store));
        }
        RunStatus::Running => next.push(command("tail", "")),
        _ => {}
    }
    next
}
