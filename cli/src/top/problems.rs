//! [`Problems`]: only what is not well: the reasons of the health, then members that call for a
//! look.

use super::rows::{RowKey, Selection};
use pleach::actor::ActorPath;
use pleach::inspect::{Activity, Health, HealthReason, MemberInfo};

#[derive(Debug, Default)]
pub struct Problems {
    /// First the reasons of the health.
    pub rows: Vec<Problem>,
    reasons: usize,
    pub selection: Selection,
}

/// A reason of the health, or a member that is not well.
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
        self.rows.splice(..self.reasons, health.reasons().iter().map(Problem::of));
        self.reasons = health.reasons().len();
        self.settle();
    }

    /// Takes the members that call for a look. One that a reason names is not shown twice.
    pub fn not_well(&mut self, members: Vec<MemberInfo>) {
        self.rows.truncate(self.reasons);
        let is_named = |member: &MemberInfo| self.rows.iter().any(|reason| reason.path.as_ref() == Some(&member.path));
        // A process that does not know the filter sends others too.
        let shown: Vec<_> =
            members.iter().filter(|member| !member.is_well() && !is_named(member)).map(Problem::of_member).collect();
        self.rows.extend(shown);
        self.settle();
    }

    fn settle(&mut self) {
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
    fn of_member(member: &MemberInfo) -> Self {
        let kind = match member.activity {
            _ if member.is_full() => "full",
            Activity::Suspended => "suspended",
            Activity::Restarting | Activity::WaitingToRestart { .. } => "restarting",
            Activity::Stopping => "stopping",
            Activity::Handling { .. } if member.last_failure.is_none() => "slow",
            _ => "failed",
        };
        Self { kind, path: Some(member.path.clone()), text: member.to_string() }
    }

    fn of(reason: &HealthReason) -> Self {
        let (kind, path) = match reason {
            HealthReason::GaveUp { supervisor, .. } => ("gave up", Some(supervisor)),
            HealthReason::PoolShort { path, .. } => ("pool short", Some(path)),
            HealthReason::MailboxFull { path, .. } => ("mailbox full", Some(path)),
            HealthReason::LimitReached { path, .. } => ("no room", Some(path)),
            HealthReason::HandlerStuck { path, .. } => ("stuck", Some(path)),
            HealthReason::UnhandledFailures { origin, .. } => ("unhandled", Some(origin)),
            HealthReason::Reported { source, .. } => ("reported", Some(source)),
            HealthReason::More { .. } => ("more", None),
            _ => ("other", None),
        };
        Self { kind, path: path.cloned(), text: reason.to_string() }
    }
}
