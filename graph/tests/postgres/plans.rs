//! C11, C15: lists and claims use an index, whatever the filter. `cargo xtask test` starts a
//! server.
#![cfg(all(feature = "conformance", feature = "postgres"))]

use crate::common::postgres::{connect, fresh_schema};
use crate::common::{LONG, create_held, forced, lease, next, queued, ready, row};
use deadpool_postgres::{Manager, Object, Pool};
use pleach_graph::store::{
    Commit, Filter, Held, NewMessage, Parts, PostgresStore, Prune, Release, Rows, RunStatus, Store, StoreError,
};
use std::time::Duration;
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// Many runs of two graphs, few of them stuck, in no useful order. All are due, but with a schema
/// that is never claimed.
const FILL: &str = "
    INSERT INTO pleach_run (id, graph, fingerprint, schema, status, epoch, head, oldest, wake_at, takeovers, posted, created, changed)
    SELECT 'run ' || n, CASE WHEN n % 500 = 0 THEN 'rare' ELSE 'essay' END, '0123456789abcdef', 2,
        CASE WHEN n % 700 = 0 THEN 'stuck' ELSE 'finished' END, 1, 1, 1, n, 0, 0, 0, 0
    FROM generate_series(1, 20000) AS n;
    ANALYZE pleach_run;
";

/// A store with one connection, and the pool of that connection.
async fn filled() -> (PostgresStore, Pool) {
    let url = fresh_schema().await;
    let pool = Pool::builder(Manager::new(url.parse().unwrap(), NoTls)).max_size(1).build().unwrap();
    let store = PostgresStore::with_pool(pool.clone()).await.unwrap();
    connect(&url).await.batch_execute(FILL).await.unwrap();
    (store, pool)
}

/// The plan of the last prepared statement of this session that matches `like`.
async fn plan(client: &Object, like: &str, values: &str) -> String {
    let last = "SELECT name FROM pg_prepared_statements WHERE statement LIKE $1 ORDER BY prepare_time DESC LIMIT 1";
    let name: String = client.query_one(last, &[&like]).await.unwrap().get(0);
    explain(client, &name, values).await
}

async fn explain(client: &Object, name: &str, values: &str) -> String {
    let lines = client.simple_query(&format!("EXPLAIN EXECUTE {name} ({values})")).await.unwrap();
    let text = |line: &SimpleQueryMessage| match line {
        SimpleQueryMessage::Row(row) => row.get(0).map(String::from),
        _ => None,
    };
    lines.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn c11_lists_by_status_and_graph_use_an_index() {
    let (store, pool) = filled().await;
    let (status, graph) = (Filter::Status(RunStatus::Stuck), Filter::Graph("rare".into()));
    let cases = [
        (vec![], "", "pleach_run_pkey"),
        (vec![status.clone()], ", 'stuck'", "pleach_run_status"),
        (vec![graph.clone()], ", 'rare'", "pleach_run_graph"),
        (vec![status, graph], ", 'stuck', 'rare'", "pleach_run_graph_status"),
    ];
    for (filters, values, index) in cases {
        store.list(filters, None, 20).await.unwrap();
        let client = pool.get().await.unwrap();
        for plan_mode in ["force_generic_plan", "force_custom_plan"] {
            client.batch_execute(&format!("SET plan_cache_mode = {plan_mode}")).await.unwrap();
            let plan =
                plan(&client, "SELECT no, id%no DESC%", &format!("9223372036854775807, NULL, NULL, NULL, NULL, 21{values}"))
                    .await;
            assert!(plan.contains(&format!("Index Scan Backward using {index} ")), "{plan_mode}{values}:\n{plan}");
            assert!(!plan.contains("Sort"), "{plan_mode}{values}:\n{plan}");
        }
    }
}

#[tokio::test]
async fn c15_claims_find_their_schema_by_an_index() {
    let (store, pool) = filled().await;
    assert!(store.claim(ready(9), lease("bob")).await.unwrap().is_empty(), "all runs are of another schema");
    let client = pool.get().await.unwrap();
    let plan = plan(&client, "WITH due AS%", "'{essay}', '{0123456789abcdef}', '{1}', 'bob', 1000, 9, 5").await;
    assert!(plan.contains("Index Scan using pleach_run_due") && plan.contains("schema = known.schema"), "{plan}");
}

/// Makes every call once, so that the session has prepared every statement.
async fn call_all(store: &PostgresStore) {
    let claim = create_held(store, "r").await;
    create_held(store, "other").await;
    assert!(matches!(store.create(queued("r"), vec![row("r", 1, 1, b"{}")]).await, Err(StoreError::Exists { .. })));
    store.send_message("r", NewMessage::seal("r", "signal/go", Some("once".into()), vec![])).await.unwrap();
    store.inbox("r", 0).await.unwrap();
    for _ in 0..2 {
        store.commit(Commit { takes: vec![1], ..next(&claim, b"{}") }).await.unwrap();
    }
    store.read("r", Rows::Range(1..=2), Parts::Whole).await.unwrap();
    store.prune(Prune::Rows { held: Held::of(&claim.run), before: 2, keep: vec![] }).await.unwrap();
    store.renew(vec![Held::of(&claim.run)], LONG).await.unwrap();
    store.release(vec![Held::of(&claim.run)], Release::AsIs).await.unwrap();
    store.claim(forced("r"), lease("bob")).await.unwrap();
    store.claim(ready(9), lease("bob")).await.unwrap();
    let ended = create_held(store, "ended").await;
    let finished = Commit { status: Some(RunStatus::Finished), release: true, ..next(&ended, b"{}") };
    store.commit(finished).await.unwrap();
    assert_eq!(store.prune(Prune::Ended { unchanged_for: Duration::ZERO, count: 1 }).await.unwrap(), 1);
    assert_eq!(store.prune(Prune::Ended { unchanged_for: Duration::ZERO, count: 1 }).await.unwrap(), 0);
    assert!(matches!(store.delete("r").await, Err(StoreError::Held { .. })));
    let (status, graph) = (Filter::Status(RunStatus::Stuck), Filter::Graph("rare".into()));
    for filters in [vec![], vec![status.clone()], vec![graph.clone()], vec![status, graph]] {
        store.list(filters, None, 9).await.unwrap();
    }
    store.overdue(Duration::ZERO, 9).await.unwrap();
}

#[tokio::test]
async fn c11_no_statement_reads_a_whole_table() {
    let (store, pool) = filled().await;
    call_all(&store).await;
    let client = pool.get().await.unwrap();
    client.batch_execute("SET plan_cache_mode = force_generic_plan").await.unwrap();
    let prepared = "SELECT name, statement, cardinality(parameter_types) FROM pg_prepared_statements
        WHERE statement LIKE '%pleach_%' AND cardinality(parameter_types) > 0 ORDER BY prepare_time";
    let statements = client.query(prepared, &[]).await.unwrap();
    assert!(statements.len() >= 20, "too few prepared statements: {}", statements.len());
    for found in statements {
        let (name, text, parameters): (String, String, i32) = (found.get(0), found.get(1), found.get(2));
        let values = vec!["NULL"; parameters as usize].join(", ");
        let plan = explain(&client, &name, &values).await;
        // The format table has one row.
        let others = plan.replace("Seq Scan on pleach_format", "");
        assert!(!others.contains("Seq Scan on pleach_"), "{text}:\n{plan}");
    }
}
