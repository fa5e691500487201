//! The workload of durable steps in PostgreSQL: steps with a state of 1 KB, by one run or by many
//! at once.
//!
//! The floor is a program without a store: one statement after the other on one connection, each of
//! which advances the row of a run, if its fence matches, and inserts one row into the log.
//!
//! The server of `workers` is used. `cargo xtask postgres` starts one that never syncs, so these
//! figures are the cost of the work, not of the disk.

use std::time::Duration;

use pleach::store::PostgresStore;

use crate::durable::{State, graph};
use crate::ground::timed;
use crate::stores::STATE_BYTES;
use crate::workers::{connect, on_server};

/// The statement of the floor.
const STEP: &str = "WITH advanced AS (
        UPDATE run SET head = head + 1, changed = statement_timestamp()
        WHERE id = $1 AND epoch = $2 AND head = $3 AND owner IS NOT NULL
        RETURNING no, head
    )
    INSERT INTO log (run, seq, body) SELECT no, head, $4 FROM advanced";

/// Makes `ops` steps, of `runs` runs in turn.
pub fn bare_steps(runs: u64, ops: u64) -> Option<Duration> {
    on_server(move |url| async move {
        let client = connect(&url).await;
        let tables = "CREATE TABLE run (no bigint PRIMARY KEY, id text NOT NULL UNIQUE, owner text, epoch bigint NOT NULL,
                head bigint NOT NULL, changed timestamptz) WITH (fillfactor = 70);
            CREATE TABLE log (run bigint NOT NULL REFERENCES run (no), seq bigint NOT NULL, body bytea NOT NULL,
                PRIMARY KEY (run, seq));";
        client.batch_execute(tables).await.expect("tables");
        let fill = "INSERT INTO run SELECT n, 'run ' || n, 'me', 1, 0, NULL FROM generate_series(0, $1::bigint - 1) AS n";
        client.execute(fill, &[&(runs as i64)]).await.expect("runs");
        timed(async move {
            let step = client.prepare(STEP).await.expect("a statement");
            let state = vec![b'x'; STATE_BYTES];
            for number in 0..ops {
                let (id, head) = (format!("run {}", number % runs), (number / runs) as i64);
                let inserted = client.execute(&step, &[&id, &1_i64, &head, &state]).await.expect("a step");
                assert_eq!(inserted, 1, "the fence matches");
            }
        })
        .await
    })
}

/// Runs `ops` durable steps in total, by `runs` runs at once.
pub fn steps(runs: u64, ops: u64) -> Option<Duration> {
    let graph = graph(ops / runs);
    on_server(move |url| async move {
        let store = PostgresStore::connect(&url).await.expect("a store");
        timed(async move {
            let drive = |run| {
                let run = graph.run(State::new()).id(format!("run {run}")).checkpoint(&store).max_iterations(u64::MAX);
                tokio::spawn(run.into_future())
            };
            for driver in (0..runs).map(drive).collect::<Vec<_>>() {
                driver.await.expect("a task").expect("the run finishes");
            }
        })
        .await
    })
}
