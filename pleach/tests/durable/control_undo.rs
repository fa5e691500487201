//! C9: an in-memory run can be inspected while it is undone.
use crate::common::{Gate, Log};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::store::RunStatus;

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
