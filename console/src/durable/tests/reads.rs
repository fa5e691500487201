//! What views and examinations read, counted and not timed: it depends on the answer, never on the
//! length of a log or the number of runs.

use super::fixture::{AnyStore, Fixture};
use super::graphs::{self, Order};
use super::probe::{Probe, Reads};
use pleach::graph::END;
use pleach::prelude::{Graph, NodeContext};
use pleach::store::MemoryStore;
use serde_json::{Value, json};
use std::sync::Arc;

/// A store with a run of this many records, its state as large as the last argument says.
async fn with_log(records: u64, state: usize) -> (Fixture, Probe) {
    let store: AnyStore = Arc::new(MemoryStore::new());
    let step = |(left, text): (u64, String)| async move { Ok::<_, String>((left.saturating_sub(1), text)) };
    let graph = Graph::<(u64, String)>::new("long")
        .add_node("step", step)
        .add_node("wait", |cx: NodeContext, state: (u64, String)| async move {
            let _: String = cx.signal("end").await;
            Ok::<_, String>(state)
        })
        .add_conditional_edge("step", ["step", "wait"], |state: &(u64, String)| if state.0 > 0 { "step" } else { "wait" })
        .add_edge("wait", END)
        .set_entry("step")
        .compile()
        .unwrap();
    let run = graph.run((records, "x".repeat(state))).id("long").max_iterations(u64::MAX).keep_records(u64::MAX);
    run.checkpoint(&store).await.unwrap_err();
    let probe = Probe::new(store);
    (Fixture::of(&probe), probe)
}

async fn reads_of(records: u64, view: &Value) -> Reads {
    let (fixture, probe) = with_log(records, 2_000).await;
    fixture.view(view.clone()).await;
    assert_eq!(probe.written(), 0, "a view only reads");
    probe.taken()
}

#[tokio::test]
async fn k3_first_paint_of_a_run_reads_a_bounded_number_of_rows() {
    for view in [
        json!({ "view": "run", "run": "long" }),
        json!({ "view": "timeline", "run": "long" }),
        json!({ "view": "value", "run": "long" }),
    ] {
        let (few, many) = (reads_of(1_200, &view).await, reads_of(6_000, &view).await);
        assert_eq!(few, many, "{view}");
        assert!(many.bodies <= 20 && many.body_bytes < 100_000 && many.calls <= 30, "{view}: {many:?}");
    }
    // The drawing counts visits in the newest 1,000 records.
    let (few, many) = (
        reads_of(1_200, &json!({ "view": "graph", "run": "long" })).await,
        reads_of(6_000, &json!({ "view": "graph", "run": "long" })).await,
    );
    assert_eq!(few, many);
    assert!(many.headers <= 1_010 && many.bodies <= 10, "{many:?}");
}

#[tokio::test]
async fn k3_timeline_reads_headers_only_and_no_more_than_its_page() {
    let (fixture, probe) = with_log(3_000, 2_000).await;
    let head = fixture.head("long").await.head;
    for (asked, expected) in [
        (json!({ "limit": 500 }), (head - 499..=head).rev().collect::<Vec<_>>()),
        (json!({ "before": 101 }), (1..=100).rev().collect()),
        (json!({ "before": 1 }), vec![]),
        (json!({ "before": 0 }), vec![]),
        (json!({ "before": u64::MAX, "limit": 2 }), vec![head, head - 1]),
        (json!({ "from": 1_000, "limit": 3 }), vec![1_000, 1_001, 1_002]),
        (json!({ "from": head }), vec![head]),
        (json!({ "from": u64::MAX }), vec![]),
        (json!({ "from": 0, "limit": 2 }), vec![1, 2]),
    ] {
        probe.taken();
        let mut view = asked.clone();
        (view["view"], view["run"]) = (json!("timeline"), json!("long"));
        let page = fixture.view(view).await;
        let records: Vec<u64> = page["records"].as_array().unwrap().iter().map(|one| one["record"].as_u64().unwrap()).collect();
        assert_eq!(records, expected, "{asked}");
        let reads = probe.taken();
        assert!(reads.bodies == 0 && reads.headers <= expected.len() as u64 + 1, "{asked}: {reads:?}");
        let is_back = asked.get("from").is_none();
        let last = records.last().copied();
        let is_end = last.is_none_or(|last| if is_back { last == 1 } else { last == head });
        let next = if is_back { last } else { last.map(|last| last + 1) };
        assert_eq!(page["next"], json!(if is_end { None } else { next }), "{asked}");
    }
}

#[tokio::test]
async fn k3_examination_reads_one_page_of_each_status() {
    let store: AnyStore = Arc::new(MemoryStore::new());
    let graph = graphs::signal();
    let fill = async |from: usize, to: usize| {
        for number in from..to {
            graph.run(Order::to("Ghent")).id(format!("run-{number}")).checkpoint(&store).await.unwrap_err();
            graphs::count().run(1).id(format!("ended-{number}")).checkpoint(&store).await.unwrap();
        }
    };
    fill(0, 150).await;
    let probe = Probe::new(Arc::clone(&store));
    let fixture = Fixture::of(&probe);
    fixture.examine().await;
    let first = probe.taken();
    fixture.examine().await;
    fixture.examine().await;
    probe.taken();
    let (few, _) = (fixture.examine().await, ());
    assert!(few.problems.is_empty(), "{:?}", few.problems);
    let second = probe.taken();
    assert!(first.bodies > 0 && second.bodies == 0, "positions are read once: {first:?}, {second:?}");
    assert!(second.calls < 12, "{second:?}");
    assert_eq!(probe.written(), 0);
    // With many more runs, about the same.
    fill(150, 1_400).await;
    probe.taken();
    let many = fixture.examine().await;
    let third = probe.taken();
    assert!(third.calls < 700 && third.runs <= 2_300, "{third:?}");
    assert!(many.is_cut, "more runs wait than one page has");
}

#[tokio::test]
async fn k3_pages_of_waits_read_each_position_once() {
    let store: AnyStore = Arc::new(MemoryStore::new());
    for number in 0..120 {
        graphs::signal().run(Order::to("Ghent")).id(format!("run-{number}")).checkpoint(&store).await.unwrap_err();
    }
    let probe = Probe::new(store);
    let fixture = Fixture::of(&probe);
    let page = fixture.view(json!({ "view": "waiting", "limit": 100 })).await;
    assert_eq!(page["waits"].as_array().unwrap().len(), 100);
    let first = probe.taken();
    fixture.view(json!({ "view": "waiting", "limit": 100 })).await;
    let second = probe.taken();
    assert!(first.bodies >= 100 && second.bodies == 0 && second.calls <= 2, "{first:?}, {second:?}");
    let page = fixture.view(json!({ "view": "waiting", "limit": 100, "after": page["next"] })).await;
    assert_eq!((page["waits"].as_array().unwrap().len(), &page["next"]), (20, &Value::Null));
}
