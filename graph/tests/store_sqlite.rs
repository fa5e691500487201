//! `SqliteStore` is a store, and what only a file can go through.
#![cfg(all(feature = "conformance", feature = "sqlite"))]

use pleach_graph::store::{SqliteStore, Store, conformance};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A folder that goes with the test.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("pleach-store-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

#[tokio::test]
async fn c11_the_sqlite_store_conforms() {
    let folder = Folder::new();
    let count = AtomicU32::new(0);
    conformance::check_all(async || {
        let name = format!("{}.db", count.fetch_add(1, Relaxed));
        Arc::new(SqliteStore::open(folder.file(&name)).await.unwrap()) as Arc<dyn Store>
    })
    .await;
}
