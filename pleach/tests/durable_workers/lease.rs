//! C6: leases. Only the loser of two drivers is told that it lost, and a driver that was away does nothing outside before it holds its run again.
#![cfg(feature = "graph")]

use crate::common::Log;
use crate::common::mortal::MortalStore;
use crate::common::process::Process;
use crate::common::slow::SlowStore;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::store::{Lease, MemoryStore, RunStatus, Store, Wanted};
use pleach::{FanOut, RunEnd, Runtime, Worker, WorkerEvent};
use std::sync::Arc;

const LEASE: Duration = Duration::from_secs(1);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Counts to `last`, with an effect and a random wait at each step.
fn counting(clock: Arc<dyn Runtime>, outside: &Log<String>, last: u32) -> CompiledGraph<u32> {
    crate::common::counting::counting(clock, outside, last, |clock| millis(clock.random() % 400))
}

#[test]
fn c6_slow_answers_never_fence_the_only_driver() {
    explore(0..1_000, |sim| {
        let mut store = SlowStore::new(MemoryStore::on(sim.runtime()), sim.runtime(), millis(20));
        store.commit_wait = millis(300);
        let graph = counting(sim.runtime(), &Log::new(), 3);
        let run = graph.run(0).id("r").checkpoint(&store).lease(LEASE).on(sim.runtime());
        assert_eq!(sim.run(run.into_future()).unwrap(), 3);
        let info = sim.run(async { store.head("r").await }).unwrap();
        assert_eq!((info.status, info.epoch), (RunStatus::Finished, 1));
    });
}

#[test]
fn c6_the_only_driver_is_never_fenced_however_slow_the_store_is() {
    explore(0..500, |sim| {
        let wait = millis(50 + sim.runtime().random() % 800);
        let store = SlowStore::new(MemoryStore::on(sim.runtime()), sim.runtime(), wait);
        let graph = counting(sim.runtime(), &Log::new(), 3);
        let mut outcome = sim.run(graph.run(0).id("r").checkpoint(&store).lease(LEASE).on(sim.runtime()).into_future());
        for _ in 0..100 {
            let Err(error) = &outcome else { break };
            // A store that is too slow for the lease is not available. It is nobody's fault but its own.
            assert!(matches!(error.fault(), RunFault::Checkpoint(_)), "{error}");
            outcome = sim.run(graph.resume("r").checkpoint(&store).lease(LEASE).on(sim.runtime()).into_future());
        }
        assert!(wait > millis(250) || outcome.unwrap() == 3);
    });
}

#[test]
fn c6_slow_answers_never_fence_the_runs_of_the_only_worker() {
    explore(0..300, |sim| {
        let mut store = SlowStore::new(MemoryStore::on(sim.runtime()), sim.runtime(), millis(20));
        store.commit_wait = millis(300);
        let graph = counting(sim.runtime(), &Log::new(), 3);
        let ends = Log::<RunEnd>::new();
        let seen = ends.clone();
        let listen = move |event: &WorkerEvent| {
            if let WorkerEvent::Ended { end, .. } = event {
                seen.push(end.clone());
            }
        };
        let worker = Worker::new(&store).graph(&graph).lease(LEASE).on_event(listen).on(sim.runtime()).start().unwrap();
        sim.run(async {
            for run in 0..4 {
                let run = graph.run(0).id(format!("run {run}")).on(sim.runtime());
                run.checkpoint(&store).enqueue().await.unwrap();
            }
            for run in 0..4 {
                assert_eq!(graph.outcome_of(format!("run {run}"), &store).on(sim.runtime()).await.unwrap(), 3);
            }
            worker.close(Duration::from_secs(60)).await;
        });
        assert_eq!(ends.take(), vec![RunEnd::Finished; 4]);
    });
}

#[test]
fn c6_a_stopped_driver_repeats_no_effect_of_its_successor() {
    explore(0..500, |sim| {
        let store = MemoryStore::on(sim.runtime());
        let process = Process::new(sim.runtime());
        let outside = Log::new();
        let graph = counting(process.runtime(), &outside, 6);
        let successor = counting(sim.runtime(), &outside, 6);
        let first = graph.run(0).id("r").checkpoint(&store).lease(LEASE).on(process.runtime());
        let told = Arc::new(std::sync::Mutex::new(None));
        let end = Arc::clone(&told);
        process.runtime().spawn(Box::pin(async move { *end.lock().unwrap() = Some(first.await) }));
        sim.run(async {
            sim.sleep(millis(sim.runtime().random() % 1_500)).await;
            process.stop();
            let resumed = successor.resume("r").checkpoint(&store).lease(LEASE).on(sim.runtime()).await;
            let status = store.head("r").await.unwrap().status;
            process.go_on();
            assert!(status == RunStatus::Finished || matches!(resumed, Err(ref error) if error.to_string().contains("no run")));
        });
        sim.advance(Duration::from_secs(10));
        // An effect that was cut off before it was recorded is done twice; one that was recorded is not, and nothing is out of order.
        let done = outside.take();
        let mut in_order = done.clone();
        in_order.dedup();
        assert_eq!(in_order, ["0", "1", "2", "3", "4", "5"], "{done:?}");
        assert!(done.len() <= 7, "{done:?}");
        let told = told.lock().unwrap().take().expect("the stopped driver ends");
        assert!(told.is_ok() || matches!(told.unwrap_err().fault(), RunFault::Fenced { .. }));
    });
}

#[test]
fn c6_a_stopped_driver_polls_no_node_before_it_has_renewed() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let process = Process::new(sim.runtime());
    let slow = |clock: Arc<dyn Runtime>, log: &Log<String>| {
        let log = log.clone();
        let node = move |n: u32| {
            let (clock, log) = (Arc::clone(&clock), log.clone());
            async move {
                clock.sleep_until(clock.now() + Duration::from_secs(3)).await;
                log.note("polled");
                Ok::<_, String>(n + 1)
            }
        };
        Graph::new("slow").add_node("slow", node).add_edge("slow", END).set_entry("slow").compile().unwrap()
    };
    let (stopped, successor) = (Log::new(), Log::new());
    let run = slow(process.runtime(), &stopped).run(0).id("r").checkpoint(&store).lease(LEASE).on(process.runtime());
    let resumed = async {
        sim.sleep(millis(500)).await;
        process.stop();
        let graph = slow(sim.runtime(), &successor);
        let outcome = graph.resume("r").checkpoint(&store).on(sim.runtime()).await;
        process.go_on();
        outcome
    };
    let (first, second) = sim.run(futures::future::join(process.task(run.into_future()), resumed));
    assert!(matches!(first.unwrap_err().fault(), RunFault::Fenced { .. }));
    assert_eq!((second.unwrap(), successor.len(), stopped.len()), (1, 1, 0));
}

#[test]
fn c6_a_stopped_worker_repeats_no_effect_of_its_successor() {
    explore(0..300, |sim| {
        let store = MemoryStore::on(sim.runtime());
        let process = Process::new(sim.runtime());
        let outside = Log::new();
        let (graph, successor) = (counting(process.runtime(), &outside, 6), counting(sim.runtime(), &outside, 6));
        let first = Worker::new(&store).graph(&graph).lease(LEASE).on(process.runtime()).start().unwrap();
        sim.run(async {
            graph.run(0).id("r").on(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
            sim.sleep(millis(sim.runtime().random() % 1_500)).await;
            process.stop();
            let second = Worker::new(&store).graph(&successor).lease(LEASE).on(sim.runtime()).start().unwrap();
            assert_eq!(graph.outcome_of("r", &store).on(sim.runtime()).await.unwrap(), 6);
            process.go_on();
            sim.sleep(Duration::from_secs(10)).await;
            drop(second);
        });
        let done = outside.take();
        let mut in_order = done.clone();
        in_order.dedup();
        assert_eq!(in_order, ["0", "1", "2", "3", "4", "5"], "{done:?}");
        assert_eq!(first.held(), Vec::<String>::new());
    });
}

#[test]
fn c6_a_driver_that_was_suspended_renews_and_goes_on_if_nobody_claimed_its_run() {
    for suspended in [false, true] {
        explore(0..200, |sim| {
            let store = MemoryStore::on(sim.runtime());
            let process = Process::new(sim.runtime());
            let outside = Log::new();
            let graph = counting(process.runtime(), &outside, 6);
            let run = graph.run(0).id("r").checkpoint(&store).lease(LEASE).on(process.runtime());
            let away = async {
                sim.sleep(millis(sim.runtime().random() % 1_000)).await;
                match suspended {
                    true => process.suspend(Duration::from_secs(5)).await,
                    false => {
                        process.stop();
                        sim.sleep(Duration::from_secs(5)).await;
                        process.go_on();
                    }
                }
            };
            let (outcome, ()) = sim.run(futures::future::join(process.task(run.into_future()), away));
            assert_eq!(outcome.unwrap(), 6);
            assert_eq!(outside.take(), ["0", "1", "2", "3", "4", "5"]);
            assert_eq!(sim.run(async { store.head("r").await }).unwrap().epoch, 1);
        });
    }
}

/// Counts the renewals of a run of ten seconds, whose process sets its clock forward by an hour if asked to.
fn renewals(sets_clock: bool) -> u64 {
    let sim = Sim::new(1);
    let store = MortalStore::new(MemoryStore::on(sim.runtime()));
    let process = Process::new(sim.runtime());
    let graph = counting(process.runtime(), &Log::new(), 50);
    let run = graph.run(0).id("r").checkpoint(&store).lease(LEASE).on(process.runtime());
    let step = async {
        sim.sleep(millis(2_100)).await;
        if sets_clock {
            process.set_forward(Duration::from_secs(3_600));
        }
    };
    let (outcome, ()) = sim.run(futures::future::join(process.task(run.into_future()), step));
    assert_eq!(outcome.unwrap(), 50);
    store.renewals.load(std::sync::atomic::Ordering::SeqCst)
}

#[test]
fn c6_a_clock_set_forward_costs_one_renewal() {
    let (set, unset) = (renewals(true), renewals(false));
    assert!(set.abs_diff(unset) <= 1, "{set} and {unset}");
}

#[test]
fn c6_a_node_that_blocks_its_thread_past_the_lease_is_no_fault_of_the_store() {
    // A node that blocks: the clock moves on while it is polled.
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let process = Process::new(sim.runtime());
    let blocks = process.clone();
    let outside = Log::new();
    let happens = outside.clone();
    let node = move |cx: NodeContext, n: u32| {
        let (process, outside) = (blocks.clone(), happens.clone());
        async move {
            process.set_forward(Duration::from_secs(60));
            let happened = cx.effect("after", move |_| async move {
                outside.note("after");
                Ok::<_, String>(n + 1)
            });
            happened.await
        }
    };
    let graph = Graph::new("blocks").add_node("node", node).add_edge("node", END).set_entry("node").compile().unwrap();
    let run = graph.run(0).id("r").checkpoint(&store).lease(LEASE).on(process.runtime());
    assert_eq!(sim.run(process.task(run.into_future())).unwrap(), 1);
    assert_eq!(outside.take(), ["after"]);

    // If the store is away at that moment, the error names both.
    let store = MortalStore::new(store);
    let (way, waits) = (store.clone(), process.clone());
    let node = move |n: u32| {
        let (way, process) = (way.clone(), waits.clone());
        async move {
            way.cut();
            process.set_forward(Duration::from_secs(60));
            process.sleep_until(process.now() + Duration::from_secs(60)).await;
            Ok::<_, String>(n)
        }
    };
    let graph = Graph::new("blocks").add_node("node", node).add_edge("node", END).set_entry("node").compile().unwrap();
    let run = graph.run(0).id("s").checkpoint(&store).lease(LEASE).on(process.runtime());
    let error = sim.run(process.task(run.into_future())).unwrap_err().to_string();
    assert!(error.contains("was not polled for 60") && error.contains("no way to the store"), "{error}");
}

#[test]
fn c6_no_effect_starts_in_a_node_that_was_blocked_while_its_run_was_taken() {
    for once in [false, true] {
        let sim = Sim::new(1);
        let store = MemoryStore::on(sim.runtime());
        let process = Process::new(sim.runtime());
        let (outside, blocks, taken) = (Log::new(), process.clone(), store.clone());
        let happens = outside.clone();
        let node = move |cx: NodeContext, n: u32| {
            let (process, outside, store) = (blocks.clone(), happens.clone(), taken.clone());
            async move {
                // All of this is one poll: the node blocks its thread for a minute.
                let lease = Lease { owner: "other".into(), length: Duration::from_secs(60) };
                store.claim(Wanted::One { run: "r".into(), force: true }, lease).await.unwrap();
                process.set_forward(Duration::from_secs(60));
                let effect = cx.effect("after", move |_| async move {
                    outside.note("after");
                    Ok::<_, String>(n + 1)
                });
                if once { effect.once().await } else { effect.await }
            }
        };
        let graph = Graph::new("blocks").add_node("node", node).add_edge("node", END).set_entry("node").compile().unwrap();
        let run = graph.run(0).id("r").checkpoint(&store).lease(LEASE).on(process.runtime());
        let error = sim.run(process.task(run.into_future())).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Fenced { .. }), "{error}");
        assert_eq!(outside.take(), Vec::<String>::new());
        let info = sim.run(async { store.head("r").await }).unwrap();
        assert_eq!(info.head, 1, "nothing was written");
    }
}

#[test]
fn c6_no_node_starts_after_a_node_that_blocked_while_its_run_was_taken() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let process = Process::new(sim.runtime());
    let (starts, blocks) = (Log::<String>::new(), process.clone());
    let (first, second) = (starts.clone(), starts.clone());
    let taken = store.clone();
    // Two branches of one poll: the first blocks, the second must not start.
    let block = move |n: u32| {
        let (process, starts, store) = (blocks.clone(), first.clone(), taken.clone());
        async move {
            starts.note("first");
            let lease = Lease { owner: "other".into(), length: Duration::from_secs(60) };
            store.claim(Wanted::One { run: "r".into(), force: true }, lease).await.unwrap();
            process.set_forward(Duration::from_secs(60));
            Ok::<_, String>(n)
        }
    };
    let follow = move |n: u32| {
        second.note("second");
        async move { Ok::<_, String>(n) }
    };
    let graph = Graph::new("branches")
        .add_node("start", |n: u32| async move { Ok::<_, String>(n) })
        .add_node("block", block)
        .add_node("follow", follow)
        .add_parallel_edge("start", ["block", "follow"], END, FanOut::merge(|n: u32, _| n))
        .add_edge("block", END)
        .add_edge("follow", END)
        .set_entry("start")
        .compile()
        .unwrap();
    let run = graph.run(0).id("r").checkpoint(&store).lease(LEASE).on(process.runtime());
    let error = sim.run(process.task(run.into_future())).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Fenced { .. }), "{error}");
    assert_eq!(starts.take(), ["first"]);
}

#[test]
fn c6_a_driver_of_a_deleted_run_writes_nothing_into_a_new_run_of_the_same_id() {
    explore(0..300, |sim| {
        let inside = MemoryStore::on(sim.runtime());
        let store = SlowStore::new(inside.clone(), sim.runtime(), millis(100));
        let process = Process::new(sim.runtime());
        let graph = counting(process.runtime(), &Log::new(), 1_000);
        let old = graph.run(0).id("r").checkpoint(&store).lease(LEASE).max_iterations(2_000).on(process.runtime());
        let told = Arc::new(std::sync::Mutex::new(None));
        let end = Arc::clone(&told);
        process.runtime().spawn(Box::pin(async move { *end.lock().unwrap() = Some(old.await) }));
        sim.run(async {
            sim.sleep(millis(1_000 + sim.runtime().random() % 1_000)).await;
            process.stop();
            sim.sleep(Duration::from_secs(2)).await;
            inside.delete("r").await.unwrap();
            let outside = Log::new();
            let successor = counting(sim.runtime(), &outside, 6);
            let new = successor.run(0).id("r").checkpoint(&inside).lease(LEASE).on(sim.runtime());
            let back = async {
                sim.sleep(millis(sim.runtime().random() % 500)).await;
                process.go_on();
            };
            let (outcome, ()) = futures::future::join(new.into_future(), back).await;
            assert_eq!(outcome.unwrap(), 6);
            assert_eq!(outside.take(), ["0", "1", "2", "3", "4", "5"]);
            // Start, and for each step its effect and its state.
            let info = inside.head("r").await.unwrap();
            assert_eq!((info.head, info.status, info.epoch), (13, RunStatus::Finished, 1));
        });
        sim.advance(Duration::from_secs(10));
        let told = told.lock().unwrap().take().expect("the old driver ends").unwrap_err();
        assert!(matches!(told.fault(), RunFault::Fenced { .. }), "{told}");
    });
}

#[test]
fn c6_a_lease_that_a_locked_row_kept_from_being_renewed_is_told_so() {
    explore(0..10, |sim| {
        let store = MortalStore::new(MemoryStore::on(sim.runtime()));
        let clock = sim.runtime();
        let graph = counting(sim.runtime(), &Log::new(), 30);
        store.keep_busy();
        let alone = sim.run(graph.run(0).id("alone").checkpoint(&store).lease(LEASE).on(sim.runtime()).into_future());
        let error = alone.unwrap_err().to_string();
        assert!(error.contains("another client keeps its row locked"), "{error}");
        let ends = Log::<String>::new();
        let seen = ends.clone();
        let listen = move |event: &WorkerEvent| match event {
            WorkerEvent::Ended { end: RunEnd::Trouble { error, .. }, .. } => seen.note(error),
            WorkerEvent::Rests { .. } => seen.note("blamed"),
            _ => {}
        };
        let worker = Worker::new(&store).graph(&graph).lease(LEASE).on_event(listen).on(sim.runtime()).start().unwrap();
        sim.run(async {
            graph.run(0).id("w").checkpoint(&store).on(sim.runtime()).enqueue().await.unwrap();
            clock.sleep_until(clock.now() + millis(1_500)).await;
            drop(worker);
        });
        let ends = ends.take();
        assert!(!ends.is_empty() && ends.iter().all(|end| end.contains("another client keeps its row locked")), "{ends:?}");
    });
}
