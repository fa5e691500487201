//! The workloads of stored runs: steps that are durable before the next, by one run and by many at once, and how long a resume takes after a short
//! and after a long history.
//!
//! The floor of the steps is the bare insert of `stores`; that of a resume is a resume after ten steps.

use std::time::Duration;

use pleach::prelude::*;
use pleach::store::SqliteStore;
use serde::{Deserialize, Serialize};

use crate::ground::{Place, timed};
use crate::stores::{Folder, STATE_BYTES};

/// About 1 KB as JSON.
#[derive(Clone, Serialize, Deserialize)]
struct State {
    turns: u64,
    text: String,
}

impl State {
    fn new() -> Self {
        Self { turns: 0, text: "x".repeat(STATE_BYTES - 24) }
    }
}

/// Turns until it was told enough, or until it fails for good at the last.
fn graph(turns: u64) -> CompiledGraph<State> {
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

/// So many steps in all, by so many runs at once.
pub fn steps(runs: u64, ops: u64) -> Duration {
    let folder = Folder::new();
    let path = folder.path("store.db");
    let graph = graph(ops / runs);
    Place::Workers.run(async move {
        let store = SqliteStore::open(path).await.expect("a store");
        timed(async move {
            let drive = |run| {
                let run = graph.run(State::new()).id(format!("run {run}")).checkpoint(&store).max_iterations(u64::MAX);
                tokio::spawn(run.into_future())
            };
            for driver in (0..runs).map(drive).collect::<Vec<_>>() {
                driver.await.expect("a task").expect("a run comes to its end");
            }
        })
        .await
    })
}

/// A run with a map of so many branches, each one durable step; as often as it takes for so many steps in all.
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
                run.await.map(drop).expect("a run comes to its end");
            }
        })
        .await
    })
}

/// So many resumes of a run that stopped after so many steps; each goes on for one step.
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
