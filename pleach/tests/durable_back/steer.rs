//! C5: a run is steered without its graph: the records are those of the typed way, and a crash
//! leaves it as it was or steered completely.
use crate::common::flaky_store::{FlakyStore, WriteFailure};
use crate::common::stored::{Names, NodeControl, NodeFuture, StoredRunFixture, merge, named};
use pleach::durable::{Migrations, ResumeError, RewindTo, RunRemote};
use pleach::prelude::*;
use pleach::sim::SEEDS_VARIABLE;
use pleach::store::{Filter, GraphVersion, Header, Lease, Row, RunStatus, Store, StoreError, TAKEOVERS_MAX, Wanted};
use std::sync::{Arc, Mutex};

const NODES: [&str; 7] = ["turn", "fork", "left", "deep", "d1", "d2", "join"];

/// Has an effect, an undo, and in `left` a question that is never answered if the node hangs.
fn working(name: &'static str) -> impl Fn(NodeContext, Names) -> NodeFuture<Names> {
    move |cx, mut names| {
        Box::pin(async move {
            cx.record_undo(name.to_string());
            cx.effect("noted", |key| async move { Ok::<_, String>(key) }).await?;
            cx.extension::<NodeControl>().unwrap().clone().enter(&cx).await?;
            names.push(name.to_string());
            Ok(names)
        })
    }
}

async fn undo(_: NodeContext, _: String) -> Result<(), String> {
    Ok(())
}

/// A loop, nested fan-outs and a subgraph, all with effects and undos.
fn graph() -> CompiledGraph<Names> {
    let inner = Graph::new("inner").add_node("in", working("in")).compensate("in", undo);
    let inner = inner.add_edge("in", END).set_entry("in").compile().unwrap();
    let mut graph = Graph::new("steered")
        .add_conditional_edge("turn", ["turn", "fork"], |names: &Names| if names.len() < 2 { "turn" } else { "fork" })
        .add_subgraph("sub", inner, Names::clone, |_, inner| inner)
        .add_parallel_edge("fork", ["left", "deep", "sub"], "join", merge)
        .add_parallel_edge("deep", ["d1", "d2"], "d3", merge)
        .add_node("d3", named("d3"))
        .set_entry("turn");
    for name in NODES {
        graph = graph.add_node(name, working(name)).compensate(name, undo);
    }
    let edges = [("left", "join"), ("d1", "d3"), ("d2", "d3"), ("d3", "join"), ("sub", "join"), ("join", END)];
    edges.into_iter().fold(graph, |graph, (from, to)| graph.add_edge(from, to)).compile().unwrap()
}

/// Calls a method of a handle inside a task, which has the runtime of the simulation.
fn steer<T: Send + 'static>(
    fixture: &StoredRunFixture,
    call: impl Future<Output = Result<T, RunFault>> + Send + 'static,
) -> Result<T, RunFault> {
    let (result, scope) = (Arc::new(Mutex::new(None)), fixture.sim.scope());
    let slot = Arc::clone(&result);
    scope.task().launch(async move { *slot.lock().unwrap() = Some(call.await) }).unwrap();
    fixture.sim.run(scope.wait_all()).unwrap();
    result.lock().unwrap().take().unwrap()
}

fn remote(store: &(impl Store + Clone)) -> RunRemote {
    RunRemote::new(store, "r")
}

/// Runs `r` until it ends, fails or hangs, as the seed decides.
fn started(graph: &CompiledGraph<Names>, seed: u64) -> StoredRunFixture {
    let fixture = StoredRunFixture::new(seed);
    let (node, how) = (NODES[(seed % 7) as usize], seed / 7 % 3);
    match how {
        0 => fixture.nodes.hang(&[node]),
        1 => fixture.nodes.fail(&[node]),
        _ => {}
    }
    let run = fixture.run(graph, vec![]).keep_records(10_000);
    match how {
        0 => fixture.leave(run),
        _ => drop(fixture.end(run)),
    }
    fixture
}

/// What must be equal: everything except the time.
fn comparable(run: &str, rows: &[Row]) -> Vec<(Header, String)> {
    let open = |row: &Row| {
        let record = row.clone().open(run).unwrap();
        (Header { at: Default::default(), ..record.header }, String::from_utf8(record.body).unwrap())
    };
    rows.iter().map(open).collect()
}

#[test]
fn c5_untyped_rewind_and_fork_write_the_records_of_the_typed_ones() {
    let graph = graph();
    let seeds = std::env::var(SEEDS_VARIABLE).ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(126);
    let mut compared = 0;
    for seed in 0..seeds {
        let (typed, untyped) = (started(&graph, seed), started(&graph, seed));
        let head = typed.info("r").head;
        assert_eq!(comparable("r", &typed.rows("r")), comparable("r", &untyped.rows("r")), "seed {seed}");
        let to = 1 + seed.wrapping_mul(7_919) % head;
        // All nodes hang after their effects, so the first records are those of the rewind.
        typed.nodes.hang(&["turn", "fork", "left", "deep", "d1", "d2", "d3", "join", "in", "sub/in"]);
        let (run, forks) = if seed % 2 == 0 { ("r", false) } else { ("new", true) };
        let steered = match forks {
            false => steer(&untyped, {
                let remote = remote(&untyped.store);
                async move { remote.rewind_to(to).await }
            })
            .map(drop),
            true => steer(&untyped, {
                let remote = remote(&untyped.store);
                async move { remote.fork_to("new", RewindTo::Record(to), None).await }
            })
            .map(drop),
        };
        match steered {
            Err(RunFault::Resume(ResumeError::AtEnd { .. })) => continue,
            steered => steered.unwrap(),
        }
        let resume = graph.resume("r").rewind_to(to);
        let resume = if forks { resume.fork_as("new") } else { resume };
        typed.leave(typed.here(resume.checkpoint(&typed.store).keep_records(10_000)));
        let from = if forks { 0 } else { head as usize };
        let (written, expected) = (untyped.rows(run), typed.rows(run));
        assert!(written.len() > from, "seed {seed}");
        assert_eq!(comparable(run, &written[from..]), comparable(run, &expected[from..written.len()]), "seed {seed}, to {to}");
        let info = untyped.info(run);
        assert_eq!((info.status, info.owner, info.wake_at.is_some()), (RunStatus::Running, None, true), "seed {seed}");
        // A worker continues it to the same end.
        untyped.nodes.hang(&[]);
        untyped.nodes.fail(&[]);
        let ended = untyped.end(untyped.here(graph.resume(run).checkpoint(&untyped.store)));
        assert_eq!(ended.unwrap().len(), 10, "seed {seed}");
        compared += 1;
    }
    assert!(compared > seeds / 2, "{compared}");
}

#[test]
fn c5_crash_during_an_untyped_rewind_changes_all_or_nothing() {
    let graph = graph();
    for failure in [WriteFailure::Lost, WriteFailure::Unanswered] {
        let fixture = started(&graph, 14);
        let (store, head) = (FlakyStore::new(fixture.store.clone()), fixture.info("r").head);
        assert!(fixture.info("r").status.has_ended());
        store.fail_at(store.writes() + 1, failure);
        let handle = remote(&store);
        let failed = steer(&fixture, async move { handle.rewind_to(1).await }).unwrap_err();
        assert!(matches!(failed, RunFault::Checkpoint(_)), "{failed}");
        let info = fixture.info("r");
        assert_eq!(info.owner, None, "the claim was released after {failure:?}");
        assert_eq!(info.head > head, failure == WriteFailure::Unanswered);
        let names = if info.head > head { fixture.end(fixture.resume(&graph, |resume| resume)).unwrap() } else { continue };
        assert_eq!(names.len(), 10);
    }
}

#[test]
fn c5_untyped_retry_continues_a_failed_run_with_its_keys() {
    let graph = Graph::<Names>::new("plain").add_node("one", named("one")).add_node("two", named("two"));
    let graph = graph.add_edge("one", "two").add_edge("two", END).set_entry("one").compile().unwrap();
    let fixture = StoredRunFixture::new(3);
    fixture.nodes.fail(&["two"]);
    fixture.end(fixture.run(&graph, vec![])).unwrap_err();
    let first = fixture.nodes.starts.take();
    let handle = remote(&fixture.store);
    steer(&fixture, async move { handle.retry().await }).unwrap();
    let info = fixture.info("r");
    assert_eq!((info.status, info.failure, info.owner), (RunStatus::Running, None, None));
    let handle = remote(&fixture.store);
    let again = steer(&fixture, async move { handle.retry().await }).unwrap_err();
    assert!(matches!(again, RunFault::Resume(ResumeError::NotFailed { status: RunStatus::Running, .. })), "{again}");
    fixture.nodes.fail(&[]);
    assert_eq!(fixture.end(fixture.resume(&graph, |resume| resume)).unwrap(), ["one", "two"]);
    assert_eq!(fixture.nodes.starts.take(), first[1..], "the failed node ran again, under its key");
}

#[test]
fn c5_untyped_fork_takes_an_exact_state() {
    let graph = Graph::<serde_json::Value>::new("exact");
    let graph = graph.add_node("keep", |state: serde_json::Value| async move { Ok::<_, String>(state) });
    let graph = graph.add_edge("keep", END).set_entry("keep").compile().unwrap();
    let fixture = StoredRunFixture::new(1);
    fixture.end(fixture.run(&graph, serde_json::json!({"n": 1}))).unwrap();
    let exact = r#"{"n": 123456789012345678901234567890.10}"#;
    let fork = |state: &'static str, new: &'static str, to: u64| {
        let handle = remote(&fixture.store);
        steer(&fixture, async move { handle.fork_to(new, RewindTo::Record(to), Some(state)).await })
    };
    fork(exact, "f", 1).unwrap();
    let view = fixture.sim.run(RunRemote::new(&fixture.store, "f").view()).unwrap();
    assert_eq!(view.tokens[0].state.as_deref(), Some(exact));
    assert!(matches!(fork("{", "g", 1).unwrap_err(), RunFault::Resume(ResumeError::NotJson { .. })));
    assert!(matches!(fork("1", "f", 1).unwrap_err(), RunFault::Exists { .. }));
    assert!(matches!(fork("1", "g", 2).unwrap_err(), RunFault::Resume(ResumeError::AtEnd { .. })));
    let unknown = fork("1", "g", 99).unwrap_err();
    assert!(unknown.to_string().contains("no row 99"), "{unknown}");
    let runs = fixture.sim.run(async { fixture.store.list(vec![Filter::IdPrefix("g".into())], None, 9).await }).unwrap();
    assert!(runs.runs.is_empty(), "a rejected fork creates nothing");
}

#[test]
fn c5_steering_a_held_run_or_another_version_is_rejected() {
    let graph = graph();
    let fixture = started(&graph, 0);
    let claim = Wanted::One { run: "r".into(), force: false };
    let lease = Lease { owner: "ann".into(), length: Duration::from_secs(60) };
    fixture.sim.run(async { fixture.store.claim(claim, lease).await }).unwrap();
    let handle = remote(&fixture.store);
    let held = steer(&fixture, async move { handle.rewind_to(1).await }).unwrap_err();
    assert!(matches!(held, RunFault::Held { ref owner, .. } if owner == "ann"), "{held}");
    assert_eq!(fixture.info("r").owner.as_deref(), Some("ann"), "its driver keeps it");

    // A graph with one more node migrates the run; the records before have the old version.
    let old = StoredRunFixture::new(5);
    let plain = |extra: bool| {
        let graph = Graph::<Names>::new("plain").add_node("one", named("one")).add_node("two", named("two"));
        let graph = if extra {
            graph.add_node("three", named("three")).add_edge("two", "three").add_edge("three", END)
        } else {
            graph.add_edge("two", END)
        };
        graph.add_edge("one", "two").set_entry("one").compile().unwrap()
    };
    old.nodes.hang(&["two"]);
    old.leave(old.run(&plain(false), vec![]));
    old.leave(old.resume(&plain(true), |resume| resume).migrations(&Migrations::new().accept_compatible()));
    let now: GraphVersion = old.info("r").version;
    let handle = remote(&old.store);
    let other = steer(&old, async move { handle.rewind_to(1).await }).unwrap_err();
    let RunFault::Resume(ResumeError::OtherVersion { sequence: 1, current, .. }) = other else { panic!("{other}") };
    assert_eq!(current, now);
    assert_eq!(old.info("r").owner, None, "the claim was released");
}

#[test]
fn c5_unstick_lets_workers_claim_a_stuck_run() {
    let graph = graph();
    let fixture = started(&graph, 0);
    let claim = |owner: String| {
        let (wanted, lease) = (Wanted::One { run: "r".into(), force: false }, Lease { owner, length: Duration::from_secs(1) });
        fixture.sim.run(async {
            let claimed = fixture.store.claim(wanted, lease).await;
            fixture.sim.sleep(Duration::from_secs(2)).await;
            claimed
        })
    };
    let handle = remote(&fixture.store);
    let early = steer(&fixture, async move { handle.unstick().await }).unwrap_err();
    assert!(matches!(early, RunFault::Resume(ResumeError::NotStuck { .. })), "{early}");
    let stuck = (0..TAKEOVERS_MAX + 2).find_map(|number| claim(format!("worker {number}")).err());
    assert!(matches!(stuck, Some(StoreError::Stuck { .. })), "{stuck:?}");
    let handle = remote(&fixture.store);
    steer(&fixture, async move { handle.unstick().await }).unwrap();
    let info = fixture.info("r");
    assert_eq!((info.status, info.owner, info.wake_at.is_some()), (RunStatus::Running, None, true));
    claim("worker".into()).unwrap();
}

/// A cancel that arrives during the last commit belongs to the end of the run.
#[test]
fn c5_cancel_that_came_too_late_does_not_cancel_the_retried_run() {
    let graph = Graph::<Names>::new("plain").add_node("one", named("one")).add_edge("one", END).set_entry("one");
    let (graph, fixture) = (graph.compile().unwrap(), StoredRunFixture::new(3));
    let store = FlakyStore::new(fixture.store.clone());
    store.commit_slowly(fixture.sim.runtime(), Duration::from_secs(1));
    fixture.nodes.fail(&["one"]);
    let run = fixture.here(graph.run(vec![]).id("r").checkpoint(&store)).into_future();
    let cancel = async {
        fixture.sim.sleep(Duration::from_millis(500)).await;
        remote(&fixture.store).cancel("too late").await.unwrap();
    };
    let (ended, ()) = fixture.sim.run(futures::future::join(run, cancel));
    assert!(matches!(ended.unwrap_err().fault(), RunFault::Node(_)));
    assert_eq!(fixture.sim.run(async { fixture.store.inbox("r", 0).await }).unwrap().len(), 1);
    let handle = remote(&fixture.store);
    steer(&fixture, async move { handle.retry().await }).unwrap();
    assert_eq!(fixture.sim.run(async { fixture.store.inbox("r", 0).await }).unwrap(), []);
    fixture.nodes.fail(&[]);
    assert_eq!(fixture.end(fixture.resume(&graph, |resume| resume)).unwrap(), ["one"]);
}
