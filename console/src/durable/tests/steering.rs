//! What each action plans, and what it really does: on runs of real graphs with real workers.

use super::fixture::{Fixture, on_all_stores, stop};
use super::graphs::{self, Done, Order};
use pleach::graph::END;
use pleach::prelude::{CompiledGraph, Graph, NodeContext};
use pleach::store::{FailureKind, Held, Lease, Release, RunStatus, TAKEOVERS_MAX, Wanted};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;

on_all_stores!(
    k4_answer_reaches_the_node_and_a_wrong_type_is_refused,
    k4_signal_is_stored_until_a_node_waits_for_it,
    k4_pause_stops_at_the_next_node_and_continue_goes_on,
    k4_cancel_ends_a_run_and_undoes_nothing,
    k4_cancel_while_undos_run_lets_them_finish,
    k4_retry_continues_at_the_failed_node_and_keeps_effects,
    k4_rewind_across_an_effect_runs_it_again,
    k4_fork_with_an_edited_state_keeps_exact_numbers,
    k4_unstick_lets_workers_claim_a_run_again,
    k4_delete_removes_a_run_unless_a_driver_holds_it,
);

/// Runs an order up to its question, without a worker.
async fn asked(fixture: &Fixture, graph: &CompiledGraph<Order>, run: &str, address: &str) {
    graph.run(Order::to(address)).id(run).tag("customer", "ada").checkpoint(&fixture.store).await.unwrap_err();
}

async fn k4_answer_reaches_the_node_and_a_wrong_type_is_refused(fixture: Fixture) {
    let done = Done::default();
    let graph = graphs::order(&done);
    asked(&fixture, &graph, "o", "Ghent").await;
    let yes = json!({ "kind": "answer", "run": "o", "key": "approve", "value": " true\n" });
    let plan = fixture.plan(yes.clone()).await;
    assert_eq!(plan.title, "Answer approve of run o");
    assert_eq!(
        plan.will,
        [
            "node approve gets the answer and continues",
            "if the node cannot use it, the run refuses the answer and keeps waiting",
            "the next worker that claims the run takes it; until then it stays in the inbox",
        ]
    );
    assert_eq!(plan.command.as_deref(), Some("pleach runs answer runs.db o approve true"));
    assert_eq!(fixture.head("o").await.last_message, 0, "a plan sends nothing");
    // A worker is there: a text is refused, and the run keeps waiting.
    let worker = fixture.worker().graph(&graph).start().unwrap();
    let wrong = json!({ "kind": "answer", "run": "o", "key": "approve", "value": "\"banana\"" });
    let (_, outcome) = fixture.order(wrong).await;
    assert_eq!(outcome.outcome, "refused", "{outcome:?}");
    assert!(outcome.text.starts_with("the run refused it: ") && outcome.text.contains("boolean"), "{outcome:?}");
    let waiting = fixture.view(json!({ "view": "waiting" })).await;
    assert!(waiting["waits"][0]["refused"]["reason"].as_str().unwrap().contains("boolean"), "{waiting}");
    let (_, outcome) = fixture.order(yes.clone()).await;
    assert_eq!((outcome.outcome.as_str(), outcome.text.as_str()), ("taken", "the run took the answer"));
    fixture.until("o", |info| info.status == RunStatus::Finished).await;
    assert_eq!(done.taken(), ["charge of pay", "label of ship"]);
    // The run has ended: nothing is sent any more.
    let plan = fixture.plan(yes).await;
    assert_eq!(plan.refusal.as_deref(), Some("the run has ended (finished) and takes no messages"));
    assert!(plan.will.is_empty());
    stop(worker).await;
}

async fn k4_signal_is_stored_until_a_node_waits_for_it(fixture: Fixture) {
    let graph = graphs::signal();
    graph.run(Order::to("Ghent")).id("s").checkpoint(&fixture.store).enqueue().await.unwrap();
    let early = json!({ "kind": "signal", "run": "s", "name": "more", "value": "\"cake\"" });
    let plan = fixture.plan(early.clone()).await;
    assert_eq!(plan.will[0], "the run does not wait for more now; it waits for nothing");
    assert_eq!(plan.will[1], "the signal is stored for the next node that waits for more");
    let started = std::time::Instant::now();
    let outcome = fixture.act(early, &plan).await.unwrap();
    assert_eq!(outcome.outcome, "stored", "{outcome:?}");
    assert!(started.elapsed() < Duration::from_secs(10));
    let worker = fixture.worker().graph(&graph).start().unwrap();
    fixture.until("s", |info| info.status == RunStatus::Finished).await;
    stop(worker).await;
    let state = fixture.view(json!({ "view": "value", "run": "s", "pointer": "/steps" })).await;
    assert_eq!(state["text"], "[\"cake\"]");
}

async fn k4_pause_stops_at_the_next_node_and_continue_goes_on(fixture: Fixture) {
    let graph = graphs::count();
    graph.run(u64::MAX).id("c").max_iterations(u64::MAX).checkpoint(&fixture.store).enqueue().await.unwrap();
    let worker = fixture.worker().graph_with(&graph, |options| options.max_iterations(u64::MAX)).start().unwrap();
    let driver = fixture.until("c", |info| info.owner.is_some() && info.head > 3).await.owner.unwrap();
    let pause = json!({ "kind": "pause", "run": "c" });
    let plan = fixture.plan(pause.clone()).await;
    assert_eq!(plan.will[0], format!("driver {driver} finishes the nodes that run now, and starts no further node"));
    assert!(!plan.is_destructive);
    // The run has written more records since it was planned. A pause does not mind.
    fixture.until("c", |info| info.head > 8).await;
    let outcome = fixture.act(pause.clone(), &plan).await.unwrap();
    assert_eq!((outcome.outcome.as_str(), outcome.text.as_str()), ("taken", "the run is paused"));
    let paused = fixture.head("c").await;
    assert!(paused.owner.is_none() && !paused.status.has_ended(), "{paused:?}");
    let again = fixture.plan(pause).await;
    assert_eq!(again.will[0], "nothing changes: the run is paused");
    assert_eq!(fixture.head("c").await.head, paused.head);
    let (plan, outcome) = fixture.order(json!({ "kind": "continue", "run": "c" })).await;
    assert_eq!(plan.will[0], "workers drive the run again, from where it is");
    assert_eq!(outcome.outcome, "taken");
    fixture.until("c", |info| info.head > paused.head + 2).await;
    stop(worker).await;
}

async fn k4_cancel_ends_a_run_and_undoes_nothing(fixture: Fixture) {
    let done = Done::default();
    let graph = graphs::order(&done);
    asked(&fixture, &graph, "o", "Ghent").await;
    let worker = fixture.worker().graph(&graph).start().unwrap();
    let cancel = json!({ "kind": "cancel", "run": "o", "cancel_reason": "ordered twice" });
    let (plan, outcome) = fixture.order(cancel).await;
    assert!(plan.is_destructive);
    assert_eq!(plan.will[0], "the run ends permanently, with the status cancelled");
    assert!(plan.will.contains(&"completed nodes are not undone: their work stays done".to_string()), "{plan:?}");
    assert_eq!(plan.command.as_deref(), Some("pleach runs cancel runs.db o --reason 'ordered twice'"));
    assert_eq!(outcome.outcome, "taken");
    let info = fixture.head("o").await;
    assert_eq!(info.status, RunStatus::Cancelled);
    let failure = info.failure.unwrap();
    assert_eq!((failure.kind, failure.reason.contains("ordered twice")), (FailureKind::Cancelled, true), "{failure:?}");
    assert_eq!(done.taken(), ["charge of pay"], "no undo");
    stop(worker).await;
}

/// Works, and fails. Its undo waits until the test lets it go on.
fn undoing(open: &Arc<tokio::sync::Semaphore>, done: &Done) -> CompiledGraph<u64> {
    let (open, done) = (Arc::clone(open), done.clone());
    let work = |cx: NodeContext, count: u64| async move {
        cx.record_undo(count);
        Ok::<_, String>(count)
    };
    let undo = move |_cx: NodeContext, count: u64| {
        let (open, done) = (Arc::clone(&open), done.clone());
        async move {
            done.note("undo begins");
            open.acquire().await.map_err(|error| error.to_string())?.forget();
            done.note(format!("undo of work: {count}"));
            Ok::<_, String>(())
        }
    };
    Graph::new("undoing")
        .add_node("work", work)
        .add_node("fail", |_: u64| async { Err::<u64, String>("the shop has closed".into()) })
        .add_edge("work", "fail")
        .add_edge("fail", END)
        .compensate("work", undo)
        .set_entry("work")
        .compile()
        .unwrap()
}

async fn k4_cancel_while_undos_run_lets_them_finish(fixture: Fixture) {
    let (open, done) = (Arc::new(tokio::sync::Semaphore::new(0)), Done::default());
    let graph = undoing(&open, &done);
    graph.run(7).id("u").checkpoint(&fixture.store).enqueue().await.unwrap();
    let worker = fixture.worker().graph(&graph).start().unwrap();
    fixture.until("u", |info| info.failure.is_some()).await;
    let mut look = tokio::time::interval(Duration::from_millis(5));
    while done.taken().is_empty() {
        look.tick().await;
    }
    let cancel = json!({ "kind": "cancel", "run": "u" });
    let plan = fixture.plan(cancel.clone()).await;
    assert_eq!(plan.will[0], "the undos of the run go on; it ends after them");
    let let_go = async {
        fixture.until("u", |info| info.last_message > 0).await;
        open.add_permits(1);
    };
    let (outcome, ()) = tokio::join!(fixture.act(cancel, &plan), let_go);
    let outcome = outcome.unwrap();
    let info = fixture.until("u", |info| info.status.has_ended()).await;
    assert_eq!((info.status, done.taken()), (RunStatus::Compensated, vec!["undo of work: 7".to_string()]), "{outcome:?}");
    assert!(matches!(outcome.outcome.as_str(), "taken" | "refused"), "{outcome:?}");
    stop(worker).await;
}

async fn k4_retry_continues_at_the_failed_node_and_keeps_effects(fixture: Fixture) {
    let (done, broken) = (Done::default(), Arc::new(Mutex::new(Some("no truck".to_string()))));
    let graph = graphs::shipment(&done, &broken);
    graph.run(Order::to("Ghent")).id("f").checkpoint(&fixture.store).await.unwrap_err();
    assert_eq!(done.taken(), ["label of ship"]);
    let retry = json!({ "kind": "retry", "run": "f" });
    let (plan, outcome) = fixture.order(retry.clone()).await;
    assert_eq!(plan.will[0].split(" at ").nth(1), Some("ship"), "{plan:?}");
    assert!(plan.will.contains(&"effect label of ship does not run again: its result is kept".to_string()), "{plan:?}");
    assert!(plan.will.contains(&"no recorded effect runs again".to_string()) && !plan.is_destructive, "{plan:?}");
    assert_eq!((outcome.outcome.as_str(), outcome.record), ("done", Some(fixture.head("f").await.head)));
    // It runs now, so it cannot be retried.
    let refused = fixture.plan(retry.clone()).await;
    assert_eq!(refused.refusal.as_deref(), Some("the run is running, not failed"));
    let refused = fixture.act(retry, &refused).await.unwrap();
    assert_eq!(refused.outcome, "refused", "{refused:?}");
    *broken.lock().unwrap() = None;
    let worker = fixture.worker().graph(&graph).start().unwrap();
    fixture.until("f", |info| info.status == RunStatus::Finished).await;
    assert!(done.taken().is_empty(), "the effect ran again");
    stop(worker).await;
}

async fn k4_rewind_across_an_effect_runs_it_again(fixture: Fixture) {
    let done = Done::default();
    let graph = graphs::order(&done);
    asked(&fixture, &graph, "o", "Ghent").await;
    graph.resume("o").resume_with("approve", &true).checkpoint(&fixture.store).await.unwrap();
    assert_eq!(done.taken(), ["charge of pay", "label of ship"]);
    let head = fixture.head("o").await.head;
    // Nothing would run after the end.
    let at_end = fixture.plan(json!({ "kind": "rewind", "run": "o", "record": head })).await;
    assert!(at_end.refusal.as_deref().is_some_and(|why| why.contains("end")), "{at_end:?}");
    let unknown = fixture.plan(json!({ "kind": "rewind", "run": "o", "record": head + 1 })).await;
    assert!(unknown.refusal.is_some(), "{unknown:?}");
    let (plan, outcome) = fixture.order(json!({ "kind": "rewind", "run": "o", "record": 1 })).await;
    for sentence in [
        "it continues after record 1 at pay",
        "effect charge of pay runs again",
        "effect label of ship runs again",
        "question approve of approve is waited for again",
        "the undo of pay never runs: its work stays done",
        "nothing is deleted: the records after it stay, and it can be rewound to them",
    ] {
        assert!(plan.will.iter().any(|will| will == sentence), "{sentence}: {:?}", plan.will);
    }
    assert!(plan.is_destructive);
    assert_eq!(plan.preview.as_ref().unwrap()["effects_again"].as_array().unwrap().len(), 2);
    assert_eq!((outcome.outcome.as_str(), outcome.record), ("done", Some(fixture.head("o").await.head)));
    let worker = fixture.worker().graph(&graph).start().unwrap();
    fixture.until("o", |info| info.status == RunStatus::Waiting).await;
    assert_eq!(done.taken(), ["charge of pay"]);
    fixture.order(json!({ "kind": "answer", "run": "o", "key": "approve", "value": "true" })).await;
    fixture.until("o", |info| info.status == RunStatus::Finished).await;
    assert_eq!(done.taken(), ["label of ship"]);
    stop(worker).await;
}

async fn k4_fork_with_an_edited_state_keeps_exact_numbers(fixture: Fixture) {
    let done = Done::default();
    let graph = graphs::order(&done);
    asked(&fixture, &graph, "o", "nowhere").await;
    graph.resume("o").resume_with("approve", &true).checkpoint(&fixture.store).await.unwrap_err();
    assert_eq!(done.taken(), ["charge of pay", "label of ship", "undo of pay: 500"]);
    let before = fixture.text(json!({ "run": "o", "record": 1 })).await.unwrap();
    assert!(before.contains("9223372036854775807") && before.contains("0.1"), "{before}");
    let edited = format!("\n{}  ", before.replace("nowhere", "Ghent"));
    let fork = json!({ "kind": "fork", "run": "o", "record": 1, "new": "o b", "state": edited });
    let (plan, outcome) = fixture.order(fork.clone()).await;
    assert_eq!(plan.will[0], "run o b is created; run o stays as it is");
    assert_eq!(plan.will[1], "in the state, /address becomes \"Ghent\"");
    assert!(plan.will.contains(&"effect charge of pay runs again".to_string()) && plan.is_destructive, "{plan:?}");
    assert_eq!((outcome.outcome.as_str(), outcome.run.as_deref()), ("done", Some("o b")));
    let (before, forked) = (fixture.head("o").await, fixture.head("o b").await);
    assert_eq!((before.status, forked.status), (RunStatus::Compensated, RunStatus::Running));
    assert_eq!(forked.tags.get("customer"), Some("ada"));
    assert_eq!(fixture.text(json!({ "run": "o b" })).await.unwrap(), edited.trim());
    let worker = fixture.worker().graph(&graph).start().unwrap();
    fixture.until("o b", |info| info.status == RunStatus::Waiting).await;
    fixture.order(json!({ "kind": "answer", "run": "o b", "key": "approve", "value": "true" })).await;
    fixture.until("o b", |info| info.status == RunStatus::Finished).await;
    assert_eq!(done.taken(), ["charge of pay", "label of ship"]);
    let state = fixture.text(json!({ "run": "o b" })).await.unwrap();
    assert!(state.contains("9223372036854775807") && state.contains("0.1") && state.contains("Ghent"), "{state}");
    // The relatives know each other.
    let view = fixture.view(json!({ "view": "run", "run": "o" })).await;
    assert_eq!((&view["children"][0]["run"], &view["children"][0]["relation"]), (&json!("o b"), &json!("fork")));
    let view = fixture.view(json!({ "view": "run", "run": "o b" })).await;
    assert_eq!((&view["parent"]["run"], &view["parent"]["record"]), (&json!("o"), &json!(1)));
    let again = fixture.plan(fork).await;
    assert_eq!(again.refusal.as_deref(), Some("the store already has a run o b"));
    stop(worker).await;
}

async fn k4_unstick_lets_workers_claim_a_run_again(fixture: Fixture) {
    let graph = graphs::signal();
    graph.run(Order::to("Ghent")).id("s").checkpoint(&fixture.store).await.unwrap_err();
    let unstick = json!({ "kind": "unstick", "run": "s" });
    assert_eq!(fixture.plan(unstick.clone()).await.refusal.as_deref(), Some("the run is waiting, not stuck"));
    for _ in 0..TAKEOVERS_MAX {
        let lease = Lease { owner: "77-dies".into(), length: Duration::from_secs(60) };
        let claim = fixture.store.claim(Wanted::One { run: "s".into(), force: false }, lease).await.unwrap().remove(0);
        let how = Release::Failed { reason: "no printer".into(), delay: Duration::ZERO };
        fixture.store.release(vec![Held::of(&claim.run)], how).await.unwrap();
    }
    let (plan, outcome) = fixture.order(unstick).await;
    assert_eq!(plan.will[1], "the last worker could not drive it: no printer");
    assert_eq!((outcome.outcome.as_str(), outcome.record), ("done", None));
    assert_ne!(fixture.head("s").await.status, RunStatus::Stuck);
    let worker = fixture.worker().graph(&graph).start().unwrap();
    let (_, outcome) = fixture.order(json!({ "kind": "signal", "run": "s", "name": "more", "value": "\"cake\"" })).await;
    assert_eq!(outcome.outcome, "taken");
    fixture.until("s", |info| info.status == RunStatus::Finished).await;
    stop(worker).await;
}

async fn k4_delete_removes_a_run_unless_a_driver_holds_it(fixture: Fixture) {
    let graph = graphs::endless();
    graph.run(1).id("living").checkpoint(&fixture.store).enqueue().await.unwrap();
    let worker = fixture.worker().graph(&graph).start().unwrap();
    fixture.until("living", |info| info.owner.is_some()).await;
    let delete = json!({ "kind": "delete", "run": "living" });
    let plan = fixture.plan(delete.clone()).await;
    assert!(plan.refusal.as_deref().is_some_and(|why| why.ends_with("holds the run: pause it first")), "{plan:?}");
    assert!(plan.is_destructive && plan.will.iter().any(|will| will == "the run is running: it never reaches its end"));
    // Who carries it out nevertheless is refused by the store.
    let outcome = fixture.act(delete.clone(), &plan).await.unwrap();
    assert_eq!(outcome.outcome, "refused", "{outcome:?}");
    for kind in [json!({ "kind": "rewind", "run": "living", "record": 1 }), json!({ "kind": "retry", "run": "living" })] {
        let plan = fixture.plan(kind.clone()).await;
        assert!(plan.refusal.is_some(), "{plan:?}");
        assert_eq!(fixture.act(kind, &plan).await.unwrap().outcome, "refused");
    }
    stop(worker).await;
    fixture.until("living", |info| info.owner.is_none()).await;
    let (_, outcome) = fixture.order(delete.clone()).await;
    assert_eq!(outcome.outcome, "done");
    assert_eq!(fixture.try_plan(delete).await.unwrap_err().code, "not_found");
    assert_eq!(fixture.try_view(json!({ "view": "run", "run": "living" })).await.unwrap_err().code, "not_found");
}
