//! For tests of stored runs: a simulator with a store, and nodes that add their names to the state.

use super::Log;
use futures::future::Either;
use pleach::durable::{Checkpoint, Resume};
use pleach::graph::RunOptions;
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::sim::Sim;
use pleach::store::{Kind, MemoryStore, Parts, Row, Rows, RunInfo, Store};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

/// The names of the completed nodes.
pub type Names = Vec<String>;

/// Controls the nodes and records what they do.
#[derive(Clone, Default)]
pub struct NodeControl {
    /// Every started node with its idempotency key.
    pub starts: Log<(String, String)>,
    /// Effects, undos and other side effects.
    pub outside: Log<String>,
    fails: Arc<Mutex<HashSet<String>>>,
    hangs: Arc<Mutex<HashSet<String>>>,
}

impl NodeControl {
    /// From now on exactly these nodes fail.
    pub fn fail(&self, nodes: &[&str]) {
        *self.fails.lock().unwrap() = nodes.iter().map(|node| node.to_string()).collect();
    }

    /// From now on exactly these nodes never complete.
    pub fn hang(&self, nodes: &[&str]) {
        *self.hangs.lock().unwrap() = nodes.iter().map(|node| node.to_string()).collect();
    }

    /// Removes and returns the names of the nodes started since the last call.
    pub fn started(&self) -> Vec<String> {
        self.starts.take().into_iter().map(|(node, _)| node).collect()
    }

    /// Called first by each node: records the start, waits, then hangs or fails if requested.
    pub async fn enter(&self, cx: &NodeContext) -> Result<(), String> {
        let node = cx.node().to_string();
        self.starts.push((node.clone(), cx.idempotency_key()));
        let clock = cx.extension::<Arc<dyn Runtime>>().unwrap();
        clock.sleep_until(clock.now() + Duration::from_millis(clock.random() % 5)).await;
        if self.hangs.lock().unwrap().contains(&node) {
            std::future::pending::<()>().await;
        }
        if self.fails.lock().unwrap().contains(&node) { Err(format!("{node} fails on request")) } else { Ok(()) }
    }
}

pub type NodeFuture<S> = Pin<Box<dyn Future<Output = Result<S, String>> + Send>>;

/// A node that adds its name to the state.
pub fn named(name: &'static str) -> impl Fn(NodeContext, Names) -> NodeFuture<Names> {
    move |cx, mut names| {
        Box::pin(async move {
            let stage = cx.extension::<NodeControl>().unwrap().clone();
            stage.enter(&cx).await?;
            names.push(name.to_string());
            Ok(names)
        })
    }
}

/// Appends what each branch added, in the order of the branches.
pub fn merge(mut before: Names, branches: Vec<Names>) -> Names {
    let from = before.len();
    branches.into_iter().for_each(|branch| before.extend(branch.into_iter().skip(from)));
    before
}

/// A simulation with one store, for the stored run `r` and the control of its nodes.
pub struct StoredRunFixture {
    pub sim: Sim,
    pub store: MemoryStore,
    pub nodes: NodeControl,
}

impl StoredRunFixture {
    pub fn new(seed: u64) -> Self {
        let sim = Sim::new(seed);
        let store = MemoryStore::on(sim.runtime());
        Self { sim, store, nodes: NodeControl::default() }
    }

    /// Starts run `r` of a graph.
    pub fn run<S: Serialize + DeserializeOwned + Send + 'static>(
        &self,
        graph: &CompiledGraph<S>,
        state: S,
    ) -> RunOptions<'static, S> {
        self.here(graph.run(state).id("r").checkpoint(&self.store))
    }

    /// Resumes run `r` with the options that `how` sets.
    pub fn resume<S: Serialize + DeserializeOwned + Send + 'static>(
        &self,
        graph: &CompiledGraph<S>,
        how: impl FnOnce(Resume<S>) -> Resume<S>,
    ) -> RunOptions<'static, S> {
        self.here(how(graph.resume("r")).checkpoint(&self.store))
    }

    pub fn here<S: Send + 'static>(&self, run: RunOptions<'static, S>) -> RunOptions<'static, S> {
        run.runtime(self.sim.runtime()).extension(self.nodes.clone()).extension(self.sim.runtime())
    }

    /// Drives a run to its end. Panics if that takes more than a day of virtual time.
    pub fn end<S: Send + 'static>(&self, run: RunOptions<'static, S>) -> Result<S, RunError<S>> {
        let day = Box::pin(self.sim.sleep(Duration::from_secs(24 * 60 * 60)));
        match self.sim.run(futures::future::select(run.into_future(), day)) {
            Either::Left((outcome, _)) => outcome,
            Either::Right(_) => panic!("the run did not end"),
        }
    }

    /// Cancels the driver of a run after this time. The run can be resumed.
    pub fn cut_off_after<S: Send + 'static>(&self, run: RunOptions<'static, S>, time: Duration) -> RunOptions<'static, S> {
        run.token(&self.sim.token().child_for(time))
    }

    /// Drives a run until its remaining nodes hang, then cancels the driver.
    pub fn leave<S: Send + 'static>(&self, run: RunOptions<'static, S>) {
        let error = self.end(self.cut_off_after(run, Duration::from_secs(60))).err().expect("a node hangs");
        assert!(matches!(error.fault(), RunFault::Cancelled { .. }), "{error}");
    }

    pub fn info(&self, run: &str) -> RunInfo {
        self.sim.run(async { self.store.head(run).await }).unwrap()
    }

    /// All rows of a run that the store still has.
    pub fn rows(&self, run: &str) -> Vec<Row> {
        let info = self.info(run);
        let range = Rows::Range(info.oldest..=info.head);
        self.sim.run(async { self.store.read(run, range, Parts::Whole).await }).unwrap()
    }

    pub fn history<S: Serialize + DeserializeOwned + Send + 'static>(
        &self,
        graph: &CompiledGraph<S>,
        run: &str,
    ) -> Vec<Checkpoint> {
        let history = graph.history(run.to_string(), &self.store);
        self.sim.run(async { history.page(1, 1_000).await }).unwrap().checkpoints
    }

    /// The sequence number of the last record of this kind for this node.
    pub fn record(&self, run: &str, kind: Kind, node: &str) -> u64 {
        let rows = self.rows(run);
        let mut headers = rows.iter().rev().map(|row| (row.sequence, row.open_header(run).unwrap()));
        headers.find(|(_, header)| header.kind == kind && header.node == node).expect("no such record").0
    }
}
