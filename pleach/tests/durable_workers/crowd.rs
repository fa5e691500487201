//! C3, C4, C6, C8, C9, F6, F9, F12: everything at once, cut off at every commit; and many drivers of one run.
#![cfg(feature = "graph")]

use crate::common::flaky::{Fate, FlakyStore};
use crate::common::outside::{World, dropped_after, jitter, rest, with, world};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::store::{MemoryStore, Post, RunStatus, Store};
use pleach::{FanOut, Policy, Retry, Scope};

fn sum(n: u32, all: Vec<u32>) -> u32 {
    n + all.into_iter().sum::<u32>()
}
async fn pass(n: u32) -> Result<u32, String> {
    Ok(n)
}

/// Signals, interrupts, sleeps, effects in one node.
async fn busy_node(cx: NodeContext, n: u32) -> Result<u32, String> {
    jitter(&cx).await;
    let outside = world(&cx);
    let what = format!("effect {}", cx.idempotency_key());
    let one = cx
        .effect("one", move |_| async move {
            outside.happen(what);
            Ok::<_, String>(1u32)
        })
        .await?;
    cx.sleep("s", Duration::from_millis(30)).await;
    let two = cx.signal::<u32>("go").await;
    world(&cx).happen(format!("took {two}"));
    if cx.attempt() < 2 {
        return Err("again".into());
    }
    let outside = world(&cx);
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
async fn pass_node(cx: NodeContext, n: u32) -> Result<u32, String> {
    jitter(&cx).await;
    world(&cx).happen(format!("done {} {}", cx.node(), cx.idempotency_key()));
    Ok(n)
}

fn drive(graph: &CompiledGraph<u32>, seed: u64, at: u64, fate: Fate, keep: u64, drop_at: Option<u64>) -> (u32, usize) {
    let sim = Sim::new(seed);
    let (store, outside) = (FlakyStore::new(MemoryStore::on(sim.runtime())), World::default());
    store.fail_at(at, fate);
    // Every waiter wants one signal and one answer: five of each, all different.
    let mut posted = false;
    let mut crashes = 0;
    let mut begun = false;
    for turn in 0..60 {
        if begun && !posted {
            posted = true;
            for n in 0..5u32 {
                sim.run(async {
                    store
                        .post(
                            "r",
                            Post::seal("r", "signal/go", Some(format!("g{n}")), format!("{}", 10u32.pow(n + 1)).into_bytes()),
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
                let cut = dropped_after(&sim, run, millis);
                sim.advance(Duration::from_millis(1));
                match cut {
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
                // No effect whose record is there happened twice: two at most, for the one crash.
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
                RunFault::AnswerRefused { .. } => panic!("{error}"),
                _ => panic!("{seed} {at} {fate:?}: {error}"),
            },
        }
        let info = sim.run(async { store.head("r").await }).unwrap();
        assert_eq!(info.lease_until, None);
    }
    panic!("never ends: {seed} {at} {fate:?} {:?}", outside.count("took"));
}

#[test]
fn c3_c4_c8_c9_c12_waits_and_effects_in_branches_subgraphs_and_retries_survive_a_crash_at_any_commit() {
    for spawned in [false, true] {
        let graph = everything(spawned);
        let (expected, _) = drive(&graph, 1, u64::MAX, Fate::Lost, 10_000, None);
        let mut crashes = 0;
        for at in 2..60 {
            for fate in [Fate::Lost, Fate::Unanswered] {
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
                let (n, _) = drive(&graph, seed, u64::MAX, Fate::Lost, 1, Some(millis));
                assert_eq!(n, expected, "spawned {spawned} dropped at {millis} seed {seed}");
            }
        }
    }
}

#[test]
fn f12_undos_of_branches_maps_and_subgraphs_survive_a_crash_at_any_commit() {
    let node = |fails: bool| {
        move |cx: NodeContext, n: u32| async move {
            jitter(&cx).await;
            cx.record_undo(format!("{} {:?} {n}", cx.node(), cx.branch().branches()));
            if fails {
                rest(&cx, 50).await;
                return Err("no".to_string());
            }
            world(&cx).happen(format!("did {} {:?} {n}", cx.node(), cx.branch().branches()));
            Ok(n + 1)
        }
    };
    let undo = |cx: NodeContext, what: String| async move {
        jitter(&cx).await;
        world(&cx).happen(format!("undid {what}"));
        Ok::<_, String>(())
    };
    let inner = Graph::new("inner")
        .add_node("i1", node(false))
        .compensate("i1", undo)
        .add_node("i2", node(false))
        .compensate("i2", undo)
        .add_edge("i1", "i2")
        .add_edge("i2", END)
        .set_entry("i1")
        .compile()
        .unwrap();
    let graph = Graph::new("g")
        .add_node("s", node(false))
        .compensate("s", undo)
        .add_node("a", node(false))
        .compensate("a", undo)
        .add_subgraph("b", inner, |n: &u32| *n, |a: u32, b: u32| a + b)
        .map("a", |n: &u32| vec![*n, *n + 10], "m", "k", FanOut::merge(sum))
        .add_node("m", node(false))
        .compensate("m", undo)
        .add_edge("m", "k")
        .add_node("k", node(false))
        .compensate("k", undo)
        .add_edge("k", "j")
        .add_node("j", node(true))
        .compensate("j", undo)
        .add_parallel_edge("s", ["a", "b"], "j", FanOut::merge(sum))
        .add_edge("b", "j")
        .add_edge("j", END)
        .set_entry("s")
        .compile()
        .unwrap();
    let mut crashes = 0;
    for at in 2..40 {
        for fate in [Fate::Lost, Fate::Unanswered] {
            for seed in 0..4 {
                for keep in [1, 1000] {
                    let sim = Sim::new(seed);
                    let (store, outside) = (FlakyStore::new(MemoryStore::on(sim.runtime())), World::default());
                    store.fail_at(at, fate);
                    let mut error = sim
                        .run(with(&sim, &outside, graph.run(0).id("r").checkpoint(&store).keep_records(keep)).into_future())
                        .unwrap_err();
                    for _ in 0..4 {
                        let Ok(info) = sim.run(async { store.head("r").await }) else {
                            error = sim
                                .run(with(&sim, &outside, graph.run(0).id("r").checkpoint(&store)).into_future())
                                .unwrap_err();
                            continue;
                        };
                        assert_eq!(info.lease_until, None);
                        if info.status == RunStatus::Compensated {
                            break;
                        }
                        crashes += 1;
                        error = sim
                            .run(with(&sim, &outside, graph.resume("r").checkpoint(&store).keep_records(keep)).into_future())
                            .unwrap_err();
                    }
                    let info = sim.run(async { store.head("r").await }).unwrap();
                    assert_eq!(info.status, RunStatus::Compensated, "{at} {fate:?} {seed} {error}");
                    let all = outside.all();
                    let mut undone: Vec<String> =
                        all.iter().filter_map(|w| w.strip_prefix("undid ")).map(str::to_string).collect();
                    let mut did: Vec<String> = all.iter().filter_map(|w| w.strip_prefix("did ")).map(str::to_string).collect();
                    undone.dedup();
                    // Each that was done is undone, once but for the crash.
                    let mut sorted = undone.clone();
                    sorted.sort();
                    did.sort();
                    did.dedup();
                    assert_eq!(sorted, did, "{at} {fate:?} {seed}");
                    assert!(undone.last().unwrap().starts_with("s "));
                    assert!(
                        undone.first().unwrap().starts_with("k ") || undone.first().unwrap().starts_with("b/i2"),
                        "{undone:?}"
                    );
                }
            }
        }
    }
    assert!(crashes > 100);
}

#[test]
fn f9_a_fan_out_of_two_thousand_branches_survives_a_crash() {
    let node = |cx: NodeContext, n: u32| async move {
        rest(&cx, u64::from(n % 7)).await;
        world(&cx).happen(format!("ran {n}"));
        Ok::<_, String>(1u32)
    };
    let graph = Graph::new("g")
        .add_node("s", pass)
        .map("s", |_: &u32| (0..2000).collect(), "m", END, FanOut::merge(sum))
        .add_node("m", node)
        .add_edge("m", END)
        .set_entry("s")
        .compile()
        .unwrap();
    for at in [2, 3, 4, 5, 6, 7] {
        for fate in [Fate::Lost, Fate::Unanswered] {
            let sim = Sim::new(at);
            let (store, outside) = (FlakyStore::new(MemoryStore::on(sim.runtime())), World::default());
            store.fail_at(at, fate);
            let mut outcome = sim.run(
                with(&sim, &outside, graph.run(0).id("r").checkpoint(&store).max_visits(2001).keep_records(1)).into_future(),
            );
            if outcome.is_err() {
                outcome = sim.run(
                    with(&sim, &outside, graph.resume("r").checkpoint(&store).max_visits(2001).keep_records(1)).into_future(),
                );
            }
            assert_eq!(outcome.unwrap(), 2000, "{at} {fate:?}");
        }
    }
}

/// F6: the count over crashes is what it would have been.
#[test]
fn f6_the_count_of_visits_is_the_same_wherever_branches_and_subgraphs_were_cut_off() {
    let inner = Graph::new("inner")
        .add_node("i1", pass_node)
        .add_node("i2", pass_node)
        .add_edge("i1", "i2")
        .add_edge("i2", END)
        .set_entry("i1")
        .compile()
        .unwrap();
    let flaky = |cx: NodeContext, n: u32| async move { if cx.attempt() < 3 { Err("no".to_string()) } else { Ok(n) } };
    let fails = |_: NodeContext, _: u32| async move { Err::<u32, _>("never".to_string()) };
    let graph = Graph::new("g")
        .add_node("s", pass_node)
        .add_node("a", flaky)
        .policy("a", Policy::new().retry(Retry::times(3)))
        .add_node("f", fails)
        .add_subgraph("b", inner, |n: &u32| *n, |a: u32, b: u32| a + b)
        .add_node("j", |cx: NodeContext, _: u32| async move { Ok::<_, String>(cx.iteration() as u32) })
        .add_parallel_edge("s", ["a", "b", "f"], "j", FanOut::collect(|n: u32, _| Ok::<_, String>(n)))
        .add_edge("a", "j")
        .add_edge("b", "j")
        .add_edge("f", "j")
        .add_edge("j", END)
        .set_entry("s")
        .compile()
        .unwrap();
    for at in 2..20 {
        for fate in [Fate::Lost, Fate::Unanswered] {
            for seed in 0..5 {
                let sim = Sim::new(seed);
                let (store, outside) = (FlakyStore::new(MemoryStore::on(sim.runtime())), World::default());
                store.fail_at(at, fate);
                let mut outcome =
                    sim.run(with(&sim, &outside, graph.run(1).id("r").checkpoint(&store).max_visits(7)).into_future());
                if outcome.is_err() {
                    outcome = sim.run(with(&sim, &outside, graph.resume("r").checkpoint(&store).max_visits(7)).into_future());
                }
                // "s", then "b" with the two nodes inside it, then "j".
                assert_eq!(outcome.unwrap(), 5, "{at} {fate:?} {seed}");
            }
        }
    }
}

/// Subgraph retried with undo inside; and timeouts of fan-outs that collect.
#[test]
fn f9_a_fan_out_with_a_timeout_comes_to_the_same_end_after_a_crash() {
    let slow = |cx: NodeContext, n: u32| async move {
        rest(&cx, if n == 2 { 100_000 } else { 5 }).await;
        world(&cx).happen(format!("ran {n}"));
        if n == 1 { Err("one".to_string()) } else { Ok(n) }
    };
    for (spawned, limit) in [(false, 9), (true, 9), (false, 1)] {
        let fan = FanOut::collect(|_: u32, all: Vec<Result<u32, RunError<u32>>>| {
            Ok::<_, String>(all.iter().map(|r| r.as_ref().map_or(100, |n| *n)).sum())
        })
        .timeout(Duration::from_secs(1))
        .limit(limit);
        let fan = if spawned { fan.spawned() } else { fan };
        let graph = Graph::new("g")
            .add_node("s", pass_node)
            .map("s", |_: &u32| vec![0, 1, 2, 3], "m", "z", fan)
            .add_node("m", slow)
            .add_edge("m", "z")
            .add_node("z", pass_node)
            .add_edge("z", END)
            .set_entry("s")
            .compile()
            .unwrap();
        let expected = if limit == 1 { 300 } else { 203 };
        for at in 2..10 {
            for fate in [Fate::Lost, Fate::Unanswered] {
                for seed in 0..5 {
                    let sim = Sim::new(seed);
                    let (store, outside) = (FlakyStore::new(MemoryStore::on(sim.runtime())), World::default());
                    store.fail_at(at, fate);
                    let mut outcome = sim.run(with(&sim, &outside, graph.run(1).id("r").checkpoint(&store)).into_future());
                    if outcome.is_err() {
                        outcome = sim.run(with(&sim, &outside, graph.resume("r").checkpoint(&store)).into_future());
                    }
                    assert_eq!(outcome.unwrap(), expected, "{at} {fate:?} {seed} {spawned} {limit}");
                }
            }
        }
    }
}

/// Two drivers of one run.
#[test]
fn c6_of_many_drivers_that_take_over_from_each_other_one_brings_the_run_to_its_end() {
    let node = |cx: NodeContext, n: u32| async move {
        rest(&cx, 200).await;
        world(&cx).happen(format!("did {n} {}", cx.idempotency_key()));
        Ok::<_, String>(n + 1)
    };
    let graph = Graph::new("g")
        .add_node("a", node)
        .add_conditional_edge("a", ["a", END], |n: &u32| if *n < 10 { "a" } else { END })
        .set_entry("a")
        .compile()
        .unwrap();
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let (store, outside) = (FlakyStore::new(MemoryStore::on(sim.runtime())), World::default());
        store.commit_slowly(sim.runtime(), Duration::from_millis(20));
        let ends = World::default();
        let first = with(&sim, &outside, graph.run(0).id("r").checkpoint(&store)).into_future();
        let told = ends.clone();
        sim.runtime().spawn(Box::pin(async move {
            told.happen(match first.await {
                Ok(n) => format!("ok {n}"),
                Err(e) => format!("{:?}", e.fault()),
            });
        }));
        sim.advance(Duration::from_millis(30));
        for k in 0..4u64 {
            let next = with(&sim, &outside, graph.resume("r").take_over().checkpoint(&store)).into_future();
            let (told, clock) = (ends.clone(), sim.runtime());
            sim.runtime().spawn(Box::pin(async move {
                clock.sleep_until(clock.now() + Duration::from_millis(100 + k * 137 + clock.random() % 50)).await;
                told.happen(match next.await {
                    Ok(n) => format!("ok {n}"),
                    Err(e) => format!("{:?}", e.fault()),
                });
            }));
        }
        sim.advance(Duration::from_secs(60));
        let all = ends.all();
        assert_eq!(all.len(), 5, "{all:?}");
        assert_eq!(ends.count("ok 10"), 1, "{all:?}");
        assert_eq!(ends.count("Fenced"), 4, "{all:?}");
        let info = sim.run(async { store.head("r").await }).unwrap();
        assert_eq!((info.status, info.head, info.lease_until), (RunStatus::Finished, 11, None));
    }
}

/// Within scopes: the scope is cancelled from above at every moment.
#[test]
fn c9_a_run_whose_scope_is_cancelled_at_any_moment_is_given_up_and_can_be_resumed() {
    let graph = everything(true);
    for millis in 0..40 {
        let sim = Sim::new(millis);
        let (store, outside) = (MemoryStore::on(sim.runtime()), World::default());
        let root = sim.token();
        let scope = Scope::under(&root);
        let run = with(&sim, &outside, graph.run(0).id("r").checkpoint(&store)).within(&scope).into_future();
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
