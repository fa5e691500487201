//! F7: nodes that may run on for a while after a cancel, to tidy up.
#![cfg(feature = "graph")]

use crate::common::Log;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::store::{MemoryStore, RunStatus, Store};
use pleach::{FanOut, GraceEnd, RunRemote, Runtime};
use std::sync::Arc;
use std::task::Poll;

const GRACE: Duration = Duration::from_secs(5);

/// Notes into a log when it is dropped.
struct Dropped(Log<String>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.note("dropped");
    }
}

type Work = std::pin::Pin<Box<dyn Future<Output = Result<u32, String>> + Send>>;

/// A node that waits for its cancel, takes `tidying` seconds to tidy up, and adds 10.
fn tidy(sim: &Sim, log: &Log<String>, tidying: u64) -> impl Fn(NodeContext, u32) -> Work + Send + Sync + Clone + use<> {
    let (runtime, log): (Arc<dyn Runtime>, _) = (sim.runtime(), log.clone());
    move |cx, n| {
        let (runtime, log) = (Arc::clone(&runtime), log.clone());
        Box::pin(async move {
            let _dropped = Dropped(log.clone());
            log.note("began");
            let cause = cx.token().cancelled().await;
            log.note(format!("saw {cause}"));
            runtime.sleep_until(runtime.now() + Duration::from_secs(tidying)).await;
            log.note("tidied up");
            Ok(n + 10)
        })
    }
}

fn noting(log: &Log<String>, name: &'static str) -> impl Fn(u32) -> Work + Send + Sync + use<> {
    let log = log.clone();
    move |n| {
        let log = log.clone();
        Box::pin(async move {
            log.note(name);
            Ok(n + 1)
        })
    }
}

fn graceful() -> Policy<u32> {
    Policy::new().cancel_grace(GRACE)
}

/// `tidy`, then `next`.
fn two(sim: &Sim, log: &Log<String>, tidying: u64, grace: bool) -> CompiledGraph<u32> {
    let graph = Graph::new("two")
        .add_node("tidy", tidy(sim, log, tidying))
        .add_node("next", noting(log, "next"))
        .add_edge("tidy", "next")
        .add_edge("next", END)
        .set_entry("tidy");
    let graph = if grace { graph.policy("tidy", graceful()) } else { graph };
    graph.compile().unwrap()
}

/// What the fault of a cancelled run says.
fn cancelled(error: &RunError<u32>) -> (String, bool, Option<GraceEnd>) {
    let RunFault::Cancelled { node, was_executing, grace, .. } = error.fault() else { panic!("{error}") };
    (node.clone(), *was_executing, *grace)
}

/// Cancels the token of a run after a second.
fn cancel_after_a_second(sim: &Sim, graph: &CompiledGraph<u32>) -> (RunError<u32>, Duration) {
    let token = sim.token();
    let error = sim.run(async {
        let cancel = async {
            sim.sleep(Duration::from_secs(1)).await;
            token.cancel("enough");
        };
        futures::join!(graph.run(1).token(&token).into_future(), cancel).0.unwrap_err()
    });
    (error, sim.now().since_start())
}

#[test]
fn f7_node_with_grace_finishes_and_no_other_starts() {
    explore(0..50, |sim| {
        let log = Log::new();
        let (error, at) = cancel_after_a_second(sim, &two(sim, &log, 4, true));
        assert_eq!(cancelled(&error), ("tidy".into(), true, Some(GraceEnd::Finished)));
        assert_eq!(error.to_string(), "cancelled, and node \"tidy\" finished within its grace: enough");
        assert_eq!((error.into_state(), at), (Some(11), Duration::from_secs(5)));
        assert_eq!(log.take(), ["began", "saw enough", "tidied up", "dropped"]);
    });
}

#[test]
fn f7_node_is_dropped_at_the_end_of_its_grace() {
    explore(0..50, |sim| {
        let log = Log::new();
        let (error, at) = cancel_after_a_second(sim, &two(sim, &log, 6, true));
        assert_eq!(cancelled(&error), ("tidy".into(), true, Some(GraceEnd::CutOff)));
        assert_eq!(error.to_string(), "cancelled, and node \"tidy\" was cut off at the end of its grace: enough");
        assert_eq!(at, Duration::from_secs(6));
        assert_eq!(log.take(), ["began", "saw enough", "dropped"]);
    });
}

#[test]
fn f7_node_without_grace_is_dropped_at_its_await() {
    let (sim, log) = (Sim::new(1), Log::new());
    let (error, at) = cancel_after_a_second(&sim, &two(&sim, &log, 4, false));
    assert_eq!((cancelled(&error), at), (("tidy".into(), true, None), Duration::from_secs(1)));
    assert_eq!(log.take(), ["began", "dropped"]);
}

#[test]
fn f7_node_that_fails_in_its_grace_is_not_tried_again() {
    let (sim, log) = (Sim::new(1), Log::<String>::new());
    let seen = log.clone();
    let fail = move |cx: NodeContext, _: u32| {
        let seen = seen.clone();
        async move {
            seen.note("began");
            cx.token().cancelled().await;
            Err::<u32, _>("late")
        }
    };
    let policy = Policy::new().retry(Retry::times(3)).cancel_grace(GRACE);
    let graph = Graph::new("g").add_node("fail", fail).policy("fail", policy).add_edge("fail", END).set_entry("fail");
    let (error, _) = cancel_after_a_second(&sim, &graph.compile().unwrap());
    assert_eq!(cancelled(&error), ("fail".into(), true, Some(GraceEnd::Failed)));
    assert_eq!((error.into_state(), log.len()), (Some(1), 1));
}

#[test]
fn f7_grace_begins_at_a_deadline_a_scope_cancel_and_a_command() {
    for (tidying, end) in [(4, GraceEnd::Finished), (6, GraceEnd::CutOff)] {
        explore(0..30, |sim| {
            let log = Log::new();
            let graph = two(sim, &log, tidying, true);
            let run = graph.run(1).on(sim.runtime()).timeout(Duration::from_secs(1)).into_future();
            assert_eq!(cancelled(&sim.run(run).unwrap_err()), ("tidy".into(), true, Some(end)));

            let scope = sim.scope();
            let run = graph.run(1).within(&scope).into_future();
            let control = run.control().unwrap().clone();
            let error = sim.run(async {
                sim.sleep(Duration::from_secs(1)).await;
                control.cancel("told").await.unwrap();
                run.await.unwrap_err()
            });
            assert_eq!(cancelled(&error), ("tidy".into(), true, Some(end)));

            let run = graph.run(1).within(&scope).into_future();
            let error = sim.run(async {
                sim.sleep(Duration::from_secs(1)).await;
                scope.cancel("all of it");
                run.await.unwrap_err()
            });
            assert_eq!(cancelled(&error), ("tidy".into(), true, Some(end)));
            assert!(matches!(error.fault(), RunFault::Cancelled { cause, .. } if *cause == Cause::from("all of it")));
            assert_eq!(sim.tasks_alive(), 0);
            let tidied = log.take().iter().filter(|line| *line == "tidied up").count();
            assert_eq!(tidied, if end == GraceEnd::Finished { 3 } else { 0 });
        });
    }
}

#[test]
fn f7_dropped_run_drops_its_node_at_once() {
    explore(0..30, |sim| {
        let log = Log::new();
        let graph = two(sim, &log, 0, true);
        let mut run = graph.run(1).on(sim.runtime()).into_future();
        assert!(crate::common::poll_once(&mut run).is_pending());
        drop(run);
        assert_eq!(log.take(), ["began", "dropped"]);

        let scope = sim.scope();
        let run = graph.run(1).within(&scope).into_future();
        sim.settle();
        let before = sim.now();
        drop(run);
        sim.settle();
        assert_eq!((log.take(), sim.now()), (vec!["began".to_string(), "dropped".into()], before));
        assert!(scope.children().is_empty());

        // Also in the middle of its grace.
        let run = two(sim, &log, 4, true).run(1).within(&scope).into_future();
        let control = run.control().unwrap().clone();
        sim.run(async {
            sim.sleep(Duration::from_secs(1)).await;
            control.cancel("told").await.unwrap();
            sim.sleep(Duration::from_secs(1)).await;
        });
        drop(run);
        sim.settle();
        assert_eq!(log.take(), ["began", "saw told", "dropped"]);
        assert!(scope.children().is_empty());
    });
}

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
        .add_node("split", |n: u32| async move { Ok::<_, String>(n) })
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
fn f7_branch_cut_off_by_another_has_its_grace_before_the_undo() {
    for spawned in [false, true] {
        explore(0..30, |sim| {
            let log = Log::new();
            let graph = failing_fan_out(sim, &log, 4, spawned);
            let error = sim.run(async { graph.run(1).on(sim.runtime()).await }).unwrap_err();
            assert!(matches!(error.fault(), RunFault::Node(error) if error.node == "fail"), "{error}");
            assert_eq!(sim.now().since_start(), Duration::from_secs(5));
            // It is done, so it is undone, and nothing followed it.
            assert_eq!(log.take(), ["began", "saw another branch failed", "tidied up", "dropped", "undo 1"]);
        });
    }
}

#[test]
fn f7_branch_is_dropped_at_the_end_of_its_grace_and_then_the_run_fails() {
    for spawned in [false, true] {
        explore(0..30, |sim| {
            let log = Log::new();
            let graph = failing_fan_out(sim, &log, 6, spawned);
            let error = sim.run(async { graph.run(1).on(sim.runtime()).await }).unwrap_err();
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
            let error = graph.run(1).id("r").checkpoint(&store).on(sim.runtime()).await.unwrap_err();
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
        .add_node("split", |n: u32| async move { Ok::<_, String>(n) })
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
fn f7_branch_cut_off_by_another_gives_grace_inside_its_subgraph() {
    explore(0..30, |sim| {
        let log = Log::new();
        let graph = around(sim, two(sim, &log, 4, true), 1);
        let error = sim.run(async { graph.run(1).on(sim.runtime()).await }).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Node(error) if error.node == "fail"), "{error}");
        assert_eq!(sim.now().since_start(), Duration::from_secs(5));
        assert_eq!(log.take(), ["began", "saw another branch failed", "tidied up", "dropped"]);
    });
}

#[test]
fn f7_grace_that_has_begun_is_not_begun_anew_further_out() {
    explore(0..30, |sim| {
        let log = Log::new();
        // Its own fan-out fails after a second, the one around it after three.
        let graph = around(sim, failing_fan_out(sim, &log, 9, false), 3);
        let error = sim.run(async { graph.run(1).on(sim.runtime()).await }).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Node(error) if error.node == "fail"), "{error}");
        assert_eq!(sim.now().since_start(), Duration::from_secs(6));
        assert_eq!(log.take(), ["began", "saw another branch failed", "dropped"]);
    });
}

#[test]
fn f7_outer_fan_out_waits_for_graces_that_began_further_in() {
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
        let pass = |n: u32| async move { Ok::<_, String>(n) };
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
        let error = sim.run(async { graph.run(1).on(sim.runtime()).await }).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Node(error) if error.node == "outer_fails"), "{error}");
        assert_eq!(sim.now().since_start(), Duration::from_secs(8), "the grace of the outer branch began at 3 s");
        let log = log.take();
        assert_eq!((log.iter().filter(|line| *line == "tidied up").count(), log.len()), (1, 7));
    });
}

/// Ends when it is polled after its cancel, and asks nobody to wake it for that.
async fn looks_at_its_token(cx: NodeContext, n: u32) -> Result<u32, String> {
    let token = cx.token();
    std::future::poll_fn(|_| if token.is_cancelled() { Poll::Ready(()) } else { Poll::Pending }).await;
    Ok(n)
}

#[test]
fn f7_grace_that_begins_as_an_inner_one_ends_is_enforced() {
    explore(0..30, |sim| {
        let runtime: Arc<dyn Runtime> = sim.runtime();
        let fails = move |_: u32| {
            let runtime = Arc::clone(&runtime);
            async move {
                runtime.sleep_until(runtime.now() + Duration::from_secs(1)).await;
                Err::<u32, _>("no")
            }
        };
        let pass = |n: u32| async move { Ok::<_, String>(n) };
        let graph = Graph::new("nested")
            .add_node("outer", pass)
            .add_node("inner", pass)
            .add_node("fails", fails)
            .add_node("quick", looks_at_its_token)
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
        let error = sim.run(async { graph.run(1).on(sim.runtime()).await }).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Node(error) if error.node == "fails"), "{error}");
        assert_eq!(sim.now().since_start(), Duration::from_secs(6), "the grace of the outer branch began at 1 s");
    });
}

/// A map of branches that all tidy up, for so many seconds.
fn mapped(sim: &Sim, log: &Log<String>, fan_out: FanOut<u32>, tidying: u64) -> CompiledGraph<u32> {
    Graph::new("wide")
        .add_node("split", |n: u32| async move { Ok::<_, String>(n) })
        .add_node("tidy", tidy(sim, log, tidying))
        .policy("tidy", graceful())
        .map("split", |n| (0..*n).collect(), "tidy", END, fan_out)
        .add_edge("tidy", END)
        .set_entry("split")
        .compile()
        .unwrap()
}

#[test]
fn f7_every_branch_of_a_wide_fan_out_has_its_grace() {
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
            assert_eq!(error.into_state(), Some(100), "the state before the fan-out is still there");
            let log = log.take();
            let count = |line: &str| log.iter().filter(|seen| *seen == line).count();
            assert_eq!((count("began"), count("tidied up"), count("dropped")), (50, 50, 50), "no branch started in the grace");
        });
    }
}

#[test]
fn f7_branches_whose_time_is_up_have_their_grace() {
    let (sim, log) = (Sim::new(1), Log::new());
    let fan_out = FanOut::collect(|n: u32, results: Vec<Result<u32, RunError<u32>>>| {
        Ok::<_, String>(n * 100 + results.iter().filter(|result| result.is_err()).count() as u32)
    });
    let graph = mapped(&sim, &log, fan_out.timeout(Duration::from_secs(1)), 4);
    assert_eq!(sim.run(async { graph.run(3).on(sim.runtime()).await }).unwrap(), 303);
    assert_eq!(sim.now().since_start(), Duration::from_secs(5));
    assert_eq!(log.take().iter().filter(|line| *line == "tidied up").count(), 3);
}

#[test]
fn f7_cancel_reaches_a_node_with_grace_inside_a_subgraph() {
    for (tidying, end, ends_at) in [(4, GraceEnd::Finished, 5), (6, GraceEnd::CutOff, 6)] {
        explore(0..30, |sim| {
            let log = Log::new();
            let graph = Graph::new("outer")
                .add_subgraph("inner", two(sim, &log, tidying, true), |n: &u32| *n, |_, inner| inner)
                .add_node("last", noting(&log, "last"))
                .add_edge("inner", "last")
                .add_edge("last", END)
                .set_entry("inner")
                .compile()
                .unwrap();
            let (error, at) = cancel_after_a_second(sim, &graph);
            assert_eq!(cancelled(&error), ("inner/tidy".into(), true, Some(end)));
            assert_eq!(at, Duration::from_secs(ends_at));
            assert!(!log.take().iter().any(|line| line == "next" || line == "last"));
        });
    }
}

#[test]
fn f7_node_between_cancel_and_grace_of_another_branch_does_not_start() {
    explore(0..30, |sim| {
        let log = Log::new();
        let graph = Graph::new("fan")
            .add_node("split", |n: u32| async move { Ok::<_, String>(n) })
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
        assert_eq!(cancelled(&error), ("long".into(), true, Some(GraceEnd::CutOff)), "the worst is named");
        assert_eq!((at, error.into_state()), (Duration::from_secs(6), Some(1)));
        assert!(!log.take().contains(&"next".to_string()));
    });
}

#[test]
fn f7_stored_run_commits_what_finished_in_its_grace_and_resumes_behind_it() {
    explore(0..30, |sim| {
        let (log, store) = (Log::new(), MemoryStore::on(sim.runtime()));
        let graph = two(sim, &log, 4, true);
        let token = sim.token();
        sim.run(async {
            let cancel = async {
                sim.sleep(Duration::from_secs(1)).await;
                token.cancel("enough");
            };
            let run = graph.run(1).id("r").checkpoint(&store).token(&token).into_future();
            let error = futures::join!(run, cancel).0.unwrap_err();
            assert_eq!(cancelled(&error), ("tidy".into(), true, Some(GraceEnd::Finished)));
            assert_eq!(error.into_state(), Some(11));
            let info = store.head("r").await.unwrap();
            assert_eq!((info.status, info.owner), (RunStatus::Running, None), "given up, to be resumed");
            assert_eq!(graph.resume("r").checkpoint(&store).on(sim.runtime()).await.unwrap(), 12);
        });
        assert_eq!(log.take(), ["began", "saw enough", "tidied up", "dropped", "next"]);
    });
}

#[test]
fn f7_stored_run_within_a_scope_commits_the_last_node_in_its_grace() {
    explore(0..30, |sim| {
        let (log, store) = (Log::new(), MemoryStore::on(sim.runtime()));
        let inner = Graph::new("one").add_node("tidy", tidy(sim, &log, 4)).policy("tidy", graceful());
        let inner = inner.add_edge("tidy", END).set_entry("tidy").compile().unwrap();
        let graph = Graph::new("outer").add_subgraph("inner", inner, |n: &u32| *n, |_, inner| inner);
        let graph = graph.policy("inner", Policy::new().cancel_grace(Duration::from_secs(9)));
        let graph = graph.add_edge("inner", END).set_entry("inner").compile().unwrap();
        let scope = sim.scope();
        sim.run(async {
            let run = graph.run(1).id("r").checkpoint(&store).within(&scope).into_future();
            sim.sleep(Duration::from_secs(1)).await;
            scope.cancel("all of it");
            let error = run.await.unwrap_err();
            assert_eq!(cancelled(&error), ("inner/tidy".into(), true, Some(GraceEnd::Finished)));
            let info = store.head("r").await.unwrap();
            assert_eq!((info.status, info.owner), (RunStatus::Running, None), "nothing follows the node, not even the end");
            assert_eq!(log.take(), ["began", "saw all of it", "tidied up", "dropped"]);
            assert_eq!(graph.resume("r").checkpoint(&store).on(sim.runtime()).await.unwrap(), 11);
            assert!(log.take().is_empty(), "the node does not run again");
        });
    });
}

#[test]
fn f7_stored_run_cancelled_for_good_keeps_what_finished_in_the_grace() {
    explore(0..30, |sim| {
        let (log, store) = (Log::new(), MemoryStore::on(sim.runtime()));
        let graph = two(sim, &log, 4, true);
        let remote = RunRemote::new(&store, "r");
        sim.run(async {
            let cancel = async {
                sim.sleep(Duration::from_secs(1)).await;
                remote.cancel("out of money").await.unwrap();
            };
            let run = graph.run(1).id("r").checkpoint(&store).on(sim.runtime()).into_future();
            let error = futures::join!(run, cancel).0.unwrap_err();
            assert_eq!(cancelled(&error), ("tidy".into(), true, Some(GraceEnd::Finished)));
            let info = store.head("r").await.unwrap();
            assert_eq!((info.status, info.owner), (RunStatus::Cancelled, None));
            let page = graph.history("r", &store).page(1, 100).await.unwrap();
            assert!(page.checkpoints.iter().any(|checkpoint| checkpoint.node == "tidy"), "its step is on record");
        });
        assert_eq!(log.take(), ["began", "saw out of money", "tidied up", "dropped"]);
    });
}

#[test]
fn f7_deadline_of_a_stored_run_says_how_the_grace_was_used() {
    let (sim, log) = (Sim::new(1), Log::new());
    let store = MemoryStore::on(sim.runtime());
    let graph = two(&sim, &log, 4, true);
    sim.run(async {
        let run = graph.run(1).id("r").checkpoint(&store).on(sim.runtime()).timeout(Duration::from_secs(1));
        let error = run.await.unwrap_err();
        assert_eq!(cancelled(&error), ("tidy".into(), true, Some(GraceEnd::Finished)));
        assert_eq!(store.head("r").await.unwrap().status, RunStatus::Cancelled);
    });
}
