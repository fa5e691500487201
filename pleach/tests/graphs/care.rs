//! F10 to F12: subgraphs, policies, compensation.
#![cfg(feature = "graph")]

use crate::common::{INJECTED, Log, quiet};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{Compensation, Elapsed, Reason, RunEvent, block_on};
use std::future::pending;
use std::sync::Arc;

async fn add_one(n: u32) -> Result<u32, String> {
    Ok(n + 1)
}

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
fn f10_a_subgraph_has_a_state_of_its_own() {
    let graph = around(doubling().compile().unwrap()).compile().unwrap();
    assert_eq!(block_on(async { graph.run(0).await }).unwrap(), 108);
    assert_eq!(block_on(async { graph.run(2).await }).unwrap(), 312);
    // It is part of the fingerprint.
    let other = doubling().add_node("more", |text: String| async { Ok::<_, String>(text) }).compile().unwrap();
    assert_ne!(around(other).compile().unwrap().fingerprint(), graph.fingerprint());
}

#[test]
fn f10_the_limit_of_the_run_counts_the_nodes_of_subgraphs() {
    let graph = around(doubling().compile().unwrap()).compile().unwrap();
    // `before`, `inner` and three times `inner/double`.
    assert_eq!(block_on(async { graph.run(0).max_iterations(5).await }).unwrap(), 108);
    let log = Log::new();
    let seen = log.clone();
    let hooks = Hooks::around_nodes(
        |_, _| {},
        move |visit, result: Result<&u32, _>| seen.note(format!("{} {}", visit.node, result.is_ok())),
    );
    let error = block_on(async { graph.run(0).max_iterations(4).hooks(hooks).await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::MaxIterations { limit: 4, next } if next == "inner/double"), "{error}");
    assert_eq!(log.take(), ["before true", "inner false"], "what was started is finished");
}

#[test]
fn f10_a_failure_inside_names_the_node_inside() {
    let graph = around(doubling().compile().unwrap()).set_entry("inner").compile().unwrap();
    let error = block_on(async { graph.run(0).await }).unwrap_err();
    let RunFault::Node(node) = error.fault() else { panic!("{error}") };
    assert_eq!((&*node.node, node.reason.to_string()), ("inner/double", "empty".to_string()));
    assert_eq!(error.to_string(), "node \"inner/double\" failed at attempt 1: empty");
}

#[test]
fn f10_a_subgraph_is_cancelled_with_its_run() {
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
    let run = graph.run(1).on(sim.runtime()).timeout(Duration::from_secs(1)).into_future();
    let error = sim.run(run).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Cancelled { node, was_executing: true, .. } if node == "inner"));
}

#[test]
fn f10_hooks_hear_of_inner_nodes_and_what_they_emit() {
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
fn f10_subgraphs_run_in_branches_and_within_each_other() {
    let twice = Graph::<u32>::new("twice")
        .add_subgraph("deep", around(doubling().compile().unwrap()).compile().unwrap(), |n: &u32| *n, |_, n| n)
        .add_edge("deep", END)
        .set_entry("deep")
        .compile()
        .unwrap();
    for spawned in [false, true] {
        explore(0..20, |sim| {
            let fan_out = FanOut::merge(|_, all: Vec<u32>| all.into_iter().sum());
            let graph = Graph::<u32>::new("branches")
                .add_node("split", |n: u32| async move { Ok::<_, String>(n) })
                .add_subgraph("sub", twice.clone(), |n: &u32| *n, |_, n| n)
                .map("split", |n| (0..*n).collect(), "sub", END, if spawned { fan_out.spawned() } else { fan_out })
                .add_edge("sub", END)
                .set_entry("split")
                .compile()
                .unwrap();
            let run = graph.run(3).on(sim.runtime()).into_future();
            assert_eq!(sim.run(run).unwrap(), 108 + 208 + 312);
        });
    }
}

/// A node that fails as often as it is told, and says what it was given.
fn flaky(
    fails: u32,
    log: &Log<String>,
) -> impl Fn(NodeContext, u32) -> pleach::BoxFuture<'static, Result<u32, String>> + Send + Sync + use<> {
    let log = log.clone();
    move |cx, n| {
        log.note(format!("{} {n}", cx.attempt()));
        Box::pin(async move { if cx.attempt() <= fails { Err(format!("failure {}", cx.attempt())) } else { Ok(n + 1) } })
    }
}

fn one(
    node: impl Fn(NodeContext, u32) -> pleach::BoxFuture<'static, Result<u32, String>> + Send + Sync + 'static,
    policy: Policy<u32>,
) -> Graph<u32> {
    Graph::new("one").add_node("node", node).add_edge("node", END).set_entry("node").policy("node", policy)
}

#[test]
fn f11_a_node_is_retried_with_the_state_it_was_first_given() {
    let (sim, log) = (Sim::new(1), Log::new());
    let ms = Duration::from_millis;
    let policy = Policy::new().retry(Retry::times(4).backoff(ms(10), ms(25)));
    let graph = one(flaky(3, &log), policy).compile().unwrap();
    assert_eq!(sim.run(async { graph.run(5).on(sim.runtime()).max_iterations(1).await }).unwrap(), 6);
    assert_eq!(log.take(), ["1 5", "2 5", "3 5", "4 5"]);
    assert_eq!(sim.now().since_start(), ms(10 + 20 + 25));

    let graph = one(flaky(9, &log), Policy::new().retry(Retry::times(2))).compile().unwrap();
    let error = block_on(async { graph.run(5).await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Node(node) if node.attempt == 2));
    assert_eq!(error.into_state(), Some(5), "a node that retries leaves the state");
}

#[test]
fn f11_all_attempts_at_one_visit_have_one_key_and_its_undo_another() {
    let keys = Log::new();
    let (tried, undone) = (keys.clone(), keys.clone());
    let graph = Graph::<u32>::new("keys")
        .add_node("node", move |cx: NodeContext, n: u32| {
            tried.note(cx.idempotency_key());
            cx.record_undo(n);
            async move { if cx.attempt() < 3 { Err("again") } else { Ok(n + 1) } }
        })
        .compensate("node", move |cx: NodeContext, _: u32| {
            undone.note(cx.idempotency_key());
            async { Ok::<(), String>(()) }
        })
        .policy("node", Policy::new().retry(Retry::times(3)))
        .add_conditional_edge("node", ["node", END], |n: &u32| if *n < 2 { "node" } else { "nowhere" })
        .set_entry("node")
        .compile()
        .unwrap();
    block_on(async { graph.run(0).await }).unwrap_err();
    let keys = keys.take();
    assert!(keys[..3].iter().all(|key| *key == keys[0]) && keys[3..6].iter().all(|key| *key == keys[3]));
    let mut different = [&keys[0], &keys[3], &keys[6], &keys[7]];
    different.sort_unstable();
    assert!(different.windows(2).all(|pair| pair[0] != pair[1]), "{keys:?}");
}

#[test]
fn f11_the_classifier_and_jitter() {
    let log = Log::new();
    let passing = |reason: &Reason| !reason.to_string().contains('2');
    let graph = one(flaky(9, &log), Policy::new().retry(Retry::times(9).only_if(passing))).compile().unwrap();
    block_on(async { graph.run(0).await }).unwrap_err();
    assert_eq!(log.take().len(), 2);
    explore(0..20, |sim| {
        let retry = Retry::times(2).backoff(Duration::from_secs(1), Duration::from_secs(1)).jitter();
        let graph = one(flaky(1, &Log::new()), Policy::new().retry(retry)).compile().unwrap();
        sim.run(async { graph.run(0).on(sim.runtime()).await }).unwrap();
        let waited = sim.now().since_start();
        assert!(waited >= Duration::from_millis(500) && waited < Duration::from_secs(1), "{waited:?}");
    });
}

#[test]
fn f11_a_timeout_may_be_retried_and_a_panic_too() {
    quiet();
    let sim = Sim::new(1);
    let node = |cx: NodeContext, n: u32| -> pleach::BoxFuture<'static, Result<u32, String>> {
        Box::pin(async move {
            match cx.attempt() {
                1 => pending().await,
                2 => panic!("{INJECTED} at 2"),
                _ => Ok(n + 1),
            }
        })
    };
    let reasons = Log::new();
    let seen = reasons.clone();
    let hooks = Hooks::around_nodes(
        |_, _| {},
        move |_, result: Result<&u32, &Reason>| seen.note(format!("{:?}", result.map_err(ToString::to_string))),
    );
    let policy = Policy::new().timeout(Duration::from_secs(3)).retry(Retry::times(3));
    let graph = one(node, policy).compile().unwrap();
    assert_eq!(sim.run(async { graph.run(1).on(sim.runtime()).hooks(hooks).await }).unwrap(), 2);
    let reasons = reasons.take();
    assert_eq!(reasons[0], format!("Err({:?})", Elapsed(Duration::from_secs(3)).to_string()));
    assert!(reasons[1].contains(INJECTED) && reasons[2] == "Ok(2)");
}

#[test]
fn f11_a_fallback_goes_on_with_the_state_before_the_failure() {
    let log = Log::new();
    let graph = one(flaky(9, &log), Policy::new().retry(Retry::times(2)).fallback("rescue"))
        .add_node("rescue", |n: u32| async move { Ok::<_, String>(n * 10) })
        .add_edge("rescue", END)
        .compile()
        .unwrap();
    assert_eq!(block_on(async { graph.run(5).await }).unwrap(), 50);
    assert_eq!(log.take().len(), 2);
    // Straight to the end, and to the join of a branch.
    let graph = one(flaky(9, &log), Policy::new().fallback(END)).compile().unwrap();
    assert_eq!(block_on(async { graph.run(5).await }).unwrap(), 5);
    let graph = Graph::<u32>::new("branches")
        .add_node("split", |n: u32| async move { Ok::<_, String>(n) })
        .add_node("node", flaky(9, &log))
        .map("split", |n| vec![*n, *n + 1], "node", END, |_, all: Vec<u32>| all.into_iter().sum())
        .add_edge("node", END)
        .policy("node", Policy::new().fallback(END))
        .set_entry("split")
        .compile()
        .unwrap();
    assert_eq!(block_on(async { graph.run(5).await }).unwrap(), 11);
}

#[test]
fn f11_directives_resume_restart_stop() {
    let log = Log::new();
    let run = |directive| {
        let graph = one(flaky(1, &log), Policy::new().on_error(move |_| directive)).compile().unwrap();
        (block_on(async { graph.run(5).await }), log.take().len())
    };
    assert!(matches!(run(SupervisorDirective::Resume), (Ok(5), 1)), "skipped");
    assert!(matches!(run(SupervisorDirective::Restart), (Ok(6), 2)), "tried again");
    assert!(matches!(run(SupervisorDirective::Stop), (Err(_), 1)));
    assert!(matches!(run(SupervisorDirective::Escalate), (Err(_), 1)));
    // What it decides on.
    let seen = Log::new();
    let heard = seen.clone();
    let policy = Policy::new().retry(Retry::times(2)).on_error(move |failed| {
        heard.note(format!("{} {} {}", failed.node, failed.attempt, failed.reason));
        SupervisorDirective::Restart
    });
    let graph = one(flaky(9, &log), policy).compile().unwrap();
    block_on(async { graph.run(5).await }).unwrap_err();
    assert_eq!(seen.take(), ["node 1 failure 1", "node 2 failure 2"]);
}

#[test]
fn f11_a_policy_that_panics_fails_the_run() {
    quiet();
    let graph = one(flaky(9, &Log::new()), Policy::new().on_error(|_| panic!("{INJECTED} deciding"))).compile().unwrap();
    let error = block_on(async { graph.run(5).await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Panic(panic) if panic.during == pleach::During::Policy));
    assert_eq!(error.into_state(), Some(5));
}

#[test]
fn f11_escalate_reports_up_the_tree_and_stop_does_not() {
    let run = |directive| {
        let sim = Sim::new(1);
        let scope = sim.scope();
        let patient = scope.launch(pending::<()>()).unwrap();
        let graph = one(flaky(9, &Log::new()), Policy::new().on_error(move |_| directive)).compile().unwrap();
        let outcome = sim.run(async { graph.run(5).within(&scope).id("run-1").await });
        assert!(matches!(outcome.unwrap_err().fault(), RunFault::Node(_)));
        sim.settle();
        patient.any().exit()
    };
    assert_eq!(run(SupervisorDirective::Stop), None);
    let Some(Exit::Cancelled(Cause::Failed(failure))) = run(SupervisorDirective::Escalate) else { panic!("not escalated") };
    assert!(failure.to_string().contains("failure 1"), "{failure}");
}

/// Three steps that each record what to undo, the last of which fails.
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
fn f12_undos_run_in_reverse_on_a_fresh_token() {
    let (sim, log) = (Sim::new(1), Log::new());
    let error = sim.run(async { booking(&log, "").run(0).on(sim.runtime()).await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Node(node) if node.node == "pay"));
    let undone = [
        "hotel undoes hotel 3, false",
        "flight undoes flight 2, false",
        "hotel undoes hotel 1, false",
        "flight undoes flight 0, false",
    ];
    assert_eq!(log.take(), undone, "each committed visit, not the one that failed, nor one that recorded nothing");
    let Some(Compensation::Compensated { undone }) = error.compensation() else { panic!("{error}") };
    assert_eq!(undone, &["hotel", "flight", "hotel", "flight"]);
    assert!(error.to_string().contains("undone: hotel, flight"));
}

#[test]
fn f12_an_undo_that_fails_is_told_with_what_is_left() {
    quiet();
    let (sim, log) = (Sim::new(1), Log::new());
    let error = sim.run(async { booking(&log, "flight").run(0).on(sim.runtime()).await }).unwrap_err();
    let Some(Compensation::CompensationFailed { undone, node, reason, left }) = error.compensation() else { panic!("{error}") };
    assert_eq!(
        (undone.concat().as_str(), node.as_str(), reason.as_str(), left.join(" ").as_str()),
        ("hotel", "flight", "stuck", "hotel flight")
    );
    assert!(matches!(error.fault(), RunFault::Node(node) if node.node == "pay"), "the first failure is the fault");
}

#[test]
fn f12_a_run_that_is_cut_short_or_ends_well_is_not_undone() {
    let (sim, log) = (Sim::new(1), Log::new());
    let error = sim.run(async { booking(&log, "").run(0).on(sim.runtime()).max_iterations(5).await }).unwrap_err();
    assert!(error.compensation().is_none() && log.take().is_empty());
    let token = sim.token();
    token.cancel(());
    sim.run(async { booking(&log, "").run(0).token(&token).await }).unwrap_err();
    assert!(log.take().is_empty());
}

#[test]
fn f12_branches_and_subgraphs_are_undone_with_the_run_even_past_its_deadline() {
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
        let run = graph.run(6).on(sim.runtime()).timeout(Duration::from_secs(1)).into_future();
        let error = sim.run(run).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Node(_)), "{error}");
        assert_eq!(log.take(), ["sub/do 8", "sub/do 7"]);
    });
}

#[test]
fn f12_an_undo_that_is_cut_off_with_its_scope_is_told_as_failed() {
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
    let run = graph.run(1).within(&scope).into_future();
    sim.settle();
    scope.cancel("everything ends");
    let error = sim.run(run).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Node(node) if node.node == "fail"), "the fault stays what it was");
    let Some(Compensation::CompensationFailed { node, reason, .. }) = error.compensation() else { panic!("{error}") };
    assert_eq!((node.as_str(), reason.as_str()), ("do", "everything ends"));
}

#[test]
fn f12_a_payload_of_another_type_is_an_error_of_the_node() {
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
