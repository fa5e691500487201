//! F9: branches that fail, time out, panic or are cancelled.
use crate::common::{INJECTED, Log, quiet};
use crate::fan_out::{Notes, appended, same, squares};
use crate::pass;
use pleach::BoxError;
use pleach::graph::{During, RunEvent};
use pleach::prelude::*;
use pleach::runtime::block_on;
use pleach::scope::Elapsed;
use pleach::sim::{Sim, explore};
use std::error::Error;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Decrements a counter when it is dropped.
struct Held(Arc<AtomicU32>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// `bad` fails. `ok` waits forever or succeeds at once.
fn failing(fan_out: FanOut<Notes>, ok_waits: bool) -> CompiledGraph<Notes> {
    Graph::new("failing")
        .add_node("fork", same)
        .add_node("ok", move |notes: Notes| async move {
            if ok_waits {
                pending::<()>().await;
            }
            Ok::<_, String>(notes)
        })
        .add_node("bad", |notes: Notes| async move { if notes.is_empty() { Ok(notes) } else { Err("bad luck") } })
        .add_parallel_edge("fork", ["ok", "bad"], END, fan_out)
        .add_edge("ok", END)
        .add_edge("bad", END)
        .set_entry("fork")
        .compile()
        .unwrap()
}

#[test]
fn f9_failing_branch_cancels_the_others_and_fails_the_run() {
    let log = Log::new();
    let seen = log.clone();
    let hooks = Hooks::new(move |event: &RunEvent<&Notes>| match event {
        RunEvent::Forked { node, branches, .. } => seen.note(format!("forked {node} {branches}")),
        RunEvent::BranchFailed { node, branch, error, state, .. } => {
            seen.note(format!("branch {branch} of {node} failed: {error}, {:?}", state.map(Vec::len)));
        }
        RunEvent::NodeFinished { visit, outcome } => seen.note(format!("{} {}", visit.node, outcome.is_ok())),
        _ => {}
    });
    let graph = failing(FanOut::merge(appended), true);
    let error = block_on(async { graph.run(vec!["0".into()]).hooks(hooks).keep_state().await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Node(node) if node.node == "bad"));
    let expected = [
        "fork true",
        "forked fork 2",
        "bad false",
        "branch 1 of fork failed: node \"bad\" failed at attempt 1: bad luck, Some(1)",
        "ok false",
    ];
    assert_eq!(log.take(), expected);
    assert_eq!(error.into_state().unwrap(), ["0"]);
}

#[test]
fn f9_without_fail_fast_the_other_branches_finish() {
    explore(0..50, |sim| {
        let ends = Arc::new(AtomicU32::new(0));
        let (runtime, counted) = (sim.runtime(), Arc::clone(&ends));
        let graph = Graph::<u32>::new("slow to fail")
            .add_node("split", pass)
            .add_node("work", move |n: u32| {
                let (runtime, counted) = (Arc::clone(&runtime), Arc::clone(&counted));
                async move {
                    runtime.sleep_until(runtime.now() + Duration::from_millis(u64::from(n))).await;
                    counted.fetch_add(1, SeqCst);
                    if n % 3 == 2 { Err(format!("no {n}")) } else { Ok(n) }
                }
            })
            .map("split", |n| (0..*n).collect(), "work", END, FanOut::merge(|n, _| n).fail_fast(false).limit(4))
            .add_edge("work", END)
            .set_entry("split")
            .compile()
            .unwrap();
        let error = sim.run(async { graph.run(9).runtime(sim.runtime()).await }).unwrap_err();
        assert_eq!(error.to_string(), "node \"work\" failed at attempt 1: no 2", "the first failure is reported");
        assert_eq!(ends.load(SeqCst), 9);
    });
}

#[test]
fn f9_collect_passes_every_result_to_the_merge() {
    quiet();
    let graph = Graph::<u32>::new("collecting")
        .add_node("split", pass)
        .add_node("work", |n: u32| async move {
            assert!(n != 3, "{INJECTED} at 3");
            if n == 1 { Err("no 1") } else { Ok(n) }
        })
        .map(
            "split",
            |n| (0..*n).collect(),
            "work",
            END,
            FanOut::collect(|before, results: Vec<Result<u32, RunError<u32>>>| {
                let faults: Vec<&RunFault> =
                    results.iter().filter_map(|result| result.as_ref().err()).map(RunError::fault).collect();
                assert!(matches!(faults[..], [RunFault::Node(_), RunFault::Panic(_)]));
                let good = results.iter().flatten().count() as u32;
                if before > 4 { Err(format!("{good} of {before}")) } else { Ok(good) }
            }),
        )
        .add_edge("work", END)
        .set_entry("split")
        .compile()
        .unwrap();
    assert_eq!(block_on(async { graph.run(4).await }).unwrap(), 2);
    let error = block_on(async { graph.run(5).await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Merge(merge) if merge.node == "split"));
    assert_eq!(error.source().unwrap().to_string(), "3 of 5");
}

#[test]
fn f9_fan_out_timeout_bounds_its_branches() {
    let secs = Duration::from_secs;
    let sim = Sim::new(3);
    let graph = failing(FanOut::merge(appended).timeout(secs(2)), true);
    let error = sim.run(async { graph.run(vec![]).runtime(sim.runtime()).await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::FanOutTimeout(timeout) if timeout.node == "fork"));
    assert_eq!(error.source().and_then(|source| source.downcast_ref()), Some(&Elapsed(secs(2))));
    assert_eq!(sim.now().since_start(), secs(2));

    let collect = FanOut::collect(|_, results: Vec<Result<Notes, RunError<Notes>>>| {
        Ok::<_, BoxError>(results.iter().map(|result| result.is_ok().to_string()).collect())
    });
    let graph = failing(collect.timeout(secs(2)), true);
    assert_eq!(sim.run(async { graph.run(vec![]).runtime(sim.runtime()).await }).unwrap(), ["false", "true"]);
    let in_time = failing(FanOut::merge(appended).timeout(secs(2)), false);
    assert!(sim.run(async { in_time.run(vec![]).runtime(sim.runtime()).await }).is_ok());
}

#[test]
fn f9_nested_fan_out_timeout_bounds_its_branches() {
    let sim = Sim::new(3);
    let inner = FanOut::collect(|before: Notes, results: Vec<Result<Notes, RunError<Notes>>>| {
        Ok::<_, BoxError>(before.into_iter().chain(results.iter().map(|result| result.is_ok().to_string())).collect())
    });
    let graph = Graph::<Notes>::new("nested")
        .add_node("outer", same)
        .add_node("inner", same)
        .add_node("wait", |notes: Notes| async move {
            pending::<()>().await;
            Ok::<_, String>(notes)
        })
        .add_node("between", same)
        .add_parallel_edge("outer", ["inner"], END, appended)
        .add_parallel_edge("inner", ["wait"], "between", inner.timeout(Duration::from_secs(7)))
        .add_edge("wait", "between")
        .add_edge("between", END)
        .set_entry("outer")
        .compile()
        .unwrap();
    // Only the timer of the inner fan-out can wake the run.
    assert_eq!(sim.run(graph.run(vec![]).runtime(sim.runtime()).into_future()).unwrap(), ["false"]);
    assert_eq!(sim.now().since_start(), Duration::from_secs(7));
}

#[test]
fn f9_panics_in_branches_merges_and_splits_are_faults() {
    quiet();
    let panic_of = |graph: CompiledGraph<u32>| {
        let error = block_on(async { graph.run(2).await }).unwrap_err();
        let RunFault::Panic(panic) = error.fault() else { panic!("{error}") };
        (panic.node.clone(), panic.during)
    };
    let merge = squares(|_: u32, _: Vec<u32>| panic!("{INJECTED} in the merge"));
    assert_eq!(panic_of(merge), ("split".to_string(), During::Merge));
    let base = |items: fn(&u32) -> Vec<u32>| {
        Graph::<u32>::new("panics")
            .add_node("split", pass)
            .add_node("work", |n: u32| async move {
                assert!(n != 1, "{INJECTED} in a branch");
                Ok::<_, String>(n)
            })
            .map("split", items, "work", END, |n: u32, _: Vec<u32>| n)
            .add_edge("work", END)
            .set_entry("split")
            .compile()
            .unwrap()
    };
    assert_eq!(panic_of(base(|_| panic!("{INJECTED} in the items"))), ("split".to_string(), During::Split));
    assert_eq!(panic_of(base(|n| (0..*n).collect())), ("work".to_string(), During::Node));
}

#[test]
fn f9_cancel_drops_all_branches() {
    explore(0..50, |sim| {
        for spawned in [false, true] {
            let held = Arc::new(AtomicU32::new(0));
            let counted = Arc::clone(&held);
            let fan_out = FanOut::merge(|n, _| n);
            let graph = Graph::<u32>::new("held")
                .add_node("split", pass)
                .add_node("hold", move |n: u32| {
                    let counted = Arc::clone(&counted);
                    async move {
                        counted.fetch_add(1, SeqCst);
                        let _held = Held(counted);
                        pending::<()>().await;
                        Ok::<_, String>(n)
                    }
                })
                .map("split", |n| (0..*n).collect(), "hold", END, if spawned { fan_out.spawned() } else { fan_out })
                .add_edge("hold", END)
                .set_entry("split")
                .compile()
                .unwrap();
            let token = sim.token();
            let canceller = sim.scope();
            let (cancels, seen, runtime) = (token.clone(), Arc::clone(&held), sim.runtime());
            canceller
                .launch(async move {
                    runtime.sleep_until(runtime.now() + Duration::from_millis(1)).await;
                    assert_eq!(seen.load(SeqCst), 5);
                    cancels.cancel("stop");
                })
                .unwrap();
            let error = sim.run(async { graph.run(5).token(&token).await }).unwrap_err();
            assert!(matches!(error.fault(), RunFault::Cancelled { was_executing: true, node, .. } if node == "hold"));
            assert_eq!(error.into_state(), Some(5), "the state before the fan-out is returned");
            sim.settle();
            assert_eq!((held.load(SeqCst), sim.tasks_alive()), (0, 0));
        }
    });
}

#[test]
fn f9_timed_out_spawned_attempt_is_dropped_while_the_run_continues() {
    explore(0..20, |sim| {
        let held = Arc::new(AtomicU32::new(0));
        let (counted, runtime) = (Arc::clone(&held), sim.runtime());
        let graph = Graph::<u32>::new("timed out")
            .add_node("split", pass)
            .add_node("try", move |cx: NodeContext, n: u32| {
                let (counted, runtime) = (Arc::clone(&counted), Arc::clone(&runtime));
                async move {
                    counted.fetch_add(1, SeqCst);
                    let _held = Held(Arc::clone(&counted));
                    if cx.attempt() == 1 {
                        pending::<()>().await;
                    }
                    runtime.sleep_until(runtime.now() + Duration::from_millis(10)).await;
                    assert_eq!(counted.load(SeqCst), 1, "the first attempt was dropped");
                    Ok::<_, String>(n + 1)
                }
            })
            .map("split", |n| vec![*n], "try", END, FanOut::merge(|_, all: Vec<u32>| all[0]).spawned())
            .add_edge("try", END)
            .policy("try", Policy::new().timeout(Duration::from_secs(1)).retry(Retry::times(2)))
            .set_entry("split")
            .compile()
            .unwrap();
        assert_eq!(sim.run(graph.run(1).runtime(sim.runtime()).into_future()).unwrap(), 2);
        assert_eq!(held.load(SeqCst), 0);
    });
}
