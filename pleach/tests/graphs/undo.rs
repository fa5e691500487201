//! F12: compensation of in-memory runs.
use crate::add_one;
use crate::common::{Log, quiet};
use pleach::graph::Compensation;
use pleach::prelude::*;
use pleach::runtime::block_on;
use pleach::sim::{Sim, explore};
use std::future::pending;
use std::sync::Arc;

/// Three steps that each record an undo payload. The last step fails.
fn booking(log: &Log<String>, undo_fails: &'static str) -> CompiledGraph<u32> {
    let book = |name: &'static str| {
        move |cx: NodeContext, n: u32| async move {
            cx.record_undo(format!("{name} {n}"));
            Ok::<_, String>(n + 1)
        }
    };
    let undo = |name: &'static str| {
        let log = log.clone();
        move |cx: NodeContext, payload: String| {
            log.note(format!("{} undoes {payload}, {}", cx.node(), cx.token().is_cancelled()));
            async move { if name == undo_fails { Err("stuck") } else { Ok(()) } }
        }
    };
    Graph::new("booking")
        .add_node("flight", book("flight"))
        .add_node("hotel", book("hotel"))
        .add_node("free", |_: NodeContext, n: u32| async move { Ok::<_, String>(n) })
        .add_node("pay", |cx: NodeContext, n: u32| async move {
            cx.record_undo("pay".to_string());
            if n > 3 { Err("no money") } else { Ok(n) }
        })
        .add_edge("flight", "hotel")
        .add_conditional_edge("hotel", ["flight", "free"], |n: &u32| if *n < 4 { "flight" } else { "free" })
        .add_edge("free", "pay")
        .add_edge("pay", END)
        .compensate("flight", undo("flight"))
        .compensate("hotel", undo("hotel"))
        .compensate("free", undo("free"))
        .compensate("pay", undo("pay"))
        .set_entry("flight")
        .compile()
        .unwrap()
}

#[test]
fn f12_undos_run_in_reverse_order_with_a_fresh_token() {
    let (sim, log) = (Sim::new(1), Log::new());
    let error = sim.run(async { booking(&log, "").run(0).runtime(sim.runtime()).await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Node(node) if node.node == "pay"));
    let undone = [
        "hotel undoes hotel 3, false",
        "flight undoes flight 2, false",
        "hotel undoes hotel 1, false",
        "flight undoes flight 0, false",
    ];
    assert_eq!(log.take(), undone, "only committed visits that recorded a payload are undone");
    let Some(Compensation::Compensated { undone }) = error.compensation() else { panic!("{error}") };
    assert_eq!(undone, &["hotel", "flight", "hotel", "flight"]);
    assert!(error.to_string().contains("undone: hotel, flight"));
}

#[test]
fn f12_failed_undo_is_reported_with_the_remaining_undos() {
    quiet();
    let (sim, log) = (Sim::new(1), Log::new());
    let error = sim.run(async { booking(&log, "flight").run(0).runtime(sim.runtime()).await }).unwrap_err();
    let Some(Compensation::CompensationFailed { undone, node, reason, left }) = error.compensation() else { panic!("{error}") };
    assert_eq!(
        (undone.concat().as_str(), node.as_str(), reason.as_str(), left.join(" ").as_str()),
        ("hotel", "flight", "stuck", "hotel flight")
    );
    assert!(matches!(error.fault(), RunFault::Node(node) if node.node == "pay"), "the first failure is the fault");
}

#[test]
fn f12_limited_or_cancelled_run_is_not_undone() {
    let (sim, log) = (Sim::new(1), Log::new());
    let error = sim.run(async { booking(&log, "").run(0).runtime(sim.runtime()).max_iterations(5).await }).unwrap_err();
    assert!(error.compensation().is_none() && log.take().is_empty());
    let token = sim.token();
    token.cancel(());
    sim.run(async { booking(&log, "").run(0).token(&token).await }).unwrap_err();
    assert!(log.take().is_empty());
}

#[test]
fn f12_branches_and_subgraphs_are_undone_past_the_run_deadline() {
    explore(0..30, |sim| {
        let log = Log::new();
        let undone = log.clone();
        let runtime = sim.runtime();
        let step = Graph::<u32>::new("step")
            .add_node("do", |cx: NodeContext, n: u32| async move {
                cx.record_undo(n);
                Ok::<_, String>(n)
            })
            .compensate("do", move |cx: NodeContext, n: u32| {
                let (undone, runtime) = (undone.clone(), Arc::clone(&runtime));
                async move {
                    runtime.sleep_until(runtime.now() + Duration::from_secs(60)).await;
                    assert!(!cx.token().is_cancelled());
                    undone.note(format!("{} {n}", cx.node()));
                    Ok::<_, String>(())
                }
            })
            .add_edge("do", END)
            .set_entry("do")
            .compile()
            .unwrap();
        let graph = Graph::<u32>::new("all")
            .add_node("split", add_one)
            .add_subgraph("sub", step, |n: &u32| *n, |_, n| n)
            .add_node("fail", |_: u32| async { Err::<u32, _>("no") })
            .map("split", |n| vec![*n, *n + 1], "sub", "fail", |n: u32, _: Vec<u32>| n)
            .add_edge("sub", "fail")
            .add_edge("fail", END)
            .set_entry("split")
            .compile()
            .unwrap();
        let run = graph.run(6).runtime(sim.runtime()).timeout(Duration::from_secs(1)).into_future();
        let error = sim.run(run).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Node(_)), "{error}");
        assert_eq!(log.take(), ["sub/do 8", "sub/do 7"]);
    });
}

#[test]
fn f12_undo_cancelled_with_its_scope_is_reported_as_failed() {
    let sim = Sim::new(1);
    let graph = Graph::<u32>::new("slow undo")
        .add_node("do", |cx: NodeContext, n: u32| async move {
            cx.record_undo(());
            Ok::<_, String>(n)
        })
        .add_node("fail", |_: u32| async { Err::<u32, _>("no") })
        .compensate("do", |_: NodeContext, (): ()| async {
            pending::<()>().await;
            Ok::<(), String>(())
        })
        .add_edge("do", "fail")
        .add_edge("fail", END)
        .set_entry("do")
        .compile()
        .unwrap();
    let scope = sim.scope();
    let run = graph.run(1).in_scope(&scope).into_future();
    sim.settle();
    scope.cancel("everything ends");
    let error = sim.run(run).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Node(node) if node.node == "fail"), "the original fault is kept");
    let Some(Compensation::CompensationFailed { node, reason, .. }) = error.compensation() else { panic!("{error}") };
    assert_eq!((node.as_str(), reason.as_str()), ("do", "everything ends"));
}

#[test]
fn f12_undo_payload_of_another_type_fails_the_node() {
    let graph = Graph::<u32>::new("typed")
        .add_node("node", |cx: NodeContext, n: u32| async move {
            cx.record_undo("text");
            Ok::<_, String>(n)
        })
        .compensate("node", |_: NodeContext, _: u64| async { Ok::<(), String>(()) })
        .add_edge("node", END)
        .set_entry("node")
        .compile()
        .unwrap();
    let error = block_on(async { graph.run(1).await }).unwrap_err();
    assert!(error.to_string().contains("recorded a &str") && error.to_string().contains("takes a u64"), "{error}");
    assert_eq!(error.into_state(), Some(1));
}
