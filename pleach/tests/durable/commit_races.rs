//! C4, C6, C8, C9, C12: nodes and runs that are cancelled or dropped while their records are being
//! written.
use crate::common::flaky_store::FlakyStore;
use crate::common::side_effects::{SideEffects, dropped_after, rest, side_effects, with};
use crate::{add_one, one, pass, sum};
use pleach::graph::{FanOut, Policy, Retry};
use pleach::prelude::*;
use pleach::runtime::{Instant, Runtime};
use pleach::sim::Sim;
use pleach::store::{MemoryStore, NewMessage, RunStatus, Store};
use pleach::worker::Worker;
use std::sync::Arc;

#[test]
fn c4_effect_is_not_repeated_if_its_node_times_out_during_its_commit() {
    let node = |cx: NodeContext, n: u32| async move {
        let outside = side_effects(&cx);
        let got = cx
            .effect("charge", move |_| async move {
                outside.happen("charge");
                Ok::<_, String>(5u32)
            })
            .await?;
        Ok::<_, String>(n + got)
    };
    let graph = one(node, Policy::new().timeout(Duration::from_millis(15)).retry(Retry::times(9)));
    let sim = Sim::new(1);
    let (store, outside) = (FlakyStore::new(MemoryStore::on(sim.runtime())), SideEffects::default());
    store.commit_slowly(sim.runtime(), Duration::from_millis(10));
    assert_eq!(sim.run(with(&sim, &outside, graph.run(1).id("r").checkpoint(&store)).into_future()).unwrap(), 6);
    assert_eq!(outside.all(), ["charge"]);
}

#[test]
fn c9_signal_is_not_lost_if_its_node_times_out_during_the_take() {
    let node = |cx: NodeContext, n: u32| async move { Ok::<_, String>(n + cx.signal::<u32>("go").await) };
    // The wait is durable at 20 ms. The signal is posted at 22 ms and read; its take is in flight
    // at the timeout.
    let graph = one(node, Policy::new().timeout(Duration::from_millis(30)).retry(Retry::times(9)));
    let sim = Sim::new(1);
    let (store, outside) = (FlakyStore::new(MemoryStore::on(sim.runtime())), SideEffects::default());
    store.commit_slowly(sim.runtime(), Duration::from_millis(10));
    let (clock, post) = (sim.runtime(), store.clone());
    sim.runtime().spawn(Box::pin(async move {
        clock.sleep_until(clock.now() + Duration::from_millis(5)).await;
        post.send_message("r", NewMessage::seal("r", "signal/go", None, b"5".to_vec())).await.unwrap();
    }));
    assert_eq!(sim.run(with(&sim, &outside, graph.run(1).id("r").checkpoint(&store)).into_future()).unwrap(), 6);
}

#[test]
fn c12_first_deadline_counts_even_if_its_record_was_not_durable() {
    let node = |cx: NodeContext, n: u32| async move {
        cx.sleep("s", Duration::from_millis(100)).await;
        side_effects(&cx).happen(format!("{}", cx.attempt()));
        Ok::<_, String>(n)
    };
    let graph = one(node, Policy::new().timeout(Duration::from_millis(15)).retry(Retry::times(90)));
    let sim = Sim::new(1);
    let (store, outside) = (FlakyStore::new(MemoryStore::on(sim.runtime())), SideEffects::default());
    store.commit_slowly(sim.runtime(), Duration::from_millis(10));
    let began = sim.now();
    sim.run(with(&sim, &outside, graph.run(1).id("r").checkpoint(&store)).into_future()).unwrap();
    let took = sim.now().since(began).as_millis();
    assert!(took < 160, "{took}");
}

#[test]
fn c8_timed_out_spawned_node_that_asks_again_pauses_the_run() {
    let node = |cx: NodeContext, n: u32| async move {
        if cx.attempt() == 1 {
            return Ok::<_, String>(
                n + futures::future::join(cx.interrupt::<u32>("k", "?"), async {
                    rest(&cx, 1000).await;
                    cx.effect("e", |_| async { Ok::<_, String>(()) }).await.unwrap();
                    rest(&cx, 100_000).await;
                })
                .await
                .0,
            );
        }
        Ok::<_, String>(n + cx.interrupt::<u32>("k", "?").await)
    };
    // The other branch keeps the run from pausing at first.
    let busy = |cx: NodeContext, n: u32| async move {
        rest(&cx, 5000).await;
        Ok::<_, String>(n)
    };
    let graph = Graph::new("g")
        .add_node("s", pass)
        .add_node("a", node)
        .policy("a", Policy::new().timeout(Duration::from_secs(2)).retry(Retry::times(9)))
        .add_node("b", busy)
        .add_parallel_edge("s", ["a", "b"], END, FanOut::merge(sum).spawned())
        .add_edge("a", END)
        .add_edge("b", END)
        .set_entry("s")
        .compile()
        .unwrap();
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let (store, outside) = (MemoryStore::on(sim.runtime()), SideEffects::default());
        let token = sim.token();
        let (t, clock) = (token.clone(), sim.runtime());
        sim.runtime().spawn(Box::pin(async move {
            clock.sleep_until(clock.now() + Duration::from_secs(600)).await;
            t.cancel(Cause::Because("hangs".into()));
        }));
        let error =
            sim.run(with(&sim, &outside, graph.run(1).id("r").checkpoint(&store).token(&token)).into_future()).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Paused { keys, .. } if *keys == ["k"]), "{seed} {error}");
    }
}

#[test]
fn c9_signal_reaches_a_waiting_branch_while_another_works() {
    let waits = |cx: NodeContext, n: u32| async move {
        let got = cx.signal::<u32>("go").await;
        let c = cx.extension::<Arc<dyn Runtime>>().unwrap().clone();
        side_effects(&cx).happen(format!("{}", c.now().since(*cx.extension::<Instant>().unwrap()).as_secs()));
        Ok::<_, String>(n + got)
    };
    let busy = |cx: NodeContext, n: u32| async move {
        rest(&cx, 500_000).await;
        Ok::<_, String>(n)
    };
    let graph = Graph::new("g")
        .add_node("s", pass)
        .add_node("a", waits)
        .add_node("b", busy)
        .add_parallel_edge("s", ["a", "b"], END, FanOut::merge(sum))
        .add_edge("a", END)
        .add_edge("b", END)
        .set_entry("s")
        .compile()
        .unwrap();
    let sim = Sim::new(1);
    let (store, outside) = (MemoryStore::on(sim.runtime()), SideEffects::default());
    let (clock, post) = (sim.runtime(), store.clone());
    sim.runtime().spawn(Box::pin(async move {
        clock.sleep_until(clock.now() + Duration::from_secs(10)).await;
        post.send_message("r", NewMessage::seal("r", "signal/go", None, b"5".to_vec())).await.unwrap();
    }));
    let began = sim.now();
    assert_eq!(
        sim.run(with(&sim, &outside, graph.run(1).id("r").checkpoint(&store).extension(began)).into_future()).unwrap(),
        7
    );
    let at: u64 = outside.all()[0].parse().unwrap();
    assert!(at < 20, "delivered after {at} s");
}

#[test]
fn c6_run_ended_at_any_moment_is_released_and_can_be_resumed() {
    let node = |cx: NodeContext, n: u32| async move {
        side_effects(&cx).happen("ran");
        cx.effect("e", |_| async { Ok::<_, String>(()) }).await?;
        Ok::<_, String>(n + 1)
    };
    for failing in [false, true] {
        let graph = {
            let last = move |cx: NodeContext, n: u32| async move {
                side_effects(&cx).happen("last");
                if failing { Err("no".to_string()) } else { Ok::<_, String>(n + 1) }
            };
            Graph::new("g")
                .add_node("a", node)
                .add_node("b", last)
                .add_edge("a", "b")
                .add_edge("b", END)
                .set_entry("a")
                .compile()
                .unwrap()
        };
        for millis in 0..90 {
            for is_dropped in [false, true] {
                let sim = Sim::new(1);
                let (store, outside) = (FlakyStore::new(MemoryStore::on(sim.runtime())), SideEffects::default());
                store.commit_slowly(sim.runtime(), Duration::from_millis(10));
                let token = sim.token();
                let (t, clock) = (token.clone(), sim.runtime());
                sim.runtime().spawn(Box::pin(async move {
                    clock.sleep_until(clock.now() + Duration::from_millis(millis)).await;
                    t.cancel(Cause::Because("enough".into()));
                }));
                let run = with(&sim, &outside, graph.run(1).id("r").checkpoint(&store));
                let outcome = if is_dropped {
                    let ended = dropped_after(&sim, run, millis);
                    sim.advance(Duration::from_millis(100));
                    ended
                } else {
                    Some(sim.run(run.token(&token).into_future()))
                };
                let Ok(info) = sim.run(async { store.head("r").await }) else {
                    let Some(Err(error)) = outcome else {
                        assert!(is_dropped);
                        continue;
                    };
                    assert_eq!(error.into_state(), Some(1), "{millis}: the state is returned");
                    continue;
                };
                assert_eq!(info.lease_until, None, "failing {failing} {millis} is_dropped {is_dropped} {outcome:?} {info:?}");
                let began = sim.now();
                let again = sim.run(with(&sim, &outside, graph.resume("r").checkpoint(&store)).into_future());
                if failing {
                    assert!(matches!(again.unwrap_err().fault(), RunFault::Node(_)));
                } else {
                    assert_eq!(again.unwrap(), 3, "{millis}");
                }
                assert!(sim.now().since(began) < Duration::from_secs(1));
            }
        }
    }
}

#[test]
fn c8_paused_run_whose_sleep_has_ended_is_not_due() {
    let node = |cx: NodeContext, n: u32| async move {
        let (a, ()) = futures::future::join(cx.interrupt::<u32>("k", "?"), cx.sleep("s", Duration::from_secs(5))).await;
        Ok::<_, String>(n + a)
    };
    let graph = one(node, Policy::new());
    let sim = Sim::new(1);
    let (store, outside) = (MemoryStore::on(sim.runtime()), SideEffects::default());
    let error = sim.run(with(&sim, &outside, graph.run(1).id("r").checkpoint(&store)).into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Paused { keys, .. } if *keys == ["k"]), "{error}");
    let info = sim.run(async { store.head("r").await }).unwrap();
    assert_eq!((info.status, info.wake_at), (RunStatus::Waiting, None));
}

#[test]
fn c4_pending_error_of_one_attempt_does_not_affect_the_next() {
    let node = |cx: NodeContext, n: u32| async move {
        if cx.attempt() == 1 {
            cx.effect("x", |_| async { Ok::<_, String>(()) }).await?;
            let twice = Box::pin(cx.effect("x", |_| async { Ok::<_, String>(()) }).into_future());
            drop(futures::future::select(twice, Box::pin(async { Ok::<(), String>(()) })).await);
            return Err("again".to_string());
        }
        rest(&cx, 10).await;
        Ok::<_, String>(n + 1)
    };
    let graph = one(node, Policy::new().retry(Retry::times(2)));
    let sim = Sim::new(1);
    let (store, outside) = (MemoryStore::on(sim.runtime()), SideEffects::default());
    assert_eq!(sim.run(with(&sim, &outside, graph.run(1).id("r").checkpoint(&store)).into_future()).unwrap(), 2);
}

#[test]
fn c6_run_dropped_while_it_is_created_or_claimed_is_released() {
    let graph = one(add_one, Policy::new());
    let forked = |store: &FlakyStore| graph.resume("r").fork_as("f").checkpoint(store);
    let mut held = 0;
    for (at, what) in (0..25).flat_map(|at| [(at, "made"), (at, "claimed"), (at, "forked"), (at, "worked on")]) {
        let sim = Sim::new(at);
        let (inside, outside) = (MemoryStore::on(sim.runtime()), SideEffects::default());
        let store = FlakyStore::new(inside.clone());
        if what != "made" {
            sim.run(async { graph.run(1).id("r").checkpoint(&inside).runtime(sim.runtime()).enqueue().await }).unwrap();
        }
        store.claim_slowly(sim.runtime(), Duration::from_millis(10));
        match what {
            "made" => drop(dropped_after(&sim, with(&sim, &outside, graph.run(1).id("r").checkpoint(&store)), at)),
            "claimed" => drop(dropped_after(&sim, with(&sim, &outside, graph.resume("r").checkpoint(&store)), at)),
            "forked" => drop(dropped_after(&sim, with(&sim, &outside, forked(&store)), at)),
            _ => {
                let worker = Worker::new(&store).graph(&graph).runtime(sim.runtime()).start().unwrap();
                sim.run(sim.sleep(Duration::from_millis(at)));
                drop(worker);
            }
        }
        held += usize::from(any_run_is_held(&sim, &inside));
        sim.run(sim.sleep(Duration::from_millis(100)));
        assert!(!any_run_is_held(&sim, &inside), "{what}, dropped after {at} ms");
    }
    assert!(held > 20, "{held}");
}

/// Whether any run has an owner.
fn any_run_is_held(sim: &Sim, store: &MemoryStore) -> bool {
    let runs = sim.run(async { store.list(Vec::new(), None, 10).await }).unwrap().runs;
    runs.iter().any(|run| run.owner.is_some())
}
