//! The file of the record of actions: who may read it.

use super::Folder;
use crate::orders::RecordFile;
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
