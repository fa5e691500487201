//! [`HealthWatch`]: tells a client that follows the kind `health` what changes.
//!
//! The health is looked at every [`LOOK_EVERY`] while a client follows it. All connections share a
//! look, so many followers cost no more than one.

use crate::inspect::serve::Inspected;
use crate::inspect::why::reason_path;
use crate::inspect::{Health, HealthReason};
use pleach_core::{ActorPath, Instant};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often a connection that follows the health looks at it.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The last look at the health, shared by all connections.
#[derive(Default)]
pub(super) struct LastLook(Mutex<Option<(Instant, Arc<Health>)>>);

impl Inspected {
    /// Returns the health, from a look that is at most half of [`LOOK_EVERY`] old.
    fn recent_health(&self) -> Arc<Health> {
        let now = self.runtime.now();
        let last = || self.last_look.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last().clone().filter(|(at, _)| now.since(*at) < LOOK_EVERY / 2);
        if let Some((_, health)) = known {
            return health;
        }
        let health = Arc::new(self.root.health());
        *last() = Some((now, Arc::clone(&health)));
        health
    }
}

/// What one client knows of the health.
pub(super) struct HealthWatch {
    status: &'static str,
    /// The open problems, with the text that the client got.
    open: BTreeMap<Problem, String>,
}

/// What makes two reasons the same problem: kind, member, and the key of a report.
type Problem = (&'static str, Option<ActorPath>, String);

/// A change of the health: its kind, its member, and a sentence.
pub(super) type Change = (&'static str, Option<ActorPath>, String);

impl HealthWatch {
    /// The first look reports the status, and the problems that exist already.
    pub(super) fn new() -> Self {
        Self { status: "", open: BTreeMap::new() }
    }

    /// Looks at the health, and returns what has changed since the last look.
    pub(super) fn look(&mut self, inspected: &Inspected) -> Vec<Change> {
        self.compare(&inspected.recent_health())
    }

    fn compare(&mut self, health: &Health) -> Vec<Change> {
        let mut changes = Vec::new();
        let status = match health {
            Health::Healthy => "healthy",
            Health::Down => "down",
            _ => "degraded",
        };
        if std::mem::replace(&mut self.status, status) != status {
            let ready = if health.is_ready() { "ready" } else { "not ready" };
            changes.push(("health", None, format!("the system is {status} and {ready}")));
        }
        let mut open = BTreeMap::new();
        for reason in health.reasons() {
            let problem = problem(reason);
            let text = self.open.remove(&problem).unwrap_or_else(|| {
                let text = reason.to_string();
                changes.push(("problem", problem.1.clone(), text.clone()));
                text
            });
            open.insert(problem, text);
        }
        let over = std::mem::replace(&mut self.open, open);
        changes.extend(over.into_iter().map(|((_, path, _), text)| ("problem_over", path, format!("over: {text}"))));
        changes
    }
}

fn problem(reason: &HealthReason) -> Problem {
    let path = reason_path(reason).cloned();
    let (kind, key) = match reason {
        HealthReason::GaveUp { child, .. } => ("gave_up", child.to_string()),
        HealthReason::PoolShort { .. } => ("pool_short", String::new()),
        HealthReason::MailboxFull { .. } => ("mailbox_full", String::new()),
        HealthReason::HandlerStuck { .. } => ("handler_stuck", String::new()),
        HealthReason::UnhandledFailures { .. } => ("unhandled_failures", String::new()),
        HealthReason::Reported { key, .. } => ("reported", key.clone()),
        HealthReason::LimitReached { text, .. } => ("limit_reached", text.clone()),
        _ => ("more", String::new()),
    };
    (kind, path, key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(workers: u64) -> Health {
        Health::Degraded(vec![HealthReason::PoolShort { path: "/user/pool".parse().unwrap(), workers, size: 4 }])
    }

    fn kinds(changes: &[Change]) -> Vec<&'static str> {
        changes.iter().map(|change| change.0).collect()
    }

    #[test]
    fn o2_followed_problem_is_reported_at_both_ends() {
        let mut watch = HealthWatch::new();
        assert_eq!(kinds(&watch.compare(&Health::Healthy)), ["health"], "the first look");
        assert!(watch.compare(&Health::Healthy).is_empty());
        assert_eq!(kinds(&watch.compare(&short(3))), ["health", "problem"]);
        assert!(watch.compare(&short(2)).is_empty(), "the same problem, with other numbers");
        let changes = watch.compare(&Health::Healthy);
        assert_eq!(kinds(&changes), ["health", "problem_over"]);
        assert!(changes[1].2.starts_with("over: pool /user/pool has 3 of 4 workers"), "{changes:?}");
    }
}
