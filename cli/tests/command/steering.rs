//! The words that change a run: `rewind`, `fork`, `retry`, `unstick`.

use crate::fixture::{BIG, Fixture, Place, on_both_stores, orders};
use pleach::prelude::*;
use pleach::store::{Lease, RunStatus, Wanted};

on_both_stores!(
    rewind_lists_what_runs_again_and_continues,
    fork_creates_a_run_with_an_exact_state,
    retry_continues_a_failed_run,
    unstick_lets_workers_claim_again,
    impossible_changes_are_refused,
);

async fn rewind_lists_what_runs_again_and_continues(place: Place) {
    let fixture = Fixture::full(place).await;
    let dry = fixture.runs("rewind", &["order-1", "1", "--dry-run"]);
    assert!(dry.out.contains("runs again: effect charge of pay (record 2)"), "{dry:?}");
    assert!(dry.out.contains("is waited for again: approve of approve"), "{dry:?}");
    let asked = fixture.runs("rewind", &["order-1", "1"]);
    assert!(asked.code == 4 && asked.err.contains("effect charge") && asked.out.is_empty(), "{asked:?}");
    assert_eq!(fixture.status("order-1").await, RunStatus::Finished);
    let done = fixture.json("rewind", &["order-1", "1", "--yes"]);
    assert_eq!(done["preview"]["effects_again"][0]["name"], "charge");
    let info = fixture.opened.head("order-1").await.unwrap();
    assert_eq!((info.status, info.owner, done["record"].as_u64()), (RunStatus::Running, None, Some(info.head)));
    let paused = orders().resume("order-1").checkpoint(&fixture.opened).await.unwrap_err();
    assert!(matches!(paused.fault(), RunFault::Paused { .. }), "it asks again: {paused}");
}

async fn fork_creates_a_run_with_an_exact_state(place: Place) {
    let fixture = Fixture::full(place).await;
    let state = r#"{"number": 340282366920938463463374607431768211454, "cents": 1, "note": "new", "steps": []}"#;
    let forked = fixture.json("fork", &["order-1", "1", "-new", "--state", state, "--yes"]);
    assert_eq!(forked["new_run"], "-new");
    let shown = fixture.runs("show", &["-new", "--jq", ".tokens[0].state.number, .tags.customer, .forked_from.run"]).out;
    assert_eq!(shown, format!("{}\n41\norder-1\n", BIG - 1));
    let exists = fixture.runs("fork", &["order-1", "1", "order-2", "--yes"]);
    assert!(exists.code == 4 && exists.err.contains("already exists"), "{exists:?}");
    assert_eq!(fixture.runs("fork", &["order-1", "1", "other", "--state", "{", "--yes"]).code, 2);
}

async fn retry_continues_a_failed_run(place: Place) {
    let fixture = Fixture::full(place).await;
    let done = fixture.runs("retry", &["order-3", "--yes"]);
    assert!(done.code == 0 && done.out.contains("a worker continues it"), "{done:?}");
    assert!(done.err.contains("it continues after record"), "{done:?}");
    assert_eq!(fixture.status("order-3").await, RunStatus::Running);
    let again = fixture.runs("retry", &["order-3", "--yes"]);
    assert!(again.code == 4 && again.err.contains("not failed"), "{again:?}");
    let failed = orders().resume("order-3").checkpoint(&fixture.opened).await.unwrap_err();
    assert!(matches!(failed.fault(), RunFault::Node(_)), "the node ran again: {failed}");
}

async fn unstick_lets_workers_claim_again(place: Place) {
    let fixture = Fixture::full(place).await;
    let asked = fixture.runs("unstick", &["stuck-1"]);
    assert!(asked.code == 4 && asked.err.contains("no printer"), "{asked:?}");
    assert_eq!(fixture.runs("unstick", &["stuck-1", "--yes"]).code, 0);
    assert_eq!(fixture.status("stuck-1").await, RunStatus::Running);
    assert_eq!(fixture.runs("unstick", &["stuck-1", "--yes"]).code, 4);
}

async fn impossible_changes_are_refused(place: Place) {
    let fixture = Fixture::full(place).await;
    for (word, arguments, code, part) in [
        ("rewind", &["order-1", "99", "--yes"][..], 3, "no row 99"),
        ("rewind", &["order-1", "0", "--yes"], 3, "no row 0"),
        ("fork", &["order-1", "99", "new", "--yes"], 3, "no row 99"),
        ("rewind", &["nothing", "1", "--yes"], 3, "no run"),
        ("retry", &["order-1", "--yes"], 4, "finished, not failed"),
        ("retry", &["order-1", "--dry-run"], 4, "finished, not failed"),
        ("unstick", &["order-1", "--dry-run"], 4, "finished, not stuck"),
    ] {
        let called = fixture.runs(word, arguments);
        assert!(called.code == code && called.err.contains(part), "{word} {arguments:?} {called:?}");
    }
    let head = fixture.opened.head("order-1").await.unwrap().head.to_string();
    let at_end = fixture.runs("rewind", &["order-1", &head, "--yes"]);
    assert!(at_end.code == 4 && at_end.err.contains("had ended at record"), "{at_end:?}");
    let lease = Lease { owner: "ann".into(), length: Duration::from_secs(60) };
    fixture.opened.claim(Wanted::One { run: "order-2".into(), force: false }, lease).await.unwrap();
    let held = fixture.runs("rewind", &["order-2", "1", "--yes"]);
    assert!(held.code == 4 && held.err.contains("ann") && held.err.contains("pleach runs pause"), "{held:?}");
    assert_eq!(fixture.opened.head("order-2").await.unwrap().owner.as_deref(), Some("ann"));
}
