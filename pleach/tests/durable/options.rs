//! C1, C2, C6, C7, C8, C10, C11, C14, C15, F5: options of a stored run apply in any order, and
//! invalid ones are rejected where they are set.
use crate::add_one;
use crate::common::flaky_store::{FlakyStore, WriteFailure};
use crate::common::stored::StoredRunFixture;
use pleach::graph::RunOptions;
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::store::{Lease, MemoryStore, StoreError, Timestamp, Wanted};
use pleach::worker::Worker;
use serde::{Serialize, Serializer};
use std::future::Future as _;

fn ten() -> CompiledGraph<u32> {
    counting_to(10)
}

/// A graph that adds one per visit up to `last`.
fn counting_to(last: u32) -> CompiledGraph<u32> {
    Graph::new("counting")
        .add_node("one", add_one)
        .add_conditional_edge("one", ["one", END], move |n: &u32| if *n < last { "one" } else { END })
        .set_entry("one")
        .compile()
        .unwrap()
}

fn run(fixture: &StoredRunFixture, n: u32) -> RunOptions<'static, u32> {
    ten().run(n).id("r").runtime(fixture.sim.runtime())
}

#[test]
fn c14_attach_can_be_set_before_the_store() {
    let fixture = StoredRunFixture::new(1);
    assert_eq!(fixture.end(run(&fixture, 3).checkpoint(&fixture.store)).unwrap(), 10);
    assert_eq!(fixture.end(run(&fixture, 12).attach().checkpoint(&fixture.store)).unwrap(), 10, "the existing run counts");
    let again = fixture.end(run(&fixture, 12).checkpoint(&fixture.store)).unwrap_err();
    assert!(matches!(again.fault(), RunFault::Exists { .. }), "{again}");
}

#[test]
fn c2_run_whose_commits_never_wait_yields_to_other_tasks() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let mut run = Box::pin(counting_to(170).run(0).id("r").runtime(sim.runtime()).checkpoint(&store).into_future());
    let mut polls = 0;
    let counted = std::future::poll_fn(|cx| {
        polls += 1;
        run.as_mut().poll(cx)
    });
    assert_eq!(sim.run(counted).unwrap(), 170);
    assert!(polls >= 10, "170 commits in {polls} polls");
}

#[test]
fn c2_max_state_bytes_can_be_set_before_the_store() {
    let fixture = StoredRunFixture::new(1);
    let error = fixture.end(run(&fixture, 3).max_state_bytes(0).checkpoint(&fixture.store)).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Checkpoint(_)), "{error}");
}

#[test]
fn c11_keep_records_can_be_set_before_the_store() {
    let fixture = StoredRunFixture::new(1);
    let run = counting_to(300).run(0).id("r").runtime(fixture.sim.runtime());
    fixture.end(run.keep_records(2).checkpoint(&fixture.store)).unwrap();
    assert!(fixture.rows("r").len() < 90, "{} records are kept", fixture.rows("r").len());
}

#[test]
fn c7_schema_can_be_set_before_the_store() {
    let fixture = StoredRunFixture::new(1);
    fixture.end(run(&fixture, 0).schema(7).checkpoint(&fixture.store)).unwrap();
    assert_eq!(fixture.info("r").version.schema, 7);
}

#[test]
fn c10_best_effort_can_be_set_before_the_store_and_survives_a_second_one() {
    let fixture = StoredRunFixture::new(1);
    let flaky = FlakyStore::new(fixture.store.clone());
    flaky.fail_at(3, WriteFailure::Lost);
    assert_eq!(fixture.end(run(&fixture, 0).best_effort().checkpoint(&fixture.store).checkpoint(&flaky)).unwrap(), 10);
}

#[test]
fn c6_lease_can_be_set_before_the_store() {
    let fixture = StoredRunFixture::new(1);
    let node = |n: u32| async move {
        std::future::pending::<()>().await;
        Ok::<_, String>(n)
    };
    let graph = Graph::new("hangs").add_node("hang", node).add_edge("hang", END).set_entry("hang").compile().unwrap();
    let run = graph.run(0).id("r").runtime(fixture.sim.runtime()).lease(Duration::from_secs(7)).checkpoint(&fixture.store);
    let mut run = run.into_future();
    fixture.sim.run(async { assert!(futures::poll!(&mut run).is_pending()) });
    assert_eq!(fixture.info("r").lease_until, Some(Timestamp::from_millis(7_000)));
}

#[test]
fn f5_enqueue_without_a_store_returns_the_state() {
    let fixture = StoredRunFixture::new(1);
    let error = fixture.sim.run(run(&fixture, 3).enqueue()).unwrap_err();
    assert_eq!(error.into_state(), Some(3));
}

/// A value that cannot be serialized.
struct Unserializable;

impl Serialize for Unserializable {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("it cannot be serialized"))
    }
}

#[test]
fn c8_unserializable_answer_is_rejected_with_its_key() {
    let fixture = StoredRunFixture::new(1);
    let asks = |cx: NodeContext, n: u32| async move { Ok::<_, String>(n + cx.interrupt::<u32>("approve", "?").await) };
    let graph = Graph::new("asks").add_node("ask", asks).add_edge("ask", END).set_entry("ask").compile().unwrap();
    let error = fixture.end(fixture.run(&graph, 1)).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Paused { .. }), "{error}");
    let error = fixture.end(fixture.resume(&graph, |resume| resume.resume_with("approve", &Unserializable))).unwrap_err();
    assert!(matches!(error.fault(), RunFault::AnswerRejected { key, .. } if key == "approve"), "{error}");
}

#[test]
fn c15_worker_with_a_zero_lease_is_rejected_at_start() {
    let fixture = StoredRunFixture::new(1);
    let worker = Worker::new(&fixture.store).graph(&ten()).lease(Duration::ZERO).runtime(fixture.sim.runtime());
    let fault = worker.start().expect_err("a zero lease is rejected");
    let RunFault::Checkpoint(error) = &fault else { panic!("{fault}") };
    assert!(error.to_string().contains("lease"), "{error}");
    let none = Lease { owner: "o".to_string(), length: Duration::ZERO };
    let claim = Wanted::One { run: "r".to_string(), force: false };
    assert!(matches!(fixture.sim.run(fixture.store.claim(claim, none)), Err(StoreError::Invalid { .. })));
}

/// Collects answers to questions and signals of the same names.
fn same_names() -> CompiledGraph<Vec<u32>> {
    let node = async |cx: NodeContext, mut received: Vec<u32>| {
        received.push(cx.signal("a").await);
        received.push(cx.interrupt("a", "?").await);
        received.push(cx.signal("a").await);
        received.push(cx.signal("a#2").await);
        received.push(cx.interrupt("a#2", "?").await);
        Ok::<_, String>(received)
    };
    Graph::new("same_names").add_node("hear", node).add_edge("hear", END).set_entry("hear").compile().unwrap()
}

#[test]
fn c8_interrupts_and_signals_with_the_same_name_are_separate() {
    let fixture = StoredRunFixture::new(1);
    let graph = same_names();
    let remote = RunRemote::new(&fixture.store, "r");
    let mut outcome = fixture.end(fixture.run(&graph, Vec::new()));
    let paused = |outcome: &Result<Vec<u32>, RunError<Vec<u32>>>| match outcome {
        Err(error) => match error.fault() {
            RunFault::Paused { keys, .. } => keys.clone(),
            fault => panic!("{fault}"),
        },
        Ok(received) => panic!("{received:?}"),
    };
    // Each wait pauses the run. Each resume reads all earlier answers and signals.
    for (number, (is_signal, key)) in
        [(true, "a"), (false, "a"), (true, "a"), (true, "a#2"), (false, "a#2")].into_iter().enumerate()
    {
        assert_eq!(paused(&outcome), [key]);
        let value = number as u32;
        outcome = if is_signal {
            fixture.sim.run(remote.signal(key, &value)).unwrap();
            fixture.end(fixture.resume(&graph, |resume| resume))
        } else {
            fixture.end(fixture.resume(&graph, |resume| resume.resume_with(key, &value)))
        };
    }
    assert_eq!(outcome.unwrap(), [0, 1, 2, 3, 4]);
}

/// A fixture whose store has another clock than the driver of its runs.
fn with_another_clock(store_time: Duration) -> StoredRunFixture {
    let elsewhere = Sim::new(1);
    elsewhere.advance(store_time);
    StoredRunFixture { store: MemoryStore::on(elsewhere.runtime()), ..StoredRunFixture::new(1) }
}

#[test]
fn c1_first_record_has_the_time_of_the_store() {
    let fixture = with_another_clock(Duration::from_secs(5));
    fixture.end(run(&fixture, 7).checkpoint(&fixture.store)).unwrap();
    let times: Vec<Timestamp> = fixture.history(&ten(), "r").into_iter().map(|checkpoint| checkpoint.at).collect();
    assert_eq!(times, [Timestamp::from_millis(5_000); 4]);
}

#[test]
fn c1_first_records_of_a_fork_have_the_time_of_the_store() {
    let node = async |cx: NodeContext, n: u32| {
        let paid = cx.effect("pay", |_| async { Ok::<_, String>(5) }).await?;
        Ok::<_, String>(n + paid + cx.interrupt::<u32>("approve", "?").await)
    };
    let graph = Graph::new("asks").add_node("ask", node).add_edge("ask", END).set_entry("ask").compile().unwrap();
    let fixture = with_another_clock(Duration::from_secs(5));
    let paused = fixture.end(fixture.run(&graph, 1)).unwrap_err();
    assert!(matches!(paused.fault(), RunFault::Paused { .. }), "{paused}");
    let paused = fixture.end(fixture.resume(&graph, |resume| resume.fork_as("f"))).unwrap_err();
    assert!(matches!(paused.fault(), RunFault::Paused { .. }), "{paused}");
    let five = Timestamp::from_millis(5_000);
    let history = fixture.history(&graph, "f");
    assert!(history.len() >= 3, "the state, the effect and the wait");
    assert!(history.iter().all(|checkpoint| checkpoint.at == five), "{history:?}");
    // Reading a part of the history shows the same checkpoints.
    for (at, checkpoint) in history.iter().enumerate() {
        let page = fixture.sim.run(graph.history("f", &fixture.store).page(at as u64 + 1, 1)).unwrap();
        assert_eq!(&page.checkpoints[..], std::slice::from_ref(checkpoint));
    }
}

#[cfg(feature = "conformance")]
#[test]
fn c11_conformance_suite_is_available_for_other_stores() {
    use crate::common::failing_connection::FailingConnection;
    use pleach::store::conformance;
    use std::sync::Arc;
    pleach::runtime::block_on(conformance::check_all(async || {
        Arc::new(FailingConnection::new(MemoryStore::new())) as Arc<dyn Store>
    }));
}
