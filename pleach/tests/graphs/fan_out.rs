//! F9: branches side by side, and how they become one again. Seeded: what finishes first is drawn by the simulator.
#![cfg(feature = "graph")]

use crate::common::{INJECTED, Log, quiet};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{BoxError, During, Elapsed, Random, RunEvent, RunUpdate, block_on};
use std::error::Error;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Notes of a run, in order, and where it is.
type Notes = Vec<String>;

async fn same(notes: Notes) -> Result<Notes, String> {
    Ok(notes)
}

/// All that the branches added, in the order of the branches.
fn appended(before: Notes, branches: Vec<Notes>) -> Notes {
    let added = branches.into_iter().flat_map(|branch| branch[before.len()..].to_vec());
    before.iter().cloned().chain(added).collect()
}

/// A node that adds its name after a time that the seed draws.
fn draws(
    sim: &Sim,
    name: &'static str,
) -> impl Fn(Notes) -> pleach::BoxFuture<'static, Result<Notes, String>> + Send + Sync + use<> {
    let runtime = sim.runtime();
    move |mut notes| {
        let runtime = Arc::clone(&runtime);
        Box::pin(async move {
            let wait = Duration::from_millis(runtime.random() % 4);
            runtime.sleep_until(runtime.now() + wait).await;
            notes.push(name.to_string());
            Ok(notes)
        })
    }
}

fn three(sim: &Sim, fan_out: impl Into<FanOut<Notes>>) -> Graph<Notes> {
    Graph::new("three")
        .add_node("fork", same)
        .add_node("a", draws(sim, "a"))
        .add_node("b", draws(sim, "b"))
        .add_node("c", draws(sim, "c"))
        .add_node("join", same)
        .add_parallel_edge("fork", ["a", "b", "c"], "join", fan_out)
        .add_edge("a", "join")
        .add_edge("b", "join")
        .add_edge("c", "join")
        .add_edge("join", END)
        .set_entry("fork")
}

#[test]
fn f9_the_merge_sees_branches_as_declared_whatever_finishes_first() {
    let orders = Log::new();
    explore(0..200, |sim| {
        let finished = Log::new();
        let seen = finished.clone();
        let hooks = Hooks::around_nodes(|_, _| {}, move |visit, _: Result<&Notes, _>| seen.note(&visit.node));
        for spawned in [false, true] {
            let fan_out = FanOut::merge(appended);
            let graph = three(sim, if spawned { fan_out.spawned() } else { fan_out }).compile().unwrap();
            let notes = sim.run(async { graph.run(vec!["0".into()]).on(sim.runtime()).hooks(hooks.clone()).await }).unwrap();
            assert_eq!(notes, ["0", "a", "b", "c"]);
            orders.push(finished.take().concat());
            assert_eq!(sim.settle(), 0);
        }
    });
    let mut orders = orders.take();
    orders.sort_unstable();
    orders.dedup();
    assert!(orders.len() >= 6, "every order of three was seen: {orders:?}");
}

#[test]
fn f9_branches_are_visits_and_have_paths() {
    let sim = Sim::new(1);
    let log = Log::new();
    let seen = log.clone();
    let hooks = Hooks::around_nodes(
        move |visit, _: &Notes| seen.note(format!("{} {:?}", visit.node, visit.branch.branches())),
        |_, _| {},
    );
    let graph = three(&sim, appended).compile().unwrap();
    sim.run(async { graph.run(vec![]).on(sim.runtime()).hooks(hooks).max_visits(5).max_iterations(3).await }).unwrap();
    assert_eq!(log.take(), ["fork []", "a [0]", "b [1]", "c [2]", "join []"]);
    let error = sim.run(async { graph.run(vec![]).on(sim.runtime()).max_visits(3).await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::MaxVisits { limit: 3, next } if next == "c"));
}

/// Nested fan-outs, with a loop and a choice inside a branch.
fn nested(sim: &Sim) -> CompiledGraph<Notes> {
    Graph::new("nested")
        .add_node("outer", same)
        .add_node("left", draws(sim, "left"))
        .add_node("inner", draws(sim, "inner"))
        .add_node("x", draws(sim, "x"))
        .add_node("y", draws(sim, "y"))
        .add_node("inner join", draws(sim, "inner join"))
        .add_node("outer join", draws(sim, "outer join"))
        .add_parallel_edge("outer", ["inner", "left"], "outer join", appended)
        .add_conditional_edge("left", ["left", "outer join"], |notes: &Notes| {
            if notes.iter().filter(|note| *note == "left").count() < 3 { "left" } else { "outer join" }
        })
        .add_parallel_edge("inner", ["x", "y"], "inner join", appended)
        .add_edge("x", "inner join")
        .add_edge("y", "inner join")
        .add_edge("inner join", "outer join")
        .add_edge("outer join", END)
        .set_entry("outer")
        .compile()
        .unwrap()
}

#[test]
fn f9_fan_outs_nest() {
    explore(0..100, |sim| {
        let notes = sim.run(async { nested(sim).run(vec![]).on(sim.runtime()).await }).unwrap();
        assert_eq!(notes, ["inner", "x", "y", "inner join", "left", "left", "left", "outer join"]);
    });
}

#[test]
fn f9_one_join_may_close_two_fan_outs_and_the_end_may_be_one() {
    let graph = |join: &'static str| {
        let graph = Graph::<u32>::new("shared");
        let graph = ["f", "g", "a", "b", "j"]
            .into_iter()
            .fold(graph, |graph, id| graph.add_node(id, |n: u32| async move { Ok::<_, String>(n + 1) }));
        let sum = |_: u32, branches: Vec<u32>| branches.into_iter().sum();
        graph
            .add_parallel_edge("f", ["g"], join, sum)
            .add_parallel_edge("g", ["a", "b"], join, sum)
            .add_edge("a", join)
            .add_edge("b", join)
            .add_edge("j", END)
            .set_entry("f")
            .compile()
            .unwrap()
    };
    assert_eq!(block_on(async { graph("j").run(0).await }).unwrap(), 7);
    assert_eq!(block_on(async { graph(END).run(0).await }).unwrap(), 6);
}

/// Fans out over the numbers below the state; each item becomes its square.
fn squares(fan_out: impl Into<FanOut<u32>>) -> CompiledGraph<u32> {
    Graph::new("squares")
        .add_node("split", |n: u32| async move { Ok::<_, String>(n) })
        .add_node("square", |n: u32| async move { Ok::<_, String>(n * n) })
        .add_node("end", |n: u32| async move { Ok::<_, String>(n) })
        .map("split", |n| (0..*n).collect(), "square", "end", fan_out)
        .add_edge("square", "end")
        .add_edge("end", END)
        .set_entry("split")
        .compile()
        .unwrap()
}

#[test]
fn f9_map_runs_a_branch_for_each_item_and_none_goes_straight_to_the_join() {
    let graph = squares(|_: u32, squares: Vec<u32>| squares.into_iter().sum());
    let run = |n| block_on(async { graph.run(n).max_iterations(100_000).await }).unwrap();
    assert_eq!((run(0), run(1), run(4), run(1_000)), (0, 0, 14, 332_833_500));
}

#[test]
fn f9_the_limit_of_branches_is_reached_and_never_exceeded() {
    explore(0..50, |sim| {
        for (limit, spawned) in [(1, false), (3, false), (3, true), (100, false)] {
            let (running, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
            let (runtime, now, peak) = (sim.runtime(), Arc::clone(&running), Arc::clone(&most));
            let fan_out = FanOut::merge(|_, all: Vec<u32>| all.into_iter().sum()).limit(limit);
            let graph = Graph::<u32>::new("limited")
                .add_node("split", |n: u32| async move { Ok::<_, String>(n) })
                .add_node("work", move |n: u32| {
                    let (runtime, now, peak) = (Arc::clone(&runtime), Arc::clone(&now), Arc::clone(&peak));
                    async move {
                        peak.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                        let wait = Duration::from_millis(1 + runtime.random() % 3);
                        runtime.sleep_until(runtime.now() + wait).await;
                        now.fetch_sub(1, SeqCst);
                        Ok::<_, String>(n)
                    }
                })
                .map("split", |n| (1..=*n).collect(), "work", END, if spawned { fan_out.spawned() } else { fan_out })
                .add_edge("work", END)
                .set_entry("split")
                .compile()
                .unwrap();
            assert_eq!(sim.run(async { graph.run(10).on(sim.runtime()).await }).unwrap(), 55);
            assert_eq!(most.load(SeqCst), limit.min(10) as u32);
        }
    });
}

#[test]
fn f9_a_thousand_branches_that_wait_are_polled_only_when_woken() {
    let sim = Sim::new(7);
    let polls = Arc::new(AtomicU32::new(0));
    let (runtime, counted) = (sim.runtime(), Arc::clone(&polls));
    let graph = Graph::<u32>::new("wide")
        .add_node("split", |n: u32| async move { Ok::<_, String>(n) })
        .add_node("wait", move |n: u32| {
            let (runtime, counted) = (Arc::clone(&runtime), Arc::clone(&counted));
            let mut sleep = runtime.sleep_until(runtime.now() + Duration::from_millis(u64::from(n)));
            async move {
                std::future::poll_fn(|cx| {
                    counted.fetch_add(1, SeqCst);
                    sleep.as_mut().poll(cx)
                })
                .await;
                Ok::<_, String>(1)
            }
        })
        .map("split", |n| (1..=*n).collect(), "wait", END, |_, all: Vec<u32>| all.into_iter().sum())
        .add_edge("wait", END)
        .set_entry("split")
        .compile()
        .unwrap();
    let run = graph.run(1_000).on(sim.runtime()).max_iterations(2_000).into_future();
    assert_eq!(sim.run(run).unwrap(), 1_000);
    // Once each to begin, once more for its own waker, once when it is woken; and those that are left at the end, together.
    assert!(polls.load(SeqCst) < 5_000, "{polls:?}");
}

/// `ok` waits for ever or is done, `bad` fails.
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
fn f9_a_failing_branch_cuts_off_the_others_and_fails_the_run() {
    let log = Log::new();
    let seen = log.clone();
    let hooks = Hooks::new(move |event: &RunEvent<&Notes>| match event {
        RunEvent::Forked { node, branches, .. } => seen.note(format!("forked {node} {branches}")),
        RunEvent::BranchFailed { node, branch, error, state } => {
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
fn f9_without_fail_fast_the_others_come_to_their_ends() {
    explore(0..50, |sim| {
        let ends = Arc::new(AtomicU32::new(0));
        let (runtime, counted) = (sim.runtime(), Arc::clone(&ends));
        let graph = Graph::<u32>::new("slow to fail")
            .add_node("split", |n: u32| async move { Ok::<_, String>(n) })
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
        let error = sim.run(async { graph.run(9).on(sim.runtime()).await }).unwrap_err();
        assert_eq!(error.to_string(), "node \"work\" failed at attempt 1: no 2", "the first one counts");
        assert_eq!(ends.load(SeqCst), 9);
    });
}

#[test]
fn f9_collect_gives_the_merge_each_result() {
    quiet();
    let graph = Graph::<u32>::new("collecting")
        .add_node("split", |n: u32| async move { Ok::<_, String>(n) })
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
fn f9_the_time_of_a_fan_out_is_bounded() {
    let secs = Duration::from_secs;
    let sim = Sim::new(3);
    let graph = failing(FanOut::merge(appended).timeout(secs(2)), true);
    let error = sim.run(async { graph.run(vec![]).on(sim.runtime()).await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::FanOutTimeout(timeout) if timeout.node == "fork"));
    assert_eq!(error.source().and_then(|source| source.downcast_ref()), Some(&Elapsed(secs(2))));
    assert_eq!(sim.now().since_start(), secs(2));

    let collect = FanOut::collect(|_, results: Vec<Result<Notes, RunError<Notes>>>| {
        Ok::<_, BoxError>(results.iter().map(|result| result.is_ok().to_string()).collect())
    });
    let graph = failing(collect.timeout(secs(2)), true);
    assert_eq!(sim.run(async { graph.run(vec![]).on(sim.runtime()).await }).unwrap(), ["false", "true"]);
    let in_time = failing(FanOut::merge(appended).timeout(secs(2)), false);
    assert!(sim.run(async { in_time.run(vec![]).on(sim.runtime()).await }).is_ok());
}

#[test]
fn f9_the_time_of_a_nested_fan_out_is_bounded_too() {
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
    // Nothing but the timer of the inner one can wake the run.
    assert_eq!(sim.run(graph.run(vec![]).on(sim.runtime()).into_future()).unwrap(), ["false"]);
    assert_eq!(sim.now().since_start(), Duration::from_secs(7));
}

#[test]
fn f9_panics_in_branches_merges_and_items_are_errors() {
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
            .add_node("split", |n: u32| async move { Ok::<_, String>(n) })
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
fn f9_a_cancel_in_the_middle_cuts_off_all_branches() {
    struct Held(Arc<AtomicU32>);
    impl Drop for Held {
        fn drop(&mut self) {
            self.0.fetch_sub(1, SeqCst);
        }
    }
    explore(0..50, |sim| {
        for spawned in [false, true] {
            let held = Arc::new(AtomicU32::new(0));
            let counted = Arc::clone(&held);
            let fan_out = FanOut::merge(|n, _| n);
            let graph = Graph::<u32>::new("held")
                .add_node("split", |n: u32| async move { Ok::<_, String>(n) })
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
            assert_eq!(error.into_state(), Some(5), "the state before the fan-out is still there");
            sim.settle();
            assert_eq!((held.load(SeqCst), sim.tasks_alive()), (0, 0));
        }
    });
}

#[test]
fn f9_a_spawned_node_that_is_given_up_is_cut_off_while_the_run_goes_on() {
    struct Held(Arc<AtomicU32>);
    impl Drop for Held {
        fn drop(&mut self) {
            self.0.fetch_sub(1, SeqCst);
        }
    }
    explore(0..20, |sim| {
        let held = Arc::new(AtomicU32::new(0));
        let (counted, runtime) = (Arc::clone(&held), sim.runtime());
        let graph = Graph::<u32>::new("given up")
            .add_node("split", |n: u32| async move { Ok::<_, String>(n) })
            .add_node("try", move |cx: NodeContext, n: u32| {
                let (counted, runtime) = (Arc::clone(&counted), Arc::clone(&runtime));
                async move {
                    counted.fetch_add(1, SeqCst);
                    let _held = Held(Arc::clone(&counted));
                    if cx.attempt() == 1 {
                        pending::<()>().await;
                    }
                    runtime.sleep_until(runtime.now() + Duration::from_millis(10)).await;
                    assert_eq!(counted.load(SeqCst), 1, "the first attempt is gone");
                    Ok::<_, String>(n + 1)
                }
            })
            .map("split", |n| vec![*n], "try", END, FanOut::merge(|_, all: Vec<u32>| all[0]).spawned())
            .add_edge("try", END)
            .policy("try", Policy::new().timeout(Duration::from_secs(1)).retry(Retry::times(2)))
            .set_entry("split")
            .compile()
            .unwrap();
        assert_eq!(sim.run(graph.run(1).on(sim.runtime()).into_future()).unwrap(), 2);
        assert_eq!(held.load(SeqCst), 0);
    });
}

#[test]
fn f9_spawned_branches_run_on_the_runtimes_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let graph = Graph::<u32>::new("threads")
        .add_node("split", |n: u32| async move { Ok::<_, String>(n) })
        .add_node("meet", {
            let barrier = Arc::new(std::sync::Barrier::new(2));
            move |n: u32| {
                let barrier = Arc::clone(&barrier);
                // Both must be inside at once: that takes two threads.
                async move {
                    barrier.wait();
                    Ok::<_, String>(n)
                }
            }
        })
        .map("split", |_| vec![1, 2], "meet", END, FanOut::merge(|_, all: Vec<u32>| all.into_iter().sum()).spawned())
        .add_edge("meet", END)
        .set_entry("split")
        .compile()
        .unwrap();
    assert_eq!(runtime.block_on(async { graph.run(0).await }).unwrap(), 3);
}

#[test]
fn f9_a_stream_tells_of_forks_and_joins() {
    let sim = Sim::new(5);
    let graph = three(&sim, appended).compile().unwrap();
    let mut stream = graph.run(vec![]).on(sim.runtime()).stream();
    let mut seen = Notes::new();
    sim.run(async {
        while let Some(update) = stream.next().await {
            match update {
                RunUpdate::Event(RunEvent::Forked { node, branches, .. }) => seen.push(format!("fork {node} {branches}")),
                RunUpdate::Event(RunEvent::Joined { node, state }) => seen.push(format!("join {node} {}", state.concat())),
                RunUpdate::Ended(outcome) => seen.push(outcome.unwrap().concat()),
                _ => {}
            }
        }
    });
    assert_eq!(seen, ["fork fork 3", "join fork abc", "abc"]);
}

#[test]
fn f9_one_seed_gives_one_trace() {
    let run = |seed| {
        let sim = Sim::new(seed);
        sim.run(async { nested(&sim).run(vec![]).on(sim.runtime()).await }).unwrap();
        (sim.now(), sim.trace_hash())
    };
    let mut random = Random::seeded(1);
    for _ in 0..20 {
        let seed = random.next_u64();
        assert_eq!(run(seed), run(seed));
    }
}
