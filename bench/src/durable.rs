//! The workloads of stored runs: durable steps, by one run or by many at once, and resumes after a
//! short and a long history.
//!
//! The floor of the steps is the bare insert of `stores`. The floor of a resume is a resume after
//! ten steps.

use std::time::Duration;

use pleach::prelude::*;
use pleach::store::SqliteStore;
use serde::{Deserialize, Serialize};

use crate::ground::{Place, timed};
use crate::stores::{Folder, STATE_BYTES, WARM_UP};

/// A state of about 1 KB as JSON.
#[derive(Clone, Serialize, Deserialize)]
pub struct State {
    turns: u64,
    text: String,
}

impl State {
    pub fn new() -> Self {
        Self { turns: 0, text: "x".repeat(STATE_BYTES - 24) }
    }
}

/// A graph with one node that visits itself until the state has counted `turns`.
pub fn graph(turns: u64) -> CompiledGraph<State> {
    let turn = |mut state: State| async move {
        state.turns += 1;
        Ok::<_, String>(state)
    };
    Graph::new("turns")
        .add_node("turn", turn)
        .add_conditional_edge("turn", ["turn", END], move |state: &State| if state.turns < turns { "turn" } else { END })
        .set_entry("turn")
        .compile()
        .expect("a graph")
}

/// Runs `ops` durable steps in total, by `runs` runs at once.
pub fn steps(runs: u64, ops: u64) -> Duration {
    timed_steps(0, runs, ops)
}

/// Does the same after [`WARM_UP`] steps that are not timed.
pub fn steady_steps(runs: u64, ops: u64) -> Duration {
    timed_steps(WARM_UP, runs, ops)
}

fn timed_steps(warm_up: u64, runs: u64, ops: u64) -> Duration {
    let folder = Folder::new();
    let path = folder.path("store.db");
    Place::Workers.run(async move {
        let store = SqliteStore::open(path).await.expect("a store");
        if warm_up > 0 {
            drive("warm-up", &store, 64, warm_up).await;
        }
        timed(drive("run", &store, runs, ops)).await
    })
}

/// Drives this many runs at once, with `ops` steps in total.
async fn drive(name: &str, store: &SqliteStore, runs: u64, ops: u64) {
    let graph = graph(ops / runs);
    let drive = |run| {
        let run = graph.run(State::new()).id(format!("{name} {run}")).checkpoint(store).max_iterations(u64::MAX);
        tokio::spawn(run.into_future())
    };
    for driver in (0..runs).map(drive).collect::<Vec<_>>() {
        driver.await.expect("a task").expect("the run finishes");
    }
}

/// Runs a map of `branches` branches, each one durable step, until `ops` steps are done.
pub fn maps(branches: u64, ops: u64) -> Duration {
    let folder = Folder::new();
    let path = folder.path("store.db");
    let pass = |state: State| async move { Ok::<_, String>(state) };
    let split = move |state: &State| (0..branches).map(|turns| State { turns, ..state.clone() }).collect();
    let graph = Graph::new("map")
        .add_node("split", pass)
        .add_node("branch", pass)
        .map("split", split, "branch", END, |state, _| state)
        .set_entry("split")
        .compile()
        .expect("a graph");
    Place::Workers.run(async move {
        let store = SqliteStore::open(path).await.expect("a store");
        timed(async move {
            for run in 0..ops / branches {
                let run = graph.run(State::new()).id(format!("run {run}")).checkpoint(&store);
                run.await.map(drop).expect("the run finishes");
            }
        })
        .await
    })
}

/// Resumes a run `ops` times that stopped after `history` steps. Each resume runs one more step.
pub fn resumes(history: u64, ops: u64) -> Duration {
    let folder = Folder::new();
    let path = folder.path("store.db");
    let graph = graph(u64::MAX);
    Place::Workers.run(async move {
        let store = SqliteStore::open(path).await.expect("a store");
        let first = graph.run(State::new()).id("run").checkpoint(&store).keep_records(u64::MAX).max_iterations(history);
        first.await.map(drop).expect_err("it stops at its limit");
        timed(async move {
            for done in 1..=ops {
                let again = graph.resume("run").checkpoint(&store).keep_records(u64::MAX).max_iterations(history + done);
                again.await.map(drop).expect_err("it stops at its limit");
            }
        })
        .await
    })
}
