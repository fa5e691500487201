//! F9: how branches start. A branch that does not wait runs during its start; this must not delay
//! the other branches.
use crate::{pass, sum};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use std::sync::Arc;
use tokio::sync::Barrier;

type Step = pleach::runtime::BoxFuture<'static, Result<u32, String>>;

/// A node that returns its state after that many milliseconds.
fn sleeps(sim: &Sim) -> impl Fn(u32) -> Step + Send + Sync + use<> {
    let runtime = sim.runtime();
    move |n| {
        let sleep = runtime.sleep_until(runtime.now() + Duration::from_millis(u64::from(n)));
        Box::pin(async move {
            sleep.await;
            Ok(n)
        })
    }
}

#[test]
fn f9_nested_fan_outs_of_many_waiting_branches_are_woken() {
    explore(0..20, |sim| {
        let graph = Graph::<u32>::new("wide and deep")
            .add_node("split", pass)
            .add_node("outer", sleeps(sim))
            .add_node("inner", sleeps(sim))
            .add_node("joined", pass)
            .map("split", |n| (1..=*n).collect(), "outer", END, sum)
            .map("outer", |n| vec![*n, 2 * n], "inner", "joined", sum)
            .add_edge("inner", "joined")
            .add_edge("joined", END)
            .set_entry("split")
            .compile()
            .unwrap();
        // Enough branches that each gets its own waker.
        let branches = 100;
        let run = graph.run(branches).runtime(sim.runtime()).into_future();
        assert_eq!(sim.run(run).unwrap(), 3 * (1..=branches).sum::<u32>());
    });
}

#[test]
fn f9_branch_that_fails_at_once_does_not_delay_the_others() {
    let others = 3;
    let all_met = Arc::new(Barrier::new(others));
    let met = Arc::clone(&all_met);
    let graph = Graph::<usize>::new("meeting")
        .add_node("split", |n: usize| async move { Ok::<_, String>(n) })
        .add_node("meet", move |n: usize| {
            let met = Arc::clone(&met);
            async move {
                if n == 0 {
                    return Err("no 0");
                }
                met.wait().await;
                Ok(n)
            }
        })
        .map(
            "split",
            |n| (0..*n).collect(),
            "meet",
            END,
            FanOut::collect(|_, results: Vec<Result<usize, RunError<usize>>>| {
                Ok::<_, String>(results.iter().flatten().count())
            }),
        )
        .add_edge("meet", END)
        .set_entry("split")
        .compile()
        .unwrap();
    let sim = Sim::new(0);
    assert_eq!(sim.run(graph.run(others + 1).runtime(sim.runtime()).into_future()).unwrap(), others);
}
