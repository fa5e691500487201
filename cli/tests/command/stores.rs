//! Stores that are missing, older, newer, read-only or of another program.

use crate::fixture::{Called, Fixture, Place, call, orders, pleach};
use pleach::store::SqliteStore;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

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
    let why = vec!["why".to_string(), store.to_string(), "r".to_string()];
    words.iter().map(|text| one(text)).chain([why]).collect()
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
    // The thread that writes closes the file; the last connection removes its log.
    let log = path.with_extension("db-wal");
    let begun = std::time::Instant::now();
    while log.exists() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(30), "the store does not close {path:?}");
        tokio::task::yield_now().await;
    }
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

/// Every word, on a PostgreSQL database of another format.
#[tokio::test]
async fn newer_and_older_databases_are_refused_and_not_changed() {
    let fixture = Fixture::full(Place::Postgres).await;
    let known = fixture.format().await;
    for (format, part) in [(known + 1, "use a later version of pleach"), (known - 1, "migrates the store when it opens it")] {
        fixture.set_format(format).await;
        each_fails(&fixture.store, 5, part);
        assert_eq!(fixture.format().await, format, "nothing was migrated");
    }
    fixture.set_format(known).await;
    assert_eq!(fixture.runs("list", &[]).code, 0);
}

/// A client that has a store open while a later version migrates it.
#[tokio::test(flavor = "multi_thread")]
async fn stale_client_stops_with_advice() {
    for place in [Place::Sqlite, Place::Postgres] {
        let fixture = Fixture::full(place).await;
        let mut tail = pleach(&["runs", "tail", &fixture.store, "order-2", "--timeout", "60s", "--retry-for", "1s"]);
        let mut child = tail.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap();
        fixture.set_format(fixture.format().await + 1).await;
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(5) && err.contains("use a later version of pleach"), "{place:?}: {err}");
    }
}

/// A user who may read a SQLite file and not write it. A superuser may write every file, so the
/// command runs as another user.
#[cfg(unix)]
#[tokio::test]
async fn readers_of_a_file_can_look_and_not_write() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    const NO_OWNER: u32 = 65_534;
    let fixture = Fixture::empty(Place::Sqlite).await;
    let path = copy_closed(&fixture, &fixture.folder.join("closed.db")).await;
    let command = fixture.folder.join("pleach");
    std::fs::copy(env!("CARGO_BIN_EXE_pleach"), &command).unwrap();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(&path, 0o444);
    mode(&fixture.folder, 0o555);
    let is_root = std::fs::OpenOptions::new().write(true).open(&path).is_ok();
    let store = path.to_str().unwrap();
    for (arguments, code, part) in [
        (&["runs", "show", store, "r"][..], 0, "waiting"),
        (&["why", store, "r"], 0, "waits for an answer"),
        (&["doctor", store], 0, "cannot write the file"),
        (&["runs", "answer", store, "r", "approve", "true"], 5, "allow this user to write the file"),
        (&["runs", "delete", store, "r", "--yes"], 5, "allow this user to write the file"),
    ] {
        let mut call = std::process::Command::new(&command);
        if is_root {
            call.uid(NO_OWNER).gid(NO_OWNER);
        }
        let called = Called::from(call.args(arguments).stdin(Stdio::null()).output().unwrap());
        assert!(called.code == code && (called.out.clone() + &called.err).contains(part), "{arguments:?} {called:?}");
    }
    mode(&fixture.folder, 0o755);
}
