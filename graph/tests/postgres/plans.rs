//! C11, C15, O7: lists and claims use an index, whatever the filter. `cargo xtask test` starts a
//! server.
#![cfg(all(feature = "conformance", feature = "postgres"))]

use crate::common::postgres::{connect, fresh_schema};
use crate::common::{LONG, create_held, forced, lease, next, queued, ready, row};
use deadpool_postgres::{Manager, Object, Pool};
use pleach_graph::store::{
    Commit, Filter, Held, NewMessage, NewRun, Parts, PostgresStore, Prune, Release, Rows, RunStatus, Store, StoreError, Tags,
};
use std::time::Duration;
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// Many runs of two graphs, few of them stuck. All are due, but with a schema that is never
/// claimed. The first 40 runs are of a rare graph, status and tag, whatever the number of runs.
fn fill(runs: u32) -> String {
    format!(
        "INSERT INTO pleach_run (id, graph, fingerprint, schema, status, epoch, head, oldest, wake_at, takeovers, posted, created, changed)
        SELECT CASE WHEN n <= 40 THEN 'rare ' ELSE 'run ' END || n, CASE WHEN n <= 40 THEN 'rare' ELSE 'essay' END, '0123456789abcdef', 2,
            CASE WHEN n <= 40 THEN 'stuck' ELSE 'finished' END, 1, 1, 1, n, 0, 0, n, n
        FROM generate_series(1, {runs}) AS n;
        INSERT INTO pleach_tag (key, value, run_created, run)
        SELECT 'kind', CASE WHEN graph = 'rare' THEN 'rare' ELSE 'usual' END, created, no FROM pleach_run;
        ANALYZE pleach_run; ANALYZE pleach_tag;"
    )
}

/// A store with one connection, and the pool of that connection.
async fn filled() -> (PostgresStore, Pool) {
    filled_with(20_000).await
}

async fn filled_with(runs: u32) -> (PostgresStore, Pool) {
    let url = fresh_schema().await;
    let pool = Pool::builder(Manager::new(url.parse().unwrap(), NoTls)).max_size(1).build().unwrap();
    let store = PostgresStore::with_pool(pool.clone()).await.unwrap();
    connect(&url).await.batch_execute(&fill(runs)).await.unwrap();
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

/// The filters of lists, the values of their statements after the first four, and the index.
fn lists() -> [(Vec<Filter>, &'static str, &'static str); 5] {
    let (status, graph) = (Filter::Status(RunStatus::Stuck), Filter::Graph("rare".into()));
    [
        (vec![], "", "pleach_run_created"),
        (vec![status.clone()], ", 'stuck'", "pleach_run_status"),
        (vec![graph.clone()], ", 'rare'", "pleach_run_graph"),
        (vec![status, graph], ", 'stuck', 'rare'", "pleach_run_graph_status"),
        (vec![Filter::tag("kind", "rare")], ", 'kind', 'rare'", "pleach_tag_pkey"),
    ]
}

const LISTS: &str = "SELECT no, id%DESC%";
const FIRST_PAGE: &str = "9223372036854775807, 9223372036854775807, -9223372036854775808, 21";

#[tokio::test]
async fn o7_every_list_uses_an_index() {
    let (store, pool) = filled().await;
    for (filters, values, index) in lists() {
        store.list(filters, None, 20).await.unwrap();
        let client = pool.get().await.unwrap();
        for plan_mode in ["force_generic_plan", "force_custom_plan"] {
            client.batch_execute(&format!("SET plan_cache_mode = {plan_mode}")).await.unwrap();
            let plan = plan(&client, LISTS, &format!("{FIRST_PAGE}{values}")).await;
            let is_of_index =
                ["Index Scan Backward", "Index Only Scan Backward"].map(|how| plan.contains(&format!("{how} using {index} ")));
            assert!(is_of_index[0] || is_of_index[1], "{plan_mode}{values}:\n{plan}");
            // The runs of a tag are found by their keys, and only those of one page are sorted.
            assert!(!plan.contains("Sort") || index == "pleach_tag_pkey", "{plan_mode}{values}:\n{plan}");
            assert!(!plan.contains("Seq Scan on pleach_run") && !plan.contains("Seq Scan on pleach_tag"), "{plan}");
        }
    }
    store.list(vec![Filter::IdPrefix("rare".into())], None, 20).await.unwrap();
    let plan = plan(&pool.get().await.unwrap(), "SELECT no, id%id >= %", "'rare', 'rarf', 1001").await;
    assert!(plan.contains("using pleach_run_id_key"), "{plan}");
}

/// The pages that the last list statement reads or finds in the cache, for a page of 20 runs.
async fn pages_of(client: &Object, values: &str) -> u64 {
    let last = "SELECT name FROM pg_prepared_statements WHERE statement LIKE $1 ORDER BY prepare_time DESC LIMIT 1";
    let name: String = client.query_one(last, &[&LISTS]).await.unwrap().get(0);
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT TEXT, TIMING OFF) EXECUTE {name} ({FIRST_PAGE}{values})");
    let mut pages = 0;
    // The second execution does not plan, so it reads no page of the catalog.
    for _ in 0..2 {
        let lines = client.simple_query(&explain).await.unwrap();
        let first = lines.iter().find_map(|line| match line {
            SimpleQueryMessage::Row(row) => row.get(0).filter(|line| line.contains("Buffers:")).map(String::from),
            _ => None,
        });
        let first = first.unwrap();
        pages = first.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse::<u64>().ok()).sum();
    }
    pages
}

#[tokio::test]
async fn o7_pages_read_by_a_list_do_not_grow_with_ended_runs() {
    let mut counts = Vec::new();
    for runs in [2_000, 60_000] {
        let (store, pool) = filled_with(runs).await;
        let mut pages = Vec::new();
        for (filters, values, _) in lists() {
            store.list(filters, None, 20).await.unwrap();
            let client = pool.get().await.unwrap();
            client.batch_execute("SET plan_cache_mode = force_generic_plan").await.unwrap();
            pages.push(pages_of(&client, values).await);
        }
        counts.push(pages);
    }
    for (list, (few, many)) in counts[0].iter().zip(&counts[1]).enumerate() {
        // A larger index has one more level, which each of the 21 runs of a tag passes.
        assert!(*few > 0 && *many <= few + 30, "list {list}: {few} pages, then {many}");
    }
}

#[tokio::test]
async fn o7_commit_without_changed_tags_does_not_use_the_tag_table() {
    let url = fresh_schema().await;
    let store = PostgresStore::connect(&url).await.unwrap();
    let mut claim = create_held(&store, "r").await;
    // Any statement that mentions the table would fail now.
    connect(&url).await.batch_execute("DROP TABLE pleach_tag").await.unwrap();
    store.commit(next(&claim, b"{}")).await.unwrap();
    claim.run.head += 1;
    store.commit(Commit { status: Some(RunStatus::Finished), release: true, ..next(&claim, b"{}") }).await.unwrap();
}

#[tokio::test]
async fn o9_look_at_a_message_finds_it_by_its_number() {
    let (store, pool) = filled().await;
    assert!(!store.is_untaken("run 41", 7).await.unwrap());
    let client = pool.get().await.unwrap();
    let fill = "INSERT INTO pleach_inbox (run, n, at, name, sum, payload)
        SELECT 1, n, 1, 'signal/go', 0, '' FROM generate_series(1, 5000) AS n; ANALYZE pleach_inbox;";
    client.batch_execute(fill).await.unwrap();
    for plan_mode in ["force_generic_plan", "force_custom_plan"] {
        client.batch_execute(&format!("SET plan_cache_mode = {plan_mode}")).await.unwrap();
        let plan = plan(&client, "SELECT EXISTS (SELECT FROM pleach_inbox%", "'rare 1', 7").await;
        assert!(plan.contains("using pleach_inbox_") && plan.contains("(n = "), "{plan_mode}:\n{plan}");
        assert!(!plan.contains("Filter: (n") && !plan.contains("Seq Scan on pleach_inbox"), "{plan_mode}:\n{plan}");
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

#[tokio::test]
async fn o8_overdue_runs_are_found_by_an_index() {
    let (store, pool) = filled().await;
    let overdue = store.overdue(Duration::ZERO, 2).await.unwrap();
    let found: Vec<(&str, usize, bool)> = overdue.iter().map(|of| (of.graph.as_str(), of.damaged.len(), of.has_more)).collect();
    assert_eq!(found, [("essay", 2, true), ("rare", 2, true)], "the rows have no valid checksum");
    let client = pool.get().await.unwrap();
    let plan = plan(&client, "WITH RECURSIVE version AS%", "0, 3, 1000").await;
    assert!(plan.contains("Index Cond: (ROW(graph, fingerprint, schema) > ROW("), "{plan}");
    assert!(plan.contains("AND (GREATEST(wake_at, lease_until) <= ") && !plan.contains("Seq Scan on pleach_run"), "{plan}");
}

/// Makes every call once, so that the session has prepared every statement.
async fn call_all(store: &PostgresStore) {
    let claim = create_held(store, "r").await;
    create_held(store, "other").await;
    assert!(matches!(store.create(queued("r"), vec![row("r", 1, 1, b"{}")]).await, Err(StoreError::Exists { .. })));
    store.send_message("r", NewMessage::seal("r", "signal/go", Some("once".into()), vec![])).await.unwrap();
    store.inbox("r", 0).await.unwrap();
    store.is_untaken("r", 1).await.unwrap();
    for _ in 0..2 {
        store.commit(Commit { takes: vec![1], ..next(&claim, b"{}") }).await.unwrap();
    }
    store.read("r", Rows::Range(1..=2), Parts::Whole).await.unwrap();
    store.prune(Prune::Rows { held: Held::of(&claim.run), before: 2, keep: vec![] }).await.unwrap();
    store.renew(vec![Held::of(&claim.run)], LONG).await.unwrap();
    // What comes meanwhile shares a round trip.
    let other = create_held(store, "in a batch").await;
    let alone = row("r", 3, 1, b"{}");
    let alone = store.commit(Commit { rows: vec![alone], ..next(&claim, b"{}") });
    let (first, second) = tokio::join!(alone, store.commit(next(&other, b"{}")));
    first.and(second).unwrap();
    let single = |run| store.read(run, Rows::Each(vec![2]), Parts::Whole);
    let (first, second) = tokio::join!(single("r"), single("in a batch"));
    first.and(second).unwrap();
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
    let (tag, prefix) = (Filter::tag("k", "v"), Filter::IdPrefix("r".into()));
    for filters in [vec![], vec![status.clone()], vec![graph.clone()], vec![status, graph], vec![tag], vec![prefix]] {
        store.list(filters, None, 9).await.unwrap();
    }
    store.overdue(Duration::ZERO, 9).await.unwrap();
    let mut tags = Tags::default();
    tags.set("k", "v").unwrap();
    let tagged = NewRun { tags: tags.clone(), lease: Some(lease("ann")), ..queued("tagged") };
    let tagged = store.create(tagged, vec![row("tagged", 1, 1, b"{}")]).await.unwrap();
    store.commit(Commit { tags: Some(tags), ..next(&tagged, b"{}") }).await.unwrap();
    store.refused("tagged").await.unwrap();
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
    for mark in ["WITH held AS MATERIALIZED", "WITH ORDINALITY AS w"] {
        assert!(statements.iter().any(|found| found.get::<_, String>(1).contains(mark)), "no batch was made: {mark}");
    }
    for found in statements {
        let (name, text, parameters): (String, String, i32) = (found.get(0), found.get(1), found.get(2));
        let values = vec!["NULL"; parameters as usize].join(", ");
        let plan = explain(&client, &name, &values).await;
        // The format table has one row.
        let others = plan.replace("Seq Scan on pleach_format", "");
        assert!(!others.contains("Seq Scan on pleach_"), "{text}:\n{plan}");
    }
}
