//! What a run costs and keeps, counted by the allocator: a box for each node and one allocation for the run, and nothing once
//! it is dropped. F4, F8, F9.
#![cfg(feature = "graph")]

use crate::{ALLOCATOR, alone};
use pleach::prelude::*;
use pleach::sim::Sim;
use std::future::{IntoFuture, pending};
use std::task::{Context as TaskContext, Poll, Waker};

/// What the threads of the test harness may do beside a measurement.
const HARNESS_ALLOCATIONS_MAX: usize = 100;
const HARNESS_BYTES_MAX: isize = 65_536;

/// Polls once and then again; for a node that waits once.
async fn wait_once() {
    let mut waited = false;
    std::future::poll_fn(|cx| {
        cx.waker().wake_by_ref();
        if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

fn counting(waits: bool) -> CompiledGraph<u32> {
    Graph::new("counting")
        .add_node("count", move |n: u32| async move {
            if waits {
                wait_once().await;
            }
            Ok::<_, String>(n + 1)
        })
        .add_conditional_edge("count", ["count", END], |n: &u32| if *n < 10_000 { "count" } else { END })
        .set_entry("count")
        .compile()
        .unwrap()
}

#[test]
fn f4_a_node_costs_its_own_box_and_a_run_one_allocation() {
    let _alone = alone();
    for waits in [false, true] {
        let graph = counting(waits);
        let before = ALLOCATOR.stats();
        let n = pleach::block_on(async { graph.run(0).max_iterations(10_000).await }).unwrap();
        let allocations = (ALLOCATOR.stats() - before).allocations;
        assert!((n as usize..n as usize + HARNESS_ALLOCATIONS_MAX).contains(&allocations), "{allocations} for {n} nodes");
    }
    let graph = counting(false);
    let short = || assert_eq!(pleach::block_on(async { graph.run(9_999).await }).unwrap(), 10_000);
    short();
    let before = ALLOCATOR.stats();
    (0..1_000).for_each(|_| short());
    let allocations = (ALLOCATOR.stats() - before).allocations;
    // The node, the run, and what `block_on` itself needs.
    assert!(allocations <= 3 * 1_000 + HARNESS_ALLOCATIONS_MAX, "{allocations} for 1,000 runs");
}

#[test]
fn f8_hooks_and_streams_cost_nothing_where_nobody_listens() {
    let _alone = alone();
    let graph = Graph::<u32>::new("talking")
        .add_node("talk", |cx: NodeContext, n: u32| async move {
            cx.emit(n);
            Ok::<_, String>(n + 1)
        })
        .add_conditional_edge("talk", ["talk", END], |n: &u32| if *n < 10_000 { "talk" } else { END })
        .set_entry("talk")
        .compile()
        .unwrap();
    let before = ALLOCATOR.stats();
    pleach::block_on(async { graph.run(0).max_iterations(10_000).await }).unwrap();
    let allocations = (ALLOCATOR.stats() - before).allocations;
    assert!(allocations < 10_000 + HARNESS_ALLOCATIONS_MAX, "{allocations}: nothing is made of what nobody hears");
}

#[test]
fn f9_runs_that_are_dropped_in_the_middle_keep_nothing() {
    let _alone = alone();
    let sim = Sim::new(1);
    let graph = Graph::<Vec<u8>>::new("held")
        .add_node("split", |state: Vec<u8>| async { Ok::<_, String>(state) })
        .add_node("hold", |state: Vec<u8>| async move {
            pending::<()>().await;
            Ok::<_, String>(state)
        })
        .map("split", |state| vec![state.clone(); 40], "hold", END, |before: Vec<u8>, _: Vec<Vec<u8>>| before)
        .add_edge("hold", END)
        .set_entry("split")
        .compile()
        .unwrap();
    let token = sim.token();
    let before = ALLOCATOR.stats();
    for _ in 0..1_000 {
        let mut run = Box::pin(graph.run(vec![7; 100]).token(&token).into_future());
        for _ in 0..3 {
            assert!(run.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
        }
    }
    let change = ALLOCATOR.stats() - before;
    let kept = change.bytes_allocated as isize - change.bytes_deallocated as isize;
    assert!(kept.abs() < HARNESS_BYTES_MAX, "{kept} bytes are left");
}
