//! C8, C9, C12: a durable wait can be dropped at any time, for example by `select!`, without losing
//! a message.
use crate::common::failing_connection::FailingConnection;
use futures::future::{Either, select};
use pleach::durable::{EffectError, RunControlError, RunRemote};
use pleach::prelude::*;
use pleach::runtime::BoxFuture;
use pleach::sim::{Sim, explore};
use pleach::store::{MemoryStore, Store, StoreError};
use std::sync::Arc;

/// The number of signals that each run receives.
const SENT: u32 = 8;

/// Duration of a commit. Many waits are shorter, so they are dropped before their signal is
/// durable.
const COMMIT: Duration = Duration::from_millis(4);

/// Timers with distinct keys, one after the other.
struct Ticks {
    cx: Arc<NodeContext>,
    count: u64,
}

impl Ticks {
    fn next(&mut self) -> BoxFuture<'static, ()> {
        self.count += 1;
        // Short and long timers in turn, all about as long as a commit.
        let time = Duration::from_millis(1 + self.count * 5 % 13);
        self.cx.sleep(format!("tick {}", self.count), time)
    }
}

/// Collects signals in a loop; each wait races a timer that often wins. Then two answers, a sleep
/// and an effect in the same way.
async fn collect(cx: NodeContext, mut seen: Vec<u32>) -> Result<Vec<u32>, String> {
    let cx = Arc::new(cx);
    let mut ticks = Ticks { cx: Arc::clone(&cx), count: 0 };
    while (seen.len() as u32) < SENT {
        if let Either::Left((signal, _)) = select(cx.signal::<u32>("go"), ticks.next()).await {
            seen.push(signal);
        }
    }
    for question in ["first", "second"] {
        loop {
            if let Either::Left((answer, _)) = select(cx.interrupt::<u32>(question, &0), ticks.next()).await {
                break seen.push(answer);
            }
        }
    }
    // A repeated sleep keeps its first deadline.
    while let Either::Right(_) = select(cx.sleep("nap", Duration::from_millis(40)), ticks.next()).await {}
    loop {
        let effect = cx.effect("result", |_key| async { Ok::<_, String>(99) }).into_future();
        if let Either::Left((result, _)) = select(effect, ticks.next()).await {
            break seen.push(result?);
        }
    }
    Ok(seen)
}

fn collecting() -> CompiledGraph<Vec<u32>> {
    Graph::new("collecting").add_node("collect", collect).add_edge("collect", END).set_entry("collect").compile().unwrap()
}

/// Everything that was sent, in order.
fn expected() -> Vec<u32> {
    (0..SENT).chain([100, 200, 99]).collect()
}

async fn send_all(sim: &Sim, remote: &RunRemote) {
    for number in 0..SENT {
        sim.sleep(Duration::from_millis(sim.runtime().random() % 12)).await;
        remote.signal("go", &number).await.unwrap();
    }
    remote.resume_with("first", &100).await.unwrap();
    remote.resume_with("second", &200).await.unwrap();
}

#[test]
fn c9_no_signal_is_lost_when_its_wait_is_dropped() {
    explore(0..200, |sim| {
        let store = MemoryStore::on(sim.runtime());
        let slow = FailingConnection::new(store.clone()).slow(sim.runtime(), COMMIT);
        sim.run(async {
            let run = collecting().run(Vec::new()).id("r").max_iterations(9).runtime(sim.runtime());
            let remote = run.checkpoint(&store).enqueue().await.unwrap();
            let drive = async { collecting().resume("r").checkpoint(&slow).runtime(sim.runtime()).await };
            let (ended, ()) = futures::join!(drive, send_all(sim, &remote));
            assert_eq!(ended.unwrap(), expected());
        });
    });
}

#[test]
fn c9_no_signal_is_lost_when_waits_are_dropped_and_drivers_die() {
    explore(0..200, |sim| {
        let store = MemoryStore::on(sim.runtime());
        sim.run(async {
            let run = collecting().run(Vec::new()).id("r").runtime(sim.runtime());
            let remote = run.checkpoint(&store).enqueue().await.unwrap();
            let drive = async {
                loop {
                    let mortal = FailingConnection::new(store.clone()).slow(sim.runtime(), COMMIT);
                    let run = collecting().resume("r").take_over().checkpoint(&mortal).runtime(sim.runtime()).into_future();
                    let dies = Box::pin(sim.sleep(Duration::from_millis(20 + sim.runtime().random() % 120)));
                    match select(run, dies).await {
                        Either::Left((ended, _)) => break ended.unwrap(),
                        // The driver dies without a release.
                        Either::Right(((), run)) => {
                            mortal.kill();
                            drop(run);
                        }
                    }
                }
            };
            let (ended, ()) = futures::join!(drive, send_all(sim, &remote));
            assert_eq!(ended, expected());
        });
    });
}

#[test]
fn c9_signal_of_a_dropped_wait_goes_to_another_open_wait() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let slow = FailingConnection::new(store.clone()).slow(sim.runtime(), COMMIT);
    let two = |cx: NodeContext, _: u32| async move {
        let first = cx.signal::<u32>("go");
        let second = cx.signal::<u32>("go");
        // The first wait takes the signal and is dropped before that is durable.
        match select(select(first, cx.sleep("short", Duration::from_millis(12))), second).await {
            Either::Left((Either::Right((_, first)), second)) => {
                drop(first);
                Ok::<_, String>(second.await)
            }
            Either::Left((Either::Left((signal, _)), _)) | Either::Right((signal, _)) => Ok(signal + 1_000),
        }
    };
    let graph = Graph::new("two").add_node("two", two).add_edge("two", END).set_entry("two").compile().unwrap();
    sim.run(async {
        let remote = graph.run(0).id("r").runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
        let drive = async { graph.resume("r").checkpoint(&slow).runtime(sim.runtime()).await };
        let send = async {
            sim.sleep(Duration::from_millis(11)).await;
            remote.signal("go", &7).await.unwrap();
        };
        let (ended, ()) = futures::join!(drive, send);
        assert_eq!(ended.unwrap() % 1_000, 7);
    });
}

#[test]
fn c8_invalid_key_fails_its_node() {
    let sim = Sim::new(1);
    let long = "k".repeat(513);
    for key in ["a\0b", &long] {
        for is_signal in [false, true] {
            let asked = key.to_string();
            let ask = move |cx: NodeContext, n: u32| {
                let asked = asked.clone();
                async move { Ok::<u32, String>(if is_signal { cx.signal(asked).await } else { cx.interrupt(asked, &n).await }) }
            };
            let graph = Graph::new("asking").add_node("ask", ask).add_edge("ask", END).set_entry("ask").compile().unwrap();
            sim.run(async {
                let store = MemoryStore::on(sim.runtime());
                let error = graph.run(1).id("r").runtime(sim.runtime()).checkpoint(&store).await.unwrap_err();
                let RunFault::Node(failed) = error.fault() else { panic!("{error}") };
                let pleach::supervise::Reason::Error(reason) = &*failed.reason else { panic!("{error}") };
                assert!(matches!(reason.downcast_ref(), Some(EffectError::InvalidKey { .. })), "{reason}");
                assert!(error.to_string().len() < 400, "a long key is shortened: {error}");
            });
        }
    }
}

#[test]
fn c8_longest_key_can_be_answered() {
    let sim = Sim::new(1);
    let key = "k".repeat(512);
    let asked = key.clone();
    let ask = move |cx: NodeContext, n: u32| {
        let asked = asked.clone();
        async move { Ok::<u32, String>(n + cx.interrupt::<u32>(&asked, &n).await + cx.signal::<u32>(&asked).await) }
    };
    let graph = Graph::new("asking").add_node("ask", ask).add_edge("ask", END).set_entry("ask").compile().unwrap();
    sim.run(async {
        let store = MemoryStore::on(sim.runtime());
        assert!(graph.run(1).id("r").runtime(sim.runtime()).checkpoint(&store).await.is_err(), "it waits");
        let remote = RunRemote::new(&store, "r");
        remote.resume_with(&key, &10).await.unwrap();
        remote.signal(&key, &100).await.unwrap();
        let longer = remote.signal(&format!("{key}k"), &1).await;
        assert!(matches!(longer, Err(RunControlError::Store(StoreError::TooLarge { .. }))), "{longer:?}");
        assert_eq!(graph.resume("r").checkpoint(&store).runtime(sim.runtime()).await.unwrap(), 111);
        assert_eq!(store.head("r").await.unwrap().last_message, 2);
    });
}

#[test]
fn c10_long_id_is_rejected_and_shortened_in_the_error() {
    let sim = Sim::new(1);
    let graph = collecting();
    sim.run(async {
        let store = MemoryStore::on(sim.runtime());
        let long = "x".repeat(10 << 20);
        let error =
            graph.run(vec![]).id(long.as_str()).runtime(sim.runtime()).checkpoint(&store).await.unwrap_err().to_string();
        assert!(error.len() < 500 && error.contains("run id is too large: 10485760"), "{}", &error[..500.min(error.len())]);
        assert!(error.ends_with("choose a shorter one"), "{error}");
        let error = graph.resume(long.as_str()).checkpoint(&store).runtime(sim.runtime()).await.unwrap_err().to_string();
        assert!(error.len() < 500, "{}", &error[..500.min(error.len())]);
        let error = RunRemote::new(&store, long.as_str()).pause().await.unwrap_err().to_string();
        assert!(error.len() < 500, "{}", &error[..500.min(error.len())]);
    });
}

#[test]
fn c8_message_too_large_to_record_is_rejected_and_the_node_keeps_waiting() {
    let sim = Sim::new(1);
    let wait = |cx: NodeContext, _: String| async move { Ok::<_, String>(cx.signal::<String>("go").await) };
    let graph = Graph::new("waiting").add_node("wait", wait).add_edge("wait", END).set_entry("wait").compile().unwrap();
    sim.run(async {
        let store = MemoryStore::on(sim.runtime());
        let small = |run: pleach::graph::RunOptions<'static, String>| run.runtime(sim.runtime()).max_state_bytes(10_000);
        assert!(small(graph.run(String::new()).id("r").checkpoint(&store)).await.is_err(), "it waits");
        let remote = RunRemote::new(&store, "r");
        remote.signal("go", &"x".repeat(9_999)).await.unwrap();
        let error = small(graph.resume("r").checkpoint(&store)).await.unwrap_err();
        assert!(matches!(error.fault(), RunFault::Paused { .. }), "it keeps waiting: {error}");
        assert!(store.inbox("r", 0).await.unwrap().is_empty(), "the message was removed");
        remote.signal("go", &"short").await.unwrap();
        assert_eq!(small(graph.resume("r").checkpoint(&store)).await.unwrap(), "short");
    });
}
