//! C8, C9, C12, F9: nodes of stored runs that execute as separate tasks. They are spawned again
//! after a resume, the run knows when they wait, and a cancelled attempt does not affect the next.
use crate::common::Log;
use crate::common::flaky_store::{FlakyStore, WriteFailure};
use crate::common::side_effects::{SideEffects, dropped_after, rest, side_effects, with};
use crate::{pass, sum};
use pleach::graph::{FanOut, Policy, Retry};
use pleach::prelude::*;
use pleach::runtime::{BoxFuture, Runtime};
use pleach::sim::Sim;
use pleach::store::{GraphVersion, Lease, MemoryStore, NewMessage, RunStatus, Store, Wanted};
use pleach::worker::Worker;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

type Work = fn(NodeContext, u32) -> BoxFuture<'static, Result<u32, String>>;

/// Two branches of two nodes each, all spawned.
fn branches(first: Work, second: Work) -> CompiledGraph<u32> {
    Graph::new("spawned")
        .add_node("split", pass)
        .map("split", |_| vec![1, 2], "first", END, FanOut::merge(sum).spawned())
        .add_node("first", first)
        .add_node("second", second)
        .add_edge("first", "second")
        .add_edge("second", END)
        .set_entry("split")
        .compile()
        .unwrap()
}

/// Logs the waker of the task that polls the node.
fn task_of(cx: NodeContext, n: u32) -> BoxFuture<'static, Result<u32, String>> {
    Box::pin(async move {
        let waker = poll_fn(|polled| Poll::Ready(polled.waker().clone())).await;
        cx.extension::<Log<(String, Waker)>>().unwrap().push((cx.node().to_string(), waker));
        rest(&cx, 5).await;
        Ok(n)
    })
}

#[test]
fn f9_spawned_nodes_are_spawned_again_after_a_resume() {
    let graph = branches(task_of, task_of);
    let mut resumed = 0;
    for (at, fate) in (2..7).flat_map(|at| [(at, WriteFailure::Lost), (at, WriteFailure::Unanswered)]) {
        let sim = Sim::new(at);
        let (store, tasks) = (FlakyStore::new(MemoryStore::on(sim.runtime())), Log::<(String, Waker)>::new());
        store.fail_at(at, fate);
        let outside = SideEffects::default();
        let run = with(&sim, &outside, graph.run(0).id("r").checkpoint(&store)).extension(tasks.clone());
        if sim.run(run.into_future()).is_ok() {
            continue;
        }
        tasks.take();
        let run = with(&sim, &outside, graph.resume("r").checkpoint(&store)).extension(tasks.clone());
        assert_eq!(sim.run(run.into_future()).unwrap(), 3);
        let tasks = tasks.take();
        for (number, (node, waker)) in tasks.iter().enumerate() {
            let shares = tasks[..number].iter().find(|(_, other)| other.will_wake(waker));
            assert!(shares.is_none(), "{at} {fate:?}: {node} runs in the task of {shares:?}");
        }
        resumed += usize::from(tasks.len() > 1);
    }
    assert!(resumed > 4, "{resumed}");
}

/// A spawned subgraph that asks a question, and a second branch.
fn asking(other: Work) -> CompiledGraph<u32> {
    let ask = |cx: NodeContext, n: u32| async move { Ok::<_, String>(n + cx.interrupt::<u32>("k", "?").await) };
    let inner = Graph::new("inner").add_node("ask", ask).add_edge("ask", END).set_entry("ask").compile().unwrap();
    Graph::new("asking")
        .add_node("s", pass)
        .add_subgraph("sub", inner, |n| *n, |_, n| n)
        .add_node("other", other)
        .add_parallel_edge("s", ["sub", "other"], END, FanOut::merge(sum).spawned())
        .add_edge("sub", END)
        .add_edge("other", END)
        .set_entry("s")
        .compile()
        .unwrap()
}

#[test]
fn c12_worker_sees_at_once_that_a_spawned_subgraph_waits() {
    let fail = |n: u32| async move { if n < 9 { Err("not yet".to_string()) } else { Ok(n) } };
    let inner = Graph::new("inner")
        .add_node("fail", fail)
        .policy("fail", Policy::new().retry(Retry::times(9).backoff(Duration::from_secs(3_600), Duration::from_secs(3_600))))
        .add_edge("fail", END)
        .set_entry("fail")
        .compile()
        .unwrap();
    let graph = Graph::new("outer")
        .add_node("s", pass)
        .add_subgraph("sub", inner, |n| *n, |_, n| n)
        .map("s", |n| vec![*n], "sub", END, FanOut::merge(|_, all: Vec<u32>| all[0]).spawned())
        .add_edge("sub", END)
        .set_entry("s")
        .compile()
        .unwrap();
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let store = MemoryStore::on(sim.runtime());
        let worker = Worker::new(&store).graph(&graph).runtime(sim.runtime()).start().unwrap();
        sim.run(async {
            let claimed = sim.now();
            graph.run(1).id("r").checkpoint(&store).runtime(sim.runtime()).enqueue().await.unwrap();
            while store.head("r").await.unwrap().status != RunStatus::Waiting {
                sim.sleep(Duration::from_millis(10)).await;
            }
            let took = sim.now().since(claimed);
            assert!(took < Duration::from_millis(500), "seed {seed}: {took:?}");
        });
        drop(worker);
    }
}

#[test]
fn c9_answer_to_a_spawned_subgraph_wakes_a_run_that_is_pausing() {
    let graph = asking(|_, n| Box::pin(async move { Ok(n) }));
    let mut answered = 0;
    for (seed, posted, dropped) in
        (0..2).flat_map(|seed| (1..40).flat_map(move |at| (at..at + 30).map(move |end| (seed, at, end))))
    {
        let sim = Sim::new(seed);
        let (inside, outside) = (MemoryStore::on(sim.runtime()), SideEffects::default());
        let store = FlakyStore::new(inside.clone());
        store.commit_slowly(sim.runtime(), Duration::from_millis(5));
        let (clock, post) = (sim.runtime(), inside.clone());
        clock.clone().spawn(Box::pin(async move {
            clock.sleep_until(clock.now() + Duration::from_millis(posted)).await;
            drop(post.send_message("r", NewMessage::seal("r", "answer/k", None, b"5".to_vec())).await);
        }));
        let ended = dropped_after(&sim, with(&sim, &outside, graph.run(1).id("r").checkpoint(&store)), dropped);
        sim.run(sim.sleep(Duration::from_secs(60)));
        let info = sim.run(async { inside.head("r").await }).unwrap();
        if info.status == RunStatus::Finished || info.last_message == 0 {
            continue;
        }
        // A worker must find the run: it was dropped, or an answer waits in its inbox.
        answered += 1;
        let version = GraphVersion { fingerprint: graph.fingerprint().to_string(), schema: 0 };
        let ready = Wanted::Ready { graphs: vec![("asking".into(), version)], count: 1 };
        let lease = Lease { owner: "x".into(), length: Duration::from_secs(9) };
        let claims = sim.run(async { inside.claim(ready, lease).await }).unwrap();
        assert_eq!(claims.len(), 1, "seed {seed}, posted {posted}, dropped {dropped}: {ended:?} {info:?}");
    }
    assert!(answered > 300, "{answered}");
}

#[test]
fn c8_run_pauses_after_the_effect_of_a_spawned_node_that_asks() {
    // Both attempts ask a question while an effect is in flight. The run pauses when the second
    // effect has its result.
    let node = |cx: NodeContext, n: u32| async move {
        let (outside, clock) = (side_effects(&cx), cx.extension::<Arc<dyn Runtime>>().unwrap().clone());
        let (key, attempt) = (format!("e{}", cx.attempt()), cx.attempt());
        let effect = cx.effect(key, move |_| async move {
            let time = if attempt == 1 { 1_000_000 } else { 1_000 };
            outside.happen(format!("begins {attempt}"));
            clock.sleep_until(clock.now() + Duration::from_millis(time)).await;
            outside.happen(format!("ends {attempt}"));
            Ok::<_, String>(())
        });
        let (answer, done) = futures::future::join(cx.interrupt::<u32>("k", "?"), effect.into_future()).await;
        done.map(|()| n + answer)
    };
    let graph = Graph::new("g")
        .add_node("s", pass)
        .add_node("a", node)
        .policy("a", Policy::new().timeout(Duration::from_secs(5)).retry(Retry::times(2)))
        .map("s", |n| vec![*n], "a", END, FanOut::merge(|_, all: Vec<u32>| all[0]).spawned())
        .add_edge("a", END)
        .set_entry("s")
        .compile()
        .unwrap();
    for seed in 0..50 {
        let sim = Sim::new(seed);
        let (store, outside) = (MemoryStore::on(sim.runtime()), SideEffects::default());
        let began = sim.now();
        let error = sim.run(with(&sim, &outside, graph.run(1).id("r").checkpoint(&store)).into_future()).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Paused { .. }), "{error}");
        assert_eq!(outside.all(), ["begins 1", "begins 2", "ends 2"], "seed {seed}");
        assert!(sim.now().since(began) < Duration::from_secs(7), "seed {seed}: {:?}", sim.now().since(began));
    }
}
