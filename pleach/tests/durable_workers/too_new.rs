//! C13: a worker of an earlier version leaves runs of a later version alone, and no takeover is
//! counted.
use crate::common::Log;
use crate::common::failing_connection::FailingConnection;
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::store::{MemoryStore, RunStatus, Store, TAKEOVERS_MAX};
use pleach::worker::{RunEnd, Worker, WorkerEvent};

fn add_one() -> CompiledGraph<u32> {
    let add = |n: u32| async move { Ok::<_, String>(n + 1) };
    Graph::new("add").add_node("add", add).add_edge("add", END).set_entry("add").compile().unwrap()
}

#[test]
fn c13_worker_too_old_for_a_run_leaves_it_to_newer_ones() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let (old, graph, delays) = (FailingConnection::new(store.clone()), add_one(), Log::new());
    old.outdate();
    let seen = delays.clone();
    let listen = move |event: &WorkerEvent| match event {
        WorkerEvent::LeftToNewer { run, reason, delay } => {
            assert!(run == "r" && reason.contains("format 9") && !delay.is_zero(), "{event:?}");
            seen.push(*delay);
        }
        WorkerEvent::Claimed { .. } | WorkerEvent::Ended { end: RunEnd::Trouble { .. }, .. } => {}
        WorkerEvent::Unserved { runs } => assert_eq!(runs.too_new, ["r"]),
        _ => panic!("{event:?}"),
    };
    let hour = Duration::from_secs(3_600);
    sim.run(async {
        graph.run(1).id("r").runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
        let worker = Worker::new(&old).graph(&graph).on_event(listen).runtime(sim.runtime()).start().unwrap();
        sim.sleep(hour).await;
        let info = store.head("r").await.unwrap();
        assert_eq!((info.status, info.takeovers, info.trouble), (RunStatus::Running, 0, None));
        assert_eq!(worker.unserved().too_new, ["r"], "O8: an operator sees that this worker is too old");
        let newer = Worker::new(&store).graph(&graph).runtime(sim.runtime()).start().unwrap();
        assert_eq!(graph.outcome_of("r", &store).runtime(sim.runtime()).await.unwrap(), 2);
        worker.close(Duration::ZERO).await;
        newer.close(Duration::ZERO).await;
    });
    let delays = delays.take();
    // The delays grow to a minute: the worker neither floods the store nor blocks a newer worker
    // for long.
    assert!(delays.len() > TAKEOVERS_MAX as usize && delays.len() < 200, "{delays:?}");
    assert!(*delays.last().unwrap() <= Duration::from_secs(60) && delays[0] <= Duration::from_secs(1), "{delays:?}");
}
