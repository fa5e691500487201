//! `RestartPlan`: children restarting together, as a pure state machine: told what happened, it says what to do next.
//!
//! ```text
//!              all halted                     start                       all up
//!   Halting ───────────────► (Resting) ─────────────────► Starting ─────────────► Done
//!  youngest first     only if ordered from above      oldest first
//! ```
//!
//! Nobody owns a task for this: whichever child halts, starts or leaves says so, and whoever said it carries out the next step.
//!
//! Invariants:
//! 1. Members stand in start order. At most one has been told to halt, or to start, and has not answered; a member that failed by itself
//!    halts unasked, and is waited for when its turn comes. After `hurry` all are told to halt, and each is waited for in its turn.
//! 2. A member is told to start only when every member has halted or is gone.
//! 3. It is one member's turn to halt at a time. All that are down wait for that one, so only its waits need a look for a cycle of asks.
//! 4. Steps are carried out by one at a time (`driven`): a member that answers at once, from inside the step, does not lead to recursion.

#[cfg(test)]
mod tests;

use crate::base::time::Instant;
use crate::base::visits;
use crate::ids::path::ActorId;
use alloc::vec::Vec;

/// Children on their way down and up again. `T` is what stands for a child: its member in the tree, or nothing in tests.
pub(crate) struct RestartPlan<T> {
    members: Vec<Entry<T>>,
    phase: Phase,
    /// All from here on have halted or are gone.
    halted_from: usize,
    /// All before this one are up or gone.
    started_to: usize,
    /// Rest once all have halted, and say so above.
    rest: bool,
    /// Say so above when all are up.
    tell: bool,
    /// Nobody starts before then.
    held: Option<Instant>,
    driven: bool,
    /// Whose turn to halt it is: all others wait for this one.
    turn: Option<ActorId>,
    /// All members are told to halt at once. Each is still waited for in its turn.
    hurried: bool,
    /// Those before this one are still to be told so.
    hurried_to: usize,
}

struct Entry<T> {
    id: ActorId,
    child: T,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Up,
    Halting,
    Halted,
    Starting,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Halting,
    Resting,
    Starting,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<T> {
    /// Tell this one to halt.
    Halt(T),
    /// It is this one's turn to halt, and it is on its way already.
    Await(T),
    /// Tell this one to start.
    Start(T),
    /// All have halted, as was ordered from above: say so there.
    Rested,
    /// All are up again. True if whoever ordered it above is to hear of it.
    Done(bool),
    /// Nothing, until somebody reports.
    Wait,
}

/// What a child has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    Halted,
    Started,
    Gone,
}

impl<T: Clone> RestartPlan<T> {
    /// Restarts `children`, given oldest first. What a plan before this one was to bring down, and has not brought up again, belongs to
    /// this one too, and a wait that it had begun.
    pub(crate) fn new(children: impl Iterator<Item = (ActorId, T)>, before: Option<&Self>) -> Self {
        let entry = |(id, child)| Entry { id, child, state: before.map_or(State::Up, |plan| plan.carried_over(id)) };
        let mut members: Vec<Entry<T>> = children.map(entry).collect();
        let concerned = members.len();
        for old in before.into_iter().flat_map(|plan| &plan.members) {
            let pending = match old.state {
                State::Halting | State::Halted | State::Starting => true,
                // Its turn to halt has not come yet, or it is up again.
                State::Up => before.is_some_and(|plan| plan.phase == Phase::Halting),
                State::Gone => false,
            };
            if pending && members[..concerned].binary_search_by_key(&old.id, |member| member.id).is_err() {
                members.push(entry((old.id, old.child.clone())));
            }
        }
        members.sort_unstable_by_key(|member| member.id);
        let halted_from = members.len();
        visits::visit(halted_from);
        let (rest, tell) = before.map_or((false, false), |plan| (plan.rest && plan.phase != Phase::Starting, plan.tell));
        // Whoever carries out a step of the old plan has not come back yet, and goes on with this one.
        let driven = before.is_some_and(|plan| plan.driven);
        let held = before.and_then(|plan| plan.held);
        Self {
            members,
            phase: Phase::Halting,
            halted_from,
            started_to: 0,
            rest,
            tell,
            held,
            driven,
            turn: None,
            hurried: false,
            hurried_to: 0,
        }
    }

    /// The same plan without those that are not `there` any more.
    pub(crate) fn of_those(mut self, there: impl Fn(&T) -> bool) -> Self {
        self.members.iter_mut().filter(|member| !there(&member.child)).for_each(|member| member.state = State::Gone);
        self
    }

    /// The same plan, in which `failed` halts by itself.
    pub(crate) fn after_failure_of(mut self, failed: ActorId) -> Self {
        if let Some(member) = self.find(failed) {
            member.state = State::Halting;
        }
        self
    }

    /// The same plan, ordered from above: it rests when all have halted, starts when it is told to, and says when all are up.
    pub(crate) fn ordered_from_above(mut self) -> Self {
        self.rest = true;
        self.tell = true;
        self.held = None;
        self
    }

    /// How a member of this plan stands for the next one: whoever has been told to start may be up already, and is told to halt again.
    fn carried_over(&self, id: ActorId) -> State {
        match self.place_of(id).map(|at| self.members[at].state) {
            Some(State::Starting) | None => State::Up,
            Some(state) => state,
        }
    }

    fn find(&mut self, id: ActorId) -> Option<&mut Entry<T>> {
        let at = self.place_of(id)?;
        Some(&mut self.members[at])
    }

    /// Whether `id` is to go down in this plan and has not yet.
    pub(crate) fn awaits_halt_of(&self, id: ActorId) -> bool {
        let at = self.place_of(id);
        self.phase == Phase::Halting && at.is_some_and(|at| matches!(self.members[at].state, State::Up | State::Halting))
    }

    /// For whom `id`, which is down, waits before it can start again: the member whose turn it is to halt or to start. `Some(None)` if all are
    /// down; `None` if `id` is not down in this plan, or waits for time alone.
    pub(crate) fn waits_for(&self, id: ActorId) -> Option<Option<T>> {
        let at = self.place_of(id)?;
        if self.members[at].state != State::Halted {
            return None;
        }
        let child = |member: &Entry<T>| member.child.clone();
        if self.phase == Phase::Starting {
            let starts = self.members.get(self.started_to).filter(|member| member.state == State::Starting);
            return starts.map(|member| Some(child(member)));
        }
        let turn = self.turn.and_then(|turn| self.place_of(turn)).map(|at| &self.members[at]);
        Some(turn.filter(|member| matches!(member.state, State::Up | State::Halting)).map(child))
    }

    /// Whether `id` halts although it is another's turn.
    pub(crate) fn is_out_of_turn(&self, id: ActorId) -> bool {
        self.phase == Phase::Halting && self.turn != Some(id)
    }

    fn place_of(&self, id: ActorId) -> Option<usize> {
        self.members.binary_search_by_key(&id, |member| member.id).ok()
    }

    /// Whether this plan was ordered from above and has not been told to start yet; and if so, whether all have halted.
    pub(crate) fn rests(&self) -> Option<bool> {
        (self.rest && self.phase != Phase::Starting).then_some(self.phase == Phase::Resting)
    }

    /// Keeps the members from starting until then.
    pub(crate) fn hold_until(&mut self, at: Instant) {
        self.held = self.held.max(Some(at));
    }

    pub(crate) fn held_until(&self) -> Option<Instant> {
        self.held
    }

    /// Lets the members start if it is time.
    pub(crate) fn release(&mut self, now: Instant) {
        self.held = self.held.filter(|until| *until > now);
    }

    /// Lets a plan that rests go on.
    pub(crate) fn start(&mut self) {
        self.rest = false;
        if self.phase == Phase::Resting {
            self.phase = Phase::Starting;
        }
    }

    /// Notes what a child said. Whoever is no member changes nothing.
    pub(crate) fn note(&mut self, id: ActorId, report: Report) {
        let Some(member) = self.find(id) else { return };
        member.state = match (report, member.state) {
            (Report::Gone, _) => State::Gone,
            (Report::Halted, State::Up | State::Halting) => State::Halted,
            (Report::Started, State::Starting) => State::Up,
            (_, state) => state,
        };
    }

    /// What to do next. After a step other than `Wait` its doer says [`stepped`](Self::stepped).
    pub(crate) fn step(&mut self) -> Step<T> {
        visits::visit(1);
        if self.driven {
            return Step::Wait;
        }
        let step = match self.phase {
            Phase::Halting => self.halt_next(),
            Phase::Resting => Step::Wait,
            Phase::Starting => self.start_next(),
        };
        self.driven = matches!(step, Step::Halt(_) | Step::Await(_) | Step::Start(_));
        step
    }

    /// The step has been carried out.
    pub(crate) fn stepped(&mut self) {
        self.driven = false;
    }

    /// Has the remaining members halt at the same time. They start in order all the same.
    pub(crate) fn hurry(&mut self) {
        if self.phase == Phase::Halting && !self.hurried {
            self.hurried = true;
            self.hurried_to = self.halted_from;
        }
    }

    fn halt_next(&mut self) -> Step<T> {
        while let Some(at) = self.hurried_to.checked_sub(1) {
            visits::visit(1);
            self.hurried_to = at;
            let member = &mut self.members[at];
            if member.state == State::Up {
                member.state = State::Halting;
                return Step::Halt(member.child.clone());
            }
        }
        while let Some(member) = self.halted_from.checked_sub(1).map(|at| &mut self.members[at]) {
            match member.state {
                State::Halted | State::Gone => self.halted_from -= 1,
                State::Halting if self.turn == Some(member.id) => return Step::Wait,
                State::Halting => {
                    self.turn = Some(member.id);
                    return Step::Await(member.child.clone());
                }
                State::Up | State::Starting => {
                    member.state = State::Halting;
                    self.turn = Some(member.id);
                    return Step::Halt(member.child.clone());
                }
            }
        }
        self.turn = None;
        if self.rest {
            self.phase = Phase::Resting;
            return Step::Rested;
        }
        if self.held.is_some() {
            return Step::Wait;
        }
        self.phase = Phase::Starting;
        self.start_next()
    }

    fn start_next(&mut self) -> Step<T> {
        while let Some(member) = self.members.get_mut(self.started_to) {
            match member.state {
                State::Up | State::Gone => self.started_to += 1,
                State::Starting | State::Halting => return Step::Wait,
                State::Halted => {
                    member.state = State::Starting;
                    return Step::Start(member.child.clone());
                }
            }
        }
        Step::Done(self.tell)
    }
}
