//! C10, C15: damage stays with its run. Whatever is in one row of a SQLite file, other runs can be
//! listed, claimed, posted to and committed to.
#![cfg(feature = "sqlite")]

use crate::common::{Folder, create_held, forced, lease, next, queued, ready, row};
use pleach_core::block_on;
use pleach_graph::store::{Commit, Filter, Held, NewMessage, Release, RunStatus, SqliteStore, Store, StoreError, Wanted};
use rusqlite::Connection;
use std::path::Path;

/// Invalid values for columns of a run's row: numbers out of range, invalid texts, wrong types.
const DAMAGE: [(&str, &str); 26] = [
    ("epoch", "-1"),
    ("head", "-9223372036854775808"),
    ("oldest", "-1"),
    ("posted", "-1"),
    ("instance", "-1"),
    ("schema", "-1"),
    ("schema", "4294967297"),
    ("takeovers", "-1"),
    ("takeovers", "4294967296"),
    ("created", "-1"),
    ("wake_at", "-1"),
    ("wake_at", "9223372036854775807"),
    ("lease_end", "-9223372036854775808"),
    ("lease_end", "9223372036854775807"),
    ("deadline", "0"),
    ("deadline", "-1"),
    ("sum", "sum + 1"),
    ("status", "'walking'"),
    ("status", "CAST(x'ff' AS TEXT)"),
    ("graph", "CAST(x'6573736179ff' AS TEXT)"),
    ("fingerprint", "CAST(x'ff' AS TEXT)"),
    ("owner", "CAST(x'ff' AS TEXT)"),
    ("trouble", "CAST(x'ff' AS TEXT)"),
    // Values of a type that a STRICT table does not accept.
    ("head", "'two'"),
    ("changed", "x'00'"),
    ("wake_at", "'soon'"),
];

/// Changes the file without the store, ignoring types and references.
pub(crate) fn tamper(path: &Path, statement: &str) {
    let db = Connection::open(path).unwrap();
    let set_schema = |sql: &str, table: &str| {
        db.execute_batch("PRAGMA writable_schema = ON; PRAGMA foreign_keys = OFF").unwrap();
        db.execute("UPDATE sqlite_schema SET sql = ?1 WHERE name = ?2", [sql, table]).unwrap();
        db.execute_batch("PRAGMA writable_schema = RESET").unwrap();
    };
    let tables = ["run", "log", "inbox"].map(|table| {
        let sql: String = db.query_row("SELECT sql FROM sqlite_schema WHERE name = ?1", [table], |row| row.get(0)).unwrap();
        (table, sql)
    });
    tables.iter().for_each(|(table, sql)| set_schema(&sql.replace(") STRICT", ")"), table));
    db.execute_batch(statement).unwrap();
    tables.iter().for_each(|(table, sql)| set_schema(sql, table));
}

fn is_damaged(error: &StoreError) -> bool {
    matches!(error, StoreError::Damaged { run, sequence: 0, .. } if run == "bad")
}

async fn claim_all(store: &SqliteStore) -> Vec<String> {
    let mut claimed: Vec<String> =
        store.claim(ready(9), lease("bob")).await.unwrap().into_iter().map(|claim| claim.run.id).collect();
    claimed.sort_unstable();
    claimed
}

#[test]
fn c10_damaged_row_is_named_and_stops_no_other_run() {
    let folder = Folder::in_memory();
    for (number, (column, value)) in DAMAGE.into_iter().enumerate() {
        block_on(async {
            let what = format!("{column} = {value}");
            let path = folder.file(&format!("{number}.db"));
            let store = SqliteStore::open(&path).await.unwrap();
            for run in ["early", "bad", "late"] {
                store.create(queued(run), vec![row(run, 1, 1, b"{}")]).await.unwrap();
            }
            let held = create_held(&store, "held").await;
            tamper(&path, &format!("UPDATE run SET {column} = {value} WHERE id = 'bad'"));
            // Lists name it and contain all others.
            let list = store.list(vec![], None, 9).await.unwrap();
            assert_eq!(list.damaged.iter().map(|run| run.run.as_str()).collect::<Vec<_>>(), ["bad"], "{what}");
            assert_eq!(list.runs.len(), 3, "{what}");
            let mut pages = (None, 0, 0);
            loop {
                let page = store.list(vec![], pages.0, 1).await.unwrap();
                pages = (page.next, pages.1 + page.runs.len(), pages.2 + page.damaged.len());
                if pages.0.is_none() {
                    break;
                }
            }
            assert_eq!((pages.1, pages.2), (3, 1), "{what}");
            store.list(vec![Filter::Status(RunStatus::Running)], None, 9).await.unwrap();
            // Calls for this run report the damage.
            assert!(is_damaged(&store.head("bad").await.unwrap_err()), "{what}");
            let one = Wanted::One { run: "bad".into(), force: false };
            assert!(is_damaged(&store.claim(one, lease("bob")).await.unwrap_err()), "{what}");
            assert!(is_damaged(&store.claim(forced("bad"), lease("bob")).await.unwrap_err()), "{what}");
            let post = NewMessage::seal("bad", "signal/go", None, b"1".to_vec());
            assert!(is_damaged(&store.send_message("bad", post).await.unwrap_err()), "{what}");
            let again = store.create(queued("bad"), vec![row("bad", 1, 1, b"{}")]).await.unwrap_err();
            assert!(is_damaged(&again), "{what}");
            // Other runs continue, also in the same batch.
            assert_eq!(claim_all(&store).await, ["early", "late"], "{what}");
            let stale = Held { run: "bad".into(), ..Held::of(&held.run) };
            let last =
                Commit { status: Some(RunStatus::Finished), ..Commit::new(stale.clone(), vec![row("bad", 2, 1, b"{}")]) };
            let (rejected, landed) = tokio::join!(store.commit(last), store.commit(next(&held, b"{}")));
            assert!(rejected.is_err() && landed.is_ok(), "{what}: {rejected:?} {landed:?}");
            let troubled = Release::Failed { reason: "tired".into(), delay: crate::common::LONG };
            store.release(vec![stale.clone(), Held::of(&held.run)], troubled).await.unwrap();
            store.renew(vec![stale, Held::of(&held.run)], crate::common::LONG).await.unwrap();
            store.delete("bad").await.unwrap();
            assert_eq!(store.list(vec![], None, 9).await.unwrap().damaged, []);
        });
    }
}

#[test]
fn c10_unreadable_id_is_listed_as_far_as_it_can_be_read() {
    let folder = Folder::in_memory();
    let path = folder.file("runs.db");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        for run in ["bad", "well"] {
            store.create(queued(run), vec![row(run, 1, 1, b"{}")]).await.unwrap();
        }
        tamper(&path, "UPDATE run SET id = CAST(x'626164ff' AS TEXT), no = -7 WHERE id = 'bad'");
        let list = store.list(vec![], None, 9).await.unwrap();
        assert_eq!(list.damaged[0].run, "bad\u{fffd}");
        assert_eq!(claim_all(&store).await, ["well"]);
        let first = store.list(vec![], None, 1).await.unwrap();
        let second = store.list(vec![], first.next, 1).await.unwrap();
        assert_eq!((second.damaged.len(), second.next), (1, None), "a negative key leads forward");
    });
}

#[test]
fn c10_damaged_message_is_returned_as_damaged_and_can_be_taken() {
    let folder = Folder::in_memory();
    let damage = [
        ("name", "CAST(x'7369676e616cff' AS TEXT)"),
        ("dedup", "CAST(x'ff' AS TEXT)"),
        ("sum", "-1"),
        ("sum", "sum + 1"),
        ("sum", "'none'"),
        ("payload", "x'00'"),
        ("payload", "5"),
    ];
    for (number, (column, value)) in damage.into_iter().enumerate() {
        block_on(async {
            let what = format!("{column} = {value}");
            let path = folder.file(&format!("{number}.db"));
            let store = SqliteStore::open(&path).await.unwrap();
            let claimed = create_held(&store, "r").await;
            for number in 1..=3 {
                let dedup = Some(format!("number {number}"));
                let post = NewMessage::seal("r", "signal/go", dedup, number.to_string().into_bytes());
                assert_eq!(store.send_message("r", post).await.unwrap(), number);
            }
            tamper(&path, &format!("UPDATE inbox SET {column} = {value} WHERE n = 2"));
            let opened: Vec<_> =
                store.inbox("r", 0).await.unwrap().into_iter().map(|message| message.message.open("r")).collect();
            assert_eq!(opened.len(), 3, "{what}");
            assert_eq!(
                (opened[0].as_ref().unwrap().as_slice(), opened[2].as_ref().unwrap().as_slice()),
                (&b"1"[..], &b"3"[..])
            );
            assert!(matches!(&opened[1], Err(StoreError::Damaged { run, .. }) if run == "r"), "{what}: {:?}", opened[1]);
            // The driver takes it by its number.
            store.commit(Commit { takes: vec![2], ..next(&claimed, b"{}") }).await.unwrap();
            let numbers: Vec<u64> = store.inbox("r", 0).await.unwrap().iter().map(|message| message.number).collect();
            assert_eq!(numbers, [1, 3], "{what}");
        });
    }
}

#[test]
fn c10_stray_rows_stop_only_their_run() {
    let folder = Folder::in_memory();
    let path = folder.file("runs.db");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        let (bad, well) = (create_held(&store, "bad").await, create_held(&store, "well").await);
        let before = store.head("bad").await.unwrap();
        let db = Connection::open(&path).unwrap();
        db.execute_batch("INSERT INTO log SELECT no, 3, 0, x'00', x'00' FROM run WHERE id = 'bad'").unwrap();
        let rows = vec![row("bad", 2, 1, b"2"), row("bad", 3, 1, b"3")];
        let two = || Commit::new(Held::of(&bad.run), rows.clone());
        let (rejected, landed) = tokio::join!(store.commit(two()), store.commit(next(&well, b"{}")));
        assert!(matches!(&rejected, Err(StoreError::Damaged { run, sequence: 3, .. }) if run == "bad"), "{rejected:?}");
        landed.unwrap();
        assert_eq!(store.head("bad").await.unwrap().head, before.head, "a rejected commit is not stored");
        let left: i64 = db.query_row("SELECT count(*) FROM log WHERE seq = 2 AND body = x'32'", [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0);
        db.execute_batch("DELETE FROM log WHERE seq = 3").unwrap();
        store.commit(two()).await.unwrap();
        // The same for the inbox.
        db.execute_batch(
            "INSERT INTO inbox SELECT no, 1, 0, 'stray', NULL, 0, NULL, x'', NULL, NULL FROM run WHERE id = 'bad'",
        )
        .unwrap();
        let post = |run: &str| NewMessage::seal(run, "signal/go", None, b"1".to_vec());
        let (rejected, landed) = tokio::join!(store.send_message("bad", post("bad")), store.send_message("well", post("well")));
        assert!(matches!(&rejected, Err(StoreError::Damaged { run, .. }) if run == "bad"), "{rejected:?}");
        assert_eq!(landed.unwrap(), 1);
        db.execute_batch("DELETE FROM inbox WHERE name = 'stray'").unwrap();
        assert_eq!(store.send_message("bad", post("bad")).await.unwrap(), 1);
    });
}

#[test]
fn c10_leases_of_damaged_runs_end_without_stopping_others() {
    let folder = Folder::in_memory();
    let path = folder.file("runs.db");
    block_on(async {
        let (store, other) = (SqliteStore::open(&path).await.unwrap(), SqliteStore::open(&path).await.unwrap());
        let mut claims = Vec::new();
        for run in ["bad", "holder", "well"] {
            claims.push(create_held(&store, run).await);
        }
        tamper(
            &path,
            "UPDATE run SET wake_at = 'soon' WHERE id = 'bad'; UPDATE run SET holder = CAST(x'ff' AS TEXT) WHERE id = 'holder'",
        );
        let (rejected, landed) = tokio::join!(store.commit(next(&claims[0], b"{}")), store.commit(next(&claims[2], b"{}")));
        assert!(is_damaged(&rejected.unwrap_err()), "a row with a value of the wrong type cannot be changed");
        landed.unwrap();
        let held: Vec<Held> = claims.iter().map(|claim| Held::of(&claim.run)).collect();
        store.renew(held, crate::common::LONG).await.unwrap();
        store.release(vec![Held::of(&claims[0].run)], Release::AsIs).await.unwrap();
        drop(store);
        let mut claimed = claim_all(&other).await;
        claimed.retain(|run| run != "holder");
        assert_eq!(claimed, ["well"]);
        assert!(is_damaged(&other.head("bad").await.unwrap_err()));
    });
}

#[test]
fn c15_damaged_holder_does_not_stop_claims() {
    let folder = Folder::in_memory();
    let path = folder.file("holder.db");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        create_held(&store, "bad").await;
        store.create(queued("good"), vec![row("good", 1, 1, b"{}")]).await.unwrap();
        // One flipped bit turns a text into a blob.
        tamper(&path, "UPDATE run SET holder = CAST(holder AS BLOB) WHERE id = 'bad'");
    });
    let (sender, claimed) = std::sync::mpsc::channel();
    let path = path.clone();
    std::thread::spawn(move || {
        block_on(async {
            let store = SqliteStore::open(&path).await.unwrap();
            let claims = store.claim(ready(9), lease("bob")).await;
            drop(sender.send(claims.map(|claims| claims.into_iter().map(|claim| claim.run.id).collect::<Vec<_>>())));
        });
    });
    let claimed = claimed.recv_timeout(std::time::Duration::from_secs(20)).expect("the claim is answered");
    assert!(claimed.unwrap().contains(&"good".to_string()));
}

#[test]
fn c15_claim_without_a_limit_skips_damaged_runs() {
    let folder = Folder::in_memory();
    let path = folder.file("limit.db");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        store.create(queued("bad"), vec![row("bad", 1, 1, b"{}")]).await.unwrap();
        tamper(&path, "UPDATE run SET sum = sum + 1 WHERE id = 'bad'");
        assert!(store.claim(ready(usize::MAX), lease("bob")).await.unwrap().is_empty());
        store.create(queued("good"), vec![row("good", 1, 1, b"{}")]).await.unwrap();
        assert_eq!(store.claim(ready(usize::MAX), lease("bob")).await.unwrap().len(), 1);
    });
}

#[test]
fn o8_damaged_run_does_not_hide_overdue_runs() {
    for (column, value) in DAMAGE {
        let folder = Folder::new();
        let path = folder.file("runs.db");
        block_on(async {
            let store = SqliteStore::open(&path).await.unwrap();
            for run in ["bad", "well"] {
                store.create(queued(run), vec![row(run, 1, 1, b"{}")]).await.unwrap();
            }
            tamper(&path, &format!("UPDATE run SET {column} = {value} WHERE id = 'bad'"));
            let overdue = store.overdue(std::time::Duration::ZERO, 9).await.unwrap();
            let found = overdue.iter().flat_map(|of| &of.runs).any(|run| run.id == "well");
            assert!(found, "{column} = {value}: {overdue:?}");
            let intact = overdue.iter().flat_map(|of| &of.runs).any(|run| run.id == "bad");
            assert!(!intact, "{column} = {value}: {overdue:?}");
            if column == "sum" {
                assert_eq!(overdue[0].damaged[0].run, "bad");
            }
        });
    }
}
