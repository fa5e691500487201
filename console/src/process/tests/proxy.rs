//! A process behind a socket, and a proxy that can cut the connection to it.

use pleach::inspect::{InspectAction, InspectBuilder as _, InspectOptions};
use pleach::prelude::*;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::copy_bidirectional;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

static FOLDERS: AtomicU64 = AtomicU64::new(0);

/// A folder for sockets, removed at the end.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        let name = format!("pleach-k-{}-{}", std::process::id(), FOLDERS.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&path).unwrap();
        Self(path)
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.0.join("s")
    }

    /// Starts a system with a socket that allows everything.
    pub(super) fn system(&self) -> ActorSystem {
        let actions = [InspectAction::Stop, InspectAction::Restart, InspectAction::Suspend, InspectAction::Resume];
        let options = InspectOptions::at(self.socket()).allow(actions).on_log_level(|_| Ok(()));
        ActorSystem::builder("shop").inspect(options).build().unwrap()
    }

    /// Opens another socket that leads to the first one.
    pub(super) fn proxy(&self) -> Proxy {
        let (path, target) = (self.0.join("p"), self.socket());
        drop(std::fs::remove_file(&path));
        let listener = UnixListener::bind(&path).unwrap();
        let task = tokio::spawn(async move {
            let mut open = tokio::task::JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                let target = target.clone();
                open.spawn(async move {
                    let Ok(mut server) = UnixStream::connect(target).await else { return };
                    drop(copy_bidirectional(&mut client, &mut server).await);
                });
            }
        });
        Proxy { path, task }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// A socket that leads to another one until it is dropped.
pub(super) struct Proxy {
    pub(super) path: PathBuf,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        drop(std::fs::remove_file(&self.path));
    }
}
