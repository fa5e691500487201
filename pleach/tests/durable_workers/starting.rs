//! C15: what a worker rejects at its start, and what it logs about its store.
use crate::common::failing_connection::FailingConnection;
use crate::common::logged::logged;
use crate::common::shared_runs::{SharedRuns, enqueue, five};
use pleach::graph::RunFault;
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::worker::Worker;

#[test]
fn c15_start_rejects_fingerprints_that_no_store_accepts() {
    let sim = Sim::new(1);
    let shared = SharedRuns::new(&sim);
    let graph = five(&shared);
    for (fingerprint, why) in [(String::new(), "empty"), ("a\0b".to_string(), "NUL"), ("x".repeat(5_000), "too large")] {
        let worker = Worker::new(&shared.store).graph(&graph).accept_fingerprints([fingerprint]).runtime(sim.runtime());
        let Err(RunFault::Checkpoint(error)) = worker.start() else { panic!("a fingerprint that is {why} was accepted") };
        let text = error.to_string();
        assert!(text.contains("fingerprint") && text.contains(why), "{text}");
    }
    Worker::new(&shared.store).graph(&graph).accept_fingerprints(["0123456789abcdef"]).runtime(sim.runtime()).start().unwrap();
}

#[test]
fn c15_worker_logs_the_first_failure_and_the_recovery_of_its_store() {
    let log = logged();
    let sim = Sim::new(1);
    let shared = SharedRuns::new(&sim);
    let graph = five(&shared);
    let connection = FailingConnection::new(shared.store.clone());
    let logs = |what: &str| log.seen().iter().filter(|line| line.contains("logging-worker") && line.contains(what)).count();
    sim.run(async {
        let worker = Worker::new(&connection).graph(&graph).name("logging-worker").runtime(sim.runtime()).start().unwrap();
        enqueue(&shared, &graph, 1).await;
        for outages in 1..=2 {
            connection.cut();
            sim.sleep(Duration::from_secs(60)).await;
            assert_eq!(logs("the store of this worker failed"), outages, "one line per outage");
            connection.mend();
            sim.sleep(Duration::from_secs(60)).await;
            assert_eq!(logs("the store of this worker answers again"), outages);
        }
        drop(worker);
    });
}
