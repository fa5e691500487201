//! The source of a process: what the console shows of a running system, and orders its members.
//!
//! It speaks the inspection protocol, over the socket of another process or over memory with a
//! system in this one. So both have the same views.
//!
//! | file | owns |
//! |---|---|
//! | `target` | how the process is reached |
//! | `link` | connections to ask with: opened when somebody asks, closed when nobody does |
//! | `tree` | the views that list members: `tree`, `top`, `not_well` |
//! | `member` | the view of one member |
//! | `ledger` | where the accepted messages of a subtree are |
//! | `samples` | the view of the last minutes of one member |
//! | `history` | what was heard of the process while somebody watched |
//! | `story` | the views of what happened: `story`, `failures` |
//! | `examine`, `reasons` | what is wrong now, for the home page |
//! | `test_text` | a test in Rust that repeats a failure |
//! | `steer` | what actions on members would do, and doing them |
//!
//! Invariants:
//! 1. A view or examination only reads, and sends no actor a message.
//! 2. Nothing is connected, sampled or kept while nobody looks.
//! 3. Everything that is kept is bounded, and says what it had to drop.

mod examine;
mod history;
mod ledger;
mod link;
mod member;
mod reasons;
mod samples;
mod steer;
mod story;
mod target;
mod test_text;
#[cfg(test)]
mod tests;
mod tree;

use crate::action::{Action, Outcome, Plan};
use crate::failure::Failure;
use crate::process::examine::Memory;
use crate::process::history::History;
use crate::process::ledger::Ledgers;
use crate::process::link::Link;
use crate::process::samples::Samples;
use crate::process::target::Target;
use crate::source::{Answer, Findings, Source};
use crate::view::View;
use pleach::actor::ActorPath;
use pleach::inspect::Inspector;
#[cfg(test)]
use pleach::inspect::{InspectAction, InspectOptions};
#[cfg(test)]
use pleach::system::System;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// A process, as the server knows it.
pub(crate) struct ProcessSource {
    key: String,
    link: Arc<Link>,
    history: Arc<History>,
    ledgers: Ledgers,
    samples: Samples,
    memory: Memory,
}

impl ProcessSource {
    /// Shows the process behind an inspection socket. Connects when somebody asks, and again after
    /// the process was gone.
    pub(crate) fn of_socket(key: &str, socket: impl Into<PathBuf>) -> Self {
        Self::new(key, Target::Socket(socket.into()))
    }

    /// Shows a system of this process, and allows these actions on its members. Does not keep it
    /// running.
    #[cfg(test)]
    pub(crate) fn of_system(key: &str, system: &System, actions: impl IntoIterator<Item = InspectAction>) -> Self {
        let options = InspectOptions::in_memory().allow(actions);
        Self::of_inspector(key, Inspector::new(system, options))
    }

    /// Shows the system of an inspector, which decides what is allowed.
    pub(crate) fn of_inspector(key: &str, inspector: Inspector) -> Self {
        Self::new(key, Target::System(inspector))
    }

    fn new(key: &str, target: Target) -> Self {
        let link = Link::new(target);
        let history = History::new(Arc::clone(&link));
        let (ledgers, samples, memory) = (Ledgers::default(), Samples::default(), Memory::default());
        Self { key: key.to_string(), link, history, ledgers, samples, memory }
    }
}

impl Source for ProcessSource {
    fn key(&self) -> &str {
        &self.key
    }

    fn describe(&self) -> Value {
        let known = self.link.known();
        let hello = known.hello.as_ref();
        json!({
            "key": self.key,
            "name": hello.map(|hello| hello.name.as_str()),
            "pid": hello.map(|hello| hello.pid),
            "version": hello.map(|hello| hello.version.as_str()),
            "actions": hello.map_or(&[][..], |hello| &hello.actions),
            "is_connected": known.is_connected,
            "problem": known.problem.map(|problem| problem.text),
            "target": self.link.socket(),
        })
    }

    fn view<'a>(&'a self, view: &'a View) -> Answer<'a, Value> {
        Box::pin(async move {
            match view {
                View::Tree(window) => tree::tree(&self.link, window).await,
                View::Top(top) => tree::top(&self.link, top).await,
                View::NotWell(page) => tree::not_well(&self.link, page).await,
                View::Member(at) => member::member(&self.link, &self.ledgers, at).await,
                View::Story(asked) => story::story(&self.history, asked).await,
                View::Failures(asked) => story::failures(&self.history, asked).await,
                View::Test(from) => test_text::view(&self.history, from).await,
                View::Ring(at) => samples::ring(&self.link, &self.samples, at).await,
                _ => Err(Failure::new("bad_request", "a process does not have this view")),
            }
        })
    }

    fn examine(&self) -> Answer<'_, Findings> {
        Box::pin(examine::examine(&self.key, &self.link, &self.memory))
    }

    fn plan<'a>(&'a self, action: &'a Action) -> Answer<'a, Plan> {
        Box::pin(steer::plan(&self.link, action))
    }

    fn carry_out<'a>(&'a self, action: &'a Action, guard: &'a str) -> Answer<'a, Outcome> {
        Box::pin(steer::carry_out(&self.link, action, guard))
    }
}

/// Parses a path of the page.
fn parse_path(text: &str) -> Result<ActorPath, Failure> {
    text.parse().map_err(|error| Failure::new("bad_request", format_args!("{text:?} is not the path of a member: {error}")))
}

/// Parses an optional path. Default: `default`.
fn path_or(text: Option<&String>, default: &str) -> Result<ActorPath, Failure> {
    parse_path(text.map_or(default, String::as_str))
}

/// Returns a value of the protocol as JSON.
fn to_json(value: &impl serde::Serialize) -> Result<Value, Failure> {
    serde_json::to_value(value).map_err(|error| Failure::new("internal", error))
}
