//! C2, C10, C13: rows of a log or an inbox that belong to no commit and no run. They stop at most
//! their run and change nothing of it.
#![cfg(feature = "sqlite")]

use crate::common::{Folder, LONG, create_held, forced, lease, next, queued, row};
use crate::sqlite_damage::tamper;
use pleach_core::block_on;
use pleach_graph::store::{Claim, Commit, Held, Release, RunStatus, SqliteStore, Store, StoreError, TAKEOVERS_MAX};
use rusqlite::Connection;
use rusqlite::types::Value;
use std::path::Path;

/// All columns of a run's row.
fn whole_row(path: &Path, run: &str) -> Vec<Value> {
    let db = Connection::open(path).unwrap();
    let mut statement = db.prepare("SELECT * FROM run WHERE id = ?1").unwrap();
    let count = statement.column_count();
    statement.query_row([run], |row| (0..count).map(|column| row.get(column)).collect()).unwrap()
}

fn stray_row(path: &Path, sequence: u64) {
    let statement = format!("INSERT INTO log SELECT no, {sequence}, 0, x'00', x'00' FROM run WHERE id = 'bad'");
    Connection::open(path).unwrap().execute_batch(&statement).unwrap();
}

fn is_stray(error: &StoreError, at: u64) -> bool {
    matches!(error, StoreError::Damaged { run, sequence, .. } if run == "bad" && *sequence == at)
}

/// Releases a run as undrivable and claims it again.
async fn release_troubled(store: &SqliteStore, claim: &Claim) -> Result<Claim, StoreError> {
    let how = Release::Failed { reason: "its log has a stray row".into(), delay: std::time::Duration::ZERO };
    assert_eq!(store.release(vec![Held::of(&claim.run)], how).await.unwrap(), []);
    let one = pleach_graph::store::Wanted::One { run: claim.run.id.clone(), force: false };
    store.claim(one, lease("ann")).await.map(|mut claims| claims.remove(0))
}

#[test]
fn c2_commit_rejected_for_a_stray_row_changes_no_column() {
    let folder = Folder::in_memory();
    let path = folder.file("runs.db");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        let claim = create_held(&store, "bad").await;
        let claim = release_troubled(&store, &claim).await.unwrap();
        tamper(&path, "UPDATE run SET changed = 5 WHERE id = 'bad'");
        stray_row(&path, 3);
        let before = whole_row(&path, "bad");
        let rows = vec![row("bad", 2, claim.run.epoch, b"2"), row("bad", 3, claim.run.epoch, b"3")];
        let plain = Commit::new(Held::of(&claim.run), rows);
        let ending = Commit { status: Some(RunStatus::Finished), release: true, ..plain.clone() };
        for commit in [plain, ending] {
            let rejected = store.commit(commit).await.unwrap_err();
            assert!(is_stray(&rejected, 3), "{rejected}");
            assert_eq!(whole_row(&path, "bad"), before);
        }
    });
}

#[test]
fn c13_run_with_a_stray_row_becomes_stuck() {
    let folder = Folder::in_memory();
    let path = folder.file("runs.db");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        let mut claim = create_held(&store, "bad").await;
        stray_row(&path, 2);
        for _ in 1..TAKEOVERS_MAX {
            assert!(is_stray(&store.commit(next(&claim, b"{}")).await.unwrap_err(), 2));
            claim = release_troubled(&store, &claim).await.unwrap();
        }
        assert!(is_stray(&store.commit(next(&claim, b"{}")).await.unwrap_err(), 2));
        let rejected = release_troubled(&store, &claim).await.unwrap_err();
        assert!(matches!(&rejected, StoreError::Stuck { run, .. } if run == "bad"), "{rejected}");
        assert_eq!(store.head("bad").await.unwrap().status, RunStatus::Stuck);
        store.claim(forced("bad"), lease("ann")).await.unwrap();
    });
}

#[test]
fn c10_stray_row_with_null_columns_stops_only_its_run() {
    let folder = Folder::in_memory();
    let path = folder.file("runs.db");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        let (bad, well) = (create_held(&store, "bad").await, create_held(&store, "well").await);
        stray_row(&path, 2);
        for column in ["sum", "header", "body"] {
            // The column is NOT NULL, so the NULL is written with a changed schema.
            tamper_with_null(&path, column);
            let (rejected, landed) =
                tokio::join!(store.commit(next(&bad, b"{}")), store.renew(vec![Held::of(&well.run)], LONG));
            assert!(is_stray(&rejected.unwrap_err(), 2), "{column}");
            assert_eq!(landed.unwrap().lost, []);
        }
    });
}

/// Sets a column of the stray row to NULL, although the table does not allow it.
fn tamper_with_null(path: &Path, column: &str) {
    let db = Connection::open(path).unwrap();
    let sql: String = db.query_row("SELECT sql FROM sqlite_schema WHERE name = 'log'", [], |row| row.get(0)).unwrap();
    let set = |sql: &str| {
        db.execute_batch("PRAGMA writable_schema = ON; PRAGMA foreign_keys = OFF").unwrap();
        db.execute("UPDATE sqlite_schema SET sql = ?1 WHERE name = 'log'", [sql]).unwrap();
        db.execute_batch("PRAGMA writable_schema = RESET").unwrap();
    };
    set(&sql.replace("NOT NULL", ""));
    db.execute_batch(&format!("UPDATE log SET {column} = NULL WHERE seq = 2")).unwrap();
    set(&sql);
}

#[test]
fn c10_rows_without_a_run_do_not_block_creations() {
    let folder = Folder::in_memory();
    for (number, stray) in [
        "INSERT INTO log VALUES (2, 1, 0, x'00', x'00')",
        "INSERT INTO log VALUES (2, 2, 0, x'00', x'00'), (3, 9, 0, x'00', x'00')",
        "INSERT INTO inbox VALUES (2, 1, 0, 'signal/go', NULL, 0, NULL, x'00', NULL, NULL)",
        "INSERT INTO log VALUES ('two', 1, 0, x'00', x'00'), (x'02', 1, 0, x'00', x'00')",
        "INSERT INTO tag VALUES ('key', 'value', 0, 2)",
    ]
    .into_iter()
    .enumerate()
    {
        let path = folder.file(&format!("{number}.db"));
        block_on(async {
            let store = SqliteStore::open(&path).await.unwrap();
            store.create(queued("first"), vec![row("first", 1, 1, b"{}")]).await.unwrap();
            tamper(&path, stray);
            for run in ["second", "third"] {
                let mut claim = create_held(&store, run).await;
                for _ in 0..9 {
                    store.commit(next(&claim, b"{}")).await.unwrap();
                    claim.run.head += 1;
                }
                let post = pleach_graph::store::NewMessage::seal(run, "signal/go", None, b"1".to_vec());
                assert_eq!(store.send_message(run, post).await.unwrap(), 1, "{stray}");
                assert_eq!(store.inbox(run, 0).await.unwrap().len(), 1, "{stray}");
            }
            // Their owner is unknown, so they stay for a repair by hand.
            let db = Connection::open(&path).unwrap();
            let count = |table: &str| -> i64 {
                let strays = format!("SELECT count(*) FROM {table} WHERE run NOT IN (SELECT no FROM run)");
                db.query_row(&strays, [], |row| row.get(0)).unwrap()
            };
            assert!(count("log") + count("inbox") + count("tag") >= 1, "{stray}");
        });
    }
}
