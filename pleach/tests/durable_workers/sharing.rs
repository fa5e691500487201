//! C6, C13, C15: workers that share the runs of a store, lose their way to it, and die.
#![cfg(feature = "graph")]

use crate::common::Log;
use crate::common::mortal::MortalStore;
use crate::common::shift::{LEASE, State, World, all_finish, enqueue, finished, five, worker};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::store::{Filter, RunStatus, Store};
use pleach::{RunEnd, RunningWorker, Worker, WorkerEvent};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

#[test]
fn c15_workers_share_the_runs_and_lose_nothing_when_they_are_killed_at_random() {
    explore(0..60, |sim| {
        let world = World::new(sim);
        let graph = five(&world);
        let way = || MortalStore::new(world.store.clone());
        let first_ways = [way(), way()];
        let mut crew: Vec<Option<RunningWorker>> = first_ways.iter().map(|way| Some(worker(sim, way, &graph))).collect();
        let mut ways = Vec::from(first_ways);
        sim.run(async {
            enqueue(&world, &graph, 10).await;
            for _ in 0..4 {
                world.pass(world.clock.random() % 6_000).await;
                let victim = world.clock.random() as usize % 2;
                ways[victim].kill();
                drop(crew[victim].take());
                world.pass(world.clock.random() % 3_000).await;
                ways[victim] = way();
                crew[victim] = Some(worker(sim, &ways[victim], &graph));
            }
            all_finish(&world, 10).await;
            for run in 0..10 {
                assert_eq!(graph.outcome_of(format!("run {run}"), &world.store).on(sim.runtime()).await.unwrap(), finished());
            }
        });
        let starts = world.starts.take();
        assert!(starts.len() >= 50, "each step of each run was done");
        drop(crew);
    });
}

#[test]
fn c15_two_workers_both_have_a_share() {
    let sim = Sim::new(7);
    let world = World::new(&sim);
    let graph = five(&world);
    let claimed = [Log::<String>::new(), Log::new()];
    let crew: Vec<RunningWorker> = claimed
        .iter()
        .map(|log| {
            let log = log.clone();
            let listen = move |event: &WorkerEvent| {
                if let WorkerEvent::Claimed { run, .. } = event {
                    log.note(run);
                }
            };
            Worker::new(&world.store).graph(&graph).limit(4).on_event(listen).on(sim.runtime()).start().unwrap()
        })
        .collect();
    sim.run(async {
        enqueue(&world, &graph, 40).await;
        all_finish(&world, 40).await;
    });
    let [one, other] = claimed.map(|log| log.len());
    assert_eq!(one + other, 40, "no run changed hands");
    assert!(one >= 10 && other >= 10, "{one} and {other}");
    assert_eq!(world.starts.len(), 200);
    drop(crew);
}

#[test]
fn c6_a_worker_that_loses_its_way_to_the_store_stops_its_nodes_before_another_has_the_run() {
    explore(0..50, |sim| {
        let world = World::new(sim);
        // `enter` fails the test if two nodes of one run are running at a time.
        let slow = {
            let world = world.clone();
            move |cx: NodeContext, mut state: State| {
                let world = world.clone();
                async move {
                    let _inside = world.enter(&cx, state.len()).await;
                    world.pass(60_000).await;
                    state.push("done".into());
                    Ok::<_, String>(state)
                }
            }
        };
        let graph = Graph::new("slow").add_node("slow", slow).add_edge("slow", END).set_entry("slow").compile().unwrap();
        let ways = [MortalStore::new(world.store.clone()), MortalStore::new(world.store.clone())];
        let ends = Log::<RunEnd>::new();
        let seen = ends.clone();
        let listen = move |event: &WorkerEvent| {
            if let WorkerEvent::Ended { end, .. } = event {
                seen.push(end.clone());
            }
        };
        let start = |way: &MortalStore| Worker::new(way).graph(&graph).lease(LEASE).on(sim.runtime());
        let first = start(&ways[0]).on_event(listen).start().unwrap();
        let second = sim.run(async {
            enqueue(&world, &graph, 1).await;
            world.pass(10_000 + world.clock.random() % 10_000).await;
            ways[0].cut();
            let second = start(&ways[1]).start().unwrap();
            all_finish(&world, 1).await;
            second
        });
        assert!(matches!(&ends.take()[..], [RunEnd::Trouble { .. }, ..]), "it stopped by itself");
        assert_eq!(world.starts.len(), 2);
        drop((first, second));
    });
}

#[test]
fn c6_the_leases_of_all_runs_are_renewed_at_once() {
    let sim = Sim::new(1);
    let world = World::new(&sim);
    let wait = |_: State| std::future::pending::<Result<State, String>>();
    let graph = Graph::new("wait").add_node("wait", wait).add_edge("wait", END).set_entry("wait").compile().unwrap();
    let way = MortalStore::new(world.store.clone());
    let worker = Worker::new(&way).graph(&graph).limit(20).lease(LEASE).on(sim.runtime()).start().unwrap();
    sim.run(async {
        enqueue(&world, &graph, 20).await;
        world.pass(80_000).await;
        assert_eq!(worker.held().len(), 20);
        // Every quarter of the lease, for 80 seconds.
        assert!((38..=41).contains(&way.renewals.load(SeqCst)), "{:?}", way.renewals);
        for run in 0..20 {
            assert_eq!(world.store.head(&format!("run {run}")).await.unwrap().epoch, 2, "nobody lost it meanwhile");
        }
        // One that somebody takes by force is given up, and the others are not.
        let taken = graph.resume("run 3").take_over().checkpoint(&world.store).on(sim.runtime()).into_future();
        let taken = futures::future::select(taken, Box::pin(world.pass(5_000))).await;
        assert_eq!(worker.held().len(), 19);
        drop(taken);
    });
}

#[test]
fn c13_a_run_that_kills_its_workers_is_stuck_and_left_alone_until_it_is_told_to_go_on() {
    let sim = Sim::new(5);
    let world = World::new(&sim);
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
    let good = five(&world);
    sim.run(async {
        graph.run(Vec::new()).id("poison").on(sim.runtime()).checkpoint(&world.store).enqueue().await.unwrap();
        for deaths in 1..=6 {
            let way = MortalStore::new(world.store.clone());
            let worker = worker(&sim, &way, &graph);
            while deadly.load(SeqCst) < deaths {
                world.pass(500).await;
            }
            way.kill();
            drop(worker);
        }
        let way = MortalStore::new(world.store.clone());
        let worker = Worker::new(&way).graph(&graph).graph(&good).lease(LEASE).on(sim.runtime()).start().unwrap();
        enqueue(&world, &good, 3).await;
        all_finish(&world, 3).await;
        world.pass(60_000).await;
        assert_eq!(deadly.load(SeqCst), 6, "it was left alone");
        let stuck = world.store.list(vec![Filter::Status(RunStatus::Stuck)], None, 10).await.unwrap();
        assert_eq!(stuck.runs.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), ["poison"]);
        let error = graph.outcome_of("poison", &world.store).on(sim.runtime()).await.unwrap_err();
        assert!(error.to_string().contains("5 times"), "{error}");

        let resumed = graph.resume("poison").take_over().checkpoint(&world.store).on(sim.runtime()).await;
        assert_eq!(resumed.unwrap(), State::new());
        drop(worker);
    });
}

#[test]
fn c15_a_worker_that_is_closed_finishes_what_it_can_and_gives_up_the_rest_at_once() {
    explore(0..50, |sim| {
        let world = World::new(sim);
        let graph = five(&world);
        let way = MortalStore::new(world.store.clone());
        sim.run(async {
            let worker = worker(sim, &way, &graph);
            enqueue(&world, &graph, 6).await;
            world.pass(1_500).await;
            let grace = Duration::from_millis(world.clock.random() % 6_000);
            let began = sim.now();
            let unfinished = worker.close(grace).await;
            assert!(sim.now().since(began) <= grace + Duration::from_millis(10), "nothing is waited for in vain");
            for run in 0..6 {
                let info = world.store.head(&format!("run {run}")).await.unwrap();
                assert_eq!(info.owner, None, "{info:?}");
                let was_given_up = unfinished.contains(&info.id);
                assert!(!(was_given_up && info.status == RunStatus::Finished), "{info:?}");
            }
            // The next goes on at once, and not after the lease.
            let next = self::worker(sim, &way, &graph);
            all_finish(&world, 6).await;
            assert!(sim.now().since(began) < Duration::from_secs(25));
            assert_eq!(next.cancel().await, Vec::<String>::new());
        });
        let claims = way.claims.load(SeqCst);
        sim.advance(Duration::from_secs(60));
        assert_eq!(way.claims.load(SeqCst), claims, "a worker that was closed claims nothing");
        assert_eq!(sim.tasks_alive(), 0);
    });
}

#[test]
fn c15_a_step_whose_commit_is_under_way_is_not_lost_when_its_worker_is_cancelled() {
    let sim = Sim::new(3);
    let world = World::new(&sim);
    let graph = five(&world);
    let way = MortalStore::new(world.store.clone()).slow(sim.runtime(), Duration::from_secs(1));
    sim.run(async {
        let worker = worker(&sim, &way, &graph);
        enqueue(&world, &graph, 1).await;
        // The first step takes less than two seconds, its commit another one.
        while world.running.lock().unwrap().get("run 0") != Some(&0) {
            world.pass(50).await;
        }
        world.pass(100).await;
        assert_eq!(world.store.head("run 0").await.unwrap().head, 1);
        assert_eq!(worker.cancel().await, ["run 0"]);
        let info = world.store.head("run 0").await.unwrap();
        assert_eq!((info.head, info.owner), (2, None));
    });
}

#[test]
fn c15_a_worker_finishes_its_runs_when_its_tree_shuts_down() {
    explore(0..20, |sim| {
        let (world, system) = (World::new(sim), sim.system("shop"));
        let scope = system.scope("work").unwrap();
        let graph = five(&world);
        let worker = Worker::new(&world.store).graph(&graph).limit(2).start_in(&scope).unwrap();
        sim.run(async {
            enqueue(&world, &graph, 6).await;
            world.pass(500).await;
            let began = sim.now();
            system.shutdown(Duration::from_secs(600)).await.unwrap();
            assert!(sim.now().since(began) < Duration::from_secs(15), "idle tasks are not waited for");
            let list = world.store.list(vec![Filter::Status(RunStatus::Finished)], None, 10).await.unwrap();
            assert_eq!(list.runs.len(), 2, "what it had, and no more");
        });
        drop(worker);
    });
}

#[test]
fn c10_a_store_that_is_away_for_a_moment_does_not_stop_a_run_that_writes_nothing() {
    let sim = Sim::new(3);
    let world = World::new(&sim);
    let slow = {
        let world = world.clone();
        move |state: State| {
            let world = world.clone();
            async move {
                world.pass(20_000).await;
                Ok::<_, String>(state)
            }
        }
    };
    let graph = Graph::new("slow").add_node("slow", slow).add_edge("slow", END).set_entry("slow").compile().unwrap();
    let way = MortalStore::new(world.store.clone());
    let worker = worker(&sim, &way, &graph);
    sim.run(async {
        enqueue(&world, &graph, 1).await;
        world.pass(10_000).await;
        way.cut();
        world.pass(3_000).await;
        way.mend();
        all_finish(&world, 1).await;
        assert_eq!(world.store.head("run 0").await.unwrap().epoch, 2, "it stayed where it was");
    });
    drop(worker);
}

#[test]
fn c15_a_store_that_is_down_is_asked_again_with_patience() {
    let sim = Sim::new(2);
    let world = World::new(&sim);
    let graph = five(&world);
    let way = MortalStore::new(world.store.clone());
    let events = Log::<WorkerEvent>::new();
    let seen = events.clone();
    let worker = Worker::new(&way).graph(&graph).lease(LEASE).on_event(move |event| seen.push(event.clone()));
    let worker = worker.on(sim.runtime()).start().unwrap();
    sim.run(async {
        world.pass(1_000).await;
        way.cut();
        enqueue(&world, &graph, 2).await;
        let before = way.claims.load(SeqCst);
        world.pass(600_000).await;
        let asked = way.claims.load(SeqCst) - before;
        assert!((15..50).contains(&asked), "asked {asked} times in ten minutes");
        way.mend();
        all_finish(&world, 2).await;
    });
    let events = events.take();
    assert!(events.iter().any(|event| matches!(event, WorkerEvent::StoreFailed { op: "claim", .. })));
    assert_eq!(events.iter().filter(|event| **event == WorkerEvent::StoreAnswers).count(), 1);
    drop(worker);
}

#[test]
fn c13_a_run_that_cannot_be_written_is_tried_five_times_and_then_stuck() {
    let sim = Sim::new(2);
    let world = World::new(&sim);
    let starts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&starts);
    let grow = move |_: State| {
        counted.fetch_add(1, SeqCst);
        async { Ok::<_, String>(vec!["x".repeat(2_000)]) }
    };
    let graph = Graph::new("grow").add_node("grow", grow).add_edge("grow", END).set_entry("grow").compile().unwrap();
    let good = five(&world);
    let worker = Worker::new(&world.store).graph_with(&graph, |run| run.max_state_bytes(1_000)).graph(&good).limit(2);
    let worker = worker.on(sim.runtime()).start().unwrap();
    sim.run(async {
        graph.run(Vec::new()).id("large").on(sim.runtime()).checkpoint(&world.store).enqueue().await.unwrap();
        enqueue(&world, &good, 3).await;
        all_finish(&world, 3).await;
        world.pass(3_600_000).await;
        let info = world.store.head("large").await.unwrap();
        assert_eq!((info.status, info.takeovers), (RunStatus::Stuck, 5));
        assert!(info.trouble.as_ref().is_some_and(|why| why.contains("too large")), "{info:?}");
    });
    assert_eq!(starts.load(SeqCst), 5);
    drop(worker);
}
