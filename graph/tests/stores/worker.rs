//! C15, O6 to O9 on SQLite: workers with separate handles share one file.
#![cfg(all(feature = "sqlite", feature = "tokio"))]

use pleach_graph::store::{MemoryStore, SqliteStore};

#[test]
fn c15_workers_on_one_file_share_the_runs_though_some_are_killed() {
    let folder = std::env::temp_dir().join(format!("pleach-worker-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("runs.db");
    crate::common::workers::check_shared_runs(async || SqliteStore::open(&file).await.unwrap());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn o8_unserved_runs_are_reported_on_sqlite() {
    let folder = crate::common::Folder::new();
    let store = SqliteStore::open(folder.file("runs.db")).await.unwrap();
    crate::common::unserved::check_unserved(store).await;
}

#[tokio::test]
async fn o9_messages_tags_and_failures_are_observed_through_another_handle() {
    let folder = crate::common::Folder::in_memory();
    let open = || SqliteStore::open(folder.file("runs.db"));
    crate::common::observed::check_observed(open().await.unwrap(), open().await.unwrap()).await;
    let memory = MemoryStore::new();
    crate::common::observed::check_observed(memory.clone(), memory).await;
}
