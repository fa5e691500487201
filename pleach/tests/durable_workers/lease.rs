//! C6: leases. Only the loser of two drivers is fenced, and a driver that was stopped does nothing
//! outside before it holds its run again.
use crate::common::Log;
use crate::common::failing_connection::FailingConnection;
use crate::common::process::Process;
use crate::common::slow_store::SlowStore;
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::sim::{Sim, explore};
use pleach::store::{MemoryStore, RunStatus, Store};
use pleach::worker::{RunEnd, Worker, WorkerEvent};
use std::sync::Arc;

pub(crate) const LEASE: Duration = Duration::from_secs(1);

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Counts to `last`, with an effect and a random wait at each step.
pub(crate) fn counting(clock: Arc<dyn Runtime>, outside: &Log<String>, last: u32) -> CompiledGraph<u32> {
    crate::common::counting::counting(clock, outside, last, |clock| millis(clock.random() % 400))
}

#[test]
fn c6_slow_answers_never_fence_the_only_driver() {
    explore(0..1_000, |sim| {
        let mut store = SlowStore::new(MemoryStore::on(sim.runtime()), sim.runtime(), millis(20));
        store.commit_wait = millis(300);
        let graph = counting(sim.runtime(), &Log::new(), 3);
        let run = graph.run(0).id("r").checkpoint(&store).lease(LEASE).runtime(sim.runtime());
        assert_eq!(sim.run(run.into_future()).unwrap(), 3);
        let info = sim.run(async { store.head("r").await }).unwrap();
        assert_eq!((info.status, info.epoch), (RunStatus::Finished, 1));
    });
}

#[test]
fn c6_only_driver_is_never_fenced_however_slow_the_store_is() {
    explore(0..500, |sim| {
        let wait = millis(50 + sim.runtime().random() % 800);
        let store = SlowStore::new(MemoryStore::on(sim.runtime()), sim.runtime(), wait);
        let graph = counting(sim.runtime(), &Log::new(), 3);
        let mut outcome = sim.run(graph.run(0).id("r").checkpoint(&store).lease(LEASE).runtime(sim.runtime()).into_future());
        for _ in 0..100 {
            let Err(error) = &outcome else { break };
            // A store that is too slow for the lease counts as unavailable.
            assert!(matches!(error.fault(), RunFault::Checkpoint(_)), "{error}");
            outcome = sim.run(graph.resume("r").checkpoint(&store).lease(LEASE).runtime(sim.runtime()).into_future());
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
        let worker = Worker::new(&store).graph(&graph).lease(LEASE).on_event(listen).runtime(sim.runtime()).start().unwrap();
        sim.run(async {
            for run in 0..4 {
                let run = graph.run(0).id(format!("run {run}")).runtime(sim.runtime());
                run.checkpoint(&store).enqueue().await.unwrap();
            }
            for run in 0..4 {
                assert_eq!(graph.outcome_of(format!("run {run}"), &store).runtime(sim.runtime()).await.unwrap(), 3);
            }
            worker.close(Duration::from_secs(60)).await;
        });
        assert_eq!(ends.take(), vec![RunEnd::Finished; 4]);
    });
}

#[test]
fn c6_stopped_driver_repeats_no_effect_of_its_successor() {
    explore(0..500, |sim| {
        let store = MemoryStore::on(sim.runtime());
        let process = Process::new(sim.runtime());
        let outside = Log::new();
        let graph = counting(process.runtime(), &outside, 6);
        let successor = counting(sim.runtime(), &outside, 6);
        let first = graph.run(0).id("r").checkpoint(&store).lease(LEASE).runtime(process.runtime());
        let outcome = Arc::new(std::sync::Mutex::new(None));
        let end = Arc::clone(&outcome);
        process.runtime().spawn(Box::pin(async move { *end.lock().unwrap() = Some(first.await) }));
        sim.run(async {
            sim.sleep(millis(sim.runtime().random() % 1_500)).await;
            process.stop();
            let resumed = successor.resume("r").checkpoint(&store).lease(LEASE).runtime(sim.runtime()).await;
            let status = store.head("r").await.unwrap().status;
            process.continue_now();
            assert!(
                status == RunStatus::Finished
                    || matches!(resumed, Err(ref error) if error.to_string().contains("does not exist"))
            );
        });
        sim.advance(Duration::from_secs(10));
        // An effect that was interrupted before its record may repeat. A recorded one does not, and
        // the order is kept.
        let done = outside.take();
        let mut in_order = done.clone();
        in_order.dedup();
        assert_eq!(in_order, ["0", "1", "2", "3", "4", "5"], "{done:?}");
        assert!(done.len() <= 7, "{done:?}");
        let outcome = outcome.lock().unwrap().take().expect("the stopped driver ends");
        assert!(outcome.is_ok() || matches!(outcome.unwrap_err().fault(), RunFault::Fenced { .. }));
    });
}

#[test]
fn c6_stopped_driver_polls_no_node_before_it_has_renewed() {
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
    let run = slow(process.runtime(), &stopped).run(0).id("r").checkpoint(&store).lease(LEASE).runtime(process.runtime());
    let resumed = async {
        sim.sleep(millis(500)).await;
        process.stop();
        let graph = slow(sim.runtime(), &successor);
        let outcome = graph.resume("r").checkpoint(&store).runtime(sim.runtime()).await;
        process.continue_now();
        outcome
    };
    let (first, second) = sim.run(futures::future::join(process.task(run.into_future()), resumed));
    assert!(matches!(first.unwrap_err().fault(), RunFault::Fenced { .. }));
    assert_eq!((second.unwrap(), successor.len(), stopped.len()), (1, 1, 0));
}

#[test]
fn c6_stopped_worker_repeats_no_effect_of_its_successor() {
    explore(0..300, |sim| {
        let store = MemoryStore::on(sim.runtime());
        let process = Process::new(sim.runtime());
        let outside = Log::new();
        let (graph, successor) = (counting(process.runtime(), &outside, 6), counting(sim.runtime(), &outside, 6));
        let first = Worker::new(&store).graph(&graph).lease(LEASE).runtime(process.runtime()).start().unwrap();
        sim.run(async {
            graph.run(0).id("r").runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
            sim.sleep(millis(sim.runtime().random() % 1_500)).await;
            process.stop();
            let second = Worker::new(&store).graph(&successor).lease(LEASE).runtime(sim.runtime()).start().unwrap();
            assert_eq!(graph.outcome_of("r", &store).runtime(sim.runtime()).await.unwrap(), 6);
            process.continue_now();
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
fn c6_suspended_driver_renews_and_continues_if_its_run_is_unclaimed() {
    for suspended in [false, true] {
        explore(0..200, |sim| {
            let store = MemoryStore::on(sim.runtime());
            let process = Process::new(sim.runtime());
            let outside = Log::new();
            let graph = counting(process.runtime(), &outside, 6);
            let run = graph.run(0).id("r").checkpoint(&store).lease(LEASE).runtime(process.runtime());
            let interruption = async {
                sim.sleep(millis(sim.runtime().random() % 1_000)).await;
                match suspended {
                    true => process.suspend(Duration::from_secs(5)).await,
                    false => {
                        process.stop();
                        sim.sleep(Duration::from_secs(5)).await;
                        process.continue_now();
                    }
                }
            };
            let (outcome, ()) = sim.run(futures::future::join(process.task(run.into_future()), interruption));
            assert_eq!(outcome.unwrap(), 6);
            assert_eq!(outside.take(), ["0", "1", "2", "3", "4", "5"]);
            assert_eq!(sim.run(async { store.head("r").await }).unwrap().epoch, 1);
        });
    }
}

/// Counts the renewals of a run of ten seconds. With `sets_clock`, the clock of its process is set
/// forward by an hour.
fn renewals(sets_clock: bool) -> u64 {
    let sim = Sim::new(1);
    let store = FailingConnection::new(MemoryStore::on(sim.runtime()));
    let process = Process::new(sim.runtime());
    let graph = counting(process.runtime(), &Log::new(), 50);
    let run = graph.run(0).id("r").checkpoint(&store).lease(LEASE).runtime(process.runtime());
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
fn c6_clock_set_forward_costs_at_most_one_renewal() {
    let (set, unset) = (renewals(true), renewals(false));
    assert!(set.abs_diff(unset) <= 1, "{set} and {unset}");
}
