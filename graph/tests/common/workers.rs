//! Workers that share the runs of one store while some are killed at random. The others finish
//! their runs, and nothing is lost.
//!
//! Each worker has its own store handle to the same database and its own Tokio runtime. Killing it
//! shuts down that runtime in the middle of its tasks, without a release.

use pleach_graph::store::{Filter, RunStatus, Store};
use pleach_graph::{CompiledGraph, END, Graph, NodeContext, RunRemote, RunningWorker, Worker};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::watch;

const RUNS: usize = 24;
const STEPS: usize = 4;
const KILLS: usize = 3;

/// As short as a busy machine allows.
const LEASE: Duration = Duration::from_millis(1_500);

/// Counts the started steps. The test waits for this count instead of time.
#[derive(Clone)]
struct Progress(Arc<watch::Sender<usize>>);

/// Errors found by the nodes.
type Problems = Arc<Mutex<Vec<String>>>;

fn graph(store: Arc<dyn Store>, progress: Progress, problems: Problems) -> CompiledGraph<Vec<u32>> {
    let step = move |cx: NodeContext, mut state: Vec<u32>| {
        let (store, progress, problems) = (Arc::clone(&store), progress.clone(), Arc::clone(&problems));
        async move {
            progress.0.send_modify(|begun| *begun += 1);
            // In a runtime that is being killed a store no longer answers, like in a killed
            // process.
            let Ok(view) = RunRemote::new(&store, cx.run_id()).view().await else { return std::future::pending().await };
            let committed: Vec<u32> = serde_json::from_str(view.tokens[0].state.as_deref().unwrap()).unwrap();
            if committed != state {
                problems.lock().unwrap().push(format!("{} starts with {state:?}, but {committed:?} is committed", cx.run_id()));
            }
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            state.push(state.len() as u32);
            Ok::<_, String>(state)
        }
    };
    Graph::new("shared")
        .add_node("step", step)
        .add_conditional_edge("step", ["step", END], |state: &Vec<u32>| if state.len() < STEPS { "step" } else { END })
        .set_entry("step")
        .compile()
        .unwrap()
}

/// A worker in its own runtime, like a separate process.
struct Process {
    runtime: Runtime,
    worker: RunningWorker,
}

impl Process {
    fn start<S: Store + Clone>(open: &(impl AsyncFn() -> S + Sync), progress: &Progress, problems: &Problems) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let worker = runtime.block_on(async {
            let store = open().await;
            let graph = graph(Arc::new(store.clone()), progress.clone(), Arc::clone(problems));
            Worker::new(&store).graph(&graph).limit(6).lease(LEASE).poll_every(Duration::from_millis(200)).start().unwrap()
        });
        Self { runtime, worker }
    }

    fn kill(self) {
        // Dropping the worker would be an orderly end.
        std::mem::forget(self.worker);
        self.runtime.shutdown_background();
    }
}

/// Checks two workers at a time on one store, some of which are killed. `open` returns another
/// handle of the store. Call it outside of any runtime.
pub fn check_shared_runs<S: Store + Clone>(open: impl AsyncFn() -> S + Sync) {
    let progress = Progress(Arc::new(watch::Sender::new(0)));
    let problems = Problems::default();
    let outside = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let store = outside.block_on(open());
    let graph = graph(Arc::new(store.clone()), progress.clone(), Arc::clone(&problems));
    outside.block_on(async {
        for run in 0..RUNS {
            graph.run(Vec::new()).id(format!("run {run}")).checkpoint(&store).enqueue().await.unwrap();
        }
    });
    let mut workers = Vec::from([(); 2].map(|()| Process::start(&open, &progress, &problems)));
    for kill in 0..KILLS {
        // In the middle of the work.
        let begun = RUNS * STEPS / (KILLS + 2) * (kill + 1);
        outside.block_on(async { progress.0.subscribe().wait_for(|steps| *steps >= begun).await.map(drop).unwrap() });
        workers.remove(0).kill();
        workers.push(Process::start(&open, &progress, &problems));
    }
    outside.block_on(async {
        for run in 0..RUNS {
            let state = graph.outcome_of(format!("run {run}"), &store).await.unwrap();
            assert_eq!(state, (0..STEPS as u32).collect::<Vec<_>>());
        }
        let finished = store.list(vec![Filter::Status(RunStatus::Finished)], None, RUNS + 1).await.unwrap().runs;
        let ids: HashSet<&str> = finished.iter().map(|run| run.id.as_str()).collect();
        assert_eq!(ids.len(), RUNS);
        assert!(finished.iter().any(|run| run.epoch > 2), "no run was taken over, so no kill hit a running step");
        assert!(finished.iter().all(|run| run.head == 1 + STEPS as u64), "a step was committed twice");
    });
    assert_eq!(*problems.lock().unwrap(), Vec::<String>::new());
    assert!(*progress.0.borrow() >= RUNS * STEPS);
    workers.into_iter().for_each(Process::kill);
    outside.shutdown_background();
}
