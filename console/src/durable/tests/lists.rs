//! The views `runs` and `run_groups`: pages without gaps and repeats, and counts that end.

use super::fixture::{Fixture, on_all_stores};
use super::graphs::{self, Done, Order};
use super::probe::Probe;
use pleach::store::{GraphVersion, Held, Lease, NewRun, Row, Tags, Wake, Wanted};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

on_all_stores!(
    k3_pages_list_every_run_once_while_runs_change,
    k3_filters_select_what_they_say,
    k3_counts_of_groups_end_at_1000,
);

fn ids(page: &Value) -> Vec<String> {
    page["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_string()).collect()
}

/// Creates a run with a first row, which no driver holds.
async fn create(fixture: &Fixture, id: &str, graph: &str, tags: &[(&str, &str)]) {
    let version = GraphVersion { fingerprint: "print".into(), schema: 0 };
    let mut known = Tags::default();
    for (key, value) in tags {
        known.set(*key, *value).unwrap();
    }
    let (id, graph, tags) = (id.to_string(), graph.to_string(), known);
    let new = NewRun { id, graph, version, instance: 1, from: None, lease: None, wake: Wake::Now, deadline: None, tags };
    fixture.store.create(new, vec![Row { sequence: 1, sum: 0, header: Vec::new(), body: Vec::new() }]).await.unwrap();
}

/// Makes a run stuck, as workers that die would.
async fn stick(fixture: &Fixture, id: &str) {
    loop {
        let lease = Lease { owner: "dies".into(), length: Duration::from_secs(60) };
        let Ok(claims) = fixture.store.claim(Wanted::One { run: id.into(), force: false }, lease).await else { return };
        let how = pleach::store::Release::Failed { reason: "no printer".into(), delay: Duration::ZERO };
        fixture.store.release(vec![Held::of(&claims[0].run)], how).await.unwrap();
    }
}

/// What happens between two pages.
#[derive(Clone, Debug)]
enum Change {
    Add,
    /// The run with this number becomes stuck.
    Stick(usize),
    Delete(usize),
}

fn changes() -> impl Strategy<Value = Vec<Vec<Change>>> {
    let change = prop_oneof![Just(Change::Add), (0..40_usize).prop_map(Change::Stick), (0..40_usize).prop_map(Change::Delete)];
    prop_oneof![Just(Vec::new()), prop::collection::vec(prop::collection::vec(change, 0..4), 12)]
}

/// Reads all pages, with changes between them. A run that was there all the time, with one of the
/// statuses, is listed exactly once; no run is listed twice.
async fn pages(fixture: &Fixture, statuses: &[&str], runs: usize, limit: u64, changes: &[Vec<Change>]) {
    let is_changed = !changes.is_empty();
    for number in 0..runs {
        create(fixture, &format!("run-{number:02}"), "count", &[]).await;
        if number % 3 == 0 {
            stick(fixture, &format!("run-{number:02}")).await;
        }
        // Only runs of one millisecond that change can be in doubt.
        if is_changed {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    let (mut seen, mut after, mut added) = (Vec::new(), Value::Null, 0);
    let mut kept: BTreeSet<String> = (0..runs).map(|number| format!("run-{number:02}")).collect();
    for number in 0.. {
        assert!(number < 200, "the pages do not end");
        let filters = json!({ "status": statuses });
        let page = fixture.view(json!({ "view": "runs", "filters": filters, "limit": limit, "after": after })).await;
        assert!(ids(&page).len() as u64 <= limit);
        seen.extend(ids(&page));
        after = page["next"].clone();
        if after.is_null() {
            break;
        }
        for change in changes.get(number).into_iter().flatten() {
            match change {
                Change::Add => {
                    added += 1;
                    create(fixture, &format!("added-{added}"), "count", &[]).await;
                }
                Change::Stick(number) if *number < runs && kept.contains(&format!("run-{number:02}")) => {
                    stick(fixture, &format!("run-{number:02}")).await;
                }
                Change::Delete(number) if kept.remove(&format!("run-{number:02}")) => {
                    fixture.store.delete(&format!("run-{number:02}")).await.unwrap();
                }
                _ => {}
            }
        }
    }
    let once: BTreeSet<&String> = seen.iter().collect();
    assert_eq!(once.len(), seen.len(), "a run is listed twice: {seen:?}");
    if statuses.is_empty() || statuses.len() > 1 {
        let missing: Vec<&String> = kept.iter().filter(|run| !once.contains(run)).collect();
        assert!(missing.is_empty(), "not listed: {missing:?} of {seen:?}");
    }
    let of_model: Vec<&String> = seen.iter().filter(|run| run.starts_with("run-")).collect();
    let is_ordered = is_changed || statuses.len() < 2;
    assert!(!is_ordered || of_model.windows(2).all(|pair| pair[0] > pair[1]), "the newest first: {seen:?}");
}

async fn k3_pages_list_every_run_once_while_runs_change(fixture: Fixture) {
    let all = ["running", "stuck", "waiting", "failed"];
    let moved = [vec![Change::Add, Change::Stick(1), Change::Stick(2)], vec![Change::Stick(10), Change::Delete(0)]];
    pages(&fixture, &all, 12, 5, &moved).await;
}

#[test]
fn k3_pages_agree_with_a_plain_list_property() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    proptest!(ProptestConfig::with_cases(120), |(
        changes in changes(),
        runs in 0..25_usize,
        limit in 1..9_u64,
        statuses in prop::sample::select(vec![vec![], vec!["running"], vec!["running", "stuck"], vec!["stuck", "running", "failed"]]),
    )| {
        runtime.block_on(async {
            let store = pleach::store::MemoryStore::on(pleach::runtime::TokioRuntime::current().unwrap());
            pages(&Fixture::of(&store), &statuses, runs, limit, &changes).await;
        });
    });
}

async fn k3_filters_select_what_they_say(fixture: Fixture) {
    for (id, graph, tags) in [
        ("a-1", "count", &[("customer", "ada")][..]),
        ("a-2", "count", &[("customer", "bob=x")]),
        ("b_%\\1", "other graph", &[("customer", "ada")]),
    ] {
        create(&fixture, id, graph, tags).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    stick(&fixture, "a-2").await;
    for (filters, expected) in [
        (json!({}), vec!["b_%\\1", "a-2", "a-1"]),
        (json!({ "id_prefix": "a-" }), vec!["a-2", "a-1"]),
        (json!({ "id_prefix": "%" }), vec![]),
        (json!({ "id_prefix": "b_%\\" }), vec!["b_%\\1"]),
        (json!({ "graph": "other graph" }), vec!["b_%\\1"]),
        (json!({ "tag": "customer=ada" }), vec!["b_%\\1", "a-1"]),
        (json!({ "tag": "customer=bob=x" }), vec!["a-2"]),
        (json!({ "tag": "customer=ada", "id_prefix": "a" }), vec!["a-1"]),
        (json!({ "status": ["stuck"] }), vec!["a-2"]),
        (json!({ "status": ["stuck", "running", "stuck"] }), vec!["b_%\\1", "a-2", "a-1"]),
        (json!({ "status": ["compensation_failed"] }), vec![]),
        (json!({ "failed": true }), vec![]),
        (json!({ "since": "1h" }), vec!["b_%\\1", "a-2", "a-1"]),
        (json!({ "before": "1h" }), vec![]),
        (json!({ "since": "2999-01-01T00:00:00Z" }), vec![]),
    ] {
        let page = fixture.view(json!({ "view": "runs", "filters": filters })).await;
        assert_eq!(ids(&page), expected, "{filters}");
    }
    for filters in [
        json!({ "status": ["broken"] }),
        json!({ "status": ["stuck"], "failed": true }),
        json!({ "tag": "customer" }),
        json!({ "since": "yesterday" }),
    ] {
        let failure = fixture.try_view(json!({ "view": "runs", "filters": filters })).await.unwrap_err();
        assert_eq!(failure.code, "bad_request", "{filters}: {failure}");
    }
    for after in ["", "x", "1-", "running:", "broken:1-2", "running:x", ",", "9".repeat(400).as_str()] {
        let failure = fixture.try_view(json!({ "view": "runs", "after": after })).await.unwrap_err();
        assert_eq!(failure.code, "bad_request", "{after:?}: {failure}");
    }
    let many = fixture.try_view(json!({ "view": "runs", "limit": 201 })).await.unwrap_err();
    assert_eq!(many.code, "bad_request");
}

async fn k3_counts_of_groups_end_at_1000(fixture: Fixture) {
    for number in 0..1_005 {
        create(&fixture, &format!("run-{number}"), if number < 3 { "rare" } else { "count" }, &[]).await;
    }
    let probe = Probe::new(Arc::clone(&fixture.store));
    let counted = Fixture::of(&probe).view(json!({ "view": "run_groups", "group_by": "graph" })).await;
    assert_eq!((&counted["counted"], &counted["is_cut"]), (&json!(1_000), &json!(true)));
    assert!(probe.taken().runs <= 1_000);
    let rare = fixture.view(json!({ "view": "run_groups", "group_by": "graph", "filters": { "graph": "rare" } })).await;
    assert_eq!((&rare["counted"], &rare["is_cut"], &rare["groups"][0]["name"]), (&json!(3), &json!(false), &json!("rare")));
    for wrong in [json!({ "group_by": "node" }), json!({ "group_by": "graph", "filters": { "status": ["failed", "stuck"] } })] {
        let mut asked = wrong.clone();
        asked["view"] = json!("run_groups");
        assert_eq!(fixture.try_view(asked).await.unwrap_err().code, "bad_request", "{wrong}");
    }
}

#[tokio::test]
async fn k3_runs_are_grouped_by_status_graph_and_first_line_of_the_error() {
    let fixture = Fixture::of(&pleach::store::MemoryStore::new());
    let broken = Arc::default();
    let graph = graphs::shipment(&Done::default(), &broken);
    for (id, reason) in [("a", "no truck\nid 1"), ("b", "no truck\nid 2"), ("c", "no ship")] {
        *broken.lock().unwrap() = Some(reason.to_string());
        graph.run(Order::to("Ghent")).id(id).checkpoint(&fixture.store).await.unwrap_err();
    }
    *broken.lock().unwrap() = None;
    graph.run(Order::to("Ghent")).id("d").checkpoint(&fixture.store).await.unwrap();
    let groups = async |by: &str| {
        let counted = fixture.view(json!({ "view": "run_groups", "group_by": by })).await;
        let pair = |group: &Value| format!("{} {}", group["runs"], group["name"].as_str().unwrap());
        counted["groups"].as_array().unwrap().iter().map(pair).collect::<Vec<_>>()
    };
    assert_eq!(groups("error").await, ["2 ship: no truck", "1 ship: no ship"]);
    assert_eq!(groups("status").await, ["3 failed", "1 finished"]);
    assert_eq!(groups("graph").await, ["4 shipment"]);
}
