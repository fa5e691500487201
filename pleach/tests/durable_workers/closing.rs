//! C15: a worker that is closed during a claim leaves no run leased.
use crate::common::failing_connection::FailingConnection;
use crate::common::shared_runs::{SharedRuns, enqueue, five};
use pleach::prelude::*;
use pleach::sim::explore;
use pleach::store::Store;
use pleach::worker::Worker;

#[test]
fn c15_close_releases_the_runs_of_a_claim_in_flight() {
    for grace in [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(60)] {
        explore(0..5, |sim| {
            let shared = SharedRuns::new(sim);
            let graph = five(&shared);
            let connection = FailingConnection::new(shared.store.clone()).slow_claims(sim.runtime(), Duration::from_secs(3));
            sim.run(async {
                enqueue(&shared, &graph, 4).await;
                let worker = Worker::new(&connection).graph(&graph).runtime(sim.runtime()).start().unwrap();
                while shared.store.head("run 0").await.unwrap().owner.is_none() {
                    sim.sleep(Duration::from_millis(1)).await;
                }
                let began = sim.now();
                worker.close(grace).await;
                assert!(sim.now().since(began) < Duration::from_secs(7), "it waits only for the claim");
                for run in 0..4 {
                    let info = shared.store.head(&format!("run {run}")).await.unwrap();
                    assert_eq!((info.owner, info.takeovers), (None, 0), "run {run}");
                }
            });
        });
    }
}

#[test]
fn c15_close_does_not_wait_for_an_unanswered_claim() {
    let sim = pleach::sim::Sim::new(1);
    let shared = SharedRuns::new(&sim);
    let graph = five(&shared);
    let connection = FailingConnection::new(shared.store.clone());
    connection.kill();
    sim.run(async {
        let worker = Worker::new(&connection).graph(&graph).runtime(sim.runtime()).start().unwrap();
        sim.sleep(Duration::from_secs(1)).await;
        let began = sim.now();
        worker.close(Duration::from_secs(2)).await;
        assert!(sim.now().since(began) < Duration::from_secs(10));
    });
}
