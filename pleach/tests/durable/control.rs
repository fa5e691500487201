//! C9: pausing, resuming, cancelling, signalling and inspecting a run, in the tree and in a store.
use crate::common::Log;
use pleach::actor::ActorPath;
use pleach::durable::{RunControlError, RunMessage, RunRef, RunRemote};
use pleach::graph::FanOut;
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::sim::{Sim, explore};
use pleach::store::{MemoryStore, Place, RunStatus, Store};
use pleach::system::LookupError;
use std::sync::Arc;

/// A node that logs its start and takes one second.
fn second(
    name: &'static str,
) -> impl Fn(NodeContext, u32) -> std::pin::Pin<Box<dyn Future<Output = Result<u32, String>> + Send>> {
    move |cx, n| {
        Box::pin(async move {
            cx.extension::<Log<String>>().unwrap().note(name);
            let clock = cx.extension::<Arc<dyn Runtime>>().unwrap();
            clock.sleep_until(clock.now() + Duration::from_secs(1)).await;
            Ok(n + 1)
        })
    }
}

fn three() -> CompiledGraph<u32> {
    Graph::new("three")
        .add_node("a", second("a"))
        .add_node("b", second("b"))
        .add_node("c", second("c"))
        .add_edge("a", "b")
        .add_edge("b", "c")
        .add_edge("c", END)
        .set_entry("a")
        .compile()
        .unwrap()
}

/// A node that waits for two signals and adds them up.
fn adding() -> CompiledGraph<u32> {
    let add = |cx: NodeContext, n: u32| async move {
        let first: u32 = cx.signal("go").await;
        let second: u32 = cx.signal("go").await;
        Ok::<_, String>(n + first * 10 + second)
    };
    Graph::new("adding").add_node("add", add).add_edge("add", END).set_entry("add").compile().unwrap()
}

fn path(text: &str) -> ActorPath {
    text.parse().unwrap()
}

async fn sleep(sim: &Sim, millis: u64) {
    sim.sleep(Duration::from_millis(millis)).await;
}

#[test]
fn c9_run_in_a_scope_is_found_by_path_and_controlled_by_messages() {
    explore(0..30, |sim| {
        let system = sim.system("test");
        let scope = system.scope("runs").unwrap();
        let run = adding().run(1).in_scope(&scope).id("run-7").into_future();
        sim.settle();
        let found = RunRef::find(&system.root(), &path("/user/runs/run-7")).unwrap();
        assert_eq!(Some(&found), run.control());
        sim.run(async {
            let view = found.view().await.unwrap();
            assert_eq!((view.run.as_str(), view.graph.as_str(), view.visits), ("run-7", "adding", 1));
            assert_eq!((view.status, view.is_paused), (RunStatus::Running, false));
            assert_eq!(view.tokens[0].at, Place::Node("add".into()));
            assert_eq!(view.waits().map(|wait| wait.key.as_str()).collect::<Vec<_>>(), ["go"]);
            // As a message to the run's actor, which has a type and a path like any other actor.
            let signal = |reply| RunMessage::Signal { name: "go".into(), dedup: None, payload: b"2".to_vec(), reply };
            found.actor().ask(signal).await.unwrap().unwrap();
            found.signal("go", &3).await.unwrap();
        });
        assert_eq!(sim.run(run).unwrap(), 24);
        // The run has left the tree.
        assert!(matches!(RunRef::find(&system.root(), &path("/user/runs/run-7")), Err(LookupError::NotFound(_))));
        assert!(matches!(sim.run(found.pause()), Err(RunControlError::Gone(_))));
    });
}

#[test]
fn c9_unreadable_signals_are_rejected_and_repeated_ones_count_once() {
    let sim = Sim::new(1);
    let scope = sim.scope();
    let run = adding().run(0).in_scope(&scope).into_future();
    let control = run.control().unwrap().clone();
    sim.run(async {
        control.signal("go", &"no number").await.unwrap();
        control.signal_once("go", "first", &1).await.unwrap();
        control.signal_once("go", "first", &9).await.unwrap();
        control.signal("go", &2).await.unwrap();
    });
    assert_eq!(sim.run(run).unwrap(), 12);

    // The same through a store.
    let store = MemoryStore::on(sim.runtime());
    sim.run(async {
        let remote = adding().run(0).id("r").runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
        remote.signal("go", &"no number").await.unwrap();
        remote.signal_once("go", "first", &1).await.unwrap();
        remote.signal_once("go", "first", &9).await.unwrap();
        remote.signal("go", &2).await.unwrap();
        assert_eq!(adding().resume("r").checkpoint(&store).runtime(sim.runtime()).await.unwrap(), 12);
        assert!(store.inbox("r", 0).await.unwrap().is_empty(), "rejected messages are taken, too");
    });
}

#[test]
fn c9_paused_run_starts_no_node_and_continues_on_resume() {
    explore(0..30, |sim| {
        let (scope, log) = (sim.scope(), Log::<String>::new());
        let run = three().run(0).in_scope(&scope).extension(log.clone()).extension(sim.runtime()).into_future();
        let control = run.control().unwrap().clone();
        sim.run(async {
            sleep(sim, 500).await;
            control.pause().await.unwrap();
            sleep(sim, 5_000).await;
            let view = control.view().await.unwrap();
            assert!(view.is_paused);
            assert_eq!((view.visits, &view.tokens[0].at), (1, &Place::Node("b".into())), "the running node was finished");
            assert_eq!(log.len(), 1);
            control.resume().await.unwrap();
        });
        assert_eq!(sim.run(run).unwrap(), 3);
        assert_eq!(log.take(), ["a", "b", "c"]);
    });
}

#[test]
fn c9_cancelled_run_is_stopped_inside_its_node() {
    let sim = Sim::new(1);
    let (scope, log) = (sim.scope(), Log::<String>::new());
    let run = three().run(0).in_scope(&scope).extension(log).extension(sim.runtime()).into_future();
    let control = run.control().unwrap().clone();
    let error = sim.run(async {
        sleep(&sim, 1_500).await;
        control.cancel("no longer wanted").await.unwrap();
        run.await.unwrap_err()
    });
    let RunFault::Cancelled { node, cause, was_executing, .. } = error.fault() else { panic!("{error}") };
    assert_eq!((node.as_str(), cause, *was_executing), ("b", &Cause::from("no longer wanted"), true));
    assert!(scope.children().is_empty());
    assert!(scope.launch(async {}).is_ok(), "the scope keeps running");
}

#[test]
fn c9_pause_stops_all_branches_and_subgraphs() {
    let inner = |name| {
        Graph::new(name)
            .add_node("x", second("x"))
            .add_node("y", second("y"))
            .add_edge("x", "y")
            .add_edge("y", END)
            .set_entry("x")
            .compile()
            .unwrap()
    };
    let graph = Graph::new("wide")
        .add_node("a", second("a"))
        .map("a", |n: &u32| vec![*n; 50], "x", "end", FanOut::merge(|n: u32, all: Vec<u32>| n + all.len() as u32))
        .add_node("x", second("x"))
        .add_subgraph("sub", inner("inner"), |n| *n, |_, n| n)
        .add_edge("x", "sub")
        .add_edge("sub", "end")
        .add_node("end", second("end"))
        .add_edge("end", END)
        .set_entry("a")
        .compile()
        .unwrap();
    // At every stage: in the first node, in the branches, in each node of the subgraph.
    for (millis, started) in [(500, 1), (1_500, 51), (2_500, 101), (3_500, 151)] {
        let sim = Sim::new(millis);
        let (scope, log) = (sim.scope(), Log::<String>::new());
        let run = graph.run(0).in_scope(&scope).extension(log.clone()).extension(sim.runtime()).into_future();
        let control = run.control().unwrap().clone();
        sim.run(async {
            sleep(&sim, millis).await;
            control.pause().await.unwrap();
            sleep(&sim, 10_000).await;
            assert_eq!(log.len(), started);
            control.resume().await.unwrap();
        });
        assert_eq!(sim.run(run).unwrap(), 52);
        assert_eq!(log.len(), 152);
    }
}

#[test]
fn c9_stored_run_stays_paused_across_drivers_until_resumed() {
    explore(0..30, |sim| {
        let (scope, log, store) = (sim.scope(), Log::<String>::new(), MemoryStore::on(sim.runtime()));
        let graph = three();
        let run = graph.run(0).id("r").checkpoint(&store).in_scope(&scope).extension(log.clone()).extension(sim.runtime());
        let run = run.into_future();
        let control = run.control().unwrap().clone();
        let resume =
            || graph.resume("r").checkpoint(&store).extension(log.clone()).extension(sim.runtime()).runtime(sim.runtime());
        let remote = RunRemote::new(&store, "r");
        sim.run(async {
            sleep(sim, 500).await;
            control.pause().await.unwrap();
            let error = run.await.unwrap_err();
            assert!(matches!(error.fault(), RunFault::Paused { keys, .. } if keys.is_empty()), "{error}");
            assert!(error.to_string().contains("resume"), "{error}");
            let view = remote.view().await.unwrap();
            assert_eq!((view.status, view.is_paused, view.visits), (RunStatus::Waiting, true, 1));
            assert_eq!((&view.tokens[0].at, view.tokens[0].state.as_deref()), (&Place::Node("b".into()), Some("1")));
            assert_eq!(store.head("r").await.unwrap().wake_at, None, "no worker is woken for it");

            // It stays paused with any driver and whatever else is sent to it.
            remote.signal("news", &1).await.unwrap();
            assert!(matches!(resume().await.unwrap_err().fault(), RunFault::Paused { .. }));
            assert_eq!(log.len(), 1);

            remote.resume().await.unwrap();
            assert_eq!(resume().await.unwrap(), 3);
            let left = store.inbox("r", 0).await.unwrap();
            assert_eq!(left.iter().map(|message| message.message.name.as_str()).collect::<Vec<_>>(), ["signal/news"]);
        });
        assert_eq!(log.take(), ["a", "b", "c"]);
    });
}

#[test]
fn c9_pauses_and_resumes_at_any_time_lose_and_repeat_nothing() {
    explore(0..200, |sim| {
        let (scope, log, store) = (sim.scope(), Log::<String>::new(), MemoryStore::on(sim.runtime()));
        let graph = three();
        let runtime = sim.runtime();
        let remote = RunRemote::new(&store, "r");
        let outcome = sim.run(async {
            graph.run(0).id("r").runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
            let (sender, clock) = (remote.clone(), sim.runtime());
            scope
                .launch(async move {
                    for round in 0..6 {
                        clock.sleep_until(clock.now() + Duration::from_millis(clock.random() % 1_500)).await;
                        let sent = if round % 2 == 0 { sender.pause().await } else { sender.resume().await };
                        if matches!(sent, Err(RunControlError::Ended { .. })) {
                            return;
                        }
                        sent.unwrap();
                    }
                })
                .unwrap();
            loop {
                let run =
                    graph.resume("r").checkpoint(&store).extension(log.clone()).extension(sim.runtime()).runtime(sim.runtime());
                match run.await {
                    Ok(n) => return n,
                    Err(error) => assert!(matches!(error.fault(), RunFault::Paused { .. }), "{error}"),
                }
                runtime.sleep_until(runtime.now() + Duration::from_millis(100)).await;
            }
        });
        assert_eq!((outcome, log.take()), (3, ["a", "b", "c"].map(String::from).to_vec()));
    });
}

#[test]
fn c9_stored_run_is_cancelled_permanently_inside_a_node() {
    explore(0..30, |sim| {
        let (log, store) = (Log::<String>::new(), MemoryStore::on(sim.runtime()));
        let graph = three();
        let remote = RunRemote::new(&store, "r");
        // Controlled through the store: the driver reads the inbox while its node is busy.
        let slow = |_: NodeContext, _: u32| std::future::pending::<Result<u32, String>>();
        let stuck = Graph::new("stuck").add_node("slow", slow).add_edge("slow", END).set_entry("slow").compile().unwrap();
        sim.run(async {
            let run = stuck.run(0).id("r").checkpoint(&store).runtime(sim.runtime()).into_future();
            let cancel = async {
                sleep(sim, 5_000).await;
                remote.cancel("out of money").await.unwrap();
            };
            let (ended, ()) = futures::join!(run, cancel);
            let error = ended.unwrap_err();
            let RunFault::Cancelled { node, cause, was_executing, .. } = error.fault() else { panic!("{error}") };
            assert_eq!((node.as_str(), cause, *was_executing), ("slow", &Cause::from("out of money"), true));
            assert!(sim.now().since_start() < Duration::from_secs(7));
            let info = store.head("r").await.unwrap();
            assert_eq!((info.status, info.owner, info.wake_at), (RunStatus::Cancelled, None, None));
            assert!(store.inbox("r", 0).await.unwrap().is_empty(), "the command was taken");
            assert!(matches!(remote.signal("go", &1).await, Err(RunControlError::Ended { status: RunStatus::Cancelled, .. })));
            let again = stuck.resume("r").checkpoint(&store).runtime(sim.runtime()).await.unwrap_err();
            assert!(matches!(again.fault(), RunFault::Ended { status: RunStatus::Cancelled, .. }));

            // A run without a driver ends before its first node.
            let run = graph.run(0).id("s").runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
            run.cancel("").await.unwrap();
            let run =
                graph.resume("s").checkpoint(&store).extension(log.clone()).extension(sim.runtime()).runtime(sim.runtime());
            assert!(matches!(run.await.unwrap_err().fault(), RunFault::Cancelled { cause: Cause::Cancelled, .. }));
            assert_eq!(store.head("s").await.unwrap().status, RunStatus::Cancelled);
        });
        assert_eq!(log.len(), 0);
    });
}

#[test]
fn c9_accepted_signal_survives_its_driver_and_is_taken_once() {
    explore(0..100, |sim| {
        let (scope, store) = (sim.scope(), MemoryStore::on(sim.runtime()));
        let graph = adding();
        let run = graph.run(0).id("r").checkpoint(&store).in_scope(&scope).into_future();
        let control = run.control().unwrap().clone();
        sim.run(async {
            // The run may not be stored yet, or be paused already. Then send the signal through the
            // store.
            match control.signal("go", &7).await {
                Err(RunControlError::Gone(_)) => RunRemote::new(&store, "r").signal("go", &7).await.unwrap(),
                sent => sent.unwrap(),
            }
            // Drop the run at any moment from here on.
            for _ in 0..sim.seed() % 20 {
                sim.yield_now().await;
            }
            drop(run);
            scope.wait_all().await.unwrap();
            RunRemote::new(&store, "r").signal("go", &8).await.unwrap();
            let n = graph.resume("r").checkpoint(&store).runtime(sim.runtime()).await.unwrap();
            assert_eq!(n, 78);
            assert!(store.inbox("r", 0).await.unwrap().is_empty());
        });
    });
}

#[test]
fn c9_interrupt_of_an_in_memory_run_is_answered() {
    let ask = |cx: NodeContext, n: u32| async move {
        let approved: bool = cx.interrupt("approve", &n).await;
        Ok::<_, String>(if approved { n + 1 } else { 0 })
    };
    let graph = Graph::new("ask").add_node("ask", ask).add_edge("ask", END).set_entry("ask").compile().unwrap();
    let sim = Sim::new(3);
    let scope = sim.scope();
    let run = graph.run(4).in_scope(&scope).into_future();
    let control = run.control().unwrap().clone();
    sim.run(async { control.resume_with("approve", &true).await }).unwrap();
    assert_eq!(sim.run(run).unwrap(), 5);
}

#[test]
fn c9_commands_to_an_unknown_run_are_errors() {
    let sim = Sim::new(1);
    let remote = RunRemote::new(&MemoryStore::on(sim.runtime()), "nothing");
    let error = sim.run(remote.pause()).unwrap_err();
    assert!(error.to_string().contains("nothing"), "{error}");
    assert!(sim.run(remote.view()).is_err());
}
