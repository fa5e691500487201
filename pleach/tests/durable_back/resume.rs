//! C5, C14: a run is forked, continues with another state or only with a valid one, and its id is
//! unique.
use crate::common::flaky_store::FlakyStore;
use crate::common::stored::{Names, NodeFuture, StoredRunFixture, merge, named};
use crate::common::{INJECTED, quiet};
use pleach::durable::ResumeError;
use pleach::graph::Compensation;
use pleach::prelude::*;
use pleach::store::{Kind, Origin, RunStatus, Store, StoreError, TEXT_BYTES_MAX};

/// a → (b, c) → d → e.
fn diamond() -> CompiledGraph<Names> {
    Graph::new("diamond")
        .add_node("a", named("a"))
        .add_node("b", named("b"))
        .add_node("c", named("c"))
        .add_node("d", named("d"))
        .add_node("e", named("e"))
        .add_parallel_edge("a", ["b", "c"], "d", merge)
        .add_edge("b", "d")
        .add_edge("c", "d")
        .add_edge("d", "e")
        .add_edge("e", END)
        .set_entry("a")
        .compile()
        .unwrap()
}

const ALL: [&str; 5] = ["a", "b", "c", "d", "e"];

fn resume_error<S: std::fmt::Debug>(outcome: Result<S, RunError<S>>) -> ResumeError {
    match outcome.unwrap_err().into_fault() {
        RunFault::Resume(error) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn c5_fork_leaves_its_origin_unchanged_and_survives_its_deletion() {
    let (fixture, graph) = (StoredRunFixture::new(1), diamond());
    fixture.nodes.hang(&["c", "d"]);
    fixture.leave(fixture.run(&graph, vec![]));
    let (info, rows, first) = (fixture.info("r"), fixture.rows("r"), fixture.nodes.starts.take());
    // From the current position: "b" has arrived, "c" has not.
    fixture.leave(fixture.resume(&graph, |run| run.fork_as("f")));
    assert_eq!((fixture.info("r"), fixture.rows("r")), (info.clone(), rows.clone()));
    let fork = fixture.info("f");
    assert_eq!((fork.from, fork.epoch), (Some(Origin { run: "r".into(), sequence: info.head }), 1));
    let begun = fixture.nodes.starts.take();
    assert_eq!(begun.iter().map(|(node, _)| node.as_str()).collect::<Vec<_>>(), ["c"]);
    assert!(!first.contains(&begun[0]), "a fork has new keys");
    // From an earlier record. Both forks work after the origin is deleted.
    fixture.leave(fixture.resume(&graph, |run| run.rewind_to(1).fork_as("g")));
    assert_eq!(fixture.info("g").from, Some(Origin { run: "r".into(), sequence: 1 }));
    // Visits before the fork count.
    let error = fixture.end(fixture.resume(&graph, |run| run.fork_as("h")).max_visits(2)).unwrap_err();
    assert!(matches!(error.fault(), RunFault::MaxVisits { limit: 2, .. }), "{error}");
    fixture.sim.run(async { fixture.store.delete("r").await }).unwrap();
    fixture.nodes.hang(&[]);
    fixture.nodes.starts.take();
    for (run, starts) in [("f", &["c", "d", "e"][..]), ("g", &["c", "d", "e"])] {
        let resumed = fixture.here(graph.resume(run).checkpoint(&fixture.store));
        assert_eq!(fixture.end(resumed).unwrap(), ALL);
        assert_eq!(fixture.nodes.started(), starts);
        assert_eq!(fixture.info(run).status, RunStatus::Finished);
    }
}

#[test]
fn c5_fork_works_for_held_and_ended_runs() {
    let (fixture, graph) = (StoredRunFixture::new(1), diamond());
    fixture.nodes.hang(&["e"]);
    let fork = fixture.resume(&graph, |run| run.fork_as("f")).timeout(Duration::from_secs(5));
    let held = fixture.run(&graph, vec![]).timeout(Duration::from_secs(60));
    let (scope, sleep) = (fixture.sim.scope(), fixture.sim.sleep(Duration::from_secs(1)));
    let driven = scope.launch(async move { held.await.map(drop).map_err(|error| error.to_string()) }).unwrap();
    let forked = fixture.sim.run(async {
        sleep.await;
        fork.await
    });
    assert!(matches!(forked.unwrap_err().fault(), RunFault::Cancelled { .. }));
    assert!(fixture.info("r").owner.is_some() && fixture.info("f").from.is_some());
    drop(driven);
    fixture.nodes.hang(&[]);
    drop(scope);
    assert_eq!(fixture.end(fixture.resume(&graph, |run| run.take_over())).unwrap(), ALL);
    let head = fixture.info("r").head;
    let error = resume_error(fixture.end(fixture.resume(&graph, |run| run.fork_as("g"))));
    assert!(matches!(&error, ResumeError::AtEnd { sequence, .. } if *sequence == head), "{error}");
    fixture.nodes.starts.take();
    assert_eq!(fixture.end(fixture.resume(&graph, |run| run.replay_last().fork_as("g"))).unwrap(), ALL);
    assert_eq!(fixture.nodes.started(), ["e"]);
    let error = fixture.end(fixture.resume(&graph, |run| run.rewind_to(1).fork_as("g"))).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Exists { run } if run == "g"), "{error}");
}

#[test]
fn c5_fork_undoes_only_its_own_visits() {
    let booking = |name: &'static str| {
        move |cx: NodeContext, names: Names| -> NodeFuture<Names> {
            Box::pin(async move {
                cx.record_undo(name.to_string());
                named(name)(cx, names).await
            })
        }
    };
    let undo = |_cx: NodeContext, _name: String| async move { Ok::<_, String>(()) };
    let graph = Graph::new("trip")
        .add_node("flight", booking("flight"))
        .add_node("hotel", booking("hotel"))
        .add_node("pay", named("pay"))
        .compensate("flight", undo)
        .compensate("hotel", undo)
        .add_edge("flight", "hotel")
        .add_edge("hotel", "pay")
        .add_edge("pay", END)
        .set_entry("flight")
        .compile()
        .unwrap();
    let fixture = StoredRunFixture::new(1);
    fixture.end(fixture.run(&graph, vec![])).unwrap();
    fixture.nodes.fail(&["pay"]);
    let error = fixture.end(fixture.resume(&graph, |run| run.rewind_to(2).fork_as("f"))).unwrap_err();
    assert_eq!(error.compensation(), Some(&Compensation::Compensated { undone: vec!["hotel".into()] }));
}

#[test]
fn c5_replaced_state_is_durable_before_the_run_continues() {
    let (fixture, graph) = (StoredRunFixture::new(1), diamond());
    fixture.nodes.hang(&["e"]);
    fixture.leave(fixture.run(&graph, vec![]));
    let (key, head) = (fixture.nodes.starts.take().pop().unwrap(), fixture.info("r").head);
    fixture.leave(fixture.resume(&graph, |run| {
        run.with_state(|mut names| {
            names.push("replaced".into());
            names
        })
    }));
    let again = fixture.nodes.starts.take();
    assert!(again.len() == 1 && again[0].0 == "e" && again[0] != key, "a new input has a new key");
    assert_eq!(fixture.info("r").head, head + 1);
    fixture.nodes.hang(&[]);
    assert_eq!(fixture.end(fixture.resume(&graph, |run| run)).unwrap(), ["a", "b", "c", "d", "replaced", "e"]);
    // An ended run has no state to replace, unless it is rewound.
    let head = fixture.info("r").head;
    let error = resume_error(fixture.end(fixture.resume(&graph, |run| run.with_state(|_| vec![]))));
    assert!(matches!(error, ResumeError::AtEnd { .. }), "{error}");
    let to = fixture.record("r", Kind::Join, "a");
    let rewound = fixture.resume(&graph, |run| run.rewind_to(to).with_state(|_| vec!["only".into()]));
    assert_eq!(fixture.end(rewound).unwrap(), ["only", "d", "e"]);
    assert!(fixture.info("r").head > head);
}

#[test]
fn c5_failed_run_continues_with_a_corrected_state() {
    let (fixture, graph) = (StoredRunFixture::new(1), diamond());
    fixture.nodes.fail(&["d"]);
    fixture.end(fixture.run(&graph, vec![])).unwrap_err();
    assert_eq!(fixture.info("r").status, RunStatus::Failed);
    fixture.nodes.fail(&[]);
    let corrected = fixture.resume(&graph, |run| run.with_state(|names| names.into_iter().rev().collect()));
    assert_eq!(fixture.end(corrected).unwrap(), ["c", "b", "a", "d", "e"]);
}

#[test]
fn c5_state_is_not_replaced_while_branches_are_open() {
    let (fixture, graph) = (StoredRunFixture::new(1), diamond());
    fixture.nodes.hang(&["c"]);
    fixture.leave(fixture.run(&graph, vec![]));
    let before = fixture.rows("r");
    let error = resume_error(fixture.end(fixture.resume(&graph, |run| run.with_state(|names| names))));
    let ResumeError::Branched { run, open } = &error else { panic!("{error}") };
    assert_eq!((run.as_str(), &open[..]), ("r", &["a".to_string()][..]));
    assert!(error.to_string().contains('a') && fixture.info("r").owner.is_none());
    let sub = Graph::new("outer")
        .add_subgraph("sub", diamond(), Names::clone, |_, inner| inner)
        .add_edge("sub", END)
        .set_entry("sub")
        .compile()
        .unwrap();
    let inside = StoredRunFixture::new(1);
    inside.nodes.hang(&["sub/e"]);
    inside.leave(inside.run(&sub, vec![]));
    let error = resume_error(inside.end(inside.resume(&sub, |run| run.with_state(|names| names))));
    assert!(matches!(&error, ResumeError::Branched { open, .. } if open == &["sub"]), "{error}");
    assert_eq!(fixture.rows("r"), before);
}

#[test]
fn c5_rejected_state_changes_nothing_and_releases_the_run() {
    quiet();
    let (fixture, graph) = (StoredRunFixture::new(1), diamond());
    fixture.nodes.hang(&["c"]);
    fixture.leave(fixture.run(&graph, vec![]));
    let (head, before) = (fixture.info("r").head, fixture.rows("r"));
    let validated = crate::common::Log::<Names>::new();
    let seen = validated.clone();
    let strict = fixture.resume(&graph, |run| {
        run.validate(move |names: &Names| {
            seen.push(names.clone());
            if names.contains(&"b".to_string()) { Err("b is invalid") } else { Ok(()) }
        })
    });
    let error = resume_error(fixture.end(strict));
    assert!(matches!(&error, ResumeError::Invalid { run, sequence, .. } if run == "r" && *sequence == head), "{error}");
    assert!(error.to_string().contains("b is invalid"));
    assert_eq!(
        validated.take(),
        [vec!["a"], vec!["a", "b"]],
        "the state before the fan-out and the state of the started branch"
    );
    let panics = fixture.resume(&graph, |run| run.validate(|_| -> Result<(), String> { panic!("{INJECTED}: validate") }));
    assert!(matches!(resume_error(fixture.end(panics)), ResumeError::Invalid { .. }));
    let panics = fixture.resume(&graph, |run| run.rewind_to(1).with_state(|_| panic!("{INJECTED}: state")));
    let error = fixture.end(panics).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Checkpoint(_)) && error.to_string().contains("injected"), "{error}");
    // After a rewind the states at that record are validated.
    let rewound =
        fixture.resume(&graph, |run| run.rewind_to(1).validate(|names| if names.is_empty() { Err("nothing") } else { Ok(()) }));
    assert!(matches!(resume_error(fixture.end(rewound)), ResumeError::Invalid { sequence: 1, .. }));
    let info = fixture.info("r");
    assert_eq!((info.owner, info.lease_until, info.status), (None, None, RunStatus::Running));
    assert_eq!(fixture.rows("r"), before);
    fixture.nodes.hang(&[]);
    let now = fixture.sim.now();
    assert_eq!(fixture.end(fixture.resume(&graph, |run| run.validate(|_| Ok::<_, String>(())))).unwrap(), ALL);
    assert!(fixture.sim.now().since(now) < Duration::from_secs(1), "no wait for a lease");
}

#[test]
fn c5_resume_cancelled_while_it_opens_releases_the_run() {
    let (fixture, graph) = (StoredRunFixture::new(1), diamond());
    fixture.nodes.hang(&["c"]);
    fixture.leave(fixture.run(&graph, vec![]));
    let store = FlakyStore::new(fixture.store.clone());
    store.stall_reads();
    let stalled = graph.resume("r").rewind_to(1).checkpoint(&store).timeout(Duration::from_secs(1));
    let error = fixture.end(fixture.here(stalled)).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Cancelled { was_executing: false, .. }), "{error}");
    fixture.nodes.hang(&[]);
    let now = fixture.sim.now();
    assert_eq!(fixture.end(fixture.resume(&graph, |run| run)).unwrap(), ALL);
    assert!(fixture.sim.now().since(now) < Duration::from_secs(1), "no wait for a lease");
}

#[test]
fn c5_invalid_ids_are_rejected_and_unusual_ones_work() {
    let (fixture, graph) = (StoredRunFixture::new(1), diamond());
    let long = "x".repeat(TEXT_BYTES_MAX + 1);
    for id in ["", "a\0b", long.as_str()] {
        let id = || id.to_string();
        let begun = fixture.end(fixture.here(graph.run(vec![]).id(id()).checkpoint(&fixture.store)));
        let resumed = fixture.end(fixture.here(graph.resume(id()).checkpoint(&fixture.store)));
        let rewound = fixture.end(fixture.here(graph.resume(id()).rewind_to(1).checkpoint(&fixture.store)));
        for outcome in [begun, resumed, rewound] {
            let error = outcome.unwrap_err();
            let RunFault::Checkpoint(error) = error.fault() else { panic!("{error}") };
            let error = error.store_error().unwrap();
            assert!(matches!(error, StoreError::Invalid { .. } | StoreError::TooLarge { .. }), "{error}");
        }
        let page = fixture.sim.run(async { graph.history(id(), &fixture.store).page(1, 10).await });
        assert!(matches!(page, Err(StoreError::Invalid { .. } | StoreError::TooLarge { .. })));
    }
    for id in ["'; DROP TABLE run; --", "../../etc", "%", "日本\u{202e}\n", " "] {
        let begun = fixture.end(fixture.here(graph.run(vec![]).id(id).checkpoint(&fixture.store)));
        assert_eq!(begun.unwrap(), ALL);
        let other = format!("{id}{id}");
        let fork = fixture.end(fixture.here(graph.resume(id).rewind_to(1).fork_as(other.as_str()).checkpoint(&fixture.store)));
        assert_eq!(fork.unwrap(), ALL);
        assert_eq!(fixture.info(&other).from.map(|from| from.run).as_deref(), Some(id));
    }
    let error = fixture.end(fixture.here(graph.resume("missing").fork_as("f").checkpoint(&fixture.store))).unwrap_err();
    assert!(error.to_string().contains("\"missing\""), "{error}");
    assert!(fixture.sim.run(async { fixture.store.head("f").await }).is_err());
}

#[test]
fn c14_taken_id_is_an_error_or_attached_to() {
    let (fixture, graph) = (StoredRunFixture::new(1), diamond());
    fixture.nodes.hang(&["d"]);
    fixture.leave(fixture.run(&graph, vec!["first".into()]));
    let mut error = fixture.end(fixture.run(&graph, vec!["second".into()])).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Exists { run } if run == "r"), "{error}");
    assert_eq!(error.state(), Some(&vec!["second".to_string()]), "the input state is returned");
    fixture.nodes.hang(&[]);
    fixture.nodes.starts.take();
    let attached = fixture.end(fixture.run(&graph, vec!["second".into()]).attach()).unwrap();
    assert_eq!(attached, ["first", "a", "b", "c", "d", "e"], "the state of the existing run counts");
    assert_eq!(fixture.nodes.started(), ["d", "e"]);
    // A finished run returns its state again, and nothing runs.
    assert_eq!(fixture.end(fixture.run(&graph, vec!["third".into()]).attach()).unwrap(), attached);
    assert!(fixture.nodes.started().is_empty());
    // An unknown id starts a run.
    let other = fixture.here(graph.run(vec![]).id("new").checkpoint(&fixture.store).attach());
    assert_eq!(fixture.end(other).unwrap(), ALL);
    // A run of another graph cannot be attached to.
    let another = Graph::new("another").add_node("a", named("a")).add_edge("a", END).set_entry("a").compile().unwrap();
    let error = fixture.end(fixture.run(&another, vec![]).attach()).unwrap_err();
    let RunFault::Mismatch(mismatch) = error.fault() else { panic!("{error}") };
    assert_eq!((mismatch.what, mismatch.stored.as_str(), mismatch.given.as_str()), ("graph", "diamond", "another"));
}

#[test]
fn c14_attach_to_a_held_run_waits_one_lease() {
    let (fixture, graph) = (StoredRunFixture::new(1), diamond());
    fixture.nodes.hang(&["d"]);
    let held = fixture.run(&graph, vec![]).lease(Duration::from_secs(30));
    let scope = fixture.sim.scope();
    drop(scope.launch(async move { held.await.map(drop).map_err(|error| error.to_string()) }));
    fixture.sim.run(fixture.sim.sleep(Duration::from_secs(1)));
    let began = fixture.sim.now();
    let error = fixture.end(fixture.run(&graph, vec![]).attach()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Held { run, .. } if run == "r"), "{error}");
    let waited = fixture.sim.now().since(began);
    assert!(waited > Duration::from_secs(20) && waited < Duration::from_secs(40), "{waited:?}");
    // The holder is dropped and releases the run at once.
    drop(scope);
    fixture.nodes.hang(&[]);
    assert_eq!(fixture.end(fixture.run(&graph, vec![]).attach()).unwrap(), ALL);
}
