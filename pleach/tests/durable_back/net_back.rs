//! F12, C4, C5, C7 together: a run whose branches charge, one of which may fail, is crashed, rewound, replayed and migrated at random, also in the
//! middle of effects and of undos. A plain model says what must have been charged and given back since the run last went back.
#![cfg(feature = "graph")]

use futures::future::{Either, select};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::store::{MemoryStore, RunInfo, RunStatus, Store};
use pleach::{FanOut, Migrations, Resume, RunOptions, Runtime};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

type Names = Vec<String>;

/// What happened outside since the run last went back.
#[derive(Default)]
struct Books {
    charged: BTreeSet<String>,
    /// What was given back.
    refunded: BTreeSet<String>,
    /// The keys of the undos that did it, by node; inside of the subgraph by visit, since a replay of the subgraph visits its nodes again.
    undos: BTreeMap<String, BTreeSet<String>>,
    /// The nodes that were given the result of their charge.
    delivered: BTreeSet<String>,
    /// Since a replay: those that were given it before.
    before_replay: Option<BTreeSet<String>>,
    /// The replays since it was rewound whose nodes have not charged again: one that was cut off leaves its node to the next.
    replays: usize,
    /// The nodes that had been given it before the last replay, and charged again since.
    again: BTreeSet<String>,
    /// Whether anything was given back since it was rewound.
    has_refunded: bool,
    /// The nodes that charged and have not ended since.
    underway: BTreeSet<String>,
    /// The node that is given back: that this is over is written down before the next undo begins.
    giving_back: String,
    /// The nodes that were given back before they were done: they charge again before the run finishes.
    owed: BTreeSet<String>,
}

/// The world outside of the run.
#[derive(Clone)]
struct Outside {
    books: Arc<Mutex<Books>>,
    clock: Arc<dyn Runtime>,
    fails: Arc<AtomicBool>,
}

impl Outside {
    async fn take_time(&self, below: u64) {
        self.clock.sleep_until(self.clock.now() + Duration::from_millis(self.clock.random() % below)).await;
    }

    fn charge(&self, node: &str, visit: &str) {
        let mut books = self.books.lock().unwrap();
        books.charged.insert(visit.to_string());
        if books.before_replay.as_ref().is_some_and(|before| before.contains(node)) {
            books.again.insert(node.to_string());
        }
        if node == "start" {
            // Everything runs again after that, whatever is replayed.
            (books.replays, books.before_replay) = (0, None);
        }
        // Whatever follows it is not done any more.
        books.delivered.retain(|delivered| !follows(delivered, node));
        books.owed.remove(node);
        books.giving_back.clear();
        books.underway.insert(node.to_string());
    }
}

/// Whether a node runs after another one, or is that one.
fn follows(node: &str, before: &str) -> bool {
    node == before || before == "start" || node == "end" || (before, node) == ("a1", "a2")
}

fn outside(cx: &NodeContext) -> Outside {
    cx.extension::<Outside>().unwrap().clone()
}

async fn charging(cx: NodeContext, mut names: Names) -> Result<Names, String> {
    let (outside, node) = (outside(&cx), cx.node().to_string());
    let visit = format!("{node} {}", cx.idempotency_key());
    cx.record_undo(visit.clone());
    outside.take_time(40).await;
    let (at, of) = (outside.clone(), node.clone());
    let work = move |_key: String| async move {
        at.take_time(20).await;
        at.charge(&of, &visit);
        at.take_time(60).await;
        Ok::<_, String>(())
    };
    cx.effect("charge", work).await?;
    outside.books.lock().unwrap().delivered.insert(node.clone());
    outside.take_time(60).await;
    outside.books.lock().unwrap().underway.remove(&node);
    names.push(node);
    Ok(names)
}

async fn refund(cx: NodeContext, visit: String) -> Result<(), String> {
    let outside = outside(&cx);
    outside.take_time(20).await;
    {
        let mut books = outside.books.lock().unwrap();
        let node = cx.node().to_string();
        let of = if node.starts_with("sub/") { visit.clone() } else { node.clone() };
        books.undos.entry(of).or_default().insert(cx.idempotency_key());
        books.refunded.insert(visit);
        books.has_refunded = true;
        let before = std::mem::replace(&mut books.giving_back, node.clone());
        if before != node && books.underway.remove(&before) {
            books.owed.insert(before);
        }
    }
    outside.take_time(40).await;
    Ok(())
}

/// Fails after a while, if the run is to fail.
async fn deciding(cx: NodeContext, names: Names) -> Result<Names, String> {
    let outside = outside(&cx);
    outside.take_time(200).await;
    if outside.fails.load(Relaxed) { Err("told to fail".into()) } else { Ok(names) }
}

fn merge(mut before: Names, branches: Vec<Names>) -> Names {
    let from = before.len();
    branches.into_iter().for_each(|branch| before.extend(branch.into_iter().skip(from)));
    before
}

/// start → branches: a1, a2 | a subgraph with b1 | c1 | the one that decides → end.
fn graph() -> CompiledGraph<Names> {
    let inner = Graph::new("inner").add_node("b1", charging).compensate("b1", refund).add_edge("b1", END).set_entry("b1");
    let mut graph = Graph::new("back").add_subgraph("sub", inner.compile().unwrap(), Names::clone, |_, inner| inner);
    for node in ["start", "a1", "a2", "c1", "end"] {
        graph = graph.add_node(node, charging).compensate(node, refund);
    }
    graph
        .add_node("decides", deciding)
        .add_parallel_edge("start", ["a1", "sub", "c1", "decides"], "end", FanOut::merge(merge))
        .add_edge("a1", "a2")
        .add_edge("a2", "end")
        .add_edge("sub", "end")
        .add_edge("c1", "end")
        .add_edge("decides", "end")
        .add_edge("end", END)
        .set_entry("start")
        .compile()
        .unwrap()
}

struct Net<'a> {
    sim: &'a Sim,
    store: MemoryStore,
    outside: Outside,
    schema: u32,
}

impl Net<'_> {
    fn random(&self, below: u64) -> u64 {
        self.sim.runtime().random() % below
    }

    async fn head(&self) -> RunInfo {
        self.store.head("r").await.unwrap()
    }

    fn set(&self, run: RunOptions<'static, Names>) -> RunOptions<'static, Names> {
        let same = |state: serde_json::Value| Ok::<_, Infallible>(state);
        let migrations = (1..self.schema).fold(Migrations::new(), |migrations, from| migrations.state(from, same));
        let run = run.on(self.sim.runtime()).schema(self.schema).migrations(&migrations).keep_records(10_000);
        run.extension(self.outside.clone())
    }

    fn resume(&self, how: impl FnOnce(Resume<Names>) -> Resume<Names>) -> RunOptions<'static, Names> {
        self.set(how(graph().resume("r")).checkpoint(&self.store))
    }

    /// Drives the run for a while, and drops it in the middle of what it does.
    async fn drive(&self, run: RunOptions<'static, Names>) {
        let while_ = Box::pin(self.sim.sleep(Duration::from_millis(1 + self.random(250))));
        if let Either::Left((Err(error), _)) = select(run.into_future(), while_).await {
            let is_expected = matches!(error.fault(), RunFault::Node(_) | RunFault::Resume(_) | RunFault::Ended { .. });
            assert!(is_expected, "{error}");
        }
    }

    /// Since a replay, only the branches that were replayed have charged again: one for each replay.
    fn check_replay(&self) {
        let mut books = self.outside.books.lock().unwrap();
        let is_checked = books.before_replay.take().is_some() && !books.has_refunded;
        let again = std::mem::take(&mut books.again);
        if is_checked {
            // What follows the join runs after whatever was replayed.
            let in_branches = again.iter().filter(|node| *node != "end");
            let branches = in_branches.map(|node| node.trim_end_matches(char::is_numeric)).collect::<BTreeSet<_>>().len();
            assert!(branches <= books.replays, "these charged again after {} replays: {again:?}", books.replays);
            books.replays -= if again.is_empty() { 0 } else { branches.max(1) };
        }
    }

    /// Nothing counts any more that was charged or given back before.
    fn go_back(&self) -> MutexGuard<'_, Books> {
        let mut books = self.outside.books.lock().unwrap();
        (books.charged, books.refunded, books.undos) = Default::default();
        books
    }

    async fn rewind(&self, to: u64) {
        {
            let mut books = self.go_back();
            (books.delivered, books.underway, books.owed) = Default::default();
            (books.replays, books.has_refunded) = (0, false);
        }
        self.drive(self.resume(|run| run.rewind_to(to))).await;
    }

    async fn replay(&self) {
        {
            let mut books = self.go_back();
            books.replays += 1;
            books.before_replay = Some(books.delivered.clone());
        }
        let head = self.head().await.head;
        self.drive(self.resume(Resume::replay_last)).await;
        // It was cut off before anything of it was written, or there was nothing to replay.
        if self.head().await.head == head {
            self.outside.books.lock().unwrap().replays -= 1;
        }
    }

    /// Crashes, rewinds, replays and migrations, in any order.
    async fn trouble(&mut self) {
        self.drive(self.set(graph().run(Vec::new()).id("r").checkpoint(&self.store))).await;
        for _ in 0..self.random(7) {
            let head = self.head().await.head;
            let what = self.random(6);
            self.outside.fails.store(self.random(3) > 0, Relaxed);
            if what < 4 {
                self.check_replay();
            }
            match what {
                0 | 1 => {
                    let to = 1 + self.random(head);
                    self.rewind(to).await;
                }
                2 | 3 => self.replay().await,
                4 => {
                    self.schema += 1;
                    self.drive(self.resume(|run| run)).await;
                }
                _ => self.drive(self.resume(|run| run)).await,
            }
        }
    }

    /// Goes on, with a few more crashes, until the run has ended.
    async fn end(&self) -> RunStatus {
        for _ in 0..self.random(3) {
            self.drive(self.resume(|run| run)).await;
        }
        while !self.head().await.status.has_ended() {
            drop(self.resume(|run| run).await);
        }
        self.head().await.status
    }

    /// The model: a run that was undone gave back once whatever it had charged since it last went back.
    async fn check(&self, status: RunStatus) {
        self.check_replay();
        let books = self.outside.books.lock().unwrap();
        for (node, keys) in &books.undos {
            assert_eq!(keys.len(), 1, "{node} was given back by several undos");
        }
        match status {
            RunStatus::Compensated => {
                let kept: Vec<_> = books.charged.difference(&books.refunded).collect();
                assert!(kept.is_empty(), "not given back: {kept:?}");
            }
            // It was rewound to where all had been given back.
            RunStatus::Failed => assert!(books.charged.is_empty() && books.refunded.is_empty()),
            status => {
                assert_eq!(status, RunStatus::Finished);
                assert!(books.owed.is_empty(), "given back, and not charged again: {:?}", books.owed);
            }
        }
    }
}

#[test]
fn c15_runs_that_go_back_at_random_agree_with_a_plain_model() {
    explore(0..500, |sim| {
        let fails = Arc::new(AtomicBool::new(!sim.runtime().random().is_multiple_of(3)));
        let outside = Outside { books: Arc::default(), clock: sim.runtime(), fails };
        let mut net = Net { sim, store: MemoryStore::on(sim.runtime()), outside, schema: 1 };
        sim.run(async {
            net.trouble().await;
            let status = net.end().await;
            net.check(status).await;
        });
    });
}
