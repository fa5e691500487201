//! [`Source`]: what the console shows and steers: a process, or a store with durable runs.
//!
//! The server knows sources only through this trait. It redacts what they return, limits how often
//! they are asked, and decides whether an action is allowed at all.

use crate::action::{Action, Outcome, Plan};
use crate::failure::Failure;
use crate::problem::Problem;
use crate::redact::Place;
use crate::view::{ValueAt, View};
use serde::Serialize;
use serde_json::Value;
use std::future::Future;
use std::pin::Pin;

/// The answer of a source, when it comes.
pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

/// A process or a store.
pub(crate) trait Source: Send + Sync + 'static {
    /// The key by which views and actions name this source: `p0`, `s0`.
    fn key(&self) -> &str;

    /// What is known about the source now, without waiting: an entry of `processes` or `stores` of
    /// `GET /api/console`.
    fn describe(&self) -> Value;

    /// Answers a view. Values of the program are JSON text inside strings.
    ///
    /// The future may be dropped at any time: when a browser leaves, or asks for another view.
    fn view<'a>(&'a self, view: &'a View) -> Answer<'a, Value>;

    /// Returns a whole state, question, or part of one, as JSON text of any length: for downloads,
    /// and to give a redacted value back to an edited state. Only stores have values.
    fn text<'a>(&'a self, at: &'a ValueAt) -> Answer<'a, Part> {
        let text = format!("{} has no values", self.key());
        let _ = at;
        Box::pin(async { Err(Failure::new("not_possible", text)) })
    }

    /// Returns whether there is a run with this id, from a look that may be some seconds old. Only
    /// stores have runs.
    fn has_run<'a>(&'a self, run: &'a str) -> Answer<'a, bool> {
        let _ = run;
        Box::pin(async { Ok(false) })
    }

    /// Examines the source for the home page. An error becomes a problem of the kind `unreachable`.
    fn examine(&self) -> Answer<'_, Findings>;

    /// Says what an action would do. Changes nothing.
    fn plan<'a>(&'a self, action: &'a Action) -> Answer<'a, Plan>;

    /// Carries out an action. Fails with the code `changed` if the guard of its plan does not hold
    /// any more.
    fn carry_out<'a>(&'a self, action: &'a Action, guard: &'a str) -> Answer<'a, Outcome>;
}

/// A value of a store, or a part of one.
#[derive(Debug)]
pub(crate) struct Part {
    /// The JSON text. It is not redacted.
    pub(crate) text: String,
    /// Where it stands in the whole value.
    pub(crate) place: Place,
}

/// What an examination found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) problems: Vec<Problem>,
    /// What was examined and found well.
    pub(crate) quiet: Vec<Quiet>,
    /// Whether there are more problems than listed.
    pub(crate) is_cut: bool,
}

/// Something that was examined and found well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Quiet {
    /// The key of the process or store.
    pub(crate) source: String,
    pub(crate) text: String,
}
