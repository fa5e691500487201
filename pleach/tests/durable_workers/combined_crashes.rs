//! C6, F6, F9, F12: branches, subgraphs and undos with a crash at every commit, and many drivers of
//! one run.
use crate::combined::{pass, pass_node, sum};
use crate::common::flaky_store::{FlakyStore, WriteFailure};
use crate::common::side_effects::{SideEffects, jitter, rest, side_effects, with};
use pleach::graph::{FanOut, Policy, Retry};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::store::{MemoryStore, RunStatus, Store};

#[test]
fn f12_undos_of_branches_and_subgraphs_survive_a_crash_at_any_commit() {
    let node = |fails: bool| {
        move |cx: NodeContext, n: u32| async move {
            jitter(&cx).await;
            cx.record_undo(format!("{} {:?} {n}", cx.node(), cx.branch().branches()));
            if fails {
                rest(&cx, 50).await;
                return Err("no".to_string());
            }
            side_effects(&cx).happen(format!("did {} {:?} {n}", cx.node(), cx.branch().branches()));
            Ok(n + 1)
        }
    };
    let undo = |cx: NodeContext, what: String| async move {
        jitter(&cx).await;
        side_effects(&cx).happen(format!("undid {what}"));
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
        for fate in [WriteFailure::Lost, WriteFailure::Unanswered] {
            for seed in 0..4 {
                for keep in [1, 1000] {
                    let sim = Sim::new(seed);
                    let (store, outside) = (FlakyStore::new(MemoryStore::on(sim.runtime())), SideEffects::default());
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
                    // Every visit is undone. A crash may repeat an undo.
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
fn f9_fan_out_of_two_thousand_branches_survives_a_crash() {
    let node = |cx: NodeContext, n: u32| async move {
        rest(&cx, u64::from(n % 7)).await;
        side_effects(&cx).happen(format!("ran {n}"));
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
        for fate in [WriteFailure::Lost, WriteFailure::Unanswered] {
            let sim = Sim::new(at);
            let (store, outside) = (FlakyStore::new(MemoryStore::on(sim.runtime())), SideEffects::default());
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

#[test]
fn f6_visit_count_is_the_same_after_a_crash_in_branches_and_subgraphs() {
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
        for fate in [WriteFailure::Lost, WriteFailure::Unanswered] {
            for seed in 0..5 {
                let sim = Sim::new(seed);
                let (store, outside) = (FlakyStore::new(MemoryStore::on(sim.runtime())), SideEffects::default());
                store.fail_at(at, fate);
                let mut outcome =
                    sim.run(with(&sim, &outside, graph.run(1).id("r").checkpoint(&store).max_visits(7)).into_future());
                if outcome.is_err() {
                    outcome = sim.run(with(&sim, &outside, graph.resume("r").checkpoint(&store).max_visits(7)).into_future());
                }
                // "s", then "b" with its two inner nodes, then "j".
                assert_eq!(outcome.unwrap(), 5, "{at} {fate:?} {seed}");
            }
        }
    }
}

#[test]
fn f9_fan_out_with_a_timeout_has_the_same_result_after_a_crash() {
    let slow = |cx: NodeContext, n: u32| async move {
        rest(&cx, if n == 2 { 100_000 } else { 5 }).await;
        side_effects(&cx).happen(format!("ran {n}"));
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
            for fate in [WriteFailure::Lost, WriteFailure::Unanswered] {
                for seed in 0..5 {
                    let sim = Sim::new(seed);
                    let (store, outside) = (FlakyStore::new(MemoryStore::on(sim.runtime())), SideEffects::default());
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

#[test]
fn c6_one_of_many_drivers_with_takeovers_finishes_the_run() {
    let node = |cx: NodeContext, n: u32| async move {
        rest(&cx, 200).await;
        side_effects(&cx).happen(format!("did {n} {}", cx.idempotency_key()));
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
        let (store, outside) = (FlakyStore::new(MemoryStore::on(sim.runtime())), SideEffects::default());
        store.commit_slowly(sim.runtime(), Duration::from_millis(20));
        let ends = SideEffects::default();
        let first = with(&sim, &outside, graph.run(0).id("r").checkpoint(&store)).into_future();
        let results = ends.clone();
        sim.runtime().spawn(Box::pin(async move {
            results.happen(match first.await {
                Ok(n) => format!("ok {n}"),
                Err(e) => format!("{:?}", e.fault()),
            });
        }));
        sim.advance(Duration::from_millis(30));
        for k in 0..4u64 {
            let next = with(&sim, &outside, graph.resume("r").take_over().checkpoint(&store)).into_future();
            let (results, clock) = (ends.clone(), sim.runtime());
            sim.runtime().spawn(Box::pin(async move {
                clock.sleep_until(clock.now() + Duration::from_millis(100 + k * 137 + clock.random() % 50)).await;
                results.happen(match next.await {
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
