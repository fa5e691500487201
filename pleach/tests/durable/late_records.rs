//! C4, C9, C12: a node receives only what is durable, a finished attempt writes nothing, and a
//! sleep follows the current clock of the store.
use crate::common::flaky_store::{FlakyStore, WriteFailure};
use crate::common::poll_once;
use crate::common::process::Process;
use crate::common::side_effects::{SideEffects, dropped_after, rest, side_effects, with};
use futures::future::{Either, join_all, select};
use pleach::durable::RunRemote;
use pleach::prelude::*;
use pleach::runtime::{BoxFuture, Runtime};
use pleach::sim::Sim;
use pleach::store::{MemoryStore, Store};
use std::future::Future;
use std::sync::Arc;
use std::task::Poll;

/// A graph with one node and up to three attempts.
fn one<F>(node: impl Fn(NodeContext) -> F + Send + Sync + 'static) -> CompiledGraph<u32>
where
    F: Future<Output = Result<u32, String>> + Send + 'static,
{
    let graph = Graph::new("one").add_node("node", move |cx: NodeContext, _: u32| node(cx));
    let graph = graph.policy("node", Policy::new().retry(Retry::times(3)));
    graph.add_edge("node", END).set_entry("node").compile().unwrap()
}

fn effect(cx: &NodeContext, key: impl Into<String>) -> BoxFuture<'static, Result<(), String>> {
    cx.effect(key, |_| async { Ok(()) }).into_future()
}

/// A store whose commits take two milliseconds.
fn slow_store(sim: &Sim) -> FlakyStore {
    let store = FlakyStore::new(MemoryStore::on(sim.runtime()));
    store.commit_slowly(sim.runtime(), Duration::from_millis(1));
    store
}

#[test]
fn c9_signal_stays_in_the_inbox_until_its_record_is_durable() {
    let graph = one(|cx| async move {
        let mut signal = cx.signal::<u32>("go");
        if let Poll::Ready(given) = poll_once(&mut signal) {
            return Ok(given);
        }
        // These records come before the record that the signal was taken.
        let mut others = Box::pin(join_all((0..5).map(|number| effect(&cx, format!("other {number}")))));
        drop(poll_once(&mut others));
        let given = match select(signal, Box::pin(rest(&cx, 3))).await {
            Either::Left((given, _)) => given,
            Either::Right(((), dropped)) => {
                drop((dropped, others));
                cx.signal("go").await
            }
        };
        Ok(given)
    });
    for (write, fate) in (1..12).flat_map(|write| [(write, WriteFailure::Lost), (write, WriteFailure::Unanswered)]) {
        let (sim, outside) = (Sim::new(write), SideEffects::default());
        let store = slow_store(&sim);
        sim.run(async {
            graph.run(0).id("r").runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
            RunRemote::new(&store, "r").signal("go", &7).await.unwrap();
            store.fail_at(1 + write, fate);
            let drive = || with(&sim, &outside, graph.resume("r").checkpoint(&store).max_commit_records(1));
            if let Err(error) = drive().await {
                assert!(!matches!(error.fault(), RunFault::Paused { .. }), "{write} {fate:?}: {error}");
                assert_eq!(drive().await.unwrap(), 7, "{write} {fate:?}");
            }
        });
    }
}

#[test]
fn c4_repeated_effect_is_durable_before_its_result_is_returned() {
    let graph = one(|cx| async move {
        let outside = side_effects(&cx);
        let charge = || {
            let outside = outside.clone();
            let work = |_| async move {
                outside.happen("charge");
                Ok::<_, String>(())
            };
            cx.effect("charge", work).into_future()
        };
        // The first request is dropped before its result is durable.
        if poll_once(&mut charge()).is_pending() {
            charge().await?;
        }
        outside.happen("ship");
        Ok(1)
    });
    let mut shipped = 0;
    for (write, fate) in (1..6).flat_map(|write| [(write, WriteFailure::Lost), (write, WriteFailure::Unanswered)]) {
        let (sim, outside) = (Sim::new(write), SideEffects::default());
        let store = slow_store(&sim);
        store.fail_at(write, fate);
        let first = sim.run(with(&sim, &outside, graph.run(0).id("r").checkpoint(&store)).into_future());
        if first.is_ok() || outside.count("ship") == 0 {
            continue;
        }
        shipped += 1;
        sim.run(with(&sim, &outside, graph.resume("r").checkpoint(&store)).into_future()).unwrap();
        assert_eq!(outside.count("charge"), 1, "{write} {fate:?}: {:?}", outside.all());
    }
    assert!(shipped > 0);
}

/// Keeps polling a future of a failed attempt in a separate task.
fn leave_behind<T: Send + 'static>(cx: &NodeContext, future: BoxFuture<'static, T>) {
    let outside = side_effects(cx);
    cx.extension::<Arc<dyn Runtime>>().unwrap().spawn(Box::pin(async move {
        future.await;
        outside.happen("left behind");
    }));
}

/// An effect that takes this long. The run does not pause meanwhile.
async fn long_effect(cx: &NodeContext, time: Duration) {
    let clock = cx.extension::<Arc<dyn Runtime>>().unwrap().clone();
    let work = move |_| async move {
        clock.sleep_until(clock.now() + time).await;
        Ok::<_, String>(())
    };
    cx.effect(format!("{time:?}"), work).await.unwrap();
}

#[test]
fn c9_wait_of_an_earlier_attempt_takes_no_message_from_the_next() {
    for is_signal in [true, false] {
        let graph = one(move |cx| async move {
            let wait = if is_signal { cx.signal::<u32>("go") } else { cx.interrupt("go", "?") };
            if cx.attempt() == 1 {
                leave_behind(&cx, wait);
                long_effect(&cx, Duration::from_millis(5)).await;
                return Err("once".to_string());
            }
            Ok(futures::join!(wait, long_effect(&cx, Duration::from_secs(9))).0)
        });
        for seed in 0..20 {
            let (sim, outside) = (Sim::new(seed), SideEffects::default());
            let store = MemoryStore::on(sim.runtime());
            let send = async {
                sim.sleep(Duration::from_millis(20)).await;
                let remote = RunRemote::new(&store, "r");
                if is_signal { remote.signal("go", &7).await } else { remote.resume_with("go", &7).await }.unwrap();
            };
            let run = with(&sim, &outside, graph.run(0).id("r").checkpoint(&store)).into_future();
            let (ended, ()) = sim.run(async { futures::join!(run, send) });
            assert_eq!(ended.unwrap(), 7, "seed {seed}");
            assert_eq!(outside.count("left behind"), 0, "seed {seed}");
        }
    }
}

#[test]
fn c4_effect_of_an_earlier_attempt_records_nothing_in_the_next() {
    // The work of the first attempt ends after the second attempt has its result.
    let graph = one(|cx| async move {
        let (clock, attempt) = (cx.extension::<Arc<dyn Runtime>>().unwrap().clone(), cx.attempt());
        let work = move |_| async move {
            let time = if attempt == 1 { 20 } else { 1 };
            clock.sleep_until(clock.now() + Duration::from_millis(time)).await;
            Ok::<_, String>(attempt)
        };
        let effect = cx.effect("e", work).into_future();
        if attempt == 1 {
            leave_behind(&cx, effect);
            let world = side_effects(&cx);
            let begun = |_| async move {
                world.happen("begun late");
                Ok::<_, String>(())
            };
            let never = cx.effect("never", begun).into_future();
            let clock = cx.extension::<Arc<dyn Runtime>>().unwrap().clone();
            leave_behind(
                &cx,
                Box::pin(async move {
                    clock.sleep_until(clock.now() + Duration::from_millis(10)).await;
                    never.await
                }),
            );
            rest(&cx, 2).await;
            return Err("once".to_string());
        }
        let result = effect.await?;
        side_effects(&cx).happen(format!("result {result}"));
        rest(&cx, 100).await;
        Ok(result)
    });
    let (sim, outside) = (Sim::new(1), SideEffects::default());
    let store = MemoryStore::on(sim.runtime());
    let run = with(&sim, &outside, graph.run(0).id("r").checkpoint(&store));
    assert!(dropped_after(&sim, run, 60).is_none());
    sim.run(sim.sleep(Duration::from_secs(60)));
    assert_eq!(sim.run(with(&sim, &outside, graph.resume("r").checkpoint(&store)).into_future()).unwrap(), 2);
    assert_eq!(outside.all(), ["result 2", "result 2"]);
}

#[test]
fn c12_repeated_sleep_ends_by_the_clock_of_the_store() {
    const HOUR: Duration = Duration::from_secs(3_600);
    let graph = one(|cx| async move {
        // Requested again every minute.
        while let Either::Right(_) = select(cx.sleep("nap", Duration::from_secs(600)), Box::pin(rest(&cx, 60_000))).await {}
        Ok(1)
    });
    let (sim, outside) = (Sim::new(1), SideEffects::default());
    let server = Process::new(sim.runtime());
    let store = MemoryStore::on(server.runtime());
    sim.run(async {
        sim.sleep(HOUR * 2).await;
        let began = sim.now();
        let run = with(&sim, &outside, graph.run(0).id("r").checkpoint(&store));
        let set_back = async {
            sim.sleep(Duration::from_secs(300)).await;
            let before = store.head("r").await.unwrap().lease_until;
            assert!(poll_once(&mut Box::pin(server.suspend(HOUR))).is_pending());
            assert!(before.is_some());
        };
        let (ended, ()) = futures::join!(run.into_future(), set_back);
        assert_eq!(ended.unwrap(), 1);
        let took = sim.now().since(began).as_secs();
        assert!(
            (4_200..4_290).contains(&took),
            "{took} s; expected ten minutes plus the hour that the store clock was set back"
        );
    });
}
