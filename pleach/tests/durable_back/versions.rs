//! C7: a run of another graph version is rejected with both versions named, or migrated: its
//! states, its node names and its shape.
use crate::common::stored::{Names, NodeControl, NodeFuture, StoredRunFixture, merge, named};
use crate::common::{INJECTED, quiet};
use pleach::durable::{Migrations, ResumeError};
use pleach::graph::Compensation;
use pleach::prelude::*;
use pleach::store::{GraphVersion, Kind, RunStatus};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::convert::Infallible;

/// The state of schema 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct One {
    name: String,
    steps: u32,
}

/// The state of schema 3. Schema 2 had no `sum`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Three {
    names: Vec<String>,
    steps: u32,
    sum: u32,
}

trait Steps {
    fn step(&mut self);
}

impl Steps for One {
    fn step(&mut self) {
        self.steps += 1;
    }
}

impl Steps for Three {
    fn step(&mut self) {
        (self.steps, self.sum) = (self.steps + 1, self.sum + 10);
    }
}

fn step<S: Steps + Send + 'static>(cx: NodeContext, mut state: S) -> NodeFuture<S> {
    Box::pin(async move {
        let stage = cx.extension::<NodeControl>().unwrap().clone();
        stage.enter(&cx).await?;
        state.step();
        Ok(state)
    })
}

trait State: Steps + Clone + Serialize + DeserializeOwned + Send + Sync + 'static {}
impl<S: Steps + Clone + Serialize + DeserializeOwned + Send + Sync + 'static> State for S {}

/// a → (b, c) → m → a map of two items → last.
fn graph<S: State>() -> CompiledGraph<S> {
    fn last_of<S>(_: S, mut branches: Vec<S>) -> S {
        branches.pop().unwrap()
    }
    Graph::<S>::new("essay")
        .add_node("a", step::<S>)
        .add_node("b", step::<S>)
        .add_node("c", step::<S>)
        .add_node("m", step::<S>)
        .add_node("item", step::<S>)
        .add_node("last", step::<S>)
        .add_parallel_edge("a", ["b", "c"], "m", last_of::<S>)
        .add_edge("b", "m")
        .add_edge("c", "m")
        .map("m", |state: &S| vec![state.clone(), state.clone()], "item", "last", last_of::<S>)
        .add_edge("item", "last")
        .add_edge("last", END)
        .set_entry("a")
        .compile()
        .unwrap()
}

fn one() -> One {
    One { name: "x".into(), steps: 0 }
}

fn migrations() -> Migrations {
    Migrations::new()
        .state(1, |mut state| {
            let object = state.as_object_mut().ok_or("no object")?;
            let name = object.remove("name").ok_or("no name")?;
            object.insert("names".into(), json!([name]));
            Ok::<_, &str>(state)
        })
        .state(2, |mut state| {
            state["sum"] = json!(100);
            Ok::<_, Infallible>(state)
        })
}

/// A run of schema 1 that hangs at these nodes.
fn stopped_at(seed: u64, nodes: &[&str]) -> StoredRunFixture {
    let fixture = StoredRunFixture::new(seed);
    fixture.nodes.hang(nodes);
    fixture.leave(fixture.run(&graph::<One>(), one()).schema(1));
    fixture.nodes.hang(&[]);
    fixture.nodes.starts.take();
    fixture
}

#[test]
fn c7_other_graph_shape_or_schema_is_rejected_with_both_named() {
    let fixture = stopped_at(1, &["m"]);
    let before = fixture.info("r");
    let rejected = |error: RunError<One>| match error.into_fault() {
        RunFault::Mismatch(error) => error,
        other => panic!("{other}"),
    };
    let error = rejected(fixture.end(fixture.resume(&graph::<One>(), |run| run).schema(2)).unwrap_err());
    assert_eq!((error.what, error.stored.as_str(), error.given.as_str()), ("schema", "1", "2"));
    let error = rejected(fixture.end(fixture.resume(&graph::<One>(), |run| run).schema(0)).unwrap_err());
    assert_eq!((error.what, error.stored.as_str(), error.given.as_str()), ("schema", "1", "0"));
    let shape = |name| Graph::<One>::new(name).add_node("m", step).add_edge("m", END).set_entry("m").compile().unwrap();
    let other = shape("essay");
    let error = rejected(fixture.end(fixture.resume(&other, |run| run).schema(1)).unwrap_err());
    assert_eq!(
        (error.what, error.stored.as_str(), error.given.as_str()),
        ("fingerprint", graph::<One>().fingerprint(), other.fingerprint())
    );
    // State migrations do not apply to the shape, and a graph of another name is never accepted.
    let migrations = migrations();
    let error = rejected(fixture.end(fixture.resume(&other, |run| run).schema(3).migrations(&migrations)).unwrap_err());
    assert_eq!(error.what, "fingerprint");
    let all = migrations.accept_compatible();
    let error = rejected(fixture.end(fixture.resume(&shape("poem"), |run| run).schema(1).migrations(&all)).unwrap_err());
    assert_eq!((error.what, error.stored.as_str(), error.given.as_str()), ("graph", "essay", "poem"));
    // The same for attach and fork.
    let attached = fixture.run(&graph::<One>(), one()).schema(2).attach();
    assert_eq!(rejected(fixture.end(attached).unwrap_err()).what, "schema");
    let forked = fixture.resume(&graph::<One>(), |run| run.fork_as("f")).schema(2);
    assert_eq!(rejected(fixture.end(forked).unwrap_err()).what, "schema");
    assert_eq!(fixture.info("r"), before);
}

#[test]
fn c7_migration_steps_compose_and_are_durable_before_anything_runs() {
    // In the fan-out with "b" done, between the two, in the map with stored items, and after it.
    for (hanging, starts) in [(&["c"][..], 5), (&["m"], 4), (&["item"], 3), (&["last"], 1)] {
        for seed in 0..5 {
            let fixture = stopped_at(seed, hanging);
            let (graph, done) = (graph::<Three>(), fixture.info("r"));
            fixture.nodes.hang(&["b", "c", "m", "item", "last"]);
            fixture.leave(fixture.resume(&graph, |run| run).schema(3).migrations(&migrations()));
            let info = fixture.info("r");
            assert_eq!(info.version, GraphVersion { fingerprint: graph.fingerprint().into(), schema: 3 });
            assert!(info.head > done.head);
            // From now on it is a run of schema 3 and needs no migration.
            fixture.nodes.hang(&[]);
            fixture.nodes.starts.take();
            let end = fixture.end(fixture.resume(&graph, |run| run).schema(3)).unwrap();
            assert_eq!((&end.names[..], end.steps), (&["x".to_string()][..], 5), "{hanging:?}, seed {seed}");
            // Steps before the migration do not count into the sum.
            assert_eq!(fixture.nodes.started().len(), starts, "{hanging:?}");
            assert!(end.sum >= 100 && end.sum < 150, "{end:?}");
        }
    }
}

#[test]
fn c7_fork_is_migrated_but_its_origin_is_not() {
    let fixture = stopped_at(1, &["item"]);
    let (info, rows) = (fixture.info("r"), fixture.rows("r"));
    let forked = fixture.resume(&graph::<Three>(), |run| run.fork_as("f")).schema(3).migrations(&migrations());
    assert_eq!(fixture.end(forked).unwrap().names, ["x"]);
    assert_eq!((fixture.info("r"), fixture.rows("r")), (info, rows));
    assert_eq!(fixture.info("f").version.schema, 3);
    assert_eq!(fixture.end(fixture.resume(&graph::<One>(), |run| run).schema(1)).unwrap().steps, 5);
}

#[test]
fn c7_failed_migration_names_the_record_and_changes_nothing() {
    quiet();
    let fixture = stopped_at(1, &["m"]);
    let (head, rows) = (fixture.info("r").head, fixture.rows("r"));
    let rejected = |migrations: Migrations| {
        let error = fixture.end(fixture.resume(&graph::<Three>(), |run| run).schema(3).migrations(&migrations)).unwrap_err();
        let info = fixture.info("r");
        assert_eq!((info.owner, info.version.schema), (None, 1), "{error}");
        assert_eq!(fixture.rows("r"), rows);
        error.into_fault()
    };
    let same = |state: Value| Ok::<_, Infallible>(state);
    let fault = rejected(Migrations::new().state(1, same));
    let RunFault::Resume(ResumeError::NoStep { from: 1, to: 3, missing: 2, .. }) = &fault else { panic!("{fault}") };
    let fault = rejected(Migrations::new().state(1, same).state(2, |_| Err("no way")));
    let RunFault::Resume(ResumeError::Migration { sequence, from: 2, .. }) = &fault else { panic!("{fault}") };
    assert!(*sequence == head && fault.to_string().contains("no way"), "{fault}");
    let fault = rejected(Migrations::new().state(1, same).state(2, |_| -> Result<Value, String> { panic!("{INJECTED}") }));
    assert!(matches!(&fault, RunFault::Resume(ResumeError::Migration { from: 2, .. })), "{fault}");
    // The result is not a state of this graph.
    let fault = rejected(Migrations::new().state(1, same).state(2, same));
    let RunFault::Checkpoint(error) = &fault else { panic!("{fault}") };
    assert_eq!(error.op, "decode");
    let valid = fixture
        .resume(&graph::<Three>(), |run| run.validate(|state: &Three| if state.sum == 100 { Err("100") } else { Ok(()) }));
    let error = fixture.end(valid.schema(3).migrations(&migrations())).unwrap_err();
    assert!(
        matches!(error.fault(), RunFault::Resume(ResumeError::Invalid { .. })),
        "validation follows the migration: {error}"
    );
    assert_eq!(fixture.rows("r"), rows);
}

/// `first` → `middle` (a subgraph) → `last`, with these names. `first` can be undone.
fn trip(first: &'static str, middle: &'static str, inside: &'static str, last: &'static str) -> CompiledGraph<Names> {
    let inner = Graph::new("inner")
        .add_node(inside, named("inside"))
        .add_node("more", named("more"))
        .add_edge(inside, "more")
        .add_edge("more", END)
        .set_entry(inside)
        .compile();
    let booking = |cx: NodeContext, names: Names| -> NodeFuture<Names> {
        Box::pin(async move {
            cx.record_undo("first".to_string());
            named("first")(cx, names).await
        })
    };
    let undo = |cx: NodeContext, what: String| async move {
        let stage = cx.extension::<NodeControl>().unwrap();
        stage.outside.push(format!("{what} {}", cx.idempotency_key()));
        Ok::<_, Infallible>(())
    };
    Graph::new("trip")
        .add_node(first, booking)
        .compensate(first, undo)
        .add_subgraph(middle, inner.unwrap(), Names::clone, |_, inner| inner)
        .add_node(last, named("last"))
        .add_edge(first, middle)
        .add_edge(middle, last)
        .add_edge(last, END)
        .set_entry(first)
        .compile()
        .unwrap()
}

#[test]
fn c7_renamed_nodes_are_found_in_subgraphs_and_by_their_undos() {
    let (old, new) = (trip("a", "m", "in", "z"), trip("z", "n", "inner", "a"));
    let renames =
        Migrations::new().rename_node("a", "z").rename_node("z", "a").rename_node("m", "n").rename_node("m/in", "n/inner");
    for (hangs, starts) in [("m/in", &["n/inner", "n/more", "a"][..]), ("m/more", &["n/more", "a"]), ("z", &["a"])] {
        let fixture = StoredRunFixture::new(1);
        fixture.nodes.hang(&[hangs]);
        fixture.leave(fixture.run(&old, vec![]));
        let first = fixture.nodes.starts.take();
        fixture.nodes.hang(&[]);
        fixture.nodes.fail(&["a"]);
        let error = fixture.end(fixture.resume(&new, |run| run).migrations(&renames)).unwrap_err();
        assert_eq!(error.compensation(), Some(&Compensation::Compensated { undone: vec!["z".into()] }), "{error}");
        assert_eq!(fixture.nodes.started(), starts);
        // The undo has the same key as without a migration.
        let undone = fixture.nodes.outside.take();
        fixture.nodes.fail(&["z"]);
        let twin = StoredRunFixture::new(1);
        twin.nodes.fail(&["z"]);
        twin.end(twin.run(&old, vec![])).unwrap_err();
        assert_eq!(undone, twin.nodes.outside.take());
        assert!(!first.is_empty());
    }
    // With a missing name nothing is changed.
    let fixture = StoredRunFixture::new(1);
    fixture.nodes.hang(&["m/in"]);
    fixture.leave(fixture.run(&old, vec![]));
    // The run is inside the subgraph `m`, whose new name is not given.
    let before = fixture.rows("r");
    let fewer = Migrations::new().rename_node("a", "z").rename_node("z", "a");
    let error = fixture.end(fixture.resume(&new, |run| run).migrations(&fewer)).unwrap_err();
    let RunFault::Mismatch(mismatch) = error.fault() else { panic!("{error}") };
    assert_eq!((mismatch.what, mismatch.stored.as_str()), ("node", "m"));
    assert_eq!((fixture.rows("r"), fixture.info("r").owner), (before, None));
}

#[test]
fn c7_changed_shape_is_accepted_if_all_current_nodes_still_fit() {
    let shape = |more: bool, heads: &[&'static str], in_branch: bool| {
        let graph = Graph::new("shape").add_node("a", named("a")).add_node("c", named("c")).add_node("d", named("d"));
        let graph = heads.iter().fold(graph, |graph, head| graph.add_node(*head, named(head)));
        let graph = match in_branch {
            true => graph.add_parallel_edge("a", [heads[0], "c"], "d", merge).add_edge(heads[0], "d").add_edge("c", "d"),
            false => {
                let graph = graph.add_parallel_edge("a", heads.to_vec(), "c", merge).add_edge("c", "d");
                heads.iter().fold(graph, |graph, head| graph.add_edge(*head, "c"))
            }
        };
        let graph =
            if more { graph.add_node("e", named("e")).add_edge("d", "e").add_edge("e", END) } else { graph.add_edge("d", END) };
        graph.set_entry("a").compile().unwrap()
    };
    let old = shape(false, &["b1", "b2", "b3"], false);
    let stopped_at = |node: &str| {
        let fixture = StoredRunFixture::new(1);
        fixture.nodes.hang(&[node]);
        fixture.leave(fixture.run(&old, vec![]));
        fixture.nodes.hang(&[]);
        fixture.nodes.starts.take();
        fixture
    };
    let accept = Migrations::new().accept_compatible();
    // A node was added at the end, and a branch after the started ones.
    let fixture = stopped_at("b2");
    let wider = shape(true, &["b1", "b2", "b3", "b4"], false);
    assert_eq!(
        fixture.end(fixture.resume(&wider, |run| run).migrations(&accept)).unwrap(),
        ["a", "b1", "b2", "b3", "b4", "c", "d", "e"]
    );
    assert_eq!(fixture.info("r").version.fingerprint, wider.fingerprint());
    // "b3" has arrived but no longer exists; "c" is inside a branch now.
    for (hangs, new) in [("b2", shape(false, &["b1", "b2"], false)), ("c", shape(false, &["b1"], true))] {
        let fixture = stopped_at(hangs);
        let error = fixture.end(fixture.resume(&new, |run| run).migrations(&accept)).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Mismatch(mismatch) if mismatch.what == "node"), "{hangs}: {error}");
        assert_eq!(fixture.info("r").version.fingerprint, old.fingerprint());
    }
    let fixture = stopped_at("d");
    let error = fixture.end(fixture.resume(&old, |run| run).schema(9).migrations(&accept)).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Mismatch(mismatch) if mismatch.what == "schema"), "{error}");
}

#[test]
fn c7_migrated_run_continues_its_undos() {
    let old = trip("a", "m", "in", "z");
    let (new, renames) = (trip("b", "m", "in", "z"), Migrations::new().rename_node("a", "b"));
    // The driver crashes after the failure was recorded, before the undos.
    let fixture = StoredRunFixture::new(1);
    fixture.nodes.fail(&["z"]);
    let store = crate::common::flaky_store::FlakyStore::new(fixture.store.clone());
    store.fail_at(6, crate::common::flaky_store::WriteFailure::Lost);
    let run = fixture.here(old.run(vec![]).id("r").checkpoint(&store));
    fixture.end(run).unwrap_err();
    assert_eq!(fixture.info("r").status, RunStatus::Running, "{:?}", fixture.history(&old, "r"));
    fixture.record("r", Kind::End, "z");
    fixture.nodes.outside.take();
    fixture.nodes.starts.take();
    let error = fixture.end(fixture.resume(&new, |run| run).migrations(&renames)).unwrap_err();
    assert_eq!(error.compensation(), Some(&Compensation::Compensated { undone: vec!["b".into()] }), "{error}");
    assert_eq!((fixture.info("r").status, fixture.nodes.started()), (RunStatus::Compensated, vec![]));
}

#[test]
fn c7_finished_run_returns_its_migrated_state() {
    let fixture = StoredRunFixture::new(1);
    fixture.end(fixture.run(&graph::<One>(), one()).schema(1)).unwrap();
    fixture.nodes.starts.take();
    let end = fixture.end(fixture.resume(&graph::<Three>(), |run| run).schema(3).migrations(&migrations())).unwrap();
    assert_eq!(end, Three { names: vec!["x".into()], steps: 5, sum: 100 });
    let info = fixture.info("r");
    assert_eq!((info.status, info.owner, info.version.schema), (RunStatus::Finished, None, 3));
    assert!(fixture.nodes.started().is_empty());
    assert_eq!(fixture.end(fixture.resume(&graph::<Three>(), |run| run).schema(3)).unwrap(), end);
}

#[test]
fn c7_states_inside_a_subgraph_have_separate_migrations() {
    fn nested<S: State>(inner: CompiledGraph<S>) -> CompiledGraph<u32> {
        Graph::new("nested")
            .add_subgraph(
                "sub",
                inner,
                |_: &u32| -> S { serde_json::from_value(json!({"name": "in", "steps": 0})).unwrap() },
                |n, inner: S| n + serde_json::to_value(inner).unwrap()["sum"].as_u64().unwrap_or(0) as u32,
            )
            .add_edge("sub", END)
            .set_entry("sub")
            .compile()
            .unwrap()
    }
    let fixture = StoredRunFixture::new(1);
    fixture.nodes.hang(&["sub/m"]);
    fixture.leave(fixture.run(&nested(graph::<One>()), 1).schema(1));
    fixture.nodes.hang(&[]);
    let steps = |migrations: Migrations| {
        let inside = |from, key: &'static str, value: Value| {
            move |mut state: Value| {
                let _ = from;
                state[key] = value.clone();
                state.as_object_mut().unwrap().remove("name");
                Ok::<_, Infallible>(state)
            }
        };
        migrations.state_inside("sub", 1, inside(1, "names", json!(["in"]))).state_inside(
            "sub",
            2,
            inside(2, "sum", json!(100)),
        )
    };
    let outer = Migrations::new().state(1, Ok::<_, Infallible>).state(2, Ok::<_, Infallible>);
    let end = fixture.end(fixture.resume(&nested(graph::<Three>()), |run| run).schema(3).migrations(&steps(outer))).unwrap();
    // "m", one item (the last) and "last" count into the sum.
    assert_eq!(end, 1 + 100 + 30);
}
