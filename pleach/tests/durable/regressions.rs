//! C2, C4, C8, C9, C10, F12: regression tests of durable runs. Waiting tests use paused time.
use pleach::durable::RunRemote;
use pleach::graph::Compensation;
use pleach::prelude::*;
use pleach::store::{MemoryStore, RunStatus, Store};
use serde::{Deserialize, Serialize};
use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use tokio::sync::Notify;

#[tokio::test(start_paused = true)]
async fn c4_late_effect_does_not_count_for_the_next_visit() {
    let (gate, is_second, charged) = (Arc::new(Notify::new()), Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (open, closed, second, charges) = (gate.clone(), gate.clone(), is_second.clone(), charged.clone());
    let graph = Graph::<u32>::new("late")
        .add_node("first", move |cx: NodeContext, n: u32| {
            let gate = closed.clone();
            async move {
                let late = cx.effect("charge", move |_| async move {
                    gate.notified().await;
                    Ok::<_, String>(7u32)
                });
                // The node does not wait for it.
                tokio::spawn(late.into_future());
                tokio::time::sleep(Duration::from_millis(20)).await;
                Ok::<_, String>(n)
            }
        })
        .add_node("second", move |cx: NodeContext, n: u32| {
            let (gate, second, charges) = (open.clone(), second.clone(), charges.clone());
            async move {
                if second.fetch_add(1, SeqCst) == 0 {
                    gate.notify_one();
                    std::future::pending::<()>().await;
                }
                let got = cx.effect("charge", move |_| async move {
                    charges.fetch_add(1, SeqCst);
                    Ok::<_, String>(1u32)
                });
                Ok::<_, String>(n + got.await?)
            }
        })
        .add_edge("first", "second")
        .add_edge("second", END)
        .set_entry("first")
        .compile()
        .unwrap();
    let store = MemoryStore::new();
    let run = graph.run(0).id("r").checkpoint(&store).into_future();
    assert!(tokio::time::timeout(Duration::from_millis(300), run).await.is_err());
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(graph.resume("r").checkpoint(&store).await.unwrap(), 1);
    assert_eq!(charged.load(SeqCst), 1, "the effect of the second node was done");
}

#[tokio::test]
async fn f12_undo_ignores_a_failed_request_of_its_node() {
    let graph = Graph::<u32>::new("vain")
        .add_node("book", |cx: NodeContext, n: u32| async move {
            cx.record_undo(());
            let vain = cx.effect("no\0key", |_| async { Ok::<_, String>(()) });
            tokio::select! {
                biased;
                _ = vain.into_future() => {}
                () = std::future::ready(()) => {}
            }
            Ok::<_, String>(n)
        })
        .compensate("book", |cx: NodeContext, (): ()| async move {
            cx.effect("cancel", |_| async {
                tokio::task::yield_now().await;
                Ok::<_, String>(())
            })
            .await
        })
        .add_node("pay", |_: u32| async { Err::<u32, _>("no money".to_string()) })
        .add_edge("book", "pay")
        .add_edge("pay", END)
        .set_entry("book")
        .compile()
        .unwrap();
    for stored in [false, true] {
        let store = MemoryStore::new();
        let run = graph.run(0).id("r");
        let error = if stored { run.checkpoint(&store).await } else { run.await }.unwrap_err();
        assert!(matches!(error.compensation(), Some(Compensation::Compensated { .. })), "{stored} {error:?}");
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Known {
    Cash,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Payment {
    Known(Known),
    Short(f32),
    Long(f64),
    Other(String),
}

#[tokio::test]
async fn c2_state_that_reads_back_as_another_value_is_rejected() {
    for payment in [Payment::Other("Cash".into()), Payment::Long(0.1)] {
        let graph = Graph::<Payment>::new("pay")
            .add_node("node", |p: Payment| async move { Ok::<_, String>(p) })
            .add_edge("node", END)
            .set_entry("node")
            .compile()
            .unwrap();
        let stored = graph.run(payment.clone()).id("r").checkpoint(&MemoryStore::new()).await;
        assert!(stored.is_err(), "{payment:?} would come back as another value");
    }
}

#[tokio::test]
async fn c10_failure_with_a_long_text_is_stored() {
    for has_undo in [false, true] {
        let mut graph = Graph::<u32>::new("long")
            .add_node("book", |cx: NodeContext, n: u32| async move {
                cx.record_undo(());
                Ok::<_, String>(n)
            })
            .add_node("pay", |_: u32| async { Err::<u32, _>("no ".repeat(2_000)) })
            .add_edge("book", "pay")
            .add_edge("pay", END)
            .set_entry("book");
        if has_undo {
            graph = graph.compensate("book", |_: NodeContext, (): ()| async { Err::<(), _>("not ".repeat(2_000)) });
        }
        let graph = graph.compile().unwrap();
        let store = MemoryStore::new();
        let error = graph.run(0).id("r").max_state_bytes(1_000).checkpoint(&store).await.unwrap_err();
        assert!(matches!(error.fault(), RunFault::Node(_)), "{error}");
        let expected = if has_undo { RunStatus::CompensationFailed } else { RunStatus::Failed };
        assert_eq!(store.head("r").await.unwrap().status, expected);
        assert!(graph.outcome_of("r", &store).await.is_err());
    }
}

#[tokio::test]
async fn c10_attempt_that_failed_with_a_long_text_is_retried() {
    let graph = Graph::<u32>::new("long")
        .add_node("pay", |cx: NodeContext, n: u32| async move {
            if cx.attempt() == 1 { Err("no ".repeat(2_000)) } else { Ok(n + 1) }
        })
        .policy("pay", Policy::new().retry(Retry::times(3)))
        .add_edge("pay", END)
        .set_entry("pay")
        .compile()
        .unwrap();
    assert_eq!(graph.run(0).id("r").max_state_bytes(1_000).checkpoint(&MemoryStore::new()).await.unwrap(), 1);
}

#[tokio::test]
async fn c8_look_shows_a_question_after_a_signal_of_its_name_was_taken() {
    let graph = Graph::<u32>::new("ask")
        .add_node("node", |cx: NodeContext, n: u32| async move {
            let ask = cx.interrupt::<u32>("go", "how many?");
            let both = tokio::join!(ask, cx.signal::<u32>("go"));
            Ok::<_, String>(n + both.0 + both.1)
        })
        .add_edge("node", END)
        .set_entry("node")
        .compile()
        .unwrap();
    let store = MemoryStore::new();
    graph.run(0).id("r").checkpoint(&store).await.unwrap_err();
    let remote = RunRemote::new(&store, "r");
    remote.signal("go", &1).await.unwrap();
    graph.resume("r").checkpoint(&store).await.unwrap_err();
    let view = remote.view().await.unwrap();
    assert!(view.waits().any(|wait| wait.question.is_some()), "{view:?}");
}

#[tokio::test(start_paused = true)]
async fn c9_signal_is_not_lost_to_a_finished_visit() {
    async fn take_time(cx: &NodeContext, millis: u64) -> Result<(), String> {
        let slow = cx.effect("slow", move |_| async move {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            Ok::<_, String>(())
        });
        slow.await
    }
    let graph = Graph::<u32>::new("late")
        .add_node("first", |cx: NodeContext, n: u32| async move {
            // The node does not wait for it.
            tokio::spawn(cx.signal::<u32>("go"));
            take_time(&cx, 20).await.map(|()| n)
        })
        .add_node("second", |cx: NodeContext, n: u32| async move {
            take_time(&cx, 50).await?;
            Ok::<_, String>(n + cx.signal::<u32>("go").await)
        })
        .add_edge("first", "second")
        .add_edge("second", END)
        .set_entry("first")
        .compile()
        .unwrap();
    let store = MemoryStore::new();
    let remote = RunRemote::new(&store, "r");
    let run = graph.run(0).id("r").checkpoint(&store);
    let (outcome, ()) = tokio::join!(run.into_future(), async {
        tokio::time::sleep(Duration::from_millis(40)).await;
        remote.signal("go", &5).await.unwrap();
    });
    assert_eq!(outcome.unwrap(), 5);
}
