//! Random parameters of every view and action, against a real system and real runs: whatever is asked
//! gets a typed answer, and never one that says that the console failed.

use crate::durable::StoreSource;
use crate::process::ProcessSource;
use crate::report::NamedStore;
use crate::sources::Sources;
use crate::testing::Server;
use axum::http::StatusCode;
use pleach::inspect::{InspectAction, InspectOptions, Inspector};
use pleach::prelude::*;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The parameters of each view.
const VIEWS: [(&str, &[&str]); 21] = [
    ("home", &[]),
    ("tree", &["process", "path", "open", "first", "count"]),
    ("top", &["process", "path", "by", "contains", "limit"]),
    ("not_well", &["process", "path", "cursor"]),
    ("member", &["process", "path"]),
    ("story", &["process", "path", "before", "limit"]),
    ("failures", &["process", "kind", "contains", "limit"]),
    ("ring", &["process", "path"]),
    ("runs", &["store", "filters", "after", "limit"]),
    ("run_groups", &["store", "group_by", "filters"]),
    ("run", &["store", "run"]),
    ("timeline", &["store", "run", "before", "from", "limit"]),
    ("value", &["store", "run", "record", "question", "pointer", "first"]),
    ("diff", &["store", "run", "from", "to", "other_run"]),
    ("waiting", &["store", "after", "limit"]),
    ("workers", &["store"]),
    ("deploy", &["store", "graphs", "previous"]),
    ("graph", &["store", "run", "graphs"]),
    ("actions", &["before", "limit"]),
    ("bulk", &["bulk"]),
    ("test", &["store", "run", "record", "process", "path", "seq"]),
];

/// The fields of actions.
const ACTIONS: [(&str, &[&str]); 15] = [
    ("stop", &["process", "path", "member_id"]),
    ("restart", &["process", "path", "member_id"]),
    ("suspend", &["process", "path", "member_id"]),
    ("resume", &["process", "path", "member_id"]),
    ("log_level", &["process", "level"]),
    ("pause", &["store", "run"]),
    ("continue", &["store", "run"]),
    ("cancel", &["store", "run", "cancel_reason"]),
    ("retry", &["store", "run"]),
    ("unstick", &["store", "run"]),
    ("delete", &["store", "run"]),
    ("answer", &["store", "run", "key", "value"]),
    ("signal", &["store", "run", "name", "value"]),
    ("rewind", &["store", "run", "record"]),
    ("fork", &["store", "run", "record", "new", "state"]),
];

/// Returns values that a parameter can have, most of them right.
fn values(name: &str) -> Vec<Value> {
    let texts = |texts: &[&str]| texts.iter().map(|text| json!(text)).collect::<Vec<_>>();
    let numbers = || [0, 1, 2, 3, 60, 200, 500, u64::MAX].map(Value::from).to_vec();
    match name {
        "process" => texts(&["p0", "p0", "p0", "s0", "p9"]),
        "store" => texts(&["s0", "s0", "s0", "p0", ""]),
        "run" | "other_run" | "new" => texts(&["waits", "failed", "ended", "none", "", "a/../b", "\u{0}\u{202e}"]),
        "path" => {
            texts(&["/", "/user", "/user/till", "/user/gone", "/user/", "//", "", "user", "/\u{0}", "/user/till/../till"])
        }
        "open" => {
            vec![json!([]), json!(["/", "/user"]), json!(["/user/till", "/gone"]), json!(["//"]), json!(vec!["/user"; 1_001])]
        }
        "by" => texts(&["queued", "rate", "restarts", "handling", "failed", "children", "none", ""]),
        "kind" => texts(&["failures", "dead_letters", "none"]),
        "group_by" => texts(&["status", "graph", "error", "none"]),
        "filters" => vec![
            json!({}),
            json!({ "status": ["failed", "waiting"], "graph": "order" }),
            json!({ "status": ["none"] }),
            json!({ "failed": true, "tag": "a=b", "id_prefix": "w" }),
            json!({ "tag": "no sign" }),
            json!({ "since": "1h", "before": "0s" }),
            json!({ "since": "2026-13-01", "before": "99999999999999999999h" }),
        ],
        "after" | "cursor" => texts(&["", "x", "waiting:0-0", "waiting:99999999999999999999-1", "0-0", "\u{0}", "1.2.3"]),
        "pointer" => texts(&["", "/", "/steps/0", "/steps/-", "/number", "/~2", "x", "/steps/18446744073709551616"]),
        "question" | "key" => texts(&["approve", "", "none"]),
        "graphs" | "previous" | "value" | "state" => {
            texts(&["", "[]", "{}", "x", "true", "[[[[[[", "{\"graph\":1}", "\"\\ud800\"", "9223372036854775808", "1e999"])
        }
        "contains" | "level" | "name" | "cancel_reason" | "bulk" => texts(&["", "info", "till", "\u{0}", "%"]),
        _ => numbers(),
    }
}

fn parameters(names: &'static [&'static str]) -> impl Strategy<Value = Map<String, Value>> {
    let value = |name: &'static str| {
        let is_source = matches!(name, "process" | "store");
        proptest::option::weighted(if is_source { 0.97 } else { 0.75 }, select(values(name)))
    };
    names
        .iter()
        .map(|name| value(name))
        .collect::<Vec<_>>()
        .prop_map(|chosen| names.iter().zip(chosen).filter_map(|(name, value)| Some(((*name).to_string(), value?))).collect())
}

fn any_request() -> impl Strategy<Value = (&'static str, Value)> {
    let view = select(VIEWS.to_vec()).prop_flat_map(|(name, names)| {
        let with_name = move |mut fields: Map<String, Value>| {
            fields.insert("view".to_string(), json!(name));
            Value::Object(fields)
        };
        (select(vec!["/api/view", "/api/download"]), parameters(names).prop_map(with_name))
    });
    let action = select(ACTIONS.to_vec()).prop_flat_map(|(kind, names)| {
        parameters(names).prop_map(move |mut fields| {
            fields.insert("kind".to_string(), json!(kind));
            ("/api/act", json!({ "action": fields, "is_plan": true }))
        })
    });
    prop_oneof![3 => view, 1 => action]
}

type BoxError = pleach::BoxError;

/// Runs that wait, failed and ended.
async fn store() -> MemoryStore {
    let store = MemoryStore::new();
    let approve = |cx: NodeContext, mut order: Vec<u64>| async move {
        let is_approved: bool = cx.interrupt("approve", &"ship?").await;
        order.push(u64::MAX);
        if is_approved { Ok::<_, BoxError>(order) } else { Err("token=hunter2 was refused".into()) }
    };
    let graph = Graph::new("order").add_node("approve", approve).add_edge("approve", END).set_entry("approve");
    let graph = graph.compile().unwrap();
    for id in ["waits", "failed", "ended"] {
        drop(graph.run(vec![1]).id(id).tag("a", "b").checkpoint(&store).await);
    }
    drop(graph.resume("failed").resume_with("approve", &false).checkpoint(&store).await);
    drop(graph.resume("ended").resume_with("approve", &true).checkpoint(&store).await);
    store
}

/// A till that failed once.
async fn system() -> ActorSystem {
    let system = ActorSystem::new("shop").unwrap();
    let till = Props::from_fn(|| (), |(), paid: u32| if paid > 0 { Ok(()) } else { Err("nothing paid, token=hunter2") });
    let till = system.spawn("till", till).unwrap();
    drop(till.tell(0));
    drop(till.tell(1));
    system
}

#[test]
fn k7_whatever_is_asked_of_real_sources_gets_a_typed_answer() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (server, _system) = runtime.block_on(async {
        let system = system().await;
        let actions = [InspectAction::Stop, InspectAction::Restart, InspectAction::Suspend, InspectAction::Resume];
        let inspector = Inspector::new(&system, InspectOptions::in_memory().allow(actions));
        let store = StoreSource::new("s0", NamedStore::of(&store().await));
        let processes: Vec<Arc<dyn crate::source::Source>> = vec![Arc::new(ProcessSource::of_inspector("p0", inspector))];
        (Server::showing(Sources { processes, stores: vec![Arc::new(store)] }), system)
    });
    let mut runner = TestRunner::new(Config { failure_persistence: None, cases: 600, ..Config::default() });
    let asked = runner.run(&any_request(), |(route, body)| {
        let request = match route {
            "/api/download" => {
                let q: String = body.to_string().bytes().map(|byte| format!("%{byte:02x}")).collect();
                server.request("GET", &format!("{route}?q={q}")).body(axum::body::Body::empty())
            }
            route => server.request("POST", route).body(axum::body::Body::from(body.to_string())),
        };
        let (status, text) = runtime.block_on(async {
            let response = server.send(request.unwrap()).await;
            let status = response.status();
            (status, axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap())
        });
        let text = String::from_utf8_lossy(&text);
        prop_assert!(!text.contains("hunter2"), "{} {}: {}", route, body, text);
        if status != StatusCode::OK {
            let answer: Value = serde_json::from_str(&text).unwrap();
            let code = answer["error"]["code"].as_str().unwrap_or_default();
            prop_assert!(!matches!(code, "" | "internal" | "failed"), "{} {}: {}", route, body, text);
        }
        Ok(())
    });
    if let Err(error) = asked {
        panic!("{error}");
    }
}
