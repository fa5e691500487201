//! F7: cancellation and deadlines of runs without branches.
use crate::run::{Words, counting, linear, waiting};
use pleach::prelude::*;
use pleach::runtime::block_on;
use pleach::scope::Elapsed;
use pleach::sim::{Sim, explore};
use std::error::Error;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

#[test]
fn f7_cancel_reaches_a_waiting_node_within_one_poll() {
    let sim = Sim::new(1);
    let token = sim.token();
    let graph = waiting();
    let mut run = Box::pin(graph.run(vec![]).token(&token).keep_state().into_future());
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(run.as_mut().poll(&mut cx).is_pending());
    token.cancel("enough");
    let std::task::Poll::Ready(Err(error)) = run.as_mut().poll(&mut cx) else { panic!("one poll is enough") };
    let RunFault::Cancelled { node, cause, was_executing, .. } = error.fault() else { panic!("{error}") };
    assert_eq!((node.as_str(), cause, *was_executing), ("slow", &Cause::from("enough"), true));
    assert_eq!(error.into_state().unwrap(), ["first"]);
}

#[test]
fn f7_cancel_wakes_a_waiting_run() {
    explore(0..50, |sim| {
        let token = sim.token();
        let cancels = token.clone();
        let scope = sim.scope();
        scope.launch(async move { cancels.cancel(()) }).unwrap();
        let error = sim.run(async { waiting().run(vec![]).token(&token).await }).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Cancelled { cause: Cause::Cancelled, .. }));
        assert_eq!(sim.tasks_alive(), 0);
    });
}

#[test]
fn f7_node_can_cancel_its_own_run() {
    let sim = Sim::new(1);
    let graph = Graph::<u32>::new("own")
        .add_node("stop", |cx: NodeContext, n: u32| async move {
            cx.token().cancel("I have seen enough");
            pending::<()>().await;
            Ok::<_, String>(n)
        })
        .add_edge("stop", END)
        .set_entry("stop")
        .compile()
        .unwrap();
    let error = sim.run(graph.run(1).runtime(sim.runtime()).into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Cancelled { cause: Cause::Because(_), was_executing: true, .. }));
    // Without a runtime no token can be created: the node panics with that reason.
    let error = block_on(graph.run(1).into_future()).unwrap_err();
    assert!(error.to_string().contains("no runtime was found"), "{error}");
}

#[test]
fn f7_cancel_between_nodes_returns_the_state() {
    let sim = Sim::new(1);
    let token = sim.token();
    let cancels = token.clone();
    let graph = linear()
        .add_node("stop", move |words: Words| {
            cancels.cancel("between");
            async move { Ok::<_, String>(words) }
        })
        .add_edge("stop", "a")
        .set_entry("stop")
        .compile()
        .unwrap();
    let error = sim.run(async { graph.run(vec!["kept".into()]).token(&token).await }).unwrap_err();
    let RunFault::Cancelled { node, was_executing, .. } = error.fault() else { panic!("{error}") };
    assert_eq!((node.as_str(), *was_executing), ("a", false));
    assert_eq!(error.into_state().unwrap(), ["kept"]);
}

#[test]
fn f7_run_deadline_cancels_and_node_timeout_is_an_error() {
    let sim = Sim::new(1);
    let secs = Duration::from_secs;
    let error = sim.run(async { waiting().run(vec![]).runtime(sim.runtime()).timeout(secs(5)).await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Cancelled { cause: Cause::DeadlineExceeded, was_executing: true, .. }));
    assert_eq!(sim.now().since_start(), secs(5));

    let timed = |own, whole| {
        let sim = Sim::new(1);
        let graph = Graph::<u32>::new("timed")
            .add_node("slow", |cx: NodeContext, n: u32| async move {
                assert!(cx.deadline().is_some());
                pending::<()>().await;
                Ok::<_, String>(n)
            })
            .add_edge("slow", END)
            .set_entry("slow")
            .policy("slow", Policy::new().timeout(own))
            .compile()
            .unwrap();
        let error = sim.run(async { graph.run(1).runtime(sim.runtime()).timeout(whole).await }).unwrap_err();
        (error, sim.now().since_start())
    };
    // The shorter limit wins.
    let (error, took) = timed(secs(2), secs(3));
    assert!(matches!(error.fault(), RunFault::Node(node) if node.node == "slow"));
    assert_eq!(error.source().and_then(|source| source.downcast_ref()), Some(&Elapsed(secs(2))));
    assert_eq!(took, secs(2));
    let (error, took) = timed(secs(3), secs(2));
    assert!(matches!(error.fault(), RunFault::Cancelled { cause: Cause::DeadlineExceeded, .. }));
    assert_eq!(took, secs(2));
}

/// A runtime whose timers never fire, as on a thread that is always busy. Each read of its clock
/// advances it by one second.
struct Busy(std::sync::atomic::AtomicU64);

impl pleach::runtime::Runtime for Busy {
    fn spawn(&self, task: pleach::runtime::BoxFuture<'static, ()>) {
        std::mem::forget(task);
    }

    fn now(&self) -> pleach::runtime::Instant {
        pleach::runtime::Instant::after_start(Duration::from_secs(self.0.fetch_add(1, SeqCst)))
    }

    fn sleep_until(&self, _: pleach::runtime::Instant) -> pleach::runtime::BoxFuture<'static, ()> {
        Box::pin(pending())
    }

    fn random(&self) -> u64 {
        0
    }
}

#[test]
fn f7_run_that_never_waits_sees_its_deadline() {
    let run = counting(1_000).run(0).runtime(Arc::new(Busy(Default::default()))).timeout(Duration::from_secs(10));
    let error = block_on(run.into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Cancelled { cause: Cause::DeadlineExceeded, was_executing: false, .. }));
    assert!((5..=10).contains(&error.into_state().unwrap()));
}

#[test]
fn f7_timeout_without_a_runtime_is_rejected_with_the_state() {
    let error = block_on(async { waiting().run(vec!["here".into()]).timeout(Duration::from_secs(1)).await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::NoRuntime));
    assert_eq!(error.into_state().unwrap(), ["here"]);
}
