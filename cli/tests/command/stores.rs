//! Stores that are missing, older, newer, read-only or of another program.

use crate::fixture::{Fixture, Place, call, orders};
use pleach::store::SqliteStore;
use std::path::Path;

/// Every word with a store, with arguments that parse.
fn words(store: &str) -> Vec<Vec<String>> {
    let words = [
        "list",
        "show r",
        "history r",
        "diff r 1 2",
        "tail r",
        "answer r k 1",
        "signal r k 1",
        "pause r",
        "resume r",
        "cancel r --yes",
        "rewind r 1 --yes",
        "fork r 1 n --yes",
        "retry r --yes",
        "delete r --yes",
        "prune --older-than 1d --yes",
        "unstick r --yes",
    ];
    let one = |text: &str| {
        let mut words = text.split(' ').map(String::from);
        ["runs".to_string(), words.next().unwrap(), store.to_string()].into_iter().chain(words).collect()
    };
    words.iter().map(|text| one(text)).collect()
}

fn each_fails(store: &str, code: i32, part: &str) {
    for arguments in words(store) {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let called = call(&arguments);
        assert_eq!((called.code, called.out.as_str()), (code, ""), "{arguments:?} {called:?}");
        assert!(called.err.contains(part), "{arguments:?} {called:?}");
    }
}

#[tokio::test]
async fn missing_store_is_not_created() {
    let fixture = Fixture::empty(Place::Sqlite).await;
    let missing = fixture.folder.join("none.db");
    each_fails(missing.to_str().unwrap(), 3, "there is no file");
    assert!(!missing.exists());
    each_fails(fixture.folder.to_str().unwrap(), 5, "it is not a file");
}

#[tokio::test]
async fn file_of_another_program_is_refused() {
    let fixture = Fixture::empty(Place::Sqlite).await;
    let path = fixture.folder.join("text.db");
    std::fs::write(&path, "this is no database, and has enough bytes to show that it is not one".repeat(20)).unwrap();
    each_fails(path.to_str().unwrap(), 5, "not a SQLite file");
}

#[tokio::test]
async fn unreachable_server_has_its_exit_code() {
    each_fails("postgres://pleach@127.0.0.1:1/none?connect_timeout=2", 5, "could not be reached");
}

#[tokio::test]
async fn passwords_are_not_printed() {
    let called = call(&["runs", "list", "postgres://me:s3cret@127.0.0.1:1/none?connect_timeout=2"]);
    assert!(called.code == 5 && !called.err.contains("s3cret"), "{called:?}");
}

#[tokio::test]
async fn newer_and_older_tables_are_refused_and_not_changed() {
    let fixture = Fixture::full(Place::Sqlite).await;
    let path = fixture.folder.join("copy.db");
    let mut bytes = std::fs::read(copy_closed(&fixture, &path).await).unwrap();
    // The format is at byte 60 of a SQLite file, with the highest byte first.
    let format = u32::from_be_bytes(bytes[60..64].try_into().unwrap());
    for (stored, part) in [(format + 1, "use a later version of pleach"), (format - 1, "migrates the store when it opens it")] {
        bytes[60..64].copy_from_slice(&stored.to_be_bytes());
        std::fs::write(&path, &bytes).unwrap();
        each_fails(path.to_str().unwrap(), 5, part);
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "nothing was migrated");
    }
}

/// Writes one run into a new file and closes it.
async fn copy_closed(_: &Fixture, path: &Path) -> std::path::PathBuf {
    let store = SqliteStore::open(path).await.unwrap();
    orders().run(crate::fixture::Order::new("copy")).id("r").checkpoint(&store).await.unwrap_err();
    drop(store);
    path.to_path_buf()
}

#[cfg(unix)]
#[tokio::test]
async fn reading_words_neither_lock_nor_change_a_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let fixture = Fixture::empty(Place::Sqlite).await;
    let path = copy_closed(&fixture, &fixture.folder.join("closed.db")).await;
    let before = std::fs::read(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
    let store = path.to_str().unwrap();
    for arguments in [&["list", store][..], &["show", store, "r"], &["history", store, "r"], &["diff", store, "r", "1", "2"]] {
        let called = call(&[&["runs"], arguments].concat());
        assert_eq!(called.code, 0, "{called:?}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert!(!fixture.folder.join("closed.db-holders").exists());
}
