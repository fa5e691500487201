//! `pleach doctor`: healthy stores, each finding, and its exit codes.

use crate::fixture::{Called, Fixture, Order, Place, call, client, on_both_stores, orders};
use crate::graphs::shards;
use serde_json::Value;

on_both_stores!(
    healthy_store_has_no_problem,
    stuck_unserved_and_paused_runs_are_found,
    lost_and_future_runs_are_found,
    damage_is_found,
    missing_indexes_are_found,
    other_formats_are_reported_and_not_changed,
    nothing_is_written,
);

fn doctor(fixture: &Fixture, extra: &[&str]) -> Called {
    call(&[&["doctor", &fixture.store], extra].concat())
}

/// Returns the level of each subject that is not well, and the whole report.
fn findings(fixture: &Fixture, extra: &[&str], code: i32) -> (Vec<(String, String)>, Value) {
    let called = doctor(fixture, &[extra, &["--json"]].concat());
    assert_eq!((called.code, called.err.as_str()), (code, ""), "{called:?}");
    let report: Value = serde_json::from_str(&called.out).unwrap();
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_string();
    let all = report["findings"].as_array().unwrap();
    for finding in all.iter().filter(|finding| finding["level"] != "ok") {
        // The reason why a store cannot be opened contains it.
        assert!(finding["advice"].is_string() || finding["subject"] == "reachable", "it says what to do: {finding}");
    }
    let bad = all.iter().filter(|finding| finding["level"] != "ok");
    let bad = bad.map(|finding| (text(finding, "subject"), text(finding, "level"))).collect();
    (bad, report)
}

fn pair(subject: &str, level: &str) -> (String, String) {
    (subject.into(), level.into())
}

async fn healthy_store_has_no_problem(place: Place) {
    let fixture = Fixture::full(place).await;
    assert_eq!(fixture.runs("delete", &["stuck-1", "--yes"]).code, 0);
    let (bad, report) = findings(&fixture, &[], 0);
    // A server for tests runs without fsync.
    let bad: Vec<_> = bad.into_iter().filter(|(subject, _)| subject != "server").collect();
    assert_eq!(bad, [], "{report}");
    let (full, _) = findings(&fixture, &["--full"], 0);
    assert!(full.iter().all(|(subject, _)| subject == "server"), "{full:?}");
    let text = doctor(&fixture, &[]);
    assert!(text.out.contains("0 problems") && text.out.contains("records of the 6 runs have the right checksums"), "{text:?}");
    let subjects = doctor(&fixture, &["--jq", ".findings[].subject"]).out;
    for subject in ["reachable", "runs", "drivers", "unserved", "retention", "checksums", "indexes", "size"] {
        assert!(subjects.lines().any(|line| line == subject), "{subject}: {subjects}");
    }
}

async fn stuck_unserved_and_paused_runs_are_found(place: Place) {
    let fixture = Fixture::full(place).await;
    assert_eq!(fixture.runs("pause", &["order-2"]).code, 0);
    // Two minutes ago, a run became due.
    orders().run(Order::new("tea")).id("due").checkpoint(&fixture.opened).enqueue().await.unwrap();
    fixture.make_overdue("due").await;
    let (bad, report) = findings(&fixture, &[], 7);
    for expected in [pair("stuck", "problem"), pair("unserved", "problem"), pair("paused", "warning")] {
        assert!(bad.contains(&expected), "{expected:?}: {report}");
    }
    let text = doctor(&fixture, &[]).out;
    for part in ["stuck-1", "pleach why", "due, and no worker claims them: due", "order-2", "pleach runs resume"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

async fn lost_and_future_runs_are_found(place: Place) {
    let fixture = Fixture::empty(place).await;
    for id in ["lost", "suspect"] {
        shards().run(Order::new("tea")).id(id).checkpoint(&fixture.opened).enqueue().await.unwrap();
    }
    fixture.lose_drivers("lost", 1).await;
    fixture.lose_drivers("suspect", 3).await;
    let (bad, report) = findings(&fixture, &[], 0);
    for expected in [pair("leases", "warning"), pair("suspects", "warning")] {
        assert!(bad.contains(&expected), "{expected:?}: {report}");
    }
}

async fn damage_is_found(place: Place) {
    let fixture = Fixture::full(place).await;
    fixture.damage_row("order-1").await;
    fixture.damage_record("order-2", 3).await;
    let (bad, report) = findings(&fixture, &[], 7);
    for expected in [pair("damaged", "problem"), pair("checksums", "problem")] {
        assert!(bad.contains(&expected), "{expected:?}: {report}");
    }
    let text = doctor(&fixture, &[]).out;
    assert!(
        text.contains("which no worker can claim: order-1") && text.contains("row 3 of run \"order-2\" is damaged"),
        "{text}"
    );
}

async fn missing_indexes_are_found(place: Place) {
    let fixture = Fixture::empty(place).await;
    let index = if place == Place::Sqlite { "run_due" } else { "pleach_run_due" };
    fixture.sql(&format!("DROP INDEX {index}")).await;
    let (bad, report) = findings(&fixture, &[], 7);
    assert!(bad.contains(&pair("indexes", "problem")) && report.to_string().contains(index), "{report}");
}

async fn other_formats_are_reported_and_not_changed(place: Place) {
    let fixture = Fixture::full(place).await;
    let known = fixture.format().await;
    for (format, part) in [(known + 1, "use a later version of pleach"), (known - 1, "migrates the store when it opens it")] {
        fixture.set_format(format).await;
        let (bad, report) = findings(&fixture, &[], 5);
        assert!(bad.contains(&pair("reachable", "problem")) && report.to_string().contains(part), "{report}");
        assert_eq!(fixture.format().await, format);
    }
}

async fn nothing_is_written(place: Place) {
    let fixture = Fixture::full(place).await;
    let before = fixture.json("list", &[]);
    for extra in [&[][..], &["--full"]] {
        assert_eq!(doctor(&fixture, extra).code, 7, "a run is stuck");
    }
    assert_eq!(fixture.json("list", &[]), before);
    let missing = fixture.folder.join("missing.db");
    let called = call(&["doctor", missing.to_str().unwrap()]);
    assert!(called.code == 3 && called.out.contains("there is no file") && !missing.exists(), "{called:?}");
}

#[tokio::test]
async fn unreachable_server_is_a_finding_with_its_exit_code() {
    let called = call(&["doctor", "postgres://me:s3cret@127.0.0.1:1/none?connect_timeout=2"]);
    assert_eq!(called.code, 5, "{called:?}");
    assert!(called.out.contains("PROBLEM  reachable") && called.out.contains("could not be reached"), "{called:?}");
    assert!(!called.out.contains("s3cret"), "{called:?}");
    assert_eq!(call(&["doctor", "mysql://h/d"]).code, 2);
}

/// A role that may only read: the store can be examined, and what a program lacks is listed.
#[tokio::test]
async fn missing_privileges_are_found() {
    let fixture = Fixture::full(Place::Postgres).await;
    let (server, schema) = fixture.store.split_once("?options=-csearch_path%3D").unwrap();
    let role = format!("reader_{schema}");
    let admin = client(server).await;
    let grants = format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}"
    );
    admin.batch_execute(&grants).await.unwrap();
    let url = fixture.store.replacen("pleach@", &format!("{role}@"), 1);
    let called = call(&["doctor", &url]);
    assert!(called.code == 7 && called.out.contains("INSERT, UPDATE, DELETE on pleach_run"), "{called:?}");
    assert!(called.out.contains("GRANT INSERT, UPDATE, DELETE ON pleach_inbox TO"), "{called:?}");
    for word in [&["runs", "list", &url][..], &["runs", "show", &url, "order-2"], &["why", &url, "order-2"]] {
        assert_eq!(call(word).code, 0, "{word:?}");
    }
    let refused = call(&["runs", "answer", &url, "order-2", "approve", "true"]);
    assert!(refused.code == 5 && refused.err.contains("grant the role"), "{refused:?}");
    let forbidden = format!("REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM {role}");
    admin.batch_execute(&forbidden).await.unwrap();
    let called = call(&["doctor", &url]);
    assert!(called.code == 5 && called.out.contains("grant the role SELECT"), "{called:?}");
    admin.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn rights_of_a_file_are_examined() {
    use std::os::unix::fs::PermissionsExt as _;
    let fixture = Fixture::empty(Place::Sqlite).await;
    std::fs::set_permissions(&fixture.store, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (bad, report) = findings(&fixture, &[], 0);
    assert_eq!(bad, [pair("rights", "warning")], "{report}");
    let command = doctor(&fixture, &["--jq", ".findings[] | select(.subject == \"rights\") | .command"]).out;
    assert_eq!(command, format!("chmod 600 {}\n", fixture.store));
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn process_is_examined_through_its_socket() {
    use std::os::unix::fs::PermissionsExt as _;
    let process = crate::process::Process::start([pleach::inspect::InspectAction::Stop]);
    let report = process.json("doctor", &[]);
    assert_eq!((&report["kind"], &report["worst"]), (&"process".into(), &"ok".into()), "{report}");
    let text = process.call("doctor", &[]).out;
    for part in ["shop (process ", "only its user can connect (mode 600)", "health       healthy", "allowed: stop", "protocol "]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let report = process.system.root().report_health(pleach::inspect::Problem::new("bank", "the bank is away"));
    let degraded = process.call("doctor", &[]);
    assert!(
        degraded.code == 7 && degraded.out.contains("PROBLEM  health") && degraded.out.contains("the bank is away"),
        "{degraded:?}"
    );
    drop(report);
    std::fs::set_permissions(&process.socket, std::fs::Permissions::from_mode(0o666)).unwrap();
    let open = process.call("doctor", &[]);
    assert!(open.code == 7 && open.out.contains(&format!("do: chmod 600 {}", process.socket)), "{open:?}");
    let missing = call(&["doctor", &format!("unix:{}.none", process.socket)]);
    assert!(
        missing.code == 3 && missing.out.contains("PROBLEM  reachable") && missing.out.contains("start the process"),
        "{missing:?}"
    );
}
