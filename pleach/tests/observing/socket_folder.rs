//! A folder for the sockets of one test, removed at its end.

use pleach::inspect::Client;
use pleach::prelude::*;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

static FOLDERS: AtomicUsize = AtomicUsize::new(0);

pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        let name = format!("pleach-o-{}-{}", std::process::id(), FOLDERS.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn socket(&self) -> PathBuf {
        self.0.join("inspect.sock")
    }

    /// Starts a system with a socket in this folder.
    pub fn system(&self) -> ActorSystem {
        ActorSystem::builder("shop").inspect(self.socket()).build().unwrap()
    }

    pub async fn client(&self) -> Client {
        Client::connect(self.socket()).await.unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

pub fn path(text: &str) -> ActorPath {
    text.parse().unwrap()
}
