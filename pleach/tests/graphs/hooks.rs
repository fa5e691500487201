//! F8: hooks, streams and the context of a node.
use crate::add_one;
use crate::common::{INJECTED, Log, quiet};
use crate::run::{Words, linear, say, waiting};
use futures::StreamExt;
use pleach::graph::{During, RunEvent, RunUpdate};
use pleach::prelude::*;
use pleach::runtime::block_on;
use pleach::sim::Sim;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

#[test]
fn f8_hooks_see_start_and_end_of_every_attempt_in_order() {
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
        .add_node("a", add_one)
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
fn f8_panicking_hook_is_recorded_and_changes_nothing() {
    quiet();
    let hooks = Hooks::new(|event: &RunEvent<&Words>| {
        if let RunEvent::NodeStarted { .. } = event {
            panic!("{INJECTED} in a hook");
        }
    });
    let calls = Log::new();
    let seen = calls.clone();
    let second = Hooks::around_nodes(move |visit, _: &Words| seen.note(&visit.node), |_, _| {});
    let graph = linear().compile().unwrap();
    let state = block_on(async { graph.run(vec![]).hooks(hooks.clone()).hooks(second).await }).unwrap();
    assert_eq!(state, ["a", "b", "c"]);
    assert_eq!(calls.take(), ["a", "b", "c"], "the other hooks are still called");
    let panics = hooks.panics();
    assert_eq!(panics.iter().map(|panic| panic.node.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert!(panics.iter().all(|panic| panic.during == During::Hook));
}

#[test]
fn f8_cancelled_node_finishes_with_the_cause() {
    let sim = Sim::new(1);
    let log = Log::new();
    let seen = log.clone();
    let hooks = Hooks::around_nodes(
        |_, _| {},
        move |visit, result: Result<&Words, &pleach::supervise::Reason>| {
            seen.note(format!("{} {:?}", visit.node, result.map(|_| ())));
        },
    );
    let run = waiting().run(vec![]).runtime(sim.runtime()).timeout(Duration::from_secs(1)).hooks(hooks);
    sim.run(run.into_future()).unwrap_err();
    let log = log.take();
    assert_eq!(log.len(), 2);
    assert!(log[1].starts_with("slow Err") && log[1].contains("DeadlineExceeded"), "{log:?}");
}

#[test]
fn f8_stream_yields_events_states_and_emitted_values() {
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
fn f8_unread_stream_does_not_advance_the_run() {
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
fn f8_context_exposes_id_keys_and_extensions() {
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
    assert_ne!(words[1], words[3], "each visit of a loop has its own key");
    assert_eq!(words, run("run-7"), "the same run has the same keys");
    assert_ne!(words[1], run("run-8")[1]);
    // Without an explicit id each run gets a new one.
    let named = |words: Words| words[0].split(' ').next().unwrap().to_string();
    let anonymous = || named(block_on(async { graph.run(vec![]).extension(Client("")).await }).unwrap());
    assert_ne!(anonymous(), anonymous());
}
