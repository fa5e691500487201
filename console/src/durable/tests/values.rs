//! Values of the program: every digit survives, large ones are left out, hostile ones do no harm.

use super::fixture::{Fixture, on_all_stores};
use crate::redact::Redaction;
use pleach::graph::END;
use pleach::prelude::{CompiledGraph, Graph, NodeContext};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::ops::ControlFlow;

on_all_stores!(
    k5_exact_values_survive_view_edit_and_fork,
    k5_values_above_64_kib_are_left_out_and_read_by_level,
    k5_deep_values_and_half_surrogates_do_no_harm,
    k7_a_secret_is_hidden_at_every_level_and_in_differences,
);

type Text = Box<RawValue>;

/// Takes any JSON text, asks with it, and keeps it.
fn any() -> CompiledGraph<Text> {
    let ask = |cx: NodeContext, text: Text| async move {
        let answer: Text = cx.interrupt("any", &text).await;
        Ok::<_, String>(answer)
    };
    Graph::new("any").add_node("ask", ask).add_edge("ask", END).set_entry("ask").compile().unwrap()
}

async fn begin(fixture: &Fixture, id: &str, json: &str) {
    let state = RawValue::from_string(json.to_string()).unwrap();
    any().run(state).id(id).checkpoint(&fixture.store).await.unwrap_err();
}

async fn k5_exact_values_survive_view_edit_and_fork(fixture: Fixture) {
    let exact = concat!(
        r#"{"max": 9223372036854775807, "more": 123456789012345678901234567890, "tenth": 0.1, "zeros": 0.10, "huge": 1e400,"#,
        r#" "tiny": 1E-400, "minus": -0, "same": 1, "same": 2, "a/b~c": {"": null}, "text": "\u0041\ud83d\ude00\u0000"}"#
    );
    begin(&fixture, "x", exact).await;
    assert_eq!(fixture.text(json!({ "run": "x" })).await.unwrap(), exact);
    let view = fixture.view(json!({ "view": "run", "run": "x" })).await;
    assert_eq!(view["show"]["tokens"][0]["state"], json!(exact), "a string with the JSON text");
    assert_eq!(view["show"]["tokens"][0]["waits"][0]["question"], json!(exact));
    let waiting = fixture.view(json!({ "view": "waiting" })).await;
    assert_eq!(waiting["waits"][0]["question"], json!(exact));
    for (pointer, text) in
        [("/max", "9223372036854775807"), ("/tenth", "0.1"), ("/huge", "1e400"), ("/a~1b~0c/", "null"), ("/same", "2")]
    {
        let level = fixture.view(json!({ "view": "value", "run": "x", "question": "any", "pointer": pointer })).await;
        assert_eq!(level["text"], json!(text), "{pointer}");
    }
    let level = fixture.view(json!({ "view": "value", "run": "x" })).await;
    assert_eq!((&level["total"], &level["entries"][8]["text"]), (&json!(11), &json!("2")), "a repeated key is listed twice");
    // Edit one digit, and fork.
    let edited = exact.replace("9223372036854775807", "9223372036854775806");
    let fork = json!({ "kind": "fork", "run": "x", "record": 1, "new": "y", "state": edited });
    let (plan, _) = fixture.order(fork).await;
    assert!(plan.will.contains(&"in the state, /max becomes 9223372036854775806".to_string()), "{plan:?}");
    assert_eq!(fixture.text(json!({ "run": "y" })).await.unwrap(), edited);
    let diff = fixture.view(json!({ "view": "diff", "run": "x", "from": 1, "to": 1, "other_run": "y" })).await;
    assert_eq!(diff["patch"], json!([{ "op": "replace", "path": "/max", "value": "9223372036854775806" }]));
    let changed = |kind: &str| -> Vec<Value> {
        diff["lines"].as_array().unwrap().iter().filter(|line| line["kind"] == kind).map(|line| line["text"].clone()).collect()
    };
    assert_eq!(changed("removed"), [json!("  \"max\": 9223372036854775807,")]);
    assert_eq!(changed("added"), [json!("  \"max\": 9223372036854775806,")]);
    // Numbers that a float cannot tell apart differ.
    begin(&fixture, "z", "[0.1, 1e400]").await;
    fixture.order(json!({ "kind": "fork", "run": "z", "record": 1, "new": "z2", "state": "[0.10, 1e401]" })).await;
    let diff = fixture.view(json!({ "view": "diff", "run": "z", "from": 1, "to": 1, "other_run": "z2" })).await;
    assert_eq!(diff["patch"].as_array().unwrap().len(), 2, "{diff}");
}

async fn k5_values_above_64_kib_are_left_out_and_read_by_level(fixture: Fixture) {
    let items: Vec<String> = (0..20_000).map(|number| format!("\"item {number}\"")).collect();
    let large = format!("{{\"items\":[{}],\"n\":9223372036854775807}}", items.join(","));
    begin(&fixture, "large", &large).await;
    let view = fixture.view(json!({ "view": "run", "run": "large" })).await;
    let left_out = json!({ "left_out": large.len() });
    assert_eq!(
        (&view["show"]["tokens"][0]["state"], &view["show"]["tokens"][0]["waits"][0]["question"]),
        (&left_out, &left_out)
    );
    let level = fixture.view(json!({ "view": "value", "run": "large" })).await;
    assert_eq!((&level["text"], &level["bytes"]), (&Value::Null, &json!(large.len())));
    assert_eq!((&level["entries"][0]["kind"], &level["entries"][0]["text"]), (&json!("array"), &Value::Null));
    let level =
        fixture.view(json!({ "view": "value", "run": "large", "question": "any", "pointer": "/items", "first": 19_950 })).await;
    let entries = level["entries"].as_array().unwrap();
    assert_eq!((entries.len(), &entries[49]["key"], &entries[49]["text"]), (50, &json!("19999"), &json!("\"item 19999\"")));
    let beyond = fixture.view(json!({ "view": "value", "run": "large", "pointer": "/items", "first": u64::MAX })).await;
    assert_eq!(beyond["entries"], json!([]));
    assert_eq!(fixture.text(json!({ "run": "large" })).await.unwrap().len(), large.len(), "a download has all");
    let diff = fixture.view(json!({ "view": "diff", "run": "large", "from": 1, "to": 1 })).await;
    assert_eq!((&diff["patch"], &diff["lines"]), (&json!([]), &left_out));
    for (at, code) in [
        (json!({ "pointer": "/none" }), "not_found"),
        (json!({ "pointer": "items" }), "not_found"),
        (json!({ "pointer": "/items/20000" }), "not_found"),
        (json!({ "pointer": "/items/-1" }), "not_found"),
        (json!({ "pointer": "/0".repeat(1 << 20) }), "bad_request"),
        (json!({ "question": "none" }), "not_found"),
        (json!({ "record": 99 }), "not_found"),
        (json!({ "record": 0 }), "not_found"),
    ] {
        let mut asked = at.clone();
        (asked["view"], asked["run"]) = (json!("value"), json!("large"));
        assert_eq!(fixture.try_view(asked).await.unwrap_err().code, code, "{at}");
    }
}

async fn k5_deep_values_and_half_surrogates_do_no_harm(fixture: Fixture) {
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let odd = r#"{"\ud800": "\udfff", "\ud800x": 1, "ok": "\ud800"}"#;
    for (id, json) in [("deep", deep.as_str()), ("odd", odd)] {
        begin(&fixture, id, json).await;
        for view in
            [json!({ "view": "run" }), json!({ "view": "value" }), json!({ "view": "graph" }), json!({ "view": "timeline" })]
        {
            let mut asked = view.clone();
            asked["run"] = json!(id);
            fixture.view(asked).await;
        }
        fixture.view(json!({ "view": "waiting" })).await;
        fixture.examine().await;
        let other = format!("{json} ").replace("1", "2").replace("\\udfff", "\\udffe");
        let fork = json!({ "kind": "fork", "run": id, "record": 1, "new": format!("{id}-2"), "state": other });
        fixture.order(fork).await;
        let diff = fixture.view(json!({ "view": "diff", "run": id, "from": 1, "to": 1, "other_run": format!("{id}-2") })).await;
        assert_eq!(diff["patch"].as_array().unwrap().len(), 1, "{id}");
        assert_eq!(fixture.text(json!({ "run": format!("{id}-2") })).await.unwrap(), other.trim());
    }
    let pointer = "/0".repeat(2_000);
    let level = fixture.view(json!({ "view": "value", "run": "deep", "pointer": pointer })).await;
    assert_eq!((&level["kind"], &level["bytes"]), (&json!("array"), &json!(deep.len() - 4_000)));
    let level = fixture.view(json!({ "view": "value", "run": "odd" })).await;
    // Half a character could hide a secret, so it is hidden too.
    assert_eq!((&level["entries"][0]["key"], &level["entries"][0]["text"]), (&json!("\\ud800"), &json!("\"[redacted]\"")));
    let level = fixture.view(json!({ "view": "value", "run": "odd", "pointer": "/ok" })).await;
    assert_eq!(level["text"], json!("\"[redacted]\""));
}

async fn k7_a_secret_is_hidden_at_every_level_and_in_differences(fixture: Fixture) {
    let state = |secret: &str| {
        let state = json!({
            "args": ["run", "--password", secret, "--secret", [secret]],
            "tags": [{ "name": "token", "value": { "x": [secret] } }],
            "pairs": [["cookie", secret], ["host", "h"]],
            "password": { "x": [secret] },
        });
        state.to_string()
    };
    begin(&fixture, "s", &state("canary-1")).await;
    for pointer in [
        "",
        "/args",
        "/args/2",
        "/args/4",
        "/args/4/0",
        "/tags",
        "/tags/0",
        "/tags/0/value",
        "/tags/0/value/x/0",
        "/pairs",
        "/pairs/0",
        "/pairs/0/1",
        "/password",
        "/password/x",
        "/password/x/0",
    ] {
        let level = fixture.view(json!({ "view": "value", "run": "s", "pointer": pointer })).await.to_string();
        assert!(level.contains("[redacted]") && !level.contains("canary"), "{pointer}: {level}");
        let part = fixture.part(json!({ "run": "s", "pointer": pointer })).await;
        let mut file = String::new();
        let _ = Redaction::new().write_at(part.place, &part.text, |piece| {
            file.push_str(&piece);
            ControlFlow::Continue(())
        });
        assert!(file.contains("[redacted]") && !file.contains("canary"), "{pointer}: {file}");
    }
    let level = fixture.view(json!({ "view": "value", "run": "s", "pointer": "/pairs/1" })).await;
    assert_eq!((&level["text"], &level["entries"][1]["text"]), (&json!("[\"host\",\"h\"]"), &json!("\"h\"")));
    fixture.order(json!({ "kind": "fork", "run": "s", "record": 1, "new": "s2", "state": state("canary-2") })).await;
    let diff = fixture.view(json!({ "view": "diff", "run": "s", "from": 1, "to": 1, "other_run": "s2" })).await;
    let patch = diff["patch"].to_string();
    assert_eq!((diff["patch"].as_array().unwrap().len(), patch.matches("[redacted]").count()), (5, 5), "{patch}");
    assert!(!patch.contains("canary"), "{patch}");
}
