//! C6, C10: a store that is unavailable for a while, and a wait for a lease.
use crate::common::Log;
use crate::common::failing_connection::FailingConnection;
use crate::common::logged::logged;
use crate::common::slow_store::SlowStore;
use pleach::graph::{Hooks, RunEvent, RunOptions};
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::sim::{Sim, explore};
use pleach::store::{Lease, MemoryStore, RunStatus, Store, Wanted};
use std::sync::Arc;

/// Counts to `last`, one step per second, with an effect at each step.
fn counting(clock: Arc<dyn Runtime>, outside: &Log<String>, last: u32) -> CompiledGraph<u32> {
    crate::common::counting::counting(clock, outside, last, |_| Duration::from_secs(1))
}

/// Logs what a run reports about its store.
fn listening(run: RunOptions<'static, u32>, log: &Log<String>) -> RunOptions<'static, u32> {
    let log = log.clone();
    run.hooks(Hooks::new(move |event: &RunEvent<&u32>| match event {
        RunEvent::StoreUnavailable { error, .. } => log.note(format!("unavailable: {error}")),
        RunEvent::StoreRecovered { .. } => log.note("answers"),
        RunEvent::CheckpointsLost { .. } => log.note("lost"),
        RunEvent::LeaseAwaited { holder, left, .. } => log.note(format!("waits {} s for {holder}", left.as_secs())),
        _ => {}
    }))
}

#[test]
fn c10_short_outage_does_not_end_a_run() {
    let logged = logged();
    explore(0..200, |sim| {
        let store = FailingConnection::new(MemoryStore::on(sim.runtime()));
        let (outside, events) = (Log::new(), Log::new());
        let graph = counting(sim.runtime(), &outside, 8);
        let run = listening(graph.run(0).id("outage").checkpoint(&store).runtime(sim.runtime()), &events);
        let outage = async {
            sim.sleep(Duration::from_millis(500 + sim.runtime().random() % 4_000)).await;
            store.cut();
            sim.sleep(Duration::from_secs(15)).await;
            store.mend();
        };
        let (outcome, ()) = sim.run(futures::future::join(run.into_future(), outage));
        assert_eq!(outcome.unwrap(), 8);
        assert_eq!(outside.take(), (0..8).map(|n| n.to_string()).collect::<Vec<_>>());
        assert_eq!(
            events.take(),
            [
                "unavailable: the store failed, and the operation may or may not have succeeded: no connection to the store",
                "answers"
            ]
        );
    });
    let mut lines = logged.seen();
    lines.retain(|line| line.contains("run=outage"));
    assert!(lines[0].starts_with("WARN") && lines[0].contains("no connection to the store"), "{lines:?}");
    assert!(lines[1].starts_with("INFO") && lines[1].contains("answers again"), "{lines:?}");
}

#[test]
fn c10_long_outage_ends_a_run_before_its_lease_ends() {
    explore(0..100, |sim| {
        let inside = MemoryStore::on(sim.runtime());
        let store = FailingConnection::new(inside.clone());
        let outside = Log::new();
        let graph = counting(sim.runtime(), &outside, 100);
        let run = graph.run(0).id("r").checkpoint(&store).runtime(sim.runtime());
        let outage = async {
            sim.sleep(Duration::from_millis(sim.runtime().random() % 30_000)).await;
            store.cut();
            sim.now()
        };
        let (outcome, cut_at) = sim.run(futures::future::join(run.into_future(), outage));
        let error = outcome.unwrap_err();
        let RunFault::Checkpoint(why) = error.fault() else { panic!("{error}") };
        assert!(matches!(why.op, "commit" | "renew"), "{error}");
        let took = sim.now().since(cut_at);
        assert!(took > Duration::from_secs(14) && took < Duration::from_secs(30), "{took:?}");
        // Everything is recorded except the effect that could not be written.
        let done = outside.take().len();
        let resumed = graph.resume("r").checkpoint(&inside).runtime(sim.runtime());
        assert_eq!(sim.run(resumed.into_future()).unwrap(), 100);
        assert!(done + outside.take().len() <= 101);
    });
}

#[test]
fn c10_lost_calls_and_answers_do_not_change_a_run() {
    explore(0..400, |sim| {
        let inside = MemoryStore::on(sim.runtime());
        let mut store = SlowStore::new(inside.clone(), sim.runtime(), Duration::from_millis(30));
        store.lost = 25;
        let outside = Log::new();
        let graph = counting(sim.runtime(), &outside, 6);
        // The run is cancelled at some time and resumed by another driver.
        let token = sim.token().child_for(Duration::from_millis(sim.runtime().random() % 9_000));
        let run = graph.run(0).id("r").checkpoint(&store).token(&token).runtime(sim.runtime());
        let cut_off = sim.run(run.into_future());
        if let Err(error) = &cut_off {
            assert!(matches!(error.fault(), RunFault::Cancelled { .. }), "{error}");
        }
        if has_run(sim, &inside) {
            // The read before the claim is not retried.
            let resumed = loop {
                match sim.run(graph.resume("r").checkpoint(&store).runtime(sim.runtime()).into_future()) {
                    Err(error) if error.to_string().contains("(open)") => continue,
                    resumed => break resumed,
                }
            };
            assert_eq!(resumed.unwrap(), 6);
            let mut done = outside.take();
            assert!(done.len() <= 7, "{done:?}");
            done.dedup();
            assert_eq!(done, (0..6).map(|n| n.to_string()).collect::<Vec<_>>());
            let info = sim.run(async { inside.head("r").await }).unwrap();
            assert_eq!((info.status, info.head), (RunStatus::Finished, 13));
        }
    });
}

fn has_run(sim: &Sim, store: &MemoryStore) -> bool {
    sim.run(async { store.head("r").await }).is_ok()
}

#[test]
fn c10_best_effort_waits_one_second_for_its_store() {
    let sim = Sim::new(1);
    let store = FailingConnection::new(MemoryStore::on(sim.runtime()));
    for (away, expected) in [(900, &["unavailable", "answers"][..]), (5_000, &["unavailable", "lost"])] {
        let events = Log::new();
        let graph = counting(sim.runtime(), &Log::new(), 4);
        let run = graph.run(0).id(format!("run {away}")).checkpoint(&store).best_effort().runtime(sim.runtime());
        let run = listening(run, &events);
        let began = sim.now();
        let outage = async {
            sim.sleep(Duration::from_millis(1_900)).await;
            store.cut();
            sim.sleep(Duration::from_millis(away)).await;
            store.mend();
        };
        let (outcome, ()) = sim.run(futures::future::join(run.into_future(), outage));
        assert_eq!(outcome.unwrap(), 4);
        assert!(sim.now().since(began) < Duration::from_secs(7));
        let events: Vec<String> = events.take().iter().map(|event| event.split(':').next().unwrap().to_string()).collect();
        assert_eq!(events, expected);
    }
}

#[test]
fn c6_wait_for_a_lease_is_logged_and_reported() {
    let logged = logged();
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let graph = counting(sim.runtime(), &Log::new(), 2);
    for (run, seconds, expected) in [("long", 30, &["waits 30 s for old owner"][..]), ("short", 1, &[])] {
        sim.run(async {
            graph.run(0).id(run).runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
            let lease = Lease { owner: "old owner".into(), length: Duration::from_secs(seconds) };
            store.claim(Wanted::One { run: run.into(), force: false }, lease).await.unwrap();
        });
        let events = Log::new();
        let began = sim.now();
        let resumed = listening(graph.resume(run).checkpoint(&store).runtime(sim.runtime()), &events);
        assert_eq!(sim.run(resumed.into_future()).unwrap(), 2);
        assert!(sim.now().since(began) >= Duration::from_secs(seconds));
        assert_eq!(events.take(), expected);
    }
    let mut lines = logged.seen();
    lines.retain(|line| line.contains("run=long") || line.contains("run=short"));
    assert_eq!(lines.len(), 1, "{lines:?}");
    for part in ["WARN", "run=long", "holder=\"old owner\"", "ends_in=30s", "take_over"] {
        assert!(lines[0].contains(part), "{part} in {lines:?}");
    }
}
