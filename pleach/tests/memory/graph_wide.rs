//! F9 and F10: polls of many branches and memory of deep subgraphs grow linearly.
#![cfg(all(feature = "graph", feature = "tokio"))]

use crate::{ALLOCATOR, exclusive};
use pleach::prelude::*;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

static POLLS: AtomicUsize = AtomicUsize::new(0);

/// Sleeps on Tokio's clock and counts its polls.
async fn sleep_counted(n: u32) -> Result<u32, String> {
    let mut sleep = pin!(tokio::time::sleep(Duration::from_millis(10)));
    poll_fn(|cx| {
        POLLS.fetch_add(1, Relaxed);
        sleep.as_mut().poll(cx)
    })
    .await;
    Ok(n)
}

/// Counts the polls of branches that all wait for the same time on Tokio's clock.
fn polls(branches: u32, stored: bool) -> usize {
    let graph = Graph::new("wide")
        .add_node("list", |n: u32| async move { Ok::<_, String>(n) })
        .add_node("sleep", sleep_counted)
        .map("list", |n: &u32| (0..*n).collect(), "sleep", END, FanOut::merge(|_: u32, all: Vec<u32>| all.len() as u32))
        .add_edge("sleep", END)
        .set_entry("list")
        .compile()
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    POLLS.store(0, Relaxed);
    let ended = runtime.block_on(async {
        let run = graph.run(branches);
        let run = if stored { run.checkpoint(&MemoryStore::new()) } else { run };
        tokio::spawn(run.into_future()).await.unwrap()
    });
    assert_eq!(ended.unwrap(), branches);
    POLLS.load(Relaxed)
}

#[test]
fn f9_polls_of_branches_on_tokio_grow_linearly() {
    let _exclusive = exclusive();
    for stored in [false, true] {
        let (few, many) = (polls(2_000, stored), polls(8_000, stored));
        assert!(few <= 5 * 2_000 && many <= 5 * 8_000, "{few} polls of 2,000 branches, {many} of 8,000, stored: {stored}");
    }
}

/// The number of allocated bytes.
fn in_use() -> isize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated as isize - stats.bytes_deallocated as isize + stats.bytes_reallocated
}

static INNERMOST: AtomicIsize = AtomicIsize::new(0);

/// A graph with `depth` nested subgraphs. Its innermost node records the allocated bytes.
fn nested(depth: usize) -> CompiledGraph<u32> {
    let innermost = |n: u32| async move {
        INNERMOST.store(in_use(), Relaxed);
        Ok::<_, String>(n + 1)
    };
    let compile = |graph: Graph<u32>| graph.add_edge("node", END).set_entry("node").compile().unwrap();
    let mut graph = compile(Graph::new("level").add_node("node", innermost));
    for _ in 0..depth {
        graph = compile(Graph::new("level").add_subgraph("node", graph, |n: &u32| *n, |_: u32, n: u32| n));
    }
    graph
}

/// The bytes of a graph, and of its run at the innermost node.
fn bytes(depth: usize) -> (isize, isize) {
    let before = in_use();
    let graph = nested(depth);
    let compiled = in_use();
    let run = pleach::runtime::block_on(async { graph.run(0).await });
    assert_eq!(run.unwrap(), 1);
    (compiled - before, INNERMOST.load(Relaxed) - compiled)
}

#[test]
fn f10_memory_of_nested_subgraphs_grows_linearly() {
    let _exclusive = exclusive();
    // Each level polls the next one, which needs stack.
    let deep = std::thread::Builder::new().stack_size(256 << 20).spawn(|| (bytes(100), bytes(400))).unwrap();
    let (few, many) = deep.join().unwrap();
    assert!(many.0 <= 5 * few.0 && many.1 <= 5 * few.1, "compiled and running: {few:?} for 100 levels, {many:?} for 400");
}
