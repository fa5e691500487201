//! C6, C11: the lease of a driver: takeover, renewal, expiry and release.
use crate::add_one;
use crate::common::flaky_store::{FlakyStore, WriteFailure};
use crate::faults::{Log, chain, checkpoint_error};
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::sim::Sim;
use pleach::store::{MemoryStore, Store};
use std::sync::Arc;

/// A node that logs its start and never ends.
fn hanging(began: &Log) -> CompiledGraph<u32> {
    let began = began.clone();
    let hang = move |cx: NodeContext, n: u32| {
        let began = began.clone();
        async move {
            began.note(format!("attempt {}", cx.attempt()));
            if n < 10 {
                std::future::pending::<()>().await;
            }
            Ok::<_, String>(n + 1)
        }
    };
    let graph = Graph::new("hanging").add_node("a", add_one).add_node("hang", hang).add_edge("a", "hang").add_edge("hang", END);
    graph.set_entry("a").compile().unwrap()
}

#[test]
fn c6_live_run_is_held_and_a_takeover_fences_its_driver() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let log = Log::new();
    let graph = hanging(&log);
    let outcome = Arc::new(std::sync::Mutex::new(None));
    let first = graph.run(0).id("r").checkpoint(&store).lease(Duration::from_secs(8)).runtime(sim.runtime()).into_future();
    let slot = Arc::clone(&outcome);
    sim.runtime().spawn(Box::pin(async move { *slot.lock().unwrap() = Some(first.await) }));
    sim.advance(Duration::from_secs(20));
    assert_eq!(log.take(), ["attempt 1"]);

    let began = sim.now();
    let second = graph.resume("r").checkpoint(&store).runtime(sim.runtime());
    let error = sim.run(second.into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Held { run, .. } if run == "r"), "{error}");
    assert!(sim.now().since(began) < Duration::from_secs(9), "it waits no longer than one lease");
    assert!(outcome.lock().unwrap().is_none());

    let third = graph.resume("r").take_over().checkpoint(&store).timeout(Duration::from_secs(60)).runtime(sim.runtime());
    let error = sim.run(third.into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Cancelled { .. }), "{error}");
    assert_eq!(log.take(), ["attempt 1"], "the new driver runs the node");
    let first = outcome.lock().unwrap().take();
    assert!(matches!(first, Some(Err(error)) if matches!(error.fault(), RunFault::Fenced { epoch: 1, .. })));
}

#[test]
fn c6_driver_that_cannot_renew_stops_its_nodes_before_the_lease_ends() {
    let sim = Sim::new(1);
    let store = FlakyStore::new(MemoryStore::on(sim.runtime()));
    let log = Log::new();
    store.fail_renewals();
    let began = sim.now();
    let run = hanging(&log).run(0).id("r").checkpoint(&store).lease(Duration::from_secs(8)).runtime(sim.runtime());
    let error = sim.run(run.into_future()).unwrap_err();
    assert_eq!(checkpoint_error(&error).op, "renew");
    let took = sim.now().since(began);
    assert!(took < Duration::from_secs(8) && took >= Duration::from_secs(4), "{took:?}");
}

#[test]
fn c6_resume_waits_until_the_lease_of_a_dead_driver_expires() {
    let sim = Sim::new(1);
    let store = FlakyStore::new(MemoryStore::on(sim.runtime()));
    store.swallow_releases(true);
    store.fail_at(3, WriteFailure::Lost);
    let run = chain().run(0).id("r").checkpoint(&store).lease(Duration::from_secs(8)).runtime(sim.runtime());
    assert!(sim.run(run.into_future()).is_err());
    store.swallow_releases(false);
    let began = sim.now();
    let resumed = chain().resume("r").checkpoint(&store).runtime(sim.runtime());
    assert_eq!(sim.run(resumed.into_future()).unwrap(), 3);
    assert!(sim.now().since(began) >= Duration::from_secs(7));
    let info = sim.run(async { store.head("r").await }).unwrap();
    assert_eq!((info.epoch, info.takeovers), (2, 0));
}

#[test]
fn c6_long_node_keeps_its_lease() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let slow = |cx: NodeContext, n: u32| async move {
        let clock = cx.extension::<Arc<dyn Runtime>>().unwrap().clone();
        clock.sleep_until(clock.now() + Duration::from_secs(3_600)).await;
        Ok::<_, String>(n + 1)
    };
    let graph = Graph::new("slow").add_node("slow", slow).add_edge("slow", END).set_entry("slow").compile().unwrap();
    let run = graph.run(0).id("r").checkpoint(&store).extension(sim.runtime()).runtime(sim.runtime());
    assert_eq!(sim.run(run.into_future()).unwrap(), 1);
    assert_eq!(sim.run(async { store.head("r").await }).unwrap().epoch, 1);
}

/// Counts down to zero and then fails. With `rests`, each step sleeps a little.
fn countdown(clock: Arc<dyn Runtime>, rests: bool) -> CompiledGraph<u64> {
    let step = move |n: u64| {
        let clock = Arc::clone(&clock);
        async move {
            if rests {
                clock.sleep_until(clock.now() + Duration::from_micros(100)).await;
            }
            if n == 0 { Err("enough") } else { Ok(n - 1) }
        }
    };
    let graph = Graph::new("countdown").add_node("step", step).set_entry("step");
    graph.add_conditional_edge("step", ["step", END], |_: &u64| "step").compile().unwrap()
}

#[test]
fn c11_slow_prune_delays_neither_the_next_step_nor_the_release() {
    for (rests, cut_off_after) in [(false, None), (true, None)].into_iter().chain((70..110).map(|at| (true, Some(at * 100)))) {
        let sim = Sim::new(1);
        let store = FlakyStore::new(MemoryStore::on(sim.runtime()));
        store.prune_slowly(sim.runtime());
        let token = sim.token();
        let run = countdown(sim.runtime(), rests).run(200).id("r").checkpoint(&store).keep_records(10);
        let run = run.token(&token).runtime(sim.runtime()).into_future();
        if let Some(micros) = cut_off_after {
            let clock = sim.runtime();
            sim.runtime().spawn(Box::pin(async move {
                clock.sleep_until(clock.now() + Duration::from_micros(micros)).await;
                token.cancel(Cause::Because("enough".into()));
            }));
        }
        let began = sim.now();
        let error = sim.run(run).unwrap_err();
        let took = sim.now().since(began);
        assert!(took < Duration::from_secs(1), "{rests} {cut_off_after:?}: it took {took:?}");
        assert_eq!(matches!(error.fault(), RunFault::Cancelled { .. }), cut_off_after.is_some(), "{error}");
        let info = sim.run(async { store.head("r").await }).unwrap();
        assert_eq!(info.owner, None, "{rests} {cut_off_after:?}");
        assert!(cut_off_after.is_some() || info.oldest > 100, "the oldest record is {}", info.oldest);
    }
}
