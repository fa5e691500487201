//! F2, F4, F6 and F13: runs without branches, their routers, limits and start nodes.
use crate::common::Log;
use crate::{add_one, pass};
use pleach::graph::StartError;
use pleach::prelude::*;
use pleach::runtime::block_on;
use pleach::sim::Sim;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

pub(crate) type Words = Vec<String>;

/// A node that adds its name.
pub(crate) fn say(name: &'static str) -> impl Fn(Words) -> std::future::Ready<Result<Words, String>> + Send + Sync {
    move |mut words| {
        words.push(name.to_string());
        std::future::ready(Ok(words))
    }
}

pub(crate) fn linear() -> Graph<Words> {
    Graph::new("linear")
        .add_node("a", say("a"))
        .add_node("b", say("b"))
        .add_node("c", say("c"))
        .add_edge("a", "b")
        .add_edge("b", "c")
        .add_edge("c", END)
        .set_entry("a")
}

/// Counts up to `to`, in a loop.
pub(crate) fn counting(to: u32) -> CompiledGraph<u32> {
    Graph::new("counting")
        .add_node("count", add_one)
        .add_conditional_edge("count", ["count", END], move |n: &u32| if *n < to { "count" } else { END })
        .set_entry("count")
        .compile()
        .unwrap()
}

#[test]
fn f4_linear_graph_runs_in_order() {
    let graph = linear().compile().unwrap();
    assert_eq!(block_on(async { graph.run(vec![]).await }).unwrap(), ["a", "b", "c"]);
    // A compiled graph can be run many times.
    assert_eq!(block_on(async { graph.run(vec!["0".into()]).await }).unwrap(), ["0", "a", "b", "c"]);
}

#[test]
fn f4_conditional_edge_uses_the_new_state() {
    let graph = Graph::<Words>::new("branch")
        .add_node("start", say("start"))
        .add_node("left", say("left"))
        .add_node("right", say("right"))
        .add_conditional_edge("start", ["left", "right"], |words: &Words| if words.len() > 1 { "left" } else { "right" })
        .add_edge("left", END)
        .add_edge("right", END)
        .set_entry("start")
        .compile()
        .unwrap();
    assert_eq!(block_on(async { graph.run(vec!["go".into()]).await }).unwrap(), ["go", "start", "left"]);
    assert_eq!(block_on(async { graph.run(vec![]).await }).unwrap(), ["start", "right"]);
}

#[test]
fn f4_run_needs_no_runtime_and_spawns_no_task() {
    let sim = Sim::new(1);
    let graph = counting(100);
    // Polled by hand without a runtime, it is ready at the first poll.
    let mut run = std::pin::pin!(graph.run(0).into_future());
    let polled = run.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    assert!(matches!(polled, std::task::Poll::Ready(Ok(100))));
    sim.run(async { graph.run(0).runtime(sim.runtime()).await }).unwrap();
    assert_eq!(sim.tasks_alive(), 0);
}

#[test]
fn f4_run_is_send_even_if_its_state_is_not_sync() {
    fn moves<T: Send>(value: T) -> T {
        value
    }
    let graph = Graph::<std::cell::Cell<u32>>::new("cell")
        .add_node("count", |n: std::cell::Cell<u32>| async move {
            n.set(n.get() + 1);
            Ok::<_, String>(n)
        })
        .add_edge("count", END)
        .set_entry("count")
        .compile()
        .unwrap();
    let run = moves(graph.run(std::cell::Cell::new(1)).into_future());
    let state = std::thread::spawn(move || block_on(run)).join().unwrap().unwrap();
    assert_eq!(state.get(), 2);
}

#[test]
fn f4_run_that_never_waits_yields_to_other_tasks() {
    let sim = Sim::new(1);
    let graph = counting(10_000);
    let others = sim.scope();
    let turns = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&turns);
    let mut run = Box::pin(graph.run(0).max_iterations(10_000).into_future());
    others
        .launch(async move {
            for _ in 0..10 {
                seen.fetch_add(1, SeqCst);
                let mut stepped = false;
                std::future::poll_fn(|cx| {
                    cx.waker().wake_by_ref();
                    if std::mem::replace(&mut stepped, true) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
                })
                .await;
            }
        })
        .unwrap();
    assert_eq!(sim.run(&mut run).unwrap(), 10_000);
    assert!(turns.load(SeqCst) > 1, "the other task had a turn before the run was over");
}

#[test]
fn f2_undeclared_target_is_an_error_with_the_new_state() {
    let graph = linear().add_node("d", say("d")).add_conditional_edge("d", ["a", END], |_: &Words| "b").set_entry("d");
    let error = block_on(async { graph.compile().unwrap().run(vec![]).await }).unwrap_err();
    let RunFault::Router(router) = error.fault() else { panic!("{error}") };
    assert_eq!((router.node.as_str(), router.answer.as_str()), ("d", "b"));
    assert_eq!(router.declared, ["a", END]);
    // F4: the result of the node is kept.
    assert_eq!(error.into_state().unwrap(), ["d"]);
}

#[test]
fn f2_router_can_take_the_context_and_return_a_string() {
    let graph = Graph::<u32>::new("routed")
        .add_node("a", pass)
        .add_conditional_edge("a", ["a", END], |cx: &NodeContext, _: &u32| -> String {
            if cx.iteration() < 3 { cx.node().to_string() } else { END.to_string() }
        })
        .set_entry("a")
        .compile()
        .unwrap();
    let visits = Log::new();
    let seen = visits.clone();
    let hooks = Hooks::around_nodes(move |visit, _: &u32| seen.push(visit.iteration), |_, _| {});
    block_on(async { graph.run(0).hooks(hooks).await }).unwrap();
    assert_eq!(visits.take(), [1, 2, 3]);
}

#[test]
fn f6_limit_counts_visits_exactly_and_returns_the_state() {
    let run = |limit| block_on(async { counting(10).run(0).max_iterations(limit).await });
    assert_eq!(run(10).unwrap(), 10);
    for limit in [0, 1, 9] {
        let error = run(limit).unwrap_err();
        assert!(matches!(error.fault(), RunFault::MaxIterations { limit: of, next } if *of == limit && next == "count"));
        assert_eq!(error.into_state(), Some(limit as u32));
    }
    assert_eq!(run(u64::MAX).unwrap(), 10);
    let error = block_on(async { counting(u32::MAX).run(0).await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::MaxIterations { limit: 1_000, .. }), "the default");
}

pub(crate) fn waiting() -> CompiledGraph<Words> {
    Graph::new("waiting")
        .add_node("first", say("first"))
        .add_node("slow", |words: Words| async move {
            pending::<()>().await;
            Ok::<_, String>(words)
        })
        .add_edge("first", "slow")
        .add_edge("slow", END)
        .set_entry("first")
        .compile()
        .unwrap()
}

#[test]
fn f13_run_can_start_at_a_named_node() {
    let graph = linear().add_node("lost", say("lost")).compile().unwrap();
    assert_eq!(block_on(async { graph.run(vec![]).start_at("b").await }).unwrap(), ["b", "c"]);
    let start = |node: &str| {
        let error = block_on(async { graph.run(vec!["kept".into()]).start_at(node).await }).unwrap_err();
        let RunFault::Start(start) = error.fault() else { panic!("{error}") };
        let start = start.clone();
        assert_eq!(error.into_state().unwrap(), ["kept"]);
        start
    };
    assert!(matches!(start("bb"), StartError::Unknown { did_you_mean: Some(id), .. } if id == "b"));
    assert!(matches!(start("lost"), StartError::Unreachable { .. }));
    let forked = Graph::<u32>::new("forked")
        .add_node("fork", pass)
        .add_node("in", pass)
        .add_parallel_edge("fork", ["in"], END, |n: u32, _: Vec<u32>| n)
        .add_edge("in", END)
        .set_entry("fork")
        .compile()
        .unwrap();
    let error = block_on(async { forked.run(1).start_at("in").await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Start(StartError::InBranch { fan_out, .. }) if fan_out == "fork"));
}
