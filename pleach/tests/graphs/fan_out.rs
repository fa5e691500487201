//! F9: parallel branches and their merge. The simulator's seed decides which branch finishes first.
use crate::common::Log;
use crate::{add_one, pass, sum};
use pleach::graph::{RunEvent, RunUpdate};
use pleach::prelude::*;
use pleach::runtime::{Random, block_on};
use pleach::sim::{Sim, explore};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Names of the visited nodes, in order.
pub(crate) type Notes = Vec<String>;

pub(crate) async fn same(notes: Notes) -> Result<Notes, String> {
    Ok(notes)
}

/// Appends what each branch added, in the order of the branches.
pub(crate) fn appended(before: Notes, branches: Vec<Notes>) -> Notes {
    let added = branches.into_iter().flat_map(|branch| branch[before.len()..].to_vec());
    before.iter().cloned().chain(added).collect()
}

/// A node that adds its name after a random delay.
fn delayed(
    sim: &Sim,
    name: &'static str,
) -> impl Fn(Notes) -> pleach::runtime::BoxFuture<'static, Result<Notes, String>> + Send + Sync + use<> {
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
        .add_node("a", delayed(sim, "a"))
        .add_node("b", delayed(sim, "b"))
        .add_node("c", delayed(sim, "c"))
        .add_node("join", same)
        .add_parallel_edge("fork", ["a", "b", "c"], "join", fan_out)
        .add_edge("a", "join")
        .add_edge("b", "join")
        .add_edge("c", "join")
        .add_edge("join", END)
        .set_entry("fork")
}

#[test]
fn f9_merge_sees_branches_in_declared_order() {
    let orders = Log::new();
    explore(0..200, |sim| {
        let finished = Log::new();
        let seen = finished.clone();
        let hooks = Hooks::around_nodes(|_, _| {}, move |visit, _: Result<&Notes, _>| seen.note(&visit.node));
        for spawned in [false, true] {
            let fan_out = FanOut::merge(appended);
            let graph = three(sim, if spawned { fan_out.spawned() } else { fan_out }).compile().unwrap();
            let notes =
                sim.run(async { graph.run(vec!["0".into()]).runtime(sim.runtime()).hooks(hooks.clone()).await }).unwrap();
            assert_eq!(notes, ["0", "a", "b", "c"]);
            orders.push(finished.take().concat());
            assert_eq!(sim.settle(), 0);
        }
    });
    let mut orders = orders.take();
    orders.sort_unstable();
    orders.dedup();
    assert!(orders.len() >= 6, "all six orders occur: {orders:?}");
}

#[test]
fn f9_branches_count_as_visits_and_have_paths() {
    let sim = Sim::new(1);
    let log = Log::new();
    let seen = log.clone();
    let hooks = Hooks::around_nodes(
        move |visit, _: &Notes| seen.note(format!("{} {:?}", visit.node, visit.branch.branches())),
        |_, _| {},
    );
    let graph = three(&sim, appended).compile().unwrap();
    sim.run(async { graph.run(vec![]).runtime(sim.runtime()).hooks(hooks).max_visits(5).max_iterations(3).await }).unwrap();
    assert_eq!(log.take(), ["fork []", "a [0]", "b [1]", "c [2]", "join []"]);
    let error = sim.run(async { graph.run(vec![]).runtime(sim.runtime()).max_visits(3).await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::MaxVisits { limit: 3, next } if next == "c"));
}

/// Nested fan-outs, with a loop and a choice inside a branch.
fn nested(sim: &Sim) -> CompiledGraph<Notes> {
    Graph::new("nested")
        .add_node("outer", same)
        .add_node("left", delayed(sim, "left"))
        .add_node("inner", delayed(sim, "inner"))
        .add_node("x", delayed(sim, "x"))
        .add_node("y", delayed(sim, "y"))
        .add_node("inner join", delayed(sim, "inner join"))
        .add_node("outer join", delayed(sim, "outer join"))
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
fn f9_fan_outs_can_be_nested() {
    explore(0..100, |sim| {
        let notes = sim.run(async { nested(sim).run(vec![]).runtime(sim.runtime()).await }).unwrap();
        assert_eq!(notes, ["inner", "x", "y", "inner join", "left", "left", "left", "outer join"]);
    });
}

#[test]
fn f9_one_join_can_close_two_fan_outs_and_can_be_the_end() {
    let graph = |join: &'static str| {
        let graph = Graph::<u32>::new("shared");
        let graph = ["f", "g", "a", "b", "j"].into_iter().fold(graph, |graph, id| graph.add_node(id, add_one));
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

/// Fans out over the numbers below the state and squares each of them.
pub(crate) fn squares(fan_out: impl Into<FanOut<u32>>) -> CompiledGraph<u32> {
    Graph::new("squares")
        .add_node("split", pass)
        .add_node("square", |n: u32| async move { Ok::<_, String>(n * n) })
        .add_node("end", pass)
        .map("split", |n| (0..*n).collect(), "square", "end", fan_out)
        .add_edge("square", "end")
        .add_edge("end", END)
        .set_entry("split")
        .compile()
        .unwrap()
}

#[test]
fn f9_map_runs_one_branch_per_item_and_none_for_no_items() {
    let graph = squares(|_: u32, squares: Vec<u32>| squares.into_iter().sum());
    let run = |n| block_on(async { graph.run(n).max_iterations(100_000).await }).unwrap();
    assert_eq!((run(0), run(1), run(4), run(1_000)), (0, 0, 14, 332_833_500));
}

#[test]
fn f9_branch_limit_is_reached_and_never_exceeded() {
    explore(0..50, |sim| {
        for (limit, spawned) in [(1, false), (3, false), (3, true), (100, false)] {
            let (running, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
            let (runtime, now, peak) = (sim.runtime(), Arc::clone(&running), Arc::clone(&most));
            let fan_out = FanOut::merge(sum).limit(limit);
            let graph = Graph::<u32>::new("limited")
                .add_node("split", pass)
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
            assert_eq!(sim.run(async { graph.run(10).runtime(sim.runtime()).await }).unwrap(), 55);
            assert_eq!(most.load(SeqCst), limit.min(10) as u32);
        }
    });
}

#[test]
fn f9_waiting_branches_are_polled_only_when_woken() {
    let sim = Sim::new(7);
    let polls = Arc::new(AtomicU32::new(0));
    let (runtime, counted) = (sim.runtime(), Arc::clone(&polls));
    let graph = Graph::<u32>::new("wide")
        .add_node("split", pass)
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
        .map("split", |n| (1..=*n).collect(), "wait", END, sum)
        .add_edge("wait", END)
        .set_entry("split")
        .compile()
        .unwrap();
    let run = graph.run(1_000).runtime(sim.runtime()).max_iterations(2_000).into_future();
    assert_eq!(sim.run(run).unwrap(), 1_000);
    // Polls per branch: the first, one for its own waker, one when woken. At the end the remaining
    // branches are polled together.
    assert!(polls.load(SeqCst) < 5_000, "{polls:?}");
}

#[test]
fn f9_spawned_branches_run_on_the_threads_of_the_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let graph = Graph::<u32>::new("threads")
        .add_node("split", pass)
        .add_node("meet", {
            let barrier = Arc::new(std::sync::Barrier::new(2));
            move |n: u32| {
                let barrier = Arc::clone(&barrier);
                // Both branches must be inside at the same time, which needs two threads.
                async move {
                    barrier.wait();
                    Ok::<_, String>(n)
                }
            }
        })
        .map("split", |_| vec![1, 2], "meet", END, FanOut::merge(sum).spawned())
        .add_edge("meet", END)
        .set_entry("split")
        .compile()
        .unwrap();
    assert_eq!(runtime.block_on(async { graph.run(0).await }).unwrap(), 3);
}

#[test]
fn f9_stream_reports_forks_and_joins() {
    let sim = Sim::new(5);
    let graph = three(&sim, appended).compile().unwrap();
    let mut stream = graph.run(vec![]).runtime(sim.runtime()).stream();
    let mut seen = Notes::new();
    sim.run(async {
        while let Some(update) = stream.next().await {
            match update {
                RunUpdate::Event(RunEvent::Forked { node, branches, .. }) => seen.push(format!("fork {node} {branches}")),
                RunUpdate::Event(RunEvent::Joined { node, state, .. }) => seen.push(format!("join {node} {}", state.concat())),
                RunUpdate::Ended(outcome) => seen.push(outcome.unwrap().concat()),
                _ => {}
            }
        }
    });
    assert_eq!(seen, ["fork fork 3", "join fork abc", "abc"]);
}

#[test]
fn f9_same_seed_gives_the_same_trace() {
    let run = |seed| {
        let sim = Sim::new(seed);
        sim.run(async { nested(&sim).run(vec![]).runtime(sim.runtime()).await }).unwrap();
        (sim.now(), sim.trace_hash())
    };
    let mut random = Random::seeded(1);
    for _ in 0..20 {
        let seed = random.next_u64();
        assert_eq!(run(seed), run(seed));
    }
}
