//! Answers stay below the limit of an answer, whatever a program stores.

use super::fixture::{Fixture, on_all_stores};
use super::graphs::{self, Done, Order};
use crate::home;
use crate::server::answer::ANSWER_MAX;
use crate::sources::Sources;
use pleach::graph::{END, FanOut};
use pleach::prelude::{CompiledGraph, Graph, NodeContext};
use pleach::store::MemoryStore;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

on_all_stores!(k3_failures_with_long_reasons_fit_into_answers, k3_large_questions_make_shorter_pages);

/// Every character is six bytes of JSON, and takes no column.
const COSTLY: &str = "\u{1}";

fn fits(answer: &Value) {
    let bytes = answer.to_string().len();
    assert!(bytes <= ANSWER_MAX, "{bytes} bytes: {:.300}", answer.to_string());
}

fn failing(reason: &str) -> CompiledGraph<Order> {
    graphs::shipment(&Done::default(), &Arc::new(Mutex::new(Some(reason.to_string()))))
}

async fn k3_failures_with_long_reasons_fit_into_answers(fixture: Fixture) {
    let reason = format!("no truck {}", COSTLY.repeat(300_000));
    let graph = failing(&reason);
    graph.run(Order::to("Ghent")).id("one").checkpoint(&fixture.store).await.unwrap_err();
    for _ in 0..12 {
        fixture.remote("one").retry().await.unwrap();
        graph.resume("one").checkpoint(&fixture.store).await.unwrap_err();
    }
    for number in 0..40 {
        let reason = format!("no truck {number} {}", COSTLY.repeat(5_000));
        let graph = failing(&reason);
        graph.run(Order::to("Ghent")).id(format!("run-{number}")).checkpoint(&fixture.store).await.unwrap_err();
    }
    fits(&fixture.view(json!({ "view": "run", "run": "one" })).await);
    fits(&fixture.view(json!({ "view": "graph", "run": "one" })).await);
    for by in ["error", "status"] {
        fits(&fixture.view(json!({ "view": "run_groups", "group_by": by })).await);
    }
    // All records and runs are reached, in shorter pages.
    let mut records = Vec::new();
    let mut before = Value::Null;
    loop {
        let page = fixture.view(json!({ "view": "timeline", "run": "one", "limit": 500, "before": before })).await;
        fits(&page);
        records.extend(page["records"].as_array().unwrap().iter().map(|record| record["record"].as_u64().unwrap()));
        before = page["next"].clone();
        if before.is_null() {
            break;
        }
    }
    let head = fixture.head("one").await.head;
    let oldest = fixture.head("one").await.oldest.max(1);
    assert_eq!(records, (oldest..=head).rev().collect::<Vec<_>>());
    let (mut runs, mut after, mut pages) = (0, Value::Null, 0);
    loop {
        let page = fixture.view(json!({ "view": "runs", "limit": 200, "after": after })).await;
        fits(&page);
        (runs, pages) = (runs + page["runs"].as_array().unwrap().len(), pages + 1);
        after = page["next"].clone();
        if after.is_null() {
            break;
        }
    }
    assert_eq!(runs, 41);
    assert!(pages > 1, "the runs of this test need several pages");
}

/// Asks many large questions at once, in branches.
fn questions() -> CompiledGraph<u64> {
    let ask = |cx: NodeContext, branch: u64| async move {
        let question = json!({ "text": COSTLY.repeat(1_000), "schema": { "title": "x".repeat(6_000) } });
        let _: bool = cx.interrupt(format!("question {branch}"), &question).await;
        Ok::<_, String>(branch)
    };
    Graph::new("questions")
        .add_node("begin", |count: u64| async move { Ok::<_, String>(count) })
        .add_node("ask", ask)
        .map("begin", |count: &u64| (0..*count).collect(), "ask", END, FanOut::merge(|before: u64, _: Vec<u64>| before))
        .add_edge("ask", END)
        .set_entry("begin")
        .compile()
        .unwrap()
}

async fn k3_large_questions_make_shorter_pages(fixture: Fixture) {
    let graph = questions();
    for number in 0..12 {
        graph.run(25).id(format!("run-{number}")).checkpoint(&fixture.store).await.unwrap_err();
    }
    graph.run(150).id("wide").checkpoint(&fixture.store).await.unwrap_err();
    let (mut seen, mut after) = (Vec::new(), Value::Null);
    loop {
        let page = fixture.view(json!({ "view": "waiting", "limit": 100, "after": after })).await;
        fits(&page);
        let mut runs: Vec<String> = page["waits"].as_array().unwrap().iter().map(|wait| wait["run"].to_string()).collect();
        runs.dedup();
        seen.extend(runs);
        after = page["next"].clone();
        if after.is_null() {
            break;
        }
    }
    assert_eq!(seen.len(), 13, "{seen:?}");
    let view = fixture.view(json!({ "view": "run", "run": "wide" })).await;
    fits(&view);
    let tokens = view["show"]["tokens"].as_array().unwrap().len();
    assert_eq!((tokens, &view["tokens_left_out"]), (100, &json!(51)), "the run and 150 branches");
    let plan =
        fixture.plan(json!({ "kind": "fork", "run": "wide", "record": fixture.head("wide").await.head, "new": "w2" })).await;
    assert!(
        plan.will[1].contains("ask (150 times)") || plan.will.iter().any(|will| will.contains("150 times")),
        "{:?}",
        plan.will
    );
    fits(&serde_json::to_value(&plan).unwrap());
}

#[tokio::test]
async fn k5_differences_of_wide_and_deep_values_fit_into_answers() {
    let fixture = Fixture::of(&MemoryStore::new());
    let graph = Graph::<Value>::new("any").add_node("n", |value: Value| async move { Ok::<_, String>(value) });
    let graph = graph.add_edge("n", END).set_entry("n").compile().unwrap();
    let long_key = "k".repeat(40_000);
    let numbers = |add: u64| (0..15_000_u64).map(|number| number + add).collect::<Vec<_>>();
    let nested = |value: u64| (0..100).fold(json!(value), |inner, _| json!([inner, inner.is_null()]));
    for (id, before, after) in [
        ("numbers", json!(numbers(0)), json!(numbers(1))),
        ("keys", json!({ long_key.clone(): { "a": vec![1; 600] } }), json!({ long_key.clone(): { "a": vec![2; 600] } })),
        ("nested", nested(1), nested(2)),
    ] {
        graph.run(before).id(id).checkpoint(&fixture.store).await.unwrap();
        let fork = json!({ "kind": "fork", "run": id, "record": 1, "new": format!("{id}-2"), "state": after.to_string() });
        let plan = fixture.plan(fork.clone()).await;
        fits(&serde_json::to_value(&plan).unwrap());
        fixture.act(fork, &plan).await.unwrap();
        let diff = fixture.view(json!({ "view": "diff", "run": id, "from": 1, "to": 1, "other_run": format!("{id}-2") })).await;
        fits(&diff);
        for run in [id.to_string(), format!("{id}-2")] {
            fits(&fixture.view(json!({ "view": "value", "run": run })).await);
            fits(&fixture.view(json!({ "view": "run", "run": run })).await);
        }
    }
}

#[tokio::test]
async fn k4_plan_of_a_run_with_many_effects_fits_into_an_answer() {
    let fixture = Fixture::of(&MemoryStore::new());
    let work = |cx: NodeContext, count: u64| async move {
        for number in 0..2_000 {
            cx.effect(format!("effect {number} {}", "x".repeat(400)), |_key| async { Ok::<_, String>(1) })
                .await
                .map_err(|error| error.to_string())?;
        }
        Ok::<_, String>(count)
    };
    let graph = Graph::<u64>::new("effects").add_node("work", work).add_edge("work", END).set_entry("work").compile().unwrap();
    graph.run(1).id("e").checkpoint(&fixture.store).await.unwrap();
    let plan = fixture.plan(json!({ "kind": "rewind", "run": "e", "record": 1 })).await;
    fits(&serde_json::to_value(&plan).unwrap());
    let preview = plan.preview.unwrap();
    assert_eq!((preview["effects_again"].as_array().unwrap().len(), &preview["is_cut"]), (100, &json!(true)));
    assert!(plan.will.contains(&"the same for 1990 more: runs again".to_string()), "{:?}", plan.will);
}

#[tokio::test]
async fn k3_home_of_many_stores_with_long_reasons_fits_into_an_answer() {
    let mut sources = Sources::default();
    for _ in 0..4 {
        let fixture = Fixture::of(&MemoryStore::new());
        for number in 0..30 {
            let graph = failing(&format!("{number} {}", COSTLY.repeat(5_000)));
            graph.run(Order::to("Ghent")).id(format!("run-{number}")).checkpoint(&fixture.store).await.unwrap_err();
        }
        sources.stores.push(Arc::new(fixture.into_source()));
    }
    let home = home::look(&sources).await.unwrap();
    fits(&home);
    let listed = home["problems"].as_array().unwrap().len();
    assert!((30..=80).contains(&listed) && home["is_cut"] == true, "{listed}: at most 20 of each kind and store");
}
