//! The words that send messages: `answer`, `signal`, `pause`, `resume`, `cancel`; and `delete`,
//! `prune`.

use crate::fixture::{Fixture, Place, on_both_stores, orders, pleach, waits};
use pleach::prelude::*;
use pleach::store::{Lease, RunStatus, Wanted};
use pleach::worker::{RunningWorker, Worker};
use std::io::Write as _;
use std::process::Stdio;

on_both_stores!(
    answer_and_signal_continue_runs,
    refused_and_unconfirmed_messages_have_exit_codes,
    pause_resume_and_cancel_are_taken,
    ended_runs_take_no_messages,
    delete_asks_first,
    prune_removes_old_ended_runs,
    dry_runs_change_nothing,
);

/// Starts a worker for both graphs.
async fn worker(fixture: &Fixture) -> RunningWorker {
    Worker::new(&fixture.opened).graph(&orders()).graph(&waits()).poll_every(Duration::from_millis(100)).start().unwrap()
}

async fn answer_and_signal_continue_runs(place: Place) {
    let fixture = Fixture::full(place).await;
    let stored = fixture.runs("answer", &["order-2", "approve", "true"]);
    assert_eq!((stored.code, stored.err.as_str()), (0, ""), "{stored:?}");
    assert!(stored.out.contains("stored"), "{stored:?}");
    let worker = worker(&fixture).await;
    let taken = fixture.json("answer", &["-dash", "approve", "false", "--wait", "30s"]);
    assert_eq!((&taken["outcome"], &taken["action"]), (&"taken".into(), &"answer".into()));
    let mut signal = pleach(&["runs", "signal", &fixture.store, "signal-1", "more", "-", "--wait", "30s"]);
    let mut child = signal.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b" 250\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(fixture.runs("tail", &["order-2", "--timeout", "30s"]).code, 0);
    assert_eq!(fixture.runs("tail", &["signal-1", "--timeout", "30s"]).code, 0);
    assert_eq!(fixture.runs("show", &["signal-1", "--jq", ".tokens[0].state.cents"]).out, "750\n");
    worker.cancel().await;
}

async fn refused_and_unconfirmed_messages_have_exit_codes(place: Place) {
    let fixture = Fixture::full(place).await;
    let unconfirmed = fixture.runs("signal", &["order-2", "more", "1", "--wait", "50ms"]);
    assert_eq!(unconfirmed.code, 6, "{unconfirmed:?}");
    assert!(unconfirmed.err.contains("does not wait for more now; it waits for approve"), "{unconfirmed:?}");
    let worker = worker(&fixture).await;
    let refused = fixture.runs("answer", &["order-2", "approve", "\"banana\"", "--wait", "30s"]);
    assert!(refused.code == 4 && refused.err.contains("banana"), "{refused:?}");
    let shown = fixture.runs("show", &["order-2"]).out;
    assert!(shown.contains("refused     answer/approve"), "{shown}");
    worker.cancel().await;
}

async fn pause_resume_and_cancel_are_taken(place: Place) {
    let fixture = Fixture::full(place).await;
    let worker = worker(&fixture).await;
    assert_eq!(fixture.runs("pause", &["order-2", "--wait", "30s"]).code, 0);
    let shown = fixture.runs("show", &["order-2"]).out;
    assert!(shown.contains("paused") && shown.contains("pleach runs resume"), "{shown}");
    assert_eq!(fixture.runs("resume", &["order-2", "--wait", "30s"]).code, 0);
    let asked = fixture.runs("cancel", &["order-2"]);
    assert!(asked.code == 4 && asked.err.contains("--yes"), "{asked:?}");
    assert!(!fixture.status("order-2").await.has_ended());
    let cancelled = fixture.runs("cancel", &["order-2", "--yes", "--reason", "lost interest", "--wait", "30s"]);
    assert_eq!(cancelled.code, 0, "{cancelled:?}");
    assert_eq!(fixture.status("order-2").await, RunStatus::Cancelled);
    let shown = fixture.runs("show", &["order-2"]).out;
    assert!(shown.contains("lost interest") && shown.contains("pleach runs rewind"), "{shown}");
    worker.cancel().await;
}

async fn ended_runs_take_no_messages(place: Place) {
    let fixture = Fixture::full(place).await;
    for (word, arguments) in [
        ("answer", &["order-1", "approve", "true"][..]),
        ("answer", &["order-1", "approve", "true", "--dry-run"]),
        ("pause", &["order-1"]),
        ("resume", &["order-1", "--dry-run"]),
        ("cancel", &["order-1", "--yes"]),
    ] {
        let called = fixture.runs(word, arguments);
        assert!(called.code == 4 && called.err.contains("has ended (finished)"), "{called:?}");
    }
}

async fn delete_asks_first(place: Place) {
    let fixture = Fixture::full(place).await;
    let asked = fixture.runs("delete", &["order-1"]);
    assert!(asked.code == 4 && asked.out.is_empty() && asked.err.contains("not confirmed"), "{asked:?}");
    let lease = Lease { owner: "ann".into(), length: Duration::from_secs(60) };
    fixture.opened.claim(Wanted::One { run: "order-2".into(), force: false }, lease).await.unwrap();
    let held = fixture.runs("delete", &["order-2", "--yes"]);
    assert!(held.code == 4 && held.err.contains("ann") && held.err.contains("pleach runs pause"), "{held:?}");
    assert_eq!(fixture.runs("delete", &["order-1", "--yes"]).code, 0);
    assert_eq!(fixture.runs("show", &["order-1"]).code, 3);
}

async fn prune_removes_old_ended_runs(place: Place) {
    let fixture = Fixture::full(place).await;
    let none = fixture.json("prune", &["--older-than", "1h", "--yes"]);
    assert_eq!((&none["runs"], &none["removed"]), (&0.into(), &0.into()));
    let dry = fixture.json("prune", &["--older-than", "0s", "--dry-run"]);
    assert_eq!((&dry["runs"], &dry["removed"]), (&2.into(), &0.into()));
    assert_eq!(fixture.runs("prune", &["--older-than", "0s"]).code, 4);
    let removed = fixture.runs("prune", &["--older-than", "0s", "--yes"]);
    assert_eq!((removed.code, removed.out.as_str()), (0, "2 ended runs were removed\n"), "{removed:?}");
    assert_eq!(fixture.runs("show", &["order-3"]).code, 3);
    assert_eq!(fixture.runs("show", &["order-2"]).code, 0);
}

async fn dry_runs_change_nothing(place: Place) {
    let fixture = Fixture::full(place).await;
    let before = fixture.json("list", &[]);
    for (word, arguments) in [
        ("answer", &["order-2", "approve", "true"][..]),
        ("signal", &["signal-1", "more", "1"]),
        ("pause", &["order-2"]),
        ("resume", &["order-2"]),
        ("cancel", &["order-2"]),
        ("rewind", &["order-1", "1"]),
        ("fork", &["order-1", "1", "new"]),
        ("retry", &["order-3"]),
        ("unstick", &["stuck-1"]),
        ("delete", &["order-1"]),
    ] {
        let report = fixture.json(word, &[arguments, &["--dry-run"]].concat());
        assert_eq!((&report["action"], &report["is_dry_run"]), (&word.into(), &true.into()));
    }
    assert_eq!(fixture.json("list", &[]), before);
    assert_eq!(fixture.opened.inbox("order-2", 0).await.unwrap(), []);
}
