//! When a node that was given an answer or a signal counts as parked, while another of its waits is open.

use crate::common::flaky::FlakyStore;
use futures::future::{Either, select};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::store::{MemoryStore, RunStatus, Store};
use pleach::{BoxFuture, CompiledGraph, FanOut, RunRemote, Runtime, Worker};
use std::future::IntoFuture;
use std::sync::Arc;

const DAY: Duration = Duration::from_secs(86_400);
const HOUR: Duration = Duration::from_secs(3_600);

type Clock = Arc<dyn Runtime>;

fn after(clock: &Clock, time: Duration) -> BoxFuture<'static, ()> {
    clock.sleep_until(clock.now() + time)
}

/// Waits for an answer for a day at most, and acts on it for a minute.
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

async fn plain(n: u32) -> Result<u32, String> {
    Ok(n)
}

#[test]
fn c9_answer_to_a_spawned_node_is_acted_on_at_once() {
    let sim = Sim::new(1);
    let in_node = sim.runtime();
    let graph = Graph::<u32>::new("g")
        .add_node("s", plain)
        .add_node("a", move |cx: NodeContext, n: u32| approve(cx, in_node.clone(), n))
        .add_node("c", plain)
        .add_parallel_edge("s", ["a", "c"], END, FanOut::merge(|_, all: Vec<u32>| all.into_iter().sum()).spawned())
        .add_edge("a", END)
        .add_edge("c", END)
        .set_entry("s")
        .compile()
        .unwrap();
    let store = MemoryStore::on(sim.runtime());
    sim.run(graph.run(0).id("r").checkpoint(&store).on(sim.runtime()).enqueue()).unwrap();
    let worker = Worker::new(&store).graph(&graph).on(sim.runtime()).start().unwrap();
    sim.run(sim.sleep(Duration::from_secs(20)));
    sim.run(RunRemote::new(&store, "r").resume_with("approve", &1)).unwrap();
    sim.run(sim.sleep(HOUR));
    let status = sim.run(store.head("r")).unwrap().status;
    drop(worker);
    assert_eq!(status, RunStatus::Finished);
}

#[test]
fn c9_answer_that_was_taken_is_not_written_as_a_pause() {
    let sim = Sim::new(1);
    let in_node = sim.runtime();
    let graph = Graph::<u32>::new("g")
        .add_node("n", move |cx: NodeContext, n: u32| approve(cx, in_node.clone(), n))
        .add_edge("n", END)
        .set_entry("n")
        .compile()
        .unwrap();
    let store = MemoryStore::on(sim.runtime());
    let run = graph.run(0).id("r").checkpoint(&store).on(sim.runtime()).into_future();
    let outside = sim.runtime();
    let post = async {
        after(&outside, Duration::from_secs(1)).await;
        RunRemote::new(&store, "r").resume_with("approve", &1).await.unwrap();
        after(&outside, Duration::from_secs(30)).await;
    };
    // The process ends in the middle of the effect.
    let cut_off = matches!(sim.run(select(run, Box::pin(post))), Either::Right(_));
    assert!(cut_off);
    let info = sim.run(store.head("r")).unwrap();
    assert_eq!(info.status, RunStatus::Running, "{info:?}");
    let worker = Worker::new(&store).graph(&graph).on(sim.runtime()).start().unwrap();
    sim.run(sim.sleep(HOUR));
    let info = sim.run(store.head("r")).unwrap();
    drop(worker);
    assert_eq!(info.status, RunStatus::Finished, "{info:?}");
}

/// A node that looks at a signal for so long, keeps its wait, and asks somebody.
fn keeps_a_signal(sim: &Sim, looks_for: Duration) -> CompiledGraph<u32> {
    let clock = sim.runtime();
    Graph::<u32>::new("g")
        .add_node("a", move |cx: NodeContext, n: u32| {
            let clock = clock.clone();
            async move {
                let mut stop = cx.signal::<u32>("stop");
                let looked = select(&mut stop, after(&clock, looks_for)).await;
                if let Either::Left((n, _)) = looked {
                    return Ok(n);
                }
                drop(looked);
                let answer = cx.interrupt::<u32>("approve", "?").await;
                Ok::<_, String>(n + answer + stop.await)
            }
        })
        .add_edge("a", END)
        .set_entry("a")
        .compile()
        .unwrap()
}

/// Each commit takes 50 ms: the record that the node waits for the signal is durable after 50 ms, the record of the signal after 100 ms.
/// The run that is resumed gives the signal to the node at once if it is recorded, else after the answer: then the sum is 2 or 3.
fn pauses_with_a_signal_left_alone_after(looks_for: Duration, then: u32) {
    let sim = Sim::new(1);
    let store = FlakyStore::new(MemoryStore::on(sim.runtime()));
    store.commit_slowly(sim.runtime(), Duration::from_millis(25));
    let graph = keeps_a_signal(&sim, looks_for);
    sim.run(graph.run(0).id("r").checkpoint(&store).on(sim.runtime()).enqueue()).unwrap();
    sim.run(RunRemote::new(&store, "r").signal("stop", &2)).unwrap();
    let resumed = graph.resume("r").checkpoint(&store).on(sim.runtime()).into_future();
    match sim.run(select(resumed, Box::pin(sim.sleep(HOUR)))) {
        Either::Left((paused, _)) => assert!(matches!(paused.unwrap_err().fault(), RunFault::Paused { .. })),
        Either::Right(_) => panic!("the run did not pause within an hour"),
    }
    let answered = graph.resume("r").resume_with("approve", &1u32).checkpoint(&store).on(sim.runtime());
    let sum = sim.run(answered.into_future()).map_err(|error| error.to_string());
    assert_eq!(sum, Ok(then));
}

#[test]
fn c9_run_pauses_though_a_signal_came_before_its_wait_was_written() {
    pauses_with_a_signal_left_alone_after(Duration::from_millis(20), 3);
}

#[test]
fn c9_run_pauses_though_its_node_leaves_a_taken_signal_alone() {
    pauses_with_a_signal_left_alone_after(Duration::from_millis(70), 2);
}

#[test]
fn c9_run_pauses_though_its_node_leaves_a_woken_wait_alone() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let graph = keeps_a_signal(&sim, Duration::from_secs(1));
    let busy = sim.runtime();
    let both = Graph::<u32>::new("both")
        .add_node("s", plain)
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
        .add_parallel_edge("s", ["a", "c"], END, FanOut::merge(|_, all: Vec<u32>| all.into_iter().sum()))
        .add_edge("a", END)
        .add_edge("c", END)
        .set_entry("s")
        .compile()
        .unwrap();
    let run = both.run(0).id("r").checkpoint(&store).on(sim.runtime()).into_future();
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
