//! C3, C4, C5, C7: migrations combined with rewinds, replays, forks and interrupted effects.
//! Amounts stay right, and keys stay the same.
use crate::common::stored::StoredRunFixture;
use pleach::durable::{EffectError, Migrations, Resume, ResumeError};
use pleach::graph::{Policy, Retry};
use pleach::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// Schema 1: an amount in dollars.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Dollars {
    amount: u64,
}

/// Schema 2: the same field, in cents. Only the schema number tells them apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Cents {
    amount: u64,
}

trait Money: Clone + Serialize + DeserializeOwned + Send + Sync + 'static {
    fn zero() -> Self;
    /// Adds one dollar.
    fn pay(&mut self);
}

impl Money for Dollars {
    fn zero() -> Self {
        Self { amount: 0 }
    }

    fn pay(&mut self) {
        self.amount += 1;
    }
}

impl Money for Cents {
    fn zero() -> Self {
        Self { amount: 0 }
    }

    fn pay(&mut self) {
        self.amount += 100;
    }
}

const NODES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Six nodes in a row that each pay one dollar.
fn paying<S: Money>() -> CompiledGraph<S> {
    let pay = |cx: NodeContext, mut state: S| async move {
        cx.extension::<crate::common::stored::NodeControl>().unwrap().enter(&cx).await?;
        state.pay();
        Ok::<_, String>(state)
    };
    let graph = NODES.iter().fold(Graph::<S>::new("paying"), |graph, node| graph.add_node(*node, pay));
    let graph = NODES.windows(2).fold(graph, |graph, pair| graph.add_edge(pair[0], pair[1]));
    graph.add_edge("f", END).set_entry("a").compile().unwrap()
}

fn to_cents() -> Migrations {
    Migrations::new().state(1, |mut state| {
        let dollars = state["amount"].as_u64().ok_or("no amount")?;
        state["amount"] = json!(dollars * 100);
        Ok::<_, &str>(state)
    })
}

/// A run of schema 1 that stopped before `first`, was migrated, and stopped before `second`.
fn migrated(seed: u64, first: &str, second: &str) -> StoredRunFixture {
    let fixture = StoredRunFixture::new(seed);
    fixture.nodes.hang(&[first]);
    fixture.leave(fixture.run(&paying::<Dollars>(), Dollars::zero()).schema(1));
    fixture.nodes.hang(&[second]);
    fixture.leave(fixture.resume(&paying::<Cents>(), |run| run).schema(2).migrations(&to_cents()));
    fixture.nodes.hang(&[]);
    fixture
}

#[test]
fn c5_states_before_a_migration_are_migrated_from_their_own_schema() {
    let fixture = migrated(1, "c", "e");
    let graph = paying::<Cents>();
    let checkpoints = fixture.history(&graph, "r");
    assert!(checkpoints.len() >= 5, "{checkpoints:?}");
    for (number, checkpoint) in checkpoints.into_iter().filter(|checkpoint| checkpoint.part_of.is_none()).enumerate() {
        let sequence = checkpoint.sequence;
        let with = |how: Box<dyn FnOnce(Resume<Cents>) -> Resume<Cents>>| fixture.resume(&graph, how).schema(2);
        let forked =
            with(Box::new(move |run| run.rewind_to(sequence).fork_as(format!("fork {number}")))).migrations(&to_cents());
        assert_eq!(fixture.end(forked).unwrap(), Cents { amount: 600 }, "a fork from {checkpoint:?}");
        let paid = sequence.min(3) - 1 + sequence.saturating_sub(4);
        let state = fixture.sim.run(graph.history("r", &fixture.store).migrations(&to_cents()).state(sequence)).unwrap();
        assert_eq!(state.amount, paid * 100, "{checkpoint:?}");
        // Without migrations a state in dollars is rejected, and never read as cents.
        if sequence <= 3 {
            let rejected = fixture.end(with(Box::new(move |run| run.rewind_to(sequence).fork_as("never")))).unwrap_err();
            assert!(matches!(rejected.fault(), RunFault::Mismatch(error) if error.what == "schema"), "{rejected}");
            let rejected = fixture.sim.run(graph.history("r", &fixture.store).state(sequence)).unwrap_err();
            assert!(matches!(&rejected, RunFault::Mismatch(error) if error.what == "schema"), "{rejected}");
        }
    }
    // A rewind writes to the run itself.
    let rewound = fixture.resume(&graph, |run| run.rewind_to(2)).schema(2).migrations(&to_cents());
    assert_eq!(fixture.end(rewound).unwrap(), Cents { amount: 600 });
}

#[test]
fn c5_replay_of_the_last_node_before_a_migration_migrates_its_state() {
    let fixture = StoredRunFixture::new(1);
    fixture.nodes.hang(&["c"]);
    fixture.leave(fixture.run(&paying::<Dollars>(), Dollars::zero()).schema(1));
    // The run is migrated and stops before any other work.
    fixture.leave(fixture.resume(&paying::<Cents>(), |run| run).schema(2).migrations(&to_cents()));
    fixture.nodes.hang(&[]);
    let replayed = fixture.resume(&paying::<Cents>(), |run| run.replay_last()).schema(2);
    assert!(fixture.end(replayed).is_err(), "the last node ran in dollars, and no migration is given");
    let replayed = fixture.resume(&paying::<Cents>(), |run| run.replay_last()).schema(2).migrations(&to_cents());
    assert_eq!(fixture.end(replayed).unwrap(), Cents { amount: 600 });
}

#[test]
fn c5_record_of_a_later_schema_is_rejected() {
    let fixture = migrated(1, "c", "e");
    let rejected = fixture.end(fixture.resume(&paying::<Dollars>(), |run| run.rewind_to(5)).schema(1)).unwrap_err();
    assert!(matches!(rejected.fault(), RunFault::Mismatch(error) if error.what == "schema"), "{rejected}");
}

#[test]
fn c5_random_rewinds_replays_and_migrations_pay_the_same_total() {
    pleach::sim::explore(0..150, |outer| {
        let random = |below: u64| outer.runtime().random() % below;
        let (first, second) = (random(5) as usize, random(6) as usize);
        let fixture = migrated(outer.seed(), NODES[first], NODES[first.max(second)]);
        let graph = paying::<Cents>();
        for _ in 0..random(4) {
            let checkpoints = fixture.history(&graph, "r");
            let listed: Vec<u64> = checkpoints.iter().filter(|one| one.part_of.is_none()).map(|one| one.sequence).collect();
            let sequence = listed[random(listed.len() as u64) as usize];
            fixture.nodes.hang(&[NODES[random(6) as usize]]);
            let how = random(3);
            let run = fixture.resume(&graph, |run| match how {
                0 => run.rewind_to(sequence),
                1 => run.replay_last(),
                _ => run,
            });
            // The run times out, ends, or has nothing to replay.
            let cut_off = fixture.sim.token();
            let ended = fixture.sim.run(async {
                let run = run.schema(2).migrations(&to_cents()).token(&cut_off).into_future();
                let timer = Box::pin(fixture.sim.sleep(Duration::from_secs(60)));
                match futures::future::select(run, timer).await {
                    futures::future::Either::Left((ended, _)) => Some(ended),
                    futures::future::Either::Right(_) => None,
                }
            });
            match ended {
                Some(Ok(state)) => assert_eq!(state.amount, 600),
                Some(Err(error)) => assert!(
                    matches!(error.fault(), RunFault::Resume(ResumeError::NothingToReplay { .. } | ResumeError::AtEnd { .. })),
                    "{error}"
                ),
                None => {}
            }
        }
        fixture.nodes.hang(&[]);
        let ended = fixture.end(fixture.resume(&graph, |run| run).schema(2).migrations(&to_cents()));
        assert_eq!(ended.unwrap(), Cents { amount: 600 });
    });
}

#[test]
fn c7_integer_that_a_migration_would_change_is_rejected() {
    let graph = || {
        let hang = |cx: NodeContext, n: u128| async move {
            cx.extension::<crate::common::stored::NodeControl>().unwrap().enter(&cx).await?;
            Ok::<_, String>(n)
        };
        Graph::<u128>::new("large").add_node("hang", hang).add_edge("hang", END).set_entry("hang").compile().unwrap()
    };
    let fixture = StoredRunFixture::new(1);
    fixture.nodes.hang(&["hang"]);
    fixture.leave(fixture.run(&graph(), u128::MAX).schema(1));
    fixture.nodes.hang(&[]);
    let same = Migrations::new().state(1, Ok::<_, String>);
    let rejected = fixture.end(fixture.resume(&graph(), |run| run).schema(2).migrations(&same)).unwrap_err();
    assert!(rejected.to_string().contains(&u128::MAX.to_string()), "{rejected}");
    assert_eq!(fixture.end(fixture.resume(&graph(), |run| run).schema(1)).unwrap(), u128::MAX, "the stored state is intact");
}

/// The keys that effects were called with, by effect name.
type Keys = Arc<Mutex<BTreeMap<String, Vec<String>>>>;

/// Controls the nodes of [`working`].
#[derive(Clone, Default)]
struct Outside {
    keys: Keys,
    /// Whether effects never return.
    hangs: Arc<Mutex<bool>>,
    /// Whether the flaky node has failed already.
    has_failed: Arc<Mutex<bool>>,
}

/// A node with an effect named after its node and branch.
async fn work(cx: NodeContext, state: Vec<u32>) -> Result<Vec<u32>, String> {
    let outside = cx.extension::<Outside>().unwrap().clone();
    let name = format!("{} {:?}", cx.node(), cx.branch());
    let hangs = *outside.hangs.lock().unwrap();
    let call = move |key: String| async move {
        outside.keys.lock().unwrap().entry(name).or_default().push(key);
        if hangs {
            std::future::pending::<()>().await;
        }
        Ok::<_, String>(1)
    };
    cx.effect("act", call).await?;
    Ok(state)
}

/// A node that fails the first time.
async fn fail_once(cx: NodeContext, state: Vec<u32>) -> Result<Vec<u32>, String> {
    let has_failed = std::mem::replace(&mut *cx.extension::<Outside>().unwrap().has_failed.lock().unwrap(), true);
    if has_failed { Ok(state) } else { Err("the first attempt fails".into()) }
}

/// A fan-out, a map and subgraphs with effects at their first and later nodes, and a subgraph that
/// is retried as a whole.
fn working() -> CompiledGraph<Vec<u32>> {
    let keep = |before: Vec<u32>, _: Vec<Vec<u32>>| before;
    let pass = |state: Vec<u32>| async move { Ok::<_, String>(state) };
    let inner = || {
        Graph::<Vec<u32>>::new("inner")
            .add_node("pass", pass)
            .add_node("work", work)
            .add_edge("pass", "work")
            .add_edge("work", END)
            .set_entry("pass")
    };
    let first = || Graph::<Vec<u32>>::new("first").add_node("work", work).add_edge("work", END).set_entry("work");
    let again = Graph::<Vec<u32>>::new("again")
        .add_node("flaky", fail_once)
        .add_node("work", work)
        .add_edge("flaky", "work")
        .add_edge("work", END)
        .set_entry("flaky");
    Graph::<Vec<u32>>::new("working")
        .add_node("begin", pass)
        .add_node("plain", work)
        .add_node("pass", pass)
        .add_node("later", work)
        .add_node("each", pass)
        .add_node("item", work)
        .add_node("end", pass)
        .add_node("last", pass)
        .add_subgraph("at first", first().compile().unwrap(), Vec::clone, |state, _| state)
        .add_subgraph("at last", inner().compile().unwrap(), Vec::clone, |state, _| state)
        .add_subgraph("again", again.compile().unwrap(), Vec::clone, |state, _| state)
        .policy("again", Policy::new().retry(Retry::times(2)))
        .add_edge("again", "last")
        .add_parallel_edge("begin", ["plain", "pass", "each", "at first", "at last", "again"], "last", keep)
        .add_edge("plain", "last")
        .add_edge("pass", "later")
        .add_edge("later", "last")
        .map("each", |_: &Vec<u32>| vec![vec![1], vec![2]], "item", "end", keep)
        .add_edge("item", "end")
        .add_edge("end", "last")
        .add_edge("at first", "last")
        .add_edge("at last", "last")
        .add_edge("last", END)
        .set_entry("begin")
        .compile()
        .unwrap()
}

#[test]
fn c3_interrupted_effects_keep_their_keys_over_migrations() {
    pleach::sim::explore(0..20, |outer| {
        let (fixture, outside) = (StoredRunFixture::new(outer.seed()), Outside::default());
        *outside.hangs.lock().unwrap() = true;
        let same = |from| Migrations::new().state(from, Ok::<_, String>);
        fixture.leave(fixture.run(&working(), vec![0]).schema(1).extension(outside.clone()));
        let first = outside.keys.lock().unwrap().clone();
        assert_eq!(first.len(), 7, "{first:?}");
        let distinct: BTreeSet<&String> = first.values().flatten().collect();
        assert_eq!(distinct.len(), 7, "every effect has a different key");
        // Migrate twice, so that rewritten records are rewritten again.
        for schema in [2, 3] {
            fixture.leave(
                fixture.resume(&working(), |run| run).schema(schema).migrations(&same(schema - 1)).extension(outside.clone()),
            );
        }
        *outside.hangs.lock().unwrap() = false;
        fixture.end(fixture.resume(&working(), |run| run).schema(3).extension(outside.clone())).unwrap();
        for (effect, keys) in outside.keys.lock().unwrap().iter() {
            assert_eq!(keys.len(), 4, "{effect}");
            assert!(keys.iter().all(|key| *key == first[effect][0]), "{effect}: {keys:?}");
        }
        // After a rewind, effects run under new keys.
        fixture
            .end(
                fixture
                    .resume(&working(), |run| run.rewind_to(1))
                    .schema(3)
                    .migrations(&Migrations::new().state(1, Ok::<_, String>).state(2, Ok::<_, String>))
                    .extension(outside.clone()),
            )
            .unwrap();
        let all = outside.keys.lock().unwrap();
        assert!(all.iter().all(|(effect, keys)| keys.len() == 5 && keys[4] != first[effect][0]), "{all:?}");
    });
}

/// A node with a `once` effect that never returns.
fn once(outside: &Outside) -> CompiledGraph<u32> {
    let outside = outside.clone();
    let act = move |cx: NodeContext, n: u32| {
        let outside = outside.clone();
        async move {
            let call = move |key: String| async move {
                outside.keys.lock().unwrap().entry("act".into()).or_default().push(key);
                std::future::pending::<Result<u32, String>>().await
            };
            cx.effect("act", call).once().await.map(|more| n + more)
        }
    };
    Graph::new("once").add_node("act", act).add_edge("act", END).set_entry("act").compile().unwrap()
}

#[test]
fn c4_unknown_effect_names_the_key_that_it_began_with() {
    for how in 0..4 {
        let (fixture, outside) = (StoredRunFixture::new(1), Outside::default());
        let graph = once(&outside);
        fixture.leave(fixture.run(&graph, 1).schema(1));
        let migrations = Migrations::new().state(1, Ok::<_, String>);
        let head = fixture.info("r").head;
        let run = fixture.resume(&graph, |run| match how {
            0 => run,
            1 => run.rewind_to(head),
            2 => run.fork_as("fork"),
            _ => run.rewind_to(head).fork_as("fork"),
        });
        let error = fixture.end(run.schema(2).migrations(&migrations)).unwrap_err();
        let RunFault::Node(failed) = error.fault() else { panic!("{error}") };
        let pleach::supervise::Reason::Error(reason) = &*failed.reason else { panic!("{error}") };
        let Some(EffectError::EffectUnknown { idempotency_key, .. }) = reason.downcast_ref() else { panic!("{reason}") };
        assert_eq!(outside.keys.lock().unwrap()["act"], std::slice::from_ref(idempotency_key), "case {how}");
    }
}

#[test]
fn c3_run_created_again_under_its_id_has_other_keys() {
    let (fixture, outside) = (StoredRunFixture::new(1), Outside::default());
    let run = || fixture.end(fixture.run(&working(), vec![0]).extension(outside.clone())).unwrap();
    run();
    fixture.sim.run(fixture.store.delete("r")).unwrap();
    run();
    for (effect, keys) in outside.keys.lock().unwrap().iter() {
        assert!(keys.len() == 2 && keys[0] != keys[1], "{effect}: {keys:?}");
    }
}

#[test]
fn c5_outcome_of_an_earlier_schema_is_migrated_or_rejected() {
    let fixture = StoredRunFixture::new(1);
    assert_eq!(fixture.end(fixture.run(&paying::<Dollars>(), Dollars::zero()).schema(1)).unwrap(), Dollars { amount: 6 });
    let graph = paying::<Cents>();
    let outcome = || graph.outcome_of("r", &fixture.store).runtime(fixture.sim.runtime());
    for rejected in [outcome(), outcome().schema(2)] {
        let error = fixture.sim.run(rejected.into_future()).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Mismatch(error) if error.what == "schema"), "{error}");
    }
    let migrated = outcome().schema(2).migrations(&to_cents());
    assert_eq!(fixture.sim.run(migrated.into_future()).unwrap(), Cents { amount: 600 });
}
