//! C5, C14: a run is forked, continues with another state or only with a valid one, and its id is
//! unique.
use crate::common::flaky_store::FlakyStore;
use crate::common::stored::{Names, NodeFuture, SideEffects, merge, named};
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
    let (world, graph) = (SideEffects::new(1), diamond());
    world.stage.hang(&["c", "d"]);
    world.leave(world.run(&graph, vec![]));
    let (info, rows, first) = (world.info("r"), world.rows("r"), world.stage.starts.take());
    // From the current position: "b" has arrived, "c" has not.
    world.leave(world.resume(&graph, |run| run.fork_as("f")));
    assert_eq!((world.info("r"), world.rows("r")), (info.clone(), rows.clone()));
    let fork = world.info("f");
    assert_eq!((fork.from, fork.epoch), (Some(Origin { run: "r".into(), sequence: info.head }), 1));
    let begun = world.stage.starts.take();
    assert_eq!(begun.iter().map(|(node, _)| node.as_str()).collect::<Vec<_>>(), ["c"]);
    assert!(!first.contains(&begun[0]), "a fork has new keys");
    // From an earlier record. Both forks work after the origin is deleted.
    world.leave(world.resume(&graph, |run| run.rewind_to(1).fork_as("g")));
    assert_eq!(world.info("g").from, Some(Origin { run: "r".into(), sequence: 1 }));
    // Visits before the fork count.
    let error = world.end(world.resume(&graph, |run| run.fork_as("h")).max_visits(2)).unwrap_err();
    assert!(matches!(error.fault(), RunFault::MaxVisits { limit: 2, .. }), "{error}");
    world.sim.run(async { world.store.delete("r").await }).unwrap();
    world.stage.hang(&[]);
    world.stage.starts.take();
    for (run, starts) in [("f", &["c", "d", "e"][..]), ("g", &["c", "d", "e"])] {
        let resumed = world.here(graph.resume(run).checkpoint(&world.store));
        assert_eq!(world.end(resumed).unwrap(), ALL);
        assert_eq!(world.stage.started(), starts);
        assert_eq!(world.info(run).status, RunStatus::Finished);
    }
}

#[test]
fn c5_fork_works_for_held_and_ended_runs() {
    let (world, graph) = (SideEffects::new(1), diamond());
    world.stage.hang(&["e"]);
    let fork = world.resume(&graph, |run| run.fork_as("f")).timeout(Duration::from_secs(5));
    let held = world.run(&graph, vec![]).timeout(Duration::from_secs(60));
    let (scope, sleep) = (world.sim.scope(), world.sim.sleep(Duration::from_secs(1)));
    let driven = scope.launch(async move { held.await.map(drop).map_err(|error| error.to_string()) }).unwrap();
    let forked = world.sim.run(async {
        sleep.await;
        fork.await
    });
    assert!(matches!(forked.unwrap_err().fault(), RunFault::Cancelled { .. }));
    assert!(world.info("r").owner.is_some() && world.info("f").from.is_some());
    drop(driven);
    world.stage.hang(&[]);
    drop(scope);
    assert_eq!(world.end(world.resume(&graph, |run| run.take_over())).unwrap(), ALL);
    let head = world.info("r").head;
    let error = resume_error(world.end(world.resume(&graph, |run| run.fork_as("g"))));
    assert!(matches!(&error, ResumeError::AtEnd { sequence, .. } if *sequence == head), "{error}");
    world.stage.starts.take();
    assert_eq!(world.end(world.resume(&graph, |run| run.replay_last().fork_as("g"))).unwrap(), ALL);
    assert_eq!(world.stage.started(), ["e"]);
    let error = world.end(world.resume(&graph, |run| run.rewind_to(1).fork_as("g"))).unwrap_err();
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
    let world = SideEffects::new(1);
    world.end(world.run(&graph, vec![])).unwrap();
    world.stage.fail(&["pay"]);
    let error = world.end(world.resume(&graph, |run| run.rewind_to(2).fork_as("f"))).unwrap_err();
    assert_eq!(error.compensation(), Some(&Compensation::Compensated { undone: vec!["hotel".into()] }));
}

#[test]
fn c5_replaced_state_is_durable_before_the_run_continues() {
    let (world, graph) = (SideEffects::new(1), diamond());
    world.stage.hang(&["e"]);
    world.leave(world.run(&graph, vec![]));
    let (key, head) = (world.stage.starts.take().pop().unwrap(), world.info("r").head);
    world.leave(world.resume(&graph, |run| {
        run.with_state(|mut names| {
            names.push("replaced".into());
            names
        })
    }));
    let again = world.stage.starts.take();
    assert!(again.len() == 1 && again[0].0 == "e" && again[0] != key, "a new input has a new key");
    assert_eq!(world.info("r").head, head + 1);
    world.stage.hang(&[]);
    assert_eq!(world.end(world.resume(&graph, |run| run)).unwrap(), ["a", "b", "c", "d", "replaced", "e"]);
    // An ended run has no state to replace, unless it is rewound.
    let head = world.info("r").head;
    let error = resume_error(world.end(world.resume(&graph, |run| run.with_state(|_| vec![]))));
    assert!(matches!(error, ResumeError::AtEnd { .. }), "{error}");
    let to = world.record("r", Kind::Join, "a");
    let rewound = world.resume(&graph, |run| run.rewind_to(to).with_state(|_| vec!["only".into()]));
    assert_eq!(world.end(rewound).unwrap(), ["only", "d", "e"]);
    assert!(world.info("r").head > head);
}

#[test]
fn c5_failed_run_continues_with_a_corrected_state() {
    let (world, graph) = (SideEffects::new(1), diamond());
    world.stage.fail(&["d"]);
    world.end(world.run(&graph, vec![])).unwrap_err();
    assert_eq!(world.info("r").status, RunStatus::Failed);
    world.stage.fail(&[]);
    let corrected = world.resume(&graph, |run| run.with_state(|names| names.into_iter().rev().collect()));
    assert_eq!(world.end(corrected).unwrap(), ["c", "b", "a", "d", "e"]);
}

#[test]
fn c5_state_is_not_replaced_while_branches_are_open() {
    let (world, graph) = (SideEffects::new(1), diamond());
    world.stage.hang(&["c"]);
    world.leave(world.run(&graph, vec![]));
    let before = world.rows("r");
    let error = resume_error(world.end(world.resume(&graph, |run| run.with_state(|names| names))));
    let ResumeError::Branched { run, open } = &error else { panic!("{error}") };
    assert_eq!((run.as_str(), &open[..]), ("r", &["a".to_string()][..]));
    assert!(error.to_string().contains('a') && world.info("r").owner.is_none());
    let sub = Graph::new("outer")
        .add_subgraph("sub", diamond(), Names::clone, |_, inner| inner)
        .add_edge("sub", END)
        .set_entry("sub")
        .compile()
        .unwrap();
    let inside = SideEffects::new(1);
    inside.stage.hang(&["sub/e"]);
    inside.leave(inside.run(&sub, vec![]));
    let error = resume_error(inside.end(inside.resume(&sub, |run| run.with_state(|names| names))));
    assert!(matches!(&error, ResumeError::Branched { open, .. } if open == &["sub"]), "{error}");
    assert_eq!(world.rows("r"), before);
}

#[test]
fn c5_rejected_state_changes_nothing_and_releases_the_run() {
    quiet();
    let (world, graph) = (SideEffects::new(1), diamond());
    world.stage.hang(&["c"]);
    world.leave(world.run(&graph, vec![]));
    let (head, before) = (world.info("r").head, world.rows("r"));
    let validated = crate::common::Log::<Names>::new();
    let seen = validated.clone();
    let strict = world.resume(&graph, |run| {
        run.validate(move |names: &Names| {
            seen.push(names.clone());
            if names.contains(&"b".to_string()) { Err("b is invalid") } else { Ok(()) }
        })
    });
    let error = resume_error(world.end(strict));
    assert!(matches!(&error, ResumeError::Invalid { run, sequence, .. } if run == "r" && *sequence == head), "{error}");
    assert!(error.to_string().contains("b is invalid"));
    assert_eq!(
        validated.take(),
        [vec!["a"], vec!["a", "b"]],
        "the state before the fan-out and the state of the started branch"
    );
    let panics = world.resume(&graph, |run| run.validate(|_| -> Result<(), String> { panic!("{INJECTED}: validate") }));
    assert!(matches!(resume_error(world.end(panics)), ResumeError::Invalid { .. }));
    let panics = world.resume(&graph, |run| run.rewind_to(1).with_state(|_| panic!("{INJECTED}: state")));
    let error = world.end(panics).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Checkpoint(_)) && error.to_string().contains("injected"), "{error}");
    // After a rewind the states at that record are validated.
    let rewound =
        world.resume(&graph, |run| run.rewind_to(1).validate(|names| if names.is_empty() { Err("nothing") } else { Ok(()) }));
    assert!(matches!(resume_error(world.end(rewound)), ResumeError::Invalid { sequence: 1, .. }));
    let info = world.info("r");
    assert_eq!((info.owner, info.lease_until, info.status), (None, None, RunStatus::Running));
    assert_eq!(world.rows("r"), before);
    world.stage.hang(&[]);
    let now = world.sim.now();
    assert_eq!(world.end(world.resume(&graph, |run| run.validate(|_| Ok::<_, String>(())))).unwrap(), ALL);
    assert!(world.sim.now().since(now) < Duration::from_secs(1), "no wait for a lease");
}

#[test]
fn c5_resume_cancelled_while_it_opens_releases_the_run() {
    let (world, graph) = (SideEffects::new(1), diamond());
    world.stage.hang(&["c"]);
    world.leave(world.run(&graph, vec![]));
    let store = FlakyStore::new(world.store.clone());
    store.stall_reads();
    let stalled = graph.resume("r").rewind_to(1).checkpoint(&store).timeout(Duration::from_secs(1));
    let error = world.end(world.here(stalled)).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Cancelled { was_executing: false, .. }), "{error}");
    world.stage.hang(&[]);
    let now = world.sim.now();
    assert_eq!(world.end(world.resume(&graph, |run| run)).unwrap(), ALL);
    assert!(world.sim.now().since(now) < Duration::from_secs(1), "no wait for a lease");
}

#[test]
fn c5_invalid_ids_are_rejected_and_unusual_ones_work() {
    let (world, graph) = (SideEffects::new(1), diamond());
    let long = "x".repeat(TEXT_BYTES_MAX + 1);
    for id in ["", "a\0b", long.as_str()] {
        let id = || id.to_string();
        let begun = world.end(world.here(graph.run(vec![]).id(id()).checkpoint(&world.store)));
        let resumed = world.end(world.here(graph.resume(id()).checkpoint(&world.store)));
        let rewound = world.end(world.here(graph.resume(id()).rewind_to(1).checkpoint(&world.store)));
        for outcome in [begun, resumed, rewound] {
            let error = outcome.unwrap_err();
            let RunFault::Checkpoint(error) = error.fault() else { panic!("{error}") };
            let error = error.store_error().unwrap();
            assert!(matches!(error, StoreError::Invalid { .. } | StoreError::TooLarge { .. }), "{error}");
        }
        let page = world.sim.run(async { graph.history(id(), &world.store).page(1, 10).await });
        assert!(matches!(page, Err(StoreError::Invalid { .. } | StoreError::TooLarge { .. })));
    }
    for id in ["'; DROP TABLE run; --", "../../etc", "%", "日本\u{202e}\n", " "] {
        let begun = world.end(world.here(graph.run(vec![]).id(id).checkpoint(&world.store)));
        assert_eq!(begun.unwrap(), ALL);
        let other = format!("{id}{id}");
        let fork = world.end(world.here(graph.resume(id).rewind_to(1).fork_as(other.as_str()).checkpoint(&world.store)));
        assert_eq!(fork.unwrap(), ALL);
        assert_eq!(world.info(&other).from.map(|from| from.run).as_deref(), Some(id));
    }
    let error = world.end(world.here(graph.resume("missing").fork_as("f").checkpoint(&world.store))).unwrap_err();
    assert!(error.to_string().contains("\"missing\""), "{error}");
    assert!(world.sim.run(async { world.store.head("f").await }).is_err());
}

#[test]
fn c14_taken_id_is_an_error_or_attached_to() {
    let (world, graph) = (SideEffects::new(1), diamond());
    world.stage.hang(&["d"]);
    world.leave(world.run(&graph, vec!["first".into()]));
    let mut error = world.end(world.run(&graph, vec!["second".into()])).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Exists { run } if run == "r"), "{error}");
    assert_eq!(error.state(), Some(&vec!["second".to_string()]), "the input state is returned");
    world.stage.hang(&[]);
    world.stage.starts.take();
    let attached = world.end(world.run(&graph, vec!["second".into()]).attach()).unwrap();
    assert_eq!(attached, ["first", "a", "b", "c", "d", "e"], "the state of the existing run counts");
    assert_eq!(world.stage.started(), ["d", "e"]);
    // A finished run returns its state again, and nothing runs.
    assert_eq!(world.end(world.run(&graph, vec!["third".into()]).attach()).unwrap(), attached);
    assert!(world.stage.started().is_empty());
    // An unknown id starts a run.
    let other = world.here(graph.run(vec![]).id("new").checkpoint(&world.store).attach());
    assert_eq!(world.end(other).unwrap(), ALL);
    // A run of another graph cannot be attached to.
    let another = Graph::new("another").add_node("a", named("a")).add_edge("a", END).set_entry("a").compile().unwrap();
    let error = world.end(world.run(&another, vec![]).attach()).unwrap_err();
    let RunFault::Mismatch(mismatch) = error.fault() else { panic!("{error}") };
    assert_eq!((mismatch.what, mismatch.stored.as_str(), mismatch.given.as_str()), ("graph", "diamond", "another"));
}

#[test]
fn c14_attach_to_a_held_run_waits_one_lease() {
    let (world, graph) = (SideEffects::new(1), diamond());
    world.stage.hang(&["d"]);
    let held = world.run(&graph, vec![]).lease(Duration::from_secs(30));
    let scope = world.sim.scope();
    drop(scope.launch(async move { held.await.map(drop).map_err(|error| error.to_string()) }));
    world.sim.run(world.sim.sleep(Duration::from_secs(1)));
    let began = world.sim.now();
    let error = world.end(world.run(&graph, vec![]).attach()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Held { run, .. } if run == "r"), "{error}");
    let waited = world.sim.now().since(began);
    assert!(waited > Duration::from_secs(20) && waited < Duration::from_secs(40), "{waited:?}");
    // The holder is dropped and releases the run at once.
    drop(scope);
    world.stage.hang(&[]);
    assert_eq!(world.end(world.run(&graph, vec![]).attach()).unwrap(), ALL);
}
