//! `pleach why STORE RUN`: why a run does not continue, and what to do.
//!
//! | file | owns |
//! |---|---|
//! | `mod` | finding the run; the explanation as text and JSON |
//! | `facts` | what is read |
//! | `causes` | the decision: facts to an explanation, without reading |
//! | `waiting` | the part of the decision about open waits and failed attempts |

mod causes;
mod facts;
mod waiting;

use super::find;
use crate::failure::Failure;
use crate::output::escape::OneLine;
use crate::output::explanation::{COMMENT, Explanation as Sentences};
use crate::output::times::rfc3339;
use crate::output::{Colour, Output, Report, Style, Version};
use crate::runs::info::{status_text, time_text};
use crate::store::{Access, Target};
use facts::Facts;
use pleach::store::{RunStatus, Store as _, StoreError, Timestamp};
use serde::Serialize;

pub async fn run(target: Target, name: &str, output: &Output) -> Result<(), Failure> {
    let kind = target.open_kind(Access::Read).await?;
    let store = kind.store();
    let report = match store.head(name).await {
        Err(StoreError::Damaged { run, reason, .. }) => {
            let explanation = causes::of_damaged_row(&target, &run, reason);
            WhyReport { target, id: run, graph: None, status: None, explanation }
        }
        found => {
            let info = match found {
                Err(StoreError::RunNotFound { .. }) => find(&store, &target, name).await?,
                found => found?,
            };
            let facts = Facts::read(&kind, &store, info).await?;
            let explanation = causes::of(&target, &facts);
            let (id, graph, status) = (facts.info.id, Some(facts.info.graph), Some(facts.info.status));
            WhyReport { target, id, graph, status, explanation }
        }
    };
    output.print(&report)
}

/// Why a run is where it is, with its facts for programs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// The causes, the deepest first.
    pub causes: Vec<Line>,
    /// What follows from them, up to the state of the run.
    pub so: Vec<Line>,
    /// What else is known.
    pub notes: Vec<Line>,
    /// What a person can do, the most useful first.
    pub advice: Vec<Advice>,
}

/// One sentence of an explanation, with its facts for programs.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Line {
    pub kind: &'static str,
    pub text: String,
    pub node: Option<String>,
    pub branch: Vec<u32>,
    #[serde(serialize_with = "optional_time")]
    pub since: Option<Timestamp>,
    #[serde(serialize_with = "optional_time")]
    pub due: Option<Timestamp>,
    pub record: Option<u64>,
    /// Whether `since` is the time of an event, and not the begin of a state that lasts.
    #[serde(skip)]
    pub is_event: bool,
}

/// Something to do: a command, or words if no command does it.
#[derive(Debug, PartialEq, Eq)]
pub struct Advice {
    pub text: String,
    pub command: Option<String>,
}

fn optional_time<S: serde::Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(rfc3339).serialize(serializer)
}

impl Line {
    pub fn new(kind: &'static str, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), ..Self::default() }
    }

    pub fn since(self, since: Timestamp) -> Self {
        Self { since: Some(since), ..self }
    }

    pub fn happened(self, at: Timestamp) -> Self {
        Self { since: Some(at), is_event: true, ..self }
    }

    pub fn due(self, due: Option<Timestamp>) -> Self {
        Self { due, ..self }
    }

    pub fn at(self, node: &str, branch: Vec<u32>) -> Self {
        Self { node: Some(node.to_string()), branch, ..self }
    }
}

impl Explanation {
    pub fn cause(&mut self, line: Line) {
        self.causes.push(line);
    }

    pub fn so(&mut self, line: Line) {
        self.so.push(line);
    }

    pub fn note(&mut self, line: Line) {
        self.notes.push(line);
    }

    pub fn advise(&mut self, text: impl Into<String>, command: Option<String>) {
        self.advice.push(Advice { text: text.into(), command });
    }
}

struct WhyReport {
    target: Target,
    id: String,
    /// `None` if the row of the run is damaged.
    graph: Option<String>,
    status: Option<RunStatus>,
    explanation: Explanation,
}

#[derive(Serialize)]
struct WhyJson<'a> {
    version: Version,
    store: String,
    id: &'a str,
    graph: Option<&'a str>,
    status: Option<&'static str>,
    /// The sentences, as for a member of a process.
    #[serde(flatten)]
    sentences: Sentences,
    /// The facts of the sentences of `cause`, `so` and `note`, in this order.
    facts: Vec<&'a Line>,
}

impl Serialize for WhyReport {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Explanation { causes, so, notes, .. } = &self.explanation;
        let json = WhyJson {
            version: Version,
            store: self.target.name(),
            id: &self.id,
            graph: self.graph.as_deref(),
            status: self.status.map(RunStatus::as_str),
            sentences: self.explanation.sentences(|line| line.text.clone()),
            facts: causes.iter().chain(so).chain(notes).collect(),
        };
        json.serialize(serializer)
    }
}

impl Explanation {
    /// Returns the sentences. A command is followed by what it does, as a comment of a shell.
    fn sentences(&self, line: impl Fn(&Line) -> String) -> Sentences {
        let all = |lines: &[Line]| lines.iter().map(&line).collect();
        let advice = self.advice.iter().map(|Advice { text, command }| match command {
            Some(command) => format!("{command}{COMMENT}{text}"),
            None => text.clone(),
        });
        Sentences { cause: all(&self.causes), so: all(&self.so), note: all(&self.notes), advice: advice.collect() }
    }
}

impl Report for WhyReport {
    fn text(&self, style: &Style) -> String {
        let graph = self.graph.as_ref().map(|graph| format!(" of graph {}", OneLine(graph))).unwrap_or_default();
        let status = self.status.map_or_else(|| style.paint(Colour::Red, "damaged"), |status| status_text(style, status));
        let line = |line: &Line| {
            let since = if line.is_event { "" } else { "since " };
            let since = line.since.map(|at| format!(", {since}{}", time_text(style, at))).unwrap_or_default();
            let due = line.due.map(|at| format!(", until {}", time_text(style, at))).unwrap_or_default();
            format!("{}{since}{due}", line.text)
        };
        format!("run {}{graph}: {status}\n{}", OneLine(&self.id), self.explanation.sentences(line).text(style))
    }
}
