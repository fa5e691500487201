//! F12: an undo payload is kept for the whole visit, across attempts and crashes. An effect without
//! a payload is reported.
use crate::common::flaky_store::{FlakyStore, WriteFailure};
use crate::common::stored::{Names, NodeControl, NodeFuture, StoredRunFixture, named};
use pleach::graph::Compensation;
use pleach::prelude::*;
use pleach::store::RunStatus;
use pleach::supervise::SupervisorDirective;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Pays once, as an effect.
async fn pay(cx: &NodeContext) -> Result<(), String> {
    let outside = cx.extension::<NodeControl>().unwrap().outside.clone();
    let paid = cx.effect("pay", move |_| async move {
        outside.push("pay".into());
        Ok::<_, String>(())
    });
    paid.await
}

async fn undo<P: Debug>(cx: NodeContext, payload: P) -> Result<(), String> {
    cx.extension::<NodeControl>().unwrap().outside.push(format!("undo {payload:?}"));
    Ok(())
}

/// `first`, which can be undone, and then `ship`.
fn graph_of<P: DeserializeOwned + Debug + Send + 'static>(
    policy: Option<Policy<Names>>,
    first: fn(NodeContext, Names) -> NodeFuture<Names>,
) -> CompiledGraph<Names> {
    let graph = Graph::new("shop")
        .add_node("first", first)
        .compensate("first", undo::<P>)
        .add_node("ship", named("ship"))
        .add_edge("first", "ship")
        .add_edge("ship", END)
        .set_entry("first");
    match policy {
        Some(policy) => graph.policy("first", policy).compile().unwrap(),
        None => graph.compile().unwrap(),
    }
}

fn retries() -> Option<Policy<Names>> {
    Some(Policy::new().retry(Retry::times(3)))
}

/// The compensation and the outside calls if `ship` fails. Checks that a stored and an in-memory
/// run agree.
fn ends(graph: &CompiledGraph<Names>) -> (Option<Compensation>, Vec<String>) {
    let ended = [true, false].map(|is_stored| {
        let fixture = StoredRunFixture::new(1);
        fixture.nodes.fail(&["ship"]);
        let run = if is_stored { fixture.run(graph, vec![]) } else { fixture.here(graph.run(vec![])) };
        let compensation = fixture.end(run).unwrap_err().compensation().cloned();
        if is_stored {
            let status = match &compensation {
                None => RunStatus::Failed,
                Some(Compensation::Compensated { .. }) => RunStatus::Compensated,
                Some(_) => RunStatus::CompensationFailed,
            };
            assert_eq!(fixture.info("r").status, status);
        }
        (compensation, fixture.nodes.outside.take())
    });
    let [stored, not] = ended;
    assert_eq!(stored, not);
    stored
}

fn compensated() -> Option<Compensation> {
    Some(Compensation::Compensated { undone: vec!["first".into()] })
}

/// Pays and records in its first attempt, and fails at once in the others.
fn pays_first(cx: NodeContext, _: Names) -> NodeFuture<Names> {
    Box::pin(async move {
        if cx.attempt() == 1 {
            pay(&cx).await?;
            cx.record_undo("early".to_string());
            cx.record_undo("paid".to_string());
        }
        Err(format!("attempt {}", cx.attempt()))
    })
}

#[test]
fn f12_payload_of_an_earlier_attempt_is_undone_when_the_last_fails() {
    let (compensation, outside) = ends(&graph_of::<String>(retries(), pays_first));
    assert_eq!((compensation, outside), (compensated(), vec!["pay".into(), "undo \"paid\"".into()]));
}

#[test]
fn f12_payload_of_an_earlier_attempt_is_undone_after_success_or_skip() {
    let done: fn(NodeContext, Names) -> NodeFuture<Names> = |cx, names| {
        Box::pin(async move {
            if cx.attempt() > 1 {
                return Ok(names);
            }
            pays_first(cx, names).await
        })
    };
    let expected = (compensated(), vec!["pay".to_string(), "undo \"paid\"".into()]);
    assert_eq!(ends(&graph_of::<String>(retries(), done)), expected);
    let skips = Policy::new().retry(Retry::times(2)).on_error(|failed| match failed.attempt {
        1 => SupervisorDirective::Restart,
        _ => SupervisorDirective::Resume,
    });
    assert_eq!(ends(&graph_of::<String>(Some(skips), pays_first)), expected);
}

#[test]
fn f12_payload_is_durable_with_the_failed_attempt_and_with_effects() {
    // Recorded before the effect, so the payload is stored even if the process dies in between.
    let early: fn(NodeContext, Names) -> NodeFuture<Names> = |cx, _| {
        Box::pin(async move {
            let stage = cx.extension::<NodeControl>().unwrap().clone();
            if stage.outside.len() > 0 {
                return Err("second attempt".into());
            }
            cx.record_undo("paid".to_string());
            pay(&cx).await?;
            stage.enter(&cx).await?;
            Err("last step".into())
        })
    };
    let mut crashes = 0;
    for (graph, at, fate) in [graph_of::<String>(retries(), pays_first), graph_of::<String>(retries(), early)]
        .iter()
        .flat_map(|graph| (2..8).flat_map(move |at| [(graph, at, WriteFailure::Lost), (graph, at, WriteFailure::Unanswered)]))
    {
        let fixture = StoredRunFixture::new(at);
        let store = FlakyStore::new(fixture.store.clone());
        store.fail_at(at, fate);
        fixture.end(fixture.here(graph.run(vec![]).id("r").checkpoint(&store))).unwrap_err();
        while fixture.info("r").status == RunStatus::Running {
            crashes += 1;
            fixture.end(fixture.resume(graph, |run| run)).unwrap_err();
        }
        let outside = fixture.nodes.outside.take();
        // If the payment is not recorded at all, it is repeated or never happened.
        let was_recorded = at > 2 || fate == WriteFailure::Unanswered;
        let was_undone = outside.last().is_some_and(|last| last == "undo \"paid\"");
        assert!(was_undone || !was_recorded, "{at} {fate:?} {outside:?}");
        let status = if was_undone { RunStatus::Compensated } else { RunStatus::Failed };
        assert_eq!(fixture.info("r").status, status, "{at} {fate:?}");
    }
    assert!(crashes > 10, "{crashes}");
}

#[test]
fn f12_effect_without_an_undo_payload_is_reported() {
    let fails: fn(NodeContext, Names) -> NodeFuture<Names> = |cx, _| {
        Box::pin(async move {
            pay(&cx).await?;
            Err("failed before the record".into())
        })
    };
    let done: fn(NodeContext, Names) -> NodeFuture<Names> = |cx, names| Box::pin(async move { pay(&cx).await.map(|()| names) });
    for node in [fails, done] {
        let (compensation, outside) = ends(&graph_of::<String>(None, node));
        let Some(Compensation::CompensationFailed { node, reason, .. }) = compensation else { panic!("{compensation:?}") };
        assert_eq!((node.as_str(), outside), ("first", vec!["pay".to_string()]));
        assert!(reason.contains("record_undo"), "{reason}");
    }
    // An undo that takes no payload is called anyway.
    for node in [fails, done] {
        assert_eq!(ends(&graph_of::<()>(None, node)), (compensated(), vec!["pay".into(), "undo ()".into()]));
        assert_eq!(ends(&graph_of::<Option<String>>(None, node)), (compensated(), vec!["pay".into(), "undo None".into()]));
    }
}

#[test]
fn f12_interrupted_effect_is_undone_since_it_may_have_happened() {
    let stuck: fn(NodeContext, Names) -> NodeFuture<Names> = |cx, _| {
        Box::pin(async move {
            cx.record_undo("paid".to_string());
            let pays = |_| std::future::pending::<Result<(), String>>();
            cx.effect("pay", pays).await.map(|()| vec![])
        })
    };
    let timeout = Policy::new().timeout(Duration::from_secs(1));
    assert_eq!(ends(&graph_of::<String>(Some(timeout), stuck)), (compensated(), vec!["undo \"paid\"".to_string()]));
    // An effect that returned an error did not happen.
    let failing: fn(NodeContext, Names) -> NodeFuture<Names> = |cx, _| {
        Box::pin(async move {
            cx.record_undo("paid".to_string());
            cx.effect("pay", |_| async { Err::<(), _>("no money".to_string()) }).await.map(|()| vec![])
        })
    };
    assert_eq!(ends(&graph_of::<String>(None, failing)), (None, vec![]));
}

#[test]
fn f12_finished_node_without_a_payload_is_undone_once() {
    let done: fn(NodeContext, Names) -> NodeFuture<Names> = |cx, names| named("first")(cx, names);
    assert_eq!(ends(&graph_of::<()>(None, done)), (compensated(), vec!["undo ()".to_string()]));
    // A node that could record a payload but did nothing known has nothing to undo.
    assert_eq!(ends(&graph_of::<String>(None, done)), (None, vec![]));
    // A router that runs again after its node finished is not a second visit.
    let graph = Graph::new("routed")
        .add_node("first", done)
        .compensate("first", undo::<()>)
        .add_node("ship", named("ship"))
        .add_conditional_edge("first", ["ship", END], |_: &Names| -> &str { panic!("no way") })
        .add_edge("ship", END)
        .set_entry("first")
        .compile()
        .unwrap();
    assert_eq!(ends(&graph), (compensated(), vec!["undo ()".to_string()]));
    let fixture = StoredRunFixture::new(1);
    let store = FlakyStore::new(fixture.store.clone());
    store.fail_at(3, WriteFailure::Lost);
    fixture.end(fixture.here(graph.run(vec![]).id("r").checkpoint(&store))).unwrap_err();
    assert_eq!((fixture.info("r").status, fixture.nodes.outside.len()), (RunStatus::Running, 0));
    let error = fixture.end(fixture.resume(&graph, |run| run)).unwrap_err();
    assert_eq!((error.compensation(), fixture.nodes.outside.take()), (compensated().as_ref(), vec!["undo ()".to_string()]));
}
