//! Tests of downloads, without a socket.

use super::named;
use crate::redact::Redaction;
use crate::settings::Settings;
use crate::testing::Server;
use axum::body::{Body, to_bytes};
use axum::http::{Response, StatusCode, header};
use serde_json::{Value, json};

/// A text that is a script, closes what it may stand in, and turns the direction of text.
const HOSTILE: &str =
    "</title></style></td>'\"><script>alert(1)</script><img src=x onerror=alert(1)>\u{1b}]0;x\u{7}\u{202e}&lt;b&gt;";

async fn download(server: &Server, view: &Value, more: &str) -> Response<Body> {
    let q: String = view.to_string().bytes().map(|byte| format!("%{byte:02x}")).collect();
    let uri = format!("/api/download?q={q}{more}");
    server.send(server.request("GET", &uri).body(Body::empty()).unwrap()).await
}

async fn text_of(response: Response<Body>) -> String {
    assert_eq!(response.status(), StatusCode::OK);
    String::from_utf8(to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec()).unwrap()
}

fn header_of(response: &Response<Body>, name: header::HeaderName) -> String {
    response.headers().get(name).map(|value| value.to_str().unwrap().to_string()).unwrap_or_default()
}

#[tokio::test]
async fn k8_a_view_is_a_json_file() {
    let server = Server::new();
    server.source.set(json!({ "members": [], "note": "password=hunter2" }));
    let response = download(&server, &json!({ "view": "not_well", "process": "p0" }), "").await;
    assert_eq!(header_of(&response, header::CONTENT_DISPOSITION), "attachment; filename=\"not_well-p0.json\"");
    assert_eq!(header_of(&response, header::CONTENT_TYPE), "application/json");
    assert_eq!(header_of(&response, header::X_CONTENT_TYPE_OPTIONS), "nosniff");
    assert_eq!(text_of(response).await, r#"{"members":[],"note":"password=[redacted]"}"#);
    server.source.set(json!("the process is gone"));
    let failed = download(&server, &json!({ "view": "not_well", "process": "p0" }), "").await;
    assert_eq!((failed.status(), header_of(&failed, header::CONTENT_DISPOSITION)), (StatusCode::BAD_GATEWAY, String::new()));
    for more in ["&as=html", "&as=pdf", "&other=1"] {
        let refused = download(&server, &json!({ "view": "not_well", "process": "p0" }), more).await;
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{more}");
    }
}

#[tokio::test]
async fn k5_a_value_of_any_length_is_a_file_with_every_digit() {
    let server = Server::new();
    let items: Vec<String> = (0..60_000).map(|n| format!("{{\"n\":{n},\"rate\":0.10,\"token\":\"hunter2\"}}")).collect();
    let state = format!("{{\"first\":9223372036854775807,\"items\":[{}]}}", items.join(","));
    assert!(state.len() > 1_500_000);
    *server.store.text.lock().unwrap() = state.clone();
    let asked = json!({ "view": "value", "store": "s0", "run": "../a b/7", "record": 3, "pointer": "/x" });
    let response = download(&server, &asked, "").await;
    assert_eq!(header_of(&response, header::CONTENT_DISPOSITION), "attachment; filename=\"a-b-7-3-x.json\"");
    assert_eq!(text_of(response).await, state.replace("hunter2", "[redacted]"));
}

#[tokio::test]
async fn k7_a_value_at_a_secret_pointer_is_redacted() {
    let server = Server::new();
    *server.store.text.lock().unwrap() = "\"hunter2\"".to_string();
    let asked = json!({ "view": "value", "store": "s0", "run": "r", "pointer": "/db/password" });
    assert_eq!(text_of(download(&server, &asked, "").await).await, "\"[redacted]\"");
}

#[tokio::test]
async fn k8_half_a_file_does_not_look_like_a_whole_one() {
    let rules = Redaction::new().text(|text| if text == "bad" { panic!("a rule of the user panicked") } else { None });
    let server = Server::redacting(Settings::default(), rules);
    let items: Vec<String> = (0..100_000).map(|n| format!("\"item {n}\"")).collect();
    *server.store.text.lock().unwrap() = format!("[{},\"bad\"]", items.join(","));
    let response = download(&server, &json!({ "view": "value", "store": "s0", "run": "r" }), "").await;
    assert_eq!(response.status(), StatusCode::OK, "the file has begun");
    assert!(to_bytes(response.into_body(), usize::MAX).await.is_err());
}

#[tokio::test]
async fn k8_downloads_are_bounded_and_free_their_place() {
    let server = Server::new();
    *server.store.text.lock().unwrap() = format!("[{}1]", "\"0123456789\",".repeat(200_000));
    let asked = json!({ "view": "value", "store": "s0", "run": "r" });
    let mut unread = Vec::new();
    for _ in 0..4 {
        unread.push(download(&server, &asked, "").await);
    }
    assert_eq!(download(&server, &asked, "").await.status(), StatusCode::SERVICE_UNAVAILABLE);
    drop(unread);
    // The threads notice that the reader has left when they write the next piece.
    while download(&server, &asked, "").await.status() != StatusCode::OK {
        tokio::task::yield_now().await;
    }
}

#[test]
fn k7_names_of_files_have_only_plain_characters() {
    assert_eq!(named(&["incident", "/user/till"], "html"), "incident-user-till.html");
    assert_eq!(named(&["..", "../../etc/passwd\r\nX: 1\"; a"], "json"), "etc-passwd-X-1-a.json");
    assert_eq!(named(&[&"x".repeat(500)], "json").len(), 85);
}

/// An answer with the fields of every view.
fn everything() -> Value {
    let member = json!({
        "path": "/user/till", "kind": "actor", "id": 7, "activity": { "state": "handling", "for_us": 2_000_000 },
        "actor": { "capacity": 10, "queued": 3, "stashed": 1, "waiting_senders": 2, "message_type": "Job", "incarnation": 2,
            "counts": { "accepted": 9, "handled": 4, "failed": 1, "dead_lettered": 1 } },
        "restarts": { "allowed": 3, "used": 1, "window_us": 5_000_000 }, "children": 2, "up_for_us": 1,
        "last_failure": { "reason": "no paper", "origin": "/user/till/p", "message": "Print", "ago_us": 3, "incarnation": 1 },
    });
    let token = json!({
        "at": { "kind": "node", "node": "pay" }, "branch": [1, 2], "failure": { "reason": "refused" }, "state": "{}",
        "waits": [{ "key": "approve", "kind": "question", "due": "2026-01-01T00:00:00Z", "question": "{\"q\":1}" }],
    });
    json!({
        "show": { "id": "order-7", "status": "failed", "tokens": [token], "record": 12, "driver": "w1", "lease_until": "soon",
            "takeovers": 1, "trouble": "odd", "due": "now", "deadline": "later", "is_paused": true, "tags": { "who": "ada" },
            "fingerprint": "abc", "schema": 1, "visits": 3, "forked_from": "order-6",
            "failure": { "node": "pay", "kind": "node", "reason": "card\nrefused", "attempt": 2, "record": 11, "at": "t" },
            "refused": [{ "number": 1, "name": "more", "reason": "unknown", "at": "t" }] },
        "why": { "id": "order-7", "status": "failed", "store": "runs.db", "graph": "order", "cause": ["it failed"],
            "so": ["it stopped"], "do": ["pleach runs retry"], "note": ["a note"], "chain": [member, member], "waiters": [member],
            "is_cycle": true, "facts": [{ "since": "t", "record": 1, "node": "pay", "text": "it failed", "kind": "x" }] },
        "children": [{ "run": "c", "graph": "g", "status": "running", "relation": "fork", "record": 3 }],
        "parent": { "run": "p", "relation": "child", "record": 1 }, "damage": { "text": "damaged" }, "is_cut": true,
        "driver": { "name": "w1", "process": 4, "is_alive": true }, "tokens_left_out": 3,
        "records": [{ "record": 2, "at": "t", "kind": "end", "node": "pay", "branch": [1], "attempt": 1,
            "failure": { "reason": "refused" } }],
        "layout": { "width": 100.0, "height": 90.0,
            "nodes": [{ "id": "__start__", "kind": "start", "label": "", "x": 1.0, "y": 1.0, "width": 9.0, "height": 9.0 },
                { "id": "pay", "kind": "node", "label": "pay", "x": 1.0, "y": 40.0, "width": 60.0, "height": 36.0 }],
            "edges": [{ "from": "__start__", "to": "pay", "kind": "plain", "label": "l", "points": [[5.0, 10.0], [30.0, 40.0]] },
                { "from": "pay", "to": "pay", "points": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]] }] },
        "marks": { "pay": { "failed": 1, "visited": 2, "current": 0, "waiting": 0 } },
        "text": "{\"number\":9223372036854775807}", "bytes": 30, "kind": "object",
        "member": member, "members": [member], "reasons": [{ "sentence": "it is stuck" }], "next": 5, "missed": 2, "since": "2026-01-02T03:04:05Z",
        "ledger": { "members": 1, "accepted": 9, "handled": 4, "failed": 1, "dead_lettered": 1, "queued": 1, "difference": 2 },
        "rows": [{ "depth": 1, "member": member, "is_open": true }, { "depth": 1, "more": 7 }], "total": 30,
        "groups": [{ "count": 2, "path": "/user/till", "reason": "no paper", "message": "Print", "first": "t", "last": "u" }],
        "entries": [{ "seq": 1, "at": "t", "kind": "failed", "path": "/user/till", "text": "it failed", "decision":
            { "directive": "restart", "strategy": "one_for_one", "supervisor": "/user", "restarts": 1, "limit": 3,
              "delay_us": 5, "also": ["/user/a"] } }],
    })
}

/// Puts a hostile text into every text, and into every name that a program chooses.
fn spoil(value: &mut Value) {
    match value {
        Value::String(text) => text.push_str(HOSTILE),
        Value::Array(items) => items.iter_mut().for_each(spoil),
        Value::Object(fields) => {
            for name in ["pay", "who"] {
                if let Some(field) = fields.remove(name) {
                    fields.insert(format!("{name}{HOSTILE}"), field);
                }
            }
            fields.values_mut().for_each(spoil);
        }
        _ => {}
    }
}

/// Fails if a page has an element or attribute that no incident has, or if elements are not closed.
fn check_markup(html: &str) {
    let (head, style) = (html.find("<style>").unwrap(), html.find("</style>").unwrap());
    let checked = html[..head].to_string() + &html[style + 8..];
    let known = "html head meta title body main header section div span dl dt dd h1 h2 h3 p ul li pre table thead tbody tr th td \
                 svg rect path text";
    let attributes = "lang charset http-equiv content name class scope tabindex role aria-label viewBox width height x y rx d";
    let mut open: Vec<&str> = Vec::new();
    for part in checked.split('<').skip(1) {
        let Some((tag, after)) = part.split_once('>') else { panic!("an open `<`: {part}") };
        assert!(!after.contains('>'), "an unescaped `>`: {part}");
        if tag.starts_with('!') {
            continue;
        }
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed));
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap();
        assert!(known.split_whitespace().any(|known| known == name), "{tag}");
        for attribute in tag.split('"').step_by(2).filter_map(|piece| piece.strip_suffix('=')) {
            let attribute = attribute.trim_start_matches(name).trim();
            assert!(attributes.split_whitespace().any(|known| known == attribute), "{attribute} in {tag}");
        }
        if !tag.ends_with('/') && name != "meta" {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

/// Fails if two parts have the same name for readers of a screen.
fn check_labels(html: &str) {
    let labels = html.split("aria-label=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let mut labels: Vec<&str> = labels.collect();
    let count = labels.len();
    labels.sort_unstable();
    labels.dedup();
    assert!(count > 3 && labels.len() == count, "{count} parts have {} names: {labels:?}", labels.len());
}

async fn incident(view: Value, answer: Value) -> String {
    let server = Server::new();
    server.source.set(answer.clone());
    server.store.set(answer);
    text_of(download(&server, &view, "").await).await
}

#[tokio::test]
async fn k8_an_incident_of_a_run_says_what_happened() {
    let run = json!({ "view": "run", "store": "s0", "run": "order-7" });
    let html = incident(run, everything()).await;
    check_markup(&html);
    check_labels(&html);
    for said in [
        "<h1>Run order-7</h1>",
        "<span class=\"bad\">Failed</span>",
        "(UTC, as all times on this page)",
        "<li>it failed</li>",
        "pleach runs retry</pre>",
        "card\nrefused",
        "class=\"node node-failed\"",
        "failed here",
        "&quot;number&quot;: 9223372036854775807",
        "approve",
        "<dd>order-6</dd>",
        "<dd>who=ada</dd>",
        "The records before the newest",
        "they are shown as [redacted]",
        "default-src 'none'",
    ] {
        assert!(html.contains(said), "{said} is not in {html}");
    }
}

#[tokio::test]
async fn k8_an_incident_of_a_member_says_what_happened() {
    let member = json!({ "view": "member", "process": "p0", "path": "/user/till" });
    let html = incident(member, everything()).await;
    check_markup(&html);
    check_labels(&html);
    for said in [
        "<h1>Actor /user/till</h1>",
        "It is stuck",
        "no paper",
        "handling for 2.0 s",
        "1 of 3 used in 5.0 s",
        "the difference is 2",
        "wait for each other",
        "7 members more",
        "Restart; strategy one_for_one; by /user; restarts 1 of 3; after 5 µs; with it: /user/a",
        "older ones are not kept any more",
        "Dead letters before 2026-01-02 03:04:05",
    ] {
        assert!(html.contains(said), "{said} is not in {html}");
    }
}

#[tokio::test]
async fn k7_hostile_texts_in_every_field_stay_texts() {
    let mut answer = everything();
    spoil(&mut answer);
    for view in [
        json!({ "view": "run", "store": "s0", "run": HOSTILE }),
        json!({ "view": "member", "process": "p0", "path": format!("/user/{HOSTILE}") }),
    ] {
        let html = incident(view, answer.clone()).await;
        check_markup(&html);
        assert!(html.contains("&lt;script&gt;alert(1)"), "the texts are shown");
        assert!(!html.contains("<script") && !html.contains("<img"));
        assert!(!html.contains(['\u{1b}', '\u{7}', '\u{202e}']), "control characters are visible");
    }
}

#[tokio::test]
async fn k7_an_incident_is_redacted_and_has_no_token() {
    let mut answer = everything();
    answer["why"]["cause"] = json!(["connect postgres://me:hunter2@db failed"]);
    answer["text"] = json!("{\"password\":\"hunter2\"}");
    answer["records"][0]["failure"]["reason"] = json!("token=hunter2");
    let server = Server::new();
    server.store.set(answer);
    let response = download(&server, &json!({ "view": "run", "store": "s0", "run": "r" }), "").await;
    assert_eq!(header_of(&response, header::CONTENT_TYPE), "application/octet-stream", "never shown by a browser");
    assert_eq!(header_of(&response, header::CONTENT_DISPOSITION), "attachment; filename=\"incident-r.html\"");
    let html = text_of(response).await;
    assert!(!html.contains("hunter2") && !html.contains(&server.bearer()[7..]));
    assert_eq!(html.matches("[redacted]").count(), 4);
}

#[tokio::test]
async fn k8_an_incident_says_which_view_failed() {
    let server = Server::new();
    server.source.set(json!({ "member": { "path": "/user/till", "kind": "actor" }, "rows": [], "total": 0 }));
    let html = text_of(download(&server, &json!({ "view": "member", "process": "p0", "path": "/user/till" }), "").await).await;
    check_markup(&html);
    assert!(html.contains("Nothing is known to be wrong"));
    for (view, said) in
        [("story", "The story:"), ("failures", "Failures:"), ("tree", "The tree:"), ("not_well", "Members that")]
    {
        *server.source.fails.lock().unwrap() = Some(view);
        let html =
            text_of(download(&server, &json!({ "view": "member", "process": "p0", "path": "/user/till" }), "").await).await;
        let missing = html.split("<h2>What is not on this page</h2>").nth(1).unwrap();
        let text = format!("the view &quot;{view}&quot; took too long");
        assert!(missing.contains(&text) && missing.contains(said), "{view}: {missing}");
    }
    *server.source.fails.lock().unwrap() = None;
    server.source.set(json!("it is gone"));
    let failed = download(&server, &json!({ "view": "member", "process": "p0", "path": "/user/till" }), "").await;
    assert_eq!(failed.status(), StatusCode::BAD_GATEWAY);
}
