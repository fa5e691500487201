//! C15, O6 to O9 on PostgreSQL: workers with separate connections share one database. `cargo xtask
//! test` starts a server.
#![cfg(feature = "postgres")]

use pleach_graph::store::PostgresStore;
use tokio_postgres::NoTls;

#[test]
fn c15_workers_on_one_database_share_the_runs_though_some_are_killed() {
    let server = std::env::var("PLEACH_POSTGRES_URL").expect(
        "PLEACH_POSTGRES_URL is not set; these tests need a PostgreSQL server. \
         `cargo xtask postgres cargo test -p pleach-graph --all-features --test postgres` starts one",
    );
    let schema = format!("worker_{}", std::process::id());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&server, NoTls).await.unwrap();
        tokio::spawn(connection);
        let statement = format!("DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}");
        client.batch_execute(&statement).await.unwrap();
    });
    let url = format!("{server}?options=-csearch_path%3D{schema}&application_name={schema}");
    crate::common::workers::check_shared_runs(async || PostgresStore::connect(&url).await.unwrap());
}

#[tokio::test]
async fn o8_unserved_runs_are_reported_on_postgres() {
    let url = crate::common::postgres::fresh_schema().await;
    crate::common::unserved::check_unserved(PostgresStore::connect(&url).await.unwrap()).await;
}

#[tokio::test]
async fn o9_messages_tags_and_failures_are_observed_through_another_connection() {
    let url = crate::common::postgres::fresh_schema().await;
    let connect = || PostgresStore::connect(&url);
    crate::common::observed::check_observed(connect().await.unwrap(), connect().await.unwrap()).await;
}
