//! C10: a tool opens an existing SQLite file and neither creates nor migrates one.
#![cfg(all(feature = "sqlite", unix))]

use crate::common::{Folder, lease, queued, row};
use pleach_core::block_on;
use pleach_graph::store::{Parts, Rows, SqliteStore, Store, StoreError, Wanted};
use std::path::{Path, PathBuf};

fn stored(folder: &Folder) -> PathBuf {
    let path = folder.file("store.db");
    let store = block_on(SqliteStore::open(&path)).unwrap();
    block_on(store.create(queued("r"), vec![row("r", 1, 1, b"{}")])).unwrap();
    path
}

fn number(path: &Path, pragma: &str) -> i64 {
    let db = rusqlite::Connection::open(path).unwrap();
    db.pragma_query_value(None, pragma, |row| row.get(0)).unwrap()
}

fn opened(path: &Path) -> [Result<SqliteStore, StoreError>; 2] {
    [block_on(SqliteStore::open_existing(path)), block_on(SqliteStore::open_read_only(path))]
}

#[test]
fn c10_missing_or_empty_file_is_rejected_and_not_created() {
    let folder = Folder::new();
    let path = folder.file("none.db");
    for rejected in opened(&path) {
        assert!(matches!(rejected, Err(StoreError::Unusable { ref reason, .. }) if reason.contains("does not exist")));
    }
    assert!(!path.exists());
    std::fs::write(&path, b"").unwrap();
    for rejected in opened(&path) {
        assert!(matches!(rejected, Err(StoreError::OlderFormat { format: 0, .. })), "{rejected:?}");
    }
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    for rejected in opened(path.parent().unwrap()) {
        assert!(matches!(rejected, Err(StoreError::Unusable { ref reason, .. }) if reason.contains("not a file")));
    }
}

#[test]
fn c10_older_and_newer_tables_are_rejected_and_not_migrated() {
    let folder = Folder::new();
    let path = stored(&folder);
    let current = number(&path, "user_version");
    for format in [current - 1, current + 1] {
        rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", format).unwrap();
        for rejected in opened(&path) {
            let is_expected = match &rejected {
                Err(StoreError::OlderFormat { format: found, needed, .. }) => {
                    i64::from(*found) == format && format < i64::from(*needed)
                }
                Err(StoreError::NewerFormat { format: found, .. }) => i64::from(*found) == format && format > current,
                _ => false,
            };
            assert!(is_expected, "{rejected:?}");
        }
        assert_eq!(number(&path, "user_version"), format);
    }
}

#[test]
fn c10_read_only_store_reads_beside_a_writer_and_writes_nothing() {
    let folder = Folder::new();
    let path = stored(&folder);
    let before = std::fs::read(&path).unwrap();
    let reader = block_on(SqliteStore::open_read_only(&path)).unwrap();
    assert_eq!(block_on(reader.head("r")).unwrap().head, 1);
    assert_eq!(block_on(reader.read("r", Rows::Each(vec![1]), Parts::Whole)).unwrap().len(), 1);
    let wanted = || Wanted::One { run: "r".into(), force: false };
    let rejected = block_on(reader.claim(wanted(), lease("ann"))).unwrap_err();
    assert!(matches!(rejected, StoreError::Unusable { ref reason, .. } if reason.contains("reading only")), "{rejected}");
    assert!(!path.with_file_name("store.db-holders").exists(), "a reader is no holder");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let writer = block_on(SqliteStore::open_existing(&path)).unwrap();
    block_on(writer.claim(wanted(), lease("ann"))).unwrap();
    assert_eq!(block_on(reader.head("r")).unwrap().owner.as_deref(), Some("ann"), "it sees later commits");
}
