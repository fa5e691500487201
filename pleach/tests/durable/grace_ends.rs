//! F7, F12, C9: how a cancel grace ends in a stored run: with a state that cannot be stored, with a
//! cancel command, or at the timeout of a fan-out.
use crate::common::Log;
use crate::common::side_effects::rest;
use crate::common::stored::{Names, NodeControl, NodeFuture, StoredRunFixture, merge, named};
use pleach::durable::RunRemote;
use pleach::graph::{Compensation, FanOut, GraceEnd, Hooks, Policy, RunEvent};
use pleach::prelude::*;
use pleach::sim::explore;
use pleach::store::{RunStatus, Store};

const GRACE: Duration = Duration::from_secs(5);
const STATE_BYTES_MAX: usize = 1_000;

/// Charges, waits for its cancel, and one second later returns a state of this many bytes.
fn charging(bytes: usize) -> impl Fn(NodeContext, Names) -> NodeFuture<Names> {
    move |cx, mut names| {
        Box::pin(async move {
            let outside = cx.extension::<NodeControl>().unwrap().outside.clone();
            cx.record_undo("charged".to_string());
            let charged = outside.clone();
            let charge = cx.effect("charge", move |_| async move {
                charged.push("charge".to_string());
                Ok::<_, String>(())
            });
            charge.await?;
            let cause = cx.token().cancelled().await;
            outside.push(format!("saw {cause}"));
            rest(&cx, 1_000).await;
            names.push("x".repeat(bytes));
            Ok(names)
        })
    }
}

async fn refund(cx: NodeContext, _: String) -> Result<(), String> {
    cx.extension::<NodeControl>().unwrap().outside.push("refund".to_string());
    Ok(())
}

type Other = (&'static str, fn(NodeContext, Names) -> NodeFuture<Names>);

fn quick(cx: NodeContext, names: Names) -> NodeFuture<Names> {
    named("quick")(cx, names)
}

fn late(cx: NodeContext, _: Names) -> NodeFuture<Names> {
    Box::pin(async move {
        rest(&cx, 1_000).await;
        Err("no seats left".to_string())
    })
}

/// Two branches, one of which charges, and then a node that can be made to fail.
fn booking(bytes: usize, other: Other, fan_out: FanOut<Names>) -> CompiledGraph<Names> {
    Graph::new("booking")
        .add_node("split", named("split"))
        .add_node(other.0, other.1)
        .add_node("pay", charging(bytes))
        .compensate("pay", refund)
        .policy("pay", Policy::new().cancel_grace(GRACE))
        .add_parallel_edge("split", [other.0, "pay"], "last", fan_out)
        .add_edge(other.0, "last")
        .add_edge("pay", "last")
        .add_node("last", named("last"))
        .add_edge("last", END)
        .set_entry("split")
        .compile()
        .unwrap()
}

fn collect() -> FanOut<Names> {
    FanOut::collect(|mut before: Names, branches: Vec<Result<Names, RunError<Names>>>| {
        before.push(format!("{} failed", branches.iter().filter(|branch| branch.is_err()).count()));
        Ok::<_, String>(before)
    })
}

#[test]
fn f12_state_too_large_after_a_grace_is_undone_and_reported() {
    let timed = |fan_out: FanOut<Names>| fan_out.timeout(Duration::from_secs(2));
    let (late, quick): (Other, Other) = (("late", late), ("quick", quick));
    for seed in 0..10 {
        let fan_outs = [(late, FanOut::merge(merge)), (quick, timed(FanOut::merge(merge))), (quick, timed(collect()))];
        for (other, fan_out) in fan_outs {
            let fixture = StoredRunFixture::new(seed);
            fixture.nodes.fail(&["last"]);
            let started_nodes = Log::new();
            let seen = started_nodes.clone();
            let run = fixture.run(&booking(2_000, other, fan_out), vec![]).max_state_bytes(STATE_BYTES_MAX);
            let run = run.hooks(Hooks::new(move |event: &RunEvent<&Names>| {
                if let RunEvent::NodeFinished { visit, outcome } = event
                    && &*visit.node == "pay"
                {
                    seen.push(outcome.as_ref().err().map(ToString::to_string));
                }
            }));
            let error = fixture.end(run).unwrap_err();
            assert!(
                matches!(error.compensation(), Some(Compensation::Compensated { undone }) if undone == &["pay"]),
                "{error}"
            );
            assert_eq!(fixture.info("r").status, RunStatus::Compensated);
            let outside = fixture.nodes.outside.take();
            assert_eq!((outside[0].as_str(), outside[2].as_str(), outside.len()), ("charge", "refund", 3), "{outside:?}");
            // The node failed because its state could not be stored.
            let [Some(why)] = &started_nodes.take()[..] else { panic!("expected one failed end") };
            assert!(why.contains("max_state_bytes"), "{why}");
        }
    }
}

/// The charging node inside a subgraph, alone or as one of two branches.
fn nested(other: Option<Other>) -> CompiledGraph<Names> {
    let inner = Graph::new("inner")
        .add_node("pay", charging(2_000))
        .compensate("pay", refund)
        .policy("pay", Policy::new().cancel_grace(GRACE))
        .add_edge("pay", END)
        .set_entry("pay")
        .compile()
        .unwrap();
    let graph = Graph::new("outer").add_subgraph("sub", inner, Names::clone, |_, inner| inner).add_edge("sub", END);
    let Some((name, node)) = other else { return graph.set_entry("sub").compile().unwrap() };
    graph
        .add_node("split", named("split"))
        .add_node(name, node)
        .add_parallel_edge("split", [name, "sub"], END, FanOut::merge(merge))
        .add_edge(name, END)
        .set_entry("split")
        .compile()
        .unwrap()
}

#[test]
fn f12_state_too_large_after_a_grace_in_a_subgraph_is_undone() {
    for seed in 0..10 {
        let fixture = StoredRunFixture::new(seed);
        let run = fixture.run(&nested(Some(("late", late))), vec![]).max_state_bytes(STATE_BYTES_MAX);
        let error = fixture.end(run).unwrap_err();
        assert!(
            matches!(error.compensation(), Some(Compensation::Compensated { undone }) if undone == &["sub/pay"]),
            "{error}"
        );
        assert_eq!(fixture.nodes.outside.take(), ["charge", "saw another branch failed", "refund"]);
    }
}

#[test]
fn f7_state_too_large_after_a_grace_is_the_fault_of_the_run() {
    let alone = || {
        let graph = Graph::new("alone").add_node("pay", charging(2_000)).compensate("pay", refund);
        let graph = graph.policy("pay", Policy::new().cancel_grace(GRACE)).add_edge("pay", END).set_entry("pay");
        graph.compile().unwrap()
    };
    for graph in [alone(), nested(None)] {
        let fixture = StoredRunFixture::new(1);
        let run = fixture.run(&graph, vec![]).max_state_bytes(STATE_BYTES_MAX);
        let error = fixture.end(fixture.cut_off_after(run, Duration::from_secs(2))).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Checkpoint(_)), "{error}");
        assert_eq!(fixture.info("r").status, RunStatus::Running, "it can be resumed with a larger limit");
        let run = fixture.resume(&graph, |run| run);
        let error = fixture.end(fixture.cut_off_after(run, Duration::from_secs(2))).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Cancelled { grace: Some(GraceEnd::Finished), .. }), "{error}");
    }
}

#[test]
fn f8_nodes_in_their_grace_end_before_a_run_that_cannot_be_stored() {
    let large = |cx: NodeContext, _: Names| async move {
        rest(&cx, 1_500).await;
        Ok::<_, String>(vec!["x".repeat(2_000)])
    };
    let graph = Graph::new("two levels")
        .add_node("outer", named("outer"))
        .add_node("inner", named("inner"))
        .add_node("large", large)
        .add_node("late", late)
        .add_node("pay", charging(1))
        .compensate("pay", refund)
        .policy("pay", Policy::new().cancel_grace(GRACE))
        .add_parallel_edge("outer", ["inner", "large"], END, FanOut::merge(merge))
        .add_parallel_edge("inner", ["late", "pay"], END, FanOut::merge(merge))
        .add_edge("late", END)
        .add_edge("pay", END)
        .add_edge("large", END)
        .set_entry("outer")
        .compile()
        .unwrap();
    for seed in 0..10 {
        let fixture = StoredRunFixture::new(seed);
        let (started_nodes, seen) = (Log::new(), Log::new());
        let (starts, ends) = (started_nodes.clone(), seen.clone());
        let run =
            fixture.run(&graph, vec![]).max_state_bytes(STATE_BYTES_MAX).hooks(Hooks::new(move |event: &RunEvent<&Names>| {
                match event {
                    RunEvent::NodeStarted { visit, .. } => starts.note(&visit.node),
                    RunEvent::NodeFinished { visit, .. } => ends.note(&visit.node),
                    _ => {}
                }
            }));
        let error = fixture.end(run).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Checkpoint(_)), "{error}");
        let (mut started, mut ended) = (started_nodes.take(), seen.take());
        started.sort();
        ended.sort();
        assert_eq!(started, ended, "every started node reports its end");
    }
}

#[test]
fn f7_node_in_its_grace_sees_the_fan_out_timeout_as_cause() {
    for fan_out in [FanOut::merge(merge), collect()] {
        let fixture = StoredRunFixture::new(1);
        let graph = booking(1, ("quick", quick), fan_out.timeout(Duration::from_secs(2)));
        drop(fixture.end(fixture.run(&graph, vec![])));
        assert_eq!(fixture.nodes.outside.take()[1], format!("saw {}", Cause::DeadlineExceeded));
    }
}

#[test]
fn c9_cancel_command_at_the_end_of_the_last_grace_cancels_the_run() {
    let graph = Graph::new("one")
        .add_node("pay", charging(1))
        .compensate("pay", refund)
        .policy("pay", Policy::new().cancel_grace(GRACE))
        .add_node("last", named("last"))
        .add_edge("pay", "last")
        .add_edge("last", END)
        .set_entry("pay")
        .compile()
        .unwrap();
    explore(0..10, |outer| {
        // The grace lasts from 1 s to 2 s.
        for millis in (1_050..2_000).step_by(50) {
            let fixture = StoredRunFixture::new(outer.seed());
            let token = fixture.sim.token();
            let error = fixture.sim.run(async {
                let run = fixture.run(&graph, vec![]).token(&token).into_future();
                let cancel = async {
                    fixture.sim.sleep(Duration::from_secs(1)).await;
                    token.cancel("enough");
                    fixture.sim.sleep(Duration::from_millis(millis - 1_000)).await;
                    RunRemote::new(&fixture.store, "r").cancel("no longer wanted").await.unwrap();
                };
                futures::join!(run, cancel).0.unwrap_err()
            });
            assert!(matches!(error.fault(), RunFault::Cancelled { .. }), "{millis}: {error}");
            assert_eq!(fixture.info("r").status, RunStatus::Cancelled, "cancelled at {millis} ms");
            assert!(fixture.sim.run(fixture.store.inbox("r", 0)).unwrap().is_empty(), "cancelled at {millis} ms");
        }
    });
}
