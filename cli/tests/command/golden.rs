//! The shape of the JSON of every word. Programs read it, so fields are only added.
//!
//! With `PLEACH_WRITE_GOLDEN=1` the files are written instead of compared.

use crate::fixture::{Fixture, Place, call, on_both_stores, orders, waits};
use serde_json::Value;

on_both_stores!(json_of_every_word_has_its_shape);

/// Replaces what differs from call to call: times, keys, the store, the messages of a driver.
fn normal(value: &mut Value, store: &str) {
    match value {
        Value::String(text) if text == store || store.starts_with(text.as_str()) && text.len() > 20 => *text = "STORE".into(),
        Value::String(text) if text.len() == 24 && text.ends_with('Z') && text.as_bytes()[10] == b'T' => *text = "TIME".into(),
        Value::Array(items) => items.iter_mut().for_each(|item| normal(item, store)),
        Value::Object(fields) => {
            for (key, field) in fields {
                match (key.as_str(), field) {
                    ("idempotency_key", field) => *field = "KEY".into(),
                    ("next_commands" | "command" | "do", field) if !field.is_null() => *field = "COMMANDS".into(),
                    // No number type of the tests holds it; `states_are_exact` compares its digits.
                    ("number", field) if field.is_number() => *field = "BIG".into(),
                    (_, field) => normal(field, store),
                }
            }
        }
        _ => {}
    }
}

fn compare(name: &str, out: &str, store: &str) {
    let mut json: Value = serde_json::from_str(out).unwrap_or_else(|error| panic!("{name}: {error}: {out}"));
    if json["store"].is_string() {
        json["store"] = "STORE".into();
    }
    normal(&mut json, store);
    let text = serde_json::to_string_pretty(&json).unwrap() + "\n";
    let path = format!("{}/tests/command/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("PLEACH_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    // The order of fields is not part of the shape.
    let expected: Value = serde_json::from_str(&expected).unwrap_or_default();
    assert_eq!(json, expected, "{name} has another shape than {path}");
}

async fn json_of_every_word_has_its_shape(place: Place) {
    let fixture = Fixture::full(place).await;
    for run in ["order-2", "order-3"] {
        let name = if run == "order-2" { "why_waiting" } else { "why_failed" };
        compare(name, &call(&["why", &fixture.store, run, "--json"]).out, &fixture.store);
    }
    let doctor =
        call(&["doctor", &fixture.store, "--jq", ".findings |= map(select(.subject == \"stuck\")) | .target = \"TARGET\""]);
    compare("doctor", &doctor.out.replace(if place == Place::Sqlite { "sqlite" } else { "postgres" }, "KIND"), &fixture.store);
    for (name, word, arguments) in [
        ("list", "list", &["--limit", "2"][..]),
        ("groups", "list", &["--group-by", "error"]),
        ("show_waiting", "show", &["order-2"]),
        ("show_failed", "show", &["order-3"]),
        ("state", "show", &["order-2", "--record", "1"]),
        ("history", "history", &["order-3"]),
        ("diff", "diff", &["order-2", "1", "3"]),
        ("answer", "answer", &["order-2", "approve", "true"]),
        ("rewind", "rewind", &["order-1", "1", "--dry-run"]),
        ("retry", "retry", &["order-3", "--yes"]),
        ("fork", "fork", &["order-1", "1", "new", "--yes"]),
        ("delete", "delete", &["order-1", "--yes"]),
        ("prune", "prune", &["--older-than", "1h", "--dry-run"]),
    ] {
        let called = fixture.runs(word, &[arguments, &["--json"]].concat());
        assert_eq!(called.code, 0, "{called:?}");
        compare(name, &with_cursor(called.out), &fixture.store);
    }
    let file = fixture.exports(&[orders().export(), waits().export()]);
    compare("check", &call(&["check", &fixture.store, "--graphs", &file, "--json"]).out, &fixture.store);
}

/// Replaces the cursor of a list, which contains a time.
fn with_cursor(out: String) -> String {
    let mut json: Value = serde_json::from_str(&out).unwrap();
    if json["runs"].is_array() && json["next"].is_string() {
        json["next"] = "CURSOR".into();
        return json.to_string();
    }
    out
}
