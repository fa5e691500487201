//! The record of actions: complete, in order, and bounded.

use super::{carry_out, entries, planned, retry, runs, stop, writing};
use crate::action::Action;
use crate::orders::log::{ActionLog, Entry, Place};
use crate::orders::plans::Plans;
use crate::redact::Redaction;
use axum::http::StatusCode;
use serde_json::{Value, json};

fn entry(text: &str) -> Entry {
    let (text, word) = (|| text.to_string(), || "x".to_string());
    Entry {
        seq: 0,
        at: String::new(),
        who: word(),
        reason: text(),
        kind: word(),
        subject: Some(text()),
        source: word(),
        place: Place::default(),
        title: text(),
        outcome: word(),
        text: text(),
    }
}

#[test]
fn k4_record_of_actions_is_bounded_and_pages_follow_each_other() {
    let log = ActionLog::new(Redaction::new().into());
    for number in 1..=10_050 {
        log.add(entry(&number.to_string()));
    }
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = log.page(before, Some(200));
        let Some(last) = page.last() else { break };
        before = Some(last.seq);
        seen.extend(page.iter().map(|entry| entry.seq));
        // What is added meanwhile does not move the pages.
        if seen.len() == 200 {
            log.add(entry("new"));
        }
    }
    assert_eq!(seen, (52..=10_050).rev().collect::<Vec<u64>>());
    assert_eq!(log.page(Some(0), None).len(), 0);
    assert_eq!(log.page(None, None).len(), 50);
}

#[test]
fn k4_long_and_hostile_texts_take_a_bounded_amount_of_memory() {
    let log = ActionLog::new(Redaction::new().into());
    for text in ["x".repeat(4 << 20), "\u{1}".repeat(4 << 20), "é".repeat(2 << 20), "a\u{301}".repeat(1 << 20)] {
        log.add(entry(&text));
        let kept = serde_json::to_value(&log.page(None, Some(1))[0]).unwrap();
        for (field, value) in kept.as_object().unwrap() {
            assert!(value.as_str().is_none_or(|text| text.len() <= 9_000), "{field}");
        }
    }
}

#[test]
fn k4_entries_of_an_earlier_console_are_matched_by_their_place() {
    let log = ActionLog::new(Redaction::new().into());
    let place = |name: &str, target: Option<&str>| log.place(&json!({ "name": name, "target": target }));
    let entry = |key: &str, place: Place| {
        log.add(Entry { source: key.to_string(), place, ..entry("x") });
        serde_json::to_value(&log.page(None, Some(1))[0]).unwrap()
    };
    let old = entry("s0", place("runs.db", Some("/data/runs.db")));
    assert_eq!((&old["source_name"], &old["source_target"]), (&json!("runs.db"), &json!("/data/runs.db")));
    assert!(place("runs.db", Some("/data/runs.db")).has("s1", &old), "the keys were given anew");
    assert!(!place("runs.db", Some("/other/runs.db")).has("s0", &old), "another store has the key now");
    assert!(!place("runs.db", None).has("s0", &old));
    let inside = entry("s0", place("memory", None));
    assert!(place("memory", None).has("s0", &inside));
    assert!(!place("memory", None).has("s1", &inside) && !place("other", None).has("s0", &inside));
    let secret = entry("s0", place("shop", Some("postgres://ada:hunter2@db/shop?password=hunter2")));
    assert!(!secret.to_string().contains("hunter2"), "{secret}");
    // An entry in a file that has no place is about none.
    let bare: Entry = serde_json::from_value(json!({ "seq": 1, "at": "", "who": "", "reason": "", "kind": "", "subject": null,
        "source": "s0", "title": "", "outcome": "", "text": "" }))
    .unwrap();
    assert!(!place("shop", Some("/data")).has("s0", &serde_json::to_value(bare).unwrap()));
}

#[test]
fn k4_orders_without_a_plan_have_a_title() {
    for (action, title) in [
        (json!({ "kind": "retry", "store": "s0", "run": "order-7" }), "Retry run order-7"),
        (retry(), "Retry"),
        (stop(), "Stop /user/till"),
        (json!({ "kind": "log_level", "process": "p0", "level": "info" }), "Set the log level"),
    ] {
        assert_eq!(Action::parse(action).unwrap().title(), title);
    }
}

#[tokio::test(start_paused = true)]
async fn k4_every_refused_order_is_recorded_with_its_reason() {
    let server = writing();
    server.store.set(runs(30));
    let mut count = 0;
    let mut recorded = async |outcome: &str, contains: &str| {
        count += 1;
        let entries = entries(&server).await;
        assert_eq!(entries.len(), count, "{:?}", entries[0]);
        let said = entries[0]["text"].as_str().unwrap();
        assert!(said.contains(contains) && entries[0]["outcome"] == outcome, "{:?}", entries[0]);
    };
    let plan = planned(&server, &stop()).await;
    let mut other = stop();
    other["path"] = json!("/user/bank");
    assert_eq!(carry_out(&server, &other, &plan).await.0, StatusCode::BAD_REQUEST);
    recorded("failed", "another action").await;
    assert_eq!(carry_out(&server, &stop(), "none").await.0, StatusCode::CONFLICT);
    assert_eq!(entries(&server).await[0]["title"], "Stop /user/till");
    recorded("refused", "older than 10 minutes").await;
    for (change, contains) in [
        (json!({ "expected": 29 }), "30 runs were planned"),
        (json!({ "per_second": 0 }), "`per_second` is 1 to 100"),
        (json!({ "filters": { "failed": true } }), "other runs"),
        (json!({ "action": { "kind": "delete", "store": "s0" } }), "another action"),
        (json!({ "plan": null }), "the id of the plan is missing"),
    ] {
        let plan = server.ask("POST", "/api/bulk", json!({ "action": retry(), "is_plan": true })).await.1;
        let mut order = json!({ "action": retry(), "is_plan": false, "plan": plan["plan"], "expected": 30 });
        for (field, value) in change.as_object().unwrap() {
            order[field] = value.clone();
        }
        assert_eq!(server.ask("POST", "/api/bulk", order).await.0, StatusCode::BAD_REQUEST, "{change}");
        recorded("failed", contains).await;
    }
    assert!(server.store.carried.lock().unwrap().is_empty() && server.source.carried.lock().unwrap().is_empty());
    // What cannot be recorded is refused before.
    let long = "x".repeat(1_001);
    let order = json!({ "action": retry(), "is_plan": false, "plan": "x", "expected": 30, "reason": long });
    let (status, answer) = server.ask("POST", "/api/bulk", order).await;
    assert_eq!(
        (status, answer["error"]["text"].as_str()),
        (StatusCode::BAD_REQUEST, Some("the reason has at most 1000 characters"))
    );
}

#[tokio::test(start_paused = true)]
async fn k4_redacted_values_are_not_sent_to_many_runs() {
    let server = writing();
    server.store.set(runs(3));
    for value in ["\"[redacted]\"", "{\"a\":\"[redacted]\"}", r#""\u005bredacted]""#] {
        let action = json!({ "kind": "answer", "store": "s0", "key": "k", "value": value });
        let (status, answer) = server.ask("POST", "/api/bulk", json!({ "action": action, "is_plan": true })).await;
        assert_eq!((status, &answer["error"]["code"]), (StatusCode::BAD_REQUEST, &json!("redacted")));
    }
}

#[tokio::test(start_paused = true)]
async fn k4_plans_take_a_bounded_amount_of_memory() {
    let plans: Plans<Value> = Plans::new();
    let large: Vec<String> = (0..10).map(|_| plans.keep(Value::Null, 16 << 20).unwrap()).collect();
    let left: Vec<bool> = large.iter().map(|id| plans.take(Some(id)).is_ok()).collect();
    assert_eq!(left.iter().filter(|is_left| **is_left).count(), 4, "64 MiB");
    assert!(left[6..].iter().all(|is_left| *is_left), "the newest");
    assert!(plans.take(Some(&plans.keep(Value::Null, usize::MAX / 2).unwrap())).is_ok(), "one always fits");
    let many: Vec<String> = (0..201).map(|_| plans.keep(Value::Null, 1).unwrap()).collect();
    assert!(plans.take(Some(&many[0])).is_err() && plans.take(Some(&many[1])).is_ok());
}
