//! C16: a deadline or a cancel during the last commit of a run. The outcome is the one in the
//! store.
use crate::common::flaky_store::FlakyStore;
use crate::common::stored::{Names, StoredRunFixture, merge, named};
use pleach::graph::FanOut;
use pleach::prelude::*;
use pleach::store::RunStatus;

fn one() -> CompiledGraph<Names> {
    Graph::new("one").add_node("a", named("a")).add_edge("a", END).set_entry("a").compile().unwrap()
}

/// A graph whose last step is a join.
fn joined() -> CompiledGraph<Names> {
    Graph::new("joined")
        .add_node("a", named("a"))
        .add_node("b", named("b"))
        .add_node("c", named("c"))
        .add_parallel_edge("a", ["b", "c"], END, FanOut::merge(merge))
        .add_edge("b", END)
        .add_edge("c", END)
        .set_entry("a")
        .compile()
        .unwrap()
}

/// A graph whose last step is a subgraph.
fn nested() -> CompiledGraph<Names> {
    Graph::new("nested")
        .add_subgraph("sub", one(), Names::clone, |_, inner| inner)
        .add_edge("sub", END)
        .set_entry("sub")
        .compile()
        .unwrap()
}

/// Ends runs of all graphs at every multiple of 25 ms and checks the outcome against the store.
fn end_at_any_time(is_deadline: bool) {
    let (mut finished, mut cut_off) = (0, 0);
    for (number, graph) in [one(), joined(), nested()].into_iter().enumerate() {
        for (millis, records) in (25..2_000).step_by(25).flat_map(|millis| [(millis, 1), (millis, 1_000)]) {
            let fixture = StoredRunFixture::new(millis);
            let store = FlakyStore::new(fixture.store.clone());
            store.commit_slowly(fixture.sim.runtime(), Duration::from_millis(300));
            let run = fixture.here(graph.run(vec![]).id("r").checkpoint(&store)).max_commit_records(records);
            let time = Duration::from_millis(millis);
            let run = if is_deadline { run.timeout(time) } else { fixture.cut_off_after(run, time) };
            let what = format!("graph {number}, {millis} ms, {records} records");
            match (fixture.end(run), fixture.info("r").status) {
                (Ok(_), RunStatus::Finished) => finished += 1,
                (Err(error), status) => {
                    let is_cancel = matches!(error.fault(), RunFault::Cancelled { cause: Cause::DeadlineExceeded, .. });
                    assert!(is_cancel, "{what}: {error}");
                    let expected = if is_deadline { RunStatus::Cancelled } else { RunStatus::Running };
                    assert_eq!(status, expected, "{what}: {error}");
                    cut_off += 1;
                }
                (Ok(_), status) => panic!("{what}: the caller got Ok, but the store has {status:?}"),
            }
        }
    }
    assert!(finished > 100 && cut_off > 20, "{finished} {cut_off}");
}

#[test]
fn c16_deadline_during_the_last_commit_leaves_the_run_finished() {
    end_at_any_time(true);
}

#[test]
fn c16_cancel_during_the_last_commit_leaves_the_run_finished() {
    end_at_any_time(false);
}
