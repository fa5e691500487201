//! C6, C10, C13, C15: workers that share the runs of a store, lose their connection to it, and die.
use crate::common::Log;
use crate::common::failing_connection::FailingConnection;
use crate::common::shared_runs::{LEASE, SharedRuns, State, all_finish, enqueue, finished, five, worker};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::store::{Filter, RunStatus, Store};
use pleach::worker::{RunEnd, RunningWorker, Worker, WorkerEvent};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

#[test]
fn c15_workers_share_runs_and_lose_nothing_when_killed_at_random() {
    explore(0..60, |sim| {
        let shared = SharedRuns::new(sim);
        let graph = five(&shared);
        let connection = || FailingConnection::new(shared.store.clone());
        let first_connections = [connection(), connection()];
        let mut workers: Vec<Option<RunningWorker>> =
            first_connections.iter().map(|connection| Some(worker(sim, connection, &graph))).collect();
        let mut connections = Vec::from(first_connections);
        sim.run(async {
            enqueue(&shared, &graph, 10).await;
            for _ in 0..4 {
                shared.pass(shared.clock.random() % 6_000).await;
                let victim = shared.clock.random() as usize % 2;
                connections[victim].kill();
                drop(workers[victim].take());
                shared.pass(shared.clock.random() % 3_000).await;
                connections[victim] = connection();
                workers[victim] = Some(worker(sim, &connections[victim], &graph));
            }
            all_finish(&shared, 10).await;
            for run in 0..10 {
                assert_eq!(
                    graph.outcome_of(format!("run {run}"), &shared.store).runtime(sim.runtime()).await.unwrap(),
                    finished()
                );
            }
        });
        let starts = shared.starts.take();
        assert!(starts.len() >= 50, "each step of each run was executed");
        drop(workers);
    });
}

#[test]
fn c15_two_workers_both_get_a_share() {
    let sim = Sim::new(7);
    let shared = SharedRuns::new(&sim);
    let graph = five(&shared);
    let claimed = [Log::<String>::new(), Log::new()];
    let workers: Vec<RunningWorker> = claimed
        .iter()
        .map(|log| {
            let log = log.clone();
            let listen = move |event: &WorkerEvent| {
                if let WorkerEvent::Claimed { run, .. } = event {
                    log.note(run);
                }
            };
            Worker::new(&shared.store).graph(&graph).limit(4).on_event(listen).runtime(sim.runtime()).start().unwrap()
        })
        .collect();
    sim.run(async {
        enqueue(&shared, &graph, 40).await;
        all_finish(&shared, 40).await;
    });
    let [one, other] = claimed.map(|log| log.len());
    assert_eq!(one + other, 40, "each run was claimed once");
    assert!(one >= 10 && other >= 10, "{one} and {other}");
    assert_eq!(shared.starts.len(), 200);
    drop(workers);
}

#[test]
fn c6_worker_without_its_store_stops_its_nodes_before_a_takeover() {
    explore(0..50, |sim| {
        let shared = SharedRuns::new(sim);
        // `enter` fails the test if two nodes of one run are active at the same time.
        let slow = {
            let shared = shared.clone();
            move |cx: NodeContext, mut state: State| {
                let shared = shared.clone();
                async move {
                    let _inside = shared.enter(&cx, state.len()).await;
                    shared.pass(60_000).await;
                    state.push("done".into());
                    Ok::<_, String>(state)
                }
            }
        };
        let graph = Graph::new("slow").add_node("slow", slow).add_edge("slow", END).set_entry("slow").compile().unwrap();
        let connections = [FailingConnection::new(shared.store.clone()), FailingConnection::new(shared.store.clone())];
        let ends = Log::<RunEnd>::new();
        let seen = ends.clone();
        let listen = move |event: &WorkerEvent| {
            if let WorkerEvent::Ended { end, .. } = event {
                seen.push(end.clone());
            }
        };
        let start = |connection: &FailingConnection| Worker::new(connection).graph(&graph).lease(LEASE).runtime(sim.runtime());
        let first = start(&connections[0]).on_event(listen).start().unwrap();
        let second = sim.run(async {
            enqueue(&shared, &graph, 1).await;
            shared.pass(10_000 + shared.clock.random() % 10_000).await;
            connections[0].cut();
            let second = start(&connections[1]).start().unwrap();
            all_finish(&shared, 1).await;
            second
        });
        assert!(matches!(&ends.take()[..], [RunEnd::Trouble { .. }, ..]), "it stopped without a command");
        assert_eq!(shared.starts.len(), 2);
        drop((first, second));
    });
}

#[test]
fn c6_all_leases_of_a_worker_are_renewed_in_one_call() {
    let sim = Sim::new(1);
    let shared = SharedRuns::new(&sim);
    let wait = |_: State| std::future::pending::<Result<State, String>>();
    let graph = Graph::new("wait").add_node("wait", wait).add_edge("wait", END).set_entry("wait").compile().unwrap();
    let connection = FailingConnection::new(shared.store.clone());
    let worker = Worker::new(&connection).graph(&graph).limit(20).lease(LEASE).runtime(sim.runtime()).start().unwrap();
    sim.run(async {
        enqueue(&shared, &graph, 20).await;
        shared.pass(80_000).await;
        assert_eq!(worker.held().len(), 20);
        // Every quarter of the lease, for 80 seconds.
        assert!((38..=41).contains(&connection.renewals.load(SeqCst)), "{:?}", connection.renewals);
        for run in 0..20 {
            assert_eq!(shared.store.head(&format!("run {run}")).await.unwrap().epoch, 2, "no run was lost meanwhile");
        }
        // A run that is taken over by force is lost; the others are not.
        let taken = graph.resume("run 3").take_over().checkpoint(&shared.store).runtime(sim.runtime()).into_future();
        let taken = futures::future::select(taken, Box::pin(shared.pass(5_000))).await;
        assert_eq!(worker.held().len(), 19);
        drop(taken);
    });
}

#[test]
fn c13_run_that_kills_its_workers_is_stuck_until_it_is_resumed() {
    let sim = Sim::new(5);
    let shared = SharedRuns::new(&sim);
    let deadly = Arc::new(AtomicU32::new(0));
    let node = {
        let deadly = Arc::clone(&deadly);
        move |state: State| {
            let deadly = Arc::clone(&deadly);
            async move {
                if deadly.fetch_add(1, SeqCst) < 6 {
                    std::future::pending::<()>().await;
                }
                Ok::<_, String>(state)
            }
        }
    };
    let graph = Graph::new("deadly").add_node("node", node).add_edge("node", END).set_entry("node").compile().unwrap();
    let good = five(&shared);
    sim.run(async {
        graph.run(Vec::new()).id("poison").runtime(sim.runtime()).checkpoint(&shared.store).enqueue().await.unwrap();
        for deaths in 1..=6 {
            let connection = FailingConnection::new(shared.store.clone());
            let worker = worker(&sim, &connection, &graph);
            while deadly.load(SeqCst) < deaths {
                shared.pass(500).await;
            }
            connection.kill();
            drop(worker);
        }
        let connection = FailingConnection::new(shared.store.clone());
        let worker = Worker::new(&connection).graph(&graph).graph(&good).lease(LEASE).runtime(sim.runtime()).start().unwrap();
        enqueue(&shared, &good, 3).await;
        all_finish(&shared, 3).await;
        shared.pass(60_000).await;
        assert_eq!(deadly.load(SeqCst), 6, "it was not claimed");
        let stuck = shared.store.list(vec![Filter::Status(RunStatus::Stuck)], None, 10).await.unwrap();
        assert_eq!(stuck.runs.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), ["poison"]);
        let error = graph.outcome_of("poison", &shared.store).runtime(sim.runtime()).await.unwrap_err();
        assert!(error.to_string().contains("5 times"), "{error}");

        let resumed = graph.resume("poison").take_over().checkpoint(&shared.store).runtime(sim.runtime()).await;
        assert_eq!(resumed.unwrap(), State::new());
        drop(worker);
    });
}

#[test]
fn c15_closed_worker_finishes_within_its_grace_and_releases_the_rest() {
    explore(0..50, |sim| {
        let shared = SharedRuns::new(sim);
        let graph = five(&shared);
        let connection = FailingConnection::new(shared.store.clone());
        sim.run(async {
            let worker = worker(sim, &connection, &graph);
            enqueue(&shared, &graph, 6).await;
            shared.pass(1_500).await;
            let grace = Duration::from_millis(shared.clock.random() % 6_000);
            let began = sim.now();
            let unfinished = worker.close(grace).await;
            assert!(sim.now().since(began) <= grace + Duration::from_millis(10), "it does not wait longer than needed");
            for run in 0..6 {
                let info = shared.store.head(&format!("run {run}")).await.unwrap();
                assert_eq!(info.owner, None, "{info:?}");
                let was_released = unfinished.contains(&info.id);
                assert!(!(was_released && info.status == RunStatus::Finished), "{info:?}");
            }
            // The next worker continues at once, and not after the lease.
            let next = self::worker(sim, &connection, &graph);
            all_finish(&shared, 6).await;
            assert!(sim.now().since(began) < Duration::from_secs(25));
            assert_eq!(next.cancel().await, Vec::<String>::new());
        });
        let claims = connection.claims.load(SeqCst);
        sim.advance(Duration::from_secs(60));
        assert_eq!(connection.claims.load(SeqCst), claims, "a closed worker claims nothing");
        assert_eq!(sim.tasks_alive(), 0);
    });
}

#[test]
fn c15_step_whose_commit_is_in_flight_survives_a_cancelled_worker() {
    let sim = Sim::new(3);
    let shared = SharedRuns::new(&sim);
    let graph = five(&shared);
    let connection = FailingConnection::new(shared.store.clone()).slow(sim.runtime(), Duration::from_secs(1));
    sim.run(async {
        let worker = worker(&sim, &connection, &graph);
        enqueue(&shared, &graph, 1).await;
        // The first step takes less than two seconds, and its commit another second.
        while shared.running.lock().unwrap().get("run 0") != Some(&0) {
            shared.pass(50).await;
        }
        shared.pass(100).await;
        assert_eq!(shared.store.head("run 0").await.unwrap().head, 1);
        assert_eq!(worker.cancel().await, ["run 0"]);
        let info = shared.store.head("run 0").await.unwrap();
        assert_eq!((info.head, info.owner), (2, None));
    });
}

#[test]
fn c15_worker_finishes_its_runs_when_its_tree_shuts_down() {
    explore(0..20, |sim| {
        let (shared, system) = (SharedRuns::new(sim), sim.system("shop"));
        let scope = system.scope("work").unwrap();
        let graph = five(&shared);
        let worker = Worker::new(&shared.store).graph(&graph).limit(2).start_in(&scope).unwrap();
        sim.run(async {
            enqueue(&shared, &graph, 6).await;
            shared.pass(500).await;
            let began = sim.now();
            system.shutdown(Duration::from_secs(600)).await.unwrap();
            assert!(sim.now().since(began) < Duration::from_secs(15), "it does not wait for idle tasks");
            let list = shared.store.list(vec![Filter::Status(RunStatus::Finished)], None, 10).await.unwrap();
            assert_eq!(list.runs.len(), 2, "only the runs that it held");
        });
        drop(worker);
    });
}

#[test]
fn c10_short_outage_does_not_stop_a_run_that_writes_nothing() {
    let sim = Sim::new(3);
    let shared = SharedRuns::new(&sim);
    let slow = {
        let shared = shared.clone();
        move |state: State| {
            let shared = shared.clone();
            async move {
                shared.pass(20_000).await;
                Ok::<_, String>(state)
            }
        }
    };
    let graph = Graph::new("slow").add_node("slow", slow).add_edge("slow", END).set_entry("slow").compile().unwrap();
    let connection = FailingConnection::new(shared.store.clone());
    let worker = worker(&sim, &connection, &graph);
    sim.run(async {
        enqueue(&shared, &graph, 1).await;
        shared.pass(10_000).await;
        connection.cut();
        shared.pass(3_000).await;
        connection.mend();
        all_finish(&shared, 1).await;
        assert_eq!(shared.store.head("run 0").await.unwrap().epoch, 2, "it stayed with its worker");
    });
    drop(worker);
}

#[test]
fn c15_worker_retries_an_unavailable_store_with_backoff() {
    let sim = Sim::new(2);
    let shared = SharedRuns::new(&sim);
    let graph = five(&shared);
    let connection = FailingConnection::new(shared.store.clone());
    let events = Log::<WorkerEvent>::new();
    let seen = events.clone();
    let worker = Worker::new(&connection).graph(&graph).lease(LEASE).on_event(move |event| seen.push(event.clone()));
    let worker = worker.runtime(sim.runtime()).start().unwrap();
    sim.run(async {
        shared.pass(1_000).await;
        connection.cut();
        enqueue(&shared, &graph, 2).await;
        let before = connection.claims.load(SeqCst);
        shared.pass(600_000).await;
        let claims = connection.claims.load(SeqCst) - before;
        assert!((15..50).contains(&claims), "{claims} claims in ten minutes");
        connection.mend();
        all_finish(&shared, 2).await;
    });
    let events = events.take();
    assert!(events.iter().any(|event| matches!(event, WorkerEvent::StoreFailed { op: "claim", .. })));
    assert_eq!(events.iter().filter(|event| **event == WorkerEvent::StoreRecovered).count(), 1);
    drop(worker);
}

#[test]
fn c13_run_that_cannot_be_stored_is_stuck_after_five_tries() {
    let sim = Sim::new(2);
    let shared = SharedRuns::new(&sim);
    let starts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&starts);
    let grow = move |_: State| {
        counted.fetch_add(1, SeqCst);
        async { Ok::<_, String>(vec!["x".repeat(2_000)]) }
    };
    let graph = Graph::new("grow").add_node("grow", grow).add_edge("grow", END).set_entry("grow").compile().unwrap();
    let good = five(&shared);
    let worker = Worker::new(&shared.store).graph_with(&graph, |run| run.max_state_bytes(1_000)).graph(&good).limit(2);
    let worker = worker.runtime(sim.runtime()).start().unwrap();
    sim.run(async {
        graph.run(Vec::new()).id("large").runtime(sim.runtime()).checkpoint(&shared.store).enqueue().await.unwrap();
        enqueue(&shared, &good, 3).await;
        all_finish(&shared, 3).await;
        shared.pass(3_600_000).await;
        let info = shared.store.head("large").await.unwrap();
        assert_eq!((info.status, info.takeovers), (RunStatus::Stuck, 5));
        assert!(info.trouble.as_ref().is_some_and(|why| why.contains("too large")), "{info:?}");
    });
    assert_eq!(starts.load(SeqCst), 5);
    drop(worker);
}
