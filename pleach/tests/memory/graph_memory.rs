//! F4, F8 and F9: the memory of a run: one box per node and one allocation per run, and nothing
//! after it was dropped.
#![cfg(feature = "graph")]

use crate::{ALLOCATOR, exclusive};
use pleach::prelude::*;
use pleach::sim::Sim;
use std::future::{IntoFuture, pending};
use std::task::{Context as TaskContext, Poll, Waker};

/// Allowance for the threads of the test harness.
const HARNESS_ALLOCATIONS_MAX: usize = 100;
const HARNESS_BYTES_MAX: isize = 65_536;

/// Is pending once, then ready.
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
fn f4_node_costs_one_box_and_a_run_one_allocation() {
    let _exclusive = exclusive();
    for waits in [false, true] {
        let graph = counting(waits);
        let before = ALLOCATOR.stats();
        let n = pleach::runtime::block_on(async { graph.run(0).max_iterations(10_000).await }).unwrap();
        let allocations = (ALLOCATOR.stats() - before).allocations;
        assert!((n as usize..n as usize + HARNESS_ALLOCATIONS_MAX).contains(&allocations), "{allocations} for {n} nodes");
    }
    let graph = counting(false);
    let short = || assert_eq!(pleach::runtime::block_on(async { graph.run(9_999).await }).unwrap(), 10_000);
    short();
    let before = ALLOCATOR.stats();
    (0..1_000).for_each(|_| short());
    let allocations = (ALLOCATOR.stats() - before).allocations;
    // The node, the run, and one for `block_on`.
    assert!(allocations <= 3 * 1_000 + HARNESS_ALLOCATIONS_MAX, "{allocations} for 1,000 runs");
}

#[test]
fn f8_hooks_and_streams_cost_nothing_without_a_listener() {
    let _exclusive = exclusive();
    let graph = Graph::<u32>::new("emitting")
        .add_node("emit", |cx: NodeContext, n: u32| async move {
            cx.emit(n);
            Ok::<_, String>(n + 1)
        })
        .add_conditional_edge("emit", ["emit", END], |n: &u32| if *n < 10_000 { "emit" } else { END })
        .set_entry("emit")
        .compile()
        .unwrap();
    let before = ALLOCATOR.stats();
    pleach::runtime::block_on(async { graph.run(0).max_iterations(10_000).await }).unwrap();
    let allocations = (ALLOCATOR.stats() - before).allocations;
    assert!(allocations < 10_000 + HARNESS_ALLOCATIONS_MAX, "{allocations}: items without a listener must not allocate");
}

#[test]
fn f9_dropped_runs_keep_no_memory() {
    let _exclusive = exclusive();
    let sim = Sim::new(1);
    let graph = Graph::<Vec<u8>>::new("pending")
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
    assert!(kept.abs() < HARNESS_BYTES_MAX, "{kept} bytes remain");
}
