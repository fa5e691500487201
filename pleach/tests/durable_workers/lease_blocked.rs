//! C6: drivers whose nodes block their thread, and leases that are lost meanwhile.
use crate::common::Log;
use crate::common::failing_connection::FailingConnection;
use crate::common::process::Process;
use crate::common::slow_store::SlowStore;
use crate::lease::{LEASE, counting, millis};
use pleach::graph::FanOut;
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::sim::{Sim, explore};
use pleach::store::{Lease, MemoryStore, RunStatus, Store, Wanted};
use pleach::worker::{RunEnd, Worker, WorkerEvent};
use std::sync::Arc;

#[test]
fn c6_node_that_blocks_past_the_lease_is_not_blamed_on_the_store() {
    // A node that blocks: the clock advances during one poll.
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
    let run = graph.run(0).id("r").checkpoint(&store).lease(LEASE).runtime(process.runtime());
    assert_eq!(sim.run(process.task(run.into_future())).unwrap(), 1);
    assert_eq!(outside.take(), ["after"]);

    // If the store is unavailable at that moment, the error names both.
    let store = FailingConnection::new(store);
    let (connection, waits) = (store.clone(), process.clone());
    let node = move |n: u32| {
        let (connection, process) = (connection.clone(), waits.clone());
        async move {
            connection.cut();
            process.set_forward(Duration::from_secs(60));
            process.sleep_until(process.now() + Duration::from_secs(60)).await;
            Ok::<_, String>(n)
        }
    };
    let graph = Graph::new("blocks").add_node("node", node).add_edge("node", END).set_entry("node").compile().unwrap();
    let run = graph.run(0).id("s").checkpoint(&store).lease(LEASE).runtime(process.runtime());
    let error = sim.run(process.task(run.into_future())).unwrap_err().to_string();
    assert!(error.contains("was not polled for 60") && error.contains("no connection to the store"), "{error}");
}

#[test]
fn c6_no_effect_starts_in_a_blocked_node_whose_run_was_taken() {
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
        let run = graph.run(0).id("r").checkpoint(&store).lease(LEASE).runtime(process.runtime());
        let error = sim.run(process.task(run.into_future())).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Fenced { .. }), "{error}");
        assert_eq!(outside.take(), Vec::<String>::new());
        let info = sim.run(async { store.head("r").await }).unwrap();
        assert_eq!(info.head, 1, "nothing was written");
    }
}

#[test]
fn c6_no_node_starts_after_a_blocked_node_whose_run_was_taken() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let process = Process::new(sim.runtime());
    let (starts, blocks) = (Log::<String>::new(), process.clone());
    let (first, second) = (starts.clone(), starts.clone());
    let taken = store.clone();
    // Two branches in one poll: the first blocks, the second must not start.
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
    let run = graph.run(0).id("r").checkpoint(&store).lease(LEASE).runtime(process.runtime());
    let error = sim.run(process.task(run.into_future())).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Fenced { .. }), "{error}");
    assert_eq!(starts.take(), ["first"]);
}

#[test]
fn c6_driver_of_a_deleted_run_writes_nothing_into_a_new_run() {
    explore(0..300, |sim| {
        let inside = MemoryStore::on(sim.runtime());
        let store = SlowStore::new(inside.clone(), sim.runtime(), millis(100));
        let process = Process::new(sim.runtime());
        let graph = counting(process.runtime(), &Log::new(), 1_000);
        let old = graph.run(0).id("r").checkpoint(&store).lease(LEASE).max_iterations(2_000).runtime(process.runtime());
        let outcome = Arc::new(std::sync::Mutex::new(None));
        let end = Arc::clone(&outcome);
        process.runtime().spawn(Box::pin(async move { *end.lock().unwrap() = Some(old.await) }));
        sim.run(async {
            sim.sleep(millis(1_000 + sim.runtime().random() % 1_000)).await;
            process.stop();
            sim.sleep(Duration::from_secs(2)).await;
            inside.delete("r").await.unwrap();
            let outside = Log::new();
            let successor = counting(sim.runtime(), &outside, 6);
            let new = successor.run(0).id("r").checkpoint(&inside).lease(LEASE).runtime(sim.runtime());
            let back = async {
                sim.sleep(millis(sim.runtime().random() % 500)).await;
                process.continue_now();
            };
            let (outcome, ()) = futures::future::join(new.into_future(), back).await;
            assert_eq!(outcome.unwrap(), 6);
            assert_eq!(outside.take(), ["0", "1", "2", "3", "4", "5"]);
            // The start, and for each step its effect and its state.
            let info = inside.head("r").await.unwrap();
            assert_eq!((info.head, info.status, info.epoch), (13, RunStatus::Finished, 1));
        });
        sim.advance(Duration::from_secs(10));
        let outcome = outcome.lock().unwrap().take().expect("the old driver ends").unwrap_err();
        assert!(matches!(outcome.fault(), RunFault::Fenced { .. }), "{outcome}");
    });
}

#[test]
fn c6_error_names_a_locked_row_that_prevented_a_renewal() {
    explore(0..10, |sim| {
        let store = FailingConnection::new(MemoryStore::on(sim.runtime()));
        let clock = sim.runtime();
        let graph = counting(sim.runtime(), &Log::new(), 30);
        store.keep_busy();
        let alone = sim.run(graph.run(0).id("alone").checkpoint(&store).lease(LEASE).runtime(sim.runtime()).into_future());
        let error = alone.unwrap_err().to_string();
        assert!(error.contains("another client keeps its row locked"), "{error}");
        let ends = Log::<String>::new();
        let seen = ends.clone();
        let listen = move |event: &WorkerEvent| match event {
            WorkerEvent::Ended { end: RunEnd::Trouble { error, .. }, .. } => seen.note(error),
            WorkerEvent::Delayed { .. } => seen.note("blamed"),
            _ => {}
        };
        let worker = Worker::new(&store).graph(&graph).lease(LEASE).on_event(listen).runtime(sim.runtime()).start().unwrap();
        sim.run(async {
            graph.run(0).id("w").checkpoint(&store).runtime(sim.runtime()).enqueue().await.unwrap();
            clock.sleep_until(clock.now() + millis(1_500)).await;
            drop(worker);
        });
        let ends = ends.take();
        assert!(!ends.is_empty() && ends.iter().all(|end| end.contains("another client keeps its row locked")), "{ends:?}");
    });
}
