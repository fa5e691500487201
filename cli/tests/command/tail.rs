//! `tail`: until the run ends, for a time, and while the store goes away.

use crate::fixture::{Called, Fixture, Place, on_both_stores, orders, pleach};
use pleach::store::PostgresStore;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

on_both_stores!(ended_runs_have_exit_codes, records_are_printed_as_they_come, timeout_is_an_exit_code);

async fn ended_runs_have_exit_codes(place: Place) {
    let fixture = Fixture::full(place).await;
    let finished = fixture.runs("tail", &["order-1", "--from", "1"]);
    assert_eq!(finished.code, 0, "{finished:?}");
    assert!(
        finished.out.lines().count() >= 6 && finished.out.contains("charge") || finished.out.contains("effect"),
        "{finished:?}"
    );
    let failed = fixture.runs("tail", &["order-3"]);
    assert!(failed.code == 1 && failed.err.contains("has ended: failed"), "{failed:?}");
    assert_eq!(failed.out.lines().count(), 1, "one line per record: {failed:?}");
}

async fn records_are_printed_as_they_come(place: Place) {
    let fixture = Fixture::full(place).await;
    let mut command = pleach(&["runs", "tail", &fixture.store, "order-2", "--from", "1", "--json", "--timeout", "60s"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!((&first["version"], &first["record"], &first["kind"]), (&1.into(), &1.into(), &"start".into()));
    orders().resume("order-2").resume_with("approve", &true).checkpoint(&fixture.opened).await.unwrap();
    let rest: Vec<serde_json::Value> = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    let numbers: Vec<u64> = rest.iter().map(|record| record["record"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (2..2 + numbers.len() as u64).collect::<Vec<_>>());
    assert!(child.wait().unwrap().success());
}

async fn timeout_is_an_exit_code(place: Place) {
    let fixture = Fixture::full(place).await;
    let called = fixture.runs("tail", &["order-2", "--timeout", "100ms"]);
    assert!(called.code == 6 && called.err.contains("had not ended"), "{called:?}");
}

/// Moves the file away while `tail` reads it.
#[tokio::test(flavor = "multi_thread")]
async fn store_that_goes_away_is_tried_again_then_given_up() {
    let fixture = Fixture::full(Place::Sqlite).await;
    let (path, away) = (fixture.folder.join("runs.db"), fixture.folder.join("away.db"));
    for comes_back in [true, false] {
        let arguments = [
            "runs",
            "tail",
            &fixture.store,
            "order-2",
            "--retry-for",
            if comes_back { "60s" } else { "1s" },
            "--timeout",
            "60s",
        ];
        let mut child = pleach(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        lines.next().unwrap().unwrap();
        std::fs::rename(&path, &away).unwrap();
        let mut remarks = BufReader::new(child.stderr.take().unwrap()).lines();
        let remark = remarks.next().unwrap().unwrap();
        assert!(remark.contains("the store does not answer; trying again"), "{remark}");
        if !comes_back {
            assert_eq!(child.wait().unwrap().code(), Some(5));
            let last = remarks.last().unwrap().unwrap();
            assert!(last.contains("did not answer for 1s"), "{last}");
            std::fs::rename(&away, &path).unwrap();
            continue;
        }
        std::fs::rename(&away, &path).unwrap();
        assert_eq!(remarks.next().unwrap().unwrap(), "the store answers again");
        orders().resume("order-2").resume_with("approve", &true).checkpoint(&fixture.opened).await.unwrap();
        let output = child.wait().unwrap();
        assert!(output.success());
        orders().run(crate::fixture::Order::new("again")).id("order-4").checkpoint(&fixture.opened).await.unwrap_err();
        let _: Called = fixture.runs("rewind", &["order-2", "1", "--yes"]);
    }
}

/// Kills the server while `tail` reads, and starts it again.
#[tokio::test(flavor = "multi_thread")]
async fn server_that_is_restarted_is_found_again() {
    let mut server = xtask::postgres::Postgres::start().unwrap();
    let url = server.url();
    let store = PostgresStore::connect(&url).await.unwrap();
    let order = || orders().run(crate::fixture::Order::new("tea")).id("order-1");
    order().checkpoint(&store).await.unwrap_err();
    let mut tail = pleach(&["runs", "tail", &url, "order-1", "--retry-for", "60s", "--timeout", "120s"]);
    let mut child = tail.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    server.kill();
    let mut remarks = BufReader::new(child.stderr.take().unwrap()).lines();
    let remark = remarks.next().unwrap().unwrap();
    assert!(remark.contains("the store does not answer; trying again"), "{remark}");
    server.restart().unwrap();
    assert_eq!(remarks.next().unwrap().unwrap(), "the store answers again");
    orders().resume("order-1").resume_with("approve", &true).checkpoint(&store).await.unwrap();
    assert!(child.wait().unwrap().success());
    assert!(lines.count() >= 2, "the records after the restart were printed");
}
