//! F6: how many nodes a run may visit in a row and in total.
use crate::common::flaky_store::{FlakyStore, WriteFailure};
use crate::common::side_effects::{SideEffects, with};
use crate::{pass, sum};
use pleach::graph::FanOut;
use pleach::prelude::*;
use pleach::runtime::block_on;
use pleach::sim::Sim;
use pleach::store::{MemoryStore, Store};

/// Fans out over as many documents as its state says.
fn documents() -> CompiledGraph<u32> {
    Graph::new("documents")
        .add_node("list", pass)
        .add_node("read", |_: u32| async { Ok::<_, String>(1) })
        .map("list", |n: &u32| vec![0; *n as usize], "read", END, FanOut::merge(sum))
        .add_edge("read", END)
        .set_entry("list")
        .compile()
        .unwrap()
}

#[test]
fn f6_parallel_branches_do_not_add_up_towards_max_iterations() {
    for n in [1_000, 5_000] {
        assert_eq!(block_on(async { documents().run(n).await }).unwrap(), n);
        let sim = Sim::new(1);
        let run = documents().run(n).checkpoint(&MemoryStore::on(sim.runtime())).runtime(sim.runtime());
        assert_eq!(sim.run(run.into_future()).unwrap(), n);
    }
    let run = |limit| block_on(async { documents().run(9).max_iterations(limit).await });
    assert_eq!(run(2).unwrap(), 9);
    assert!(matches!(run(1).unwrap_err().fault(), RunFault::MaxIterations { limit: 1, next } if next == "read"));
}

#[test]
fn f6_max_visits_limits_the_whole_run() {
    let run = |limit| block_on(async { documents().run(9).max_visits(limit).await });
    assert_eq!(run(10).unwrap(), 9);
    let error = run(9).unwrap_err();
    assert!(matches!(error.fault(), RunFault::MaxVisits { limit: 9, next } if next == "read"), "{error}");
    // A `max_iterations` above the default of `max_visits` raises that default.
    let options = documents().run(9).max_iterations(u64::MAX);
    assert_eq!(block_on(async { options.await }).unwrap(), 9);
}

#[test]
fn f6_run_at_its_limit_resumes_with_a_higher_limit() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let run = documents().run(9).id("r").checkpoint(&store).max_visits(4).runtime(sim.runtime());
    let error = sim.run(run.into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::MaxVisits { limit: 4, .. }), "{error}");
    let run = documents().resume("r").checkpoint(&store).max_visits(10).runtime(sim.runtime());
    assert_eq!(sim.run(run.into_future()).unwrap(), 9);
}

/// An outer loop. Each turn forks into a branch that loops three times and a subgraph of two nodes.
/// The final state is the iteration of `join`.
fn turns() -> CompiledGraph<u32> {
    let inner = Graph::new("inner")
        .add_node("i1", pass)
        .add_node("i2", pass)
        .add_edge("i1", "i2")
        .add_edge("i2", END)
        .set_entry("i1")
        .compile()
        .unwrap();
    let is_third = |cx: &NodeContext, _: &u32| if (cx.iteration() - 2) % 5 < 3 { "turn" } else { "join" };
    Graph::new("turns")
        .add_node("fork", pass)
        .add_node("turn", pass)
        .add_subgraph("sub", inner, |n: &u32| *n, |n: u32, _| n)
        .add_node("join", |cx: NodeContext, _: u32| async move { Ok::<_, String>(cx.iteration() as u32) })
        .add_parallel_edge("fork", ["turn", "sub"], "join", FanOut::merge(sum))
        .add_conditional_edge("turn", ["turn", "join"], is_third)
        .add_edge("sub", "join")
        .add_conditional_edge("join", ["fork", END], |n: &u32| if *n < 15 { "fork" } else { END })
        .set_entry("fork")
        .compile()
        .unwrap()
}

#[test]
fn f6_after_a_join_the_longest_branch_counts() {
    // Each outer turn: `fork`, the longest branch (3 visits in the subgraph, or the inner loop),
    // `join`.
    let end = block_on(async { turns().run(0).await }).unwrap();
    for limit in [u64::from(end) - 1, 3] {
        let error = block_on(async { turns().run(0).max_iterations(limit).await }).unwrap_err();
        assert!(matches!(error.fault(), RunFault::MaxIterations { .. }), "{error}");
    }
    assert_eq!(block_on(async { turns().run(0).max_iterations(u64::from(end)).await }).unwrap(), end);
}

#[test]
fn f6_iteration_counts_survive_a_crash_at_any_commit() {
    let end = block_on(async { turns().run(0).await }).unwrap();
    let mut crashes = 0;
    for at in 2..60 {
        for fate in [WriteFailure::Lost, WriteFailure::Unanswered] {
            let sim = Sim::new(at);
            let (store, outside) = (FlakyStore::new(MemoryStore::on(sim.runtime())), SideEffects::default());
            store.fail_at(at, fate);
            let run = turns().run(0).id("r").checkpoint(&store).max_iterations(u64::from(end));
            let mut outcome = sim.run(with(&sim, &outside, run).into_future());
            if outcome.is_err() {
                crashes += 1;
                let resumed = turns().resume("r").checkpoint(&store).max_iterations(u64::from(end));
                outcome = sim.run(with(&sim, &outside, resumed).into_future());
            }
            assert_eq!(outcome.unwrap(), end, "{at} {fate:?}");
        }
    }
    assert!(crashes > 20, "{crashes}");
}

#[test]
fn f6_rewound_run_continues_with_the_counts_of_its_record() {
    let sim = Sim::new(3);
    let store = MemoryStore::on(sim.runtime());
    let end = sim.run(turns().run(0).id("r").checkpoint(&store).runtime(sim.runtime()).into_future()).unwrap();
    let mut rewound = 0;
    let head = sim.run(async { store.head("r").await }).unwrap().head;
    for to in 1..=head {
        let fork = format!("f{to}");
        let run = turns().resume("r").rewind_to(to).fork_as(&*fork).checkpoint(&store).runtime(sim.runtime());
        match sim.run(run.into_future()) {
            Ok(again) => assert_eq!(again, end, "from {to}"),
            Err(error) if matches!(error.fault(), RunFault::Resume(_)) => continue,
            Err(error) => panic!("{error}"),
        }
        rewound += 1;
    }
    assert!(rewound > 5, "{rewound}");
}

#[test]
fn f6_retries_of_a_subgraph_keep_counting_visits() {
    let inner = || {
        Graph::new("inner")
            .add_node("i1", pass)
            .add_node("i2", |cx: NodeContext, _: u32| async move { Ok::<_, String>(cx.iteration() as u32) })
            .add_conditional_edge("i2", [END], |n: &u32| if *n < 7 { "nowhere" } else { END })
            .add_edge("i1", "i2")
            .set_entry("i1")
            .compile()
            .unwrap()
    };
    let graph = Graph::new("outer")
        .add_subgraph("sub", inner(), |n: &u32| *n, |_: u32, n: u32| n)
        .policy("sub", Policy::new().retry(Retry::times(5)))
        .add_edge("sub", END)
        .set_entry("sub")
        .compile()
        .unwrap();
    assert_eq!(block_on(async { graph.run(0).await }).unwrap(), 7);
    for at in 2..12 {
        for fate in [WriteFailure::Lost, WriteFailure::Unanswered] {
            let sim = Sim::new(1);
            let (store, outside) = (FlakyStore::new(MemoryStore::on(sim.runtime())), SideEffects::default());
            store.fail_at(at, fate);
            let mut outcome = sim.run(with(&sim, &outside, graph.run(0).id("r").checkpoint(&store)).into_future());
            if outcome.is_err() {
                outcome = sim.run(with(&sim, &outside, graph.resume("r").checkpoint(&store)).into_future());
            }
            assert_eq!(outcome.unwrap(), 7, "{at} {fate:?}");
        }
    }
}
