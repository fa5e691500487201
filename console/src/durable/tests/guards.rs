//! Runs that changed between a plan and its order, refusals, and ids with hostile characters.

use super::fixture::{Fixture, on_all_stores};
use super::graphs::{self, Done, Order};
use crate::report::command::quoted;
use pleach::store::RunStatus;
use serde_json::json;
use std::process::Command;
use std::sync::{Arc, Mutex};

on_all_stores!(
    k4_orders_are_refused_if_the_run_has_changed,
    k4_values_are_checked_before_anything_is_sent,
    k4_states_that_a_fork_cannot_take_are_refused_in_the_plan,
    k4_ids_with_hostile_characters_are_planned_and_carried_out,
);

async fn failed(fixture: &Fixture, id: &str) -> pleach::CompiledGraph<Order> {
    let broken = Arc::new(Mutex::new(Some("no truck".to_string())));
    let graph = graphs::shipment(&Done::default(), &broken);
    graph.run(Order::to("Ghent")).id(id).checkpoint(&fixture.store).await.unwrap_err();
    graph
}

async fn k4_orders_are_refused_if_the_run_has_changed(fixture: Fixture) {
    let orders = |run: &str| {
        [
            json!({ "kind": "retry", "run": run }),
            json!({ "kind": "rewind", "run": run, "record": 1 }),
            json!({ "kind": "fork", "run": run, "record": 1, "new": "new" }),
            json!({ "kind": "delete", "run": run }),
        ]
    };
    for (number, order) in orders("").into_iter().enumerate() {
        let (run, mut order) = (format!("run-{number}"), order);
        order["run"] = json!(run);
        failed(&fixture, &run).await;
        let plan = fixture.plan(order.clone()).await;
        // Somebody else retries it meanwhile.
        fixture.remote(&run).retry().await.unwrap();
        let before = fixture.head(&run).await;
        let failure = fixture.act(order.clone(), &plan).await.unwrap_err();
        assert_eq!(failure.code, "changed", "{order}: {failure}");
        assert!(failure.text.contains(&format!("it is running at record {} now", before.head)), "{failure}");
        assert!(failure.advice.is_some());
        assert_eq!(fixture.head(&run).await, before, "{order}");
    }
    // The same id is another run now.
    failed(&fixture, "again").await;
    let pause = json!({ "kind": "signal", "run": "w", "name": "more", "value": "\"x\"" });
    graphs::signal().run(Order::to("Ghent")).id("w").checkpoint(&fixture.store).await.unwrap_err();
    let plan = fixture.plan(pause.clone()).await;
    fixture.store.delete("w").await.unwrap();
    assert_eq!(fixture.act(pause.clone(), &plan).await.unwrap_err().code, "not_found");
    graphs::signal().run(Order::to("Bonn")).id("w").checkpoint(&fixture.store).await.unwrap_err();
    assert_eq!(fixture.act(pause, &plan).await.unwrap_err().code, "changed");
    assert_eq!(fixture.head("w").await.last_message, 0);
    // The question was answered, and the same key is asked anew.
    let graph = graphs::order(&Done::default());
    graph.run(Order::to("Ghent")).id("q").checkpoint(&fixture.store).await.unwrap_err();
    let answer = json!({ "kind": "answer", "run": "q", "key": "approve", "value": "true" });
    let plan = fixture.plan(answer.clone()).await;
    let head = fixture.head("q").await.head;
    fixture.remote("q").rewind_to(1).await.unwrap();
    graph.resume("q").checkpoint(&fixture.store).await.unwrap_err();
    assert!(fixture.head("q").await.head > head);
    assert_eq!(fixture.act(answer, &plan).await.unwrap_err().code, "changed");
}

async fn k4_values_are_checked_before_anything_is_sent(fixture: Fixture) {
    graphs::signal().run(Order::to("Ghent")).id("w").checkpoint(&fixture.store).await.unwrap_err();
    for value in ["", "cake", "{\"a\":1,}", "[1", "1 2", "\u{feff}1", "'x'", "NaN", "\"\u{1}\""] {
        for order in [
            json!({ "kind": "signal", "run": "w", "name": "more", "value": value }),
            json!({ "kind": "answer", "run": "w", "key": "more", "value": value }),
            json!({ "kind": "fork", "run": "w", "record": 1, "new": "new", "state": value }),
        ] {
            let failure = fixture.try_plan(order.clone()).await.unwrap_err();
            assert_eq!(failure.code, "not_json", "{order}: {failure}");
            assert!(failure.text.contains("line ") && failure.advice.is_some(), "{failure}");
        }
    }
    assert_eq!(fixture.head("w").await.last_message, 0);
    // Keys that no store takes are refused, not sent.
    let long = "x".repeat(600);
    for name in ["", long.as_str(), "a\0b"] {
        let order = json!({ "kind": "signal", "run": "w", "name": name, "value": "1" });
        let refused = match fixture.try_plan(order.clone()).await {
            Ok(plan) => fixture.act(order, &plan).await,
            Err(failure) => Err(failure),
        };
        assert!(refused.as_ref().is_err_and(|failure| failure.code == "bad_request"), "{name:?}: {refused:?}");
    }
    let missing = json!({ "kind": "pause", "run": "none" });
    assert_eq!(fixture.try_plan(missing).await.unwrap_err().code, "not_found");
}

async fn k4_states_that_a_fork_cannot_take_are_refused_in_the_plan(fixture: Fixture) {
    // Branches: several states. The record before them has one.
    let graph = graphs::parcels();
    graph.run(vec![1, 2]).id("p").checkpoint(&fixture.store).await.unwrap_err();
    let head = fixture.head("p").await.head;
    let fork = |record: u64, new: &str, state: Option<&str>| json!({ "kind": "fork", "run": "p", "record": record, "new": new, "state": state });
    for record in 1..=head {
        let (new, order) = (format!("of-{record}"), fork(record, &format!("of-{record}"), Some("[7]")));
        let plan = fixture.plan(order.clone()).await;
        let outcome = fixture.act(order, &plan).await.unwrap();
        // The plan and what happens agree, record by record.
        assert_eq!(plan.refusal.is_some(), outcome.outcome == "refused", "record {record}: {plan:?}, {outcome:?}");
        assert_eq!(plan.refusal.is_none(), fixture.store.head(&new).await.is_ok(), "record {record}");
    }
    let plan = fixture.plan(fork(head, "branched", Some("[7]"))).await;
    assert!(plan.refusal.as_deref().is_some_and(|why| why.contains("more than one state")), "{plan:?}");
    assert!(fixture.plan(fork(head, "whole", None)).await.refusal.is_none());
    // A state of the wrong shape: the plan warns, the new run fails, the old one stays.
    let order = fork(1, "wrong", Some("{\"not\": \"a list\"}"));
    let (plan, outcome) = fixture.order(order).await;
    assert!(plan.will.contains(&"if the nodes cannot use this state, the new run fails".to_string()), "{plan:?}");
    assert_eq!(outcome.outcome, "done");
    graph.resume("wrong").checkpoint(&fixture.store).await.unwrap_err();
    let why = fixture.view(json!({ "view": "run", "run": "wrong" })).await;
    assert!(why["why"]["cause"].as_array().is_some_and(|causes| !causes.is_empty()), "{}", why["why"]);
    assert_eq!(fixture.head("p").await.status, RunStatus::Waiting);
    // A run that is being undone uses no state any more.
    let graph = graphs::order(&Done::default());
    graph.run(Order::to("nowhere")).id("u").checkpoint(&fixture.store).await.unwrap_err();
    graph.resume("u").resume_with("approve", &true).checkpoint(&fixture.store).await.unwrap_err();
    let head = fixture.head("u").await.head;
    for record in 1..=head {
        let new = format!("undo-{record}");
        let order = json!({ "kind": "fork", "run": "u", "record": record, "new": new, "state": "{}" });
        let plan = fixture.plan(order.clone()).await;
        let outcome = fixture.act(order, &plan).await.unwrap();
        assert_eq!(plan.refusal.is_some(), outcome.outcome == "refused", "record {record}: {plan:?}, {outcome:?}");
        let order = json!({ "kind": "rewind", "run": "u", "record": record });
        let plan = fixture.plan(order).await;
        let outcome = fixture.remote("u").check_rewind(record).await;
        assert_eq!(plan.refusal.is_some(), outcome.is_err(), "record {record}: {plan:?}, {outcome:?}");
    }
    // A new id that cannot be one.
    for new in ["", "a\0b", "p"] {
        let plan = fixture.plan(fork(1, new, None)).await;
        assert!(plan.refusal.is_some(), "{new:?}");
    }
    let long = "x".repeat(1 << 20);
    assert_eq!(fixture.try_plan(fork(1, &long, None)).await.unwrap_err().code, "bad_request");
    let cancel = json!({ "kind": "cancel", "run": "p", "cancel_reason": long });
    assert_eq!(fixture.try_plan(cancel).await.unwrap_err().code, "bad_request");
}

fn hostile_ids() -> Vec<String> {
    let odd =
        ["<script>alert(1)</script>", "../../etc/passwd", "a b", "-", "'", "\"", "`$(id)`", "\\", "\u{1b}[31m", "a\nb", "%00"];
    let more =
        ["=1+1", "~", "#", "\u{202e}x", "é😀", "a/b?c=d&e#f", "{}", "null", "*", "!x", "\u{feff}", "\u{7f}\u{9b}", "\u{200b}"];
    odd.iter().chain(&more).map(ToString::to_string).chain(["x".repeat(512)]).collect()
}

async fn k4_ids_with_hostile_characters_are_planned_and_carried_out(fixture: Fixture) {
    let graph = graphs::signal();
    for id in hostile_ids() {
        graph.run(Order::to("Ghent")).id(id.as_str()).checkpoint(&fixture.store).await.unwrap_err();
        let view = fixture.view(json!({ "view": "run", "run": id })).await;
        assert_eq!(view["show"]["id"], json!(id));
        let (plan, outcome) = fixture.order(json!({ "kind": "pause", "run": id })).await;
        assert_eq!(plan.title, format!("Pause run {id}"));
        assert_eq!(outcome.outcome, "taken", "{id:?}: {outcome:?}");
        let command = plan.command.unwrap();
        assert!(command.chars().all(|character| !character.is_control()), "{command:?}");
        let (_, outcome) = fixture.order(json!({ "kind": "delete", "run": id })).await;
        assert_eq!(outcome.outcome, "done");
    }
}

/// A shell gets the very id back from a copied command.
#[test]
fn k4_copied_commands_have_the_very_id() {
    for id in hostile_ids() {
        let said = Command::new("bash").arg("-c").arg(format!("printf %s {}", quoted(&id))).output().unwrap();
        let id_of_shell = String::from_utf8(said.stdout).unwrap();
        assert_eq!(id_of_shell, id, "{}", quoted(&id));
    }
}
