//! C9: a signal that a wait took but did not deliver before its visit ended goes to a later wait.
use crate::common::failing_connection::FailingConnection;
use crate::common::slow_store::SlowStore;
use futures::future::{Either, pending, select};
use pleach::durable::RunRemote;
use pleach::graph::{FanOut, Policy};
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::sim::{Sim, explore};
use pleach::store::{MemoryStore, Store};
use std::sync::Arc;

/// The number of signals that each run receives.
const SENT: u32 = 8;

/// Duration of a commit. Many waits are shorter, so visits end before their signal is durable.
const COMMIT: Duration = Duration::from_millis(4);

/// Waits a short time for one signal. Then the visit ends, with or without a signal.
async fn wait_or_tick(cx: NodeContext, mut seen: Vec<u32>) -> Result<Vec<u32>, String> {
    let tick = Duration::from_millis(1 + cx.iteration() * 5 % 13);
    if let Either::Left((signal, _)) = select(cx.signal::<u32>("go"), cx.sleep("tick", tick)).await {
        seen.push(signal);
    }
    Ok(seen)
}

/// Waits for one signal until it times out. An effect is in flight meanwhile, so the run does not
/// pause.
async fn wait(cx: NodeContext, mut seen: Vec<u32>) -> Result<Vec<u32>, String> {
    let busy = cx.effect("busy", |_key| pending::<Result<(), String>>()).into_future();
    if let Either::Left((signal, _)) = select(cx.signal("go"), busy).await {
        seen.push(signal);
    }
    Ok(seen)
}

async fn late(_: NodeContext, seen: Vec<u32>) -> Result<Vec<u32>, String> {
    Ok(seen)
}

#[allow(clippy::ptr_arg, reason = "a router takes the state as it is")]
fn next(seen: &Vec<u32>) -> &'static str {
    if (seen.len() as u32) < SENT { "wait" } else { END }
}

/// Each visit waits for a signal or a timer.
fn against_timer() -> CompiledGraph<Vec<u32>> {
    let graph = Graph::new("polling").add_node("wait", wait_or_tick).add_conditional_edge("wait", ["wait", END], next);
    graph.set_entry("wait").compile().unwrap()
}

/// Each visit times out, and another node follows.
fn against_timeout() -> CompiledGraph<Vec<u32>> {
    with_timeout(Graph::new("polling").add_node("wait", wait))
}

/// The same with the waiting node inside a subgraph.
fn inside_subgraph() -> CompiledGraph<Vec<u32>> {
    let inner = Graph::new("inner").add_node("first", late).add_node("wait", wait);
    let inner = inner.add_edge("first", "wait").add_edge("wait", END).set_entry("first").compile().unwrap();
    with_timeout(Graph::new("polling").add_subgraph("wait", inner, Vec::clone, |_, seen| seen))
}

fn with_timeout(graph: Graph<Vec<u32>>) -> CompiledGraph<Vec<u32>> {
    graph
        .policy("wait", Policy::new().timeout(Duration::from_millis(19)).fallback("late"))
        .add_node("late", late)
        .add_conditional_edge("wait", ["wait", END], next)
        .add_conditional_edge("late", ["wait", END], next)
        .set_entry("wait")
        .compile()
        .unwrap()
}

const GRAPHS: [fn() -> CompiledGraph<Vec<u32>>; 3] = [against_timer, against_timeout, inside_subgraph];

/// Sends all signals and gives the run time to take the last one.
async fn send_all(sim: &Sim, remote: &RunRemote) {
    for number in 0..SENT {
        sim.sleep(Duration::from_millis(sim.runtime().random() % 25)).await;
        remote.signal("go", &number).await.unwrap();
    }
    sim.sleep(Duration::from_secs(20)).await;
}

/// Drives the run until it has ended. A driver dies after a random time of up to `life_max`. After
/// a pause the next driver starts.
async fn drive(sim: &Sim, graph: &CompiledGraph<Vec<u32>>, store: &MemoryStore, life_max: Duration) -> Vec<u32> {
    loop {
        let mortal = FailingConnection::new(store.clone()).slow(sim.runtime(), COMMIT);
        let run = graph.resume("r").take_over().checkpoint(&mortal).max_iterations(100_000).runtime(sim.runtime());
        let life = 20 + sim.runtime().random() % life_max.as_millis() as u64;
        let dies = Box::pin(sim.sleep(Duration::from_millis(life)));
        match select(run.into_future(), dies).await {
            Either::Left((Ok(seen), _)) => return seen,
            Either::Left((Err(error), _)) => assert!(matches!(error.fault(), RunFault::Paused { .. }), "{error}"),
            // The driver dies without a release.
            Either::Right(((), run)) => {
                mortal.kill();
                drop(run);
            }
        }
        sim.sleep(Duration::from_millis(1)).await;
    }
}

fn check_all_received(life_max: Duration) {
    explore(0..60, |sim| {
        let store = MemoryStore::on(sim.runtime());
        let graph = GRAPHS[(sim.runtime().random() % 3) as usize]();
        sim.run(async {
            let run = graph.run(Vec::new()).id("r").runtime(sim.runtime());
            let remote = run.checkpoint(&store).enqueue().await.unwrap();
            let driven = Box::pin(drive(sim, &graph, &store, life_max));
            let Either::Left((mut seen, _)) = select(driven, Box::pin(send_all(sim, &remote))).await else {
                panic!("a signal was lost");
            };
            seen.sort_unstable();
            assert_eq!(seen, (0..SENT).collect::<Vec<_>>());
            assert!(store.inbox("r", 0).await.unwrap().is_empty());
        });
    });
}

#[test]
fn c9_signal_of_an_ended_visit_goes_to_a_later_visit() {
    check_all_received(Duration::from_secs(3_600));
}

#[test]
fn c9_signal_of_an_ended_visit_survives_dying_drivers() {
    check_all_received(Duration::from_millis(120));
}

async fn wait_for_all(cx: NodeContext, mut seen: Vec<u32>) -> Result<Vec<u32>, String> {
    for _ in 0..SENT {
        seen.push(cx.signal("go").await);
    }
    Ok(seen)
}

fn merge(_: Vec<u32>, branches: Vec<Vec<u32>>) -> Vec<u32> {
    branches.concat()
}

/// A branch that waits for signals, and one that commits now and then.
fn beside(clock: &Arc<dyn Runtime>) -> CompiledGraph<Vec<u32>> {
    let clock = Arc::clone(clock);
    let step = move |cx: NodeContext, seen: Vec<u32>| {
        let time = clock.sleep_until(clock.now() + Duration::from_millis(clock.random() % 12));
        async move {
            cx.effect("step", |_key| async {
                time.await;
                Ok::<_, String>(())
            })
            .await?;
            Ok::<_, String>(seen)
        }
    };
    let next = |cx: &NodeContext, _: &Vec<u32>| if cx.iteration() < 100 { "step" } else { "end" };
    Graph::new("beside")
        .add_node("start", late)
        .add_node("wait", wait_for_all)
        .add_node("step", step)
        .add_node("end", late)
        .add_parallel_edge("start", ["wait", "step"], "end", FanOut::merge(merge))
        .add_edge("wait", "end")
        .add_conditional_edge("step", ["step", "end"], next)
        .add_edge("end", END)
        .set_entry("start")
        .compile()
        .unwrap()
}

#[test]
fn c9_signal_posted_while_the_inbox_is_read_is_not_lost() {
    explore(0..40, |sim| {
        let store = MemoryStore::on(sim.runtime());
        let slow = SlowStore::new(store.clone(), sim.runtime(), Duration::from_millis(6));
        let graph = beside(&sim.runtime());
        sim.run(async {
            let run = graph.run(Vec::new()).id("r").runtime(sim.runtime());
            let remote = run.checkpoint(&store).enqueue().await.unwrap();
            let other = graph.run(Vec::new()).id("other").runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
            let driven = graph.resume("r").checkpoint(&slow).max_iterations(100_000).runtime(sim.runtime()).into_future();
            let (ended, ()) = futures::join!(driven, async {
                for number in 0..SENT {
                    sim.sleep(Duration::from_millis(sim.runtime().random() % 40)).await;
                    // The store hints that a message was posted, but the driver finds none for its
                    // run.
                    other.signal("go", &number).await.unwrap();
                    sim.sleep(Duration::from_millis(sim.runtime().random() % 12)).await;
                    remote.signal("go", &number).await.unwrap();
                }
            });
            assert_eq!(ended.expect("a signal was lost"), (0..SENT).collect::<Vec<_>>());
        });
    });
}
