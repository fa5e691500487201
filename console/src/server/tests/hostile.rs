//! Random and hostile parameters get a typed answer, and panics do not end the console.

use crate::redact::Redaction;
use crate::settings::Settings;
use crate::testing::{Server, json_of};
use axum::body::Body;
use axum::http::StatusCode;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// Returns text as it stands in a query: every byte escaped.
fn escaped(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("%{byte:02x}")).collect()
}

/// The most bytes that fit in an address when each is escaped.
const ADDRESS_MAX: usize = 20_000;

const VIEWS: [&str; 21] = [
    "home",
    "tree",
    "top",
    "not_well",
    "member",
    "story",
    "failures",
    "ring",
    "runs",
    "run_groups",
    "run",
    "timeline",
    "value",
    "diff",
    "waiting",
    "workers",
    "deploy",
    "graph",
    "actions",
    "bulk",
    "test",
];

const PARAMETERS: [&str; 20] = [
    "process", "store", "path", "open", "first", "count", "by", "contains", "limit", "cursor", "before", "kind", "filters",
    "after", "run", "record", "pointer", "from", "to", "graphs",
];

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(json!("p0")),
        Just(json!("s0")),
        Just(json!("/user")),
        Just(json!("x".repeat(9_000))),
        Just(json!(["/user", "//", "\u{0}", "../.."])),
        Just(json!({ "status": ["failed"], "since": "99999999999999h" })),
        Just(json!([[[[{}]]]])),
    ]
}

fn any_view() -> impl Strategy<Value = Value> {
    let parameters = proptest::collection::vec((proptest::sample::select(PARAMETERS.to_vec()), any_value()), 0..6);
    (proptest::sample::select(VIEWS.to_vec()), parameters).prop_map(|(view, parameters)| {
        let mut asked = json!({ "view": view });
        for (name, value) in parameters {
            asked[name] = value;
        }
        asked
    })
}

/// Fails if an answer is no JSON value of the contract.
fn check(status: StatusCode, answer: &Value) -> Result<(), TestCaseError> {
    if status == StatusCode::OK {
        return Ok(());
    }
    prop_assert!(status.is_client_error() || answer["error"]["code"] == "unreachable", "{} {}", status, answer);
    prop_assert!(answer["error"]["code"].is_string() && answer["error"]["text"].is_string(), "{}", answer);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn k7_random_views_get_a_typed_answer(view in any_view()) {
        let runtime = runtime();
        let text = view.to_string();
        let posted = runtime.block_on(async { Server::new().ask("POST", "/api/view", view).await });
        check(posted.0, &posted.1)?;
        // A longer address is no address: `k7_a_real_socket_refuses_what_is_too_large`.
        if text.len() < ADDRESS_MAX {
            let q = format!("/api/view?q={}", escaped(text.as_bytes()));
            let single = runtime.block_on(async { Server::new().ask("GET", &q, Value::Null).await });
            prop_assert_eq!(single, posted, "a posted view is the same");
        }
    }

    #[test]
    fn k7_random_bytes_get_a_typed_answer(bytes in proptest::collection::vec(any::<u8>(), 0..200), after in "[ -~]{0,20}") {
        let (runtime, rest) = (runtime(), escaped(after.as_bytes()));
        for uri in ["view", "download"] {
            let uri = format!("/api/{uri}?q={}&{rest}", escaped(&bytes));
            let (status, answer) = runtime.block_on(async { Server::new().ask("GET", &uri, Value::Null).await });
            prop_assert_eq!((status, &answer["error"]["code"]), (StatusCode::BAD_REQUEST, &json!("bad_request")), "{}", answer);
        }
        for route in ["view", "watch", "act", "bulk"] {
            let request = |server: &Server| server.request("POST", &format!("/api/{route}")).body(Body::from(bytes.clone()));
            let (status, answer) = runtime.block_on(async {
                let server = Server::new();
                json_of(server.send(request(&server).unwrap()).await).await
            });
            prop_assert_eq!((status, &answer["error"]["code"]), (StatusCode::BAD_REQUEST, &json!("bad_request")), "{}", answer);
        }
    }

    #[test]
    fn k7_random_actions_get_a_typed_answer(fields in any_view(), kind in "[a-z_]{0,8}", is_plan in any::<bool>()) {
        let runtime = runtime();
        let mut action = fields;
        action["kind"] = json!(kind);
        let body = json!({ "action": action, "is_plan": is_plan });
        for route in ["/api/act", "/api/bulk"] {
            let (status, answer) = runtime.block_on(async { Server::new().ask("POST", route, body.clone()).await });
            check(status, &answer)?;
        }
    }
}

#[tokio::test]
async fn k7_a_panic_in_a_view_does_not_end_the_console() {
    let server = Server::new();
    server.source.set(json!("panic"));
    for view in [json!({ "view": "not_well", "process": "p0" }), json!({ "view": "member", "process": "p0", "path": "/" })] {
        let q = escaped(view.to_string().as_bytes());
        for route in ["view", "download"] {
            let (status, answer) = server.ask("GET", &format!("/api/{route}?q={q}"), Value::Null).await;
            assert_eq!((status, &answer["error"]["code"]), (StatusCode::INTERNAL_SERVER_ERROR, &json!("internal")), "{route}");
        }
    }
    *server.store.text.lock().unwrap() = "panic".to_string();
    let q = escaped(br#"{"view":"value","store":"s0","run":"r"}"#);
    let (status, answer) = server.ask("GET", &format!("/api/download?q={q}"), Value::Null).await;
    assert_eq!((status, &answer["error"]["code"]), (StatusCode::INTERNAL_SERVER_ERROR, &json!("internal")));
    server.source.set(json!({ "members": [] }));
    let again = server.ask("POST", "/api/view", json!({ "view": "not_well", "process": "p0" })).await;
    assert_eq!(again, (StatusCode::OK, json!({ "members": [] })));
}

#[tokio::test]
async fn k7_a_panic_in_a_redaction_rule_shows_nothing_and_ends_nothing() {
    let rules = Redaction::new().text(|text| if text.contains("bad") { panic!("the rule saw {text}") } else { None });
    let server = Server::redacting(Settings::default(), rules);
    server.source.set(json!({ "members": "bad: hunter2" }));
    let asked = json!({ "view": "not_well", "process": "p0" });
    let (status, answer) = server.ask("POST", "/api/view", asked.clone()).await;
    assert_eq!((status, &answer["error"]["code"]), (StatusCode::INTERNAL_SERVER_ERROR, &json!("internal")));
    assert!(!answer.to_string().contains("hunter2"), "what could not be redacted is not shown: {answer}");
    server.source.set(json!({ "members": "good" }));
    assert_eq!(server.ask("POST", "/api/view", asked).await.0, StatusCode::OK);
}

#[tokio::test]
async fn k7_scripts_in_every_text_leave_as_json_that_no_browser_renders() {
    let server = Server::new();
    let script = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u{2028}";
    server.source.set(json!({ script: [script, { "path": script }] }));
    for uri in ["/api/view", "/api/download", "/api/console", &format!("/{}", escaped(script.as_bytes()))] {
        let q = escaped(json!({ "view": "not_well", "process": "p0", "path": script }).to_string().as_bytes());
        let uri = if uri.starts_with("/api/c") || uri.starts_with("/%") { uri.to_string() } else { format!("{uri}?q={q}") };
        let response = server.send(server.request("GET", &uri).body(Body::empty()).unwrap()).await;
        assert_eq!(response.headers()["content-type"], "application/json", "{uri}");
        assert_eq!(response.headers()["x-content-type-options"], "nosniff", "{uri}");
        let (_, answer) = json_of(response).await;
        assert!(answer.is_object(), "{uri}");
    }
}
