//! F7: cancel grace of nodes in branches and subgraphs.
use crate::common::Log;
use crate::grace::{cancel_after_a_second, cancelled, graceful, noting, tidy, two};
use crate::pass;
use pleach::graph::{FanOut, GraceEnd};
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::sim::{Sim, explore};
use pleach::store::{MemoryStore, RunStatus, Store};
use std::sync::Arc;
use std::task::Poll;

/// A fan-out of `tidy` and `fail`, which fails after a second.
fn failing_fan_out(sim: &Sim, log: &Log<String>, tidying: u64, spawned: bool) -> CompiledGraph<u32> {
    let runtime: Arc<dyn Runtime> = sim.runtime();
    let fail = move |_: u32| {
        let runtime = Arc::clone(&runtime);
        async move {
            runtime.sleep_until(runtime.now() + Duration::from_secs(1)).await;
            Err::<u32, _>("no")
        }
    };
    let (done, work) = (log.clone(), tidy(sim, log, tidying));
    let undo = move |_: NodeContext, payload: u32| {
        done.note(format!("undo {payload}"));
        async { Ok::<_, String>(()) }
    };
    let recording = move |cx: NodeContext, n: u32| {
        cx.record_undo(n);
        work(cx, n)
    };
    let fan_out = FanOut::merge(|n: u32, _: Vec<u32>| n);
    Graph::new("fan")
        .add_node("split", pass)
        .add_node("fail", fail)
        .add_node("tidy", recording)
        .compensate("tidy", undo)
        .policy("tidy", graceful())
        .add_node("next", noting(log, "next"))
        .add_parallel_edge("split", ["fail", "tidy"], END, if spawned { fan_out.spawned() } else { fan_out })
        .add_edge("fail", END)
        .add_edge("tidy", "next")
        .add_edge("next", END)
        .set_entry("split")
        .compile()
        .unwrap()
}

#[test]
fn f7_branch_cancelled_by_another_gets_its_grace_before_the_undo() {
    for spawned in [false, true] {
        explore(0..30, |sim| {
            let log = Log::new();
            let graph = failing_fan_out(sim, &log, 4, spawned);
            let error = sim.run(async { graph.run(1).runtime(sim.runtime()).await }).unwrap_err();
            assert!(matches!(error.fault(), RunFault::Node(error) if error.node == "fail"), "{error}");
            assert_eq!(sim.now().since_start(), Duration::from_secs(5));
            // The node finished, so it is undone. No other node starts.
            assert_eq!(log.take(), ["began", "saw another branch failed", "tidied up", "dropped", "undo 1"]);
        });
    }
}

#[test]
fn f7_run_fails_after_its_branch_used_up_the_grace() {
    for spawned in [false, true] {
        explore(0..30, |sim| {
            let log = Log::new();
            let graph = failing_fan_out(sim, &log, 6, spawned);
            let error = sim.run(async { graph.run(1).runtime(sim.runtime()).await }).unwrap_err();
            assert!(matches!(error.fault(), RunFault::Node(error) if error.node == "fail"), "{error}");
            assert_eq!(sim.now().since_start(), Duration::from_secs(6));
            assert_eq!(log.take(), ["began", "saw another branch failed", "dropped"]);
            assert_eq!(sim.tasks_alive(), 0);
        });
    }
}

#[test]
fn f7_stored_branch_that_finished_in_its_grace_is_undone() {
    explore(0..30, |sim| {
        let (log, store) = (Log::new(), MemoryStore::on(sim.runtime()));
        let graph = failing_fan_out(sim, &log, 4, false);
        sim.run(async {
            let error = graph.run(1).id("r").checkpoint(&store).runtime(sim.runtime()).await.unwrap_err();
            assert!(matches!(error.fault(), RunFault::Node(error) if error.node == "fail"), "{error}");
            assert_eq!(store.head("r").await.unwrap().status, RunStatus::Compensated);
        });
        assert_eq!(log.take(), ["began", "saw another branch failed", "tidied up", "dropped", "undo 1"]);
    });
}

/// Two branches: one fails after `fails_after` seconds, the other runs `inner`.
fn around(sim: &Sim, inner: CompiledGraph<u32>, fails_after: u64) -> CompiledGraph<u32> {
    let runtime: Arc<dyn Runtime> = sim.runtime();
    let fail = move |_: u32| {
        let runtime = Arc::clone(&runtime);
        async move {
            runtime.sleep_until(runtime.now() + Duration::from_secs(fails_after)).await;
            Err::<u32, _>("outer")
        }
    };
    Graph::new("outer")
        .add_node("split", pass)
        .add_node("fail", fail)
        .add_subgraph("inner", inner, |n: &u32| *n, |_, inner| inner)
        .add_parallel_edge("split", ["fail", "inner"], END, FanOut::merge(|n: u32, _: Vec<u32>| n))
        .add_edge("fail", END)
        .add_edge("inner", END)
        .set_entry("split")
        .compile()
        .unwrap()
}

#[test]
fn f7_branch_cancelled_by_another_gives_grace_in_its_subgraph() {
    explore(0..30, |sim| {
        let log = Log::new();
        let graph = around(sim, two(sim, &log, 4, true), 1);
        let error = sim.run(async { graph.run(1).runtime(sim.runtime()).await }).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Node(error) if error.node == "fail"), "{error}");
        assert_eq!(sim.now().since_start(), Duration::from_secs(5));
        assert_eq!(log.take(), ["began", "saw another branch failed", "tidied up", "dropped"]);
    });
}

#[test]
fn f7_grace_is_not_restarted_by_an_outer_cancel() {
    explore(0..30, |sim| {
        let log = Log::new();
        // The inner fan-out fails after one second, the outer one after three.
        let graph = around(sim, failing_fan_out(sim, &log, 9, false), 3);
        let error = sim.run(async { graph.run(1).runtime(sim.runtime()).await }).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Node(error) if error.node == "fail"), "{error}");
        assert_eq!(sim.now().since_start(), Duration::from_secs(6));
        assert_eq!(log.take(), ["began", "saw another branch failed", "dropped"]);
    });
}

#[test]
fn f7_outer_fan_out_waits_for_inner_graces() {
    explore(0..30, |sim| {
        let log = Log::new();
        let runtime: Arc<dyn Runtime> = sim.runtime();
        let fail = |seconds: u64| {
            let runtime = Arc::clone(&runtime);
            move |_: u32| {
                let runtime = Arc::clone(&runtime);
                async move {
                    runtime.sleep_until(runtime.now() + Duration::from_secs(seconds)).await;
                    Err::<u32, _>("no")
                }
            }
        };
        let graph = Graph::new("nested")
            .add_node("outer", pass)
            .add_node("inner", pass)
            .add_node("outer_fails", fail(3))
            .add_node("inner_fails", fail(1))
            .add_node("short", tidy(sim, &log, 4))
            .add_node("long", tidy(sim, &log, 9))
            .policy("short", graceful())
            .policy("long", graceful())
            .add_parallel_edge("outer", ["outer_fails", "inner", "long"], END, FanOut::merge(|n: u32, _: Vec<u32>| n))
            .add_parallel_edge("inner", ["inner_fails", "short"], END, FanOut::merge(|n: u32, _: Vec<u32>| n))
            .add_edge("outer_fails", END)
            .add_edge("inner_fails", END)
            .add_edge("short", END)
            .add_edge("long", END)
            .set_entry("outer")
            .compile()
            .unwrap();
        let error = sim.run(async { graph.run(1).runtime(sim.runtime()).await }).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Node(error) if error.node == "outer_fails"), "{error}");
        assert_eq!(sim.now().since_start(), Duration::from_secs(8), "the grace of the outer branch began at 3 s");
        let log = log.take();
        assert_eq!((log.iter().filter(|line| *line == "tidied up").count(), log.len()), (1, 7));
    });
}

/// Finishes when polled after its cancel, but registers no waker for the cancel.
async fn polls_its_token(cx: NodeContext, n: u32) -> Result<u32, String> {
    let token = cx.token();
    std::future::poll_fn(|_| if token.is_cancelled() { Poll::Ready(()) } else { Poll::Pending }).await;
    Ok(n)
}

#[test]
fn f7_grace_that_begins_when_an_inner_one_ends_is_enforced() {
    explore(0..30, |sim| {
        let runtime: Arc<dyn Runtime> = sim.runtime();
        let fails = move |_: u32| {
            let runtime = Arc::clone(&runtime);
            async move {
                runtime.sleep_until(runtime.now() + Duration::from_secs(1)).await;
                Err::<u32, _>("no")
            }
        };
        let graph = Graph::new("nested")
            .add_node("outer", pass)
            .add_node("inner", pass)
            .add_node("fails", fails)
            .add_node("quick", polls_its_token)
            .add_node("deaf", |_: u32| std::future::pending::<Result<u32, String>>())
            .policy("quick", graceful())
            .policy("deaf", graceful())
            .add_parallel_edge("outer", ["inner", "deaf"], END, FanOut::merge(|n: u32, _: Vec<u32>| n))
            .add_parallel_edge("inner", ["fails", "quick"], END, FanOut::merge(|n: u32, _: Vec<u32>| n))
            .add_edge("fails", END)
            .add_edge("quick", END)
            .add_edge("deaf", END)
            .set_entry("outer")
            .compile()
            .unwrap();
        let error = sim.run(async { graph.run(1).runtime(sim.runtime()).await }).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Node(error) if error.node == "fails"), "{error}");
        assert_eq!(sim.now().since_start(), Duration::from_secs(6), "the grace of the outer branch began at 1 s");
    });
}

/// A fan-out of branches that each clean up for `tidying` seconds.
fn mapped(sim: &Sim, log: &Log<String>, fan_out: FanOut<u32>, tidying: u64) -> CompiledGraph<u32> {
    Graph::new("wide")
        .add_node("split", pass)
        .add_node("tidy", tidy(sim, log, tidying))
        .policy("tidy", graceful())
        .map("split", |n| (0..*n).collect(), "tidy", END, fan_out)
        .add_edge("tidy", END)
        .set_entry("split")
        .compile()
        .unwrap()
}

#[test]
fn f7_every_branch_of_a_wide_fan_out_gets_its_grace() {
    for spawned in [false, true] {
        explore(0..5, |sim| {
            let log = Log::new();
            let fan_out = FanOut::merge(|n: u32, _: Vec<u32>| n).limit(50);
            let graph = mapped(sim, &log, if spawned { fan_out.spawned() } else { fan_out }, 4);
            let token = sim.token();
            let error = sim.run(async {
                let cancel = async {
                    sim.sleep(Duration::from_secs(1)).await;
                    token.cancel("enough");
                };
                futures::join!(graph.run(100).token(&token).into_future(), cancel).0.unwrap_err()
            });
            assert_eq!(cancelled(&error), ("tidy".into(), true, Some(GraceEnd::Finished)));
            assert_eq!(error.into_state(), Some(100), "the state before the fan-out is returned");
            let log = log.take();
            let count = |line: &str| log.iter().filter(|seen| *seen == line).count();
            assert_eq!((count("began"), count("tidied up"), count("dropped")), (50, 50, 50), "no branch started in the grace");
        });
    }
}

#[test]
fn f7_branches_of_a_timed_out_fan_out_get_their_grace() {
    let (sim, log) = (Sim::new(1), Log::new());
    let fan_out = FanOut::collect(|n: u32, results: Vec<Result<u32, RunError<u32>>>| {
        Ok::<_, String>(n * 100 + results.iter().filter(|result| result.is_err()).count() as u32)
    });
    let graph = mapped(&sim, &log, fan_out.timeout(Duration::from_secs(1)), 4);
    assert_eq!(sim.run(async { graph.run(3).runtime(sim.runtime()).await }).unwrap(), 303);
    assert_eq!(sim.now().since_start(), Duration::from_secs(5));
    assert_eq!(log.take().iter().filter(|line| *line == "tidied up").count(), 3);
}

#[test]
fn f7_no_node_starts_while_another_branch_is_in_its_grace() {
    explore(0..30, |sim| {
        let log = Log::new();
        let graph = Graph::new("fan")
            .add_node("split", pass)
            .add_node("short", tidy(sim, &log, 1))
            .add_node("long", tidy(sim, &log, 9))
            .add_node("next", noting(&log, "next"))
            .policy("short", graceful())
            .policy("long", graceful())
            .add_parallel_edge("split", ["short", "long"], END, FanOut::merge(|n: u32, _: Vec<u32>| n))
            .add_edge("short", "next")
            .add_edge("next", END)
            .add_edge("long", END)
            .set_entry("split")
            .compile()
            .unwrap();
        let (error, at) = cancel_after_a_second(sim, &graph);
        assert_eq!(cancelled(&error), ("long".into(), true, Some(GraceEnd::Dropped)), "the worst grace end is reported");
        assert_eq!((at, error.into_state()), (Duration::from_secs(6), Some(1)));
        assert!(!log.take().contains(&"next".to_string()));
    });
}
