//! C9: a resume after a pause wakes everything that the pause stopped, and does not remove a
//! cancel.
use crate::common::flaky_store::FlakyStore;
use crate::common::side_effects::{SideEffects, dropped_after, rest, with};
use crate::pass;
use pleach::durable::RunRemote;
use pleach::graph::{FanOut, Policy};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::store::{GraphVersion, Lease, MemoryStore, RunStatus, Store, Wanted};

async fn work(cx: NodeContext, n: u32) -> Result<u32, String> {
    rest(&cx, 30).await;
    Ok(n + 1)
}

/// A spawned branch that is a subgraph of two nodes, nested `depth` levels deep.
fn nested(depth: u32) -> CompiledGraph<u32> {
    let inner = Graph::new("inner").add_node("n1", work).add_node("n2", work);
    let mut inner = inner.add_edge("n1", "n2").add_edge("n2", END).set_entry("n1").compile().unwrap();
    for _ in 1..depth {
        let around = Graph::new("around").add_subgraph("in", inner, |n| *n, |_, n| n);
        inner = around.add_edge("in", END).set_entry("in").compile().unwrap();
    }
    Graph::new("nested")
        .add_node("s", pass)
        .add_subgraph("sub", inner, |n| *n, |_, n| n)
        .map("s", |n| vec![*n], "sub", END, FanOut::merge(|_, all: Vec<u32>| all[0]).spawned())
        .add_edge("sub", END)
        .set_entry("s")
        .compile()
        .unwrap()
}

/// Posts a pause and a resume at these times in milliseconds.
fn pause_and_resume(sim: &Sim, store: &MemoryStore, pause: u64, resume: u64) {
    let (clock, store) = (sim.runtime(), store.clone());
    let began = clock.now();
    clock.clone().spawn(Box::pin(async move {
        let remote = RunRemote::new(&store, "r");
        clock.sleep_until(began + Duration::from_millis(pause)).await;
        remote.pause().await.unwrap();
        clock.sleep_until(began + Duration::from_millis(resume)).await;
        remote.resume().await.unwrap();
    }));
}

#[test]
fn c9_resume_right_after_a_pause_does_not_end_the_driver() {
    for (depth, seed, resume) in (1..3).flat_map(|depth| (0..4).flat_map(move |seed| (10..60).map(move |at| (depth, seed, at))))
    {
        let (sim, outside, graph) = (Sim::new(seed), SideEffects::default(), nested(depth));
        let store = MemoryStore::on(sim.runtime());
        pause_and_resume(&sim, &store, 10, resume);
        let run = || with(&sim, &outside, graph.run(1).id("r").checkpoint(&store));
        match sim.run(run().into_future()) {
            Ok(n) => assert_eq!(n, 3),
            Err(error) => {
                // The run paused before the resume was posted. The resume stays in the inbox to
                // wake it.
                assert!(matches!(error.fault(), RunFault::Paused { .. }), "{error}");
                sim.run(sim.sleep(Duration::from_secs(1)));
                let inbox = sim.run(async { store.inbox("r", 0).await }).unwrap();
                assert!(
                    !inbox.is_empty(),
                    "depth {depth}, seed {seed}, resume {resume}: the resume was read, but the run sleeps"
                );
            }
        }
    }
}

#[test]
fn c9_pause_reaches_a_run_whose_nodes_never_wait() {
    let graph = Graph::<u32>::new("busy")
        .add_node("step", |left: u32| async move { Ok::<_, String>(left - 1) })
        .add_conditional_edge("step", ["step", END], |left: &u32| if *left > 0 { "step" } else { END })
        .set_entry("step")
        .compile()
        .unwrap();
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let (clock, other) = (sim.runtime(), store.clone());
    sim.runtime().spawn(Box::pin(async move {
        while other.head("r").await.is_ok_and(|info| info.head < 10) {
            clock.sleep_until(clock.now()).await;
        }
        RunRemote::new(&other, "r").pause().await.unwrap();
    }));
    let run = graph.run(20_000).id("r").max_iterations(u64::MAX).runtime(sim.runtime()).checkpoint(&store);
    let fault = sim.run(run.into_future()).unwrap_err();
    assert!(matches!(fault.fault(), RunFault::Paused { .. }), "{fault}");
    let info = sim.run(async { store.head("r").await }).unwrap();
    assert!(info.owner.is_none() && info.head < 20_000, "{info:?}");
}

#[test]
fn c9_resume_right_after_a_pause_leaves_the_run_ready_after_a_crash() {
    let (graph, mut cut_off) = (nested(1), 0);
    for (seed, resume, dropped) in (0..2)
        .flat_map(|seed| (10..120).step_by(3).flat_map(move |at| (at..at + 24).step_by(2).map(move |end| (seed, at, end))))
    {
        let sim = Sim::new(seed);
        let (inside, outside) = (MemoryStore::on(sim.runtime()), SideEffects::default());
        let store = FlakyStore::new(inside.clone());
        store.commit_slowly(sim.runtime(), Duration::from_millis(5));
        pause_and_resume(&sim, &inside, 10, resume);
        let ended = dropped_after(&sim, with(&sim, &outside, graph.run(1).id("r").checkpoint(&store)), dropped);
        sim.run(sim.sleep(Duration::from_secs(60)));
        let info = sim.run(async { inside.head("r").await }).unwrap();
        if info.status == RunStatus::Finished {
            continue;
        }
        cut_off += 1;
        let version = GraphVersion { fingerprint: graph.fingerprint().to_string(), schema: 0 };
        let ready = Wanted::Ready { graphs: vec![("nested".into(), version)], count: 1 };
        let lease = Lease { owner: "x".into(), length: Duration::from_secs(9) };
        let claims = sim.run(async { inside.claim(ready, lease).await }).unwrap();
        assert_eq!(claims.len(), 1, "seed {seed}, resume {resume}, dropped {dropped}: {ended:?} {info:?}");
    }
    assert!(cut_off > 300, "{cut_off}");
}

/// Waits for its cancel and then cleans up for one second.
async fn tidy(cx: NodeContext, n: u32) -> Result<u32, String> {
    rest(&cx, 1).await;
    let cancelled = futures::future::select(Box::pin(cx.token().cancelled()), Box::pin(rest(&cx, 10_000)));
    cancelled.await;
    rest(&cx, 1_000).await;
    Ok(n)
}

#[test]
fn c9_resume_after_a_cancel_leaves_the_cancel_in_the_inbox() {
    let graph = Graph::new("tidying")
        .add_node("tidy", tidy)
        .policy("tidy", Policy::new().cancel_grace(Duration::from_secs(5)))
        .add_node("next", pass)
        .add_edge("tidy", "next")
        .add_edge("next", END)
        .set_entry("tidy")
        .compile()
        .unwrap();
    let (sim, outside) = (Sim::new(1), SideEffects::default());
    let store = MemoryStore::on(sim.runtime());
    let (clock, posted) = (sim.runtime(), store.clone());
    clock.clone().spawn(Box::pin(async move {
        let remote = RunRemote::new(&posted, "r");
        clock.sleep_until(clock.now() + Duration::from_millis(50)).await;
        remote.cancel("no longer wanted").await.unwrap();
        clock.sleep_until(clock.now() + Duration::from_millis(50)).await;
        remote.resume().await.unwrap();
    }));
    // The process dies while the node cleans up.
    assert!(dropped_after(&sim, with(&sim, &outside, graph.run(1).id("r").checkpoint(&store)), 1_900).is_none());
    sim.run(sim.sleep(Duration::from_secs(60)));
    let error = sim.run(with(&sim, &outside, graph.resume("r").checkpoint(&store)).into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Cancelled { .. }), "{error}");
    sim.run(async {
        assert_eq!(store.head("r").await.unwrap().status, RunStatus::Cancelled);
        assert!(store.inbox("r", 0).await.unwrap().is_empty());
    });
}
