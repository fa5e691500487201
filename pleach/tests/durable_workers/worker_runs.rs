//! C7, C9, C11, C12, C15: what a worker does with single runs: known, waiting and ended ones.
use crate::common::Log;
use crate::common::failing_connection::FailingConnection;
use crate::common::shared_runs::{LEASE, SharedRuns, State, all_finish, enqueue, finished, five, worker};
use pleach::actor::ActorPath;
use pleach::durable::{Migrations, RunRef, RunRemote};
use pleach::graph::{Hooks, Policy, Retry, RunEvent};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::store::{MemoryStore, Prune, RunStatus, Store};
use pleach::worker::{RunEnd, Worker, WorkerEvent, WorkerMessage};

#[test]
fn c12_long_sleeping_run_is_released_and_claimed_when_due() {
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
    let shared = SharedRuns::new(&sim);
    let worker = Worker::new(&shared.store).graph(&graph).lease(LEASE).runtime(sim.runtime()).start().unwrap();
    sim.run(async {
        enqueue(&shared, &graph, 1).await;
        shared.pass(3_000).await;
        assert_eq!(worker.held(), ["run 0"], "a run in a short sleep is held");
        shared.pass(5_000).await;
        assert!(worker.held().is_empty());
        let info = shared.store.head("run 0").await.unwrap();
        assert_eq!((info.status, &info.owner, info.epoch), (RunStatus::Waiting, &None, 2));
        sim.sleep(hour).await;
        assert_eq!(attempts.len(), 1, "it runs when it is due");
        assert!(worker.held().is_empty(), "a run in a long backoff is not held");
        let outcome = graph.outcome_of("run 0", &shared.store).runtime(sim.runtime());
        assert_eq!(outcome.await.unwrap(), State::new());
        assert!(sim.now().since_start() > hour + Duration::from_secs(1_000));
        let info = shared.store.head("run 0").await.unwrap();
        assert_eq!(info.epoch, 5, "claimed once for each wait");
    });
    assert_eq!(attempts.take(), [1, 2, 3]);
}

#[test]
fn c7_worker_claims_only_known_graphs_in_all_their_versions() {
    let sim = Sim::new(4);
    let shared = SharedRuns::new(&sim);
    let named = |node: &'static str| {
        let work = move |mut state: State| async move {
            state.push(node.to_string());
            Ok::<_, String>(state)
        };
        Graph::new("same").add_node(node, work).add_edge(node, END).set_entry(node).compile().unwrap()
    };
    let (old, new, unknown) = (named("old"), named("new"), named("unknown"));
    let worker = Worker::new(&shared.store).graph(&old).graph(&new).runtime(sim.runtime()).start().unwrap();
    sim.run(async {
        for graph in [&old, &new, &unknown] {
            let id = graph.inspect().nodes[0].id.clone();
            graph.run(Vec::new()).id(id).runtime(sim.runtime()).checkpoint(&shared.store).enqueue().await.unwrap();
        }
        assert_eq!(old.outcome_of("old", &shared.store).runtime(sim.runtime()).await.unwrap(), ["old"]);
        assert_eq!(new.outcome_of("new", &shared.store).runtime(sim.runtime()).await.unwrap(), ["new"]);
        shared.pass(60_000).await;
        assert_eq!(shared.store.head("unknown").await.unwrap().epoch, 1);

        // A worker with a migration for that version.
        let migrations = Migrations::new().rename_node("unknown", "new");
        let options = move |run: pleach::graph::RunOptions<'static, State>| run.migrations(&migrations);
        let next = Worker::new(&shared.store).graph_with(&new, options).accept_fingerprints([unknown.fingerprint()]);
        let next = next.runtime(sim.runtime()).start().unwrap();
        assert_eq!(new.outcome_of("unknown", &shared.store).runtime(sim.runtime()).await.unwrap(), ["new"]);
        drop(next);
    });
    drop(worker);
}

#[test]
fn c9_run_of_a_worker_is_in_the_tree_with_any_id() {
    let sim = Sim::new(6);
    let (system, store) = (sim.system("shop"), MemoryStore::on(sim.runtime()));
    let scope = system.scope("jobs").unwrap();
    let slow = |_: State| std::future::pending::<Result<State, String>>();
    let graph = Graph::new("slow").add_node("slow", slow).add_edge("slow", END).set_entry("slow").compile().unwrap();
    let worker = Worker::new(&store).graph(&graph).name("worker").start_in(&scope).unwrap();
    let path = |text: &str| text.parse::<ActorPath>().unwrap();
    sim.run(async {
        for id in ["essay-7", "a/../b\n'; DROP TABLE", "essay-8"] {
            graph.run(Vec::new()).id(id).runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
        }
        sim.sleep(Duration::from_secs(2)).await;
        let control = system.root().lookup::<WorkerMessage>(&path("/user/jobs/worker/control")).unwrap();
        assert_eq!(control.ask(WorkerMessage::Held).await.unwrap().len(), 3);
        let run = RunRef::find(&system.root(), &path("/user/jobs/worker/runs/essay-7")).unwrap();
        assert_eq!(Some(&run), worker.run("essay-7").as_ref());
        run.cancel("enough").await.unwrap();
        let error = graph.outcome_of("essay-7", &store).runtime(sim.runtime()).await.unwrap_err();
        assert!(matches!(error.fault(), RunFault::Ended { status: RunStatus::Cancelled, .. }), "{error}");
        let hostile = worker.run("a/../b\n'; DROP TABLE").unwrap();
        assert_eq!(hostile.view().await.unwrap().run, "a/../b\n'; DROP TABLE");
        // The tree shuts down: the worker claims nothing more and releases runs that do not end.
        system.shutdown(Duration::from_secs(3)).await.unwrap_err();
        sim.sleep(Duration::from_secs(1)).await;
        assert_eq!(store.head("essay-8").await.unwrap().owner, None);
    });
}

#[test]
fn c9_worker_releases_a_paused_run_and_claims_it_on_resume() {
    let sim = Sim::new(6);
    let shared = SharedRuns::new(&sim);
    let graph = five(&shared);
    let worker = worker(&sim, &FailingConnection::new(shared.store.clone()), &graph);
    sim.run(async {
        enqueue(&shared, &graph, 1).await;
        shared.pass(200).await;
        worker.run("run 0").unwrap().pause().await.unwrap();
        shared.pass(5_000).await;
        assert!(worker.held().is_empty());
        let starts = shared.starts.len();
        RunRemote::new(&shared.store, "run 0").signal("go", &1).await.unwrap();
        shared.pass(60_000).await;
        assert_eq!((worker.held().len(), shared.starts.len()), (0, starts), "other messages do not resume it");
        RunRemote::new(&shared.store, "run 0").resume().await.unwrap();
        assert_eq!(graph.outcome_of("run 0", &shared.store).runtime(sim.runtime()).await.unwrap(), finished());
    });
    assert_eq!(shared.starts.len(), 5);
}

#[test]
fn c11_worker_prunes_runs_that_ended_long_ago() {
    let sim = Sim::new(6);
    let shared = SharedRuns::new(&sim);
    let graph = five(&shared);
    let events = Log::<WorkerEvent>::new();
    let seen = events.clone();
    let worker = Worker::new(&shared.store).graph(&graph).keep_ended(Duration::from_secs(10 * 3_600));
    let worker = worker.on_event(move |event| seen.push(event.clone())).runtime(sim.runtime()).start().unwrap();
    sim.run(async {
        enqueue(&shared, &graph, 3).await;
        all_finish(&shared, 3).await;
        shared.pass(9 * 3_600_000).await;
        assert_eq!(shared.store.list(Vec::new(), None, 10).await.unwrap().runs.len(), 3);
        shared.pass(3 * 3_600_000).await;
        assert!(shared.store.list(Vec::new(), None, 10).await.unwrap().runs.is_empty());
        assert_eq!(shared.store.prune(Prune::Ended { unchanged_for: Duration::ZERO, count: 9 }).await.unwrap(), 0);
    });
    assert!(events.take().contains(&WorkerEvent::Pruned { runs: 3 }));
    drop(worker);
}

#[test]
fn c15_waiters_and_worker_hooks_see_how_a_run_ended() {
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
    let options = move |run: pleach::graph::RunOptions<'static, State>| {
        let hooked = hooked.clone();
        run.hooks(Hooks::new(move |event: &RunEvent<&State>| {
            if let RunEvent::NodeStarted { visit, .. } = event {
                hooked.note(&visit.node);
            }
        }))
    };
    let worker = Worker::new(&store).graph_with(&graph, options).on_event(listen).runtime(sim.runtime()).start().unwrap();
    sim.run(async {
        graph.run(vec!["first".into()]).id("r").runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
        let error = graph.outcome_of("r", &store).runtime(sim.runtime()).await.unwrap_err();
        assert!(matches!(error.fault(), RunFault::Node(error) if error.node == "fail"), "{error}");
        assert!(error.to_string().contains("no paper"), "{error}");
        assert_eq!(error.into_state(), Some(vec!["first".to_string()]));
        let exists = graph.run(Vec::new()).id("r").runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap_err();
        assert!(matches!(exists.fault(), RunFault::Exists { .. }));
        graph.run(Vec::new()).id("r").runtime(sim.runtime()).checkpoint(&store).attach().enqueue().await.unwrap();
        let nowhere = graph.run(Vec::new()).runtime(sim.runtime()).enqueue().await.unwrap_err();
        assert!(nowhere.to_string().contains("checkpoint"), "{nowhere}");
        assert!(graph.outcome_of("unknown", &store).runtime(sim.runtime()).await.is_err());
        sim.sleep(Duration::from_secs(60)).await;
    });
    assert_eq!(seen.take(), ["fail"], "a run that failed is not claimed again");
    assert!(matches!(&ends.take()[..], [RunEnd::Failed { error }] if error.contains("no paper")));
    drop(worker);
}
