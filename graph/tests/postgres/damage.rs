//! C2, C9: damage to the tables stays with its run. `cargo xtask test` starts a server.
#![cfg(all(feature = "conformance", feature = "postgres"))]

use crate::common::postgres::{connect, fresh_schema};
use crate::common::{by_pages_of_one, create_held, forced, lease, next, queued, ready, row};
use pleach_graph::store::{
    Commit, Filter, Held, NewMessage, NewRun, Parts, PostgresStore, Prune, Rows, RunStatus, Store, StoreError, Tags,
};

#[tokio::test]
async fn c2_damage_to_the_tables_is_found_and_named() {
    let url = fresh_schema().await;
    let store = PostgresStore::connect(&url).await.unwrap();
    let claimed = create_held(&store, "r").await;
    store.commit(next(&claimed, b"{\"a\":1}")).await.unwrap();
    let direct = connect(&url).await;
    let opened = async || store.read("r", Rows::Each(vec![2]), Parts::Whole).await?.remove(0).open("r");
    for column in ["header", "body"] {
        for byte in 0..7 {
            let flip = format!(
                "UPDATE pleach_log SET {column} = set_byte({column}, {byte}, get_byte({column}, {byte}) # 4) WHERE seq = 2"
            );
            direct.execute(&flip, &[]).await.unwrap();
            let damaged = opened().await;
            assert!(matches!(&damaged, Err(StoreError::Damaged { run, sequence: 2, .. }) if run == "r"), "{damaged:?}");
            direct.execute(&flip, &[]).await.unwrap();
        }
    }
    opened().await.unwrap();
    direct.execute("DELETE FROM pleach_log WHERE seq = 2", &[]).await.unwrap();
    assert!(matches!(opened().await, Err(StoreError::Damaged { sequence: 2, .. })));
}

#[tokio::test]
async fn c2_damaged_row_stays_detected_after_later_writes() {
    let url = fresh_schema().await;
    let store = PostgresStore::connect(&url).await.unwrap();
    let direct = connect(&url).await;
    let columns = ["epoch", "head", "oldest", "posted", "created", "wake_at", "lease_until", "schema", "sum", "instance"];
    for (column, bit) in columns.into_iter().flat_map(|column| [12, 40].map(|bit| (column, bit))) {
        let bit = if column == "schema" { 12 } else { bit };
        let claim = create_held(&store, "r").await;
        store.create(queued("well"), vec![row("well", 1, 1, b"{}")]).await.unwrap();
        let flip = format!("UPDATE pleach_run SET {column} = {column} # (1::bigint << {bit}) WHERE id = 'r'");
        direct.execute(&flip, &[]).await.unwrap();
        // A write that does not read that column must not repair its checksum.
        let held = Held::of(&claim.run);
        store.renew(vec![held.clone()], crate::common::LONG).await.unwrap();
        let last = Commit { status: Some(RunStatus::Finished), release: true, ..next(&claim, b"{}") };
        drop(store.commit(last).await);
        let named = |error: StoreError| {
            assert!(matches!(&error, StoreError::Damaged { run, sequence: 0, .. } if run == "r"), "{column}: {error}");
        };
        named(store.head("r").await.unwrap_err());
        let list = store.list(Vec::new(), None, 9).await.unwrap();
        assert_eq!(list.damaged.iter().map(|one| one.run.as_str()).collect::<Vec<_>>(), ["r"], "{column}");
        assert_eq!(list.runs.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), ["well"], "{column}");
        named(store.claim(forced("r"), lease("bob")).await.unwrap_err());
        named(store.send_message("r", NewMessage::seal("r", "signal/go", None, b"1".to_vec())).await.unwrap_err());
        named(store.prune(Prune::Rows { held, before: 1, keep: vec![] }).await.unwrap_err());
        // Other runs are still claimed, and the run can be deleted once it is not held.
        let ready_again = "UPDATE pleach_run SET owner = NULL, lease_until = NULL, wake_at = 1 WHERE id = 'r'";
        direct.execute(ready_again, &[]).await.unwrap();
        let claims = store.claim(ready(9), lease("bob")).await.unwrap();
        assert_eq!(claims.iter().map(|claim| claim.run.id.as_str()).collect::<Vec<_>>(), ["well"], "{column}");
        direct.execute("UPDATE pleach_run SET owner = NULL, lease_until = NULL", &[]).await.unwrap();
        store.delete("r").await.unwrap();
        store.delete("well").await.unwrap();
    }
}

/// Impossible numbers in every numeric column, and unknown status texts.
#[tokio::test]
async fn c2_impossible_values_fail_no_page_and_no_claim() {
    let url = fresh_schema().await;
    let store = PostgresStore::connect(&url).await.unwrap();
    let direct = connect(&url).await;
    let numbers = [
        "epoch",
        "head",
        "oldest",
        "posted",
        "instance",
        "takeovers",
        "schema",
        "created",
        "wake_at",
        "lease_until",
        "deadline",
    ];
    let values = ["-2", "-9223372036854775808", "9223372036854775807", "4294967296"];
    let mut changes: Vec<String> =
        numbers.iter().flat_map(|column| values.map(|value| format!("{column} = {value}"))).collect();
    changes.extend(["status = 'none'", "status = ''", "from_run = 'x'", "id = 'renamed'"].map(String::from));
    for change in changes {
        for id in ["before", "r", "after"] {
            store.create(queued(id), vec![row(id, 1, 1, b"{}")]).await.unwrap();
        }
        let broken: String =
            direct.query_one(&format!("UPDATE pleach_run SET {change} WHERE id = 'r' RETURNING id"), &[]).await.unwrap().get(0);
        let page = store.list(vec![], None, 9).await.unwrap();
        let ids: Vec<&str> = page.runs.iter().map(|run| run.id.as_str()).collect();
        assert_eq!(ids, ["after", "before"], "{change}");
        assert_eq!(page.damaged.iter().map(|run| run.run.as_str()).collect::<Vec<_>>(), [&broken], "{change}");
        assert!(matches!(store.head(&broken).await, Err(StoreError::Damaged { .. })), "{change}");
        let by_graph = store.list(vec![Filter::Graph("essay".into())], None, 9).await.unwrap();
        assert_eq!((by_graph.runs.len(), by_graph.damaged), (page.runs.len(), page.damaged), "{change}");
        let mut claimed: Vec<String> =
            store.claim(ready(9), lease("bob")).await.unwrap().into_iter().map(|claim| claim.run.id).collect();
        claimed.sort_unstable();
        assert_eq!(claimed, ["after", "before"], "{change}");
        direct.execute("DELETE FROM pleach_run", &[]).await.unwrap();
    }
}

#[tokio::test]
async fn c2_damaged_run_keeps_its_place_between_two_pages() {
    let url = fresh_schema().await;
    let store = PostgresStore::connect(&url).await.unwrap();
    for id in ["a", "b", "c"] {
        store.create(queued(id), vec![row(id, 1, 1, b"{}")]).await.unwrap();
    }
    connect(&url).await.execute("UPDATE pleach_run SET head = -5 WHERE id = 'b'", &[]).await.unwrap();
    assert_eq!(by_pages_of_one(&store, Filter::Graph("essay".into())).await, ["c", "b is damaged", "a"]);
}

#[tokio::test]
async fn o7_damaged_creation_time_skips_no_run_of_a_page() {
    let url = fresh_schema().await;
    let store = PostgresStore::connect(&url).await.unwrap();
    let direct = connect(&url).await;
    let mut tags = Tags::default();
    tags.set("customer", "1").unwrap();
    for id in ["a", "b", "c", "d"] {
        let new = NewRun { tags: tags.clone(), ..queued(id) };
        store.create(new, vec![row(id, 1, 1, b"{}")]).await.unwrap();
    }
    for created in ["1", "9223372036854775807", "-1"] {
        let damage = format!("UPDATE pleach_run SET created = {created} WHERE id = 'c'");
        direct.execute(&damage, &[]).await.unwrap();
        let listed = by_pages_of_one(&store, Filter::tag("customer", "1")).await;
        assert_eq!(listed, ["d", "c is damaged", "b", "a"], "{created}");
    }
}

#[tokio::test]
async fn c9_damaged_message_does_not_hide_the_others() {
    let url = fresh_schema().await;
    let store = PostgresStore::connect(&url).await.unwrap();
    let direct = connect(&url).await;
    let damages =
        ["sum = -1", "sum = 9223372036854775807", "sum = sum # 1", "payload = 'x'", "name = 'signal/other'", "dedup = 'x'"];
    for damage in damages {
        let claim = create_held(&store, "r").await;
        for payload in [b"1", b"2", b"3"] {
            store.send_message("r", NewMessage::seal("r", "signal/go", None, payload.to_vec())).await.unwrap();
        }
        direct.execute(&format!("UPDATE pleach_inbox SET {damage} WHERE n = 2"), &[]).await.unwrap();
        let messages = store.inbox("r", 0).await.unwrap();
        assert_eq!(messages.iter().map(|message| message.number).collect::<Vec<_>>(), [1, 2, 3], "{damage}");
        let opened: Vec<bool> = messages.into_iter().map(|message| message.message.open("r").is_ok()).collect();
        assert_eq!(opened, [true, false, true], "{damage}");
        // The damaged message can be taken.
        store.commit(Commit { takes: vec![2], ..next(&claim, b"{}") }).await.unwrap();
        assert_eq!(store.inbox("r", 0).await.unwrap().len(), 2, "{damage}");
        direct.execute("DELETE FROM pleach_run", &[]).await.unwrap();
    }
}

/// Workers claim ready runs all the time, so they must not hold on to damaged ones.
#[tokio::test]
async fn c2_damaged_due_run_can_be_deleted_while_workers_claim() {
    let url = fresh_schema().await;
    let store = PostgresStore::connect(&url).await.unwrap();
    for id in ["bad", "good"] {
        store.create(queued(id), vec![row(id, 1, 1, b"{}")]).await.unwrap();
    }
    connect(&url).await.execute("UPDATE pleach_run SET sum = sum # 8 WHERE id = 'bad'", &[]).await.unwrap();
    let claims = store.claim(ready(9), lease("bob")).await.unwrap();
    assert_eq!(claims.iter().map(|claim| claim.run.id.as_str()).collect::<Vec<_>>(), ["good"]);
    assert!(store.claim(ready(9), lease("bob")).await.unwrap().is_empty());
    store.delete("bad").await.unwrap();
}

#[tokio::test]
async fn o8_damaged_runs_are_found_among_overdue_runs() {
    let url = fresh_schema().await;
    let store = PostgresStore::connect(&url).await.unwrap();
    for run in ["bad", "well"] {
        store.create(queued(run), vec![row(run, 1, 1, b"{}")]).await.unwrap();
    }
    connect(&url).await.execute("UPDATE pleach_run SET sum = sum + 1 WHERE id = 'bad'", &[]).await.unwrap();
    let overdue = store.overdue(std::time::Duration::ZERO, 9).await.unwrap();
    assert_eq!(overdue[0].damaged.iter().map(|one| one.run.as_str()).collect::<Vec<_>>(), ["bad"]);
    assert_eq!(overdue[0].runs.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["well"]);
}
