//! F12: an undo payload must read back from JSON unchanged.
use crate::common::Log;
use pleach::durable::EffectError;
use pleach::graph::RunFault;
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::sim::Sim;
use pleach::store::{MemoryStore, Store};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The undo payload of a payment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Payment {
    discount: Option<Option<u32>>,
    rate: f64,
}

/// `pay` records a payment and optionally performs an effect. Then `fail` fails the run.
fn paying(payment: &Payment, with_effect: bool, log: &Log<String>) -> CompiledGraph<u32> {
    let (payment, worked, undone) = (payment.clone(), log.clone(), log.clone());
    Graph::<u32>::new("paying")
        .add_node("pay", move |cx: NodeContext, n: u32| {
            let (payment, worked) = (payment.clone(), worked.clone());
            async move {
                cx.record_undo(payment);
                if with_effect {
                    cx.effect("pay", move |_| async move {
                        worked.push("paid".into());
                        Ok::<_, String>(())
                    })
                    .await?;
                }
                Ok::<_, String>(n)
            }
        })
        .add_node("fail", |_: u32| async { Err::<u32, _>("no money".to_string()) })
        .compensate("pay", move |_: NodeContext, payment: Payment| {
            let undone = undone.clone();
            async move {
                undone.push(format!("{payment:?}"));
                Ok::<_, String>(())
            }
        })
        .add_edge("pay", "fail")
        .add_edge("fail", END)
        .set_entry("pay")
        .compile()
        .unwrap()
}

/// A payload that JSON changes fails its node before the next effect or at its end, and no undo
/// gets a changed payload.
async fn check(store: &(impl Store + Clone), runtime: Arc<dyn Runtime>) {
    let changed = [Payment { discount: Some(None), rate: 1.0 }, Payment { discount: None, rate: f64::NAN }];
    for (number, payment) in changed.iter().enumerate() {
        for with_effect in [false, true] {
            let (log, id) = (Log::new(), format!("undo payload {number} {with_effect}"));
            drop(store.delete(&id).await);
            let graph = paying(payment, with_effect, &log);
            let error = graph.run(1).id(&*id).runtime(Arc::clone(&runtime)).checkpoint(store).await.unwrap_err();
            let RunFault::Node(node) = error.fault() else { panic!("{error}") };
            let pleach::supervise::Reason::Error(reason) = &*node.reason else { panic!("{error}") };
            assert!(matches!(reason.downcast_ref(), Some(EffectError::Unstorable { .. })), "{error}");
            assert_eq!((&*node.node, log.take()), ("pay", Vec::new()), "{error}");
            store.delete(&id).await.unwrap();
        }
    }
    let (log, payment) = (Log::new(), Payment { discount: Some(Some(7)), rate: 0.1 });
    let graph = paying(&payment, true, &log);
    drop(store.delete("undo payload").await);
    let error = graph.run(1).id("undo payload").runtime(runtime).checkpoint(store).await.unwrap_err();
    assert_eq!(log.take(), ["paid".to_string(), format!("{payment:?}")], "{error}");
    store.delete("undo payload").await.unwrap();
}

#[test]
fn f12_undo_payload_that_json_changes_fails_the_node() {
    let sim = Sim::new(1);
    sim.run(async { check(&MemoryStore::on(sim.runtime()), sim.runtime()).await });
}

#[test]
fn f12_undo_payload_is_compared_in_runs_without_a_store() {
    let sim = Sim::new(1);
    sim.run(async {
        let log = Log::new();
        let graph = paying(&Payment { discount: Some(None), rate: 1.0 }, true, &log);
        let error = graph.run(1).runtime(sim.runtime()).await.unwrap_err();
        assert!(error.to_string().contains("changes when it is written to JSON"), "{error}");
        assert!(log.take().is_empty());
    });
}

#[cfg(all(feature = "tokio", feature = "sqlite"))]
#[tokio::test]
async fn f12_undo_payload_that_json_changes_fails_the_node_on_sqlite() {
    let folder = std::env::temp_dir().join(format!("pleach-undo-payload-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let store = SqliteStore::open(folder.join("store.db")).await.unwrap();
    check(&store, pleach::runtime::TokioRuntime::current().unwrap()).await;
    drop(store);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[cfg(all(feature = "tokio", feature = "postgres"))]
#[tokio::test]
async fn f12_undo_payload_that_json_changes_fails_the_node_on_postgres() {
    // Without a server this test does nothing; `cargo xtask test` starts one.
    let Ok(url) = std::env::var("PLEACH_POSTGRES_URL") else { return };
    let store = PostgresStore::connect(&url).await.unwrap();
    check(&store, pleach::runtime::TokioRuntime::current().unwrap()).await;
}
