//! The shape of the JSON of the words that look at a process. Programs read it, so fields are only
//! added. With `PLEACH_WRITE_GOLDEN=1` the files are written instead of compared.

use crate::process::{Job, Process, until, worker};
use pleach::inspect::InspectAction;
use pleach::prelude::*;
use serde_json::Value;

/// Replaces what differs from call to call: times, ids, the process and its socket.
fn normal(value: &mut Value, socket: &str) {
    match value {
        Value::String(text) => {
            *text = text.replace(socket, "SOCKET");
            if text.contains(" ago") || text.contains(" for at least ") || text.contains("(ask, ") {
                // Sentences with a duration: only that there is one counts.
                *text = "SENTENCE".into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| normal(item, socket)),
        Value::Object(fields) => {
            for (key, field) in fields {
                match (key.as_str(), field) {
                    ("pid" | "id" | "seq" | "at" | "incarnation", field) => *field = "VARIES".into(),
                    (key, field) if key.ends_with("_us") && field.is_number() => *field = "MICROS".into(),
                    (_, field) => normal(field, socket),
                }
            }
        }
        _ => {}
    }
}

fn compare(name: &str, mut json: Value, socket: &str) {
    normal(&mut json, socket);
    let text = serde_json::to_string_pretty(&json).unwrap() + "\n";
    let path = format!("{}/tests/command/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("PLEACH_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let expected: Value = serde_json::from_str(&expected).unwrap_or_default();
    assert_eq!(json, expected, "{name} has another shape than {path}");
}

#[tokio::test(flavor = "multi_thread")]
async fn json_of_a_process_has_its_shape() {
    let process = Process::with(|options| options.allow([InspectAction::Suspend]).on_log_level(|_| Ok(())));
    let gate = process.chain().await;
    process.give_up().await;
    let failed = process.system.spawn_started("failed", worker().restart(RestartPolicy::Permanent)).await.unwrap();
    failed.tell(Job::Fail("no ink")).unwrap();
    until(|| failed.any().counts().failed == 1 && failed.any().info().last_failure.is_some()).await;
    for (name, word, arguments) in [
        ("live_tree", "tree", &["/user", "--limit", "3"][..]),
        ("live_health", "health", &[]),
        ("live_why", "why", &["/user/till"]),
        ("live_order", "suspend", &["/user/failed", "--dry-run"]),
        ("live_log_level", "log-level", &["info"]),
    ] {
        let mut json = process.json(word, arguments);
        if json["next"].is_string() {
            json["next"] = "CURSOR".into();
        }
        compare(name, json, &process.socket);
    }
    let events = process.call("events", &["--follow", "--kinds", "health", "--timeout", "2s", "--json"]);
    let first = events.out.lines().next().unwrap_or_else(|| panic!("{events:?}"));
    compare("live_event", serde_json::from_str(first).unwrap(), &process.socket);
    gate.add_permits(1);
}
