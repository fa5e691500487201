//! The decision about a failed child: asks the strategy, applies the policy and the restart limit,
//! and reports the result.

use crate::base::catch;
use crate::base::sync::Arc;
use crate::base::time::Instant;
use crate::events::event::{DecisionScope, Event, EventKinds, GaveUp, SIBLINGS_LISTED_MAX};
use crate::events::failure::{EscalationStage, FailureInfo};
use crate::events::give_ups::GiveUp;
use crate::events::signal::Signal;
use crate::supervise::decide;
use crate::supervise::decide::{Reach, RestartLimitScope, RestartPolicy, RestartRules, SupervisorDirective};
use crate::tree::any_ref::AnyRef;
use crate::tree::member::Member;
use crate::tree::node::Node;
use crate::tree::supervision::restart_together;
use crate::tree::supervision::state::{ChildAction, FailedMemberKind, Supervision};
use crate::tree::supervision::strategy::{StrategyInfo, SupervisorStrategy};
use alloc::vec::Vec;
use core::time::Duration;

/// Decides about a failure of `child` by its parent's strategy. Returns the action, and the failure
/// with its restart count and window.
pub(crate) fn judge(child: &Node, failed: FailedMemberKind, failure: FailureInfo) -> (ChildAction, FailureInfo) {
    let Some(parent) = child.parent() else { return (ChildAction::Stop, failure) };
    let supervisor = parent.node();
    let (awaited, own) =
        supervisor.with_supervision(|supervision| (supervision.awaits_halt_of(child.id()), supervision.strategy.clone()));
    if awaited {
        // The child already had to halt by a restart plan. Its failure on the way changes nothing.
        parent.notify(Signal::Failure(failure.clone()));
        let is_temporary = child.policy() == RestartPolicy::Temporary;
        return (if is_temporary { ChildAction::Stop } else { ChildAction::Wait(Duration::ZERO) }, failure);
    }
    // A new failure carries the current time; reading the clock again would cost more.
    let now = if failure.stage() == EscalationStage::Initial { failure.at() } else { child.runtime().now() };
    let (rules, ordered, failure) = match own.or_else(|| supervisor.tree().strategy.clone()) {
        Some(strategy) => consult(&*strategy, child, supervisor, now, failure),
        None => {
            let (rules, ordered) = default_order(supervisor, failure.stage() != EscalationStage::Initial);
            (rules, ordered, failure)
        }
    };
    let ordered = resumable(ordered, failed);
    let (decision, gives_up) = supervisor.with_supervision(|supervision| supervision.decide(ordered, child, &rules, now));
    let mut failure = failure.with_restarts(decision.restarts, rules.window);
    let mut directive = decision.directive;
    if decision.exceeded {
        let left = siblings_left(parent, child, &rules);
        if gives_up {
            report_gave_up(supervisor, child, &failure, left);
        }
        directive = decide::after_limit(rules.limit_scope, left, parent.survives_child_failures());
    }
    let restarts = directive == SupervisorDirective::Restart;
    let wait = if restarts { restart_delay(parent.node(), child, &rules, now) } else { Duration::ZERO };
    let limit = (rules.restarts_max <= decide::RESTART_LIMIT_MAX).then_some(rules.restarts_max);
    failure.set_decision(limit, restarts.then_some(wait));
    child.events().emit(EventKinds::DECISIONS, || {
        let scope = scope_of(parent, child, &rules, directive);
        Event::Decided { failure: failure.clone(), directive, scope }
    });
    if parent.wants_signals() {
        parent.notify(Signal::Failure(failure.clone()));
    }
    let action = match directive {
        SupervisorDirective::Resume => ChildAction::Resume,
        SupervisorDirective::Stop => ChildAction::Stop,
        SupervisorDirective::Escalate => ChildAction::Escalate { exceeded: decision.exceeded },
        SupervisorDirective::Restart => restart(parent, child, failed, &rules, wait),
    };
    (action, failure)
}

/// Returns the rules and the directive of a parent without a strategy, for a failure of a child.
fn default_order(parent: &Node, is_escalated: bool) -> (RestartRules, SupervisorDirective) {
    // An escalated failure was already handled below. Without a strategy of the system it is not
    // restarted at the top.
    if is_escalated && parent.is_guardian() {
        return (RestartRules::default(), SupervisorDirective::Escalate);
    }
    (default_rules(parent), SupervisorDirective::Restart)
}

/// Returns the directive for a child of this kind: without a state it restarts instead.
fn resumable(ordered: SupervisorDirective, failed: FailedMemberKind) -> SupervisorDirective {
    match (ordered, failed) {
        (SupervisorDirective::Resume, FailedMemberKind::Stateless) => SupervisorDirective::Restart,
        (ordered, _) => ordered,
    }
}

/// Returns what [`judge`] would decide about a failure of `child` now, without any effect: the
/// directive, and whether the restart limit is exceeded. `None` as the directive if the strategy
/// decides about each failure; the limit is then that of a restart.
pub(crate) fn predict(
    parent: &Arc<dyn Member>,
    child: &Node,
    failed: FailedMemberKind,
    now: Instant,
) -> (Option<SupervisorDirective>, bool) {
    let supervisor = parent.node();
    let (rules, always) = match strategy_of(supervisor) {
        Some(_) => (rules_of(supervisor), strategy_info(supervisor).always),
        None => {
            // A supervisor fails only by a failure of a child.
            let (rules, ordered) = default_order(supervisor, failed == FailedMemberKind::Supervisor);
            (rules, Some(ordered))
        }
    };
    let ordered = always.map(|always| resumable(always, failed));
    let used = |supervision: &mut Supervision| supervision.restarts_of(child.id(), &rules, now);
    let restarts = supervisor.existing_supervision(used).unwrap_or(0);
    let decision = decide::decide_at(ordered.unwrap_or(SupervisorDirective::Restart), child.policy(), &rules, restarts);
    if !decision.exceeded {
        return (ordered.map(|_| decision.directive), false);
    }
    let left = supervisor.left_without(child.id());
    let directive = decide::after_limit(rules.limit_scope, left, parent.survives_child_failures());
    (ordered.map(|_| directive), true)
}

/// Returns the restart rules of a parent without a strategy. The members at the top of a system are
/// independent, so their restarts count separately.
fn default_rules(parent: &Node) -> RestartRules {
    let own = parent.existing_supervision(|supervision| supervision.default_limit_scope).unwrap_or_default();
    RestartRules {
        limit_scope: if parent.is_guardian() { RestartLimitScope::PerChild } else { own },
        ..RestartRules::default()
    }
}

/// Returns the restart rules that apply to the children of `parent`, for observers. A strategy that
/// panics has the default rules.
pub(crate) fn rules_of(parent: &Node) -> RestartRules {
    match strategy_of(parent) {
        Some(strategy) => catch::catch(|| strategy.restarts()).unwrap_or_default(),
        None => default_rules(parent),
    }
}

/// Returns how many siblings of `child` continue although it has exceeded its limit.
fn siblings_left(parent: &Arc<dyn Member>, child: &Node, rules: &RestartRules) -> usize {
    let siblings_continue = rules.limit_scope == RestartLimitScope::PerChild || parent.survives_child_failures();
    if siblings_continue { parent.node().give_up_on(child.id()) } else { 0 }
}

/// Returns the strategy, and the siblings of `child` that stop or restart with it if this is
/// decided. For an escalation these end unless an ancestor restarts them.
pub(crate) fn scope_of(
    parent: &Arc<dyn Member>,
    child: &Node,
    rules: &RestartRules,
    directive: SupervisorDirective,
) -> DecisionScope {
    let is_affected = |sibling: &Arc<dyn Member>| match directive {
        _ if sibling.node().id() == child.id() => false,
        SupervisorDirective::Restart if rules.reach == Reach::Rest => sibling.node().id() > child.id(),
        SupervisorDirective::Restart => rules.reach == Reach::All,
        SupervisorDirective::Escalate => !parent.survives_child_failures(),
        _ => false,
    };
    let affects_siblings = match directive {
        SupervisorDirective::Restart => rules.reach != Reach::One,
        SupervisorDirective::Escalate => !parent.survives_child_failures(),
        _ => false,
    };
    // The list of children is copied, so it is read only if some of them are affected.
    let children = if affects_siblings { parent.node().children() } else { Vec::new() };
    let mut affected = children.iter().filter(|sibling| is_affected(sibling));
    let siblings = affected.by_ref().take(SIBLINGS_LISTED_MAX).map(|sibling| sibling.node().path()).collect();
    let siblings_left_out = affected.count();
    DecisionScope { strategy: strategy_info(parent.node()).name, siblings, siblings_left_out }
}

/// Returns what observers show of the strategy for the children of `parent`.
pub(crate) fn strategy_info(parent: &Node) -> StrategyInfo {
    match strategy_of(parent) {
        Some(strategy) => catch::catch(|| strategy.info()).unwrap_or(StrategyInfo::new("unknown")),
        None => StrategyInfo::always("default", SupervisorDirective::Restart),
    }
}

fn report_gave_up(parent: &Node, child: &Node, failure: &FailureInfo, left: usize) {
    let (supervisor, stopped) = (parent.path(), if left > 0 { 1 } else { parent.children_count() });
    let (restarts, window, incarnation) = (failure.restarts(), failure.window(), failure.incarnation());
    let gave_up = GaveUp { supervisor, child: child.path(), restarts, window, stopped, left, failure: failure.clone() };
    child.tree().give_ups.record(GiveUp {
        at: child.runtime().now(),
        gave_up: gave_up.clone(),
        child: child.number(),
        incarnation,
    });
    child.events().emit(EventKinds::GAVE_UP, || Event::GaveUp(gave_up));
}

/// Returns the wait before the restart of `child`, by the backoff of its supervisor.
fn restart_delay(parent: &Node, child: &Node, rules: &RestartRules, now: Instant) -> Duration {
    rules.backoff.map_or(Duration::ZERO, |backoff| {
        let random = child.runtime().random();
        parent.with_supervision(|supervision| backoff.next(supervision.streaks.entry(child.id()).or_default(), now, random))
    })
}

/// Prepares the restart of `child` after `wait`, and of all siblings that restart with it.
fn restart(
    parent: &Arc<dyn Member>,
    child: &Node,
    failed: FailedMemberKind,
    rules: &RestartRules,
    wait: Duration,
) -> ChildAction {
    if rules.reach == Reach::One {
        return ChildAction::Restart(wait);
    }
    let mut restarted = parent.node().children();
    restarted.retain(|other| rules.reach == Reach::All || other.node().id() >= child.id());
    if failed == FailedMemberKind::Supervisor {
        // A supervisor has no task that could wait, so the plan waits.
        restart_together::begin(parent, restarted, None, wait);
    } else {
        restart_together::begin(parent, restarted, Some(child.id()), Duration::ZERO);
    }
    ChildAction::Wait(wait)
}

/// Returns the strategy of a parent: its own, else the system's default.
pub(crate) fn strategy_of(parent: &Node) -> Option<Arc<dyn SupervisorStrategy>> {
    parent.existing_supervision(|supervision| supervision.strategy.clone()).flatten().or_else(|| parent.tree().strategy.clone())
}

/// Asks the strategy, which sees the restart count. If it panics, the failure escalates and the
/// panic is reported as another failure.
fn consult(
    strategy: &dyn SupervisorStrategy,
    child: &Node,
    supervisor: &Node,
    now: Instant,
    mut failure: FailureInfo,
) -> (RestartRules, SupervisorDirective, FailureInfo) {
    let answer = catch::catch(|| {
        let rules = strategy.restarts();
        let restarts = supervisor.with_supervision(|supervision| {
            decide::count_recent(&rules, supervision.recent(child.id(), rules.limit_scope), now)
        });
        failure.set_restarts(restarts, rules.window);
        (rules, strategy.decide(&failure))
    });
    let (rules, ordered) = answer.unwrap_or_else(|reason| {
        child.report_failure(reason);
        (RestartRules::default(), SupervisorDirective::Escalate)
    });
    (rules, ordered, failure)
}

/// Calls a hook of the parent's strategy about `child`, if a strategy is set.
pub(crate) fn call_hook(child: &Arc<dyn Member>, hook: impl FnOnce(&dyn SupervisorStrategy, &AnyRef)) {
    let Some(strategy) = child.node().parent().and_then(|parent| strategy_of(parent.node())) else { return };
    let child_ref = AnyRef { member: Arc::clone(child) };
    if let Err(reason) = catch::catch(|| hook(&*strategy, &child_ref)) {
        child.node().report_failure(reason);
    }
}
