//! F12: an interrupted effect may have happened. Its node is undone, and the undo learns that the
//! outcome is unknown.
use crate::common::stored::{Names, NodeControl, NodeFuture, StoredRunFixture, merge, named};
use pleach::durable::{Resume, UnknownEffect};
use pleach::graph::{Compensation, FanOut, Policy, Retry};
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::store::{Kind, RunStatus};
use std::sync::Arc;

/// The behaviour of the nodes.
#[derive(Clone, Default)]
enum Behaviour {
    /// `fails` waits forever, and effects never end.
    #[default]
    Hang,
    /// `fails` fails at once, before any other node does something.
    FailAtOnce,
    /// `fails` fails while the others are running.
    FailLater,
    /// Effects return an error.
    Refuse,
}

/// An effect that happens outside and never returns.
fn charging(cx: NodeContext, names: Names) -> NodeFuture<Names> {
    Box::pin(async move {
        let (stage, behaviour) =
            (cx.extension::<NodeControl>().unwrap().clone(), cx.extension::<Behaviour>().cloned().unwrap_or_default());
        if let Behaviour::FailAtOnce = behaviour {
            // The run fails before this node does anything.
            std::future::pending::<()>().await;
        }
        cx.record_undo(cx.node().to_string());
        let work = move |key: String| async move {
            if let Behaviour::Refuse = behaviour {
                return Err("declined".to_string());
            }
            stage.outside.push(format!("charge {key}"));
            std::future::pending().await
        };
        cx.effect::<_, _, (), _>("charge", work).await?;
        Ok(names)
    })
}

async fn refund(cx: NodeContext, node: String) -> Result<(), String> {
    let outside = cx.extension::<NodeControl>().unwrap().outside.clone();
    outside.push(format!("undo {node}"));
    for UnknownEffect { key, idempotency_key, .. } in cx.unknown_effects() {
        outside.push(format!("unknown {key} {idempotency_key}"));
    }
    Ok(())
}

fn failing(cx: NodeContext, _: Names) -> NodeFuture<Names> {
    Box::pin(async move {
        match cx.extension::<Behaviour>() {
            Some(Behaviour::FailAtOnce) => {}
            Some(Behaviour::FailLater) => {
                let clock = cx.extension::<Arc<dyn Runtime>>().unwrap();
                clock.sleep_until(clock.now() + Duration::from_secs(1)).await;
            }
            _ => std::future::pending().await,
        }
        Err("no seats left".into())
    })
}

fn retried() -> Policy<Names> {
    Policy::new().retry(Retry::times(3).backoff(Duration::from_secs(10), Duration::from_secs(10)))
}

/// One branch that fails and one that charges, directly or inside a subgraph.
fn graph(has_undo: bool, in_subgraph: bool) -> CompiledGraph<Names> {
    let with_undo = |graph: Graph<Names>| if has_undo { graph.compensate("charges", refund) } else { graph };
    let charges = Graph::new("charges").add_node("charges", charging).policy("charges", retried());
    let charges = with_undo(charges.add_edge("charges", END).set_entry("charges")).compile().unwrap();
    let graph = Graph::new("unknown").add_node("start", named("start"));
    let graph = graph.add_parallel_edge("start", ["fails", "charges"], END, FanOut::merge(merge));
    let graph = match in_subgraph {
        true => graph.add_subgraph("charges", charges, Names::clone, |_, inner| inner),
        false => with_undo(graph.add_node("charges", charging).policy("charges", retried())),
    };
    let graph = graph.add_edge("charges", END).add_node("fails", failing).add_edge("fails", END);
    graph.set_entry("start").compile().unwrap()
}

/// Stops the driver in the middle of its work.
fn crash(fixture: &StoredRunFixture, graph: &CompiledGraph<Names>, behaviour: Behaviour) {
    let run = fixture.run(graph, vec![]).extension(behaviour);
    fixture.end(fixture.cut_off_after(run, Duration::from_secs(5))).unwrap_err();
    assert_eq!(fixture.info("r").status, RunStatus::Running);
}

fn kinds(fixture: &StoredRunFixture, kind: Kind) -> usize {
    fixture.rows("r").iter().filter(|row| row.open_header("r").unwrap().kind == kind).count()
}

#[test]
fn f12_effect_interrupted_by_a_crash_is_undone_as_unknown() {
    for in_subgraph in [false, true] {
        let (fixture, graph) = (StoredRunFixture::new(1), graph(true, in_subgraph));
        crash(&fixture, &graph, Behaviour::Hang);
        let error = fixture.end(fixture.resume(&graph, |run| run).extension(Behaviour::FailAtOnce)).unwrap_err();
        let node = if in_subgraph { "charges/charges" } else { "charges" };
        let Some(Compensation::Compensated { undone }) = error.compensation() else { panic!("{in_subgraph}: {error}") };
        assert_eq!(undone, &[node]);
        let outside = fixture.nodes.outside.take();
        let key = outside[0].strip_prefix("charge ").unwrap();
        assert_eq!(outside[1..], [format!("undo {node}"), format!("unknown charge {key}")]);
    }
}

#[test]
fn f12_effect_interrupted_in_the_same_process_is_undone_as_unknown() {
    for is_stored in [false, true] {
        let (fixture, graph) = (StoredRunFixture::new(1), graph(true, false));
        let run = if is_stored { fixture.run(&graph, vec![]) } else { fixture.here(graph.run(vec![])) };
        let error = fixture.end(run.extension(Behaviour::FailLater)).unwrap_err();
        assert!(error.compensation().is_some(), "{error}");
        let outside = fixture.nodes.outside.take();
        let key = outside[0].strip_prefix("charge ").unwrap();
        assert_eq!(outside[1..], ["undo charges".to_string(), format!("unknown charge {key}")]);
    }
}

#[test]
fn f12_effect_that_returned_an_error_is_not_undone_after_a_crash() {
    let (fixture, graph) = (StoredRunFixture::new(1), graph(true, false));
    // The crash happens during the backoff before the second attempt.
    crash(&fixture, &graph, Behaviour::Refuse);
    assert_eq!((kinds(&fixture, Kind::Started), kinds(&fixture, Kind::Attempt)), (1, 1));
    let error = fixture.end(fixture.resume(&graph, |run| run).extension(Behaviour::FailAtOnce)).unwrap_err();
    assert!(error.compensation().is_none(), "{error}");
    assert!(fixture.nodes.outside.take().is_empty());
}

#[test]
fn f12_fork_does_not_undo_an_effect_of_its_origin() {
    let (fixture, graph) = (StoredRunFixture::new(1), graph(true, false));
    crash(&fixture, &graph, Behaviour::Hang);
    let fork = fixture.resume(&graph, |run: Resume<Names>| run.fork_as("fork")).extension(Behaviour::FailAtOnce);
    let error = fixture.end(fork).unwrap_err();
    assert!(error.compensation().is_none(), "{error}");
}

#[test]
fn c4_effect_of_a_node_without_an_undo_writes_no_begin_record() {
    let (fixture, graph) = (StoredRunFixture::new(1), graph(false, false));
    crash(&fixture, &graph, Behaviour::Hang);
    assert_eq!(kinds(&fixture, Kind::Started), 0);
}

#[test]
fn c4_effect_begun_by_an_earlier_process_is_repeated_with_its_key() {
    let (fixture, graph) = (StoredRunFixture::new(1), graph(true, false));
    crash(&fixture, &graph, Behaviour::Hang);
    let again = fixture.resume(&graph, |run| run);
    fixture.end(fixture.cut_off_after(again, Duration::from_secs(5))).unwrap_err();
    let outside = fixture.nodes.outside.take();
    assert_eq!((outside.len(), &outside[0]), (2, &outside[1]));
    assert_eq!(kinds(&fixture, Kind::Started), 1, "one begin record");
}
