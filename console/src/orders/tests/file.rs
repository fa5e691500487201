//! The file of the record of actions: who may read it, and how a new one begins.

use super::{Folder, carry_out, stop, writing};
use crate::orders::RecordFile;
use serde_json::Value;
use std::fs;

#[cfg(unix)]
#[test]
fn k4_a_record_file_becomes_private_and_is_no_link() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let folder = Folder::new("private");
    let (path, link) = (folder.0.join("actions.jsonl"), folder.0.join("link.jsonl"));
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    symlink(&path, &link).unwrap();
    let refused = RecordFile::open(&link).unwrap_err().to_string();
    assert_eq!(refused, "it is a symbolic link; name the file itself");
    assert_eq!(RecordFile::open(&folder.0).unwrap_err().to_string(), "it is not a regular file");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644, "nothing was changed");
    let (file, _) = RecordFile::open(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    drop(file);
}

#[tokio::test(start_paused = true)]
async fn k4_a_record_continues_in_the_old_file_if_no_new_one_can_begin() {
    let folder = Folder::new("full");
    let (path, old) = (folder.0.join("actions.jsonl"), folder.0.join("actions.jsonl.old"));
    let server = writing();
    let (file, _) = RecordFile::bounded(&path, 2_000).unwrap();
    server.api.orders.log.keep_in(file, Vec::new());
    // A file cannot replace a folder.
    fs::create_dir(&old).unwrap();
    for _ in 0..6 {
        carry_out(&server, &stop(), "none").await;
    }
    let numbers = || -> Vec<u64> {
        let text = fs::read_to_string(&path).unwrap();
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64().unwrap()).collect()
    };
    let mut orders = 6;
    while fs::metadata(&path).unwrap().len() <= 2_000 {
        carry_out(&server, &stop(), "none").await;
        orders += 1;
        assert!(orders < 100, "nothing is written any more");
    }
    let written = numbers().len() as u64;
    assert_eq!(numbers(), (1..=written).collect::<Vec<u64>>(), "all are in the old file");
    fs::remove_dir(&old).unwrap();
    // It is tried again when the file has grown as much once more.
    while fs::metadata(&old).is_err() {
        carry_out(&server, &stop(), "none").await;
        assert!(fs::metadata(&path).unwrap().len() <= 5_000, "no new file began");
    }
    assert_eq!(numbers().len(), 1);
}
