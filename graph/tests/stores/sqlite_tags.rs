//! O7: what the tag table of a SQLite file is used for, and what its damage can do.
#![cfg(feature = "sqlite")]

use crate::common::{Folder, by_pages_of_one, create_held, lease, next, queued, row};
use crate::sqlite_damage::tamper;
use pleach_core::block_on;
use pleach_graph::store::{Commit, Filter, NewRun, RunStatus, SqliteStore, Store, StoreError, Tags};

fn tagged(id: &str, value: &str) -> NewRun {
    let mut tags = Tags::default();
    tags.set("customer", value).unwrap();
    NewRun { tags, lease: Some(lease("ann")), ..queued(id) }
}

async fn listed(store: &SqliteStore, value: &str) -> Vec<String> {
    let page = store.list(vec![Filter::tag("customer", value)], None, 9).await.unwrap();
    assert_eq!(page.damaged, []);
    page.runs.into_iter().map(|run| run.id).collect()
}

#[test]
fn o7_commit_without_changed_tags_does_not_use_the_tag_table() {
    let folder = Folder::in_memory();
    let path = folder.file("runs.db");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        let mut claims = vec![create_held(&store, "plain").await];
        claims.push(store.create(tagged("tagged", "42"), vec![row("tagged", 1, 1, b"{}")]).await.unwrap());
        // Any statement that mentions the table would fail now.
        tamper(&path, "DROP TABLE tag");
        for claim in &mut claims {
            store.commit(next(claim, b"{}")).await.unwrap();
            claim.run.head += 1;
            store.commit(Commit { status: Some(RunStatus::Waiting), ..next(claim, b"{}") }).await.unwrap();
            claim.run.head += 1;
            store.commit(Commit { status: Some(RunStatus::Finished), release: true, ..next(claim, b"{}") }).await.unwrap();
        }
    });
}

#[test]
fn o7_damaged_tags_are_found_and_a_wrong_index_lists_no_wrong_run() {
    let folder = Folder::in_memory();
    let path = folder.file("runs.db");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        for (id, value) in [("a", "1"), ("b", "2"), ("c", "2")] {
            store.create(tagged(id, value), vec![row(id, 1, 1, b"{}")]).await.unwrap();
        }
        assert_eq!(listed(&store, "2").await, ["c", "b"]);
        // The row decides, not the table.
        tamper(&path, "UPDATE tag SET value = '2' WHERE value = '1'");
        assert_eq!(listed(&store, "2").await, ["c", "b"], "run a has another tag");
        for damage in ["'{\"customer\":\"3\"}'", "NULL", "'{}'", "'[]'", "x'00'"] {
            tamper(&path, &format!("UPDATE run SET tags = {damage} WHERE id = 'b'"));
            let rejected = store.head("b").await.unwrap_err();
            assert!(matches!(&rejected, StoreError::Damaged { run, .. } if run == "b"), "{damage}: {rejected}");
            let page = store.list(vec![], None, 9).await.unwrap();
            assert_eq!((page.runs.len(), page.damaged.len()), (2, 1), "{damage}");
        }
        tamper(&path, "UPDATE run SET failure = 'not JSON' WHERE id = 'c'");
        let failure = store.head("c").await.unwrap().failure.unwrap();
        assert!(failure.reason.contains("not JSON"), "a failure is shown as far as it can be read");
    });
}

#[test]
fn o7_tag_table_has_the_current_tags_only() {
    let folder = Folder::in_memory();
    let path = folder.file("runs.db");
    let rows = || -> Vec<String> {
        let db = rusqlite::Connection::open(&path).unwrap();
        let mut statement = db.prepare("SELECT key || '=' || value FROM tag ORDER BY 1").unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.collect::<rusqlite::Result<_>>().unwrap()
    };
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        let mut claim = store.create(tagged("r", "1"), vec![row("r", 1, 1, b"{}")]).await.unwrap();
        for (value, expected) in [("2", vec!["customer=2"]), ("2", vec!["customer=2"]), ("", vec!["customer="])] {
            let commit = Commit { tags: Some(tagged("r", value).tags), ..next(&claim, b"{}") };
            store.commit(commit).await.unwrap();
            claim.run.head += 1;
            assert_eq!(rows(), expected);
        }
        let ended =
            Commit { tags: Some(tagged("r", "4").tags), status: Some(RunStatus::Failed), release: true, ..next(&claim, b"{}") };
        store.commit(ended).await.unwrap();
        assert_eq!(rows(), ["customer=4"]);
        store.delete("r").await.unwrap();
        assert!(rows().is_empty());
    });
}

#[test]
fn o7_damaged_creation_time_skips_no_run_of_a_page() {
    let folder = Folder::in_memory();
    let path = folder.file("runs.db");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        for id in ["a", "b", "c", "d"] {
            store.create(tagged(id, "1"), vec![row(id, 1, 1, b"{}")]).await.unwrap();
        }
        for created in ["1", "9223372036854775807", "-1"] {
            tamper(&path, &format!("UPDATE run SET created = {created} WHERE id = 'c'"));
            let listed = by_pages_of_one(&store, Filter::tag("customer", "1")).await;
            assert_eq!(listed, ["d", "c is damaged", "b", "a"], "{created}");
        }
    });
}
