//! [`SupervisionInfo`]: what follows a failure of a member, before it has failed.

use crate::ids::path::ActorPath;
use crate::inspect::info::{self, RestartInfo};
use crate::supervise::decide::{RestartPolicy, SupervisorDirective};
use crate::tree::any_ref::AnyRef;
use crate::tree::facts::{MemberFacts, MemberKind, Work};
use crate::tree::supervision::{FailedMemberKind, judge};
use alloc::vec::Vec;

/// What the supervisor of a member would do if the member failed now.
///
/// Read it to tell a person what an order will do: a [permanent](RestartPolicy::Permanent) member
/// that is stopped by anyone but its supervisor has failed. No strategy is asked for a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SupervisionInfo {
    /// The parent, which supervises the member.
    pub supervisor: ActorPath,
    /// Which exits of the member lead to a restart.
    pub policy: RestartPolicy,
    /// The [name](crate::StrategyInfo::name) of the strategy, or `default` without one.
    pub strategy: &'static str,
    /// What follows a failure now, with the policy and the restart limit applied. `None` if the
    /// strategy decides about each failure. A failure of a task or a scope
    /// [escalates](SupervisorDirective::Escalate) without a decision, unless it is isolated.
    pub directive: Option<SupervisorDirective>,
    /// Whether one more restart exceeds the limit, so the supervisor gives up.
    pub gives_up: bool,
    /// The restarts within the limit. `None` for a member that is never restarted.
    pub restarts: Option<RestartInfo>,
    /// The siblings that would stop or restart too, in start order: at most
    /// [`SIBLINGS_LISTED_MAX`](crate::SIBLINGS_LISTED_MAX).
    pub siblings: Vec<ActorPath>,
    /// How many further siblings are not listed.
    pub siblings_left_out: usize,
}

impl AnyRef {
    /// Returns what would follow a failure of the member now. `None` for the root of a system.
    ///
    /// ```
    /// use pleach::prelude::*;
    /// use pleach::BoxError;
    /// use pleach::runtime::Dispatcher;
    /// use pleach::supervise::SupervisorDirective;
    /// use pleach::system::System;
    ///
    /// let sim = Dispatcher::seeded(1);
    /// let system = System::builder("shop", sim.runtime()).build().unwrap();
    /// let pair = system.supervisor("pair", OneForAll::new()).unwrap();
    /// let props = || Props::from_fn(|| (), |_, _: u32| Ok::<(), BoxError>(()));
    /// let (first, _second) = (pair.spawn("first", props()).unwrap(), pair.spawn("second", props()).unwrap());
    /// let supervision = first.any().supervision().unwrap();
    /// assert_eq!(supervision.directive, Some(SupervisorDirective::Restart));
    /// assert_eq!(supervision.siblings, ["/user/pair/second"]);
    /// ```
    pub fn supervision(&self) -> Option<SupervisionInfo> {
        let node = self.member.node();
        let parent = node.parent()?;
        let (rules, strategy) = (judge::rules_of(parent.node()), judge::strategy_info(parent.node()));
        let now = node.runtime().now();
        let restarts = info::restarts(node, self.kind(), now);
        let judged = match self.member.facts() {
            MemberFacts { kind: MemberKind::Actor, work: Work::Starting, .. } => Some(FailedMemberKind::Stateless),
            MemberFacts { kind: MemberKind::Actor, .. } => Some(FailedMemberKind::Actor),
            MemberFacts { kind: MemberKind::Supervisor | MemberKind::Pool, .. } => Some(FailedMemberKind::Supervisor),
            _ => None,
        };
        let (directive, gives_up) = match judged {
            Some(failed) => judge::predict(parent, node, failed, now),
            // No strategy is asked about a task or a scope.
            None if self.member.passes_failures_up() => (Some(SupervisorDirective::Escalate), false),
            None => (Some(SupervisorDirective::Stop), false),
        };
        let assumed = directive.unwrap_or(SupervisorDirective::Restart);
        let scope = judge::scope_of(parent, node, &rules, assumed);
        Some(SupervisionInfo {
            supervisor: parent.node().path(),
            policy: node.policy(),
            strategy: strategy.name,
            directive,
            gives_up,
            restarts,
            siblings: scope.siblings,
            siblings_left_out: scope.siblings_left_out,
        })
    }
}
