//! What an observer can learn of, and order, a member without its type.

use crate::events::counts::Counts;
use crate::events::health_report::HealthReports;
use crate::events::health_report::{HealthReport, Problem};
use crate::ids::path::ActorPath;
use crate::inspect::info::{Activity, MemberInfo, RestartInfo};
use crate::tree::any_ref::AnyRef;
use crate::tree::facts::MemberKind;
use core::fmt;

impl AnyRef {
    /// Returns everything that a snapshot shows of this member. Sends it nothing.
    ///
    /// ```
    /// use pleach::prelude::*;
    /// use pleach::BoxError;
    /// use pleach::inspect::Activity;
    /// use pleach::runtime::Dispatcher;
    /// use pleach::system::System;
    ///
    /// let sim = Dispatcher::seeded(1);
    /// let system = System::builder("shop", sim.runtime()).build().unwrap();
    /// let till = system.spawn("till", Props::from_fn(|| (), |_, _: u32| Ok::<(), BoxError>(()))).unwrap();
    /// till.tell(5).unwrap();
    /// assert_eq!(till.any().queued(), 1);
    /// sim.drain_ready();
    /// let info = till.any().info();
    /// assert_eq!((info.activity, info.actor.unwrap().counts.handled), (Activity::Idle, 1));
    /// ```
    pub fn info(&self) -> MemberInfo {
        MemberInfo::of(&self.member, 0, self.member.node().runtime().now())
    }

    /// Returns the kind of the member.
    pub fn kind(&self) -> MemberKind {
        self.member.facts().kind
    }

    /// Returns what the member is doing now.
    pub fn activity(&self) -> Activity {
        self.info().activity
    }

    /// Returns how many messages are queued. 0 for a member without a mailbox.
    pub fn queued(&self) -> usize {
        self.member.facts().actor.map_or(0, |actor| actor.queued)
    }

    /// Returns the message counts of the member itself. Zero for a member without a mailbox.
    pub fn counts(&self) -> Counts {
        self.member.counts()
    }

    /// Returns its restarts within the limit of its supervisor. `None` for a member that is never
    /// restarted.
    pub fn restarts(&self) -> Option<RestartInfo> {
        self.info().restarts
    }

    /// Restarts the member: an actor after its current message, a supervisor with all its children.
    /// Does not count as a failure.
    ///
    /// # Errors
    /// [`ActionError`] for a member that cannot restart: a task, a scope, a group.
    pub fn restart(&self) -> Result<(), ActionError> {
        let did = self.member.request_restart(&self.member);
        self.done(did, "restart", "only actors and supervisors have props to restart from")
    }

    /// Suspends an actor: after its current message it handles only control, until it is resumed,
    /// restarted or closed. Messages queue up meanwhile.
    ///
    /// # Errors
    /// [`ActionError`] for a member that is not an actor.
    pub fn suspend(&self) -> Result<(), ActionError> {
        self.done(self.member.request_suspend(true), "suspend", "only actors have a mailbox to wait with")
    }

    /// Resumes an actor that was suspended.
    ///
    /// # Errors
    /// [`ActionError`] for a member that is not an actor.
    pub fn resume(&self) -> Result<(), ActionError> {
        self.done(self.member.request_suspend(false), "resume", "only actors can be suspended")
    }

    /// Reports a problem of this member, which is part of the system's
    /// [health](crate::System::health) until the returned report is dropped.
    ///
    /// At most 256 reports of a system are kept; further ones are counted.
    pub fn report_health(&self, problem: Problem) -> HealthReport {
        let node = self.member.node();
        HealthReports::open(&node.tree().health_reports, node.path(), problem, node.runtime().now())
    }

    fn done(&self, did: bool, action: &'static str, why: &'static str) -> Result<(), ActionError> {
        if did { Ok(()) } else { Err(ActionError { path: self.path(), kind: self.kind(), action, why }) }
    }
}

/// The error of an order that a member of this kind cannot follow.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActionError {
    /// The member that got the order.
    pub path: ActorPath,
    /// The kind of the member that refused.
    pub kind: MemberKind,
    /// What it was ordered to do.
    pub action: &'static str,
    /// Why a member of this kind cannot do it.
    pub why: &'static str,
}

impl fmt::Display for ActionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, kind, action, why } = self;
        write!(f, "cannot {action} {path}, which is a {kind}: {why}")
    }
}

impl core::error::Error for ActionError {}
