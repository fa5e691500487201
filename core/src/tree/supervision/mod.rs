//! `Supervision`: the supervision state beside a parent. A child that fails gets its verdict here at once, in its own task, whatever the
//! parent's own code is doing; the parent merely hears of it as a signal.
//!
//! The state is touched under the node's lock, briefly; a strategy, a sink and every command to a child run outside it. What to decide
//! is in `supervise`, which is pure; this file asks, and acts:
//!
//! ```text
//!   a child fails ─► judge ─► Resume / Restart / Stop          the child does it
//!                      │  └─► Wait                             the child rests; advance brings its group down and up
//!                      └────► Escalate ─► escalate ─► sink     no sink: the parent has failed, and its own parent judges
//! ```

pub(crate) mod escalate;
pub(crate) mod restart_together;
pub(crate) mod strategy;
pub(crate) mod unhandled;

pub(crate) use crate::tree::supervision::restart_together::{
    advance, halt, hurry_above, report, restart_supervisor, start, waits_for,
};

use crate::base::catch;
use crate::base::time::Instant;
use crate::events::event::{Event, EventKinds, GaveUp};
use crate::events::failure::{EscalationStage, FailureInfo};
use crate::events::signal::Signal;
use crate::ids::path::ActorId;
use crate::supervise::backoff::Streak;
use crate::supervise::decide;
use crate::supervise::decide::{Reach, RestartBudget, RestartPolicy, Restarts, SupervisorDirective};
use crate::supervise::restart_plan::{Report, RestartPlan};
use crate::tree::any_ref::AnyRef;
use crate::tree::member::Member;
use crate::tree::node::Node;
use crate::tree::supervision::escalate::EscalationSink;
use crate::tree::supervision::strategy::SupervisorStrategy;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

/// The strategy of one parent, the restarts it has counted, and the children that are restarting together.
#[derive(Default)]
pub(crate) struct Supervision {
    /// The system's default where there is none.
    pub(crate) strategy: Option<Arc<dyn SupervisorStrategy>>,
    /// Inherited from above where there is none.
    pub(crate) sink: Option<Arc<dyn EscalationSink>>,
    pub(crate) regroup: Option<Box<Plan>>,
    /// Whose restarts count where there is no strategy.
    pub(crate) default_budget: RestartBudget,
    recent: VecDeque<Instant>,
    recent_of: BTreeMap<ActorId, VecDeque<Instant>>,
    streaks: BTreeMap<ActorId, Streak>,
    /// It has said that it gave up on all its children, and restarted none since.
    gave_up: bool,
    /// Of a pool: what puts workers into its vacant places once it was restarted.
    pub(crate) refill: Option<Arc<dyn Fn() + Send + Sync>>,
    /// It was restarted, and that is still to be done.
    is_refill_due: bool,
}

/// Children of one parent that restart together.
pub(crate) type Plan = RestartPlan<Arc<dyn Member>>;

/// What a failed child does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildAction {
    Resume,
    /// After this long.
    Restart(Duration),
    /// It ends its incarnation, waits this long, says that it has, and starts when it is told to.
    Wait(Duration),
    Stop,
    /// `exceeded`: because its supervisor has restarted too often.
    Escalate {
        exceeded: bool,
    },
}

/// What there is of a child that failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailedChild {
    /// An actor with its state.
    Actor,
    /// An actor that has no state, or one that did not start: nothing to resume.
    Stateless,
    /// A supervisor: it has no task, and is told to halt.
    Supervisor,
}

impl Supervision {
    /// Begins anew, with the next incarnation of whoever it guards for.
    pub(crate) fn forget_restarts(&mut self) {
        self.recent.clear();
        self.recent_of.clear();
        self.streaks.clear();
        self.gave_up = false;
        self.is_refill_due = self.refill.is_some();
    }

    /// What is still to be done, now that it is restarted.
    fn take_refill(&mut self) -> Option<Arc<dyn Fn() + Send + Sync>> {
        if core::mem::take(&mut self.is_refill_due) { self.refill.clone() } else { None }
    }

    /// Whether the end of a child is anything to it.
    #[inline]
    pub(crate) fn minds_ends(&self) -> bool {
        !self.streaks.is_empty() || self.regroup.is_some()
    }

    /// Notes that `child` is gone. True if others restart together and may go on.
    pub(crate) fn note_gone(&mut self, child: ActorId) -> bool {
        if !self.streaks.is_empty() {
            self.streaks.remove(&child);
        }
        if !self.recent_of.is_empty() {
            self.recent_of.remove(&child);
        }
        self.regroup.as_mut().map(|plan| plan.note(child, Report::Gone)).is_some()
    }

    /// The restarts that count for `child`.
    fn recent(&mut self, child: ActorId, budget: RestartBudget) -> &mut VecDeque<Instant> {
        match budget {
            RestartBudget::Shared => &mut self.recent,
            RestartBudget::PerChild => self.recent_of.entry(child).or_default(),
        }
    }

    /// Decides about a failure of `child` at `now`. True if the limit is exceeded and that has not been told yet.
    fn decide(
        &mut self,
        ordered: SupervisorDirective,
        child: &Node,
        rules: &Restarts,
        now: Instant,
    ) -> (decide::Decision, bool) {
        let decision = decide::decide(ordered, child.policy(), rules, self.recent(child.id(), rules.budget), now);
        // Of many children that fail past a limit they share, one is worth an error in the log.
        let told = rules.budget == RestartBudget::Shared && core::mem::replace(&mut self.gave_up, decision.exceeded);
        (decision, decision.exceeded && !told)
    }

    fn awaits_halt_of(&self, child: ActorId) -> bool {
        self.regroup.as_ref().is_some_and(|plan| plan.awaits_halt_of(child))
    }

    /// Whether its children are down until its parent has it start.
    pub(crate) fn rests(&self) -> bool {
        self.regroup.as_ref().is_some_and(|plan| plan.rests() == Some(true))
    }

    /// Whether its parent has ordered it to halt, and not to start yet.
    fn is_halted_from_above(&self) -> bool {
        self.regroup.as_ref().is_some_and(|plan| plan.rests().is_some())
    }
}

/// Judges a failure of `child` by its parent's strategy. The record comes back with the figures it was judged by.
pub(crate) fn judge(child: &Node, fallen: FailedChild, failure: FailureInfo) -> (ChildAction, FailureInfo) {
    let Some(parent) = child.parent() else { return (ChildAction::Stop, failure) };
    let above = parent.node();
    let (awaited, own) = above.with_supervision(|guardian| (guardian.awaits_halt_of(child.id()), guardian.strategy.clone()));
    if awaited {
        // It was about to be halted; that it failed on its way changes nothing.
        parent.notify(Signal::Failure(failure.clone()));
        let for_good = child.policy() == RestartPolicy::Temporary;
        return (if for_good { ChildAction::Stop } else { ChildAction::Wait(Duration::ZERO) }, failure);
    }
    // A failure that has just been recorded here has the time, and a clock is not free to read.
    let now = if failure.stage() == EscalationStage::Initial { failure.at() } else { child.runtime().now() };
    let (rules, ordered, failure) = match own.or_else(|| above.tree().strategy.clone()) {
        Some(strategy) => consult(&*strategy, child, above, now, failure),
        // What was handed up to the top has been tried below: it stays stopped, unless the system has a strategy that says otherwise.
        None if failure.stage() != EscalationStage::Initial && above.is_guardian() => {
            (Restarts::default(), SupervisorDirective::Escalate, failure)
        }
        None => (default_rules(above), SupervisorDirective::Restart, failure),
    };
    let ordered = match (ordered, fallen) {
        (SupervisorDirective::Resume, FailedChild::Stateless) => SupervisorDirective::Restart,
        (ordered, _) => ordered,
    };
    let (decision, gives_up) = above.with_supervision(|guardian| guardian.decide(ordered, child, &rules, now));
    let failure = failure.with_restarts(decision.restarts, rules.window);
    let mut directive = decision.directive;
    if decision.exceeded {
        let left = siblings_left(parent, child, &rules);
        if gives_up {
            tell_that_it_gave_up(above, child, &failure, left);
        }
        // At the top the failure goes to the root in any case, and nobody but the child ends.
        if rules.budget == RestartBudget::PerChild && left > 0 && !parent.survives_child_failures() {
            directive = SupervisorDirective::Stop;
        }
    }
    child.events().emit(EventKinds::DECISIONS, || Event::Decided { failure: failure.clone(), directive });
    if parent.wants_signals() {
        parent.notify(Signal::Failure(failure.clone()));
    }
    let verdict = match directive {
        SupervisorDirective::Resume => ChildAction::Resume,
        SupervisorDirective::Stop => ChildAction::Stop,
        SupervisorDirective::Escalate => ChildAction::Escalate { exceeded: decision.exceeded },
        SupervisorDirective::Restart => restart(parent, child, fallen, &rules, now),
    };
    (verdict, failure)
}

/// The rules of a parent that has no strategy. What stands at the top of a system has nothing to do with each other.
fn default_rules(parent: &Node) -> Restarts {
    let own = parent.known_supervision(|guardian| guardian.default_budget).unwrap_or_default();
    Restarts { budget: if parent.is_guardian() { RestartBudget::PerChild } else { own }, ..Restarts::default() }
}

/// How many siblings of `child` go on although it has exceeded its limit.
fn siblings_left(parent: &Arc<dyn Member>, child: &Node, rules: &Restarts) -> usize {
    let goes_on = rules.budget == RestartBudget::PerChild || parent.survives_child_failures();
    if goes_on { parent.node().give_up_on(child.id()) } else { 0 }
}

fn tell_that_it_gave_up(parent: &Node, child: &Node, failure: &FailureInfo, left: usize) {
    child.events().emit(EventKinds::GAVE_UP, || {
        let (supervisor, stopped) = (parent.path(), if left > 0 { 1 } else { parent.children_count() });
        let (restarts, window) = (failure.restarts(), failure.window());
        Event::GaveUp(GaveUp { supervisor, child: child.path(), restarts, window, stopped, left })
    });
}

/// Prepares the restart of `child`, and of all that restart with it.
fn restart(parent: &Arc<dyn Member>, child: &Node, fallen: FailedChild, rules: &Restarts, now: Instant) -> ChildAction {
    let wait = rules.backoff.map_or(Duration::ZERO, |backoff| {
        let random = child.runtime().random();
        parent.node().with_supervision(|guardian| backoff.next(guardian.streaks.entry(child.id()).or_default(), now, random))
    });
    if rules.reach == Reach::One {
        return ChildAction::Restart(wait);
    }
    let mut concerned = parent.node().children();
    concerned.retain(|other| rules.reach == Reach::All || other.node().id() >= child.id());
    if fallen == FailedChild::Supervisor {
        // It has no task that could wait itself.
        restart_together::regroup(parent, concerned, None, wait);
    } else {
        restart_together::regroup(parent, concerned, Some(child.id()), Duration::ZERO);
    }
    ChildAction::Wait(wait)
}

/// The strategy of a parent: its own, else the system's default.
pub(crate) fn strategy_of(parent: &Node) -> Option<Arc<dyn SupervisorStrategy>> {
    parent.known_supervision(|guardian| guardian.strategy.clone()).flatten().or_else(|| parent.tree().strategy.clone())
}

/// Asks the strategy, which sees how many restarts have been counted. One that panics hands the failure up, and its own is on record.
fn consult(
    strategy: &dyn SupervisorStrategy,
    child: &Node,
    above: &Node,
    now: Instant,
    mut failure: FailureInfo,
) -> (Restarts, SupervisorDirective, FailureInfo) {
    let answer = catch::catch(|| {
        let rules = strategy.restarts();
        let restarts =
            above.with_supervision(|guardian| decide::count_recent(&rules, guardian.recent(child.id(), rules.budget), now));
        failure.set_restarts(restarts, rules.window);
        (rules, strategy.decide(&failure))
    });
    let (rules, ordered) = answer.unwrap_or_else(|reason| {
        child.record(reason);
        (Restarts::default(), SupervisorDirective::Escalate)
    });
    (rules, ordered, failure)
}

/// Calls a hook of the parent's strategy about `child`, if it has a strategy of its own making.
pub(crate) fn call_hook(child: &Arc<dyn Member>, hook: impl FnOnce(&dyn SupervisorStrategy, &AnyRef)) {
    let Some(strategy) = child.node().parent().and_then(|parent| strategy_of(parent.node())) else { return };
    let about = AnyRef { member: Arc::clone(child) };
    if let Err(reason) = catch::catch(|| hook(&*strategy, &about)) {
        child.node().record(reason);
    }
}

/// Hands a failure of a child of `parent` up: to the sink there is, else to the parent itself, which has failed by that. Gives whoever
/// is to hear of it next.
pub(crate) fn escalate(
    parent: &Arc<dyn Member>,
    failure: &FailureInfo,
    exceeded: bool,
) -> Option<(Arc<dyn Member>, FailureInfo)> {
    let mut up = failure.handed_to(parent);
    let sink = if up.has_no_sink() { None } else { escalate::sink_of(parent.node()) };
    let Some(sink) = sink else {
        up.set_has_no_sink(true);
        return Some((Arc::clone(parent), up));
    };
    let decides_above = || {
        catch::catch(|| sink.leads_to_parent()).unwrap_or_else(|reason| {
            parent.node().record(reason);
            false
        })
    };
    if exceeded && !decides_above() {
        Arc::clone(parent).carry_out(ChildAction::Stop, up.clone());
    }
    escalate::deliver(parent, sink, up);
    None
}

/// How far a failure has come with one member.
#[derive(Default)]
pub(crate) struct FailureStep {
    /// Whoever is to hear of it next.
    pub(crate) next: Option<(Arc<dyn Member>, FailureInfo)>,
    /// The member hands it up, as its own in these words: what becomes of it is decided above.
    pub(crate) handed_up: Option<FailureInfo>,
}

/// Tells `member` that a failure below has become its own, and whoever that concerns further up: a loop, because a branch may be deep.
pub(crate) fn propagate(member: Arc<dyn Member>, mut failure: FailureInfo) {
    failure.set_has_no_sink(false);
    let mut undecided = Vec::new();
    let mut next = Some((member, failure));
    while let Some((member, failure)) = next {
        let risen = Arc::clone(&member).child_failed(failure);
        undecided.extend(risen.handed_up.map(|failure| (member, failure)));
        next = risen.next;
    }
    // Whoever handed it up ends, unless it starts again with a supervisor above.
    let mut above: Option<(Arc<dyn Member>, bool)> = None;
    while let Some((member, failure)) = undecided.pop() {
        // The one above it was looked at just before: all that is further up was looked at then.
        let of_parent = above.as_ref().filter(|(above, _)| is_parent(above, member.node())).map(|(_, is_reached)| *is_reached);
        let is_reached = is_reached_by_plan(member.node(), of_parent);
        let starts_again = is_reached && member.node().policy() != RestartPolicy::Temporary;
        above = Some((Arc::clone(&member), is_reached));
        member.carry_out(if starts_again { ChildAction::Wait(Duration::ZERO) } else { ChildAction::Stop }, failure);
    }
}

/// A failure below has become `member`'s own: its parent's strategy decides about it, at once.
pub(crate) fn settle(member: Arc<dyn Member>, fallen: FailedChild, failure: FailureInfo) -> FailureStep {
    let (verdict, failure) = judge(member.node(), fallen, failure);
    match (verdict, member.node().parent()) {
        (ChildAction::Escalate { exceeded }, Some(parent)) => {
            FailureStep { next: escalate(parent, &failure, exceeded), handed_up: Some(failure) }
        }
        _ => {
            member.carry_out(verdict, failure);
            FailureStep::default()
        }
    }
}

/// Whether `child` is to halt and start again by a plan that there is: its parent's, or one further up that will reach its parent.
pub(crate) fn is_to_restart(child: &Node) -> bool {
    child.policy() != RestartPolicy::Temporary && is_reached_by_plan(child, None)
}

/// Whether there is such a plan. `of_parent`: whether there is one for its parent, if that is known.
fn is_reached_by_plan(child: &Node, of_parent: Option<bool>) -> bool {
    match (plan_of_parent(child), of_parent) {
        (Some(is_reached), _) | (None, Some(is_reached)) => is_reached,
        (None, None) => child.upwards().skip(1).find_map(plan_of_parent).unwrap_or(false),
    }
}

/// What the plan of its parent says about `child`; `None` if it is for a plan further up to say.
fn plan_of_parent(child: &Node) -> Option<bool> {
    let Some(parent) = child.parent() else { return Some(false) };
    let (awaited, told) = parent
        .node()
        .known_supervision(|guardian| (guardian.awaits_halt_of(child.id()), guardian.is_halted_from_above()))
        .unwrap_or_default();
    // A parent that has been told to halt has named all it takes along; one that starts nobody again takes nobody along.
    (awaited || told || !parent.restarts_children()).then_some(awaited)
}

fn is_parent(above: &Arc<dyn Member>, child: &Node) -> bool {
    child.parent().is_some_and(|parent| core::ptr::eq(parent.node(), above.node()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s1_what_a_guardian_keeps_for_a_child_goes_with_the_child() {
        let mut guardian = Supervision::default();
        for id in [ActorId::new(0, 1), ActorId::new(0, 2)] {
            guardian.streaks.insert(id, Streak::default());
        }
        assert!(!guardian.note_gone(ActorId::new(0, 1)), "nobody restarts together");
        assert_eq!(guardian.streaks.keys().copied().collect::<Vec<_>>(), [ActorId::new(0, 2)]);
    }
}
