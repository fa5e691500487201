//! Durable steps on PostgreSQL: pleach beside `durare` and `dbos`.
//!
//! Every peer does the same: some runs at once, each with [`STEPS`] steps one after the other, and
//! each step commits a state of 1 KB before the next. Every peer has its own database on the server
//! that `PLEACH_POSTGRES_URL` names, and its pool of 8 connections. The JSON lines are those of
//! `pleach-bench`; ratios are to durare, in the same round.
//!
//! ```sh
//! cargo build --release --manifest-path bench/workflows/Cargo.toml
//! DBOS__APPVERSION=bench PLEACH_POSTGRES_SYNC=1 \
//!     cargo xtask postgres bench/workflows/target/release/pleach-bench-workflows
//! ```
//!
//! The crate dbos runs no workflow without a version of its program.

use std::env;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use durare::{DurableContext, DurableEngine, WorkflowOptions};
use pleach::prelude::*;
use pleach::store::PostgresStore;
use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Steps of each run.
const STEPS: u64 = 50;

/// How many runs are driven at once, and how many in total.
const LOADS: [(u64, u64); 3] = [(1, 4), (16, 32), (64, 128)];

const ROUNDS: usize = 3;

/// The connections of the pool of each peer.
const CONNECTIONS: u32 = 8;

const STATE_BYTES: usize = 1_000;

/// A state of about 1 KB as JSON.
#[derive(Clone, Serialize, Deserialize)]
struct State {
    turns: u64,
    text: String,
}

impl State {
    fn new() -> Self {
        Self { turns: 0, text: "x".repeat(STATE_BYTES) }
    }

    fn next(mut self) -> Self {
        self.turns += 1;
        self
    }
}

fn main() -> Result<()> {
    let server = env::var("PLEACH_POSTGRES_URL").map_err(|_| "PLEACH_POSTGRES_URL is not set: use `cargo xtask postgres`")?;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let measured = runtime.block_on(async move { tokio::spawn(measure(server)).await? });
    runtime.shutdown_background();
    measured
}

async fn measure(server: String) -> Result<()> {
    let durare = Durare::new(&database(&server, "bench_durare").await?).await?;
    let pleach = Pleach::new(&database(&server, "bench_pleach").await?).await?;
    let dbos = Dbos::new(&database(&server, "bench_dbos").await?).await?;
    for (at_once, runs) in LOADS {
        let mut samples: [Vec<f64>; 3] = Default::default();
        for round in 0..ROUNDS {
            for turn in 0..samples.len() {
                let peer = (turn + round) % samples.len();
                let name = format!("{at_once}-{round}");
                let taken = match peer {
                    0 => drive(at_once, runs, |run| durare.run(format!("{name}-{run}"))).await?,
                    1 => drive(at_once, runs, |run| pleach.run(format!("{name}-{run}"))).await?,
                    _ => drive(at_once, runs, |run| dbos.run(format!("{name}-{run}"))).await?,
                };
                samples[peer].push(taken.as_nanos() as f64 / (runs * STEPS) as f64);
            }
        }
        report(at_once, &samples);
    }
    Ok(())
}

/// Creates an empty database, and returns its URL.
async fn database(server: &str, name: &str) -> Result<String> {
    let (client, connection) = tokio_postgres::connect(server, NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute(&format!("DROP DATABASE IF EXISTS {name}")).await?;
    client.batch_execute(&format!("CREATE DATABASE {name}")).await?;
    let (before, _) = server.rsplit_once('/').ok_or("the URL of the server names no database")?;
    Ok(format!("{before}/{name}"))
}

/// Drives runs, `at_once` at a time.
async fn drive<F>(at_once: u64, runs: u64, run: impl Fn(u64) -> F) -> Result<Duration>
where
    F: Future<Output = Result<u64>> + Send + 'static,
{
    let start = Instant::now();
    let mut driven = JoinSet::new();
    for number in 0..runs {
        if driven.len() as u64 == at_once {
            finished(driven.join_next().await)?;
        }
        driven.spawn(run(number));
    }
    while !driven.is_empty() {
        finished(driven.join_next().await)?;
    }
    Ok(start.elapsed())
}

fn finished(run: Option<std::result::Result<Result<u64>, tokio::task::JoinError>>) -> Result<()> {
    let turns = run.ok_or("no run is left")???;
    if turns == STEPS { Ok(()) } else { Err(format!("a run ended after {turns} steps").into()) }
}

struct Pleach {
    store: PostgresStore,
    graph: CompiledGraph<State>,
}

impl Pleach {
    async fn new(url: &str) -> Result<Self> {
        let turn = |state: State| async move { Ok::<_, String>(state.next()) };
        let graph = Graph::new("turns")
            .add_node("turn", turn)
            .add_conditional_edge("turn", ["turn", END], |state: &State| if state.turns < STEPS { "turn" } else { END })
            .set_entry("turn")
            .compile()?;
        Ok(Self { store: PostgresStore::connect(url).await?, graph })
    }

    fn run(&self, id: String) -> impl Future<Output = Result<u64>> + Send + use<> {
        let run = self.graph.run(State::new()).id(id).checkpoint(&self.store).into_future();
        async move { Ok(run.await?.turns) }
    }
}

struct Durare(Arc<DurableEngine>);

impl Durare {
    async fn new(url: &str) -> Result<Self> {
        let mut engine = DurableEngine::connect(url).await?;
        engine.register("turns", |cx: DurableContext, mut state: State| async move {
            for _ in 0..STEPS {
                let next = state.next();
                state = cx.step("turn", || async { Ok(next) }).await?;
            }
            Ok(state.turns)
        });
        Ok(Self(Arc::new(engine.build().await?)))
    }

    fn run(&self, id: String) -> impl Future<Output = Result<u64>> + Send + use<> {
        let engine = Arc::clone(&self.0);
        async move {
            let run = engine.start::<State, u64>("turns", State::new(), WorkflowOptions::with_id(id)).await?;
            Ok(run.await?)
        }
    }
}

struct Dbos(dbos::WorkflowRef<State, u64>);

impl Dbos {
    async fn new(url: &str) -> Result<Self> {
        let mut config = dbos::Config::new("bench", url);
        config.max_connections = CONNECTIONS;
        let dbos = dbos::DBOS::new(config);
        let turns = dbos.register_workflow("turns", |mut state: State| async move {
            for _ in 0..STEPS {
                let next = state.next();
                state = dbos::step("turn", || async { Ok::<_, dbos::Error>(next.clone()) }).await?;
            }
            Ok::<_, dbos::Error>(state.turns)
        })?;
        dbos.launch().await?;
        Ok(Self(turns))
    }

    fn run(&self, id: String) -> impl Future<Output = Result<u64>> + Send + use<> {
        let turns = self.0.clone();
        async move {
            let options = dbos::RunOptions { workflow_id: Some(&id), ..Default::default() };
            Ok(turns.run_with(State::new(), options).await?)
        }
    }
}

/// Prints the median of each peer, and of its ratio to the first.
fn report(at_once: u64, samples: &[Vec<f64>; 3]) {
    for (peer, ns) in ["durare", "pleach", "dbos"].iter().zip(samples) {
        let ratios = ns.iter().zip(&samples[0]).map(|(ns, floor)| ns / floor).collect();
        let (ns, ratio) = (median(ns.clone()), median(ratios));
        println!(
            r#"{{"workload":"postgres.steps_{at_once}","peer":"{peer}","ns_per_op":{ns:.4},"ratio_to_floor":{ratio:.4}}}"#
        );
    }
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
