//! Tests of plans, actions, bulk actions and their record.

mod bulk;
mod file;
mod record;

use crate::action::{Action, Plan, RunOrder};
use crate::failure::Failure;
use crate::orders::RecordFile;
use crate::settings::Settings;
use crate::testing::Server;
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, sleep};

pub(super) fn writing() -> Server {
    let server = Server::with(Settings { allows_actions: true, user: "ada".to_string(), ..Settings::default() });
    *server.store.plan.lock().unwrap() = Some(plan());
    *server.source.plan.lock().unwrap() = Some(plan());
    server
}

pub(super) fn plan() -> Plan {
    Plan {
        title: "Do it".to_string(),
        will: vec!["effect charge of pay runs again".to_string()],
        preview: None,
        refusal: None,
        is_destructive: true,
        command: Some("pleach do it --password hunter2".to_string()),
        guard: "record 7".to_string(),
        found: None,
    }
}

pub(super) fn stop() -> Value {
    json!({ "kind": "stop", "process": "p0", "path": "/user/till", "member_id": 4 })
}

pub(super) async fn planned(server: &Server, action: &Value) -> String {
    let (status, plan) = server.ask("POST", "/api/act", json!({ "action": action, "is_plan": true })).await;
    assert_eq!(status, StatusCode::OK, "{plan}");
    plan["plan"].as_str().unwrap().to_string()
}

pub(super) async fn carry_out(server: &Server, action: &Value, plan: &str) -> (StatusCode, Value) {
    let order = json!({ "action": action, "is_plan": false, "reason": "it hangs, token=abc", "plan": plan });
    server.ask("POST", "/api/act", order).await
}

pub(super) async fn entries(server: &Server) -> Vec<Value> {
    let (status, page) = server.ask("POST", "/api/view", json!({ "view": "actions" })).await;
    assert_eq!(status, StatusCode::OK);
    page["entries"].as_array().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn k4_an_action_is_planned_carried_out_once_and_recorded() {
    let server = writing();
    let (_, answer) = server.ask("POST", "/api/act", json!({ "action": stop(), "is_plan": true })).await;
    assert_eq!((&answer["will"], &answer["is_allowed"]), (&json!(["effect charge of pay runs again"]), &json!(true)));
    assert_eq!(
        (&answer["command"], answer.get("guard")),
        (&Value::Null, None),
        "a command with a mark would do something else"
    );
    assert!(server.source.carried.lock().unwrap().is_empty(), "a plan does nothing");
    let plan = answer["plan"].as_str().unwrap();
    let (status, outcome) = carry_out(&server, &stop(), plan).await;
    assert_eq!((status, &outcome["outcome"], &outcome["text"]), (StatusCode::OK, &json!("done"), &json!("it was done")));
    assert_eq!(*server.source.carried.lock().unwrap(), [(Action::parse(stop()).unwrap(), "record 7".to_string())]);
    // Not a second time.
    let (status, refused) = carry_out(&server, &stop(), plan).await;
    assert_eq!((status, &refused["error"]["code"]), (StatusCode::CONFLICT, &json!("used")));
    assert_eq!(refused["error"]["text"], "this plan was carried out already; see the record of actions");
    assert_eq!(server.source.carried.lock().unwrap().len(), 1);
    let entries = entries(&server).await;
    assert_eq!(entries.len(), 2, "the refusal is recorded too");
    let done = &entries[1];
    for (field, expected) in [
        ("who", "ada"),
        ("reason", "it hangs, token=[redacted]"),
        ("kind", "stop"),
        ("subject", "/user/till"),
        ("source", "p0"),
        ("source_name", "scripted"),
        ("outcome", "done"),
        ("text", "it was done"),
        ("title", "Do it"),
    ] {
        assert_eq!(done[field], expected, "{field}");
    }
    assert_eq!((&entries[0]["outcome"], &entries[0]["seq"]), (&json!("refused"), &json!(2)));
}

#[tokio::test(start_paused = true)]
async fn k4_a_read_only_console_plans_and_carries_out_nothing() {
    let server = Server::new();
    *server.source.plan.lock().unwrap() = Some(plan());
    let (status, answer) = server.ask("POST", "/api/act", json!({ "action": stop(), "is_plan": true })).await;
    assert_eq!((status, &answer["is_allowed"]), (StatusCode::OK, &json!(false)));
    let (status, refused) = carry_out(&server, &stop(), answer["plan"].as_str().unwrap()).await;
    assert_eq!((status, &refused["error"]["code"]), (StatusCode::FORBIDDEN, &json!("read_only")));
    let bulk = json!({ "action": { "kind": "retry", "store": "s0" }, "is_plan": false, "plan": "x", "expected": 1 });
    let (status, refused) = server.ask("POST", "/api/bulk", bulk).await;
    assert_eq!((status, &refused["error"]["code"]), (StatusCode::FORBIDDEN, &json!("read_only")));
    assert!(server.source.carried.lock().unwrap().is_empty() && server.store.carried.lock().unwrap().is_empty());
    assert_eq!(entries(&server).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn k4_only_what_was_planned_is_carried_out_and_not_late() {
    let server = writing();
    let plan = planned(&server, &stop()).await;
    let mut other = stop();
    other["path"] = json!("/user/bank");
    assert_eq!(carry_out(&server, &other, &plan).await.0, StatusCode::BAD_REQUEST);
    let plan = planned(&server, &stop()).await;
    sleep(Duration::from_secs(601)).await;
    assert_eq!(carry_out(&server, &stop(), &plan).await.1["error"]["code"], "changed");
    let unplanned = json!({ "action": stop(), "is_plan": false });
    assert_eq!(server.ask("POST", "/api/act", unplanned).await.0, StatusCode::BAD_REQUEST);
    assert!(server.source.carried.lock().unwrap().is_empty());
    // The source sees that its member is another one.
    *server.source.refuses.lock().unwrap() = Some(Failure::new("changed", "the member has another id"));
    let plan = planned(&server, &stop()).await;
    assert_eq!(carry_out(&server, &stop(), &plan).await.0, StatusCode::CONFLICT);
    assert_eq!(entries(&server).await[0]["text"], "the member has another id");
}

#[tokio::test(start_paused = true)]
async fn k4_what_was_begun_is_recorded_although_the_browser_left() {
    let server = writing();
    *server.source.delay.lock().unwrap() = Duration::from_secs(5);
    let plan = planned(&server, &stop()).await;
    let action = stop();
    let asked = carry_out(&server, &action, &plan);
    assert!(tokio::time::timeout(Duration::from_secs(1), asked).await.is_err());
    sleep(Duration::from_secs(10)).await;
    assert_eq!(server.source.carried.lock().unwrap().len(), 1);
    assert_eq!(entries(&server).await[0]["outcome"], "done");
}

#[tokio::test]
async fn k4_unknown_actions_and_fields_are_refused() {
    let server = writing();
    for action in [
        json!({ "kind": "explode", "process": "p0" }),
        json!({ "kind": "pause", "store": "s0", "run": "r", "force": true }),
        json!({ "kind": "stop", "process": "p0", "path": "/user", "force": true }),
        json!({ "kind": "rewind", "store": "s0", "run": "r" }),
        json!({ "kind": "stop" }),
        json!([]),
    ] {
        let (status, answer) = server.ask("POST", "/api/act", json!({ "action": action, "is_plan": true })).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{action}: {answer}");
    }
    let nowhere = json!({ "action": { "kind": "pause", "store": "s9", "run": "r" }, "is_plan": true });
    assert_eq!(server.ask("POST", "/api/act", nowhere).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn k5_a_fork_keeps_exact_numbers_and_gets_redacted_values_back() {
    let server = writing();
    *server.store.text.lock().unwrap() =
        r#"{"id":9223372036854775807,"rate":0.1,"password":"stored","city":"Ulm"}"#.to_string();
    let edited = r#"{"id":9223372036854775807,"rate":0.1,"password":"\u005bredacted]","city":"Bonn"}"#;
    let fork = json!({ "kind": "fork", "store": "s0", "run": "r", "record": 12, "new": "r2", "state": edited });
    let plan = planned(&server, &fork).await;
    assert_eq!(carry_out(&server, &fork, &plan).await.0, StatusCode::OK);
    let carried = server.store.carried.lock().unwrap().clone();
    let Action::Store(order) = &carried[0].0 else { panic!("{carried:?}") };
    let RunOrder::Fork { state, .. } = &order.order else { panic!("{order:?}") };
    let expected = r#"{"id":9223372036854775807,"rate":0.1,"password":"stored","city":"Bonn"}"#;
    assert_eq!(state.as_deref(), Some(expected));
    // The mark at another place would become data.
    let moved =
        json!({ "kind": "fork", "store": "s0", "run": "r", "record": 12, "new": "r2", "state": "{\"city\":\"[redacted]\"}" });
    let (status, refused) = server.ask("POST", "/api/act", json!({ "action": moved, "is_plan": true })).await;
    assert_eq!((status, &refused["error"]["code"]), (StatusCode::BAD_REQUEST, &json!("redacted")));
    let answer = json!({ "kind": "answer", "store": "s0", "run": "r", "key": "k", "value": "\"[redacted]\"" });
    let (_, refused) = server.ask("POST", "/api/act", json!({ "action": answer, "is_plan": true })).await;
    assert_eq!(refused["error"]["code"], "redacted");
}

#[tokio::test]
async fn k7_a_command_that_would_store_a_mark_is_left_out() {
    let server = writing();
    *server.store.text.lock().unwrap() = r#"{"name":"token","value":"stored"}"#.to_string();
    let command = |text: &str| *server.store.plan.lock().unwrap() = Some(Plan { command: Some(text.to_string()), ..plan() });
    let fork = |state: &str| {
        let action = json!({ "kind": "fork", "store": "s0", "run": "r", "record": 12, "new": "r2", "state": state });
        json!({ "action": action, "is_plan": true })
    };
    // By its text alone, the command has no secret.
    command(r#"pleach runs fork --state '{"name":"token","value":"stored"}'"#);
    let (_, plan) = server.ask("POST", "/api/act", fork(r#"{"name":"token","value":"[redacted]"}"#)).await;
    assert_eq!((&plan["command"], plan["plan"].is_string()), (&Value::Null, true), "{plan}");
    command("pleach runs fork --state '{\"name\":\"a\"}'");
    let (_, plan) = server.ask("POST", "/api/act", fork(r#"{"name":"a"}"#)).await;
    assert_eq!(plan["command"], "pleach runs fork --state '{\"name\":\"a\"}'");
}

pub(super) fn runs(count: usize) -> Value {
    let runs: Vec<Value> = (0..count).map(|number| json!({ "id": format!("run-{number}") })).collect();
    json!({ "runs": runs, "next": null })
}

pub(super) fn retry() -> Value {
    json!({ "kind": "retry", "store": "s0" })
}

#[tokio::test(start_paused = true)]
async fn k4_a_bulk_action_is_planned_limited_and_has_a_result_for_each_run() {
    let server = writing();
    server.store.set(runs(30));
    let wish = json!({ "action": retry(), "filters": { "failed": true }, "is_plan": true });
    let (status, plan) = server.ask("POST", "/api/bulk", wish).await;
    assert_eq!((status, &plan["runs"]), (StatusCode::OK, &json!({ "count": 30, "is_cut": false })));
    assert_eq!(
        plan["samples"][0],
        json!({ "run": "run-0", "title": "Do it", "will": plan["samples"][0]["will"], "refusal": null })
    );
    let start = |expected: u64, filters: Value| {
        json!({ "action": retry(), "filters": filters, "is_plan": false, "plan": plan["plan"], "expected": expected,
                "per_second": 10, "reason": "bank is back" })
    };
    let (status, refused) = server.ask("POST", "/api/bulk", start(29, json!({ "failed": true }))).await;
    assert_eq!((status, &refused["error"]["code"]), (StatusCode::BAD_REQUEST, &json!("bad_request")));
    assert!(server.store.carried.lock().unwrap().is_empty());
    let wish = json!({ "action": retry(), "filters": { "failed": true }, "is_plan": true });
    let plan = server.ask("POST", "/api/bulk", wish).await.1;
    let mut order = start(30, json!({ "failed": true }));
    order["plan"] = plan["plan"].clone();
    let begin = Instant::now();
    let (status, started) = server.ask("POST", "/api/bulk", order).await;
    assert_eq!((status, &started["runs"]), (StatusCode::OK, &json!(30)));
    let bulk = json!({ "view": "bulk", "bulk": started["bulk"] });
    loop {
        let (_, progress) = server.ask("POST", "/api/view", bulk.clone()).await;
        let done = progress["done"].as_u64().unwrap();
        assert!(done <= 1 + begin.elapsed().as_millis() as u64 / 100, "{done} in {:?}", begin.elapsed());
        assert_eq!(done + progress["left"].as_u64().unwrap(), 30);
        if progress["is_ended"] == true {
            assert_eq!((done, progress["results"].as_array().unwrap().len()), (30, 30));
            assert_eq!(progress["results"][0], json!({ "run": "run-29", "outcome": "done", "text": "it was done" }));
            break;
        }
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(server.store.carried.lock().unwrap().len(), 30);
    assert_eq!(entries(&server).await[0]["reason"], "bank is back");
}

#[tokio::test(start_paused = true)]
async fn k4_a_bulk_action_can_be_stopped() {
    let server = writing();
    server.store.set(runs(30));
    let wish = json!({ "action": retry(), "is_plan": true });
    let plan = server.ask("POST", "/api/bulk", wish).await.1;
    let order = json!({ "action": retry(), "is_plan": false, "plan": plan["plan"], "expected": 30, "per_second": 1 });
    let started = server.ask("POST", "/api/bulk", order).await.1;
    sleep(Duration::from_millis(3_500)).await;
    assert_eq!(server.ask("POST", "/api/bulk", json!({ "stop": started["bulk"] })).await.0, StatusCode::OK);
    sleep(Duration::from_secs(60)).await;
    let progress = server.ask("POST", "/api/view", json!({ "view": "bulk", "bulk": started["bulk"] })).await.1;
    assert_eq!((&progress["done"], &progress["left"], &progress["is_stopped"]), (&json!(4), &json!(26), &json!(true)));
    assert_eq!(server.store.carried.lock().unwrap().len(), 4);
    assert_eq!(server.ask("POST", "/api/bulk", json!({ "stop": "none" })).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn k4_a_stop_does_not_count_the_run_in_progress_as_left() {
    let server = writing();
    server.store.set(runs(30));
    let plan = server.ask("POST", "/api/bulk", json!({ "action": retry(), "is_plan": true })).await.1;
    let order = json!({ "action": retry(), "is_plan": false, "plan": plan["plan"], "expected": 30, "per_second": 1 });
    // The first run takes 10 s.
    *server.store.delay.lock().unwrap() = Duration::from_secs(10);
    let started = server.ask("POST", "/api/bulk", order).await.1;
    sleep(Duration::from_secs(1)).await;
    server.ask("POST", "/api/bulk", json!({ "stop": started["bulk"] })).await;
    let stop = entries(&server).await.remove(0);
    assert_eq!(stop["text"], "stopped; 29 runs were left, and one is still in progress");
    sleep(Duration::from_secs(60)).await;
    let progress = server.ask("POST", "/api/view", json!({ "view": "bulk", "bulk": started["bulk"] })).await.1;
    assert_eq!((&progress["done"], &progress["left"]), (&json!(1), &json!(29)));
}

/// A new folder of this process, removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pleach-console-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn server(&self) -> Server {
        let server = writing();
        let (file, entries) = RecordFile::open(&self.0.join("actions.jsonl")).unwrap();
        server.api.orders.log.keep_in(file, entries);
        server
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

#[tokio::test(start_paused = true)]
async fn k4_a_record_in_a_file_outlives_the_console() {
    let folder = Folder::new("outlives");
    let path = folder.0.join("actions.jsonl");
    let first = folder.server();
    let plan = planned(&first, &stop()).await;
    assert_eq!(carry_out(&first, &stop(), &plan).await.0, StatusCode::OK);
    assert_eq!(carry_out(&first, &stop(), &plan).await.0, StatusCode::CONFLICT, "a plan is carried out once");
    let locked = RecordFile::open(&path).unwrap_err();
    assert!(locked.to_string().contains("another console"), "{locked}");
    let before = entries(&first).await;
    assert_eq!((before.len(), &before[0]["outcome"], &before[1]["outcome"]), (2, &json!("refused"), &json!("done")));
    drop(first);
    // The console ended in the middle of a line.
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"{\"seq\":3,\"at").unwrap();
    drop(file);
    let second = folder.server();
    assert_eq!(entries(&second).await, before);
    carry_out(&second, &stop(), "none").await;
    let after = entries(&second).await;
    assert_eq!((after.len(), &after[0]["seq"], &after[1..]), (3, &json!(3), &before[..]));
    drop(second);
    assert_eq!(entries(&folder.server()).await, after, "the cut line harms no other");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("\"who\":\"ada\"") && text.contains("token=[redacted]") && !text.contains("abc"), "{text}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test(start_paused = true)]
async fn k4_a_record_in_a_file_is_bounded() {
    let folder = Folder::new("bounded");
    let path = folder.0.join("actions.jsonl");
    let server = writing();
    let (file, _) = RecordFile::bounded(&path, 2_000).unwrap();
    server.api.orders.log.keep_in(file, Vec::new());
    for _ in 0..40 {
        carry_out(&server, &stop(), "none").await;
    }
    let length = |name: &str| std::fs::metadata(folder.0.join(name)).unwrap().len();
    assert!((1..=2_000).contains(&length("actions.jsonl")) && (1..=2_000).contains(&length("actions.jsonl.old")));
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 2);
    let last = std::fs::read_to_string(&path).unwrap().lines().last().map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert_eq!(last.unwrap()["seq"], 40);
}

#[tokio::test(start_paused = true)]
async fn k4_texts_of_the_record_are_bounded() {
    let server = writing();
    let long = "r".repeat(100_000);
    let action = json!({ "kind": "retry", "store": "s0", "run": long });
    carry_out(&server, &action, "none").await;
    let entry = entries(&server).await.remove(0);
    assert_eq!(entry["subject"].as_str().unwrap().chars().count(), 1_001);
    let order = json!({ "action": retry(), "is_plan": false, "plan": "none", "expected": 1, "reason": long });
    assert_eq!(server.ask("POST", "/api/bulk", order).await.0, StatusCode::BAD_REQUEST, "a reason has a limit");
    assert_eq!(entries(&server).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn k4_bulk_actions_are_bounded() {
    let server = writing();
    server.store.set(runs(1_200));
    let plan = server.ask("POST", "/api/bulk", json!({ "action": retry(), "is_plan": true })).await.1;
    assert_eq!(plan["runs"], json!({ "count": 1_000, "is_cut": true }));
    for per_second in [0, 101] {
        let plan = server.ask("POST", "/api/bulk", json!({ "action": retry(), "is_plan": true })).await.1;
        let order =
            json!({ "action": retry(), "is_plan": false, "plan": plan["plan"], "expected": 1_000, "per_second": per_second });
        assert_eq!(server.ask("POST", "/api/bulk", order).await.0, StatusCode::BAD_REQUEST);
    }
    for action in [
        json!({ "kind": "fork", "store": "s0", "record": 1, "new": "x" }),
        json!({ "kind": "retry", "store": "s0", "run": "one" }),
        stop(),
    ] {
        let wish = json!({ "action": action, "is_plan": true });
        assert_eq!(server.ask("POST", "/api/bulk", wish).await.0, StatusCode::BAD_REQUEST, "{action}");
    }
}
