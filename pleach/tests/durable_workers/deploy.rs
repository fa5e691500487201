//! C7, C15: a rolling deploy. Workers of two schemas share one store, and each claims only runs
//! that it can drive.
use crate::common::Log;
use pleach::durable::Migrations;
use pleach::graph::RunOptions;
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::sim::{Sim, explore};
use pleach::store::{GraphVersion, MemoryStore, RunStatus, Store};
use pleach::worker::{RunningWorker, Worker, WorkerEvent};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::sync::Arc;

const STEPS: u32 = 6;

/// The state of schema 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Dollars {
    steps: u32,
    dollars: u32,
}

/// The state of schema 2.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Cents {
    steps: u32,
    cents: u32,
}

trait Account: Serialize + DeserializeOwned + Send + 'static {
    fn add_dollar(self) -> Self;
    fn is_done(&self) -> bool;
}

impl Account for Dollars {
    fn add_dollar(self) -> Self {
        Self { steps: self.steps + 1, dollars: self.dollars + 1 }
    }

    fn is_done(&self) -> bool {
        self.steps == STEPS
    }
}

impl Account for Cents {
    fn add_dollar(self) -> Self {
        Self { steps: self.steps + 1, cents: self.cents + 100 }
    }

    fn is_done(&self) -> bool {
        self.steps == STEPS
    }
}

/// A graph that adds a dollar at each step.
fn account<A: Account>(clock: &Arc<dyn Runtime>) -> CompiledGraph<A> {
    let clock = Arc::clone(clock);
    let add = move |account: A| {
        let clock = Arc::clone(&clock);
        async move {
            clock.sleep_until(clock.now() + Duration::from_millis(clock.random() % 1_000)).await;
            Ok::<_, String>(account.add_dollar())
        }
    };
    Graph::new("account")
        .add_node("add", add)
        .add_conditional_edge("add", ["add", END], |account: &A| if account.is_done() { END } else { "add" })
        .set_entry("add")
        .compile()
        .unwrap()
}

fn to_cents() -> Migrations {
    Migrations::new().state(1, |mut state| {
        let cents = state["dollars"].as_u64().unwrap_or(0) * 100;
        state["cents"] = cents.into();
        Ok::<_, Infallible>(state)
    })
}

fn start<A: Account>(
    sim: &Sim,
    store: &MemoryStore,
    problems: &Log<String>,
    options: impl Fn(RunOptions<'static, A>) -> RunOptions<'static, A> + Send + Sync + 'static,
) -> RunningWorker {
    let problems = problems.clone();
    let listen = move |event: &WorkerEvent| match event {
        WorkerEvent::Delayed { .. } | WorkerEvent::Stuck { .. } | WorkerEvent::StoreFailed { .. } => {
            problems.note(format!("{event:?}"));
        }
        _ => {}
    };
    let worker = Worker::new(store).graph_with(&account::<A>(&sim.runtime()), options).limit(2);
    worker.lease(Duration::from_secs(3)).on_event(listen).runtime(sim.runtime()).start().unwrap()
}

#[test]
fn c15_workers_of_two_schemas_share_one_store_during_a_deploy() {
    explore(0..60, |sim| {
        let (store, problems) = (MemoryStore::on(sim.runtime()), Log::new());
        let (old, new) = (account::<Dollars>(&sim.runtime()), account::<Cents>(&sim.runtime()));
        let start_old = || start::<Dollars>(sim, &store, &problems, |run| run.schema(1));
        let start_new = || start::<Cents>(sim, &store, &problems, |run| run.schema(2).migrations(&to_cents()));
        let mut workers = vec![start_old(), start_old(), start_old()];
        sim.run(async {
            for run in 0..12 {
                let id = format!("run {run}");
                // Clients are deployed at their own time.
                if run < 4 || sim.runtime().random() % 2 == 0 {
                    let run = old.run(Dollars { steps: 0, dollars: 0 }).id(id).schema(1);
                    run.runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
                } else {
                    let run = new.run(Cents { steps: 0, cents: 0 }).id(id).schema(2);
                    run.runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
                }
            }
            for worker in &mut workers {
                sim.sleep(Duration::from_millis(sim.runtime().random() % 3_000)).await;
                let closed = std::mem::replace(worker, start_new());
                match sim.runtime().random() % 2 {
                    0 => drop(closed),
                    _ => drop(closed.close(Duration::from_millis(sim.runtime().random() % 2_000)).await),
                }
            }
            sim.sleep(Duration::from_secs(60)).await;
            for run in 0..12 {
                let run = format!("run {run}");
                let info = store.head(&run).await.unwrap();
                assert_eq!(info.status, RunStatus::Finished, "{info:?}");
                match info.version.schema {
                    1 => assert_eq!(old.outcome_of(run, &store).schema(1).runtime(sim.runtime()).await.unwrap().dollars, STEPS),
                    _ => assert_eq!(
                        new.outcome_of(run, &store).schema(2).runtime(sim.runtime()).await.unwrap().cents,
                        STEPS * 100
                    ),
                }
            }
            drop(workers);
        });
        assert_eq!(problems.take(), Vec::<String>::new());
    });
}

#[test]
fn c15_worker_claims_no_run_that_its_migrations_cannot_reach() {
    let sim = Sim::new(1);
    let (store, problems) = (MemoryStore::on(sim.runtime()), Log::new());
    let new = account::<Cents>(&sim.runtime());
    // Migrations from 3 to 4 and from 1 to 2, but not from 2 to 3.
    let same = |state| Ok::<_, Infallible>(state);
    let worker = start::<Cents>(&sim, &store, &problems, move |run| {
        run.schema(4).migrations(&Migrations::new().state(1, same).state(3, same))
    });
    sim.run(async {
        for schema in 0..=5 {
            let run = new.run(Cents { steps: 0, cents: 0 }).id(format!("schema {schema}")).schema(schema);
            run.runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
        }
        sim.sleep(Duration::from_secs(60)).await;
        for schema in 0..=5 {
            let info = store.head(&format!("schema {schema}")).await.unwrap();
            let GraphVersion { schema: version, .. } = info.version;
            match schema {
                3 | 4 => assert_eq!((info.status, version), (RunStatus::Finished, 4)),
                _ => assert_eq!((info.status, info.epoch, version), (RunStatus::Running, 1, schema), "it was not claimed"),
            }
        }
        drop(worker);
    });
    assert_eq!(problems.take(), Vec::<String>::new());
}
