//! `pleach runs show`: one run, what it waits for, what failed, and the command that helps.

use super::FoundRun;
use super::info::{branches, place_text, status_text, time_text};
use super::{quoted, state};
use crate::args::ShowArgs;
use crate::failure::Failure;
use crate::output::escape::{ManyLines, OneLine};
use crate::output::table::cut;
use crate::output::{Colour, Output, Report, Style};
use crate::store::Access;
use pleach::durable::{RunView, TokenView};
use pleach::store::{RunInfo, Timestamp};
use pleach_console::report::Values;
use pleach_console::report::show::{ShowJson, kind_of, next_commands};
use serde::Serialize;
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
    let store = run.target.name();
    output.print(&ShowReport { next: next_commands(&store, &run.info, &view), store, run, view, is_full: args.full })
}

struct ShowReport {
    store: String,
    run: FoundRun,
    view: RunView,
    next: Vec<String>,
    is_full: bool,
}

impl Serialize for ShowReport {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { store, run, view, .. } = self;
        ShowJson::of(store, &run.info, view, Values::Inline, usize::MAX).serialize(serializer)
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
