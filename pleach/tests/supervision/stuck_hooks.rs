//! A17: hooks that never return cost one grace period per level of the tree, not one per actor.

use crate::common::Log;
use pleach::prelude::*;
use pleach::sim::Sim;

const GRACE: Duration = Duration::from_secs(5);

/// Its `stopped` hook logs its start time. It returns after a second, or never.
struct SlowStop {
    hook_starts: Log<(usize, pleach::runtime::Instant)>,
    number: usize,
    returns: bool,
    runtime: std::sync::Arc<dyn pleach::runtime::Runtime>,
}

impl Actor for SlowStop {
    type Msg = bool;
    type Error = &'static str;

    async fn handle(&mut self, fail: bool, _cx: &mut Context<Self>) -> Result<(), &'static str> {
        if fail { Err("requested failure") } else { Ok(()) }
    }

    async fn stopped(&mut self, _exit: &Exit, _cx: &mut Context<Self>) -> Result<(), &'static str> {
        self.hook_starts.push((self.number, self.runtime.now()));
        if self.returns {
            self.runtime.sleep_until(self.runtime.now() + Duration::from_secs(1)).await;
        } else {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

fn slow_stop(sim: &Sim, hook_starts: &Log<(usize, pleach::runtime::Instant)>, number: usize, returns: bool) -> Props<SlowStop> {
    let (hook_starts, runtime) = (hook_starts.clone(), sim.runtime());
    Props::new(move || SlowStop { hook_starts: hook_starts.clone(), number, returns, runtime: runtime.clone() })
}

fn elapsed(sim: &Sim, from: pleach::runtime::Instant) -> Duration {
    sim.runtime().now().since(from)
}

#[test]
fn a17_stuck_hooks_of_siblings_share_their_grace() {
    let (sim, hook_starts) = (Sim::new(1), Log::new());
    let system = ActorSystem::builder("s").runtime(sim.runtime()).grace(GRACE).build().unwrap();
    let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
    (0..100).for_each(|n| drop(supervisor.spawn(&n.to_string(), slow_stop(&sim, &hook_starts, n, false)).unwrap()));
    sim.settle();
    let from = sim.runtime().now();
    supervisor.any().stop();
    sim.run(supervisor.any().exited());
    assert_eq!(elapsed(&sim, from), 2 * GRACE, "one for the first hook, one for all others");
    assert_eq!(hook_starts.take().len(), 100, "every hook ran");
}

#[test]
fn a17_hooks_that_return_run_one_after_the_other() {
    let (sim, hook_starts) = (Sim::new(1), Log::new());
    let system = ActorSystem::builder("s").runtime(sim.runtime()).grace(GRACE).build().unwrap();
    let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
    (0..10).for_each(|n| drop(supervisor.spawn(&n.to_string(), slow_stop(&sim, &hook_starts, n, true)).unwrap()));
    sim.settle();
    let from = sim.runtime().now();
    supervisor.any().stop();
    sim.run(supervisor.any().exited());
    assert_eq!(elapsed(&sim, from), Duration::from_secs(10));
    assert!(hook_starts.take().windows(2).all(|two| two[0].0 > two[1].0 && two[0].1 < two[1].1));
}

#[test]
fn a17_stuck_hooks_below_many_supervisors_share_their_grace() {
    let (sim, hook_starts) = (Sim::new(1), Log::new());
    let system = ActorSystem::builder("s").runtime(sim.runtime()).grace(GRACE).build().unwrap();
    let top = system.supervisor("top", OneForOne::new()).unwrap();
    for n in 0..10 {
        let supervisor = top.supervisor(&format!("supervisor-{n}"), OneForOne::new()).unwrap();
        (0..10).for_each(|n| drop(supervisor.spawn(&n.to_string(), slow_stop(&sim, &hook_starts, n, false)).unwrap()));
    }
    sim.settle();
    let from = sim.runtime().now();
    top.any().stop();
    sim.run(top.any().exited());
    assert!(elapsed(&sim, from) <= 3 * GRACE, "{:?}", elapsed(&sim, from));
    assert_eq!(hook_starts.take().len(), 100);
}

#[test]
fn a17_stuck_hooks_of_a_restarting_group_share_their_grace() {
    let (sim, hook_starts) = (Sim::new(1), Log::new());
    let system = ActorSystem::builder("s").runtime(sim.runtime()).grace(GRACE).build().unwrap();
    let supervisor = system.supervisor("supervisor", OneForAll::new()).unwrap();
    let actors: Vec<_> =
        (0..100).map(|n| supervisor.spawn(&n.to_string(), slow_stop(&sim, &hook_starts, n, false)).unwrap()).collect();
    sim.settle();
    actors[50].tell(true).unwrap();
    sim.settle();
    actors.iter().for_each(|actor| actor.tell(false).unwrap());
    let runtime = sim.runtime();
    sim.run(async { runtime.sleep_until(runtime.now() + 2 * GRACE).await });
    sim.settle();
    assert_eq!(hook_starts.take().len(), 100, "every hook ran");
    assert!(actors.iter().all(|actor| actor.exit().is_none() && actor.counts().handled == 1), "all have restarted");
}
