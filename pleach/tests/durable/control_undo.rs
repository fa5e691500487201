//! C9: an in-memory run can be inspected while it is undone.
use crate::common::{Gate, Log};
use pleach::durable::RunRemote;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::store::{MemoryStore, RunStatus};

fn failing(gate: &Gate, log: &Log<String>) -> CompiledGraph<u32> {
    let (gate, log) = (gate.clone(), log.clone());
    Graph::<u32>::new("failing")
        .add_node("pay", |cx: NodeContext, n: u32| async move {
            cx.record_undo(n);
            Ok::<_, String>(n)
        })
        .compensate("pay", move |_: NodeContext, n: u32| {
            let (gate, log) = (gate.clone(), log.clone());
            async move {
                log.push(format!("undo {n}"));
                gate.pass().await;
                Ok::<_, String>(())
            }
        })
        .add_node("fail", |_: u32| async { Err::<u32, _>("no money".to_string()) })
        .add_edge("pay", "fail")
        .add_edge("fail", END)
        .set_entry("pay")
        .compile()
        .unwrap()
}

#[test]
fn c9_in_memory_run_can_be_inspected_while_it_is_undone() {
    explore(0..20, |sim: &Sim| {
        let (gate, log) = (Gate::new(), Log::new());
        let scope = sim.scope();
        let run = failing(&gate, &log).run(7).in_scope(&scope).into_future();
        let control = run.control().unwrap().clone();
        sim.run(async {
            sim.sleep(Duration::from_secs(1)).await;
            assert_eq!(log.take(), ["undo 7"]);
            for _ in 0..2 {
                let view = control.view().await.unwrap();
                assert_eq!((view.status, view.visits), (RunStatus::Running, 2));
                // Commands have no effect any more.
                control.cancel("too late").await.unwrap();
            }
            gate.open();
        });
        let error = sim.run(run).unwrap_err();
        assert!(matches!(error.compensation(), Some(pleach::graph::Compensation::Compensated { .. })), "{error}");
    });
}

#[test]
fn o10_view_shows_the_undo_of_a_stored_run_and_since_when_it_waits() {
    explore(0..20, |sim: &Sim| {
        let (gate, log, store) = (Gate::new(), Log::new(), MemoryStore::on(sim.runtime()));
        let scope = sim.scope();
        let run = failing(&gate, &log).run(7).id("r").checkpoint(&store).in_scope(&scope).into_future();
        let remote = RunRemote::new(&store, "r");
        sim.run(async {
            sim.sleep(Duration::from_secs(1)).await;
            let view = remote.view().await.unwrap();
            assert_eq!((view.status, view.is_undoing, view.undone.len()), (RunStatus::Running, true, 0));
            gate.open();
        });
        sim.run(run).unwrap_err();
        let view = sim.run(remote.view()).unwrap();
        assert_eq!((view.status, view.is_undoing), (RunStatus::Compensated, false), "it is over");

        let asking = Graph::<u32>::new("asking")
            .add_node("ask", |cx: NodeContext, _: u32| async move {
                cx.sleep("first", Duration::from_secs(60)).await;
                Ok::<_, String>(cx.interrupt::<u32>("more", "how many?").await)
            })
            .add_edge("ask", END)
            .set_entry("ask")
            .compile()
            .unwrap();
        let begun = sim.run(async { asking.run(0).id("asks").checkpoint(&store).runtime(sim.runtime()).await });
        begun.unwrap_err();
        let created = sim.run(store.head("asks")).unwrap().created;
        let view = sim.run(RunRemote::new(&store, "asks").view()).unwrap();
        let since = view.waits().next().unwrap().since.unwrap();
        assert!(since.since(created) <= Duration::from_secs(61), "{since:?} {created:?}");
    });
}
