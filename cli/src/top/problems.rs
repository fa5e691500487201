//! [`Problems`]: the reasons of the health, as rows.

use super::rows::{RowKey, Selection};
use pleach::actor::ActorPath;
use pleach::inspect::{Health, HealthReason};

#[derive(Debug, Default)]
pub struct Problems {
    pub rows: Vec<Problem>,
    pub selection: Selection,
}

/// A reason of the health.
#[derive(Debug)]
pub struct Problem {
    pub kind: &'static str,
    /// Where to look.
    pub path: Option<ActorPath>,
    /// The problem with its consequence and what to do.
    pub text: String,
}

impl Problems {
    pub fn apply(&mut self, health: &Health) {
        self.rows = health.reasons().iter().map(Problem::of).collect();
        let keys = self.keys();
        self.selection.settle(&keys);
    }

    pub fn keys(&self) -> Vec<RowKey> {
        let name = |problem: &Problem| match &problem.path {
            Some(path) => format!("{} {path}", problem.kind),
            None => problem.kind.to_string(),
        };
        self.rows.iter().map(|problem| RowKey::Problem(name(problem))).collect()
    }

    pub fn selected(&self) -> Option<&Problem> {
        self.rows.get(self.selection.index)
    }
}

impl Problem {
    fn of(reason: &HealthReason) -> Self {
        let (kind, path) = match reason {
            HealthReason::GaveUp { supervisor, .. } => ("gave up", Some(supervisor)),
            HealthReason::PoolShort { path, .. } => ("pool short", Some(path)),
            HealthReason::MailboxFull { path, .. } => ("mailbox full", Some(path)),
            HealthReason::HandlerStuck { path, .. } => ("stuck", Some(path)),
            HealthReason::UnhandledFailures { origin, .. } => ("unhandled", Some(origin)),
            HealthReason::Reported { source, .. } => ("reported", Some(source)),
            HealthReason::More { .. } => ("more", None),
            _ => ("other", None),
        };
        Self { kind, path: path.cloned(), text: reason.to_string() }
    }
}
