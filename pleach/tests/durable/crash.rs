//! C2, C3, F4, F6, F9, F10, F11: a run that crashes at any commit, before or after the commit
//! landed, resumes from the store to the same result and repeats no committed node.
use crate::common::flaky_store::{FlakyStore, WriteFailure};
use pleach::graph::{FanOut, Policy, Retry};
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::sim::Sim;
use pleach::store::{Kind, MemoryStore, Parts, Rows, RunStatus, Store};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

/// The executed nodes and their idempotency keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct State {
    done: Vec<String>,
    keys: Vec<String>,
    turns: u32,
}

/// Every started node with its key.
type Starts = Arc<Mutex<Vec<(String, String)>>>;

fn work(
    name: &'static str,
) -> impl Fn(NodeContext, State) -> std::pin::Pin<Box<dyn Future<Output = Result<State, String>> + Send>> {
    move |cx, mut state| {
        Box::pin(async move {
            let starts = cx.extension::<Starts>().unwrap();
            starts.lock().unwrap().push((cx.node().to_string(), cx.idempotency_key()));
            // Virtual time, so that different seeds give different orders.
            let clock = cx.extension::<Arc<dyn Runtime>>().unwrap();
            clock.sleep_until(clock.now() + Duration::from_millis(clock.random() % 5)).await;
            state.done.push(name.to_string());
            state.keys.push(cx.idempotency_key());
            Ok(state)
        })
    }
}

fn merge(mut before: State, branches: Vec<State>) -> State {
    let from = (before.done.len(), before.keys.len());
    for branch in branches {
        before.done.extend(branch.done.into_iter().skip(from.0));
        before.keys.extend(branch.keys.into_iter().skip(from.1));
    }
    before.done.push("merged".into());
    before
}

fn inner() -> CompiledGraph<State> {
    Graph::new("inner")
        .add_node("in1", work("in1"))
        .add_node("left", work("left"))
        .add_node("right", work("right"))
        .add_node("in2", work("in2"))
        .add_parallel_edge("in1", ["left", "right"], "in2", merge)
        .add_edge("left", "in2")
        .add_edge("right", "in2")
        .add_edge("in2", END)
        .set_entry("in1")
        .compile()
        .unwrap()
}

/// A graph with every feature: a loop, nested fan-outs, a map with a limit, a subgraph and a node
/// that needs three attempts.
fn everything() -> CompiledGraph<State> {
    let flaky = |cx: NodeContext, state: State| async move {
        let attempt = cx.attempt();
        let state = work("flaky")(cx, state).await?;
        if attempt < 3 { Err("not yet".to_string()) } else { Ok(state) }
    };
    let turn = |cx: NodeContext, mut state: State| async move {
        state.turns += 1;
        work("turn")(cx, state).await
    };
    let items = |state: &State| (0..4).map(|n| State { turns: n, ..state.clone() }).collect();
    Graph::new("everything")
        .add_node("turn", turn)
        .add_conditional_edge("turn", ["turn", "fork"], |state: &State| if state.turns < 3 { "turn" } else { "fork" })
        .add_node("fork", work("fork"))
        .add_node("a", work("a"))
        .add_node("b", work("b"))
        .add_node("b1", work("b1"))
        .add_node("b2", work("b2"))
        .add_node("b3", work("b3"))
        .add_node("sub-in-branch", work("before sub"))
        .add_subgraph("sub", inner(), State::clone, |_, inner| inner)
        .add_node("join", work("join"))
        .add_parallel_edge("fork", ["a", "b", "sub-in-branch"], "join", merge)
        .add_edge("a", "join")
        .add_parallel_edge("b", ["b1", "b2"], "b3", merge)
        .add_edge("b1", "b3")
        .add_edge("b2", "b3")
        .add_edge("b3", "join")
        .add_edge("sub-in-branch", "sub")
        .add_edge("sub", "join")
        .map("join", items, "item", "flaky", FanOut::merge(merge).limit(2))
        .add_node("item", work("item"))
        .add_node("item2", work("item2"))
        .add_edge("item", "item2")
        .add_edge("item2", "flaky")
        .add_node("flaky", flaky)
        .policy("flaky", Policy::new().retry(Retry::times(3).backoff(Duration::from_secs(1), Duration::from_secs(9))))
        .add_edge("flaky", END)
        .set_entry("turn")
        .compile()
        .unwrap()
}

/// The keys of all nodes whose steps are in the store.
async fn committed(store: &MemoryStore, run: &str) -> HashSet<String> {
    let Ok(info) = store.head(run).await else { return HashSet::new() };
    let mut keys = HashSet::new();
    for sequence in info.oldest..=info.head {
        let row = store.read(run, Rows::Each(vec![sequence]), Parts::Whole).await.unwrap().remove(0);
        let record = row.open(run).unwrap();
        if matches!(record.header.kind, Kind::Step | Kind::Arrive | Kind::Join) {
            let text = String::from_utf8(record.body).unwrap();
            let state: State =
                serde_json::from_value(serde_json::from_str::<serde_json::Value>(&text).unwrap()["state"].clone()).unwrap();
            keys.extend(state.keys);
        }
    }
    keys
}

/// Runs the graph with one failing commit and resumes it until it has ended.
///
/// Returns the names of the executed nodes in the order of the last state, and the number of
/// crashes.
fn run_with(graph: &CompiledGraph<State>, seed: u64, at: u64, fate: WriteFailure) -> (Vec<String>, usize) {
    let sim = Sim::new(seed);
    let inside = MemoryStore::on(sim.runtime());
    let store = FlakyStore::new(inside.clone());
    let starts = Starts::default();
    store.fail_at(at, fate);
    let mut crashes = 0;
    let run = graph
        .run(State::default())
        .id("r")
        .checkpoint(&store)
        .keep_records(10_000)
        .extension(starts.clone())
        .extension(sim.runtime())
        .runtime(sim.runtime());
    let mut outcome = sim.run(run.into_future());
    loop {
        let error = match outcome {
            Ok(state) => {
                let info = sim.run(async { inside.head("r").await }).unwrap();
                assert_eq!((info.status, info.lease_until), (RunStatus::Finished, None), "{at} {fate:?}");
                return (state.done, crashes);
            }
            Err(error) => error,
        };
        assert!(matches!(error.fault(), RunFault::Checkpoint(_)), "{at} {fate:?}: {error}");
        crashes += 1;
        let durable = sim.run(committed(&inside, "r"));
        let before = starts.lock().unwrap().len();
        let exists = sim.run(async { inside.head("r").await }).is_ok();
        outcome = if exists {
            let resumed = graph
                .resume("r")
                .checkpoint(&store)
                .keep_records(10_000)
                .extension(starts.clone())
                .extension(sim.runtime())
                .runtime(sim.runtime());
            sim.run(resumed.into_future())
        } else {
            let again = graph.run(State::default()).id("r").checkpoint(&store).keep_records(10_000);
            sim.run(again.extension(starts.clone()).extension(sim.runtime()).runtime(sim.runtime()).into_future())
        };
        for (node, key) in &starts.lock().unwrap()[before..] {
            assert!(!durable.contains(key), "{node} was committed and ran again; crash at commit {at}, {fate:?}, seed {seed}");
        }
    }
}

#[test]
fn c3_crash_at_any_commit_leads_to_the_same_result_without_repeats() {
    let graph = everything();
    let (expected, none) = run_with(&graph, 1, u64::MAX, WriteFailure::Lost);
    assert_eq!(none, 0);
    assert_eq!(expected.iter().filter(|name| *name == "turn").count(), 3);
    assert_eq!(expected.iter().filter(|name| *name == "item2").count(), 4);
    let mut crashes_seen = 0;
    for at in 1..40 {
        for fate in [WriteFailure::Lost, WriteFailure::Unanswered] {
            for seed in 0..20 {
                let (done, crashes) = run_with(&graph, seed, at, fate);
                assert_eq!(done, expected, "crash at commit {at}, {fate:?}, seed {seed}");
                crashes_seen += crashes;
            }
        }
    }
    assert!(crashes_seen > 800, "{crashes_seen} crashes");
}
