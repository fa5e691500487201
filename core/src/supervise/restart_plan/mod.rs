//! [`RestartPlan`]: several children that restart together, as a pure state machine.
//!
//! Children report what happened (`note`); `step` returns the next action.
//!
//! ```text
//!              all halted                     start                       all up
//!   Halting ───────────────► (Halted) ─────────────────► Starting ─────────────► Done
//!  youngest first     only if ordered by the parent    oldest first
//! ```
//!
//! No task drives the plan. The code path that makes a report (a child halts, starts or leaves)
//! also performs the next step.
//!
//! | field | set by | cleared by |
//! |---|---|---|
//! | `is_ordered` | `ordered_by_parent` | `start` |
//! | `reports_start` | `ordered_by_parent` | never; a following plan inherits it |
//! | `not_before` | `delay_until` | `clear_delay`, `ordered_by_parent` |
//! | `is_stepping` | `step`, for a step other than `Wait` | `step_done` |
//! | `halts_all` | `halt_all` | never |
//!
//! Invariants:
//! 1. Members are sorted by start order. At most one member has an unanswered order to halt or to
//!    start. A member that failed halts without an order; the plan waits for it when its turn
//!    comes. After `halt_all` all members have the order to halt, and the plan still waits for them
//!    one by one.
//! 2. A member gets the order to start only when every member has halted or is gone.
//! 3. The plan waits for one halting member at a time (`current`). All members that are down wait
//!    for that one, so only its waits are searched for a wait cycle.
//! 4. One caller at a time performs a step (`is_stepping`). A member that answers from inside the
//!    step therefore causes no recursion.

#[cfg(test)]
mod tests;

use crate::base::sorted::sort_by_key;
use crate::base::time::Instant;
use crate::base::work_count;
use crate::ids::path::ActorId;
use alloc::vec::Vec;

/// Children that halt and start again. `T` identifies a child: its member in the tree, or a number
/// in tests.
pub(crate) struct RestartPlan<T> {
    members: Vec<PlanMember<T>>,
    phase: PlanPhase,
    /// All members from this index on have halted or are gone.
    halted_from: usize,
    /// All members before this index are up or gone.
    started_to: usize,
    /// The parent ordered this plan: it pauses once all members have halted, and reports that.
    is_ordered: bool,
    /// The plan reports to the parent when all members are up.
    reports_start: bool,
    /// No member starts before this time.
    not_before: Option<Instant>,
    /// A caller is performing a step.
    is_stepping: bool,
    /// The halting member that the plan waits for.
    current: Option<ActorId>,
    /// All members get the order to halt at once. The plan still waits for them one by one.
    halts_all: bool,
    /// The members before this index have not got that order yet.
    halt_all_to: usize,
}

struct PlanMember<T> {
    id: ActorId,
    child: T,
    state: MemberState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberState {
    Up,
    Halting,
    Halted,
    Starting,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlanPhase {
    Halting,
    Halted,
    Starting,
}

/// The next action of a plan.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PlanStep<T> {
    /// Order this child to halt.
    Halt(T),
    /// Wait for this child, which is already halting.
    Await(T),
    /// Order this child to start.
    Start(T),
    /// All children have halted, as the parent ordered: report it to the parent.
    AllHalted,
    /// All children are up again. True if the parent must be informed.
    Done(bool),
    /// Nothing to do until a child reports.
    Wait,
}

/// What a child reports to its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildReport {
    Halted,
    Started,
    Gone,
}

impl<T: Clone> RestartPlan<T> {
    /// Creates a plan that restarts `children`, given oldest first. Members that the earlier plan
    /// `before` was taking down and has not started again become part of this plan, and its delay
    /// still applies.
    pub(crate) fn new(children: impl Iterator<Item = (ActorId, T)>, before: Option<&Self>) -> Self {
        let entry =
            |(id, child)| PlanMember { id, child, state: before.map_or(MemberState::Up, |plan| plan.inherited_state(id)) };
        let mut members: Vec<PlanMember<T>> = children.map(entry).collect();
        let new_members = members.len();
        for earlier in before.into_iter().flat_map(|plan| &plan.members) {
            let pending = match earlier.state {
                MemberState::Halting | MemberState::Halted | MemberState::Starting => true,
                // Up members of a halting plan are still due to halt; otherwise they are up again.
                MemberState::Up => before.is_some_and(|plan| plan.phase == PlanPhase::Halting),
                MemberState::Gone => false,
            };
            if pending && members[..new_members].binary_search_by_key(&earlier.id, |member| member.id).is_err() {
                members.push(entry((earlier.id, earlier.child.clone())));
            }
        }
        sort_by_key(&mut members, |member| member.id);
        let halted_from = members.len();
        work_count::count(halted_from);
        let (is_ordered, reports_start) =
            before.map_or((false, false), |plan| (plan.is_ordered && plan.phase != PlanPhase::Starting, plan.reports_start));
        // The caller that performs a step of the earlier plan continues with this one.
        let is_stepping = before.is_some_and(|plan| plan.is_stepping);
        let not_before = before.and_then(|plan| plan.not_before);
        Self {
            members,
            phase: PlanPhase::Halting,
            halted_from,
            started_to: 0,
            is_ordered,
            reports_start,
            not_before,
            is_stepping,
            current: None,
            halts_all: false,
            halt_all_to: 0,
        }
    }

    /// Marks members as gone that are no longer `there`.
    pub(crate) fn without_absent(mut self, there: impl Fn(&T) -> bool) -> Self {
        self.members.iter_mut().filter(|member| !there(&member.child)).for_each(|member| member.state = MemberState::Gone);
        self
    }

    /// Marks `failed` as halting: it halts without an order.
    pub(crate) fn after_failure_of(mut self, failed: ActorId) -> Self {
        if let Some(member) = self.find(failed) {
            member.state = MemberState::Halting;
        }
        self
    }

    /// Makes this a plan that the parent ordered: it pauses when all have halted, starts on
    /// `start`, and reports when all are up.
    pub(crate) fn ordered_by_parent(mut self) -> Self {
        self.is_ordered = true;
        self.reports_start = true;
        self.not_before = None;
        self
    }

    /// Returns the state that a following plan starts with for this member. A member with an order
    /// to start may be up already, so it must halt again.
    fn inherited_state(&self, id: ActorId) -> MemberState {
        match self.index_of(id).map(|at| self.members[at].state) {
            Some(MemberState::Starting) | None => MemberState::Up,
            Some(state) => state,
        }
    }

    fn find(&mut self, id: ActorId) -> Option<&mut PlanMember<T>> {
        let at = self.index_of(id)?;
        Some(&mut self.members[at])
    }

    /// Returns whether `id` has to halt in this plan and has not done so yet.
    pub(crate) fn awaits_halt_of(&self, id: ActorId) -> bool {
        let at = self.index_of(id);
        self.phase == PlanPhase::Halting
            && at.is_some_and(|at| matches!(self.members[at].state, MemberState::Up | MemberState::Halting))
    }

    /// Returns the member that `id`, which is down, waits for before it can start again: the one
    /// that halts or starts now. `Some(None)` if all are down. `None` if `id` is not down in this
    /// plan, or waits only for time.
    pub(crate) fn waits_for(&self, id: ActorId) -> Option<Option<T>> {
        let at = self.index_of(id)?;
        if self.members[at].state != MemberState::Halted {
            return None;
        }
        let child = |member: &PlanMember<T>| member.child.clone();
        if self.phase == PlanPhase::Starting {
            let starts = self.members.get(self.started_to).filter(|member| member.state == MemberState::Starting);
            return starts.map(|member| Some(child(member)));
        }
        let current = self.current.and_then(|current| self.index_of(current)).map(|at| &self.members[at]);
        Some(current.filter(|member| matches!(member.state, MemberState::Up | MemberState::Halting)).map(child))
    }

    /// Returns whether `id` halts while the plan waits for another member.
    pub(crate) fn halts_out_of_order(&self, id: ActorId) -> bool {
        self.phase == PlanPhase::Halting && self.current != Some(id)
    }

    fn index_of(&self, id: ActorId) -> Option<usize> {
        self.members.binary_search_by_key(&id, |member| member.id).ok()
    }

    /// Returns `None` unless the parent ordered this plan and has not started it yet. Otherwise
    /// returns whether all members have halted.
    pub(crate) fn all_halted(&self) -> Option<bool> {
        (self.is_ordered && self.phase != PlanPhase::Starting).then_some(self.phase == PlanPhase::Halted)
    }

    /// Keeps all members from starting before `at`.
    pub(crate) fn delay_until(&mut self, at: Instant) {
        self.not_before = self.not_before.max(Some(at));
    }

    pub(crate) fn start_time(&self) -> Option<Instant> {
        self.not_before
    }

    /// Removes the delay if `now` has reached it.
    pub(crate) fn clear_delay(&mut self, now: Instant) {
        self.not_before = self.not_before.filter(|until| *until > now);
    }

    /// Lets a plan that the parent ordered start its members.
    pub(crate) fn start(&mut self) {
        self.is_ordered = false;
        if self.phase == PlanPhase::Halted {
            self.phase = PlanPhase::Starting;
        }
    }

    /// Records the report of a child. Ignores a child that is not a member.
    pub(crate) fn note(&mut self, id: ActorId, report: ChildReport) {
        let Some(member) = self.find(id) else { return };
        member.state = match (report, member.state) {
            (ChildReport::Gone, _) => MemberState::Gone,
            (ChildReport::Halted, MemberState::Up | MemberState::Halting) => MemberState::Halted,
            (ChildReport::Started, MemberState::Starting) => MemberState::Up,
            (_, state) => state,
        };
    }

    /// Returns the next action. After an action other than `Wait` the caller must call
    /// [`step_done`](Self::step_done).
    pub(crate) fn step(&mut self) -> PlanStep<T> {
        work_count::count(1);
        if self.is_stepping {
            return PlanStep::Wait;
        }
        let step = match self.phase {
            PlanPhase::Halting => self.halt_next(),
            PlanPhase::Halted => PlanStep::Wait,
            PlanPhase::Starting => self.start_next(),
        };
        self.is_stepping = matches!(step, PlanStep::Halt(_) | PlanStep::Await(_) | PlanStep::Start(_));
        step
    }

    /// Marks the current step as performed.
    pub(crate) fn step_done(&mut self) {
        self.is_stepping = false;
    }

    /// Orders all remaining members to halt at the same time. They still start one by one.
    pub(crate) fn halt_all(&mut self) {
        if self.phase == PlanPhase::Halting && !self.halts_all {
            self.halts_all = true;
            self.halt_all_to = self.halted_from;
        }
    }

    fn halt_next(&mut self) -> PlanStep<T> {
        while let Some(at) = self.halt_all_to.checked_sub(1) {
            work_count::count(1);
            self.halt_all_to = at;
            let member = &mut self.members[at];
            if member.state == MemberState::Up {
                member.state = MemberState::Halting;
                return PlanStep::Halt(member.child.clone());
            }
        }
        while let Some(member) = self.halted_from.checked_sub(1).map(|at| &mut self.members[at]) {
            match member.state {
                MemberState::Halted | MemberState::Gone => self.halted_from -= 1,
                MemberState::Halting if self.current == Some(member.id) => return PlanStep::Wait,
                MemberState::Halting => {
                    self.current = Some(member.id);
                    return PlanStep::Await(member.child.clone());
                }
                MemberState::Up | MemberState::Starting => {
                    member.state = MemberState::Halting;
                    self.current = Some(member.id);
                    return PlanStep::Halt(member.child.clone());
                }
            }
        }
        self.current = None;
        if self.is_ordered {
            self.phase = PlanPhase::Halted;
            return PlanStep::AllHalted;
        }
        if self.not_before.is_some() {
            return PlanStep::Wait;
        }
        self.phase = PlanPhase::Starting;
        self.start_next()
    }

    fn start_next(&mut self) -> PlanStep<T> {
        while let Some(member) = self.members.get_mut(self.started_to) {
            match member.state {
                MemberState::Up | MemberState::Gone => self.started_to += 1,
                MemberState::Starting | MemberState::Halting => return PlanStep::Wait,
                MemberState::Halted => {
                    member.state = MemberState::Starting;
                    return PlanStep::Start(member.child.clone());
                }
            }
        }
        PlanStep::Done(self.reports_start)
    }
}
