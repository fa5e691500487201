//! F10: subgraphs.
use crate::common::Log;
use crate::{add_one, pass, sum};
use pleach::graph::RunEvent;
use pleach::prelude::*;
use pleach::runtime::block_on;
use pleach::sim::{Sim, explore};
use std::future::pending;

/// Doubles a text until it is long enough.
fn doubling() -> Graph<String> {
    Graph::new("doubling")
        .add_node("double", |text: String| async move { if text.is_empty() { Err("empty") } else { Ok(text.repeat(2)) } })
        .add_conditional_edge("double", ["double", END], |text: &String| if text.len() < 8 { "double" } else { END })
        .set_entry("double")
}

/// Runs `inner` on a text as long as the state, and takes its length back.
fn around(inner: CompiledGraph<String>) -> Graph<u32> {
    Graph::new("around")
        .add_node("before", add_one)
        .add_subgraph("inner", inner, |n: &u32| "x".repeat(*n as usize), |n, text| n * 100 + text.len() as u32)
        .add_edge("before", "inner")
        .add_edge("inner", END)
        .set_entry("before")
}

#[test]
fn f10_subgraph_has_its_own_state_type() {
    let graph = around(doubling().compile().unwrap()).compile().unwrap();
    assert_eq!(block_on(async { graph.run(0).await }).unwrap(), 108);
    assert_eq!(block_on(async { graph.run(2).await }).unwrap(), 312);
    // The subgraph is part of the fingerprint.
    let other = doubling().add_node("more", |text: String| async { Ok::<_, String>(text) }).compile().unwrap();
    assert_ne!(around(other).compile().unwrap().fingerprint(), graph.fingerprint());
}

#[test]
fn f10_visits_inside_subgraphs_count_towards_the_run_limit() {
    let graph = around(doubling().compile().unwrap()).compile().unwrap();
    // The visits: `before`, `inner` and three times `inner/double`.
    assert_eq!(block_on(async { graph.run(0).max_iterations(5).await }).unwrap(), 108);
    let log = Log::new();
    let seen = log.clone();
    let hooks = Hooks::around_nodes(
        |_, _| {},
        move |visit, result: Result<&u32, _>| seen.note(format!("{} {}", visit.node, result.is_ok())),
    );
    let error = block_on(async { graph.run(0).max_iterations(4).hooks(hooks).await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::MaxIterations { limit: 4, next } if next == "inner/double"), "{error}");
    assert_eq!(log.take(), ["before true", "inner false"], "every started node reports its end");
}

#[test]
fn f10_failure_in_a_subgraph_names_the_inner_node() {
    let graph = around(doubling().compile().unwrap()).set_entry("inner").compile().unwrap();
    let error = block_on(async { graph.run(0).await }).unwrap_err();
    let RunFault::Node(node) = error.fault() else { panic!("{error}") };
    assert_eq!((&*node.node, node.reason.to_string()), ("inner/double", "empty".to_string()));
    assert_eq!(error.to_string(), "node \"inner/double\" failed at attempt 1: empty");
}

#[test]
fn f10_subgraph_is_cancelled_with_its_run() {
    let waits = Graph::<String>::new("waits")
        .add_node("wait", |text: String| async move {
            pending::<()>().await;
            Ok::<_, String>(text)
        })
        .add_edge("wait", END)
        .set_entry("wait")
        .compile()
        .unwrap();
    let sim = Sim::new(1);
    let graph = around(waits).compile().unwrap();
    let run = graph.run(1).runtime(sim.runtime()).timeout(Duration::from_secs(1)).into_future();
    let error = sim.run(run).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Cancelled { node, was_executing: true, .. } if node == "inner"));
}

#[test]
fn f10_hooks_see_inner_nodes_and_their_emitted_values() {
    let inner = doubling()
        .add_node("talk", |cx: NodeContext, text: String| async move {
            cx.emit(format!("{} in {:?}", cx.node(), cx.branch().branches()));
            Ok::<_, String>(text)
        })
        .add_edge("talk", "double")
        .set_entry("talk");
    let log = Log::new();
    let seen = log.clone();
    let hooks = Hooks::new(move |event: &RunEvent<&u32>| match event {
        RunEvent::NodeStarted { visit, .. } => seen.note(&visit.node),
        RunEvent::InnerStarted { visit } => seen.note(&visit.node),
        RunEvent::Emitted { value, .. } => seen.note(value.text().unwrap()),
        _ => {}
    });
    let graph = around(inner.compile().unwrap()).compile().unwrap();
    block_on(async { graph.run(3).hooks(hooks).await }).unwrap();
    assert_eq!(log.take(), ["before", "inner", "inner/talk", "inner/talk in [0]", "inner/double"]);
}

#[test]
fn f10_subgraphs_work_in_branches_and_nested() {
    let twice = Graph::<u32>::new("twice")
        .add_subgraph("deep", around(doubling().compile().unwrap()).compile().unwrap(), |n: &u32| *n, |_, n| n)
        .add_edge("deep", END)
        .set_entry("deep")
        .compile()
        .unwrap();
    for spawned in [false, true] {
        explore(0..20, |sim| {
            let fan_out = FanOut::merge(sum);
            let graph = Graph::<u32>::new("branches")
                .add_node("split", pass)
                .add_subgraph("sub", twice.clone(), |n: &u32| *n, |_, n| n)
                .map("split", |n| (0..*n).collect(), "sub", END, if spawned { fan_out.spawned() } else { fan_out })
                .add_edge("sub", END)
                .set_entry("split")
                .compile()
                .unwrap();
            let run = graph.run(3).runtime(sim.runtime()).into_future();
            assert_eq!(sim.run(run).unwrap(), 108 + 208 + 312);
        });
    }
}
