//! [`Problem`]: something that is wrong now, or waits for a person, with its cause and what to do.
//! The home page lists the problems of all sources.

use crate::view::View;
use serde::Serialize;

/// Something that is wrong now, or waits for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    /// The same for the same problem at the next look.
    pub(crate) key: String,
    pub(crate) severity: Severity,
    /// The kind, such as `gave_up`, `run_failed`, `waits_for_person` or `unreachable`.
    pub(crate) kind: String,
    /// The key of the process or store.
    pub(crate) source: String,
    /// One sentence: what is wrong.
    pub(crate) title: String,
    /// The deepest known cause.
    pub(crate) cause: Option<String>,
    /// What follows from it.
    pub(crate) so: Vec<String>,
    /// Since when, as RFC 3339.
    pub(crate) since: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) run: Option<String>,
    /// How many members or runs have it.
    pub(crate) count: u64,
    /// What a person can do, the most useful first.
    #[serde(rename = "do")]
    pub(crate) advice: Vec<Advice>,
}

/// How much a problem matters; the worst is the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    Error,
    Warning,
    /// Nothing is wrong; a person has to decide.
    Waiting,
}

/// Something that a person can do about a problem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Advice {
    pub(crate) text: String,
    /// The view where it is done.
    pub(crate) view: Option<View>,
    /// The command that does the same.
    pub(crate) command: Option<String>,
}
