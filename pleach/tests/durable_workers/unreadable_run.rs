//! C13: a run that cannot be read, although the store works for all others.
use crate::common::Log;
use crate::common::failing_connection::FailingConnection;
use crate::common::shared_runs::{SharedRuns, all_finish, enqueue, five};
use pleach::prelude::*;
use pleach::sim::explore;
use pleach::store::{RunStatus, Store};
use pleach::worker::{Worker, WorkerEvent};

const BAD: &str = "run 0";

fn listen(events: &Log<String>) -> impl Fn(&WorkerEvent) + Send + Sync + 'static {
    let events = events.clone();
    move |event| match event {
        WorkerEvent::Delayed { run, reason, .. } => events.note(format!("{run} rests: {reason}")),
        WorkerEvent::Stuck { run, reason } => events.note(format!("{run} is stuck: {reason}")),
        _ => {}
    }
}

#[test]
fn c13_only_unreadable_run_rests_and_becomes_stuck() {
    explore(0..10, |sim| {
        let shared = SharedRuns::new(sim);
        let graph = five(&shared);
        let connection = FailingConnection::new(shared.store.clone());
        let events = Log::new();
        connection.fail_reads_of(BAD);
        sim.run(async {
            enqueue(&shared, &graph, 6).await;
            // The worker has no room for the bad run and a good one at the same time.
            let worker = Worker::new(&connection)
                .graph(&graph)
                .limit(1)
                .on_event(listen(&events))
                .runtime(sim.runtime())
                .start()
                .unwrap();
            all_finish(&shared, 5).await;
            sim.sleep(Duration::from_secs(900)).await;
            let info = shared.store.head(BAD).await.unwrap();
            assert_eq!((info.status, info.owner.is_none()), (RunStatus::Stuck, true), "{info:?}");
            assert!(info.trouble.as_ref().is_some_and(|trouble| trouble.contains("a block cannot be read")), "{info:?}");
            let lines = events.seen();
            assert!(lines.iter().all(|event| event.starts_with(BAD)), "{lines:#?}");
            assert!(lines.last().is_some_and(|event| event.contains("is stuck") && event.contains("a block")), "{lines:#?}");
            drop(worker);
        });
    });
}

#[test]
fn c13_run_is_not_blamed_if_no_other_run_can_be_read() {
    explore(0..5, |sim| {
        let shared = SharedRuns::new(sim);
        let graph = five(&shared);
        let connection = FailingConnection::new(shared.store.clone());
        let events = Log::new();
        connection.fail_reads_of(BAD);
        sim.run(async {
            enqueue(&shared, &graph, 1).await;
            let worker =
                Worker::new(&connection).graph(&graph).on_event(listen(&events)).runtime(sim.runtime()).start().unwrap();
            sim.sleep(Duration::from_secs(600)).await;
            let info = shared.store.head(BAD).await.unwrap();
            assert_eq!((info.status, info.takeovers), (RunStatus::Running, 0), "{info:?}");
            assert_eq!(events.seen(), Vec::<String>::new());
            drop(worker);
        });
    });
}

#[test]
fn c13_run_is_not_blamed_for_a_short_outage() {
    explore(0..10, |sim| {
        let shared = SharedRuns::new(sim);
        let graph = five(&shared);
        let connection = FailingConnection::new(shared.store.clone()).slow_claims(sim.runtime(), Duration::from_secs(1));
        let (events, ended) = (Log::new(), Log::new());
        let (lines, noted) = (listen(&events), ended.clone());
        let listener = move |event: &WorkerEvent| {
            lines(event);
            if let WorkerEvent::Ended { run, .. } = event {
                noted.note(run);
            }
        };
        sim.run(async {
            enqueue(&shared, &graph, 2).await;
            let worker = Worker::new(&connection).graph(&graph).on_event(listener).runtime(sim.runtime()).start().unwrap();
            // The runs are claimed but cannot be read.
            sim.sleep(Duration::from_millis(500)).await;
            connection.cut();
            while ended.len() < 2 {
                sim.sleep(Duration::from_millis(10)).await;
            }
            // The worker checks at the same instant whether it can read another run. The outage
            // lasts until after that.
            sim.sleep(Duration::from_millis(1)).await;
            connection.mend();
            all_finish(&shared, 2).await;
            assert_eq!(events.seen(), Vec::<String>::new());
            drop(worker);
        });
    });
}

#[test]
fn c13_closing_worker_releases_an_unreadable_run_at_once() {
    explore(0..10, |sim| {
        let shared = SharedRuns::new(sim);
        let graph = five(&shared);
        let connection = FailingConnection::new(shared.store.clone()).silent_lists();
        let ended = Log::new();
        connection.fail_reads_of(BAD);
        sim.run(async {
            enqueue(&shared, &graph, 1).await;
            let noted = ended.clone();
            let listener = move |event: &WorkerEvent| {
                if let WorkerEvent::Ended { run, .. } = event {
                    noted.note(run);
                }
            };
            let worker = Worker::new(&connection).graph(&graph).on_event(listener).runtime(sim.runtime()).start().unwrap();
            while ended.len() < 1 {
                sim.sleep(Duration::from_millis(10)).await;
            }
            // The worker is checking whether another run can be read.
            sim.sleep(Duration::from_secs(2)).await;
            assert_eq!(worker.held(), [BAD]);
            worker.cancel().await;
            assert_eq!(shared.store.head(BAD).await.unwrap().owner, None);
        });
    });
}
