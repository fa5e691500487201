//! O7: tags of runs: set at the start, changed by nodes together with their records, and copied by
//! a fork.
use crate::common::flaky_store::{FlakyStore, WriteFailure};
use pleach::durable::RunRemote;
use pleach::graph::{Policy, Retry, RunOptions};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::store::{Filter, Kind, MemoryStore, Parts, Rows, RunStatus, Store, TAGS_MAX, TagError};
use std::sync::{Arc, Mutex};

/// Each node sets the tag `step` to its name. The second fails once, and removes a tag.
fn steps() -> CompiledGraph<u32> {
    let step = |cx: NodeContext, n: u32| async move {
        cx.set_tag("step", &*cx.node())?;
        if &*cx.node() == "b" {
            cx.remove_tag("new");
            if cx.attempt() == 1 {
                return Err("the first attempt fails".into());
            }
        }
        assert_eq!(cx.tags().get("step"), Some(&*cx.node()), "a node sees its change");
        Ok::<_, pleach::BoxError>(n + 1)
    };
    let mut graph = Graph::new("steps").policy("b", Policy::new().retry(Retry::times(2)));
    for name in ["a", "b", "c"] {
        graph = graph.add_node(name, step);
    }
    graph.add_edge("a", "b").add_edge("b", "c").add_edge("c", END).set_entry("a").compile().unwrap()
}

async fn listed(store: &impl Store, key: &str, value: &str) -> Vec<String> {
    let page = store.list(vec![Filter::tag(key, value)], None, 100).await.unwrap();
    page.runs.into_iter().map(|run| run.id).collect()
}

#[test]
fn o7_tags_are_set_at_the_start_and_changed_by_nodes() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    sim.run(async {
        let run = || steps().run(0).runtime(sim.runtime()).checkpoint(&store).tag("customer", "42").tag("new", "yes");
        run().id("queued").enqueue().await.unwrap();
        assert_eq!(listed(&store, "new", "yes").await, ["queued"]);
        assert_eq!(run().id("direct").await.unwrap(), 3);
        assert_eq!(steps().resume("queued").checkpoint(&store).tag("ignored", "x").runtime(sim.runtime()).await.unwrap(), 3);
        assert_eq!(listed(&store, "customer", "42").await, ["direct", "queued"]);
        assert_eq!(listed(&store, "step", "c").await, ["direct", "queued"]);
        assert!(listed(&store, "new", "yes").await.is_empty() && listed(&store, "ignored", "x").await.is_empty());
        let view = RunRemote::new(&store, "direct").view().await.unwrap();
        assert_eq!(view.tags.to_string(), "customer=42 step=c");
    });
}

#[test]
fn o7_tag_changes_are_atomic_with_their_records_at_every_commit() {
    for fate in [WriteFailure::Lost, WriteFailure::Unanswered] {
        for write in 2.. {
            let sim = Sim::new(write);
            let store = FlakyStore::new(MemoryStore::on(sim.runtime()));
            store.fail_at(write, fate);
            let first =
                sim.run(steps().run(0).id("r").tag("new", "yes").runtime(sim.runtime()).checkpoint(&store).into_future());
            sim.run(async {
                let info = store.head("r").await.unwrap();
                let rows = store.read("r", Rows::Range(1..=info.head), Parts::Headers).await.unwrap();
                let mut headers = rows.iter().map(|row| row.open_header("r").unwrap());
                // The last record of a node, and the tag that this node set.
                let last = headers.rfind(|header| matches!(header.kind, Kind::Step | Kind::Attempt));
                assert_eq!(info.tags.get("step"), last.as_ref().map(|header| header.node.as_str()), "write {write}, {fate:?}");
                let is_removed = last.is_some_and(|header| header.node != "a");
                assert_eq!(info.tags.get("new").is_none(), is_removed, "write {write}, {fate:?}");
                for (key, value) in info.tags.iter() {
                    assert_eq!(listed(&store, key, value).await, ["r"]);
                }
            });
            if first.is_ok() {
                assert!(write > 5, "every commit failed once");
                break;
            }
            let resumed = steps().resume("r").checkpoint(&store).runtime(sim.runtime());
            assert_eq!(sim.run(resumed.into_future()).unwrap(), 3);
            assert_eq!(sim.run(store.head("r")).unwrap().tags.to_string(), "step=c");
        }
    }
}

#[test]
fn o7_invalid_tags_start_no_run() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    sim.run(async {
        let run = || steps().run(7).id("r").runtime(sim.runtime());
        let many = |run: RunOptions<'static, u32>| (0..=TAGS_MAX).fold(run, |run, number| run.tag(number.to_string(), "v"));
        let full = many(run().checkpoint(&store)).await.unwrap_err();
        assert!(matches!(full.fault(), RunFault::Tag(TagError::Full { limit: TAGS_MAX, .. })), "{full}");
        let queued = run().checkpoint(&store).tag("k", "v".repeat(999)).enqueue().await.unwrap_err();
        assert!(matches!(queued.fault(), RunFault::Tag(TagError::Value { size: 999, .. })), "{queued}");
        assert_eq!(queued.into_state(), Some(7), "the state is returned");
        let in_memory = run().tag("", "v").await.unwrap_err();
        assert!(in_memory.to_string().contains("it is empty"), "{in_memory}");
        assert!(store.list(vec![], None, 9).await.unwrap().runs.is_empty());
    });
}

#[test]
fn o7_rejected_tag_changes_nothing() {
    let node = |cx: NodeContext, n: u32| async move {
        cx.set_tag("good", "1")?;
        assert!(matches!(cx.set_tag("good", "\0"), Err(TagError::Value { .. })));
        assert!(matches!(cx.set_tag("k".repeat(65), "v"), Err(TagError::Key { .. })));
        cx.remove_tag("unknown");
        Ok::<_, pleach::BoxError>(n)
    };
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    sim.run(crate::one(node, Policy::new()).run(1).id("r").runtime(sim.runtime()).checkpoint(&store).into_future()).unwrap();
    assert_eq!(sim.run(store.head("r")).unwrap().tags.to_string(), "good=1");
}

#[test]
fn o7_fork_copies_the_tags_and_adds_its_own() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    sim.run(async {
        steps()
            .run(0)
            .id("r")
            .tag("customer", "42")
            .tag("owner", "ann")
            .runtime(sim.runtime())
            .checkpoint(&store)
            .await
            .unwrap();
        let fork = steps().resume("r").rewind_to(1).fork_as("fork").checkpoint(&store).tag("owner", "bob").tag("fork", "yes");
        fork.runtime(sim.runtime()).await.unwrap();
        let tags = async |run: &str| store.head(run).await.unwrap().tags.to_string();
        assert_eq!(tags("fork").await, "customer=42 fork=yes owner=bob step=c");
        assert_eq!(tags("r").await, "customer=42 owner=ann step=c", "the original is unchanged");
        assert_eq!(store.head("r").await.unwrap().status, RunStatus::Finished);
    });
}

#[test]
fn o7_abandoned_attempt_changes_no_tag() {
    let first: Arc<Mutex<Option<NodeContext>>> = Arc::default();
    let kept = Arc::clone(&first);
    let node = move |cx: NodeContext, n: u32| {
        let kept = Arc::clone(&kept);
        async move {
            if cx.attempt() == 1 {
                *kept.lock().unwrap() = Some(cx);
                return Err("again".to_string());
            }
            let abandoned = kept.lock().unwrap().take().unwrap();
            abandoned.set_tag("late", "x").unwrap();
            Ok(n)
        }
    };
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let graph = crate::one(node, Policy::new().retry(Retry::times(2)));
    sim.run(graph.run(1).id("r").runtime(sim.runtime()).checkpoint(&store).into_future()).unwrap();
    assert!(sim.run(store.head("r")).unwrap().tags.is_empty());
}
