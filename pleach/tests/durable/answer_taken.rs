//! C9: when a node that received an answer or a signal counts as waiting, while another of its
//! waits is open.

use crate::common::flaky_store::FlakyStore;
use crate::{pass, sum};
use futures::future::{Either, select};
use pleach::CompiledGraph;
use pleach::durable::RunRemote;
use pleach::graph::FanOut;
use pleach::prelude::*;
use pleach::runtime::{BoxFuture, Runtime};
use pleach::sim::Sim;
use pleach::store::{MemoryStore, RunStatus, Store};
use pleach::worker::Worker;
use std::future::IntoFuture;
use std::sync::Arc;

const DAY: Duration = Duration::from_secs(86_400);
const HOUR: Duration = Duration::from_secs(3_600);

type Clock = Arc<dyn Runtime>;

fn after(clock: &Clock, time: Duration) -> BoxFuture<'static, ()> {
    clock.sleep_until(clock.now() + time)
}

/// Waits up to a day for an answer, then works on it for a minute.
async fn approve(cx: NodeContext, clock: Clock, n: u32) -> Result<u32, String> {
    let got = match select(cx.interrupt::<u32>("approve", "?"), cx.sleep("timeout", DAY)).await {
        Either::Left((answer, _)) => answer,
        Either::Right(_) => 100,
    };
    let slow = cx.effect("slow", move |_| async move {
        after(&clock, Duration::from_secs(60)).await;
        Ok::<_, String>(())
    });
    slow.await?;
    Ok(n + got)
}

#[test]
fn c9_answer_to_a_spawned_node_is_processed_at_once() {
    let sim = Sim::new(1);
    let in_node = sim.runtime();
    let graph = Graph::<u32>::new("g")
        .add_node("s", pass)
        .add_node("a", move |cx: NodeContext, n: u32| approve(cx, in_node.clone(), n))
        .add_node("c", pass)
        .add_parallel_edge("s", ["a", "c"], END, FanOut::merge(sum).spawned())
        .add_edge("a", END)
        .add_edge("c", END)
        .set_entry("s")
        .compile()
        .unwrap();
    let store = MemoryStore::on(sim.runtime());
    sim.run(graph.run(0).id("r").checkpoint(&store).runtime(sim.runtime()).enqueue()).unwrap();
    let worker = Worker::new(&store).graph(&graph).runtime(sim.runtime()).start().unwrap();
    sim.run(sim.sleep(Duration::from_secs(20)));
    sim.run(RunRemote::new(&store, "r").resume_with("approve", &1)).unwrap();
    sim.run(sim.sleep(HOUR));
    let status = sim.run(store.head("r")).unwrap().status;
    drop(worker);
    assert_eq!(status, RunStatus::Finished);
}

#[test]
fn c9_taken_answer_does_not_leave_the_run_paused() {
    let sim = Sim::new(1);
    let in_node = sim.runtime();
    let graph = Graph::<u32>::new("g")
        .add_node("n", move |cx: NodeContext, n: u32| approve(cx, in_node.clone(), n))
        .add_edge("n", END)
        .set_entry("n")
        .compile()
        .unwrap();
    let store = MemoryStore::on(sim.runtime());
    let run = graph.run(0).id("r").checkpoint(&store).runtime(sim.runtime()).into_future();
    let outside = sim.runtime();
    let post = async {
        after(&outside, Duration::from_secs(1)).await;
        RunRemote::new(&store, "r").resume_with("approve", &1).await.unwrap();
        after(&outside, Duration::from_secs(30)).await;
    };
    // The process ends during the effect.
    let cut_off = matches!(sim.run(select(run, Box::pin(post))), Either::Right(_));
    assert!(cut_off);
    let info = sim.run(store.head("r")).unwrap();
    assert_eq!(info.status, RunStatus::Running, "{info:?}");
    let worker = Worker::new(&store).graph(&graph).runtime(sim.runtime()).start().unwrap();
    sim.run(sim.sleep(HOUR));
    let info = sim.run(store.head("r")).unwrap();
    drop(worker);
    assert_eq!(info.status, RunStatus::Finished, "{info:?}");
}

/// A node that waits for a signal for `wait_time`, keeps that wait open, and then asks a question.
fn keeps_signal_wait(sim: &Sim, wait_time: Duration) -> CompiledGraph<u32> {
    let clock = sim.runtime();
    Graph::<u32>::new("g")
        .add_node("a", move |cx: NodeContext, n: u32| {
            let clock = clock.clone();
            async move {
                let mut stop = cx.signal::<u32>("stop");
                let result = select(&mut stop, after(&clock, wait_time)).await;
                if let Either::Left((n, _)) = result {
                    return Ok(n);
                }
                drop(result);
                let answer = cx.interrupt::<u32>("approve", "?").await;
                Ok::<_, String>(n + answer + stop.await)
            }
        })
        .add_edge("a", END)
        .set_entry("a")
        .compile()
        .unwrap()
}

/// Each commit takes 50 ms: the wait for the signal is durable after 50 ms, the signal after 100
/// ms.
///
/// The resumed run passes the signal to the node at once if it was recorded, else after the answer.
/// The sum is then 2 or 3.
fn check_pause_with_unused_signal(wait_time: Duration, then: u32) {
    let sim = Sim::new(1);
    let store = FlakyStore::new(MemoryStore::on(sim.runtime()));
    store.commit_slowly(sim.runtime(), Duration::from_millis(25));
    let graph = keeps_signal_wait(&sim, wait_time);
    sim.run(graph.run(0).id("r").checkpoint(&store).runtime(sim.runtime()).enqueue()).unwrap();
    sim.run(RunRemote::new(&store, "r").signal("stop", &2)).unwrap();
    let resumed = graph.resume("r").checkpoint(&store).runtime(sim.runtime()).into_future();
    match sim.run(select(resumed, Box::pin(sim.sleep(HOUR)))) {
        Either::Left((paused, _)) => assert!(matches!(paused.unwrap_err().fault(), RunFault::Paused { .. })),
        Either::Right(_) => panic!("the run did not pause within an hour"),
    }
    let answered = graph.resume("r").resume_with("approve", &1u32).checkpoint(&store).runtime(sim.runtime());
    let sum = sim.run(answered.into_future()).map_err(|error| error.to_string());
    assert_eq!(sum, Ok(then));
}

#[test]
fn c9_run_pauses_though_a_signal_arrived_before_its_wait_was_stored() {
    check_pause_with_unused_signal(Duration::from_millis(20), 3);
}

#[test]
fn c9_run_pauses_though_its_node_ignores_a_taken_signal() {
    check_pause_with_unused_signal(Duration::from_millis(70), 2);
}

#[test]
fn c9_run_pauses_though_its_node_ignores_a_woken_wait() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let graph = keeps_signal_wait(&sim, Duration::from_secs(1));
    let busy = sim.runtime();
    let both = Graph::<u32>::new("both")
        .add_node("s", pass)
        .add_subgraph("a", graph, |n: &u32| *n, |_, got: u32| got)
        .add_node("c", move |cx: NodeContext, n: u32| {
            let clock = busy.clone();
            async move {
                let work = cx.effect("x", move |_| async move {
                    after(&clock, Duration::from_secs(10)).await;
                    Ok::<_, String>(n)
                });
                work.await
            }
        })
        .add_parallel_edge("s", ["a", "c"], END, FanOut::merge(sum))
        .add_edge("a", END)
        .add_edge("c", END)
        .set_entry("s")
        .compile()
        .unwrap();
    let run = both.run(0).id("r").checkpoint(&store).runtime(sim.runtime()).into_future();
    let outside = sim.runtime();
    let post = async {
        after(&outside, Duration::from_secs(5)).await;
        RunRemote::new(&store, "r").signal("stop", &1).await.unwrap();
        after(&outside, HOUR).await;
    };
    match sim.run(select(run, Box::pin(post))) {
        Either::Left((paused, _)) => assert!(matches!(paused.unwrap_err().fault(), RunFault::Paused { .. })),
        Either::Right(_) => panic!("the run did not pause within an hour"),
    }
}
