//! C16: the deadline of a stored run is stored, counts across drivers, and ends the run
//! permanently.
use crate::common::Log;
use crate::common::slow_store::SlowStore;
use crate::common::stored::{Names, StoredRunFixture, named};
use pleach::durable::RunRemote;
use pleach::graph::{Policy, Retry};
use pleach::prelude::*;
use pleach::sim::explore;
use pleach::store::{Kind, MemoryStore, RunStatus, Store, Timestamp};
use pleach::worker::{RunEnd, Worker, WorkerEvent};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// `a`, then `b`.
fn two() -> CompiledGraph<Names> {
    let graph = Graph::new("two").add_node("a", named("a")).add_node("b", named("b"));
    graph.add_edge("a", "b").add_edge("b", END).set_entry("a").compile().unwrap()
}

fn is_overdue<T>(outcome: &Result<T, RunError<T>>) -> bool {
    let Err(error) = outcome else { return false };
    matches!(error.fault(), RunFault::Cancelled { cause: Cause::DeadlineExceeded, .. })
}

#[test]
fn c16_deadline_counts_across_drivers_and_ends_the_run() {
    let (fixture, graph) = (StoredRunFixture::new(1), two());
    fixture.nodes.hang(&["b"]);
    let began = fixture.sim.now();
    // The driver is cancelled from above: the run stays open.
    let cut_off = fixture.cut_off_after(fixture.run(&graph, vec![]).timeout(seconds(100)), seconds(40));
    assert!(is_overdue(&fixture.end(cut_off)));
    assert_eq!(fixture.info("r").status, RunStatus::Running);
    assert_eq!(fixture.info("r").deadline, Some(Timestamp::from_millis(100_000)));
    // The first deadline counts.
    let resumed = fixture.resume(&graph, |run| run).timeout(seconds(1_000));
    assert!(is_overdue(&fixture.end(resumed)));
    assert_eq!(fixture.sim.now().since(began), seconds(100));
    let info = fixture.info("r");
    assert_eq!((info.status, info.owner, info.wake_at), (RunStatus::Cancelled, None, None));
    assert_eq!(fixture.rows("r").last().unwrap().open_header("r").unwrap().kind, Kind::End);
    // The run has ended permanently, and its outcome names the reason.
    let error = fixture.end(fixture.resume(&graph, |run| run)).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Ended { status: RunStatus::Cancelled, .. }), "{error}");
    let outcome = fixture.sim.run(graph.outcome_of("r", &fixture.store).runtime(fixture.sim.runtime()).into_future());
    let error = outcome.unwrap_err();
    let RunFault::Cancelled { node, cause: Cause::DeadlineExceeded, was_executing: true, .. } = error.fault() else {
        panic!("{error}")
    };
    assert_eq!(node, "b");
}

#[test]
fn c16_rewind_replay_new_state_and_fork_start_a_new_deadline() {
    type How = fn(pleach::durable::Resume<Names>) -> pleach::durable::Resume<Names>;
    let cases: [(How, &str); 4] = [
        (|run| run.rewind_to(1), "r"),
        (|run| run.replay_last(), "r"),
        (|run| run.rewind_to(2).with_state(|names| names), "r"),
        (|run| run.rewind_to(1).fork_as("f"), "f"),
    ];
    for (how, id) in cases {
        for timeout in [None, Some(seconds(500))] {
            let (fixture, graph) = (StoredRunFixture::new(1), two());
            fixture.nodes.hang(&["b"]);
            assert!(is_overdue(&fixture.end(fixture.run(&graph, vec![]).timeout(seconds(10)))));
            let now = fixture.sim.now();
            let resumed = fixture.resume(&graph, how);
            let resumed = timeout.map_or(fixture.resume(&graph, how), |timeout| resumed.timeout(timeout));
            fixture.leave(resumed);
            assert_eq!(fixture.sim.now().since(now), seconds(60), "the old deadline no longer applies");
            let due = timeout.map(|timeout| Timestamp::default().after(now.since_start() + timeout));
            assert_eq!(fixture.info(id).deadline, due, "{id}");
            fixture.nodes.hang(&[]);
            let resumed = fixture.here(graph.resume(id.to_string()).checkpoint(&fixture.store));
            assert_eq!(fixture.end(resumed).unwrap().last().unwrap(), "b");
        }
    }
}

#[test]
fn c16_deadline_of_a_resume_is_stored_with_its_first_commit() {
    let (fixture, graph) = (StoredRunFixture::new(1), two());
    fixture.nodes.hang(&["a"]);
    fixture.leave(fixture.run(&graph, vec![]));
    assert_eq!(fixture.info("r").deadline, None);
    // Without a commit nothing is stored.
    fixture.leave(fixture.resume(&graph, |run| run).timeout(seconds(300)));
    assert_eq!(fixture.info("r").deadline, None);
    fixture.nodes.hang(&["b"]);
    let now = fixture.sim.now();
    fixture.leave(fixture.resume(&graph, |run| run).timeout(seconds(300)));
    assert_eq!(fixture.info("r").deadline, Some(Timestamp::default().after(now.since_start() + seconds(300))));
}

#[test]
fn c16_worker_ends_overdue_runs_and_does_not_restart_them() {
    explore(0..50, |sim| {
        let store = MemoryStore::on(sim.runtime());
        let starts = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&starts);
        let wait = move |_: u32| {
            counted.fetch_add(1, SeqCst);
            std::future::pending::<Result<u32, String>>()
        };
        let graph = Graph::new("wait").add_node("wait", wait).add_edge("wait", END).set_entry("wait").compile().unwrap();
        let ends = Log::<RunEnd>::new();
        let seen = ends.clone();
        let listen = move |event: &WorkerEvent| {
            if let WorkerEvent::Ended { end, .. } = event {
                seen.push(end.clone());
            }
        };
        let worker = || Worker::new(&store).graph_with(&graph, |run| run.timeout(seconds(20))).runtime(sim.runtime());
        let worker = worker().on_event(listen).start().unwrap();
        sim.run(async {
            // One run has its own deadline, the other gets that of the worker.
            for (run, timeout) in [("own", Some(seconds(50))), ("none", None)] {
                let run = graph.run(0).id(run).runtime(sim.runtime()).checkpoint(&store);
                let run = timeout.into_iter().fold(run, |run, timeout| run.timeout(timeout));
                run.enqueue().await.unwrap();
            }
            sim.sleep(seconds(30)).await;
            assert_eq!(store.head("none").await.unwrap().status, RunStatus::Cancelled);
            assert_eq!(store.head("own").await.unwrap().status, RunStatus::Running);
            sim.sleep(seconds(600)).await;
            assert_eq!(store.head("own").await.unwrap().status, RunStatus::Cancelled);
            worker.close(seconds(1)).await;
        });
        assert_eq!(starts.load(SeqCst), 2);
        assert_eq!(ends.take(), [RunEnd::Cancelled, RunEnd::Cancelled]);
    });
}

#[test]
fn c16_waiting_run_is_due_at_its_deadline_and_a_worker_ends_it() {
    type Wait = fn(NodeContext) -> pleach::runtime::BoxFuture<'static, ()>;
    let waits: [Wait; 3] = [
        |cx| cx.interrupt("approve", "well?"),
        |cx| cx.signal("go"),
        |cx| Box::pin(async move { cx.sleep("long", seconds(100_000)).await }),
    ];
    for (wait, pauses) in waits.into_iter().map(|wait| (wait, false)).chain([(waits[1], true)]) {
        explore(0..20, |sim| {
            let store = MemoryStore::on(sim.runtime());
            let node = move |cx: NodeContext, n: u32| async move {
                wait(cx).await;
                Ok::<_, String>(n)
            };
            let graph = Graph::new("waits").add_node("node", node).add_edge("node", END).set_entry("node").compile().unwrap();
            let worker = Worker::new(&store).graph(&graph).runtime(sim.runtime()).start().unwrap();
            sim.run(async {
                let run = graph.run(0).id("r").runtime(sim.runtime()).checkpoint(&store).timeout(seconds(900));
                run.enqueue().await.unwrap();
                sim.sleep(seconds(30)).await;
                if pauses {
                    RunRemote::new(&store, "r").pause().await.unwrap();
                    sim.sleep(seconds(30)).await;
                }
                let info = store.head("r").await.unwrap();
                assert_eq!((info.status, info.owner.as_deref()), (RunStatus::Waiting, None), "it is released");
                assert_eq!(info.wake_at, info.deadline);
                let outcome = graph.outcome_of("r", &store).runtime(sim.runtime()).await;
                assert!(is_overdue(&outcome), "{outcome:?}");
                assert!(sim.now().since_start() < seconds(902));
                worker.close(seconds(1)).await;
            });
        });
    }
}

#[test]
fn c16_opening_a_run_is_bounded_by_its_deadline() {
    let (fixture, graph) = (StoredRunFixture::new(1), two());
    fixture.nodes.hang(&["b"]);
    fixture.leave(fixture.run(&graph, vec![]).timeout(seconds(100)));
    let store = crate::common::flaky_store::FlakyStore::new(fixture.store.clone());
    store.stall_reads();
    let resumed = fixture.here(graph.resume("r").checkpoint(&store));
    assert!(is_overdue(&fixture.end(resumed)));
    assert_eq!(fixture.sim.now().since_start(), seconds(100));
    let info = fixture.info("r");
    assert_eq!((info.status, info.owner), (RunStatus::Running, None), "no driver could end it");
    // The next driver that can read the run ends it.
    assert!(is_overdue(&fixture.end(fixture.resume(&graph, |run| run))));
    assert_eq!(fixture.info("r").status, RunStatus::Cancelled);
}

#[test]
fn c12_unanswered_release_does_not_block_the_driver() {
    let (fixture, graph) = (StoredRunFixture::new(1), two());
    fixture.nodes.hang(&["b"]);
    fixture.leave(fixture.run(&graph, vec![]).timeout(seconds(100)));
    let store = crate::common::flaky_store::FlakyStore::new(fixture.store.clone());
    store.stall_reads();
    store.stall_releases();
    let resumed = fixture.here(graph.resume("r").checkpoint(&store));
    assert!(is_overdue(&fixture.end(resumed)));
    assert!(fixture.sim.now().since_start() <= seconds(105));
}

#[test]
fn c16_deadline_undoes_nothing_and_does_not_stop_undos() {
    let undo = |cx: NodeContext, _: ()| async move {
        let stage = cx.extension::<crate::common::stored::NodeControl>().unwrap().clone();
        let clock = cx.extension::<Arc<dyn pleach::runtime::Runtime>>().unwrap().clone();
        clock.sleep_until(clock.now() + seconds(50)).await;
        stage.outside.note("undone");
        Ok::<_, String>(())
    };
    let graph = Graph::new("undo").add_node("a", named("a")).compensate("a", undo).add_node("b", named("b"));
    let graph = graph.add_edge("a", "b").add_edge("b", END).set_entry("a").compile().unwrap();
    let fixture = StoredRunFixture::new(1);
    fixture.nodes.hang(&["b"]);
    assert!(is_overdue(&fixture.end(fixture.run(&graph, vec![]).timeout(seconds(10)))));
    assert_eq!((fixture.info("r").status, fixture.nodes.outside.len()), (RunStatus::Cancelled, 0));
    // A run that failed in time is undone beyond its deadline.
    let fixture = StoredRunFixture::new(1);
    fixture.nodes.fail(&["b"]);
    let error = fixture.end(fixture.run(&graph, vec![]).timeout(seconds(10))).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Node(_)), "{error}");
    assert_eq!((fixture.info("r").status, fixture.nodes.outside.len()), (RunStatus::Compensated, 1));
}

#[test]
fn f7_zero_timeout_expires_before_anything_starts() {
    let starts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&starts);
    let node = move |n: u32| {
        counted.fetch_add(1, SeqCst);
        async move { Ok::<_, String>(n + 1) }
    };
    let graph = |policy: Policy<u32>| {
        let node = node.clone();
        let graph = Graph::new("zero").add_node("node", node).policy("node", policy).add_edge("node", END).set_entry("node");
        graph.compile().unwrap()
    };
    let fixture = StoredRunFixture::new(1);
    // The timeout of a run, in memory and stored.
    let plain = graph(Policy::new());
    let error = fixture.end(fixture.here(plain.run(7)).timeout(Duration::ZERO)).unwrap_err();
    assert!(
        matches!(error.fault(), RunFault::Cancelled { cause: Cause::DeadlineExceeded, was_executing: false, .. }),
        "{error}"
    );
    assert_eq!(error.into_state(), Some(7));
    let error = fixture.end(fixture.run(&plain, 7).timeout(Duration::ZERO)).unwrap_err();
    assert!(
        matches!(error.fault(), RunFault::Cancelled { cause: Cause::DeadlineExceeded, was_executing: false, .. }),
        "{error}"
    );
    assert_eq!((fixture.info("r").status, error.into_state()), (RunStatus::Cancelled, Some(7)));
    // The timeout of a node, in memory and stored: every attempt fails.
    let zero = graph(Policy::new().timeout(Duration::ZERO).retry(Retry::times(3)));
    for run in [zero.run(7), zero.run(7).id("s").checkpoint(&fixture.store)] {
        let error = fixture.end(fixture.here(run)).unwrap_err();
        let RunFault::Node(failed) = error.fault() else { panic!("{error}") };
        assert!((failed.attempt, failed.reason.to_string().contains("0ns")) == (3, true), "{error}");
        assert_eq!(error.into_state(), Some(7));
    }
    let once = graph(Policy::new().timeout(Duration::ZERO));
    let error = fixture.end(fixture.here(once.run(7))).unwrap_err();
    assert_eq!(error.into_state(), Some(7), "no node consumed it");
    assert_eq!(starts.load(SeqCst), 0);
}

#[test]
fn c16_random_deadlines_end_runs_on_time_with_any_driver() {
    explore(0..100, |sim| {
        let inside = MemoryStore::on(sim.runtime());
        let store = SlowStore::new(inside.clone(), sim.runtime(), Duration::from_millis(20));
        let clock = sim.runtime();
        let step = move |cx: NodeContext, n: u32| {
            let clock = Arc::clone(&clock);
            async move {
                match clock.random() % 3 {
                    0 => cx.sleep("rest", Duration::from_millis(clock.random() % 30_000)).await,
                    1 => clock.sleep_until(clock.now() + Duration::from_millis(clock.random() % 3_000)).await,
                    _ => {}
                }
                Ok::<_, String>(n + 1)
            }
        };
        let graph = Graph::new("steps")
            .add_node("step", step)
            .add_conditional_edge("step", ["step", END], |n: &u32| if *n < 10 { "step" } else { END })
            .set_entry("step")
            .compile()
            .unwrap();
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let worker = Worker::new(&store).graph_with(&graph, |run| run.timeout(seconds(40))).lease(seconds(4));
                worker.hold_waiting_for(seconds(2)).limit(2).runtime(sim.runtime()).start().unwrap()
            })
            .collect();
        sim.run(async {
            for run in 0..4 {
                let timeout = Duration::from_millis(sim.runtime().random() % 60_000);
                let run = graph.run(0).id(format!("run {run}")).runtime(sim.runtime()).checkpoint(&store).timeout(timeout);
                run.enqueue().await.unwrap();
            }
            sim.sleep(seconds(80)).await;
            for run in 0..4 {
                let info = inside.head(&format!("run {run}")).await.unwrap();
                let deadline = info.deadline.unwrap();
                match info.status {
                    RunStatus::Finished => assert!(info.changed <= deadline.after(seconds(1)), "{info:?}"),
                    // A driver knows the clock of the store as exactly as the store is fast.
                    RunStatus::Cancelled => assert!(info.changed.after(Duration::from_millis(20)) >= deadline, "{info:?}"),
                    _ => panic!("{info:?}"),
                }
                // A worker polls every second, and both may be busy with runs that end soon.
                assert!(info.changed <= deadline.after(seconds(8)), "{info:?}");
            }
            drop(workers);
        });
    });
}
