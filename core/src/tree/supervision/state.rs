//! [`Supervision`]: the supervision state of one parent, kept in its child table.
//!
//! All methods run under the lock of the parent's node and call no user code.

use crate::base::sorted::{SortedMap, reserve};
use crate::base::sync::Arc;
use crate::base::time::Instant;
use crate::ids::path::ActorId;
use crate::supervise::backoff::FailureStreak;
use crate::supervise::decide;
use crate::supervise::decide::{RestartLimitScope, RestartRules, SupervisorDirective};
use crate::supervise::restart_plan::{ChildReport, RestartPlan};
use crate::tree::member::Member;
use crate::tree::node::Node;
use crate::tree::supervision::sink::EscalationSink;
use crate::tree::supervision::strategy::SupervisorStrategy;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::time::Duration;

/// The strategy of one parent, its restart history, and its restart plan.
#[derive(Default)]
pub(crate) struct Supervision {
    /// `None` means the default strategy of the system.
    pub(crate) strategy: Option<Arc<dyn SupervisorStrategy>>,
    /// `None` means that the sink is inherited.
    pub(crate) sink: Option<Arc<dyn EscalationSink>>,
    /// The children that are restarting together, if any.
    pub(crate) restart_plan: Option<Box<ChildrenPlan>>,
    /// Whose restarts count together if no strategy is set.
    pub(crate) default_limit_scope: RestartLimitScope,
    /// The restarts within the window, for [`RestartLimitScope::Shared`].
    pub(super) recent: VecDeque<Instant>,
    /// The same for each child, for [`RestartLimitScope::PerChild`].
    pub(super) recent_by_child: SortedMap<ActorId, VecDeque<Instant>>,
    pub(super) streaks: SortedMap<ActorId, FailureStreak>,
    /// It has reported that it gave up on all its children, and restarted none since.
    gave_up: bool,
    /// Set by a pool: how many workers it should have.
    pub(crate) pool_size: Option<usize>,
    /// Set by a pool: fills its vacant worker slots after a restart.
    pub(crate) refill: Option<Arc<dyn Fn() + Send + Sync>>,
    /// The pool was restarted, and `refill` has not run yet.
    is_refill_due: bool,
}

/// The restart plan of the children of one parent.
pub(crate) type ChildrenPlan = RestartPlan<Arc<dyn Member>>;

/// What a failed child does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildAction {
    /// It continues with its state.
    Resume,
    /// It restarts after this wait.
    Restart(Duration),
    /// It ends its incarnation, waits this long, reports that it has halted, and starts when its
    /// parent's restart plan orders it.
    Wait(Duration),
    /// It ends.
    Stop,
    /// The failure escalates. `exceeded`: because the restart limit was exceeded.
    Escalate { exceeded: bool },
}

/// The kind of a failed child.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailedMemberKind {
    /// An actor with a state that can be resumed.
    Actor,
    /// An actor without a state, or one that did not start: it cannot be resumed.
    Stateless,
    /// A supervisor: it has no task, so it gets an order to halt.
    Supervisor,
}

impl Supervision {
    /// Clears the restart history, for the next incarnation of the parent.
    pub(crate) fn forget_restarts(&mut self) {
        self.recent.clear();
        self.recent_by_child.clear();
        self.streaks.clear();
        self.gave_up = false;
        self.is_refill_due = self.refill.is_some();
    }

    /// Returns the refill function of a pool, if the restarted pool has not run it yet.
    pub(super) fn take_refill(&mut self) -> Option<Arc<dyn Fn() + Send + Sync>> {
        if core::mem::take(&mut self.is_refill_due) { self.refill.clone() } else { None }
    }

    /// Returns whether exits of children must be recorded here.
    #[inline]
    pub(crate) fn tracks_exits(&self) -> bool {
        !self.streaks.is_empty() || self.restart_plan.is_some()
    }

    /// Records that `child` is gone. Returns true if a restart plan exists and may continue.
    pub(crate) fn note_gone(&mut self, child: ActorId) -> bool {
        if !self.streaks.is_empty() {
            self.streaks.remove(&child);
        }
        if !self.recent_by_child.is_empty() {
            self.recent_by_child.remove(&child);
        }
        self.restart_plan.as_mut().map(|plan| plan.note(child, ChildReport::Gone)).is_some()
    }

    /// Returns whether it gave up on all its children, and restarted none since.
    pub(crate) fn has_given_up(&self) -> bool {
        self.gave_up
    }

    /// Returns how many restarts count for `child` at `now`, without any effect.
    pub(crate) fn restarts_of(&self, child: ActorId, rules: &RestartRules, now: Instant) -> u32 {
        let recent = match rules.limit_scope {
            RestartLimitScope::Shared => Some(&self.recent),
            RestartLimitScope::PerChild => self.recent_by_child.get(&child),
        };
        // Newest last, so the search ends at the first one outside of the window.
        recent.map_or(0, |recent| recent.iter().rev().take_while(|at| now.since(**at) <= rules.window).count() as u32)
    }

    /// Reserves room for the streaks of all children.
    pub(crate) fn reserve_streaks(&mut self, children: usize) {
        reserve(&mut self.streaks, children);
        reserve(&mut self.recent_by_child, children);
    }

    /// Reserves room for the restarts of one child, or of all together.
    pub(crate) fn reserve_recent(&mut self, child: Option<ActorId>, restarts: usize) {
        let recent = match child {
            Some(child) => self.recent_by_child.entry(child).or_default(),
            None => &mut self.recent,
        };
        recent.reserve(restarts.saturating_sub(recent.len()));
    }

    /// Returns the restarts that count for `child`.
    pub(super) fn recent(&mut self, child: ActorId, limit_scope: RestartLimitScope) -> &mut VecDeque<Instant> {
        match limit_scope {
            RestartLimitScope::Shared => &mut self.recent,
            RestartLimitScope::PerChild => self.recent_by_child.entry(child).or_default(),
        }
    }

    /// Decides about a failure of `child` at `now`. Returns true if the limit is exceeded and that
    /// was not reported yet.
    pub(super) fn decide(
        &mut self,
        directive: SupervisorDirective,
        child: &Node,
        rules: &RestartRules,
        now: Instant,
    ) -> (decide::Decision, bool) {
        let decision = decide::decide(directive, child.policy(), rules, self.recent(child.id(), rules.limit_scope), now);
        // If many children exceed a shared limit, one report is enough.
        let already_reported =
            rules.limit_scope == RestartLimitScope::Shared && core::mem::replace(&mut self.gave_up, decision.exceeded);
        (decision, decision.exceeded && !already_reported)
    }

    pub(super) fn awaits_halt_of(&self, child: ActorId) -> bool {
        self.restart_plan.as_ref().is_some_and(|plan| plan.awaits_halt_of(child))
    }

    /// Returns whether all its children have halted, and wait for its parent to start it.
    pub(crate) fn has_halted(&self) -> bool {
        self.restart_plan.as_ref().is_some_and(|plan| plan.all_halted() == Some(true))
    }

    /// Returns whether its parent ordered it to halt and has not started it yet.
    pub(super) fn is_halted_by_parent(&self) -> bool {
        self.restart_plan.as_ref().is_some_and(|plan| plan.all_halted().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn s1_gone_child_leaves_no_supervision_state() {
        let mut supervision = Supervision::default();
        for id in [ActorId::new(0, 1), ActorId::new(0, 2)] {
            supervision.streaks.insert(id, FailureStreak::default());
        }
        assert!(!supervision.note_gone(ActorId::new(0, 1)), "no restart plan exists");
        assert_eq!(supervision.streaks.keys().copied().collect::<Vec<_>>(), [ActorId::new(0, 2)]);
    }
}
