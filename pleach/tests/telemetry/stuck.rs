//! O3: the sampler finds stuck handlers, costs a message nothing, and ends when no actor works.

use crate::common::{Gate, Job, Log, TestActor};
use pleach::BoxError;
use pleach::events::{EventSubscription, Lint, Recovery, SubscriptionOptions};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use std::sync::mpsc;

fn second() -> Duration {
    Duration::from_secs(1)
}

fn watch(system: &ActorSystem) -> EventSubscription {
    let kinds = EventKinds::STUCK_HANDLERS | EventKinds::RECOVERIES;
    system.hub().subscribe_with(SubscriptionOptions::new().kinds(kinds))
}

/// Takes all events: `stuck PATH` and `returned PATH`, with the time in milliseconds.
fn take(events: &mut EventSubscription) -> Vec<(String, u128)> {
    let name = |event| match event {
        Event::Lint(Lint::StuckHandler { path, running_for, .. }) => (format!("stuck {path}"), running_for.as_millis()),
        Event::Recovered(Recovery::HandlerReturned { path, ran_for, .. }) => (format!("returned {path}"), ran_for.as_millis()),
        other => panic!("{other:?}"),
    };
    std::iter::from_fn(|| events.try_next()).map(name).collect()
}

#[test]
fn o3_stuck_handler_is_found_within_two_thresholds() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let mut events = watch(&system);
        let (gate, busy) = (Gate::new(), TestActor::spawn(&system, "busy"));
        let actor = TestActor::spawn(&system, "a");
        sim.settle();
        // The actor is in the list because of an earlier message, and gets stuck later.
        actor.tell(Job::Note(1)).unwrap();
        sim.advance(second() / 2);
        busy.tell(Job::Note(1)).unwrap();
        actor.tell(Job::Pass(gate.clone(), 2)).unwrap();
        sim.advance(second());
        let early = take(&mut events);
        sim.advance(second());
        let late = take(&mut events);
        let all = [early, late].concat();
        assert_eq!(all.len(), 1, "once: {all:?}");
        assert!(all[0].0 == "stuck /user/a" && (1_000..=2_000).contains(&all[0].1), "{all:?}");
        sim.advance(second() * 10);
        gate.open();
        sim.settle();
        let returned = take(&mut events);
        assert!(matches!(&returned[..], [(name, ms)] if name == "returned /user/a" && *ms >= 11_000), "{returned:?}");
        // It is watched again.
        actor.tell(Job::Pass(gate, 3)).unwrap();
        sim.advance(second() * 3);
        assert_eq!(take(&mut events).len(), 1);
        actor.cancel(());
        sim.settle();
        assert_eq!(take(&mut events).len(), 1, "a cancel ends it");
    });
}

#[test]
fn o3_sampler_runs_only_while_actors_work() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let mut events = watch(&system);
    let actors: Vec<_> = (0..5).map(|n| TestActor::spawn(&system, &n.to_string())).collect();
    sim.advance(second() * 3);
    let idle = sim.tasks_alive();
    for round in 0..3 {
        actors.iter().for_each(|actor| (0..10).for_each(|n| actor.tell(Job::Note(n)).unwrap()));
        sim.settle();
        assert_eq!(sim.tasks_alive(), idle + 1, "round {round}: one sampler");
        sim.advance(second() * 2);
        assert_eq!(sim.tasks_alive(), idle, "round {round}: no actor works");
    }
    // A handler that never returns does not keep it running, so a simulation can notice a stall.
    actors[0].tell(Job::Pass(Gate::new(), 1)).unwrap();
    sim.advance(second() * 5);
    assert_eq!((sim.tasks_alive(), take(&mut events).len()), (idle, 1));
    actors[1].tell(Job::Note(1)).unwrap();
    sim.settle();
    sim.run(system.shutdown(Duration::from_secs(1))).unwrap_err();
    sim.settle();
    assert_eq!(sim.tasks_alive(), 0, "it ends with the system");
}

#[test]
fn o3_only_listeners_that_name_it_start_the_sampler() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let _all = system.hub().subscribe();
    let actor = TestActor::spawn(&system, "a");
    sim.settle();
    let idle = sim.tasks_alive();
    actor.tell(Job::Note(1)).unwrap();
    sim.settle();
    assert_eq!(sim.tasks_alive(), idle);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn o3_handler_that_blocks_its_thread_is_found_while_it_blocks() {
    let system = ActorSystem::builder("s").long_handler(Duration::from_millis(20)).build().unwrap();
    let (found, mut seen) = tokio::sync::mpsc::unbounded_channel();
    system.hub().listen_to(EventKinds::STUCK_HANDLERS | EventKinds::RECOVERIES, move |event| {
        let _ = found.send(event.clone());
    });
    let actor = system.spawn("a", TestActor::props(&Log::new())).unwrap();
    let (release, released) = mpsc::channel::<()>();
    actor
        .tell(Job::act(move |_| {
            let _ = released.recv();
        }))
        .unwrap();
    match seen.recv().await {
        Some(Event::Lint(Lint::StuckHandler { path, .. })) => assert_eq!(path, "/user/a"),
        other => panic!("{other:?}"),
    }
    release.send(()).unwrap();
    assert!(matches!(seen.recv().await, Some(Event::Recovered(Recovery::HandlerReturned { .. }))));
    system.shutdown(Duration::from_secs(5)).await.unwrap();
}

/// An actor whose first message fails or stops it, and whose next hook takes long.
struct SlowHooks {
    fails: bool,
}

impl Actor for SlowHooks {
    type Msg = ();
    type Error = BoxError;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        if cx.incarnation() > 0 {
            cx.sleep(second() * 60).await;
        }
        Ok(())
    }

    async fn handle(&mut self, (): (), cx: &mut Context<Self>) -> Result<(), BoxError> {
        if self.fails {
            return Err("on request".into());
        }
        cx.stop();
        Ok(())
    }

    async fn stopped(&mut self, _exit: &Exit, cx: &mut Context<Self>) -> Result<(), BoxError> {
        cx.sleep(second() * 60).await;
        Ok(())
    }
}

#[test]
fn o3_slow_hook_is_not_a_stuck_handler() {
    for fails in [false, true] {
        let sim = Sim::new(1);
        let system = sim.system("s");
        let mut events = watch(&system);
        let actor = system.spawn("a", Props::new(move || SlowHooks { fails })).unwrap();
        actor.tell(()).unwrap();
        sim.advance(second() * 10);
        assert_eq!(take(&mut events), [], "fails: {fails}");
    }
}
