//! The order of halts and starts, step by step and at random.

use crate::base::runtime::Random;
use crate::supervise::restart_plan::*;

fn children(ids: &[u64]) -> impl Iterator<Item = (ActorId, u64)> {
    ids.iter().map(|id| (ActorId::new(0, *id), *id))
}

fn report(plan: &mut RestartPlan<u64>, id: u64, report: ChildReport) -> PlanStep<u64> {
    plan.step_done();
    plan.note(ActorId::new(0, id), report);
    plan.step()
}

#[test]
fn s2_down_youngest_first_and_up_oldest_first() {
    let mut plan = RestartPlan::new(children(&[1, 2, 3]), None).after_failure_of(ActorId::new(0, 2));
    assert_eq!(plan.step(), PlanStep::Halt(3));
    assert_eq!(plan.step(), PlanStep::Wait, "one step at a time");
    assert_eq!(report(&mut plan, 3, ChildReport::Halted), PlanStep::Await(2), "the failed child halts without an order");
    plan.step_done();
    assert_eq!(plan.step(), PlanStep::Wait, "and gets no order");
    assert_eq!(report(&mut plan, 2, ChildReport::Halted), PlanStep::Halt(1));
    assert_eq!(report(&mut plan, 1, ChildReport::Halted), PlanStep::Start(1));
    assert_eq!(report(&mut plan, 1, ChildReport::Started), PlanStep::Start(2));
    assert_eq!(report(&mut plan, 2, ChildReport::Started), PlanStep::Start(3));
    assert_eq!(report(&mut plan, 3, ChildReport::Started), PlanStep::Done(false));
}

#[test]
fn s2_gone_child_is_not_started() {
    let mut plan = RestartPlan::new(children(&[1, 2]), None).after_failure_of(ActorId::new(0, 1));
    assert_eq!(plan.step(), PlanStep::Halt(2));
    assert_eq!(report(&mut plan, 2, ChildReport::Gone), PlanStep::Await(1));
    assert_eq!(report(&mut plan, 1, ChildReport::Halted), PlanStep::Start(1));
    assert_eq!(report(&mut plan, 1, ChildReport::Gone), PlanStep::Done(false));
}

#[test]
fn s13_plan_ordered_by_parent_pauses_until_start() {
    let mut plan = RestartPlan::new(children(&[1]), None).ordered_by_parent();
    assert_eq!((plan.step(), plan.all_halted()), (PlanStep::Halt(1), Some(false)));
    assert_eq!(report(&mut plan, 1, ChildReport::Halted), PlanStep::AllHalted);
    assert_eq!((plan.step(), plan.all_halted()), (PlanStep::Wait, Some(true)));
    plan.start();
    assert_eq!((plan.step(), plan.all_halted()), (PlanStep::Start(1), None));
    assert_eq!(report(&mut plan, 1, ChildReport::Started), PlanStep::Done(true));
    // With a `start` before all have halted, the plan does not pause.
    let mut plan = RestartPlan::new(children(&[1]), None).ordered_by_parent();
    assert_eq!(plan.step(), PlanStep::Halt(1));
    plan.start();
    assert_eq!(report(&mut plan, 1, ChildReport::Halted), PlanStep::Start(1));
}

#[test]
fn s2_failure_while_starting_halts_the_others_again() {
    let mut plan = RestartPlan::new(children(&[1, 2, 3]), None).ordered_by_parent();
    for id in [3, 2, 1] {
        plan.step();
        report(&mut plan, id, ChildReport::Halted);
    }
    plan.start();
    plan.step();
    assert_eq!(report(&mut plan, 1, ChildReport::Started), PlanStep::Start(2));
    // The second child fails as it starts. Its plan covers itself and the third, which is still
    // down.
    plan.step_done();
    let mut next = RestartPlan::new(children(&[2, 3]), Some(&plan)).after_failure_of(ActorId::new(0, 2));
    assert!(next.awaits_halt_of(ActorId::new(0, 2)) && !next.awaits_halt_of(ActorId::new(0, 3)));
    assert_eq!(report(&mut next, 2, ChildReport::Halted), PlanStep::Start(2), "it was started and does not pause again");
    assert_eq!(report(&mut next, 2, ChildReport::Started), PlanStep::Start(3));
    assert_eq!(report(&mut next, 3, ChildReport::Started), PlanStep::Done(true));
    // If only the first had failed, the third, still down, would start with it.
    let mut next = RestartPlan::new(children(&[1]), Some(&plan)).after_failure_of(ActorId::new(0, 1));
    next.note(ActorId::new(0, 2), ChildReport::Gone);
    assert_eq!(report(&mut next, 1, ChildReport::Halted), PlanStep::Start(1));
    assert_eq!(report(&mut next, 1, ChildReport::Started), PlanStep::Start(3));
}

#[test]
fn s13_paused_plan_stays_paused_when_replaced() {
    let mut plan = RestartPlan::new(children(&[1]), None).ordered_by_parent();
    plan.step();
    assert_eq!(report(&mut plan, 1, ChildReport::Halted), PlanStep::AllHalted);
    // A second child was started meanwhile and fails.
    let mut next = RestartPlan::new(children(&[1, 2]), Some(&plan)).after_failure_of(ActorId::new(0, 2));
    assert_eq!((next.step(), next.all_halted()), (PlanStep::Await(2), Some(false)));
    assert_eq!(report(&mut next, 2, ChildReport::Halted), PlanStep::AllHalted);
    next.start();
    assert_eq!(next.step(), PlanStep::Start(1));
}

/// A child that fails while it gets the order to halt reports that it has halted, and may report it
/// again when it sees the order.
#[test]
fn s2_child_that_halts_twice_starts_once() {
    let mut plan = RestartPlan::new(children(&[1]), None);
    assert_eq!(plan.step(), PlanStep::Halt(1));
    assert_eq!(report(&mut plan, 1, ChildReport::Halted), PlanStep::Start(1));
    assert_eq!(report(&mut plan, 1, ChildReport::Halted), PlanStep::Wait);
    assert_eq!(report(&mut plan, 1, ChildReport::Started), PlanStep::Done(false));
}

/// Reports arrive in any order and members leave at any time. The order of the steps holds, and the
/// plan completes.
#[test]
fn s2_all_are_down_before_the_first_starts() {
    for seed in 0..10_000 {
        let mut random = Random::seeded(seed);
        let ids: Vec<u64> = (1..=1 + random.below(6) as u64).collect();
        let failed = ids[random.below(ids.len())];
        let mut plan = RestartPlan::new(children(&ids), None).after_failure_of(ActorId::new(0, failed));
        let (mut busy, mut down, mut up) = (Vec::from([(failed, ChildReport::Halted)]), Vec::new(), Vec::new());
        let mut gone: Vec<u64> = Vec::new();
        loop {
            match plan.step() {
                PlanStep::Halt(id) => {
                    assert!(up.is_empty() && down.iter().all(|other| *other > id || *other == failed));
                    busy.push((id, ChildReport::Halted));
                }
                PlanStep::Start(id) => {
                    assert_eq!(down.len() + gone.len(), ids.len(), "all are down or gone");
                    assert!(up.iter().all(|other| *other < id));
                    busy.push((id, ChildReport::Started));
                }
                PlanStep::Done(_) => break,
                PlanStep::Await(id) => {
                    assert_eq!(id, failed);
                    plan.step_done();
                    continue;
                }
                PlanStep::Wait => assert!(!busy.is_empty(), "seed {seed}: no child is left to report"),
                PlanStep::AllHalted => unreachable!("no parent ordered it"),
            }
            plan.step_done();
            let (id, report) = busy.swap_remove(random.below(busy.len()));
            if random.below(8) == 0 {
                plan.note(ActorId::new(0, id), ChildReport::Gone);
                down.retain(|other| *other != id);
                gone.push(id);
                continue;
            }
            plan.note(ActorId::new(0, id), report);
            if report == ChildReport::Halted { down.push(id) } else { up.push(id) }
        }
        up.extend(&gone);
        up.sort_unstable();
        assert_eq!(up, ids, "seed {seed}: all are up or gone");
    }
}
