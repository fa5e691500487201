//! C1, C2, C10, and F4 to F6 and F9 to F11 for stored runs.
use crate::add_one;
use crate::common::flaky_store::{FlakyStore, WriteFailure};
use crate::common::{INJECTED, quiet};
use pleach::durable::CheckpointError;
use pleach::graph::{FanOut, Hooks, Policy, Retry, RunEvent, RunOptions};
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::sim::Sim;
use pleach::store::{Kind, MemoryStore, Parts, Place, Rows, RunStatus, Store};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

pub(crate) type Log = crate::common::Log<String>;

pub(crate) fn checkpoint_error<S>(error: &RunError<S>) -> &CheckpointError {
    match error.fault() {
        RunFault::Checkpoint(error) => error,
        _ => panic!("{error}"),
    }
}

pub(crate) fn chain() -> CompiledGraph<u32> {
    let graph = Graph::new("chain").add_node("a", add_one).add_node("b", add_one).add_node("c", add_one);
    graph.add_edge("a", "b").add_edge("b", "c").add_edge("c", END).set_entry("a").compile().unwrap()
}

#[test]
fn c1_record_contains_what_happened_where_and_what_follows() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    sim.advance(Duration::from_secs(5));
    let graph = chain();
    let run = graph.run(7).id("r").checkpoint(&store).schema(3).runtime(sim.runtime());
    assert_eq!(sim.run(run.into_future()).unwrap(), 10);
    sim.run(async {
        let info = store.head("r").await.unwrap();
        assert_eq!((info.head, info.epoch, info.status, info.version.schema), (4, 1, RunStatus::Finished, 3));
        let rows = store.read("r", Rows::Range(1..=4), Parts::Whole).await.unwrap();
        let records: Vec<_> = rows.into_iter().map(|row| row.open("r").unwrap()).collect();
        let nodes: Vec<&str> = records.iter().map(|record| record.header.node.as_str()).collect();
        assert_eq!(nodes, ["", "a", "b", "c"]);
        let header = &records[2].header;
        assert_eq!((header.graph.as_str(), header.fingerprint.as_str(), header.schema), ("chain", graph.fingerprint(), 3));
        assert_eq!((header.epoch, header.kind, header.parent, header.attempt, header.visits), (1, Kind::Step, 2, 1, 2));
        assert_eq!((&header.next, header.at.as_millis()), (&Some(Place::Node("c".into())), 5_000));
        assert_eq!(records[3].header.next, Some(Place::End));
        assert_eq!(records[2].body, br#"{"state":9}"#);
        assert_eq!(records[0].header.kind, Kind::Start);
    });
}

#[test]
fn c2_checkpoint_is_reported_before_the_next_node_starts() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let log = Log::new();
    let seen = log.clone();
    let hooks = Hooks::new(move |event: &RunEvent<&u32>| match event {
        RunEvent::NodeStarted { visit, .. } => seen.note(format!("start {}", visit.node)),
        RunEvent::Checkpointed { sequence, .. } => seen.note(format!("durable {sequence}")),
        _ => {}
    });
    let run = chain().run(0).id("r").checkpoint(&store).hooks(hooks).runtime(sim.runtime());
    assert_eq!(sim.run(run.into_future()).unwrap(), 3);
    assert_eq!(log.take(), ["start a", "durable 2", "start b", "durable 3", "start c", "durable 4"]);
}

/// A state that changes when it is read back from JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Forgetful {
    kept: u32,
    lost: u32,
}

impl<'de> Deserialize<'de> for Forgetful {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Part {
            kept: u32,
        }
        Part::deserialize(deserializer).map(|Part { kept }| Self { kept, lost: 0 })
    }
}

#[test]
fn c2_state_that_changes_in_json_is_rejected_at_commit_and_returned() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let grow = |state: Forgetful| async move { Ok::<_, String>(Forgetful { lost: state.lost + 1, ..state }) };
    let graph = Graph::new("forgets").add_node("grow", grow).add_edge("grow", END).set_entry("grow").compile().unwrap();
    let run = graph.run(Forgetful { kept: 1, lost: 0 }).id("r").checkpoint(&store).runtime(sim.runtime());
    let error = sim.run(run.into_future()).unwrap_err();
    let why = checkpoint_error(&error);
    assert_eq!((why.node.as_str(), why.op), ("grow", "encode"));
    assert_eq!(error.into_state(), Some(Forgetful { kept: 1, lost: 1 }));
    let info = sim.run(async { store.head("r").await }).unwrap();
    assert_eq!((info.head, info.lease_until), (1, None), "earlier records are intact and the lease is released");

    // NaN has no JSON form that reads back as a number. A set has one, in any order.
    let nan = Graph::new("nan").add_node("n", |_: f64| async { Ok::<_, String>(f64::NAN) }).add_edge("n", END).set_entry("n");
    let run = nan.compile().unwrap().run(1.0).id("nan").checkpoint(&store).runtime(sim.runtime());
    let error = sim.run(run.into_future()).unwrap_err();
    assert_eq!(checkpoint_error(&error).op, "encode");
    type Set = std::collections::HashSet<String>;
    let fill = |_: Set| async { Ok::<_, String>((0..50).map(|n| n.to_string()).collect::<Set>()) };
    let sets = Graph::new("set").add_node("n", fill).add_edge("n", END).set_entry("n").compile().unwrap();
    let run = sets.run(Set::new()).id("set").checkpoint(&store).runtime(sim.runtime());
    assert_eq!(sim.run(run.into_future()).unwrap().len(), 50);
}

/// A number whose `Serialize` panics above 1.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct PanicsAboveOne(u32);

impl Serialize for PanicsAboveOne {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        assert!(self.0 <= 1, "{INJECTED} in serialize");
        serializer.serialize_newtype_struct("PanicsAboveOne", &self.0)
    }
}

#[test]
fn c2_panicking_serialize_is_an_encode_error_and_leaves_the_run_open() {
    quiet();
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let grow = |state: PanicsAboveOne| async move { Ok::<_, String>(PanicsAboveOne(state.0 + 1)) };
    let graph = Graph::new("panics").add_node("grow", grow).add_edge("grow", END).set_entry("grow").compile().unwrap();
    for (first, node) in [(2, ""), (1, "grow")] {
        let run = graph.run(PanicsAboveOne(first)).id("r").checkpoint(&store).runtime(sim.runtime());
        let error = sim.run(run.into_future()).unwrap_err();
        let encoding = checkpoint_error(&error);
        assert_eq!((encoding.node.as_str(), encoding.op), (node, "encode"));
        assert_eq!(error.into_state(), Some(PanicsAboveOne(2)));
    }
    assert_eq!(sim.run(async { store.head("r").await }).unwrap().status, RunStatus::Running);
}

#[test]
fn c2_state_above_the_size_limit_is_an_error() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let grow = |text: String| async move { Ok::<_, String>(text.repeat(100)) };
    let graph = Graph::new("grows").add_node("grow", grow).add_edge("grow", END).set_entry("grow").compile().unwrap();
    let run = graph.run("0123456789".to_string()).id("r").checkpoint(&store).max_state_bytes(512).runtime(sim.runtime());
    let error = sim.run(run.into_future()).unwrap_err();
    assert!(error.to_string().contains("1012") && error.to_string().contains("512"), "{error}");
    assert_eq!(checkpoint_error(&error).node, "grow");
    assert_eq!(error.into_state().map(|text| text.len()), Some(1_000));
}

#[test]
fn c2_damaged_record_is_named_and_not_loaded() {
    let sim = Sim::new(1);
    let store = FlakyStore::new(MemoryStore::on(sim.runtime()));
    store.fail_at(3, WriteFailure::Lost);
    let run = chain().run(0).id("r").checkpoint(&store).runtime(sim.runtime());
    assert!(sim.run(run.into_future()).is_err());
    store.damage(2);
    let resumed = chain().resume("r").checkpoint(&store).runtime(sim.runtime());
    let error = sim.run(resumed.into_future()).unwrap_err();
    assert!(error.to_string().contains("row 2 of run \"r\" is damaged"), "{error}");
    store.damage(0);
    let resumed = chain().resume("r").checkpoint(&store).runtime(sim.runtime());
    assert_eq!(sim.run(resumed.into_future()).unwrap(), 3);
}

#[test]
fn c10_best_effort_run_continues_without_the_store_and_reports_it() {
    for at in 2..=4 {
        let sim = Sim::new(1);
        let store = FlakyStore::new(MemoryStore::on(sim.runtime()));
        store.fail_at(at, WriteFailure::Lost);
        let log = Log::new();
        let seen = log.clone();
        let hooks = Hooks::new(move |event: &RunEvent<&u32>| {
            if let RunEvent::CheckpointsLost { error, .. } = event {
                seen.note(error.to_string());
            }
        });
        let run = chain().run(0).id("r").checkpoint(&store).best_effort().hooks(hooks).runtime(sim.runtime());
        assert_eq!(sim.run(run.into_future()).unwrap(), 3);
        assert_eq!(log.take().len(), 1);
        let info = sim.run(async { store.head("r").await }).unwrap();
        assert_eq!(info.head, at - 1, "earlier records are intact");
    }
}

#[test]
fn f4_result_is_kept_when_the_router_fails_and_resume_only_routes() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let (visits, is_broken) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(true)));
    let (counted, broken) = (Arc::clone(&visits), Arc::clone(&is_broken));
    let node = move |n: u32| {
        counted.fetch_add(1, SeqCst);
        async move { Ok::<_, String>(n + 1) }
    };
    let route = move |_: &u32| if broken.load(SeqCst) { "nowhere" } else { END };
    let graph = Graph::new("routes").add_node("node", node).add_conditional_edge("node", [END], route).set_entry("node");
    let graph = graph.compile().unwrap();
    let run = graph.run(0).id("r").checkpoint(&store).runtime(sim.runtime());
    let error = sim.run(run.into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Router(_)), "{error}");
    assert_eq!(error.into_state(), Some(1));
    is_broken.store(false, SeqCst);
    let resumed = graph.resume("r").checkpoint(&store).max_iterations(1).runtime(sim.runtime());
    assert_eq!(sim.run(resumed.into_future()).unwrap(), 1);
    assert_eq!(visits.load(SeqCst), 1);
}

#[test]
fn f5_failed_node_in_a_stored_run_returns_the_state_before_it() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let graph = Graph::new("fails")
        .add_node("a", add_one)
        .add_node("b", |_: u32| async { Err::<u32, _>("no".to_string()) })
        .add_edge("a", "b")
        .add_edge("b", END)
        .set_entry("a")
        .compile()
        .unwrap();
    let run = graph.run(5).id("r").checkpoint(&store).runtime(sim.runtime());
    let error = sim.run(run.into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Node(node) if node.node == "b"));
    assert_eq!(error.into_state(), Some(6));
    let info = sim.run(async { store.head("r").await }).unwrap();
    assert_eq!((info.status, info.lease_until), (RunStatus::Failed, None));
}

#[test]
fn f6_visit_count_continues_after_a_resume() {
    let sim = Sim::new(1);
    let store = FlakyStore::new(MemoryStore::on(sim.runtime()));
    let graph = Graph::new("turns")
        .add_node("turn", add_one)
        .add_conditional_edge("turn", ["turn", END], |n: &u32| if *n < 10 { "turn" } else { END })
        .set_entry("turn")
        .compile()
        .unwrap();
    store.fail_at(4, WriteFailure::Lost);
    let run = graph.run(0).id("r").checkpoint(&store).max_iterations(6).runtime(sim.runtime());
    assert!(matches!(sim.run(run.into_future()).unwrap_err().fault(), RunFault::Checkpoint(_)));
    for _ in 0..2 {
        let resumed = graph.resume("r").checkpoint(&store).max_iterations(6).runtime(sim.runtime());
        let error = sim.run(resumed.into_future()).unwrap_err();
        assert!(matches!(error.fault(), RunFault::MaxIterations { limit: 6, .. }), "{error}");
        assert_eq!(error.into_state(), Some(6));
    }
    let resumed = graph.resume("r").checkpoint(&store).max_iterations(10).runtime(sim.runtime());
    assert_eq!(sim.run(resumed.into_future()).unwrap(), 10);
}

fn options<'a>(run: RunOptions<'a, u32>, sim: &Sim, log: &Log) -> RunOptions<'a, u32> {
    run.extension(log.clone()).extension(sim.runtime()).runtime(sim.runtime())
}

/// A node that logs its name and fails on demand.
fn logged(
    name: &'static str,
    fails: bool,
) -> impl Fn(NodeContext, u32) -> pleach::runtime::BoxFuture<'static, Result<u32, String>> {
    move |cx, n| {
        Box::pin(async move {
            cx.extension::<Log>().unwrap().note(name.to_string());
            if fails { Err(format!("{name} fails")) } else { Ok(n + 1) }
        })
    }
}

#[test]
fn f9_failed_branch_does_not_run_again_after_a_resume() {
    let late = |cx: NodeContext, n: u32| async move {
        let clock = cx.extension::<Arc<dyn Runtime>>().unwrap().clone();
        clock.sleep_until(clock.now() + Duration::from_secs(1)).await;
        logged("late", false)(cx, n).await
    };
    let count = |_: u32, ended: Vec<Result<u32, RunError<u32>>>| {
        let failed: Vec<String> = ended.iter().filter_map(|one| Some(one.as_ref().err()?.to_string())).collect();
        assert_eq!(failed, ["node \"bad\" failed at attempt 1: bad fails"]);
        Ok::<_, String>(ended.into_iter().flatten().sum())
    };
    let graph = Graph::new("collects")
        .add_node("start", add_one)
        .add_node("good", logged("good", false))
        .add_node("bad", logged("bad", true))
        .add_node("late", late)
        .add_parallel_edge("start", ["good", "bad", "late"], END, FanOut::collect(count))
        .add_edge("good", END)
        .add_edge("bad", END)
        .add_edge("late", END)
        .set_entry("start")
        .compile()
        .unwrap();
    let sim = Sim::new(1);
    let (store, log) = (FlakyStore::new(MemoryStore::on(sim.runtime())), Log::new());
    // Commits: the start, the fan-out, the two branches that end at once, and the last branch with
    // the join. The last one is lost.
    store.fail_at(4, WriteFailure::Lost);
    let run = options(graph.run(0).id("r").checkpoint(&store), &sim, &log);
    assert!(matches!(sim.run(run.into_future()).unwrap_err().fault(), RunFault::Checkpoint(_)));
    assert_eq!(log.take(), ["good", "bad", "late"]);
    let resumed = options(graph.resume("r").checkpoint(&store), &sim, &log);
    assert_eq!(sim.run(resumed.into_future()).unwrap(), 4);
    assert_eq!(log.take(), ["late"]);
}

#[test]
fn f10_retried_subgraph_starts_over_after_a_crash_anywhere() {
    let inner = |log: &'static str| {
        let second = move |cx: NodeContext, n: u32| async move {
            let first = cx.extension::<AtomicBool>().unwrap().swap(false, SeqCst);
            logged(log, first)(cx, n).await
        };
        let graph = Graph::new("inner").add_node("one", logged("one", false)).add_node("two", second);
        graph.add_edge("one", "two").add_edge("two", END).set_entry("one").compile().unwrap()
    };
    let graph = Graph::new("outer")
        .add_subgraph("sub", inner("two"), |n: &u32| *n, |_, n| n)
        .policy("sub", Policy::new().retry(Retry::times(2)))
        .add_edge("sub", END)
        .set_entry("sub")
        .compile()
        .unwrap();
    for at in 2..=9 {
        for fate in [WriteFailure::Lost, WriteFailure::Unanswered] {
            let sim = Sim::new(at);
            let (store, log) = (FlakyStore::new(MemoryStore::on(sim.runtime())), Log::new());
            store.fail_at(at, fate);
            let run = options(graph.run(0).id("r").checkpoint(&store), &sim, &log).extension(AtomicBool::new(true));
            let mut outcome = sim.run(run.into_future());
            if outcome.is_err() {
                let failed_already = log.take().contains(&"two".to_string());
                let resumed =
                    options(graph.resume("r").checkpoint(&store), &sim, &log).extension(AtomicBool::new(!failed_already));
                outcome = sim.run(resumed.into_future());
            }
            assert_eq!(outcome.unwrap(), 2, "{at} {fate:?}");
        }
    }
}

#[test]
fn f11_failed_attempts_and_their_backoff_survive_a_crash() {
    let node = |cx: NodeContext, n: u32| async move {
        let clock = cx.extension::<Arc<dyn Runtime>>().unwrap();
        let seconds = clock.now().since_start().as_secs();
        cx.extension::<Log>().unwrap().note(format!("attempt {} at {seconds}", cx.attempt()));
        if cx.attempt() < 3 { Err("not yet".to_string()) } else { Ok(n) }
    };
    let seconds = Duration::from_secs;
    let graph = Graph::new("retries")
        .add_node("node", node)
        .policy("node", Policy::new().retry(Retry::times(3).backoff(seconds(100), seconds(900))))
        .add_edge("node", END)
        .set_entry("node")
        .compile()
        .unwrap();
    let sim = Sim::new(1);
    let (store, log) = (MemoryStore::on(sim.runtime()), Log::new());
    let cut_off_after = |time| sim.token().child_for(time);
    let run = options(graph.run(0).id("r").checkpoint(&store), &sim, &log).token(&cut_off_after(seconds(40)));
    assert!(matches!(sim.run(run.into_future()).unwrap_err().fault(), RunFault::Cancelled { .. }));
    let resumed = options(graph.resume("r").checkpoint(&store), &sim, &log).token(&cut_off_after(seconds(100)));
    assert!(matches!(sim.run(resumed.into_future()).unwrap_err().fault(), RunFault::Cancelled { .. }));
    let resumed = options(graph.resume("r").checkpoint(&store), &sim, &log);
    assert_eq!(sim.run(resumed.into_future()).unwrap(), 0);
    assert_eq!(log.take(), ["attempt 1 at 0", "attempt 2 at 100", "attempt 3 at 300"]);
}

#[test]
fn c10_unknown_run_wrong_graph_and_invalid_id_are_clear_errors() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let graph = chain();
    let error = sim.run(graph.resume("missing").checkpoint(&store).runtime(sim.runtime()).into_future()).unwrap_err();
    assert!(error.to_string().contains("run \"missing\" does not exist"), "{error}");
    sim.run(graph.run(0).id("r").checkpoint(&store).runtime(sim.runtime()).into_future()).unwrap();
    let other = Graph::new("other").add_node("a", add_one).add_edge("a", END).set_entry("a").compile().unwrap();
    let error = sim.run(other.resume("r").checkpoint(&store).runtime(sim.runtime()).into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Mismatch(why) if why.stored == "chain" && why.given == "other"), "{error}");
    for id in ["", "a\0b", &"x".repeat(10_000)] {
        let error = sim.run(graph.run(0).id(id).checkpoint(&store).runtime(sim.runtime()).into_future()).unwrap_err();
        assert_eq!((checkpoint_error(&error).op, error.into_state()), ("create", Some(0)), "{id:?}");
    }
    let odd = "'; DROP TABLE run; -- \u{202e}\n";
    assert_eq!(sim.run(graph.run(0).id(odd).checkpoint(&store).runtime(sim.runtime()).into_future()).unwrap(), 3);
    // A run that has ended returns its state again.
    assert_eq!(sim.run(graph.resume(odd).checkpoint(&store).runtime(sim.runtime()).into_future()).unwrap(), 3);
    let error = sim.run(graph.run(0).id("r").checkpoint(&store).runtime(sim.runtime()).into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Exists { run } if run == "r"), "{error}");
}
