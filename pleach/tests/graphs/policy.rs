//! F11: policies of nodes: retry, timeout, fallback and directives.
use crate::common::{INJECTED, Log, quiet};
use crate::{pass, sum};
use pleach::prelude::*;
use pleach::runtime::block_on;
use pleach::scope::Elapsed;
use pleach::sim::{Sim, explore};
use pleach::supervise::Reason;
use std::future::pending;

/// A node that fails the first `fails` attempts and logs its attempt and input.
fn flaky(
    fails: u32,
    log: &Log<String>,
) -> impl Fn(NodeContext, u32) -> pleach::runtime::BoxFuture<'static, Result<u32, String>> + Send + Sync + use<> {
    let log = log.clone();
    move |cx, n| {
        log.note(format!("{} {n}", cx.attempt()));
        Box::pin(async move { if cx.attempt() <= fails { Err(format!("failure {}", cx.attempt())) } else { Ok(n + 1) } })
    }
}

fn one(
    node: impl Fn(NodeContext, u32) -> pleach::runtime::BoxFuture<'static, Result<u32, String>> + Send + Sync + 'static,
    policy: Policy<u32>,
) -> Graph<u32> {
    Graph::new("one").add_node("node", node).add_edge("node", END).set_entry("node").policy("node", policy)
}

#[test]
fn f11_every_retry_gets_the_original_state() {
    let (sim, log) = (Sim::new(1), Log::new());
    let ms = Duration::from_millis;
    let policy = Policy::new().retry(Retry::times(4).backoff(ms(10), ms(25)));
    let graph = one(flaky(3, &log), policy).compile().unwrap();
    assert_eq!(sim.run(async { graph.run(5).runtime(sim.runtime()).max_iterations(1).await }).unwrap(), 6);
    assert_eq!(log.take(), ["1 5", "2 5", "3 5", "4 5"]);
    assert_eq!(sim.now().since_start(), ms(10 + 20 + 25));

    let graph = one(flaky(9, &log), Policy::new().retry(Retry::times(2))).compile().unwrap();
    let error = block_on(async { graph.run(5).await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Node(node) if node.attempt == 2));
    assert_eq!(error.into_state(), Some(5), "a node with retries keeps its input");
}

#[test]
fn f11_attempts_share_one_idempotency_key_and_undo_has_another() {
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
fn f11_retry_honours_its_classifier_and_jitter() {
    let log = Log::new();
    let passing = |reason: &Reason| !reason.to_string().contains('2');
    let graph = one(flaky(9, &log), Policy::new().retry(Retry::times(9).only_if(passing))).compile().unwrap();
    block_on(async { graph.run(0).await }).unwrap_err();
    assert_eq!(log.take().len(), 2);
    explore(0..20, |sim| {
        let retry = Retry::times(2).backoff(Duration::from_secs(1), Duration::from_secs(1)).jitter();
        let graph = one(flaky(1, &Log::new()), Policy::new().retry(retry)).compile().unwrap();
        sim.run(async { graph.run(0).runtime(sim.runtime()).await }).unwrap();
        let waited = sim.now().since_start();
        assert!(waited >= Duration::from_millis(500) && waited < Duration::from_secs(1), "{waited:?}");
    });
}

#[test]
fn f11_timeouts_and_panics_are_retried() {
    quiet();
    let sim = Sim::new(1);
    let node = |cx: NodeContext, n: u32| -> pleach::runtime::BoxFuture<'static, Result<u32, String>> {
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
    assert_eq!(sim.run(async { graph.run(1).runtime(sim.runtime()).hooks(hooks).await }).unwrap(), 2);
    let reasons = reasons.take();
    assert_eq!(reasons[0], format!("Err({:?})", Elapsed(Duration::from_secs(3)).to_string()));
    assert!(reasons[1].contains(INJECTED) && reasons[2] == "Ok(2)");
}

#[test]
fn f11_fallback_continues_with_the_state_before_the_failure() {
    let log = Log::new();
    let graph = one(flaky(9, &log), Policy::new().retry(Retry::times(2)).fallback("rescue"))
        .add_node("rescue", |n: u32| async move { Ok::<_, String>(n * 10) })
        .add_edge("rescue", END)
        .compile()
        .unwrap();
    assert_eq!(block_on(async { graph.run(5).await }).unwrap(), 50);
    assert_eq!(log.take().len(), 2);
    // A fallback can also lead straight to the end or to the join of a branch.
    let graph = one(flaky(9, &log), Policy::new().fallback(END)).compile().unwrap();
    assert_eq!(block_on(async { graph.run(5).await }).unwrap(), 5);
    let graph = Graph::<u32>::new("branches")
        .add_node("split", pass)
        .add_node("node", flaky(9, &log))
        .map("split", |n| vec![*n, *n + 1], "node", END, sum)
        .add_edge("node", END)
        .policy("node", Policy::new().fallback(END))
        .set_entry("split")
        .compile()
        .unwrap();
    assert_eq!(block_on(async { graph.run(5).await }).unwrap(), 11);
}

#[test]
fn f11_directives_resume_restart_stop_and_escalate_take_effect() {
    let log = Log::new();
    let run = |directive| {
        let graph = one(flaky(1, &log), Policy::new().on_error(move |_| directive)).compile().unwrap();
        (block_on(async { graph.run(5).await }), log.take().len())
    };
    assert!(matches!(run(SupervisorDirective::Resume), (Ok(5), 1)), "skipped");
    assert!(matches!(run(SupervisorDirective::Restart), (Ok(6), 2)), "retried");
    assert!(matches!(run(SupervisorDirective::Stop), (Err(_), 1)));
    assert!(matches!(run(SupervisorDirective::Escalate), (Err(_), 1)));
    // The failure that the directive is chosen for.
    let seen = Log::new();
    let failures = seen.clone();
    let policy = Policy::new().retry(Retry::times(2)).on_error(move |failed| {
        failures.note(format!("{} {} {}", failed.node, failed.attempt, failed.reason));
        SupervisorDirective::Restart
    });
    let graph = one(flaky(9, &log), policy).compile().unwrap();
    block_on(async { graph.run(5).await }).unwrap_err();
    assert_eq!(seen.take(), ["node 1 failure 1", "node 2 failure 2"]);
}

#[test]
fn f11_panicking_policy_fails_the_run() {
    quiet();
    let graph = one(flaky(9, &Log::new()), Policy::new().on_error(|_| panic!("{INJECTED} deciding"))).compile().unwrap();
    let error = block_on(async { graph.run(5).await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Panic(panic) if panic.during == pleach::graph::During::Policy));
    assert_eq!(error.into_state(), Some(5));
}

#[test]
fn f11_escalate_reports_up_the_tree_but_stop_does_not() {
    let run = |directive| {
        let sim = Sim::new(1);
        let scope = sim.scope();
        let sibling = scope.launch(pending::<()>()).unwrap();
        let graph = one(flaky(9, &Log::new()), Policy::new().on_error(move |_| directive)).compile().unwrap();
        let outcome = sim.run(async { graph.run(5).in_scope(&scope).id("run-1").await });
        assert!(matches!(outcome.unwrap_err().fault(), RunFault::Node(_)));
        sim.settle();
        sibling.any().exit()
    };
    assert_eq!(run(SupervisorDirective::Stop), None);
    let Some(Exit::Cancelled(Cause::Failed(failure))) = run(SupervisorDirective::Escalate) else { panic!("not escalated") };
    assert!(failure.to_string().contains("failure 1"), "{failure}");
}
