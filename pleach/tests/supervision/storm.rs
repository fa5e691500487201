//! S1, S5 and A9: many children that fail repeatedly. Other actors run meanwhile, and a backoff
//! reduces the rate. Their memory is measured in the tests of memory use.

use crate::common::{Job, TestActor};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::supervise::{AlwaysRestart, ExponentialBackoff};

/// Fails at each message and sends itself the next one until none is left.
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

#[test]
fn s5_a9_other_actors_run_during_many_restarts() {
    let sim = Sim::new(7);
    let system = sim.system("storm");
    let other = TestActor::spawn(&system, "other");
    let supervisor = system.supervisor("supervisor", AlwaysRestart).unwrap();
    let children: Vec<_> = (0..300).map(|_| supervisor.spawn_unnamed(failing()).unwrap()).collect();
    children.iter().for_each(|child| child.tell(u32::MAX).unwrap());
    // Each poll of a failing child is bounded, so an answer takes about one poll per child.
    for n in 0..3 {
        let before = sim.polls();
        assert_eq!(sim.run(other.ask(|reply| Job::Answer(reply, n))).unwrap(), n);
        let polls = sim.polls() - before;
        assert!(polls < 40 * 300, "{polls} polls for one answer");
    }
    system.cancel(Cause::Cancelled);
    sim.settle();
    assert_eq!(sim.tasks_alive(), 0);
}

#[test]
fn s1_backoff_reduces_the_restart_rate() {
    let sim = Sim::new(7);
    let system = sim.system("storm");
    let supervisor =
        system.supervisor("supervisor", ExponentialBackoff::new(Duration::from_millis(100), Duration::from_secs(10))).unwrap();
    let children: Vec<_> = (0..1_000).map(|_| supervisor.spawn_unnamed(failing()).unwrap()).collect();
    children.iter().for_each(|child| child.tell(u32::MAX).unwrap());
    sim.advance(Duration::from_secs(60));
    let each = system.failures() / children.len();
    assert!((10..=20).contains(&each), "{each} failures per child in a minute");
}
