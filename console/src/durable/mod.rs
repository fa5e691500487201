//! [`StoreSource`]: a store with durable runs, as a source of the console.
//!
//! | file | owns |
//! |---|---|
//! | `mod` | which view and action goes where |
//! | `failure` | from errors of the store to what the page shows |
//! | `runs`, `merged` | pages and counts of runs, of one status or several |
//! | `run` | one run: position, explanation, relatives, driver |
//! | `timeline` | records, from their headers |
//! | `state`, `level` | states and questions as JSON text, and how two states differ |
//! | `waits` | what waits for people |
//! | `workers` | leases, takeovers, unserved runs |
//! | `deploy`, `graph` | checks and drawings of exported graphs |
//! | `test` | a test in Rust that continues a run |
//! | `known_runs` | whether the store has a run, for the tree of a process |
//! | `clock` | the clock of the store |
//! | `examine` | what is wrong now, for the home page |
//! | `steer` | what actions on runs would do, and doing them |
//!
//! Invariants:
//! 1. A view or examination only reads.
//! 2. Its cost is bounded: it depends on the answer, never on the number of runs or records.
//! 3. Values of the program are JSON text. Nothing parses their numbers.
//! 4. An answer has at most [`ANSWER_BYTES_MAX`]: longer lists become shorter pages, and longer
//!    values are left out.
//! 5. Damage is shown at its place. It hides neither other runs nor other records.

mod clock;
mod deploy;
mod examine;
mod failure;
mod graph;
mod known_runs;
mod level;
mod merged;
mod run;
mod runs;
mod state;
mod steer;
pub(crate) mod test;
mod timeline;
mod waits;
mod workers;

#[cfg(test)]
mod tests;

use crate::action::{Action, Outcome, Plan};
use crate::failure::Failure;
use crate::redact::Redaction;
use crate::report::NamedStore;
use crate::source::{Answer, Findings, Part, Source};
use crate::view::{ValueAt, View};
use clock::StoreClock;
use graph::Layouts;
use known_runs::KnownRuns;
use pleach::durable::{GraphExport, RunRemote};
use pleach::store::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use waits::WaitCache;

/// The largest answer in bytes that a view aims at. The server refuses one above 1 MiB.
const ANSWER_BYTES_MAX: usize = 768 << 10;

/// A store with durable runs.
pub(crate) struct StoreSource {
    key: String,
    /// A short name for people.
    name: String,
    store: NamedStore,
    /// The graphs of the program that the console runs in.
    exports: Vec<GraphExport>,
    layouts: Layouts,
    waits: WaitCache,
    clock: StoreClock,
    known_runs: KnownRuns,
    /// What plans hide of the values that they repeat.
    redaction: Redaction,
    /// Why the store could not be reached the last time.
    problem: Mutex<Option<String>>,
}

impl StoreSource {
    /// Creates the source of a store. `key` is its name in views and actions, such as `s0`.
    pub(crate) fn new(key: impl Into<String>, store: NamedStore) -> Self {
        let name = match store.target() {
            Some(target) => {
                let last = Path::new(target).file_name().map(|name| name.to_string_lossy().into_owned());
                last.unwrap_or_else(|| target.to_string())
            }
            None => store.kind().to_string(),
        };
        Self {
            key: key.into(),
            name,
            store,
            exports: Vec::new(),
            layouts: Layouts::default(),
            waits: WaitCache::default(),
            clock: StoreClock::default(),
            known_runs: KnownRuns::default(),
            redaction: Redaction::new(),
            problem: Mutex::default(),
        }
    }

    /// Sets the exported graphs that are drawn and checked if a view gives none.
    pub(crate) fn graphs(mut self, exports: Vec<GraphExport>) -> Self {
        self.exports = exports;
        self
    }

    /// Sets what plans hide of the values that they repeat.
    pub(crate) fn redact(mut self, redaction: Redaction) -> Self {
        self.redaction = redaction;
        self
    }

    fn exports(&self) -> &[GraphExport] {
        &self.exports
    }

    fn layouts(&self) -> &Layouts {
        &self.layouts
    }

    fn waits(&self) -> &WaitCache {
        &self.waits
    }

    /// Returns the time by the clock of the store.
    async fn now(&self) -> Timestamp {
        self.clock.now(&self.store).await
    }

    /// Sets the name that people see.
    pub(crate) fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    fn store(&self) -> &NamedStore {
        &self.store
    }

    fn remote(&self, run: &str) -> RunRemote {
        RunRemote::new(self.store.store(), run)
    }

    async fn answer(&self, view: &View) -> Result<Value, Failure> {
        match view {
            View::Runs(asked) => runs::page(self, asked).await,
            View::RunGroups(asked) => runs::count(self, asked).await,
            View::Run(asked) => run::view(self, asked).await,
            View::Timeline(asked) => timeline::page(self, asked).await,
            View::Value(asked) => state::value(self, asked).await,
            View::Diff(asked) => state::diff(self, asked).await,
            View::Waiting(asked) => waits::page(self, asked).await,
            View::Workers(_) => workers::view(self).await,
            View::Deploy(asked) => deploy::view(self, asked).await,
            View::Graph(asked) => graph::view(self, asked).await,
            View::Test(asked) => test::view(self, asked).await,
            _ => Err(Failure::new("not_possible", "a store has no such view")),
        }
    }

    /// Remembers whether the store could be reached.
    fn note<T>(&self, answer: Result<T, Failure>) -> Result<T, Failure> {
        let problem = match &answer {
            Err(failure) if failure.code == "unreachable" => Some(failure.text.clone()),
            _ => None,
        };
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
        answer
    }
}

impl Source for StoreSource {
    fn key(&self) -> &str {
        &self.key
    }

    fn describe(&self) -> Value {
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (kind, target) = (self.store.kind(), self.store.target());
        json!({ "key": self.key, "name": self.name, "kind": kind, "target": target, "graphs": self.exports.len(),
                "problem": problem })
    }

    fn view<'a>(&'a self, view: &'a View) -> Answer<'a, Value> {
        Box::pin(async move { self.note(self.answer(view).await) })
    }

    fn text<'a>(&'a self, at: &'a ValueAt) -> Answer<'a, Part> {
        Box::pin(async move { self.note(state::text(self, at).await) })
    }

    fn has_run<'a>(&'a self, run: &'a str) -> Answer<'a, bool> {
        Box::pin(self.known_runs.has(&self.store, run))
    }

    fn examine(&self) -> Answer<'_, Findings> {
        Box::pin(async { self.note(examine::examine(self).await) })
    }

    fn plan<'a>(&'a self, action: &'a Action) -> Answer<'a, Plan> {
        Box::pin(async move { self.note(steer::plan(self, action).await) })
    }

    fn carry_out<'a>(&'a self, action: &'a Action, guard: &'a str) -> Answer<'a, Outcome> {
        Box::pin(async move { self.note(steer::carry_out(self, action, guard).await) })
    }
}

/// Returns the answer of a view. Values of the program in it are strings, so nothing is rounded.
fn value_of(answer: &impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(answer).map_err(|error| Failure::new("failed", format_args!("cannot write the answer: {error}")))
}

/// Returns the bytes of an answer.
fn size_of(answer: &Value) -> usize {
    answer.to_string().len()
}
