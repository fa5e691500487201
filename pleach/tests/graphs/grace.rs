//! F7: nodes with a cancel grace, which keep running for a while after a cancel to clean up.
use crate::common::Log;
use pleach::graph::GraceEnd;
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::sim::{Sim, explore};
use std::sync::Arc;

pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// Logs `dropped` when it is dropped.
struct Dropped(Log<String>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.note("dropped");
    }
}

pub(crate) type Work = std::pin::Pin<Box<dyn Future<Output = Result<u32, String>> + Send>>;

/// A node that waits for its cancel, cleans up for `tidying` seconds and adds 10.
pub(crate) fn tidy(
    sim: &Sim,
    log: &Log<String>,
    tidying: u64,
) -> impl Fn(NodeContext, u32) -> Work + Send + Sync + Clone + use<> {
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

pub(crate) fn noting(log: &Log<String>, name: &'static str) -> impl Fn(u32) -> Work + Send + Sync + use<> {
    let log = log.clone();
    move |n| {
        let log = log.clone();
        Box::pin(async move {
            log.note(name);
            Ok(n + 1)
        })
    }
}

pub(crate) fn graceful() -> Policy<u32> {
    Policy::new().cancel_grace(GRACE)
}

/// `tidy`, then `next`.
pub(crate) fn two(sim: &Sim, log: &Log<String>, tidying: u64, grace: bool) -> CompiledGraph<u32> {
    let graph = Graph::new("two")
        .add_node("tidy", tidy(sim, log, tidying))
        .add_node("next", noting(log, "next"))
        .add_edge("tidy", "next")
        .add_edge("next", END)
        .set_entry("tidy");
    let graph = if grace { graph.policy("tidy", graceful()) } else { graph };
    graph.compile().unwrap()
}

/// The details of a `Cancelled` fault.
pub(crate) fn cancelled(error: &RunError<u32>) -> (String, bool, Option<GraceEnd>) {
    let RunFault::Cancelled { node, was_executing, grace, .. } = error.fault() else { panic!("{error}") };
    (node.clone(), *was_executing, *grace)
}

/// Runs the graph and cancels it after one second.
pub(crate) fn cancel_after_a_second(sim: &Sim, graph: &CompiledGraph<u32>) -> (RunError<u32>, Duration) {
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
        assert_eq!(error.to_string(), "cancelled; node \"tidy\" finished within its cancel grace: enough");
        assert_eq!((error.into_state(), at), (Some(11), Duration::from_secs(5)));
        assert_eq!(log.take(), ["began", "saw enough", "tidied up", "dropped"]);
    });
}

#[test]
fn f7_node_is_dropped_at_the_end_of_its_grace() {
    explore(0..50, |sim| {
        let log = Log::new();
        let (error, at) = cancel_after_a_second(sim, &two(sim, &log, 6, true));
        assert_eq!(cancelled(&error), ("tidy".into(), true, Some(GraceEnd::Dropped)));
        assert_eq!(error.to_string(), "cancelled; node \"tidy\" was dropped at the end of its cancel grace: enough");
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
fn f7_node_that_fails_in_its_grace_is_not_retried() {
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
fn f7_grace_begins_at_deadline_scope_cancel_and_command() {
    for (tidying, end) in [(4, GraceEnd::Finished), (6, GraceEnd::Dropped)] {
        explore(0..30, |sim| {
            let log = Log::new();
            let graph = two(sim, &log, tidying, true);
            let run = graph.run(1).runtime(sim.runtime()).timeout(Duration::from_secs(1)).into_future();
            assert_eq!(cancelled(&sim.run(run).unwrap_err()), ("tidy".into(), true, Some(end)));

            let scope = sim.scope();
            let run = graph.run(1).in_scope(&scope).into_future();
            let control = run.control().unwrap().clone();
            let error = sim.run(async {
                sim.sleep(Duration::from_secs(1)).await;
                control.cancel("stop now").await.unwrap();
                run.await.unwrap_err()
            });
            assert_eq!(cancelled(&error), ("tidy".into(), true, Some(end)));

            let run = graph.run(1).in_scope(&scope).into_future();
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
        let mut run = graph.run(1).runtime(sim.runtime()).into_future();
        assert!(crate::common::poll_once(&mut run).is_pending());
        drop(run);
        assert_eq!(log.take(), ["began", "dropped"]);

        let scope = sim.scope();
        let run = graph.run(1).in_scope(&scope).into_future();
        sim.settle();
        let before = sim.now();
        drop(run);
        sim.settle();
        assert_eq!((log.take(), sim.now()), (vec!["began".to_string(), "dropped".into()], before));
        assert!(scope.children().is_empty());

        // Also during its grace.
        let run = two(sim, &log, 4, true).run(1).in_scope(&scope).into_future();
        let control = run.control().unwrap().clone();
        sim.run(async {
            sim.sleep(Duration::from_secs(1)).await;
            control.cancel("stop now").await.unwrap();
            sim.sleep(Duration::from_secs(1)).await;
        });
        drop(run);
        sim.settle();
        assert_eq!(log.take(), ["began", "saw stop now", "dropped"]);
        assert!(scope.children().is_empty());
    });
}

#[test]
fn f7_cancel_reaches_a_node_with_grace_inside_a_subgraph() {
    for (tidying, end, ends_at) in [(4, GraceEnd::Finished, 5), (6, GraceEnd::Dropped, 6)] {
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
