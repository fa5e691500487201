//! F2, F4, F6 to F8 and F13: runs of one line of control, their limits, cancellation, hooks and streams.
#![cfg(feature = "graph")]

use crate::common::{INJECTED, Log, quiet};
use futures::StreamExt;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{During, Elapsed, RunEvent, RunUpdate, StartError, block_on};
use std::error::Error;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

type Words = Vec<String>;

/// A node that adds its name.
fn say(name: &'static str) -> impl Fn(Words) -> std::future::Ready<Result<Words, String>> + Send + Sync {
    move |mut words| {
        words.push(name.to_string());
        std::future::ready(Ok(words))
    }
}

fn linear() -> Graph<Words> {
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
fn counting(to: u32) -> CompiledGraph<u32> {
    Graph::new("counting")
        .add_node("count", |n: u32| async move { Ok::<_, String>(n + 1) })
        .add_conditional_edge("count", ["count", END], move |n: &u32| if *n < to { "count" } else { END })
        .set_entry("count")
        .compile()
        .unwrap()
}

#[test]
fn f4_a_linear_flow_runs_in_order() {
    let graph = linear().compile().unwrap();
    assert_eq!(block_on(async { graph.run(vec![]).await }).unwrap(), ["a", "b", "c"]);
    // A compiled graph is good for any number of runs.
    assert_eq!(block_on(async { graph.run(vec!["0".into()]).await }).unwrap(), ["0", "a", "b", "c"]);
}

#[test]
fn f4_a_conditional_edge_goes_where_the_new_state_says() {
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
fn f4_a_run_needs_no_runtime_and_spawns_nothing() {
    let sim = Sim::new(1);
    let graph = counting(100);
    // Polled by hand, in no runtime at all, it is ready at the first poll.
    let mut run = std::pin::pin!(graph.run(0).into_future());
    let polled = run.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    assert!(matches!(polled, std::task::Poll::Ready(Ok(100))));
    sim.run(async { graph.run(0).on(sim.runtime()).await }).unwrap();
    assert_eq!(sim.tasks_alive(), 0);
}

#[test]
fn f4_a_run_can_move_between_threads_although_its_state_cannot_be_shared() {
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
fn f4_a_run_that_never_waits_lets_others_run() {
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
fn f2_an_undeclared_answer_is_an_error_with_the_new_state() {
    let graph = linear().add_node("d", say("d")).add_conditional_edge("d", ["a", END], |_: &Words| "b").set_entry("d");
    let error = block_on(async { graph.compile().unwrap().run(vec![]).await }).unwrap_err();
    let RunFault::Router(router) = error.fault() else { panic!("{error}") };
    assert_eq!((router.node.as_str(), router.answer.as_str()), ("d", "b"));
    assert_eq!(router.declared, ["a", END]);
    // F4: the node's result is kept.
    assert_eq!(error.into_state().unwrap(), ["d"]);
}

#[test]
fn f2_a_router_may_take_the_context_and_answer_a_string() {
    let graph = Graph::<u32>::new("routed")
        .add_node("a", |n: u32| async move { Ok::<_, String>(n) })
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
fn f6_the_limit_counts_visits_exactly_and_keeps_the_state() {
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

fn waiting() -> CompiledGraph<Words> {
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
fn f7_a_cancel_reaches_inside_a_node_within_one_poll() {
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
fn f7_a_cancel_wakes_a_run_that_waits() {
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
fn f7_a_node_may_cancel_its_own_run() {
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
    let error = sim.run(graph.run(1).on(sim.runtime()).into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Cancelled { cause: Cause::Because(_), was_executing: true, .. }));
    // With nothing to make a token on, asking for one is a panic of the node that says so.
    let error = block_on(graph.run(1).into_future()).unwrap_err();
    assert!(error.to_string().contains("there is no runtime here"), "{error}");
}

#[test]
fn f7_a_cancel_between_nodes_gives_back_the_state() {
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
fn f7_the_deadline_of_the_run_is_a_cancel_and_a_nodes_timeout_an_error() {
    let sim = Sim::new(1);
    let secs = Duration::from_secs;
    let error = sim.run(async { waiting().run(vec![]).on(sim.runtime()).timeout(secs(5)).await }).unwrap_err();
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
        let error = sim.run(async { graph.run(1).on(sim.runtime()).timeout(whole).await }).unwrap_err();
        (error, sim.now().since_start())
    };
    // The shorter wins.
    let (error, took) = timed(secs(2), secs(3));
    assert!(matches!(error.fault(), RunFault::Node(node) if node.node == "slow"));
    assert_eq!(error.source().and_then(|source| source.downcast_ref()), Some(&Elapsed(secs(2))));
    assert_eq!(took, secs(2));
    let (error, took) = timed(secs(3), secs(2));
    assert!(matches!(error.fault(), RunFault::Cancelled { cause: Cause::DeadlineExceeded, .. }));
    assert_eq!(took, secs(2));
}

/// A runtime whose timers never get to fire, as on a thread that is never free. Each look at its clock takes a second.
struct Busy(std::sync::atomic::AtomicU64);

impl pleach::Runtime for Busy {
    fn spawn(&self, task: pleach::BoxFuture<'static, ()>) {
        std::mem::forget(task);
    }

    fn now(&self) -> pleach::Instant {
        pleach::Instant::after_start(Duration::from_secs(self.0.fetch_add(1, SeqCst)))
    }

    fn sleep_until(&self, _: pleach::Instant) -> pleach::BoxFuture<'static, ()> {
        Box::pin(pending())
    }

    fn random(&self) -> u64 {
        0
    }
}

#[test]
fn f7_a_deadline_is_seen_by_a_run_that_never_waits() {
    let run = counting(1_000).run(0).on(Arc::new(Busy(Default::default()))).timeout(Duration::from_secs(10));
    let error = block_on(run.into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Cancelled { cause: Cause::DeadlineExceeded, was_executing: false, .. }));
    assert!((5..=10).contains(&error.into_state().unwrap()));
}

#[test]
fn f7_without_a_runtime_a_timeout_is_refused_and_the_state_comes_back() {
    let error = block_on(async { waiting().run(vec!["here".into()]).timeout(Duration::from_secs(1)).await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::NoRuntime));
    assert_eq!(error.into_state().unwrap(), ["here"]);
}

#[test]
fn f8_hooks_hear_started_and_finished_of_every_node_and_attempt_in_order() {
    let sim = Sim::new(1);
    let log: Log<String> = Log::new();
    let (starts, ends) = (log.clone(), log.clone());
    let hooks = Hooks::around_nodes(
        move |visit, state: &u32| starts.note(format!("{} {} from {state}", visit.node, visit.attempt)),
        move |visit, result: Result<&u32, _>| match result {
            Ok(state) => ends.note(format!("{} {} to {state}", visit.node, visit.attempt)),
            Err(reason) => ends.note(format!("{} {} failed: {reason}", visit.node, visit.attempt)),
        },
    );
    let graph = Graph::<u32>::new("hooked")
        .add_node("a", |n: u32| async move { Ok::<_, String>(n + 1) })
        .add_node("b", |cx: NodeContext, n: u32| async move {
            if cx.attempt() < 2 { Err("not yet".to_string()) } else { Ok(n * 10) }
        })
        .add_edge("a", "b")
        .add_edge("b", END)
        .set_entry("a")
        .policy("b", Policy::new().retry(Retry::times(2)))
        .compile()
        .unwrap();
    assert_eq!(sim.run(async { graph.run(1).hooks(hooks).await }).unwrap(), 20);
    let expected = ["a 1 from 1", "a 1 to 2", "b 1 from 2", "b 1 failed: not yet", "b 2 from 2", "b 2 to 20"];
    assert_eq!(log.take(), expected);
}

#[test]
fn f8_a_hook_that_panics_is_recorded_and_changes_nothing() {
    quiet();
    let hooks = Hooks::new(|event: &RunEvent<&Words>| {
        if let RunEvent::NodeStarted { .. } = event {
            panic!("{INJECTED} in a hook");
        }
    });
    let heard = Log::new();
    let seen = heard.clone();
    let second = Hooks::around_nodes(move |visit, _: &Words| seen.note(&visit.node), |_, _| {});
    let graph = linear().compile().unwrap();
    let state = block_on(async { graph.run(vec![]).hooks(hooks.clone()).hooks(second).await }).unwrap();
    assert_eq!(state, ["a", "b", "c"]);
    assert_eq!(heard.take(), ["a", "b", "c"], "the others still hear");
    let panics = hooks.panics();
    assert_eq!(panics.iter().map(|panic| panic.node.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert!(panics.iter().all(|panic| panic.during == During::Hook));
}

#[test]
fn f8_a_cut_off_node_is_finished_with_the_cause() {
    let sim = Sim::new(1);
    let log = Log::new();
    let seen = log.clone();
    let hooks = Hooks::around_nodes(
        |_, _| {},
        move |visit, result: Result<&Words, &pleach::Reason>| seen.note(format!("{} {:?}", visit.node, result.map(|_| ()))),
    );
    let run = waiting().run(vec![]).on(sim.runtime()).timeout(Duration::from_secs(1)).hooks(hooks);
    sim.run(run.into_future()).unwrap_err();
    let log = log.take();
    assert_eq!(log.len(), 2);
    assert!(log[1].starts_with("slow Err") && log[1].contains("DeadlineExceeded"), "{log:?}");
}

#[test]
fn f8_a_stream_gives_the_same_with_states_and_emissions() {
    let graph = Graph::<Words>::new("streamed")
        .add_node("talk", |cx: NodeContext, words: Words| async move {
            cx.emit("half");
            cx.emit(50_u8);
            Ok::<_, String>(words)
        })
        .add_node("end", say("end"))
        .add_edge("talk", "end")
        .add_edge("end", END)
        .set_entry("talk")
        .compile()
        .unwrap();
    let updates: Vec<RunUpdate<Words>> = block_on(async { graph.run(vec![]).stream().collect().await });
    let mut seen = Words::new();
    for update in &updates {
        seen.push(match update {
            RunUpdate::Event(RunEvent::NodeStarted { visit, state }) => format!("start {} {}", visit.node, state.len()),
            RunUpdate::Event(RunEvent::NodeFinished { visit, outcome }) => {
                format!("end {} {}", visit.node, outcome.as_ref().unwrap().len())
            }
            RunUpdate::Event(RunEvent::Emitted { visit, value }) => {
                let value = value.text().map_or_else(|| value.get::<u8>().unwrap().to_string(), str::to_string);
                format!("{} says {value}", visit.node)
            }
            RunUpdate::Ended(outcome) => format!("ended {}", outcome.as_ref().unwrap().len()),
            other => format!("{other:?}"),
        });
    }
    let expected = ["start talk 0", "talk says half", "talk says 50", "end talk 0", "start end 0", "end end 1", "ended 1"];
    assert_eq!(seen, expected);
}

#[test]
fn f8_a_stream_that_is_not_read_goes_no_further() {
    let sim = Sim::new(1);
    let visits = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&visits);
    let graph = Graph::<u32>::new("lazy")
        .add_node("count", move |n: u32| {
            counted.fetch_add(1, SeqCst);
            async move { Ok::<_, String>(n + 1) }
        })
        .add_conditional_edge("count", ["count", END], |n: &u32| if *n < 100 { "count" } else { END })
        .set_entry("count")
        .compile()
        .unwrap();
    let mut stream = graph.run(0).stream();
    sim.run(async {
        for _ in 0..4 {
            assert!(matches!(stream.next().await, Some(RunUpdate::Event(_))));
        }
    });
    assert!(visits.load(SeqCst) <= 3, "{visits:?}");
    drop(stream);
}

#[test]
fn f13_a_run_can_enter_at_a_named_node() {
    let graph = linear().add_node("lost", say("lost")).compile().unwrap();
    assert_eq!(block_on(async { graph.run(vec![]).from("b").await }).unwrap(), ["b", "c"]);
    let start = |node: &str| {
        let error = block_on(async { graph.run(vec!["kept".into()]).from(node).await }).unwrap_err();
        let RunFault::Start(start) = error.fault() else { panic!("{error}") };
        let start = start.clone();
        assert_eq!(error.into_state().unwrap(), ["kept"]);
        start
    };
    assert!(matches!(start("bb"), StartError::Unknown { did_you_mean: Some(id), .. } if id == "b"));
    assert!(matches!(start("lost"), StartError::Unreachable { .. }));
    let forked = Graph::<u32>::new("forked")
        .add_node("fork", |n: u32| async move { Ok::<_, String>(n) })
        .add_node("in", |n: u32| async move { Ok::<_, String>(n) })
        .add_parallel_edge("fork", ["in"], END, |n: u32, _: Vec<u32>| n)
        .add_edge("in", END)
        .set_entry("fork")
        .compile()
        .unwrap();
    let error = block_on(async { forked.run(1).from("in").await }).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Start(StartError::InBranch { fan_out, .. }) if fan_out == "fork"));
}

#[test]
fn f8_the_context_knows_the_run() {
    struct Client(&'static str);
    let graph = Graph::<Words>::new("known")
        .add_node("a", |cx: NodeContext, mut words: Words| async move {
            let client = cx.extension::<Client>().unwrap();
            words.push(format!("{} {} {} {} {}", cx.run_id(), cx.node(), cx.attempt(), cx.iteration(), client.0));
            words.push(cx.idempotency_key());
            if cx.extension::<u64>().is_none() && cx.attempt() == 1 { Err("again") } else { Ok(words) }
        })
        .add_conditional_edge("a", ["a", END], |words: &Words| if words.len() < 4 { "a" } else { END })
        .set_entry("a")
        .policy("a", Policy::new().retry(Retry::times(2)))
        .compile()
        .unwrap();
    let run = |id: &str| block_on(async { graph.run(vec![]).id(id).extension(Client("http")).await }).unwrap();
    let words = run("run-7");
    assert_eq!((words[0].as_str(), words[2].as_str()), ("run-7 a 2 1 http", "run-7 a 2 2 http"));
    assert_ne!(words[1], words[3], "each turn of a loop has a key of its own");
    assert_eq!(words, run("run-7"), "the same run has the same keys");
    assert_ne!(words[1], run("run-8")[1]);
    // Without an id each run gets one.
    let named = |words: Words| words[0].split(' ').next().unwrap().to_string();
    let anonymous = || named(block_on(async { graph.run(vec![]).extension(Client("")).await }).unwrap());
    assert_ne!(anonymous(), anonymous());
}
