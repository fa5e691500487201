//! F12, C5: a cancelled task that is dropped after its fan-out was joined is still undone, and
//! leaves nothing else behind.
use crate::common::Gate;
use crate::common::side_effects::{SideEffects, side_effects};
use crate::pass;
use pleach::graph::{Compensation, FanOut};
use pleach::prelude::*;
use pleach::store::{MemoryStore, Store};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// Keeps the two threads in step.
#[derive(Clone)]
struct Steps {
    /// The long poll ends when the sender is dropped.
    poll_ends: Arc<Mutex<Receiver<()>>>,
    joined: Gate,
    dropped: Gate,
}

/// Opens its gate when it is dropped.
struct OnDrop(Gate);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// Charges, and then stays in one poll for longer than the timeout of its fan-out.
async fn charge(cx: NodeContext, n: u32) -> Result<u32, String> {
    let steps = cx.extension::<Steps>().unwrap().clone();
    let _dropped = OnDrop(steps.dropped.clone());
    cx.record_undo(n);
    let outside = side_effects(&cx);
    let charge = cx.effect("charge", move |_| async move {
        outside.happen("charge");
        Ok::<_, String>(())
    });
    charge.await?;
    let _ended = steps.poll_ends.lock().unwrap().recv();
    std::future::pending().await
}

async fn refund(cx: NodeContext, n: u32) -> Result<(), String> {
    side_effects(&cx).happen(format!("refund {n}"));
    Ok(())
}

/// Runs after the join. The first visit waits until the cancelled task is dropped, then asks a
/// question.
async fn ask(cx: NodeContext, _: u32) -> Result<u32, String> {
    let (steps, outside) = (cx.extension::<Steps>().unwrap().clone(), side_effects(&cx));
    if outside.count("joined") == 0 {
        outside.happen("joined");
        steps.joined.open();
        steps.dropped.pass().await;
    }
    match cx.interrupt::<u32>("k", "?").await {
        0 => Err("declined".to_string()),
        answer => Ok(answer),
    }
}

fn shop() -> CompiledGraph<u32> {
    let inner = Graph::new("inner").add_node("charge", charge).compensate("charge", refund);
    let inner = inner.add_edge("charge", END).set_entry("charge").compile().unwrap();
    let collect = FanOut::collect(|n, _: Vec<Result<u32, RunError<u32>>>| Ok::<_, String>(n));
    Graph::new("shop")
        .add_node("s", pass)
        .add_subgraph("sub", inner, |n| *n, |_, n| n)
        .map("s", |n| vec![*n], "sub", "ask", collect.timeout(Duration::from_millis(200)).spawned())
        .add_edge("sub", "ask")
        .add_node("ask", ask)
        .add_edge("ask", END)
        .set_entry("s")
        .compile()
        .unwrap()
}

/// Starts a run that waits for an answer, after its fan-out was joined and the task of a branch was
/// dropped.
async fn paused(graph: &CompiledGraph<u32>, store: &MemoryStore, outside: &SideEffects) -> Steps {
    let (end_poll, poll_ends): (Sender<()>, Receiver<()>) = channel();
    let steps = Steps { poll_ends: Arc::new(Mutex::new(poll_ends)), joined: Gate::new(), dropped: Gate::new() };
    let joined = steps.joined.clone();
    let end = async move {
        joined.pass().await;
        drop(end_poll);
    };
    let run = graph.run(7).id("r").checkpoint(store).extension(steps.clone()).extension(outside.clone());
    let (error, ()) = futures::join!(run.into_future(), end);
    assert!(matches!(error.as_ref().unwrap_err().fault(), RunFault::Paused { .. }), "{error:?}");
    steps
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn c5_run_can_be_forked_after_a_task_is_dropped_past_its_join() {
    let (graph, store, outside) = (shop(), MemoryStore::new(), SideEffects::default());
    let steps = paused(&graph, &store, &outside).await;
    let head = store.head("r").await.unwrap().head;
    let fork = graph.resume("r").rewind_to(head).fork_as("fork").checkpoint(&store);
    let error = fork.extension(steps.clone()).extension(outside.clone()).await.unwrap_err();
    assert!(matches!(error.fault(), RunFault::Paused { .. }), "{error}");
    assert_eq!(outside.all(), ["charge", "joined"]);
    // The undo of the task stays when the run is rewritten.
    let rewound = graph.resume("r").rewind_to(head).resume_with("k", &0).checkpoint(&store);
    let error = rewound.extension(steps).extension(outside.clone()).await.unwrap_err();
    assert!(matches!(error.compensation(), Some(Compensation::Compensated { .. })), "{error}");
    assert_eq!(outside.all(), ["charge", "joined", "refund 7"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn f12_task_dropped_past_its_join_is_undone_once() {
    let (graph, store, outside) = (shop(), MemoryStore::new(), SideEffects::default());
    let steps = paused(&graph, &store, &outside).await;
    let resumed = graph.resume("r").resume_with("k", &0).checkpoint(&store);
    let error = resumed.extension(steps).extension(outside.clone()).await.unwrap_err();
    assert!(matches!(error.compensation(), Some(Compensation::Compensated { .. })), "{error}");
    assert_eq!(outside.all(), ["charge", "joined", "refund 7"]);
}
