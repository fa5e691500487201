//! T4, F4, F7: runs inside scopes and actors, and the runtime they use.
use crate::add_one;
use crate::common::Log;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

fn held() -> CompiledGraph<u32> {
    Graph::new("held")
        .add_node("first", add_one)
        .add_node("hold", |n: u32| async move {
            if n > 1 {
                pending::<()>().await;
            }
            Ok::<_, String>(n)
        })
        .add_edge("first", "hold")
        .add_edge("hold", END)
        .set_entry("first")
        .compile()
        .unwrap()
}

#[test]
fn t4_run_in_a_scope_is_one_child_that_exits_once() {
    explore(0..50, |sim| {
        let system = sim.system("test");
        let scope = system.scope("runs").unwrap();
        let log = Log::new();
        let seen = log.clone();
        system.on_event(move |event| {
            if let Event::Ended { path, exit } = event {
                seen.note(format!("{path} {exit}"));
            }
        });
        let graph = held();
        let run = graph.run(0).in_scope(&scope).id("run-7").into_future();
        assert_eq!(scope.children().len(), 1);
        assert!(scope.children()[0].path().to_string().ends_with("/runs/run-7"));
        // The name is taken while the run executes. The state of the second run is returned.
        let second = graph.run(5).in_scope(&scope).id("run-7").into_future();
        let error = sim.run(second).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Refused(pleach::actor::Refusal::NameTaken { .. })));
        assert_eq!(error.into_state(), Some(5));
        assert_eq!(sim.run(run).unwrap(), 1);
        assert!(scope.children().is_empty(), "the outcome arrives after the run has left the scope");
        sim.run(async { scope.wait_all().await }).unwrap();
        assert_eq!(log.take().iter().filter(|line| line.contains("run-7 closed")).count(), 1);
    });
}

#[test]
fn t4_cancelling_the_scope_cancels_the_run_inside_its_node() {
    explore(0..50, |sim| {
        let scope = sim.scope();
        let run = held().run(1).in_scope(&scope).keep_state().into_future();
        let token = scope.token();
        sim.settle();
        assert!(scope.try_wait_all().is_err());
        token.cancel("all of it");
        let error = sim.run(run).unwrap_err();
        let RunFault::Cancelled { node, cause, was_executing, .. } = error.fault() else { panic!("{error}") };
        assert_eq!((node.as_str(), cause, *was_executing), ("hold", &Cause::from("all of it"), true));
        assert_eq!(error.into_state(), Some(2));
        assert_eq!(sim.tasks_alive(), 0);
        // The scope accepts no further runs.
        let error = sim.run(async { held().run(1).in_scope(&scope).await }).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Refused(_)));
    });
}

#[test]
fn t4_dropping_a_run_cancels_it_but_not_its_scope() {
    let sim = Sim::new(1);
    let scope = sim.scope();
    let run = held().run(1).in_scope(&scope).into_future();
    sim.settle();
    drop(run);
    sim.run(async { scope.wait_all().await }).unwrap();
    assert!(scope.launch(async {}).is_ok());
}

#[test]
fn f4_handler_can_run_a_graph_whose_nodes_ask_actors() {
    enum Msg {
        Draft(u32, Reply<u32>),
    }
    struct Writer(CompiledGraph<u32>, ActorRef<Reply<u32>>);
    impl Actor for Writer {
        type Msg = Msg;
        type Error = pleach::Error;

        async fn handle(&mut self, Msg::Draft(n, reply): Msg, _cx: &mut Context<Self>) -> Result<(), pleach::Error> {
            // The run uses the runtime of the actor, so the node timeout runs in virtual time.
            reply.send(self.0.run(n).extension(self.1.clone()).await?);
            Ok(())
        }
    }
    explore(0..50, |sim| {
        let system = sim.system("test");
        let asked = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&asked);
        let oracle = Props::from_fn(
            || (),
            move |_, reply: Reply<u32>| {
                counted.fetch_add(1, SeqCst);
                reply.send(42);
                Ok::<(), pleach::BoxError>(())
            },
        );
        let oracle = system.spawn("oracle", oracle).unwrap();
        let graph = Graph::<u32>::new("asking")
            .add_node("ask", |cx: NodeContext, n: u32| async move {
                let oracle = cx.extension::<ActorRef<Reply<u32>>>().ok_or("no oracle")?;
                Ok::<_, pleach::BoxError>(n + oracle.ask(|reply| reply).await?)
            })
            .add_edge("ask", END)
            .policy("ask", Policy::new().timeout(Duration::from_secs(1)))
            .set_entry("ask")
            .compile()
            .unwrap();
        let writer = Props::new(move || Writer(graph.clone(), oracle.clone()));
        let writer = system.spawn("writer", writer).unwrap();
        assert_eq!(sim.run(async { writer.ask(|reply| Msg::Draft(1, reply)).await }).unwrap(), 43);
        assert_eq!(asked.load(SeqCst), 1);
    });
}

#[tokio::test(start_paused = true)]
async fn f7_run_uses_the_current_tokio_runtime() {
    let graph = held();
    let error = graph.run(1).timeout(Duration::from_secs(3_600)).await.unwrap_err();
    assert!(matches!(error.fault(), RunFault::Cancelled { cause: Cause::DeadlineExceeded, was_executing: true, .. }));
}
