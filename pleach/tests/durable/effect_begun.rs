//! C4: the record that an effect begins, when the effect is dropped or cancelled before its work is
//! called.

use crate::common::flaky_store::FlakyStore;
use futures::future::{Either, select};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::store::{MemoryStore, Store};
use std::future::IntoFuture;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// A store whose commits take twice this long.
fn slow_store(sim: &Sim, half: Duration) -> FlakyStore {
    let store = FlakyStore::new(MemoryStore::on(sim.runtime()));
    store.commit_slowly(sim.runtime(), half);
    store
}

/// Requests an effect twice. The first request is dropped after 10 ms, while its begin record is
/// being written. Returns the last record of the log at each call of the work.
fn heads_at_calls_of_a_repeated_effect(once: bool) -> Vec<u64> {
    let sim = Sim::new(1);
    let store = slow_store(&sim, Duration::from_millis(50));
    let heads = Arc::new(Mutex::new(Vec::<u64>::new()));
    let (seen, asked, clock) = (heads.clone(), store.clone(), sim.runtime());
    let node = move |cx: NodeContext, n: u32| {
        let (seen, asked, clock) = (seen.clone(), asked.clone(), clock.clone());
        async move {
            cx.record_undo(());
            for is_last in [false, true] {
                let (seen, asked) = (seen.clone(), asked.clone());
                let effect = cx.effect("charge", move |_| async move {
                    let head = asked.head("r").await.unwrap().head;
                    seen.lock().unwrap().push(head);
                    Ok::<_, String>(())
                });
                let effect = if once { effect.once() } else { effect };
                if is_last {
                    effect.await?;
                    break;
                }
                let timer = clock.sleep_until(clock.now() + Duration::from_millis(10));
                assert!(matches!(select(effect.into_future(), timer).await, Either::Right(_)));
            }
            Ok::<_, String>(n)
        }
    };
    let graph = Graph::<u32>::new("g")
        .add_node("n", node)
        .compensate("n", |_: NodeContext, (): ()| async { Ok::<_, String>(()) })
        .add_edge("n", END)
        .set_entry("n")
        .compile()
        .unwrap();
    sim.run(graph.run(0).id("r").checkpoint(&store).runtime(sim.runtime()).into_future()).unwrap();
    let heads = heads.lock().unwrap();
    heads.clone()
}

#[test]
fn c4_repeated_effect_waits_for_its_begin_record() {
    assert_eq!(heads_at_calls_of_a_repeated_effect(false), [2], "record 2 is the begin record");
}

#[test]
fn c4_once_effect_dropped_before_its_work_can_be_requested_again() {
    assert_eq!(heads_at_calls_of_a_repeated_effect(true), [2], "record 2 is the begin record");
}

/// Runs a node with a `once` effect and a timeout per attempt. Returns the number of calls of the
/// work and the outcome.
fn once_within(timeout: Duration) -> (u32, Result<u32, String>) {
    let sim = Sim::new(1);
    let store = slow_store(&sim, Duration::from_millis(10));
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let graph = Graph::<u32>::new("g")
        .add_node("n", move |cx: NodeContext, n: u32| {
            let calls = counted.clone();
            async move {
                let pay = cx.effect("pay", move |_| async move {
                    calls.fetch_add(1, SeqCst);
                    Ok::<_, String>(())
                });
                pay.once().await?;
                Ok::<_, String>(n)
            }
        })
        .policy("n", Policy::new().timeout(timeout).retry(Retry::times(9)))
        .add_edge("n", END)
        .set_entry("n")
        .compile()
        .unwrap();
    let out = sim.run(graph.run(0).id("r").checkpoint(&store).runtime(sim.runtime()).into_future());
    (calls.load(SeqCst), out.map_err(|error| error.to_string()))
}

#[test]
fn c4_once_effect_whose_work_was_never_called_is_not_unknown() {
    // The first attempt times out while the begin record is being written.
    assert_eq!(once_within(Duration::from_millis(15)), (1, Ok(0)));
}

#[test]
fn c4_once_effect_is_called_at_most_once_for_any_timeout() {
    for millis in 1..60 {
        let (calls, outcome) = once_within(Duration::from_millis(millis));
        assert!(calls <= 1, "{calls} calls with a timeout of {millis} ms: {outcome:?}");
    }
}
