//! `pleach runs show`: one run, what it waits for, what failed, and the command that helps.

use super::FoundRun;
use super::info::{FailureJson, InfoJson, PlaceJson, branches, place_text, status_text, time_text};
use super::{quoted, state};
use crate::args::ShowArgs;
use crate::failure::Failure;
use crate::output::escape::{ManyLines, OneLine};
use crate::output::table::cut;
use crate::output::times::rfc3339;
use crate::output::{Colour, Output, Report, Style, Version};
use crate::store::Access;
use pleach::durable::{RunView, TokenView, WaitView};
use pleach::store::{RunInfo, RunStatus, Timestamp};
use serde::Serialize;
use serde_json::value::RawValue;
use std::fmt::Write as _;
use std::time::SystemTime;

/// The longest state or question that text shows without `--full`, in columns.
const VALUE_MAX: usize = 400;

/// The most tokens that text shows without `--full`.
const TOKENS_MAX: usize = 20;

pub async fn run(args: ShowArgs, output: &Output) -> Result<(), Failure> {
    let run = FoundRun::open(args.run, Access::Read).await?;
    if let Some(record) = args.record {
        return state::show(&run, record, output).await;
    }
    let view = run.remote().view().await?;
    output.print(&ShowReport { next: next_commands(&run, &view), run, view, is_full: args.full })
}

struct ShowReport {
    run: FoundRun,
    view: RunView,
    next: Vec<String>,
    is_full: bool,
}

#[derive(Serialize)]
struct ShowJson<'a> {
    version: Version,
    store: String,
    #[serde(flatten)]
    info: InfoJson<'a>,
    is_paused: bool,
    visits: u64,
    tokens: Vec<TokenJson<'a>>,
    refused: Vec<RefusedJson<'a>>,
    next_commands: &'a [String],
}

#[derive(Serialize)]
struct TokenJson<'a> {
    at: PlaceJson<'a>,
    branch: Vec<u32>,
    /// The state as it is stored, with every digit.
    state: Option<&'a RawValue>,
    waits: Vec<WaitJson<'a>>,
    failure: Option<FailureJson<'a>>,
}

#[derive(Serialize)]
struct WaitJson<'a> {
    kind: &'static str,
    key: &'a str,
    question: Option<&'a RawValue>,
    due: Option<String>,
}

#[derive(Serialize)]
struct RefusedJson<'a> {
    number: u64,
    name: &'a str,
    reason: &'a str,
    at: String,
}

/// Returns stored JSON as it is. A text that is not JSON cannot be stored.
fn raw(json: &str) -> Option<&RawValue> {
    serde_json::from_str(json).ok()
}

impl Serialize for ShowReport {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let refused = self.view.refused.iter().map(|message| RefusedJson {
            number: message.number,
            name: &message.name,
            reason: &message.reason,
            at: rfc3339(message.at),
        });
        let json = ShowJson {
            version: Version,
            store: self.run.target.name(),
            info: InfoJson::of(&self.run.info),
            is_paused: self.view.is_paused,
            visits: self.view.visits,
            tokens: self.view.tokens.iter().map(token_json).collect(),
            refused: refused.collect(),
            next_commands: &self.next,
        };
        json.serialize(serializer)
    }
}

fn token_json(token: &TokenView) -> TokenJson<'_> {
    TokenJson {
        at: PlaceJson::of(&token.at),
        branch: branches(&token.branch),
        state: token.state.as_deref().and_then(raw),
        waits: token.waits.iter().map(wait_json).collect(),
        failure: token.failure.as_ref().map(FailureJson::of),
    }
}

fn wait_json(wait: &WaitView) -> WaitJson<'_> {
    WaitJson {
        kind: kind_of(wait),
        key: &wait.key,
        question: wait.question.as_deref().and_then(raw),
        due: wait.due.map(rfc3339),
    }
}

fn kind_of(wait: &WaitView) -> &'static str {
    match (wait.is_signal, &wait.question) {
        (true, _) => "signal",
        (false, Some(_)) => "question",
        (false, None) if wait.due.is_some() => "time",
        (false, None) => "question",
    }
}

impl Report for ShowReport {
    fn text(&self, style: &Style) -> String {
        let (info, view) = (&self.run.info, &self.view);
        let mut lines = Lines { text: String::new(), style };
        lines.add("run", &info.id);
        lines.add_painted("status", &status_line(style, info, view));
        lines.add("graph", &format!("{} ({}, schema {})", info.graph, info.version.fingerprint, info.version.schema));
        lines.add("created", &time_text(style, info.created));
        lines.add("changed", &time_text(style, info.changed));
        lines.add("records", &format!("{} to {}, {} visits", info.oldest, info.head, view.visits));
        lines.add_if("due", info.wake_at.map(|at| time_text(style, at)));
        lines.add_if("deadline", info.deadline.map(|at| time_text(style, at)));
        lines.add_if("forked", info.from.as_ref().map(|from| format!("from {} at record {}", from.run, from.sequence)));
        lines.add_if("tags", (!info.tags.is_empty()).then(|| info.tags.to_string()));
        lines.add_if("driver", driver(style, info));
        lines.add_if("failure", view.failure.as_ref().map(|failure| format!("{failure} ({})", time_text(style, failure.at))));
        lines.add_if("trouble", info.trouble.as_ref().map(|trouble| format!("{trouble} ({} attempts)", info.takeovers)));
        let shown = if self.is_full { view.tokens.len() } else { TOKENS_MAX };
        for token in view.tokens.iter().take(shown) {
            self.add_token(&mut lines, token);
        }
        if view.tokens.len() > shown {
            lines.add("", &format!("and {} more positions; --full shows them", view.tokens.len() - shown));
        }
        for refused in &view.refused {
            lines.add("refused", &format!("{} ({}): {}", refused.name, style.times.relative(refused.at), refused.reason));
        }
        for command in &self.next {
            lines.add("next", command);
        }
        lines.text
    }
}

impl ShowReport {
    fn add_token(&self, lines: &mut Lines<'_>, token: &TokenView) {
        let branch = branches(&token.branch);
        let inside = if branch.is_empty() { String::new() } else { format!(" in branch {branch:?}") };
        lines.add("position", &format!("{}{inside}", place_text(&token.at)));
        for wait in &token.waits {
            let until = wait.due.map(|due| format!(" until {}", time_text(lines.style, due))).unwrap_or_default();
            let question = wait.question.as_deref().map(|question| format!(": {}", self.value(question))).unwrap_or_default();
            lines.add("waits for", &format!("{} {}{until}{question}", kind_of(wait), quoted(&wait.key)));
        }
        let is_shown_above = token.failure.is_some() && token.failure == self.view.failure;
        if let Some(failure) = token.failure.as_ref().filter(|_| !is_shown_above) {
            let retry = failure.retry_at.map(|at| format!(", next attempt {}", lines.style.times.relative(at)));
            lines.add("failed", &format!("{failure}{}", retry.unwrap_or_default()));
        }
        if let Some(state) = &token.state {
            lines.add("state", &self.value(state));
        }
    }

    fn value(&self, json: &str) -> String {
        if self.is_full { json.to_string() } else { shortened(json) }
    }
}

/// Cuts a value, and says how long it is.
fn shortened(json: &str) -> String {
    let shown = cut(json, VALUE_MAX);
    if shown.len() == json.len() { shown } else { format!("{shown} ({} bytes; --full shows all)", json.len()) }
}

/// Lines of a name and a text.
struct Lines<'a> {
    text: String,
    style: &'a Style,
}

impl Lines<'_> {
    fn add(&mut self, name: &str, text: &str) {
        self.add_painted(name, &ManyLines(text).to_string().replace('\n', &format!("\n{:12}", "")));
    }

    fn add_painted(&mut self, name: &str, text: &str) {
        let padding = " ".repeat(12usize.saturating_sub(name.len()));
        let _ = writeln!(self.text, "{}{padding}{text}", self.style.paint(Colour::Dim, name));
    }

    fn add_if(&mut self, name: &str, text: Option<String>) {
        if let Some(text) = text {
            self.add(name, &text);
        }
    }
}

fn status_line(style: &Style, info: &RunInfo, view: &RunView) -> String {
    let paused = if view.is_paused { ", paused" } else { "" };
    format!("{}{paused}", status_text(style, info.status))
}

fn driver(style: &Style, info: &RunInfo) -> Option<String> {
    let owner = OneLine(info.owner.as_deref()?).to_string();
    let until = info.lease_until.unwrap_or_default();
    let ends = if until > now() { "its lease ends" } else { "its lease ended" };
    Some(format!("{owner}, {ends} {}", style.times.relative(until)))
}

fn now() -> Timestamp {
    SystemTime::now().into()
}

/// Returns the commands that a person needs next, the most useful first.
fn next_commands(run: &FoundRun, view: &RunView) -> Vec<String> {
    let mut next = Vec::new();
    if view.is_paused {
        next.push(run.command("resume", ""));
    }
    for wait in view.waits().take(3) {
        match kind_of(wait) {
            "signal" => next.push(run.command("signal", &format!("{} JSON", quoted(&wait.key)))),
            "question" => next.push(run.command("answer", &format!("{} JSON", quoted(&wait.key)))),
            _ => {}
        }
    }
    match run.info.status {
        RunStatus::Failed | RunStatus::CompensationFailed => next.push(run.command("retry", "")),
        RunStatus::Stuck => next.push(run.command("unstick", "")),
        RunStatus::Cancelled | RunStatus::Compensated => {
            next.push(run.command("history", ""));
            next.push(run.command("rewind", "RECORD"));
        }
        RunStatus::Running if run.info.owner.is_none() => {
            next.push(format!("pleach check {} --graphs FILE.json", quoted(&run.target.name())));
        }
        RunStatus::Running => next.push(run.command("tail", "")),
        _ => {}
    }
    next
}
