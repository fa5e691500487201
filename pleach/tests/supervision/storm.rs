//! S3, S8: ten thousand children that fail over and over: nothing is lost, memory stays flat, and others get their turn.

use crate::common::{Doer, Job, Log};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::{AlwaysRestart, ExponentialBackoff};

const CHILDREN: u64 = 10_000;

/// Fails at each message, and hands it on to itself until none is left.
fn failing() -> Props<impl Actor<Msg = u32>> {
    struct Failing;

    impl Actor for Failing {
        type Msg = u32;
        type Error = &'static str;

        async fn handle(&mut self, left: u32, cx: &mut Context<Self>) -> Result<(), &'static str> {
            if left > 0 {
                let _ = cx.me().tell(left - 1);
            }
            Err("failed again")
        }
    }

    Props::new(|| Failing)
}

/// The memory this process holds, in bytes.
fn held() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap();
    pages * 4_096
}

#[test]
fn s8_a_storm_of_restarts_keeps_memory_flat_and_loses_no_failure() {
    let sim = Sim::new(7);
    let system = sim.system("storm");
    let crew = system.supervisor("crew", AlwaysRestart).unwrap();
    let children: Vec<_> = (0..CHILDREN).map(|_| crew.spawn_unnamed(failing()).unwrap()).collect();
    let mut after_first = None;
    for round in 1..=5 {
        children.iter().for_each(|child| child.tell(9).unwrap());
        sim.settle();
        assert_eq!(system.failures() as u64, round * CHILDREN * 10);
        let counts = system.counts();
        assert_eq!((counts.failed, counts.accepted), (round * CHILDREN * 10, round * CHILDREN * 10));
        let held = held();
        let grown = held.saturating_sub(*after_first.get_or_insert(held));
        assert!(grown < 4 << 20, "{grown} bytes more after round {round}");
    }
    assert_eq!(sim.tasks_alive() as u64, CHILDREN);
}

#[test]
fn s5_a9_others_get_their_turn_in_a_storm() {
    let sim = Sim::new(7);
    let system = sim.system("storm");
    let calm = system.spawn("calm", Doer::props(&Log::new())).unwrap();
    let crew = system.supervisor("crew", AlwaysRestart).unwrap();
    let children: Vec<_> = (0..300).map(|_| crew.spawn_unnamed(failing()).unwrap()).collect();
    children.iter().for_each(|child| child.tell(u32::MAX).unwrap());
    // Each poll of a failing child is bounded, so an answer comes after about as many polls as there are children.
    for n in 0..3 {
        let before = sim.polls();
        assert_eq!(sim.run(calm.ask(|reply| Job::Answer(reply, n))).unwrap(), n);
        let polls = sim.polls() - before;
        assert!(polls < 40 * 300, "{polls} polls for one answer");
    }
    system.kill();
    sim.settle();
    assert_eq!(sim.tasks_alive(), 0);
}

#[test]
fn s1_a_backoff_turns_a_storm_into_a_drizzle() {
    let sim = Sim::new(7);
    let system = sim.system("storm");
    let crew = system.supervisor("crew", ExponentialBackoff::new(Duration::from_millis(100), Duration::from_secs(10))).unwrap();
    let children: Vec<_> = (0..1_000).map(|_| crew.spawn_unnamed(failing()).unwrap()).collect();
    children.iter().for_each(|child| child.tell(u32::MAX).unwrap());
    sim.advance(Duration::from_secs(60));
    let each = system.failures() / children.len();
    assert!((10..=20).contains(&each), "{each} failures of each child in a minute");
}
