//! Runs of five steps for several workers. `SharedRuns` checks that each run has one driver and
//! continues from the last commit.

use super::Log;
use super::failing_connection::FailingConnection;
use pleach::durable::RunRemote;
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::sim::Sim;
use pleach::store::{Filter, MemoryStore, RunStatus, Store};
use pleach::worker::{RunningWorker, Worker};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

pub const LEASE: Duration = Duration::from_secs(8);

/// Shared by the nodes of all runs.
#[derive(Clone)]
pub struct SharedRuns {
    pub store: MemoryStore,
    pub clock: Arc<dyn Runtime>,
    pub starts: Log<(String, String)>,
    /// The number of running nodes of each run.
    pub running: Arc<Mutex<HashMap<String, u32>>>,
}

impl SharedRuns {
    pub fn new(sim: &Sim) -> Self {
        let (store, clock) = (MemoryStore::on(sim.runtime()), sim.runtime());
        Self { store, clock, starts: Log::new(), running: Arc::default() }
    }

    /// Records the start of a node. Panics if another node of the run is running, or if the state
    /// is not the committed one.
    pub async fn enter(&self, cx: &NodeContext, done: usize) -> Inside {
        let run = cx.run_id().to_string();
        self.starts.push((run.clone(), cx.node().to_string()));
        let running = {
            let mut running = self.running.lock().unwrap();
            let count = running.entry(run.clone()).or_default();
            *count += 1;
            *count
        };
        assert_eq!(running, 1, "run {run:?} has two drivers");
        let inside = Inside(self.clone(), run);
        let view = RunRemote::new(&self.store, inside.1.as_str()).view().await.unwrap();
        let committed: Vec<String> = serde_json::from_str(view.tokens[0].state.as_deref().unwrap()).unwrap();
        assert_eq!(committed.len(), done, "a committed step runs again");
        inside
    }

    pub async fn pass(&self, millis: u64) {
        self.clock.sleep_until(self.clock.now() + Duration::from_millis(millis)).await;
    }
}

/// Marks a node as running until it is dropped.
pub struct Inside(SharedRuns, String);

impl Drop for Inside {
    fn drop(&mut self) {
        *self.0.running.lock().unwrap().get_mut(&self.1).unwrap() -= 1;
    }
}

pub type State = Vec<String>;

/// Five steps of up to two seconds each.
pub fn five(shared: &SharedRuns) -> CompiledGraph<State> {
    let shared = shared.clone();
    let step = move |cx: NodeContext, mut state: State| {
        let shared = shared.clone();
        async move {
            let _inside = shared.enter(&cx, state.len()).await;
            shared.pass(shared.clock.random() % 2_000).await;
            state.push(format!("step {}", state.len() + 1));
            Ok::<_, String>(state)
        }
    };
    Graph::new("five")
        .add_node("step", step)
        .add_conditional_edge("step", ["step", END], |state: &State| if state.len() < 5 { "step" } else { END })
        .set_entry("step")
        .compile()
        .unwrap()
}

pub fn finished() -> State {
    (1..=5).map(|step| format!("step {step}")).collect()
}

pub async fn enqueue(shared: &SharedRuns, graph: &CompiledGraph<State>, runs: usize) {
    for run in 0..runs {
        let run = graph.run(Vec::new()).id(format!("run {run}")).runtime(Arc::clone(&shared.clock));
        run.checkpoint(&shared.store).enqueue().await.unwrap();
    }
}

/// Waits until this many runs have finished.
pub async fn all_finish(shared: &SharedRuns, runs: usize) {
    let clock = &shared.clock;
    for _ in 0..600 {
        let list = shared.store.list(vec![Filter::Status(RunStatus::Finished)], None, 100).await.unwrap();
        if list.runs.len() == runs {
            return;
        }
        clock.sleep_until(clock.now() + Duration::from_secs(1)).await;
    }
    let list = shared.store.list(Vec::new(), None, 100).await.unwrap();
    panic!("not all runs have finished: {:#?}", list.runs);
}

pub fn worker(sim: &Sim, store: &FailingConnection, graph: &CompiledGraph<State>) -> RunningWorker {
    Worker::new(store).graph(graph).limit(4).lease(LEASE).runtime(sim.runtime()).start().unwrap()
}
