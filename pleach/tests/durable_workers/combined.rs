//! C3, C4, C8, C9, C12 combined: every kind of wait and effect in one graph, with a crash at every
//! commit.
use crate::common::flaky_store::{FlakyStore, WriteFailure};
use crate::common::side_effects::{SideEffects, dropped_after, jitter, side_effects, with};
use pleach::Scope;
use pleach::graph::{FanOut, Policy, Retry};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::store::{MemoryStore, NewMessage, RunStatus, Store};

pub(crate) fn sum(n: u32, all: Vec<u32>) -> u32 {
    n + all.into_iter().sum::<u32>()
}

pub(crate) async fn pass(n: u32) -> Result<u32, String> {
    Ok(n)
}

/// A node with effects, a sleep, a signal and an interrupt.
async fn busy_node(cx: NodeContext, n: u32) -> Result<u32, String> {
    jitter(&cx).await;
    let outside = side_effects(&cx);
    let what = format!("effect {}", cx.idempotency_key());
    let one = cx
        .effect("one", move |_| async move {
            outside.happen(what);
            Ok::<_, String>(1u32)
        })
        .await?;
    cx.sleep("s", Duration::from_millis(30)).await;
    let two = cx.signal::<u32>("go").await;
    side_effects(&cx).happen(format!("took {two}"));
    if cx.attempt() < 2 {
        return Err("again".into());
    }
    let outside = side_effects(&cx);
    let what = format!("second {}", cx.idempotency_key());
    let (three, four) = futures::future::join(
        cx.effect("three", move |_| async move {
            outside.happen(what);
            Ok::<_, String>(1u32)
        })
        .into_future(),
        cx.interrupt::<u32>("ask", "?"),
    )
    .await;
    Ok(n + one + two + three? + four)
}

fn everything(spawned: bool) -> CompiledGraph<u32> {
    let inner = || {
        Graph::new("inner")
            .add_node("i1", pass_node)
            .add_node("i2", busy_node)
            .policy("i2", Policy::new().retry(Retry::times(3).backoff(Duration::from_millis(5), Duration::from_millis(9))))
            .add_edge("i1", "i2")
            .add_edge("i2", END)
            .set_entry("i1")
            .compile()
            .unwrap()
    };
    let outer = Graph::new("outer")
        .add_subgraph("sub", inner(), |n: &u32| *n, |a: u32, b: u32| a + b)
        .add_edge("sub", END)
        .set_entry("sub")
        .compile()
        .unwrap();
    let fan = FanOut::merge(sum);
    let fan = if spawned { fan.spawned() } else { fan };
    Graph::new("g")
        .add_node("s", pass_node)
        .add_node("a", busy_node)
        .policy("a", Policy::new().retry(Retry::times(3)))
        .add_subgraph("b", outer, |n: &u32| *n, |a: u32, b: u32| a + b)
        .add_node("c", pass_node)
        .add_node("c1", busy_node)
        .policy("c1", Policy::new().retry(Retry::times(3)))
        .add_node("c2", pass_node)
        .map("c", |n: &u32| vec![*n; 3], "c1", "c2", FanOut::merge(sum).limit(2))
        .add_edge("c1", "c2")
        .add_edge("c2", "j")
        .add_node("j", pass_node)
        .add_parallel_edge("s", ["a", "b", "c"], "j", fan)
        .add_edge("a", "j")
        .add_edge("b", "j")
        .add_edge("j", END)
        .set_entry("s")
        .compile()
        .unwrap()
}

pub(crate) async fn pass_node(cx: NodeContext, n: u32) -> Result<u32, String> {
    jitter(&cx).await;
    side_effects(&cx).happen(format!("done {} {}", cx.node(), cx.idempotency_key()));
    Ok(n)
}

fn drive(graph: &CompiledGraph<u32>, seed: u64, at: u64, fate: WriteFailure, keep: u64, drop_at: Option<u64>) -> (u32, usize) {
    let sim = Sim::new(seed);
    let (store, outside) = (FlakyStore::new(MemoryStore::on(sim.runtime())), SideEffects::default());
    store.fail_at(at, fate);
    // Each of the five waiting nodes takes one signal and one answer. All signals differ.
    let mut posted = false;
    let mut crashes = 0;
    let mut begun = false;
    for turn in 0..60 {
        if begun && !posted {
            posted = true;
            for n in 0..5u32 {
                sim.run(async {
                    store
                        .send_message(
                            "r",
                            NewMessage::seal(
                                "r",
                                "signal/go",
                                Some(format!("g{n}")),
                                format!("{}", 10u32.pow(n + 1)).into_bytes(),
                            ),
                        )
                        .await
                })
                .unwrap();
            }
        }
        let run = if begun {
            graph.resume("r").resume_with("ask", &1000000u32).checkpoint(&store)
        } else {
            graph.run(0).id("r").checkpoint(&store)
        };
        let run = with(&sim, &outside, run.keep_records(keep));
        let outcome = match drop_at.filter(|_| turn < 3) {
            None => sim.run(run.into_future()),
            Some(millis) => {
                let ended = dropped_after(&sim, run, millis);
                sim.advance(Duration::from_millis(1));
                match ended {
                    Some(o) => o,
                    None => {
                        begun = sim.run(async { store.head("r").await }).is_ok();
                        let info = sim.run(async { store.head("r").await }).unwrap();
                        assert_eq!(info.lease_until, None);
                        crashes += 1;
                        continue;
                    }
                }
            }
        };
        match outcome {
            Ok(n) => {
                let info = sim.run(async { store.head("r").await }).unwrap();
                assert_eq!((info.status, info.lease_until, info.wake_at), (RunStatus::Finished, None, None));
                // Recorded effects do not happen twice. Each crash can repeat one effect per
                // waiting node.
                let mut effects: Vec<String> =
                    outside.all().into_iter().filter(|w| w.starts_with("effect") || w.starts_with("second")).collect();
                effects.sort();
                let all = effects.len();
                effects.dedup();
                assert_eq!(effects.len(), 10, "{seed} {at} {fate:?}");
                assert!(all - effects.len() <= crashes * 5, "{seed} {at} {fate:?} {all} {crashes}");
                return (n, crashes);
            }
            Err(error) => match error.fault() {
                RunFault::Paused { .. } => {
                    begun = true;
                }
                RunFault::Checkpoint(_) => {
                    crashes += 1;
                    begun = sim.run(async { store.head("r").await }).is_ok();
                }
                RunFault::AnswerRejected { .. } => panic!("{error}"),
                _ => panic!("{seed} {at} {fate:?}: {error}"),
            },
        }
        let info = sim.run(async { store.head("r").await }).unwrap();
        assert_eq!(info.lease_until, None);
    }
    panic!("the run does not end: {seed} {at} {fate:?} {:?}", outside.count("took"));
}

#[test]
fn c3_c4_c8_c9_c12_waits_and_effects_survive_a_crash_at_any_commit() {
    for spawned in [false, true] {
        let graph = everything(spawned);
        let (expected, _) = drive(&graph, 1, u64::MAX, WriteFailure::Lost, 10_000, None);
        let mut crashes = 0;
        for at in 2..60 {
            for fate in [WriteFailure::Lost, WriteFailure::Unanswered] {
                for seed in 0..2 {
                    for keep in [1, 10_000] {
                        let (n, c) = drive(&graph, seed, at, fate, keep, None);
                        assert_eq!(n, expected, "spawned {spawned} at {at} {fate:?} seed {seed} keep {keep}");
                        crashes += c;
                    }
                }
            }
        }
        assert!(crashes > 100, "{crashes}");
        for millis in 0..60 {
            for seed in 0..1 {
                let (n, _) = drive(&graph, seed, u64::MAX, WriteFailure::Lost, 1, Some(millis));
                assert_eq!(n, expected, "spawned {spawned} dropped at {millis} seed {seed}");
            }
        }
    }
}

#[test]
fn c9_run_whose_scope_is_cancelled_is_released_and_can_be_resumed() {
    let graph = everything(true);
    for millis in 0..40 {
        let sim = Sim::new(millis);
        let (store, outside) = (MemoryStore::on(sim.runtime()), SideEffects::default());
        let root = sim.token();
        let scope = Scope::under(&root);
        let run = with(&sim, &outside, graph.run(0).id("r").checkpoint(&store)).in_scope(&scope).into_future();
        let (t, clock) = (root.clone(), sim.runtime());
        sim.runtime().spawn(Box::pin(async move {
            clock.sleep_until(clock.now() + Duration::from_millis(millis)).await;
            t.cancel(Cause::Because("enough".into()));
        }));
        let error = sim.run(run).unwrap_err();
        sim.advance(Duration::from_millis(10));
        let Ok(info) = sim.run(async { store.head("r").await }) else { continue };
        assert_eq!(info.lease_until, None, "{millis} {error}");
        assert!(matches!(info.status, RunStatus::Running | RunStatus::Waiting), "{info:?}");
        let error = sim.run(with(&sim, &outside, graph.resume("r").checkpoint(&store)).into_future()).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Paused { .. }), "{error}");
    }
}
