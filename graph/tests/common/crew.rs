//! Workers that are killed at random while they share the runs of one store: what is left is finished by the others, and nothing is lost.
//!
//! Each worker has a store of its own, to the same database, and a Tokio runtime of its own; killing it is the end of that runtime, in the middle of
//! whatever its tasks were at. Nobody gives up anything then.

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

/// As short as a machine that is busy otherwise can keep up with.
const LEASE: Duration = Duration::from_millis(1_500);

/// How many steps were begun: whoever kills waits for that, and not for time to pass.
#[derive(Clone)]
struct Progress(Arc<watch::Sender<usize>>);

/// What is wrong, if anything is.
type Complaints = Arc<Mutex<Vec<String>>>;

fn graph(store: Arc<dyn Store>, progress: Progress, complaints: Complaints) -> CompiledGraph<Vec<u32>> {
    let step = move |cx: NodeContext, mut state: Vec<u32>| {
        let (store, progress, complaints) = (Arc::clone(&store), progress.clone(), Arc::clone(&complaints));
        async move {
            progress.0.send_modify(|begun| *begun += 1);
            // In a runtime that is being killed a store does not answer any more, and neither would a process.
            let Ok(view) = RunRemote::new(&store, cx.run_id()).look().await else { return std::future::pending().await };
            let committed: Vec<u32> = serde_json::from_str(view.tokens[0].state.as_deref().unwrap()).unwrap();
            if committed != state {
                complaints.lock().unwrap().push(format!("{} begins at {state:?}, and {committed:?} is committed", cx.run_id()));
            }
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            state.push(state.len() as u32);
            Ok::<_, String>(state)
        }
    };
    Graph::new("crew")
        .add_node("step", step)
        .add_conditional_edge("step", ["step", END], |state: &Vec<u32>| if state.len() < STEPS { "step" } else { END })
        .set_entry("step")
        .compile()
        .unwrap()
}

/// A worker in a runtime of its own, as in a process of its own.
struct Process {
    runtime: Runtime,
    worker: RunningWorker,
}

impl Process {
    fn start<S: Store + Clone>(open: &(impl AsyncFn() -> S + Sync), progress: &Progress, complaints: &Complaints) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let worker = runtime.block_on(async {
            let store = open().await;
            let graph = graph(Arc::new(store.clone()), progress.clone(), Arc::clone(complaints));
            Worker::new(&store).graph(&graph).limit(6).lease(LEASE).poll_every(Duration::from_millis(200)).start().unwrap()
        });
        Self { runtime, worker }
    }

    fn kill(self) {
        // Dropping it would be an orderly end.
        std::mem::forget(self.worker);
        self.runtime.shutdown_background();
    }
}

/// Two workers at a time on one store, which `open` gives another handle of; some are killed. In a thread that is in no runtime.
pub fn share_and_lose_nothing<S: Store + Clone>(open: impl AsyncFn() -> S + Sync) {
    let progress = Progress(Arc::new(watch::Sender::new(0)));
    let complaints = Complaints::default();
    let outside = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let store = outside.block_on(open());
    let graph = graph(Arc::new(store.clone()), progress.clone(), Arc::clone(&complaints));
    outside.block_on(async {
        for run in 0..RUNS {
            graph.run(Vec::new()).id(format!("run {run}")).checkpoint(&store).enqueue().await.unwrap();
        }
    });
    let mut crew = Vec::from([(); 2].map(|()| Process::start(&open, &progress, &complaints)));
    for kill in 0..KILLS {
        // Somewhere in the middle of the work.
        let begun = RUNS * STEPS / (KILLS + 2) * (kill + 1);
        outside.block_on(async { progress.0.subscribe().wait_for(|steps| *steps >= begun).await.map(drop).unwrap() });
        crew.remove(0).kill();
        crew.push(Process::start(&open, &progress, &complaints));
    }
    outside.block_on(async {
        for run in 0..RUNS {
            let state = graph.outcome_of(format!("run {run}"), &store).await.unwrap();
            assert_eq!(state, (0..STEPS as u32).collect::<Vec<_>>());
        }
        let finished = store.list(vec![Filter::Status(RunStatus::Finished)], None, RUNS + 1).await.unwrap().runs;
        let ids: HashSet<&str> = finished.iter().map(|run| run.id.as_str()).collect();
        assert_eq!(ids.len(), RUNS);
        assert!(finished.iter().any(|run| run.epoch > 2), "no run was taken over: nothing was killed in the middle");
        assert!(finished.iter().all(|run| run.head == 1 + STEPS as u64), "a step was committed twice");
    });
    assert_eq!(*complaints.lock().unwrap(), Vec::<String>::new());
    assert!(*progress.0.borrow() >= RUNS * STEPS);
    crew.into_iter().for_each(Process::kill);
    outside.shutdown_background();
}
