//! Why a run is where it is, and what to do.
//!
//! | file | owns |
//! |---|---|
//! | `mod` | finding the run; the explanation as sentences and JSON |
//! | `facts` | what is read |
//! | `causes` | the decision: facts to an explanation, without reading |
//! | `waiting` | the part of the decision about open waits and failed attempts |

mod causes;
mod facts;
mod waiting;

use super::explanation::COMMENT;
use super::times::rfc3339;
use super::{Explanation, NamedStore, Version};
use facts::Facts;
use pleach::durable::RunControlError;
use pleach::store::{RunInfo, RunStatus, StoreError, Timestamp};
use serde::Serialize;

/// Explains a run, whose id must be given whole.
///
/// # Errors
/// The store has no such run, or failed. Damage of the run is part of the explanation.
pub async fn explain(store: &NamedStore, run: &str) -> Result<WhyReport, RunControlError> {
    match store.store().head(run).await {
        Err(StoreError::Damaged { run, reason, .. }) => {
            let explanation = causes::of_damaged_row(store.name(), &run, reason);
            Ok(WhyReport { store: store.name().to_string(), id: run, graph: None, status: None, explanation })
        }
        found => explain_run(store, found?).await,
    }
}

/// Explains a run whose row was read.
///
/// # Errors
/// The store failed. Damage of the run is part of the explanation.
pub async fn explain_run(store: &NamedStore, info: RunInfo) -> Result<WhyReport, RunControlError> {
    let facts = Facts::read(store, info).await?;
    let explanation = causes::of(store.name(), &facts);
    let (id, graph, status) = (facts.info.id, Some(facts.info.graph), Some(facts.info.status));
    Ok(WhyReport { store: store.name().to_string(), id, graph, status, explanation })
}

/// The explanation of one run. It serialises as the object *why, of a run* of `docs/cli.md`.
#[derive(Debug)]
pub struct WhyReport {
    /// The argument STORE of commands.
    pub store: String,
    /// The id of the run.
    pub id: String,
    /// The graph of the run. `None` if its row is damaged.
    pub graph: Option<String>,
    /// The status of the run. `None` if its row is damaged.
    pub status: Option<RunStatus>,
    /// Why the run is where it is.
    pub explanation: RunExplanation,
}

/// Why a run is where it is, with its facts for programs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RunExplanation {
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
    /// The kind of fact, as a short name that does not change.
    pub kind: &'static str,
    /// The sentence, without a full stop.
    pub text: String,
    /// The node that the sentence is about.
    pub node: Option<String>,
    /// The branch numbers of that node's token, the outermost first.
    pub branch: Vec<u32>,
    /// Since when it is so, or when it happened.
    #[serde(serialize_with = "optional_time")]
    pub since: Option<Timestamp>,
    /// Until when it is so at the latest.
    #[serde(serialize_with = "optional_time")]
    pub due: Option<Timestamp>,
    /// The record that says so.
    pub record: Option<u64>,
    /// Whether `since` is the time of an event, and not the begin of a state that lasts.
    #[serde(skip)]
    pub is_event: bool,
}

/// Something to do: a command, or words if no command does it.
#[derive(Debug, PartialEq, Eq)]
pub struct Advice {
    /// What to do, or what the command does.
    pub text: String,
    /// The command line, if a command does it.
    pub command: Option<String>,
}

fn optional_time<S: serde::Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(rfc3339).serialize(serializer)
}

impl Line {
    pub(super) fn new(kind: &'static str, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), ..Self::default() }
    }

    pub(super) fn since(self, since: Timestamp) -> Self {
        Self { since: Some(since), ..self }
    }

    pub(super) fn happened(self, at: Timestamp) -> Self {
        Self { since: Some(at), is_event: true, ..self }
    }

    pub(super) fn due(self, due: Option<Timestamp>) -> Self {
        Self { due, ..self }
    }

    pub(super) fn at(self, node: &str, branch: Vec<u32>) -> Self {
        Self { node: Some(node.to_string()), branch, ..self }
    }
}

impl RunExplanation {
    pub(super) fn cause(&mut self, line: Line) {
        self.causes.push(line);
    }

    pub(super) fn so(&mut self, line: Line) {
        self.so.push(line);
    }

    pub(super) fn note(&mut self, line: Line) {
        self.notes.push(line);
    }

    pub(super) fn advise(&mut self, text: impl Into<String>, command: Option<String>) {
        self.advice.push(Advice { text: text.into(), command });
    }
}

#[derive(Serialize)]
struct WhyJson<'a> {
    version: Version,
    store: &'a str,
    id: &'a str,
    graph: Option<&'a str>,
    status: Option<&'static str>,
    /// The sentences, as for a member of a process.
    #[serde(flatten)]
    sentences: Explanation,
    /// The facts of the sentences of `cause`, `so` and `note`, in this order.
    facts: Vec<&'a Line>,
}

impl Serialize for WhyReport {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let RunExplanation { causes, so, notes, .. } = &self.explanation;
        let json = WhyJson {
            version: Version,
            store: &self.store,
            id: &self.id,
            graph: self.graph.as_deref(),
            status: self.status.map(RunStatus::as_str),
            sentences: self.explanation.sentences(|line| line.text.clone()),
            facts: causes.iter().chain(so).chain(notes).collect(),
        };
        json.serialize(serializer)
    }
}

impl RunExplanation {
    /// Returns the sentences. A command is followed by what it does, as a comment of a shell.
    ///
    /// `line` writes one fact.
    pub fn sentences(&self, line: impl Fn(&Line) -> String) -> Explanation {
        let all = |lines: &[Line]| lines.iter().map(&line).collect();
        let advice = self.advice.iter().map(|Advice { text, command }| match command {
            Some(command) => format!("{command}{COMMENT}{text}"),
            None => text.clone(),
        });
        Explanation { cause: all(&self.causes), so: all(&self.so), note: all(&self.notes), advice: advice.collect() }
    }
}
