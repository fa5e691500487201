//! C6, C13, C15: workers that share the runs of a store, lose their way to it, and die.
#![cfg(feature = "graph")]

mod common;

use common::Log;
use common::mortal::MortalStore;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::store::{Filter, MemoryStore, Prune, RunStatus, Store};
use pleach::{
    ActorPath, Hooks, Migrations, Policy, Retry, RunEnd, RunEvent, RunRef, RunRemote, RunningWorker, Runtime, Worker,
    WorkerEvent, WorkerMessage,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

const LEASE: Duration = Duration::from_secs(8);

/// What the nodes of all runs need, whoever drives them.
#[derive(Clone)]
struct World {
    store: MemoryStore,
    clock: Arc<dyn Runtime>,
    starts: Log<(String, String)>,
    /// How many nodes of each run are running now.
    running: Arc<Mutex<HashMap<String, u32>>>,
}

impl World {
    fn new(sim: &Sim) -> Self {
        let (store, clock) = (MemoryStore::on(sim.runtime()), sim.runtime());
        Self { store, clock, starts: Log::new(), running: Arc::default() }
    }

    /// Notes that a node runs, alone, from what was committed last.
    async fn enter(&self, cx: &NodeContext, done: usize) -> Inside {
        let run = cx.run_id().to_string();
        self.starts.push((run.clone(), cx.node().to_string()));
        let running = {
            let mut running = self.running.lock().unwrap();
            let count = running.entry(run.clone()).or_default();
            *count += 1;
            *count
        };
        assert_eq!(running, 1, "run {run:?} has two drivers");
        let inside = Inside(self.clone(), run);
        let view = RunRemote::new(&self.store, inside.1.as_str()).look().await.unwrap();
        let committed: Vec<String> = serde_json::from_str(view.tokens[0].state.as_deref().unwrap()).unwrap();
        assert_eq!(committed.len(), done, "what was committed runs again");
        inside
    }

    async fn pass(&self, millis: u64) {
        self.clock.sleep_until(self.clock.now() + Duration::from_millis(millis)).await;
    }
}

/// A node that runs.
struct Inside(World, String);

impl Drop for Inside {
    fn drop(&mut self) {
        *self.0.running.lock().unwrap().get_mut(&self.1).unwrap() -= 1;
    }
}

type State = Vec<String>;

/// Five steps of up to two seconds each.
fn five(world: &World) -> CompiledGraph<State> {
    let world = world.clone();
    let step = move |cx: NodeContext, mut state: State| {
        let world = world.clone();
        async move {
            let _inside = world.enter(&cx, state.len()).await;
            world.pass(world.clock.random() % 2_000).await;
            state.push(format!("step {}", state.len() + 1));
            Ok::<_, String>(state)
        }
    };
    Graph::new("five")
        .add_node("step", step)
        .add_conditional_edge("step", ["step", END], |state: &State| if state.len() < 5 { "step" } else { END })
        .set_entry("step")
        .compile()
        .unwrap()
}

fn finished() -> State {
    (1..=5).map(|step| format!("step {step}")).collect()
}

async fn enqueue(world: &World, graph: &CompiledGraph<State>, runs: usize) {
    for run in 0..runs {
        let run = graph.run(Vec::new()).id(format!("run {run}")).on(Arc::clone(&world.clock));
        run.checkpoint(&world.store).enqueue().await.unwrap();
    }
}

/// Waits for the end of all of them.
async fn all_finish(world: &World, runs: usize) {
    let clock = &world.clock;
    for _ in 0..600 {
        let list = world.store.list(vec![Filter::Status(RunStatus::Finished)], None, 100).await.unwrap();
        if list.runs.len() == runs {
            return;
        }
        clock.sleep_until(clock.now() + Duration::from_secs(1)).await;
    }
    let list = world.store.list(Vec::new(), None, 100).await.unwrap();
    panic!("not all have finished: {:#?}", list.runs);
}

fn worker(sim: &Sim, store: &MortalStore, graph: &CompiledGraph<State>) -> RunningWorker {
    Worker::new(store).graph(graph).limit(4).lease(LEASE).on(sim.runtime()).start().unwrap()
}

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
fn c10_a_run_that_cannot_be_written_is_tried_again_ever_more_seldom() {
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
    });
    let starts = starts.load(SeqCst);
    assert!((12..30).contains(&starts), "tried {starts} times in an hour");
    drop(worker);
}

#[test]
fn c12_a_run_that_sleeps_long_is_not_held_and_is_claimed_when_it_is_due() {
    let hour = Duration::from_secs(3_600);
    let nap = |cx: NodeContext, state: State| async move {
        cx.sleep("short", Duration::from_secs(5)).await;
        cx.sleep("long", Duration::from_secs(3_600)).await;
        Ok::<_, String>(state)
    };
    let attempts = Log::<u32>::new();
    let noted = attempts.clone();
    let flaky = move |cx: NodeContext, state: State| {
        noted.push(cx.attempt());
        async move { if cx.attempt() < 3 { Err("not yet".to_string()) } else { Ok(state) } }
    };
    let graph = Graph::new("naps")
        .add_node("nap", nap)
        .add_node("flaky", flaky)
        .policy("flaky", Policy::new().retry(Retry::times(5).backoff(Duration::from_secs(600), Duration::from_secs(600))))
        .add_edge("nap", "flaky")
        .add_edge("flaky", END)
        .set_entry("nap")
        .compile()
        .unwrap();
    let sim = Sim::new(4);
    let world = World::new(&sim);
    let worker = Worker::new(&world.store).graph(&graph).lease(LEASE).on(sim.runtime()).start().unwrap();
    sim.run(async {
        enqueue(&world, &graph, 1).await;
        world.pass(3_000).await;
        assert_eq!(worker.held(), ["run 0"], "a short sleep is waited for");
        world.pass(5_000).await;
        assert!(worker.held().is_empty());
        let info = world.store.head("run 0").await.unwrap();
        assert_eq!((info.status, &info.owner, info.epoch), (RunStatus::Waiting, &None, 2));
        sim.sleep(hour).await;
        assert_eq!(attempts.len(), 1, "it is there when it is due");
        assert!(worker.held().is_empty(), "nor is a long backoff held");
        let outcome = graph.outcome_of("run 0", &world.store).on(sim.runtime());
        assert_eq!(outcome.await.unwrap(), State::new());
        assert!(sim.now().since_start() > hour + Duration::from_secs(1_000));
        let info = world.store.head("run 0").await.unwrap();
        assert_eq!(info.epoch, 5, "claimed once for each wait");
    });
    assert_eq!(attempts.take(), [1, 2, 3]);
}

#[test]
fn c7_a_worker_claims_only_the_graphs_that_it_knows_in_all_their_versions() {
    let sim = Sim::new(4);
    let world = World::new(&sim);
    let named = |node: &'static str| {
        let work = move |mut state: State| async move {
            state.push(node.to_string());
            Ok::<_, String>(state)
        };
        Graph::new("same").add_node(node, work).add_edge(node, END).set_entry(node).compile().unwrap()
    };
    let (old, new, unknown) = (named("old"), named("new"), named("unknown"));
    let worker = Worker::new(&world.store).graph(&old).graph(&new).on(sim.runtime()).start().unwrap();
    sim.run(async {
        for graph in [&old, &new, &unknown] {
            let id = graph.inspect().nodes[0].id.clone();
            graph.run(Vec::new()).id(id).on(sim.runtime()).checkpoint(&world.store).enqueue().await.unwrap();
        }
        assert_eq!(old.outcome_of("old", &world.store).on(sim.runtime()).await.unwrap(), ["old"]);
        assert_eq!(new.outcome_of("new", &world.store).on(sim.runtime()).await.unwrap(), ["new"]);
        world.pass(60_000).await;
        assert_eq!(world.store.head("unknown").await.unwrap().epoch, 1);

        // One that knows how runs of that version are migrated, and says so.
        let migrations = Migrations::new().rename_node("unknown", "new");
        let options = move |run: pleach::RunOptions<'static, State>| run.migrations(&migrations);
        let next = Worker::new(&world.store).graph_with(&new, options).earlier([unknown.fingerprint()]);
        let next = next.on(sim.runtime()).start().unwrap();
        assert_eq!(new.outcome_of("unknown", &world.store).on(sim.runtime()).await.unwrap(), ["new"]);
        drop(next);
    });
    drop(worker);
}

#[test]
fn c9_a_run_of_a_worker_stands_in_the_tree_whatever_its_id_is() {
    let sim = Sim::new(6);
    let (system, store) = (sim.system("shop"), MemoryStore::on(sim.runtime()));
    let scope = system.scope("work").unwrap();
    let slow = |_: State| std::future::pending::<Result<State, String>>();
    let graph = Graph::new("slow").add_node("slow", slow).add_edge("slow", END).set_entry("slow").compile().unwrap();
    let worker = Worker::new(&store).graph(&graph).name("clerk").start_in(&scope).unwrap();
    let path = |text: &str| text.parse::<ActorPath>().unwrap();
    sim.run(async {
        for id in ["essay-7", "a/../b\n'; DROP TABLE", "essay-8"] {
            graph.run(Vec::new()).id(id).on(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
        }
        sim.sleep(Duration::from_secs(2)).await;
        let desk = system.root().lookup::<WorkerMessage>(&path("/user/work/clerk/desk")).unwrap();
        assert_eq!(desk.ask(WorkerMessage::Held).await.unwrap().len(), 3);
        let run = RunRef::find(&system.root(), &path("/user/work/clerk/runs/essay-7")).unwrap();
        assert_eq!(Some(&run), worker.run("essay-7").as_ref());
        run.cancel("enough").await.unwrap();
        let error = graph.outcome_of("essay-7", &store).on(sim.runtime()).await.unwrap_err();
        assert!(matches!(error.fault(), RunFault::Ended { status: RunStatus::Cancelled, .. }), "{error}");
        let hostile = worker.run("a/../b\n'; DROP TABLE").unwrap();
        assert_eq!(hostile.look().await.unwrap().run, "a/../b\n'; DROP TABLE");
        // The tree shuts down: the worker claims nothing more, and gives up what does not end.
        system.shutdown(Duration::from_secs(3)).await.unwrap_err();
        sim.sleep(Duration::from_secs(1)).await;
        assert_eq!(store.head("essay-8").await.unwrap().owner, None);
    });
}

#[test]
fn c9_a_paused_run_is_given_up_by_its_worker_and_claimed_when_it_is_told_to_go_on() {
    let sim = Sim::new(6);
    let world = World::new(&sim);
    let graph = five(&world);
    let worker = worker(&sim, &MortalStore::new(world.store.clone()), &graph);
    sim.run(async {
        enqueue(&world, &graph, 1).await;
        world.pass(200).await;
        worker.run("run 0").unwrap().pause().await.unwrap();
        world.pass(5_000).await;
        assert!(worker.held().is_empty());
        let starts = world.starts.len();
        RunRemote::new(&world.store, "run 0").signal("go", &1).await.unwrap();
        world.pass(60_000).await;
        assert_eq!((worker.held().len(), world.starts.len()), (0, starts), "other news does not let it go on");
        RunRemote::new(&world.store, "run 0").resume().await.unwrap();
        assert_eq!(graph.outcome_of("run 0", &world.store).on(sim.runtime()).await.unwrap(), finished());
    });
    assert_eq!(world.starts.len(), 5);
}

#[test]
fn c11_a_worker_prunes_runs_that_ended_long_ago() {
    let sim = Sim::new(6);
    let world = World::new(&sim);
    let graph = five(&world);
    let events = Log::<WorkerEvent>::new();
    let seen = events.clone();
    let worker = Worker::new(&world.store).graph(&graph).keep_ended(Duration::from_secs(10 * 3_600));
    let worker = worker.on_event(move |event| seen.push(event.clone())).on(sim.runtime()).start().unwrap();
    sim.run(async {
        enqueue(&world, &graph, 3).await;
        all_finish(&world, 3).await;
        world.pass(9 * 3_600_000).await;
        assert_eq!(world.store.list(Vec::new(), None, 10).await.unwrap().runs.len(), 3);
        world.pass(3 * 3_600_000).await;
        assert!(world.store.list(Vec::new(), None, 10).await.unwrap().runs.is_empty());
        assert_eq!(world.store.prune(Prune::Ended { unchanged_for: Duration::ZERO, count: 9 }).await.unwrap(), 0);
    });
    assert!(events.take().contains(&WorkerEvent::Pruned { runs: 3 }));
    drop(worker);
}

#[test]
fn c15_how_a_run_ended_is_known_to_whoever_waits_for_it_and_to_the_workers_hooks() {
    let sim = Sim::new(6);
    let store = MemoryStore::on(sim.runtime());
    let fail = |_: State| async { Err::<State, _>("no paper") };
    let graph = Graph::new("fail").add_node("fail", fail).add_edge("fail", END).set_entry("fail").compile().unwrap();
    let (ends, seen) = (Log::<RunEnd>::new(), Log::<String>::new());
    let (ended, hooked) = (ends.clone(), seen.clone());
    let listen = move |event: &WorkerEvent| {
        if let WorkerEvent::Ended { end, .. } = event {
            ended.push(end.clone());
        }
    };
    let options = move |run: pleach::RunOptions<'static, State>| {
        let hooked = hooked.clone();
        run.hooks(Hooks::new(move |event: &RunEvent<&State>| {
            if let RunEvent::NodeStarted { visit, .. } = event {
                hooked.note(&visit.node);
            }
        }))
    };
    let worker = Worker::new(&store).graph_with(&graph, options).on_event(listen).on(sim.runtime()).start().unwrap();
    sim.run(async {
        graph.run(vec!["first".into()]).id("r").on(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
        let error = graph.outcome_of("r", &store).on(sim.runtime()).await.unwrap_err();
        assert!(matches!(error.fault(), RunFault::Node(error) if error.node == "fail"), "{error}");
        assert!(error.to_string().contains("no paper"), "{error}");
        assert_eq!(error.into_state(), Some(vec!["first".to_string()]));
        let exists = graph.run(Vec::new()).id("r").on(sim.runtime()).checkpoint(&store).enqueue().await.unwrap_err();
        assert!(matches!(exists.fault(), RunFault::Exists { .. }));
        graph.run(Vec::new()).id("r").on(sim.runtime()).checkpoint(&store).attach().enqueue().await.unwrap();
        let nowhere = graph.run(Vec::new()).on(sim.runtime()).enqueue().await.unwrap_err();
        assert!(nowhere.to_string().contains("checkpoint"), "{nowhere}");
        assert!(graph.outcome_of("unknown", &store).on(sim.runtime()).await.is_err());
        sim.sleep(Duration::from_secs(60)).await;
    });
    assert_eq!(seen.take(), ["fail"], "a run that failed is not claimed again");
    assert!(matches!(&ends.take()[..], [RunEnd::Failed { error }] if error.contains("no paper")));
    drop(worker);
}
