//! F12: an effect that was cut off in the middle may have happened. The undo of its node is called, and told that its outcome is unknown.
#![cfg(feature = "graph")]

use crate::common::kept::{Names, NodeFuture, Stage, World, merge, named};
use pleach::prelude::*;
use pleach::store::{Kind, RunStatus};
use pleach::{Compensation, FanOut, Policy, Resume, Retry, Runtime, UnknownEffect};
use std::sync::Arc;

/// What the nodes of a process do.
#[derive(Clone, Default)]
enum Told {
    /// `fails` waits forever, and effects never end.
    #[default]
    Hang,
    /// `fails` fails at once: no other node does anything.
    FailAtOnce,
    /// `fails` fails once the others are in the middle of something.
    FailLater,
    /// Effects say that they did not happen.
    Refuse,
}

/// An effect that is done outside and does not come to its end.
fn charging(cx: NodeContext, names: Names) -> NodeFuture<Names> {
    Box::pin(async move {
        let (stage, told) = (cx.extension::<Stage>().unwrap().clone(), cx.extension::<Told>().cloned().unwrap_or_default());
        if let Told::FailAtOnce = told {
            // It comes to nothing before the run fails.
            std::future::pending::<()>().await;
        }
        cx.record_undo(cx.node().to_string());
        let work = move |key: String| async move {
            if let Told::Refuse = told {
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
    let outside = cx.extension::<Stage>().unwrap().outside.clone();
    outside.push(format!("undo {node}"));
    for UnknownEffect { key, idempotency_key, .. } in cx.unknown_effects() {
        outside.push(format!("unknown {key} {idempotency_key}"));
    }
    Ok(())
}

fn failing(cx: NodeContext, _: Names) -> NodeFuture<Names> {
    Box::pin(async move {
        match cx.extension::<Told>() {
            Some(Told::FailAtOnce) => {}
            Some(Told::FailLater) => {
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

/// One branch that fails, and one that charges: itself, or inside a subgraph.
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

/// Ends the driver in the middle of what it does.
fn crash(world: &World, graph: &CompiledGraph<Names>, told: Told) {
    let run = world.run(graph, vec![]).extension(told);
    world.end(world.cut_off_after(run, Duration::from_secs(5))).unwrap_err();
    assert_eq!(world.info("r").status, RunStatus::Running);
}

fn kinds(world: &World, kind: Kind) -> usize {
    world.rows("r").iter().filter(|row| row.open_header("r").unwrap().kind == kind).count()
}

#[test]
fn f12_effect_cut_off_by_a_crash_is_undone_as_unknown() {
    for in_subgraph in [false, true] {
        let (world, graph) = (World::new(1), graph(true, in_subgraph));
        crash(&world, &graph, Told::Hang);
        let error = world.end(world.resume(&graph, |run| run).extension(Told::FailAtOnce)).unwrap_err();
        let node = if in_subgraph { "charges/charges" } else { "charges" };
        let Some(Compensation::Compensated { undone }) = error.compensation() else { panic!("{in_subgraph}: {error}") };
        assert_eq!(undone, &[node]);
        let outside = world.stage.outside.take();
        let key = outside[0].strip_prefix("charge ").unwrap();
        assert_eq!(outside[1..], [format!("undo {node}"), format!("unknown charge {key}")]);
    }
}

#[test]
fn f12_effect_cut_off_in_the_same_process_is_undone_as_unknown() {
    for is_stored in [false, true] {
        let (world, graph) = (World::new(1), graph(true, false));
        let run = if is_stored { world.run(&graph, vec![]) } else { world.here(graph.run(vec![])) };
        let error = world.end(run.extension(Told::FailLater)).unwrap_err();
        assert!(error.compensation().is_some(), "{error}");
        let outside = world.stage.outside.take();
        let key = outside[0].strip_prefix("charge ").unwrap();
        assert_eq!(outside[1..], ["undo charges".to_string(), format!("unknown charge {key}")]);
    }
}

#[test]
fn f12_effect_that_said_it_did_not_happen_is_not_undone_after_a_crash() {
    let (world, graph) = (World::new(1), graph(true, false));
    // It crashes while the second attempt is waited for.
    crash(&world, &graph, Told::Refuse);
    assert_eq!((kinds(&world, Kind::Started), kinds(&world, Kind::Attempt)), (1, 1));
    let error = world.end(world.resume(&graph, |run| run).extension(Told::FailAtOnce)).unwrap_err();
    assert!(error.compensation().is_none(), "{error}");
    assert!(world.stage.outside.take().is_empty());
}

#[test]
fn f12_fork_does_not_undo_an_effect_that_its_origin_began() {
    let (world, graph) = (World::new(1), graph(true, false));
    crash(&world, &graph, Told::Hang);
    let fork = world.resume(&graph, |run: Resume<Names>| run.fork_as("fork")).extension(Told::FailAtOnce);
    let error = world.end(fork).unwrap_err();
    assert!(error.compensation().is_none(), "{error}");
}

#[test]
fn c4_effects_of_nodes_without_an_undo_write_no_more_than_before() {
    let (world, graph) = (World::new(1), graph(false, false));
    crash(&world, &graph, Told::Hang);
    assert_eq!(kinds(&world, Kind::Started), 0);
}

#[test]
fn c4_effect_begun_by_an_earlier_process_is_repeated_with_its_key() {
    let (world, graph) = (World::new(1), graph(true, false));
    crash(&world, &graph, Told::Hang);
    let again = world.resume(&graph, |run| run);
    world.end(world.cut_off_after(again, Duration::from_secs(5))).unwrap_err();
    let outside = world.stage.outside.take();
    assert_eq!((outside.len(), &outside[0]), (2, &outside[1]));
    assert_eq!(kinds(&world, Kind::Started), 1, "that it began is written once");
}
