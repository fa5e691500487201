//! The order of halts and starts, step by step and at random.

use crate::base::runtime::Random;
use crate::supervise::restart_plan::*;

fn children(ids: &[u64]) -> impl Iterator<Item = (ActorId, u64)> {
    ids.iter().map(|id| (ActorId::new(0, *id), *id))
}

fn say(plan: &mut RestartPlan<u64>, id: u64, report: Report) -> Step<u64> {
    plan.stepped();
    plan.note(ActorId::new(0, id), report);
    plan.step()
}

#[test]
fn s2_down_youngest_first_and_up_oldest_first() {
    let mut plan = RestartPlan::new(children(&[1, 2, 3]), None).after_failure_of(ActorId::new(0, 2));
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
    let mut plan = RestartPlan::new(children(&[1, 2]), None).after_failure_of(ActorId::new(0, 1));
    assert_eq!(plan.step(), Step::Halt(2));
    assert_eq!(say(&mut plan, 2, Report::Gone), Step::Await(1));
    assert_eq!(say(&mut plan, 1, Report::Halted), Step::Start(1));
    assert_eq!(say(&mut plan, 1, Report::Gone), Step::Done(false));
}

#[test]
fn s13_a_plan_from_above_rests_until_it_is_told_to_start() {
    let mut plan = RestartPlan::new(children(&[1]), None).ordered_from_above();
    assert_eq!((plan.step(), plan.rests()), (Step::Halt(1), Some(false)));
    assert_eq!(say(&mut plan, 1, Report::Halted), Step::Rested);
    assert_eq!((plan.step(), plan.rests()), (Step::Wait, Some(true)));
    plan.start();
    assert_eq!((plan.step(), plan.rests()), (Step::Start(1), None));
    assert_eq!(say(&mut plan, 1, Report::Started), Step::Done(true));
    // Told before all have halted, it does not rest at all.
    let mut plan = RestartPlan::new(children(&[1]), None).ordered_from_above();
    assert_eq!(plan.step(), Step::Halt(1));
    plan.start();
    assert_eq!(say(&mut plan, 1, Report::Halted), Step::Start(1));
}

#[test]
fn s2_a_failure_while_starting_takes_the_others_down_again() {
    let mut plan = RestartPlan::new(children(&[1, 2, 3]), None).ordered_from_above();
    for id in [3, 2, 1] {
        plan.step();
        say(&mut plan, id, Report::Halted);
    }
    plan.start();
    plan.step();
    assert_eq!(say(&mut plan, 1, Report::Started), Step::Start(2));
    // The second fails as it starts; its group is itself and the third, which is still down.
    plan.stepped();
    let mut next = RestartPlan::new(children(&[2, 3]), Some(&plan)).after_failure_of(ActorId::new(0, 2));
    assert!(next.awaits_halt_of(ActorId::new(0, 2)) && !next.awaits_halt_of(ActorId::new(0, 3)));
    assert_eq!(say(&mut next, 2, Report::Halted), Step::Start(2), "it was told to start, and does not rest again");
    assert_eq!(say(&mut next, 2, Report::Started), Step::Start(3));
    assert_eq!(say(&mut next, 3, Report::Started), Step::Done(true));
    // Had the first failed alone, the third, still down, would come up with it.
    let mut next = RestartPlan::new(children(&[1]), Some(&plan)).after_failure_of(ActorId::new(0, 1));
    next.note(ActorId::new(0, 2), Report::Gone);
    assert_eq!(say(&mut next, 1, Report::Halted), Step::Start(1));
    assert_eq!(say(&mut next, 1, Report::Started), Step::Start(3));
}

#[test]
fn s13_a_plan_that_rests_still_rests_when_another_takes_its_place() {
    let mut plan = RestartPlan::new(children(&[1]), None).ordered_from_above();
    plan.step();
    assert_eq!(say(&mut plan, 1, Report::Halted), Step::Rested);
    // A second child was started meanwhile, and fails.
    let mut next = RestartPlan::new(children(&[1, 2]), Some(&plan)).after_failure_of(ActorId::new(0, 2));
    assert_eq!((next.step(), next.rests()), (Step::Await(2), Some(false)));
    assert_eq!(say(&mut next, 2, Report::Halted), Step::Rested);
    next.start();
    assert_eq!(next.step(), Step::Start(1));
}

/// Whoever fails as it is told to halt says that it has halted, and may say so once more when it comes upon the order.
#[test]
fn s2_a_child_that_says_twice_that_it_has_halted_is_started_once() {
    let mut plan = RestartPlan::new(children(&[1]), None);
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
        let mut plan = RestartPlan::new(children(&ids), None).after_failure_of(ActorId::new(0, failed));
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
