//! C10: damage stays with its run. Every column of every table gets invalid values, one at a time.
#![cfg(feature = "sqlite")]

use crate::common::{Folder, LONG, create_held, lease, next, queued, ready, row};
use crate::sqlite_damage::tamper;
use pleach_core::block_on;
use pleach_graph::store::{Commit, Held, NewMessage, Prune, Release, RunStatus, SqliteStore, Store, StoreError};
use rusqlite::Connection;
use std::path::Path;
use std::time::Duration;

/// The state of the damaged run.
#[derive(Clone, Copy, Debug)]
enum Role {
    Queued,
    Held,
    Ended,
}

/// A column and an invalid value for it.
struct Damage {
    table: String,
    column: String,
    value: &'static str,
    /// Whether the column never has values of this type.
    is_wrong_type: bool,
}

/// All columns of all tables, each with several invalid values.
fn all_damage(path: &Path) -> Vec<Damage> {
    const NUMBERS: [&str; 4] = ["-1", "4294967295", "-9223372036854775808", "9223372036854775807"];
    let db = Connection::open(path).unwrap();
    let columns = "SELECT t.name, c.name, c.type, c.\"notnull\", c.pk FROM pragma_table_list t JOIN pragma_table_info(t.name) c
        WHERE t.schema = 'main' AND t.name IN ('run', 'log', 'inbox')";
    let mut statement = db.prepare(columns).unwrap();
    let columns = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))).unwrap();
    let mut all = Vec::new();
    for column in columns {
        let (table, column, kind, not_null, key): (String, String, String, bool, i64) = column.unwrap();
        // The key of `run` is the rowid, which allows no other type.
        let is_place = table == "run" && key > 0;
        let wrong: &[&str] = match kind.as_str() {
            "INTEGER" if is_place => &[],
            "INTEGER" => &["'two'", "x'00'", "5.5"],
            "TEXT" => &["x'ff'", "CAST(x'ff' AS TEXT)"],
            _ => &["'text'", "5", "5.5"],
        };
        let numbers: &[&str] = if kind == "INTEGER" { &NUMBERS } else { &[] };
        let null: &[&str] = if not_null || is_place { &[] } else { &["NULL"] };
        let values = wrong.iter().map(|value| (value, true)).chain(numbers.iter().chain(null).map(|value| (value, false)));
        all.extend(values.map(|(value, is_wrong_type)| Damage {
            table: table.clone(),
            column: column.clone(),
            value,
            is_wrong_type,
        }));
    }
    assert!(all.iter().filter(|one| one.is_wrong_type).count() > 60, "all columns are covered");
    all
}

async fn end(store: &SqliteStore, id: &str) {
    let claim = create_held(store, id).await;
    let last = Commit { status: Some(RunStatus::Finished), release: true, ..next(&claim, b"{}") };
    store.commit(last).await.unwrap();
}

/// Creates the run to be damaged, with two rows in its log and two messages.
async fn make_bad(store: &SqliteStore, role: Role) {
    let claim = create_held(store, "bad").await;
    let post = |name: &str, dedup: &str| NewMessage::seal("bad", name, Some(dedup.into()), b"1".to_vec());
    store.send_message("bad", post("signal/go", "first")).await.unwrap();
    store.send_message("bad", post("command/pause", "second")).await.unwrap();
    let release = !matches!(role, Role::Held);
    let status = matches!(role, Role::Ended).then_some(RunStatus::Finished);
    store.commit(Commit { status, release, ..next(&claim, b"{}") }).await.unwrap();
}

/// Checks that every call for the damaged run succeeds or is rejected for that run alone. Posts are
/// in one batch with a call for another run.
async fn check_bad(store: &SqliteStore, well: &Held, what: &str) {
    let fine = |error: &StoreError| !matches!(error, StoreError::Unavailable(_) | StoreError::Unusable { .. });
    let check = |name: &str, answer: Option<StoreError>| {
        assert!(answer.as_ref().is_none_or(fine), "{what}: {name} of the damaged run: {answer:?}");
    };
    let stale = Held { run: "bad".into(), ..well.clone() };
    let post = |name: &str, dedup: &str| NewMessage::seal("bad", name, Some(dedup.into()), b"1".to_vec());
    for (name, dedup) in [("signal/go", "first"), ("command/resume", "third"), ("signal/go", "fourth")] {
        let (answer, renewed) =
            tokio::join!(store.send_message("bad", post(name, dedup)), store.renew(vec![stale.clone(), well.clone()], LONG));
        check("post", answer.err());
        assert_eq!(renewed.unwrap().lost.iter().filter(|lost| lost.run == "well").count(), 0, "{what}");
    }
    check("commit", store.commit(Commit::new(stale.clone(), vec![row("bad", 3, 1, b"{}")])).await.err());
    check("inbox", store.inbox("bad", 0).await.err());
    let all = pleach_graph::store::Rows::Range(1..=2);
    check("read", store.read("bad", all, pleach_graph::store::Parts::Whole).await.err());
    check("prune", store.prune(Prune::Rows { held: stale.clone(), before: 1, keep: vec![] }).await.err());
    let troubled = Release::Failed { reason: "tired".into(), delay: LONG };
    check("release", store.release(vec![stale], troubled).await.err());
    let one = pleach_graph::store::Wanted::One { run: "bad".into(), force: true };
    check("claim", store.claim(one, lease("eve")).await.err());
}

async fn check_one(path: &Path, role: Role, damage: &Damage) {
    let what = format!("{role:?}: {}.{} = {}", damage.table, damage.column, damage.value);
    let store = SqliteStore::open(path).await.unwrap();
    store.create(queued("early"), vec![row("early", 1, 1, b"{}")]).await.unwrap();
    make_bad(&store, role).await;
    let well = create_held(&store, "well").await;
    end(&store, "old").await;
    let (table, column) = (&damage.table, &damage.column);
    let place = if table == "run" { "id = 'bad'" } else { "run = (SELECT no FROM run WHERE id = 'bad')" };
    let rows = format!("SELECT max(rowid) FROM {table} WHERE {place}");
    tamper(path, &format!("UPDATE {table} SET {column} = {} WHERE rowid = ({rows})", damage.value));
    // The run is named and hides no other.
    let list = store.list(vec![], None, 9).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(list.runs.len() + list.damaged.len(), 4, "{what}");
    if table == "run" && damage.is_wrong_type {
        let named: Vec<&str> = list.damaged.iter().map(|run| run.run.as_str()).collect();
        assert!(named == ["bad"] || column == "id" && named.len() == 1, "{what}: {named:?}");
    }
    // Other runs continue: first in the open store, then in a store opened on the damaged file.
    let claimed = store.claim(ready(9), lease("bob")).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(claimed.iter().any(|claim| claim.run.id == "early"), "{what}");
    check_bad(&store, &Held::of(&well.run), &what).await;
    drop(store);
    let store = SqliteStore::open(path).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    store.create(queued("late"), vec![row("late", 1, 1, b"{}")]).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    let claimed = store.claim(ready(9), lease("bob")).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(claimed.iter().any(|claim| claim.run.id == "late"), "{what}");
    let post = NewMessage::seal("late", "signal/go", None, b"1".to_vec());
    assert_eq!(store.send_message("late", post).await.unwrap(), 1, "{what}");
    store
        .prune(Prune::Ended { unchanged_for: Duration::ZERO, count: 9 })
        .await
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(matches!(store.head("old").await, Err(StoreError::RunNotFound { .. })), "{what}: the ended run is removed");
    assert!(store.head("well").await.is_ok() && store.head("late").await.is_ok(), "{what}");
    tamper(path, "DELETE FROM log; DELETE FROM inbox; DELETE FROM run");
}

fn check_role(role: Role) {
    let folder = Folder::in_memory();
    let path = folder.file("runs.db");
    block_on(async {
        drop(SqliteStore::open(&path).await.unwrap());
        for damage in all_damage(&path) {
            check_one(&path, role, &damage).await;
        }
    });
}

#[test]
fn c10_damaged_columns_of_a_queued_run_stop_no_other_run() {
    check_role(Role::Queued);
}

#[test]
fn c10_damaged_columns_of_a_held_run_stop_no_other_run() {
    check_role(Role::Held);
}

#[test]
fn c10_damaged_columns_of_an_ended_run_stop_no_other_run() {
    check_role(Role::Ended);
}
