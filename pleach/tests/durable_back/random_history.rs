//! C4, C5, C7, C15, F12 combined: a run with charging branches is crashed, rewound, replayed and
//! migrated at random, also during effects and undos. A plain model tells what must have been
//! charged and refunded since the last rewind or replay.
use futures::future::{Either, select};
use pleach::durable::{Migrations, Resume};
use pleach::graph::{FanOut, RunOptions};
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::sim::{Sim, explore};
use pleach::store::{MemoryStore, RunInfo, RunStatus, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

type Names = Vec<String>;

/// The calls to the outside since the last rewind or replay.
#[derive(Default)]
struct Account {
    charged: BTreeSet<String>,
    /// The refunded visits.
    refunded: BTreeSet<String>,
    /// The keys of the undos, by node. Inside the subgraph by visit, since a replay of the subgraph
    /// visits its nodes again.
    undos: BTreeMap<String, BTreeSet<String>>,
    /// The nodes that received the result of their charge.
    delivered: BTreeSet<String>,
    /// After a replay: the nodes that had received their result before.
    before_replay: Option<BTreeSet<String>>,
    /// The replays since the last rewind whose nodes have not charged again. An interrupted replay
    /// leaves its node to the next.
    replays: usize,
    /// The nodes that had received their result before the last replay and charged again since.
    again: BTreeSet<String>,
    /// Whether anything was refunded since the last rewind.
    has_refunded: bool,
    /// The nodes that charged and have not ended since.
    in_progress: BTreeSet<String>,
    /// The node that is being refunded. Its undo is recorded before the next one begins.
    refunding: String,
    /// The nodes that were refunded before they ended. They must charge again before the run
    /// finishes.
    owed: BTreeSet<String>,
}

/// The outside of the run.
#[derive(Clone)]
struct Outside {
    account: Arc<Mutex<Account>>,
    clock: Arc<dyn Runtime>,
    fails: Arc<AtomicBool>,
}

impl Outside {
    async fn take_time(&self, below: u64) {
        self.clock.sleep_until(self.clock.now() + Duration::from_millis(self.clock.random() % below)).await;
    }

    fn charge(&self, node: &str, visit: &str) {
        let mut account = self.account.lock().unwrap();
        account.charged.insert(visit.to_string());
        if account.before_replay.as_ref().is_some_and(|before| before.contains(node)) {
            account.again.insert(node.to_string());
        }
        if node == "start" {
            // All nodes run again after the start, whatever was replayed.
            (account.replays, account.before_replay) = (0, None);
        }
        // The nodes after this one have to run again.
        account.delivered.retain(|delivered| !follows(delivered, node));
        account.owed.remove(node);
        account.refunding.clear();
        account.in_progress.insert(node.to_string());
    }
}

/// Whether a node is `before` or runs after it.
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
    outside.account.lock().unwrap().delivered.insert(node.clone());
    outside.take_time(60).await;
    outside.account.lock().unwrap().in_progress.remove(&node);
    names.push(node);
    Ok(names)
}

async fn refund(cx: NodeContext, visit: String) -> Result<(), String> {
    let outside = outside(&cx);
    outside.take_time(20).await;
    {
        let mut account = outside.account.lock().unwrap();
        let node = cx.node().to_string();
        let of = if node.starts_with("sub/") { visit.clone() } else { node.clone() };
        account.undos.entry(of).or_default().insert(cx.idempotency_key());
        account.refunded.insert(visit);
        account.has_refunded = true;
        let before = std::mem::replace(&mut account.refunding, node.clone());
        if before != node && account.in_progress.remove(&before) {
            account.owed.insert(before);
        }
    }
    outside.take_time(40).await;
    Ok(())
}

/// Fails after a while if the run is to fail.
async fn deciding(cx: NodeContext, names: Names) -> Result<Names, String> {
    let outside = outside(&cx);
    outside.take_time(200).await;
    if outside.fails.load(Relaxed) { Err("decided to fail".into()) } else { Ok(names) }
}

fn merge(mut before: Names, branches: Vec<Names>) -> Names {
    let from = before.len();
    branches.into_iter().for_each(|branch| before.extend(branch.into_iter().skip(from)));
    before
}

/// start → branches: a1, a2 | a subgraph with b1 | c1 | the node that decides → end.
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

struct Simulation<'a> {
    sim: &'a Sim,
    store: MemoryStore,
    outside: Outside,
    schema: u32,
}

impl Simulation<'_> {
    fn random(&self, below: u64) -> u64 {
        self.sim.runtime().random() % below
    }

    async fn head(&self) -> RunInfo {
        self.store.head("r").await.unwrap()
    }

    fn set(&self, run: RunOptions<'static, Names>) -> RunOptions<'static, Names> {
        let same = |state: serde_json::Value| Ok::<_, Infallible>(state);
        let migrations = (1..self.schema).fold(Migrations::new(), |migrations, from| migrations.state(from, same));
        let run = run.runtime(self.sim.runtime()).schema(self.schema).migrations(&migrations).keep_records(10_000);
        run.extension(self.outside.clone())
    }

    fn resume(&self, how: impl FnOnce(Resume<Names>) -> Resume<Names>) -> RunOptions<'static, Names> {
        self.set(how(graph().resume("r")).checkpoint(&self.store))
    }

    /// Drives the run for a random time and then drops it.
    async fn drive(&self, run: RunOptions<'static, Names>) {
        let time = Box::pin(self.sim.sleep(Duration::from_millis(1 + self.random(250))));
        if let Either::Left((Err(error), _)) = select(run.into_future(), time).await {
            let is_expected = matches!(error.fault(), RunFault::Node(_) | RunFault::Resume(_) | RunFault::Ended { .. });
            assert!(is_expected, "{error}");
        }
    }

    /// Checks that since a replay only the replayed branches have charged again, one per replay.
    fn check_replay(&self) {
        let mut account = self.outside.account.lock().unwrap();
        let is_checked = account.before_replay.take().is_some() && !account.has_refunded;
        let again = std::mem::take(&mut account.again);
        if is_checked {
            // The node after the join runs after every replay.
            let in_branches = again.iter().filter(|node| *node != "end");
            let branches = in_branches.map(|node| node.trim_end_matches(char::is_numeric)).collect::<BTreeSet<_>>().len();
            assert!(branches <= account.replays, "these charged again after {} replays: {again:?}", account.replays);
            account.replays -= if again.is_empty() { 0 } else { branches.max(1) };
        }
    }

    /// Forgets what was charged and refunded before.
    fn go_back(&self) -> MutexGuard<'_, Account> {
        let mut account = self.outside.account.lock().unwrap();
        (account.charged, account.refunded, account.undos) = Default::default();
        account
    }

    async fn rewind(&self, to: u64) {
        {
            let mut account = self.go_back();
            (account.delivered, account.in_progress, account.owed) = Default::default();
            (account.replays, account.has_refunded) = (0, false);
        }
        self.drive(self.resume(|run| run.rewind_to(to))).await;
    }

    async fn replay(&self) {
        {
            let mut account = self.go_back();
            account.replays += 1;
            account.before_replay = Some(account.delivered.clone());
        }
        let head = self.head().await.head;
        self.drive(self.resume(Resume::replay_last)).await;
        // The replay was dropped before its first record, or there was nothing to replay.
        if self.head().await.head == head {
            self.outside.account.lock().unwrap().replays -= 1;
        }
    }

    /// Crashes, rewinds, replays and migrations in random order.
    async fn disturb(&mut self) {
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

    /// Continues, with a few more crashes, until the run has ended.
    async fn end(&self) -> RunStatus {
        for _ in 0..self.random(3) {
            self.drive(self.resume(|run| run)).await;
        }
        while !self.head().await.status.has_ended() {
            drop(self.resume(|run| run).await);
        }
        self.head().await.status
    }

    /// The model: a compensated run refunded everything that it charged since the last rewind or
    /// replay, once.
    async fn check(&self, status: RunStatus) {
        self.check_replay();
        let account = self.outside.account.lock().unwrap();
        for (node, keys) in &account.undos {
            assert_eq!(keys.len(), 1, "{node} was refunded by several undos");
        }
        match status {
            RunStatus::Compensated => {
                let kept: Vec<_> = account.charged.difference(&account.refunded).collect();
                assert!(kept.is_empty(), "not refunded: {kept:?}");
            }
            // The run was rewound to a record after all refunds.
            RunStatus::Failed => assert!(account.charged.is_empty() && account.refunded.is_empty()),
            status => {
                assert_eq!(status, RunStatus::Finished);
                assert!(account.owed.is_empty(), "refunded, but not charged again: {:?}", account.owed);
            }
        }
    }
}

#[test]
fn c15_random_rewinds_and_replays_agree_with_a_model() {
    explore(0..500, |sim| {
        let fails = Arc::new(AtomicBool::new(!sim.runtime().random().is_multiple_of(3)));
        let outside = Outside { account: Arc::default(), clock: sim.runtime(), fails };
        let mut simulation = Simulation { sim, store: MemoryStore::on(sim.runtime()), outside, schema: 1 };
        sim.run(async {
            simulation.disturb().await;
            let status = simulation.end().await;
            simulation.check(status).await;
        });
    });
}
