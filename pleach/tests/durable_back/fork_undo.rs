//! C5, F12: a fork undoes its own visits and none of its origin.
use crate::common::stored::{Names, NodeControl, NodeFuture, StoredRunFixture, merge, named};
use pleach::durable::Checkpoint;
use pleach::graph::{FanOut, Policy, Retry};
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::store::{Kind, RunStatus};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Charges once under the run's id, with random delays before and after.
fn charging(name: &'static str) -> impl Fn(NodeContext, Names) -> NodeFuture<Names> {
    move |cx, mut names| {
        Box::pin(async move {
            let clock = Arc::clone(cx.extension::<Arc<dyn Runtime>>().unwrap());
            let rest = || clock.sleep_until(clock.now() + Duration::from_millis(clock.random() % 40));
            let (outside, key) = (cx.extension::<NodeControl>().unwrap().outside.clone(), cx.idempotency_key());
            cx.record_undo(key.clone());
            rest().await;
            let call = format!("charge {} {key}", cx.run_id());
            let charge = cx.effect("charge", move |_| async move {
                outside.push(call);
                Ok::<_, String>(())
            });
            charge.await?;
            rest().await;
            if name == "again" && cx.attempt() == 1 {
                return Err("not yet".into());
            }
            names.push(name.to_string());
            Ok(names)
        })
    }
}

async fn refund(cx: NodeContext, key: String) -> Result<(), String> {
    cx.extension::<NodeControl>().unwrap().outside.push(format!("refund {} {key}", cx.run_id()));
    Ok(())
}

/// Charges in sequence, in branches, in a subgraph and after a retry. The last node can fail.
fn shop(spawned: bool) -> CompiledGraph<Names> {
    let charged = |graph: Graph<Names>, name: &'static str| graph.add_node(name, charging(name)).compensate(name, refund);
    let inner = ["in1", "in2"].into_iter().fold(Graph::new("inner"), charged);
    let inner = inner.add_edge("in1", "in2").add_edge("in2", END).set_entry("in1").compile().unwrap();
    let fan_out = FanOut::merge(merge);
    let graph = ["first", "left", "left2", "again"].into_iter().fold(Graph::new("shop"), charged);
    graph
        .add_parallel_edge("first", ["left", "sub", "again"], "last", if spawned { fan_out.spawned() } else { fan_out })
        .policy("again", Policy::new().retry(Retry::times(2)))
        .add_edge("left", "left2")
        .add_edge("left2", "last")
        .add_subgraph("sub", inner, Names::clone, |_, inner| inner)
        .add_edge("sub", "last")
        .add_edge("again", "last")
        .add_node("last", named("last"))
        .add_edge("last", END)
        .set_entry("first")
        .compile()
        .unwrap()
}

/// The visits that a run charged, and the refunded ones.
fn accounts(all: &[String], run: &str) -> (BTreeSet<String>, Vec<String>) {
    let of = |kind: &str| {
        let start = format!("{kind} {run} ");
        all.iter().filter_map(|one| one.strip_prefix(&start).map(str::to_string)).collect::<Vec<_>>()
    };
    (of("charge").into_iter().collect(), of("refund"))
}

/// The checkpoints that a run can be forked from.
fn points(fixture: &StoredRunFixture, graph: &CompiledGraph<Names>, run: &str) -> Vec<Checkpoint> {
    fixture.history(graph, run).into_iter().filter(|point| point.part_of.is_none()).collect()
}

#[test]
fn c5_fork_refunds_exactly_what_it_charged() {
    let (mut forked, mut shared, mut own) = (0, 0, 0);
    for seed in 0..150 {
        let graph = shop(seed % 3 == 0);
        let fixture = StoredRunFixture::new(seed);
        let random = |below: u64| fixture.sim.runtime().random() % below;
        fixture.nodes.fail(&["last"]);
        // The first run times out somewhere, or fails and is undone.
        let time = Duration::from_millis(20 + random(250));
        fixture.end(fixture.run(&graph, vec![]).keep_records(10_000).timeout(time)).unwrap_err();
        let mut from = "r".to_string();
        for generation in 1..=3 {
            let points = points(&fixture, &graph, &from);
            let point = points[random(points.len() as u64) as usize].sequence;
            let id = format!("fork-{generation}");
            let fork = graph.resume(from.clone()).rewind_to(point).fork_as(id.clone()).checkpoint(&fixture.store);
            let fork = fixture.here(fork).keep_records(10_000);
            // A fork that times out is forked again.
            let fork = if random(3) == 0 { fork.timeout(Duration::from_millis(random(120))) } else { fork };
            let error = fixture.end(fork).unwrap_err();
            let (charged, refunded) = accounts(&fixture.nodes.outside.take(), &id);
            let what = format!("seed {seed}, {id} of {from} at {point}: {error}");
            assert_eq!(refunded.iter().collect::<BTreeSet<_>>().len(), refunded.len(), "{what}");
            match error.fault() {
                RunFault::Cancelled { .. } => assert!(refunded.is_empty(), "{what}"),
                _ => {
                    assert_eq!(charged, refunded.into_iter().collect(), "{what}");
                    let status = if charged.is_empty() { RunStatus::Failed } else { RunStatus::Compensated };
                    assert_eq!(fixture.info(&id).status, status, "{what}");
                    shared += usize::from(charged.len() < 7);
                    own += charged.len();
                }
            }
            forked += 1;
            from = id;
        }
    }
    assert!(forked == 450 && shared > 100 && own > 200, "{forked} {shared} {own}");
}

#[test]
fn c5_fork_from_inside_a_charged_visit_does_not_refund_it() {
    let graph = Graph::new("pay")
        .add_node("pay", charging("pay"))
        .compensate("pay", refund)
        .add_node("ship", named("ship"))
        .add_edge("pay", "ship")
        .add_edge("ship", END)
        .set_entry("pay")
        .compile()
        .unwrap();
    let fixture = StoredRunFixture::new(1);
    fixture.end(fixture.run(&graph, vec![])).unwrap();
    let charge = fixture.record("r", Kind::Effect, "pay");
    fixture.nodes.fail(&["ship"]);
    let fork = |at: u64, id: &str| {
        let run = graph.resume("r").rewind_to(at).fork_as(id.to_string()).checkpoint(&fixture.store);
        fixture.end(fixture.here(run)).unwrap_err()
    };
    // One charge must not be refunded twice.
    let error = fork(charge, "after");
    assert_eq!((error.compensation(), fixture.info("after").status), (None, RunStatus::Failed));
    let error = fork(charge - 1, "before");
    assert!(error.compensation().is_some());
    let all = fixture.nodes.outside.take();
    assert_eq!(all.iter().filter(|one| one.starts_with("charge")).count(), 2);
    assert_eq!(all.iter().filter(|one| one.starts_with("refund")).count(), 1, "{all:?}");
    // The same after the fork is resumed.
    fixture.nodes.fail(&[]);
    fixture.nodes.hang(&["ship"]);
    let run = graph.resume("r").rewind_to(charge).fork_as("later").checkpoint(&fixture.store);
    fixture.leave(fixture.here(run));
    fixture.nodes.fail(&["ship"]);
    fixture.nodes.hang(&[]);
    let error = fixture.end(fixture.here(graph.resume("later").checkpoint(&fixture.store))).unwrap_err();
    assert_eq!(error.compensation(), None, "{error}");
}
