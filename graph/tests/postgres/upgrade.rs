//! C7, C15: tables of earlier and later versions, and several processes that create or upgrade them
//! at once. `cargo xtask test` starts a server.
#![cfg(all(feature = "conformance", feature = "postgres"))]

use crate::common::postgres::{connect, fresh_schema, futures_of};
use crate::common::{create_held, errors_of_all_calls, lease, next, queued, ready, row};
use pleach_graph::store::{Claim, Commit, NewMessage, NewRun, PostgresStore, Refusal, RefusalCause, Store, StoreError};

/// Downgrades tables of format 5 to format 3. Runs must have no tags.
const FORMAT_3: &str = "
    DROP TABLE pleach_tag;
    ALTER TABLE pleach_run DROP COLUMN tags, DROP COLUMN failure;
    DROP INDEX pleach_inbox_refused, pleach_run_created, pleach_run_status, pleach_run_graph, pleach_run_graph_status;
    ALTER TABLE pleach_inbox DROP COLUMN refused, DROP COLUMN cause;
    CREATE INDEX pleach_run_status ON pleach_run (status, no);
    CREATE INDEX pleach_run_graph ON pleach_run (graph, no);
    CREATE INDEX pleach_run_graph_status ON pleach_run (graph, status, no);
    UPDATE pleach_format SET format = 3;
";

/// Downgrades tables of format 3 to format 2. Runs must have instance 0 and no deadline.
const FORMAT_2: &str = "
    ALTER TABLE pleach_run DROP COLUMN instance, DROP COLUMN trouble, DROP COLUMN deadline;
    DROP INDEX pleach_run_due, pleach_run_status, pleach_run_graph, pleach_run_graph_status;
    CREATE INDEX pleach_run_due ON pleach_run (graph, fingerprint, GREATEST(wake_at, lease_until)) WHERE wake_at IS NOT NULL;
    UPDATE pleach_format SET format = 2;
";

/// Downgrades tables of format 2 to format 1.
const FORMAT_1: &str = "ALTER TABLE pleach_run DROP COLUMN sum; UPDATE pleach_format SET format = 1";

/// The indexes of the tables, without the schema name.
async fn indexes(url: &str) -> Vec<String> {
    let shown =
        "SELECT replace(indexdef, current_schema() || '.', '') FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1";
    connect(url).await.query(shown, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

async fn create_of_instance_0(store: &PostgresStore, id: &str) -> Claim {
    let run = NewRun { instance: 0, lease: Some(lease("ann")), ..queued(id) };
    store.create(run, vec![row(id, 1, 1, b"{}")]).await.unwrap()
}

#[tokio::test]
async fn c7_tables_of_format_1_are_upgraded() {
    let url = fresh_schema().await;
    let first = PostgresStore::connect(&url).await.unwrap();
    let mut claim = create_of_instance_0(&first, "r").await;
    first.create(NewRun { instance: 0, ..queued("queued") }, vec![row("queued", 1, 1, b"{}")]).await.unwrap();
    drop(first);
    let direct = connect(&url).await;
    direct.batch_execute(&format!("{FORMAT_3}{FORMAT_2}{FORMAT_1}")).await.unwrap();
    // Several stores connect at once. One of them upgrades.
    let stores = futures_of(4, || PostgresStore::connect(&url)).await;
    for store in stores {
        let store = store.unwrap();
        store.commit(next(&claim, b"{}")).await.unwrap();
        claim.run.head += 1;
        assert_eq!(store.list(Vec::new(), None, 9).await.unwrap().runs.len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c7_tables_of_format_2_are_upgraded_and_keep_their_checksums() {
    let url = fresh_schema().await;
    let first = PostgresStore::connect(&url).await.unwrap();
    let mut claim = create_of_instance_0(&first, "r").await;
    first.create(NewRun { instance: 0, ..queued("queued") }, vec![row("queued", 1, 1, b"{}")]).await.unwrap();
    drop(first);
    let new_indexes = indexes(&url).await;
    let direct = connect(&url).await;
    direct.batch_execute(&format!("{FORMAT_3}{FORMAT_2}")).await.unwrap();
    let connecting: Vec<_> = (0..8)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { PostgresStore::connect(&url).await })
        })
        .collect();
    for connected in connecting {
        let store = connected.await.unwrap().unwrap();
        store.commit(next(&claim, b"{}")).await.unwrap();
        claim.run.head += 1;
        let list = store.list(Vec::new(), None, 9).await.unwrap();
        assert_eq!((list.runs.len(), list.damaged), (2, vec![]));
    }
    assert_eq!(indexes(&url).await, new_indexes, "an upgraded database equals a new one");
    let store = PostgresStore::connect(&url).await.unwrap();
    let claimed = store.claim(ready(9), lease("bob")).await.unwrap();
    assert_eq!(claimed.iter().map(|claim| (claim.run.id.as_str(), claim.run.instance)).collect::<Vec<_>>(), [("queued", 0)]);
}

/// Downgrades tables of format 5 to format 4.
const FORMAT_4: &str = "ALTER TABLE pleach_inbox DROP COLUMN cause; UPDATE pleach_format SET format = 4";

#[tokio::test]
async fn c7_refused_messages_of_format_4_are_kept_without_a_cause() {
    let url = fresh_schema().await;
    let first = PostgresStore::connect(&url).await.unwrap();
    let claim = create_held(&first, "r").await;
    let message = NewMessage::seal("r", "answer/approve", None, b"7".to_vec());
    let number = first.send_message("r", message).await.unwrap();
    let refusal = Refusal { number, reason: "a text is needed".into(), cause: RefusalCause::Damaged, wait: Some(1) };
    first.commit(Commit { refuses: vec![refusal], ..next(&claim, b"{}") }).await.unwrap();
    drop(first);
    let new_indexes = indexes(&url).await;
    connect(&url).await.batch_execute(FORMAT_4).await.unwrap();
    let store = PostgresStore::connect(&url).await.unwrap();
    let refused = store.refused("r").await.unwrap();
    assert_eq!((refused[0].reason.as_str(), refused[0].wait), ("a text is needed", None));
    assert_eq!(refused[0].cause, RefusalCause::Unknown);
    assert_eq!(indexes(&url).await, new_indexes, "an upgraded database equals a new one");
}

#[tokio::test]
async fn c7_tables_of_a_later_version_are_rejected() {
    let url = fresh_schema().await;
    drop(PostgresStore::connect(&url).await.unwrap());
    connect(&url).await.execute("UPDATE pleach_format SET format = 99", &[]).await.unwrap();
    let rejected = PostgresStore::connect(&url).await.unwrap_err();
    assert!(matches!(rejected, StoreError::NewerFormat { format: 99, known: 5, .. }), "{rejected}");
}

#[tokio::test]
async fn c7_open_store_is_rejected_once_its_tables_are_upgraded() {
    for change in ["", "ALTER TABLE pleach_run RENAME COLUMN status TO state"] {
        let url = fresh_schema().await;
        let store = PostgresStore::connect(&url).await.unwrap();
        let claim = create_held(&store, "r").await;
        store.commit(next(&claim, b"{}")).await.unwrap();
        let direct = connect(&url).await;
        direct.batch_execute(&format!("UPDATE pleach_format SET format = 6; {change}")).await.unwrap();
        for (call, error) in errors_of_all_calls(&store, &claim).await {
            assert!(matches!(error, StoreError::NewerFormat { format: 6, known: 5, .. }), "{call}: {error}");
        }
        let head: i64 = direct.query_one("SELECT head FROM pleach_run", &[]).await.unwrap().get(0);
        assert_eq!(head, 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c15_many_clients_can_connect_first() {
    let url = fresh_schema().await;
    let connecting: Vec<_> = (0..8)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { PostgresStore::connect(&url).await.map(drop) })
        })
        .collect();
    for connected in connecting {
        connected.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn c7_tables_are_neither_created_nor_migrated_without_permission() {
    let url = fresh_schema().await;
    let connected = || PostgresStore::builder(&url).migrate(false).connect();
    let missing = connected().await.unwrap_err();
    assert!(matches!(missing, StoreError::OlderFormat { format: 0, .. }), "{missing}");
    drop(PostgresStore::connect(&url).await.unwrap());
    assert_eq!(connected().await.unwrap().list(Vec::new(), None, 9).await.unwrap().runs, []);
    connect(&url).await.batch_execute(FORMAT_3).await.unwrap();
    let older = connected().await.unwrap_err();
    assert!(matches!(older, StoreError::OlderFormat { format: 3, .. }), "{older}");
    let again = connected().await.unwrap_err();
    assert!(matches!(again, StoreError::OlderFormat { format: 3, .. }), "nothing was migrated: {again}");
    drop(PostgresStore::connect(&url).await.unwrap());
    connected().await.unwrap();
}
