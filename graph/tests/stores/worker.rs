//! C15, O8 on SQLite: workers with separate handles share one file.
#![cfg(all(feature = "sqlite", feature = "tokio"))]

use pleach_graph::store::SqliteStore;

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
