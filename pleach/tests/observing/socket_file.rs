//! The file of the inspection socket: mode 0600, refused if it is in use, replaced if its process
//! has died, removed at the end.

use crate::socket_folder::Folder;
use pleach::Error;
use pleach::inspect::{Client, InspectError, InspectOptions};
use pleach::prelude::*;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

fn refused(path: &Path) -> InspectError {
    match ActorSystem::builder("second").inspect(path).build() {
        Err(Error::Inspect(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn entries(folder: &Folder) -> usize {
    std::fs::read_dir(folder.path()).unwrap().count()
}

#[tokio::test]
async fn o1_socket_file_has_mode_0600_and_is_removed_at_shutdown() {
    let folder = Folder::new();
    let system = folder.system();
    let file = std::fs::symlink_metadata(folder.socket()).unwrap();
    assert!(file.file_type().is_socket());
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    assert_eq!(entries(&folder), 1, "the private directory is gone");
    system.shutdown(Duration::from_secs(5)).await.unwrap();
    assert_eq!(entries(&folder), 0);
    // A system that is only dropped removes it too.
    let system = folder.system();
    let ended = system.ended();
    drop(system);
    drop(ended.await);
    while folder.socket().exists() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn o1_socket_of_a_live_process_is_not_replaced() {
    let folder = Folder::new();
    let _system = folder.system();
    assert!(matches!(refused(&folder.socket()), InspectError::InUse(_)));
    folder.client().await.health().await.unwrap();
    assert_eq!(entries(&folder), 1);
}

#[tokio::test]
async fn o1_stale_socket_of_a_dead_process_is_replaced() {
    let folder = Folder::new();
    // A listener that is closed leaves its file behind, as a killed process does.
    drop(UnixListener::bind(folder.socket()).unwrap());
    assert!(folder.socket().exists());
    let system = folder.system();
    folder.client().await.health().await.unwrap();
    // Another file took the place: it is not removed at the end.
    std::fs::remove_file(folder.socket()).unwrap();
    let _other = UnixListener::bind(folder.socket()).unwrap();
    system.shutdown(Duration::from_secs(5)).await.unwrap();
    assert!(folder.socket().exists());
}

/// The variable that makes a process of this program serve the socket at its value until it is
/// killed.
const SERVE: &str = "PLEACH_TEST_SERVE";

/// Without the variable this does nothing. With it, this is the process that the next test kills.
#[tokio::test]
async fn o1_killed_process_serves_until_it_is_killed() {
    let Some(path) = std::env::var_os(SERVE) else { return };
    let _system = ActorSystem::builder("killed").inspect(Path::new(&path)).build().unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn o1_socket_of_a_killed_process_is_replaced() {
    let folder = Folder::new();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "socket_file::o1_killed_process_serves_until_it_is_killed"])
        .env(SERVE, folder.socket())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let name = loop {
        match Client::connect(folder.socket()).await {
            Ok(client) => break client.hello().name.clone(),
            Err(_) => tokio::task::yield_now().await,
        }
        assert!(child.try_wait().unwrap().is_none(), "the process has ended");
    };
    assert_eq!(name, "killed");
    assert!(matches!(refused(&folder.socket()), InspectError::InUse(_)));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(folder.socket().exists(), "a killed process removes nothing");
    let _system = folder.system();
    assert_eq!(folder.client().await.hello().name, "shop");
}

#[tokio::test]
async fn o1_foreign_files_and_open_directories_are_refused() {
    let folder = Folder::new();
    std::fs::write(folder.socket(), "not a socket").unwrap();
    assert!(matches!(refused(&folder.socket()), InspectError::Foreign(_)));
    assert_eq!(std::fs::read_to_string(folder.socket()).unwrap(), "not a socket");
    std::fs::remove_file(folder.socket()).unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(refused(&folder.socket()), InspectError::OpenDirectory(_)));
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
    drop(folder.system());
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let missing = folder.path().join("nothing").join("s");
    assert!(matches!(refused(&missing), InspectError::Io { .. }));
    let long = folder.path().join("x".repeat(120));
    assert!(matches!(refused(&long), InspectError::TooLong(_)));
}

#[test]
fn o1_socket_needs_a_tokio_runtime_with_io() {
    let folder = Folder::new();
    let sim = pleach::sim::Sim::new(1);
    let build = || ActorSystem::builder("shop").runtime(sim.runtime()).inspect(InspectOptions::at(folder.socket())).build();
    assert!(matches!(build(), Err(Error::Inspect(InspectError::NoRuntime))));
    let without_io = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _inside = without_io.enter();
    assert!(matches!(build(), Err(Error::Inspect(InspectError::NoRuntime))));
    assert_eq!(entries(&folder), 0);
}

/// Otherwise a process that found the stale file a moment ago would remove the new socket.
#[tokio::test]
async fn o1_new_socket_is_another_file_than_the_stale_one() {
    let folder = Folder::new();
    drop(UnixListener::bind(folder.socket()).unwrap());
    let inode = || std::fs::symlink_metadata(folder.socket()).unwrap().ino();
    let stale = inode();
    let _system = folder.system();
    assert_ne!(inode(), stale);
}
