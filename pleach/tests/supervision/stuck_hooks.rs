//! A17, T13: hooks that never return cost one grace period for each level of the tree, and not one for each actor.

use crate::common::Log;
use pleach::prelude::*;
use pleach::sim::Sim;

const GRACE: Duration = Duration::from_secs(5);

/// Its `stopped` hook notes when it begins and returns never, or after a second.
struct Stuck {
    begun: Log<(usize, pleach::Instant)>,
    number: usize,
    returns: bool,
    runtime: std::sync::Arc<dyn pleach::Runtime>,
}

impl Actor for Stuck {
    type Msg = bool;
    type Error = &'static str;

    async fn handle(&mut self, fail: bool, _cx: &mut Context<Self>) -> Result<(), &'static str> {
        if fail { Err("told to fail") } else { Ok(()) }
    }

    async fn stopped(&mut self, _exit: &Exit, _cx: &mut Context<Self>) -> Result<(), &'static str> {
        self.begun.push((self.number, self.runtime.now()));
        if self.returns {
            self.runtime.sleep_until(self.runtime.now() + Duration::from_secs(1)).await;
        } else {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

fn stuck(sim: &Sim, begun: &Log<(usize, pleach::Instant)>, number: usize, returns: bool) -> Props<Stuck> {
    let (begun, runtime) = (begun.clone(), sim.runtime());
    Props::new(move || Stuck { begun: begun.clone(), number, returns, runtime: runtime.clone() })
}

fn elapsed(sim: &Sim, from: pleach::Instant) -> Duration {
    sim.runtime().now().since(from)
}

#[test]
fn a17_stuck_hooks_of_siblings_share_their_grace() {
    let (sim, begun) = (Sim::new(1), Log::new());
    let system = ActorSystem::builder("s").runtime(sim.runtime()).grace(GRACE).build().unwrap();
    let crew = system.supervisor("crew", OneForOne::new()).unwrap();
    (0..100).for_each(|n| drop(crew.spawn(&n.to_string(), stuck(&sim, &begun, n, false)).unwrap()));
    sim.settle();
    let from = sim.runtime().now();
    crew.any().stop();
    sim.run(crew.any().exited());
    assert_eq!(elapsed(&sim, from), 2 * GRACE, "the first, and then all others");
    assert_eq!(begun.take().len(), 100, "every hook had its grace");
}

#[test]
fn a17_hooks_that_return_are_still_waited_for_in_order() {
    let (sim, begun) = (Sim::new(1), Log::new());
    let system = ActorSystem::builder("s").runtime(sim.runtime()).grace(GRACE).build().unwrap();
    let crew = system.supervisor("crew", OneForOne::new()).unwrap();
    (0..10).for_each(|n| drop(crew.spawn(&n.to_string(), stuck(&sim, &begun, n, true)).unwrap()));
    sim.settle();
    let from = sim.runtime().now();
    crew.any().stop();
    sim.run(crew.any().exited());
    assert_eq!(elapsed(&sim, from), Duration::from_secs(10));
    assert!(begun.take().windows(2).all(|two| two[0].0 > two[1].0 && two[0].1 < two[1].1));
}

#[test]
fn a17_stuck_hooks_below_many_supervisors_share_their_grace() {
    let (sim, begun) = (Sim::new(1), Log::new());
    let system = ActorSystem::builder("s").runtime(sim.runtime()).grace(GRACE).build().unwrap();
    let top = system.supervisor("top", OneForOne::new()).unwrap();
    for crew in 0..10 {
        let crew = top.supervisor(&format!("crew{crew}"), OneForOne::new()).unwrap();
        (0..10).for_each(|n| drop(crew.spawn(&n.to_string(), stuck(&sim, &begun, n, false)).unwrap()));
    }
    sim.settle();
    let from = sim.runtime().now();
    top.any().stop();
    sim.run(top.any().exited());
    assert!(elapsed(&sim, from) <= 3 * GRACE, "{:?}", elapsed(&sim, from));
    assert_eq!(begun.take().len(), 100);
}

#[test]
fn a17_stuck_hooks_of_a_group_that_restarts_share_their_grace() {
    let (sim, begun) = (Sim::new(1), Log::new());
    let system = ActorSystem::builder("s").runtime(sim.runtime()).grace(GRACE).build().unwrap();
    let crew = system.supervisor("crew", OneForAll::new()).unwrap();
    let actors: Vec<_> = (0..100).map(|n| crew.spawn(&n.to_string(), stuck(&sim, &begun, n, false)).unwrap()).collect();
    sim.settle();
    actors[50].tell(true).unwrap();
    sim.settle();
    actors.iter().for_each(|actor| actor.tell(false).unwrap());
    let runtime = sim.runtime();
    sim.run(async { runtime.sleep_until(runtime.now() + 2 * GRACE).await });
    sim.settle();
    assert_eq!(begun.take().len(), 100, "every hook had its grace");
    assert!(actors.iter().all(|actor| actor.exit().is_none() && actor.counts().handled == 1), "all are up again");
}
