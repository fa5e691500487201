//! `Regroup`: children restarting together, as a pure state machine: told what happened, it says what to do next.
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
//! 3. It is one member's turn to halt at a time. All that are down wait for that one, so only its waits need a look for a circle of asks.
//! 4. Steps are carried out by one at a time (`driven`): a member that answers at once, from inside the step, does not lead to recursion.

use crate::{ActorId, Instant, counted};
use alloc::vec::Vec;

/// Children on their way down and up again. `T` is what stands for a child: its member in the tree, or nothing in tests.
pub(crate) struct Regroup<T> {
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
    /// Tell all before this one to halt without waiting for each other.
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

impl<T: Clone> Regroup<T> {
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
        counted::visit(halted_from);
        let (rest, tell) = before.map_or((false, false), |plan| (plan.rest && plan.phase != Phase::Starting, plan.tell));
        // Whoever carries out a step of the old plan has not come back yet, and goes on with this one.
        let driven = before.is_some_and(|plan| plan.driven);
        let held = before.and_then(|plan| plan.held);
        Self { members, phase: Phase::Halting, halted_from, started_to: 0, rest, tell, held, driven, turn: None, hurried_to: 0 }
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

    /// The member whose turn to halt it is, if `id` is down and waits for it. `Some(None)` if all are down; `None` if `id` is not down in
    /// this plan.
    pub(crate) fn waits_for(&self, id: ActorId) -> Option<Option<T>> {
        let at = self.place_of(id)?;
        if self.phase == Phase::Starting || self.members[at].state != State::Halted {
            return None;
        }
        let turn = self.turn.and_then(|turn| self.place_of(turn)).map(|at| &self.members[at]);
        Some(turn.filter(|member| matches!(member.state, State::Up | State::Halting)).map(|member| member.child.clone()))
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
        counted::visit(1);
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
        self.hurried_to = if self.phase == Phase::Halting { self.halted_from } else { 0 };
    }

    fn halt_next(&mut self) -> Step<T> {
        while let Some(at) = self.hurried_to.checked_sub(1) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    fn children(ids: &[u64]) -> impl Iterator<Item = (ActorId, u64)> {
        ids.iter().map(|id| (ActorId::new(0, *id), *id))
    }

    fn say(plan: &mut Regroup<u64>, id: u64, report: Report) -> Step<u64> {
        plan.stepped();
        plan.note(ActorId::new(0, id), report);
        plan.step()
    }

    #[test]
    fn s2_down_youngest_first_and_up_oldest_first() {
        let mut plan = Regroup::new(children(&[1, 2, 3]), None).after_failure_of(ActorId::new(0, 2));
        assert_eq!(plan.step(), Step::Halt(3));
        assert_eq!(plan.step(), Step::Wait, "one step at a time");
        assert_eq!(say(&mut plan, 3, Report::Halted), Step::Await(2), "the one that failed halts by itself");
        plan.stepped();
        assert_eq!(plan.step(), Step::Wait, "and is not told to");
        assert_eq!(say(&mut plan, 2, Report::Halted), Step::Halt(1));
        assert_eq!(say(&mut plan, 1, Report::Halted), Step::Start(1));
        assert_eq!(say(&mut plan, 1, Report::Started), Step::Start(2));
        assert_eq!(say(&mut plan, 2, Report::Started), Step::Start(3));
        assert_eq!(say(&mut plan, 3, Report::Started), Step::Done(false));
    }

    #[test]
    fn s2_whoever_is_gone_is_not_started() {
        let mut plan = Regroup::new(children(&[1, 2]), None).after_failure_of(ActorId::new(0, 1));
        assert_eq!(plan.step(), Step::Halt(2));
        assert_eq!(say(&mut plan, 2, Report::Gone), Step::Await(1));
        assert_eq!(say(&mut plan, 1, Report::Halted), Step::Start(1));
        assert_eq!(say(&mut plan, 1, Report::Gone), Step::Done(false));
    }

    #[test]
    fn s13_a_plan_from_above_rests_until_it_is_told_to_start() {
        let mut plan = Regroup::new(children(&[1]), None).ordered_from_above();
        assert_eq!((plan.step(), plan.rests()), (Step::Halt(1), Some(false)));
        assert_eq!(say(&mut plan, 1, Report::Halted), Step::Rested);
        assert_eq!((plan.step(), plan.rests()), (Step::Wait, Some(true)));
        plan.start();
        assert_eq!((plan.step(), plan.rests()), (Step::Start(1), None));
        assert_eq!(say(&mut plan, 1, Report::Started), Step::Done(true));
        // Told before all have halted, it does not rest at all.
        let mut plan = Regroup::new(children(&[1]), None).ordered_from_above();
        assert_eq!(plan.step(), Step::Halt(1));
        plan.start();
        assert_eq!(say(&mut plan, 1, Report::Halted), Step::Start(1));
    }

    #[test]
    fn s2_a_failure_while_starting_takes_the_others_down_again() {
        let mut plan = Regroup::new(children(&[1, 2, 3]), None).ordered_from_above();
        for id in [3, 2, 1] {
            plan.step();
            say(&mut plan, id, Report::Halted);
        }
        plan.start();
        plan.step();
        assert_eq!(say(&mut plan, 1, Report::Started), Step::Start(2));
        // The second fails as it starts; its group is itself and the third, which is still down.
        plan.stepped();
        let mut next = Regroup::new(children(&[2, 3]), Some(&plan)).after_failure_of(ActorId::new(0, 2));
        assert!(next.awaits_halt_of(ActorId::new(0, 2)) && !next.awaits_halt_of(ActorId::new(0, 3)));
        assert_eq!(say(&mut next, 2, Report::Halted), Step::Start(2), "it was told to start, and does not rest again");
        assert_eq!(say(&mut next, 2, Report::Started), Step::Start(3));
        assert_eq!(say(&mut next, 3, Report::Started), Step::Done(true));
        // Had the first failed alone, the third, still down, would come up with it.
        let mut next = Regroup::new(children(&[1]), Some(&plan)).after_failure_of(ActorId::new(0, 1));
        next.note(ActorId::new(0, 2), Report::Gone);
        assert_eq!(say(&mut next, 1, Report::Halted), Step::Start(1));
        assert_eq!(say(&mut next, 1, Report::Started), Step::Start(3));
    }

    #[test]
    fn s13_a_plan_that_rests_still_rests_when_another_takes_its_place() {
        let mut plan = Regroup::new(children(&[1]), None).ordered_from_above();
        plan.step();
        assert_eq!(say(&mut plan, 1, Report::Halted), Step::Rested);
        // A second child was started meanwhile, and fails.
        let mut next = Regroup::new(children(&[1, 2]), Some(&plan)).after_failure_of(ActorId::new(0, 2));
        assert_eq!((next.step(), next.rests()), (Step::Await(2), Some(false)));
        assert_eq!(say(&mut next, 2, Report::Halted), Step::Rested);
        next.start();
        assert_eq!(next.step(), Step::Start(1));
    }

    /// Whoever fails as it is told to halt says that it has halted, and may say so once more when it comes upon the order.
    #[test]
    fn s2_a_child_that_says_twice_that_it_has_halted_is_started_once() {
        let mut plan = Regroup::new(children(&[1]), None);
        assert_eq!(plan.step(), Step::Halt(1));
        assert_eq!(say(&mut plan, 1, Report::Halted), Step::Start(1));
        assert_eq!(say(&mut plan, 1, Report::Halted), Step::Wait);
        assert_eq!(say(&mut plan, 1, Report::Started), Step::Done(false));
    }

    /// Reports come in any order and members leave at any time: the order of the steps holds, and the plan comes to its end.
    #[test]
    fn s2_whatever_happens_all_are_down_before_the_first_is_up() {
        for seed in 0..10_000 {
            let mut random = Random::seeded(seed);
            let ids: Vec<u64> = (1..=1 + random.below(6) as u64).collect();
            let failed = ids[random.below(ids.len())];
            let mut plan = Regroup::new(children(&ids), None).after_failure_of(ActorId::new(0, failed));
            let (mut busy, mut down, mut up) = (Vec::from([(failed, Report::Halted)]), Vec::new(), Vec::new());
            let mut gone: Vec<u64> = Vec::new();
            loop {
                match plan.step() {
                    Step::Halt(id) => {
                        assert!(up.is_empty() && down.iter().all(|other| *other > id || *other == failed));
                        busy.push((id, Report::Halted));
                    }
                    Step::Start(id) => {
                        assert_eq!(down.len() + gone.len(), ids.len(), "all are down or gone");
                        assert!(up.iter().all(|other| *other < id));
                        busy.push((id, Report::Started));
                    }
                    Step::Done(_) => break,
                    Step::Await(id) => {
                        assert_eq!(id, failed);
                        plan.stepped();
                        continue;
                    }
                    Step::Wait => assert!(!busy.is_empty(), "seed {seed}: nobody is left to report"),
                    Step::Rested => unreachable!("nobody above ordered it"),
                }
                plan.stepped();
                let (id, report) = busy.swap_remove(random.below(busy.len()));
                if random.below(8) == 0 {
                    plan.note(ActorId::new(0, id), Report::Gone);
                    down.retain(|other| *other != id);
                    gone.push(id);
                    continue;
                }
                plan.note(ActorId::new(0, id), report);
                if report == Report::Halted { down.push(id) } else { up.push(id) }
            }
            up.extend(&gone);
            up.sort_unstable();
            assert_eq!(up, ids, "seed {seed}: all are up or gone");
        }
    }
}
