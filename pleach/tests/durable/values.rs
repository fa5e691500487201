//! C2, C4: values read back from a store unchanged, or are rejected: floats bit by bit, and
//! anything that JSON cannot represent.
use crate::common::Log;
use pleach::durable::{EffectError, RunRemote};
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::sim::Sim;
use pleach::store::{MemoryStore, RunStatus, Store};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

/// A value in every stored place: state, effect result, signal, answer, map item and undo payload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Everywhere<T> {
    states: Vec<T>,
    effect: Option<Vec<T>>,
}

type Undone<T> = Arc<Mutex<Vec<T>>>;

/// A run that stores the values in every place, is resumed in between, and fails at its end.
fn everywhere<T>(undone: Undone<T>) -> CompiledGraph<Everywhere<T>>
where
    T: Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    Graph::<Everywhere<T>>::new("everywhere")
        .add_node("act", |cx: NodeContext, mut state: Everywhere<T>| async move {
            let values = state.states.clone();
            cx.record_undo(values.clone());
            let result = cx.effect("result", |_key| async move { Ok::<_, String>(values) }).await?;
            let answer: Vec<T> = cx.interrupt("question", &state.states).await;
            let signal: Vec<T> = cx.signal("signal").await;
            if result != state.states || answer != state.states || signal != state.states {
                return Err(format!("{state:?} came back as {result:?}, {answer:?}, {signal:?}"));
            }
            state.effect = Some(result);
            Ok(state)
        })
        .add_node("item", |cx: NodeContext, state: Everywhere<T>| async move {
            let _: u32 = cx.interrupt("item", &0).await;
            Ok::<_, String>(state)
        })
        .add_node("last", |state: Everywhere<T>| async move { Err::<Everywhere<T>, _>(format!("{state:?}")) })
        .map(
            "act",
            |state: &Everywhere<T>| vec![state.clone()],
            "item",
            "last",
            |_, mut items: Vec<Everywhere<T>>| items.remove(0),
        )
        .add_edge("item", "last")
        .add_edge("last", END)
        .set_entry("act")
        .compensate("act", move |_cx: NodeContext, values: Vec<T>| {
            undone.lock().unwrap().extend(values);
            async { Ok::<_, String>(()) }
        })
        .compile()
        .unwrap()
}

/// Checks the values in a memory store.
async fn check_everywhere<T>(sim: &Sim, values: Vec<T>)
where
    T: Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    check_everywhere_in(&MemoryStore::on(sim.runtime()), sim.runtime(), values).await;
}

/// Checks the values in any store. Each driver stops at the next question.
async fn check_everywhere_in<T>(store: &(impl Store + Clone), runtime: Arc<dyn Runtime>, values: Vec<T>)
where
    T: Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let undone = Undone::default();
    let graph = || everywhere::<T>(Arc::clone(&undone));
    let begins = Everywhere { states: values.clone(), effect: None };
    let remote = RunRemote::new(store, "r");
    let run = graph().run(begins.clone()).id("r").runtime(Arc::clone(&runtime));
    let mut ended = run.checkpoint(store).await.map(drop);
    for step in 0..3 {
        let error = ended.unwrap_err();
        assert!(matches!(error.fault(), RunFault::Paused { .. }), "{error}");
        match step {
            0 => remote.resume_with("question", &values).await.unwrap(),
            1 => remote.signal("signal", &values).await.unwrap(),
            _ => remote.resume_with("item", &0).await.unwrap(),
        }
        ended = graph().resume("r").checkpoint(store).runtime(Arc::clone(&runtime)).await.map(drop);
    }
    let error = ended.unwrap_err().to_string();
    let expected = Everywhere { states: values.clone(), effect: Some(values.clone()) };
    assert!(error.contains(&format!("{expected:?}")), "{error}");
    assert_eq!(*undone.lock().unwrap(), values, "the payload of the undo");
    assert_eq!(store.head("r").await.unwrap().status, RunStatus::Compensated);
}

/// A float that is compared bit by bit.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Exact(f64);

impl PartialEq for Exact {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn c2_floats_come_back_bit_by_bit_from_everywhere(bits in proptest::collection::vec(any::<u64>(), 50)) {
        let known = [149.04149115049537, 9.0 * 1.19, 5_f64.ln(), 0.1 + 0.2, -0.0, f64::MIN_POSITIVE, 5e-324, f64::MAX];
        let drawn = bits.into_iter().map(f64::from_bits).filter(|float| float.is_finite());
        let sim = Sim::new(1);
        sim.run(check_everywhere(&sim, known.into_iter().chain(drawn).map(Exact).collect()));
    }

    #[test]
    fn c2_small_floats_and_large_integers_come_back(bits in any::<[u32; 20]>(), numbers in any::<[(u64, i64); 20]>(), large in any::<[u128; 4]>()) {
        let sim = Sim::new(1);
        let floats: Vec<u32> = bits.into_iter().filter(|bits| f32::from_bits(*bits).is_finite()).collect();
        sim.run(check_everywhere(&sim, floats.into_iter().map(f32::from_bits).collect::<Vec<f32>>()));
        sim.run(check_everywhere(&sim, numbers.to_vec()));
        sim.run(check_everywhere(&sim, large.to_vec()));
    }
}

/// A value of any serde shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Unit,
    Nested(Option<Option<u8>>),
    Nothing(Option<()>),
    Float(Option<f64>),
    Tuple(u8, Option<Box<Shape>>),
    Struct { shapes: Vec<Shape>, by_name: BTreeMap<String, Shape> },
    Map(HashMap<String, u16>),
    Set(HashSet<u16>),
    Text(String),
    Char(char),
    Result(Result<u8, String>),
}

fn shape() -> impl Strategy<Value = Shape> {
    let leaf = prop_oneof![
        Just(Shape::Unit),
        any::<Option<Option<u8>>>().prop_map(Shape::Nested),
        any::<Option<()>>().prop_map(Shape::Nothing),
        proptest::option::of(prop_oneof![Just(f64::NAN), Just(f64::INFINITY), any::<f64>()]).prop_map(Shape::Float),
        proptest::collection::hash_map(".{0,4}", any::<u16>(), 0..6).prop_map(Shape::Map),
        proptest::collection::hash_set(any::<u16>(), 0..6).prop_map(Shape::Set),
        ".{0,8}".prop_map(Shape::Text),
        any::<char>().prop_map(Shape::Char),
        any::<Result<u8, String>>().prop_map(Shape::Result),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            (any::<u8>(), proptest::option::of(inner.clone().prop_map(Box::new))).prop_map(|(n, shape)| Shape::Tuple(n, shape)),
            (proptest::collection::vec(inner.clone(), 0..4), proptest::collection::btree_map(".{0,3}", inner, 0..4))
                .prop_map(|(shapes, by_name)| Shape::Struct { shapes, by_name }),
        ]
    })
}

/// The model: whether a value reads back from JSON unchanged.
fn survives<T: PartialEq + Serialize + DeserializeOwned>(value: &T) -> bool {
    let back = serde_json::to_vec(value).ok().and_then(|json| serde_json::from_slice::<T>(&json).ok());
    back.is_some_and(|back| back == *value)
}

/// A graph whose node records the value as an effect result.
fn keeping<T>(value: T) -> CompiledGraph<Vec<T>>
where
    T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    Graph::<Vec<T>>::new("keeping")
        .add_node("effect", move |cx: NodeContext, mut state: Vec<T>| {
            let value = value.clone();
            async move {
                state.push(cx.effect("value", |_key| async move { Ok::<_, String>(value) }).await?);
                Ok::<_, String>(state)
            }
        })
        .add_edge("effect", END)
        .set_entry("effect")
        .compile()
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn c2_value_of_any_shape_survives_or_is_rejected(value in shape()) {
        let sim = Sim::new(1);
        let store = MemoryStore::on(sim.runtime());
        let run = |state: Vec<Shape>, graph: CompiledGraph<Vec<Shape>>, id: &'static str| {
            sim.run(async { graph.run(state).id(id).runtime(sim.runtime()).checkpoint(&store).await })
        };
        // As a state: rejected before the run begins.
        let as_state = run(vec![value.clone()], keeping(Shape::Unit), "state");
        prop_assert_eq!(as_state.is_ok(), survives(&value), "{:?}", as_state);
        // As an effect result: the node fails with the reason.
        let as_effect = run(Vec::new(), keeping(value.clone()), "effect");
        match as_effect {
            Ok(state) => prop_assert!(survives(&value) && state == [value]),
            Err(error) => {
                prop_assert!(!survives(&value), "{error}");
                let RunFault::Node(failed) = error.fault() else { panic!("{error}") };
                let pleach::supervise::Reason::Error(reason) = &*failed.reason else { panic!("{error}") };
                prop_assert!(matches!(reason.downcast_ref(), Some(EffectError::Unstorable { .. })), "{reason}");
            }
        }
    }
}

/// A state with a field that serde skips.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Skipping {
    seen: u32,
    #[serde(skip)]
    unseen: u32,
}

fn skipping() -> Graph<Skipping> {
    Graph::<Skipping>::new("skipping")
        .add_node("set", |mut state: Skipping| async move {
            state.unseen += 7;
            Ok::<_, String>(state)
        })
        .add_edge("set", END)
        .set_entry("set")
}

#[test]
fn c2_skipped_fields_are_found_by_comparing_states() {
    let sim = Sim::new(1);
    let begins = Skipping { seen: 1, unseen: 0 };
    sim.run(async {
        let store = MemoryStore::on(sim.runtime());
        let plain = skipping().compile().unwrap();
        // A store cannot see what serde skips.
        assert!(plain.run(begins.clone()).id("plain").runtime(sim.runtime()).checkpoint(&store).await.is_ok());
        let comparing = skipping().compare_states().compile().unwrap();
        let error = comparing.run(begins.clone()).id("compared").runtime(sim.runtime()).checkpoint(&store).await.unwrap_err();
        assert!(matches!(error.fault(), RunFault::Checkpoint(_)) && error.to_string().contains("not equal"), "{error}");
        assert_eq!(error.into_state(), Some(Skipping { seen: 1, unseen: 7 }), "the state is returned");
        assert_eq!(store.head("compared").await.unwrap().head, 1, "nothing was committed");
    });
}

#[test]
fn c4_effect_result_is_compared_on_request() {
    let sim = Sim::new(1);
    let log = Log::new();
    let seen = log.clone();
    let graph = Graph::<u32>::new("comparing")
        .add_node("effect", move |cx: NodeContext, n: u32| {
            let seen = seen.clone();
            async move {
                let work = move |_key| async move { Ok::<_, String>(Skipping { seen: n, unseen: 5 }) };
                let result = cx.effect("skips", work).compare_result().await?;
                seen.push(result.seen);
                Ok::<_, String>(n)
            }
        })
        .add_edge("effect", END)
        .set_entry("effect")
        .compile()
        .unwrap();
    sim.run(async {
        let store = MemoryStore::on(sim.runtime());
        let error = graph.run(1).id("r").runtime(sim.runtime()).checkpoint(&store).await.unwrap_err();
        assert!(error.to_string().contains("changes when it is written to JSON"), "{error}");
        assert!(log.take().is_empty());
    });
}

/// Floats of all kinds, drawn from one seed.
#[cfg(all(feature = "tokio", any(feature = "sqlite", feature = "postgres")))]
fn many_floats() -> Vec<Exact> {
    let sim = Sim::new(7);
    let drawn = (0..2_000).map(|_| f64::from_bits(sim.runtime().random())).filter(|float| float.is_finite());
    [149.04149115049537, 9.0 * 1.19, 5_f64.ln(), -0.0, 5e-324].into_iter().chain(drawn).map(Exact).collect()
}

#[cfg(all(feature = "tokio", feature = "sqlite"))]
#[tokio::test]
async fn c2_floats_come_back_bit_by_bit_from_sqlite() {
    let folder = std::env::temp_dir().join(format!("pleach-floats-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let store = SqliteStore::open(folder.join("store.db")).await.unwrap();
    check_everywhere_in(&store, pleach::runtime::TokioRuntime::current().unwrap(), many_floats()).await;
    drop(store);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[cfg(all(feature = "tokio", feature = "postgres"))]
#[tokio::test]
async fn c2_floats_come_back_bit_by_bit_from_postgres() {
    // Without a server this test does nothing; `cargo xtask test` starts one.
    let Ok(url) = std::env::var("PLEACH_POSTGRES_URL") else { return };
    let store = PostgresStore::connect(&url).await.unwrap();
    drop(store.delete("r").await);
    check_everywhere_in(&store, pleach::runtime::TokioRuntime::current().unwrap(), many_floats()).await;
    store.delete("r").await.unwrap();
}
