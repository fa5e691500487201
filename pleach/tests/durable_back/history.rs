//! C5: the checkpoints of a run are listed in pages and read with their states, in memory and on a
//! file.
use crate::common::stored::{Names, NodeFuture, StoredRunFixture, merge, named};
use pleach::durable::Checkpoint;
use pleach::graph::{Policy, Retry};
use pleach::prelude::*;
use pleach::store::{Kind, Place, StoreError};

/// a → (b, sub) → c; `b` needs two attempts and has an effect.
fn graph() -> CompiledGraph<Names> {
    let inner = Graph::<u32>::new("inner")
        .add_node("in", |n: u32| async move { Ok::<_, String>(n + 1) })
        .add_edge("in", END)
        .set_entry("in")
        .compile()
        .unwrap();
    let b = |cx: NodeContext, names: Names| -> NodeFuture<Names> {
        Box::pin(async move {
            cx.effect("noted", |_| async { Ok::<_, String>(1) }).await?;
            if cx.attempt() == 1 { Err("not yet".into()) } else { named("b")(cx, names).await }
        })
    };
    Graph::new("history")
        .add_node("a", named("a"))
        .add_node("b", b)
        .policy("b", Policy::new().retry(Retry::times(2)))
        .add_subgraph(
            "sub",
            inner,
            |names: &Names| names.len() as u32,
            |mut names: Names, n| {
                names.push(n.to_string());
                names
            },
        )
        .add_node("c", named("c"))
        .add_parallel_edge("a", ["b", "sub"], "c", merge)
        .add_edge("b", "c")
        .add_edge("sub", "c")
        .add_edge("c", END)
        .set_entry("a")
        .compile()
        .unwrap()
}

#[test]
fn c5_history_lists_all_checkpoints_with_details_in_pages() {
    let (fixture, graph) = (StoredRunFixture::new(1), graph());
    fixture.end(fixture.run(&graph, vec![])).unwrap();
    let all = fixture.history(&graph, "r");
    let of =
        |kind, node: &str| all.iter().find(|one| one.kind == kind && one.node == node).unwrap_or_else(|| panic!("{all:?}"));
    assert_eq!(all.iter().map(|one| one.sequence).collect::<Vec<_>>(), (1..=all.len() as u64).collect::<Vec<_>>());
    assert_eq!((all[0].kind, &all[0].next, all[0].visits), (Kind::Start, &Some(Place::Node("a".into())), 0));
    let step = of(Kind::Step, "a");
    assert_eq!((step.sequence, step.visits, step.attempt, step.parent, step.epoch), (2, 1, 1, 1, 1));
    assert_eq!((&step.next, step.path.len(), step.part_of), (&Some(Place::Fork("a".into())), 0, None));
    let attempt = of(Kind::Attempt, "b");
    assert_eq!((attempt.attempt, &attempt.next, attempt.path[0].sequence), (1, &None, 2));
    assert_eq!((of(Kind::Arrive, "b").attempt, of(Kind::Step, "sub/in").path.len()), (2, 2));
    assert!(of(Kind::Step, "c").at >= step.at);
    // The same in pages of any size.
    let history = graph.history("r", &fixture.store);
    for count in [1, 3, 100] {
        let (mut next, mut seen): (_, Vec<Checkpoint>) = (Some(1), Vec::new());
        while let Some(first) = next {
            let page = fixture.sim.run(async { history.page(first, count).await }).unwrap();
            assert!(page.checkpoints.len() <= count && !page.checkpoints.is_empty());
            seen.extend(page.checkpoints);
            next = page.next;
        }
        assert_eq!(seen, all);
    }
    let beyond = fixture.sim.run(async { history.page(1_000, 10).await }).unwrap();
    assert_eq!((beyond.checkpoints.len(), beyond.next), (0, None));
    let nothing = fixture.sim.run(async { history.page(2, 0).await }).unwrap();
    assert_eq!((nothing.checkpoints.len(), nothing.next), (0, Some(2)));
    let unknown = fixture.sim.run(async { graph.history("missing", &fixture.store).page(1, 10).await });
    assert!(matches!(unknown, Err(StoreError::RunNotFound { .. })));
    // The records of one rewind belong together.
    let to = of(Kind::Arrive, "b").sequence;
    fixture.end(fixture.resume(&graph, |run| run.rewind_to(to))).unwrap();
    let after = fixture.history(&graph, "r");
    let rewound: Vec<&Checkpoint> = after.iter().filter(|one| one.kind == Kind::Rewind).collect();
    assert!(rewound.len() >= 2 && rewound.iter().all(|one| one.parent == to), "{rewound:?}");
    assert_eq!(rewound[0].part_of, rewound.last().map(|last| last.sequence));
    assert_eq!((rewound.last().unwrap().part_of, rewound[0].epoch), (None, 2));
}

#[test]
fn c5_state_of_each_checkpoint_can_be_read() {
    let (fixture, graph) = (StoredRunFixture::new(1), graph());
    fixture.nodes.fail(&["c"]);
    fixture.end(fixture.run(&graph, vec!["first".into()])).unwrap_err();
    let history = graph.history("r", &fixture.store);
    let state = |sequence| fixture.sim.run(async { history.state(sequence).await });
    let of = |kind, node: &str| fixture.record("r", kind, node);
    assert_eq!(state(1).unwrap(), ["first"]);
    assert_eq!(state(of(Kind::Step, "a")).unwrap(), ["first", "a"]);
    assert_eq!(state(of(Kind::Arrive, "b")).unwrap(), ["first", "a", "b"]);
    assert_eq!(state(of(Kind::Join, "a")).unwrap(), ["first", "a", "b", "3"]);
    // A record inside a node and the failure of the run have the input state of the node.
    assert_eq!(state(of(Kind::Effect, "b")).unwrap(), ["first", "a"]);
    assert_eq!(state(of(Kind::Attempt, "b")).unwrap(), ["first", "a"]);
    assert_eq!(state(of(Kind::End, "c")).unwrap(), ["first", "a", "b", "3"]);
    let error = state(of(Kind::Step, "sub/in")).unwrap_err();
    assert!(
        matches!(&error, RunFault::Checkpoint(error) if error.op == "decode" && error.to_string().contains("\"sub\"")),
        "{error}"
    );
    for missing in [0, 1_000] {
        let error = state(missing).unwrap_err();
        let RunFault::Checkpoint(checkpoint) = &error else { panic!("{error}") };
        assert!(matches!(checkpoint.store_error(), Some(StoreError::NoSuchRow { .. })), "{error}");
    }
}

#[cfg(all(feature = "sqlite", feature = "tokio"))]
mod on_a_file {
    use super::*;
    use crate::common::stored::NodeControl;
    use pleach::durable::Migrations;
    use pleach::runtime::TokioRuntime;
    use pleach::store::{RunStatus, SqliteStore, Store};
    use std::convert::Infallible;
    use std::sync::Arc;

    #[tokio::test]
    async fn c5_c7_c14_run_on_a_file_is_rewound_forked_migrated_and_attached() {
        let path = std::env::temp_dir().join(format!("pleach-history-{}.db", std::process::id()));
        let store = SqliteStore::open(&path).await.unwrap();
        let (graph, stage) = (graph(), NodeControl::default());
        let runtime: Arc<dyn pleach::runtime::Runtime> = TokioRuntime::current().unwrap();
        let here =
            |run: pleach::graph::RunOptions<'static, Names>| run.extension(stage.clone()).extension(Arc::clone(&runtime));
        let end = here(graph.run(vec![]).id("r").checkpoint(&store)).await.unwrap();
        assert_eq!(end, ["a", "b", "2", "c"]);
        stage.started();
        let history = graph.history("r", &store);
        let page = history.page(1, 100).await.unwrap();
        let arrived = page.checkpoints.iter().find(|one| one.kind == Kind::Arrive && one.node == "b").unwrap().sequence;
        // Rewind to every record, and fork from every record.
        for to in 1..page.checkpoints.len() as u64 {
            assert_eq!(here(graph.resume("r").rewind_to(to).checkpoint(&store)).await.unwrap(), end, "{to}");
            let fork = here(graph.resume("r").rewind_to(to).fork_as(format!("fork {to}")).checkpoint(&store));
            assert_eq!(fork.await.unwrap(), end, "{to}");
        }
        stage.started();
        here(graph.resume("r").rewind_to(arrived).checkpoint(&store)).await.unwrap();
        assert!(!stage.started().contains(&"b".to_string()));
        let error = here(graph.resume("r").rewind_to(10_000).checkpoint(&store)).await.unwrap_err();
        assert!(error.to_string().contains("10000"), "{error}");
        // With another schema and a newly opened file, as in another process.
        drop((history, store));
        let store = SqliteStore::open(&path).await.unwrap();
        let migrate = |state: serde_json::Value| Ok::<_, Infallible>(serde_json::json!([state[0], "migrated"]));
        let migrations = Migrations::new().state(0, migrate);
        let migrated =
            graph.run(vec!["not this".into()]).id("fork 2").checkpoint(&store).attach().schema(1).migrations(&migrations);
        assert_eq!(here(migrated).await.unwrap(), ["a", "migrated"]);
        let info = store.head("fork 2").await.unwrap();
        assert_eq!((info.version.schema, info.status, info.owner), (1, RunStatus::Finished, None));
        let error = here(graph.run(vec![]).id("fork 2").checkpoint(&store)).await.unwrap_err();
        assert!(matches!(error.fault(), RunFault::Exists { .. }), "{error}");
        drop(store);
        for end in ["", "-wal", "-shm"] {
            drop(std::fs::remove_file(format!("{}{end}", path.display())));
        }
    }
}
