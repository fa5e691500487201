//! What the home page says about a store: each kind of problem, provoked on real runs.

use super::fixture::{AnyStore, Fixture, on_all_stores, stop};
use super::graphs::{self, Done, Order};
use super::probe::Probe;
use crate::home;
use crate::problem::Problem;
use crate::source::Findings;
use crate::sources::Sources;
use pleach::graph::END;
use pleach::prelude::{CompiledGraph, Graph, NodeContext};
use pleach::store::{Held, Lease, MemoryStore, Release, TAKEOVERS_MAX, Wanted};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;

on_all_stores!(
    k3_failed_runs_are_grouped_by_their_error,
    k3_failed_undos_and_stuck_runs_say_what_to_do,
    k3_late_leases_and_deadlines_are_reported,
    k3_questions_and_refused_answers_are_reported,
);

const DAY: Duration = Duration::from_secs(24 * 3_600);

fn only<'a>(found: &'a Findings, kind: &str) -> &'a Problem {
    let mut of_kind = found.problems.iter().filter(|problem| problem.kind == kind);
    let problem = of_kind.next().unwrap_or_else(|| panic!("no {kind}: {found:?}"));
    assert!(of_kind.next().is_none(), "more than one {kind}");
    problem
}

fn commands(problem: &Problem) -> Vec<&str> {
    problem.advice.iter().filter_map(|advice| advice.command.as_deref()).collect()
}

/// The views where a problem is solved, as JSON.
fn views(problem: &Problem) -> Vec<serde_json::Value> {
    problem.advice.iter().filter_map(|advice| advice.view.as_ref()).map(|view| json!(view)).collect()
}

fn is_quiet(found: &Findings, text: &str) -> bool {
    found.quiet.iter().any(|quiet| quiet.source == "s0" && quiet.text == text)
}

async fn fail(fixture: &Fixture, id: &str, reason: &str) {
    let graph = graphs::shipment(&Done::default(), &Arc::new(Mutex::new(Some(reason.to_string()))));
    graph.run(Order::to("Ghent")).id(id).checkpoint(&fixture.store).await.unwrap_err();
}

async fn k3_failed_runs_are_grouped_by_their_error(fixture: Fixture) {
    let found = fixture.examine().await;
    assert!(found.problems.is_empty() && !found.is_cut, "{found:?}");
    for text in [
        "No run has failed",
        "No undo has failed",
        "No run is stuck",
        "Every run that is due is served",
        "No lease is late",
        "Workers can drive every run that they claim",
        "No run waits for a person",
        "No run has refused an answer",
        "No damaged run was found",
    ] {
        assert!(is_quiet(&found, text), "{text}: {:?}", found.quiet);
    }
    for number in 0..3 {
        fail(&fixture, &format!("road {number}"), &format!("no truck\nparcel {number}")).await;
    }
    fail(&fixture, "sea", "no ship").await;
    // Long errors that differ only at their end are two problems with two keys.
    let long = "x".repeat(120);
    fail(&fixture, "long-1", &format!("{long}1")).await;
    fail(&fixture, "long-2", &format!("{long}2")).await;
    let found = fixture.examine().await;
    assert_eq!(found.problems.len(), 4, "{found:?}");
    let road = &found.problems[0];
    let newest = road.run.clone().unwrap();
    assert_eq!((road.title.as_str(), road.count), ("3 runs failed at node ship", 3));
    assert_eq!(road.cause.as_deref().and_then(|cause| cause.lines().next()), Some("no truck"));
    assert_eq!(road.so, ["no worker continues it until it is retried"]);
    assert!(newest.starts_with("road ") && road.since.is_some() && json!(road.severity) == "error", "{road:?}");
    assert_eq!(commands(road), [format!("pleach why runs.db '{newest}'")], "one command cannot retry three runs");
    assert_eq!(views(road)[0], json!({ "view": "run", "store": "s0", "run": newest }));
    assert_eq!(views(road)[1]["filters"]["status"], json!(["failed"]));
    let sea = found.problems.iter().find(|problem| problem.run.as_deref() == Some("sea")).unwrap();
    assert_eq!(sea.title, "Run sea failed at node ship");
    assert_eq!(commands(sea), ["pleach why runs.db sea", "pleach runs retry runs.db sea"]);
    let mut keys: Vec<&String> = found.problems.iter().map(|problem| &problem.key).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 4, "{keys:?}");
    assert_eq!(fixture.examine().await.problems, found.problems, "the same at the next look");
    // After a day it is a warning.
    fixture.later(2 * DAY);
    let found = fixture.examine().await;
    assert!(found.problems.iter().all(|problem| json!(problem.severity) == "warning"), "{found:?}");
}

/// Works, and fails. Its undo fails too.
fn refund() -> CompiledGraph<u64> {
    let work = |cx: NodeContext, count: u64| async move {
        cx.record_undo(count);
        Ok::<_, String>(count)
    };
    Graph::new("refund")
        .add_node("work", work)
        .add_node("close", |_: u64| async { Err::<u64, String>("the shop has closed".into()) })
        .add_edge("work", "close")
        .add_edge("close", END)
        .compensate("work", |_cx: NodeContext, _: u64| async { Err::<(), _>("the bank refused the refund".to_string()) })
        .set_entry("work")
        .compile()
        .unwrap()
}

/// Claims a run and releases it with trouble, this often.
async fn trouble(fixture: &Fixture, id: &str, times: u32) {
    for _ in 0..times {
        let lease = Lease { owner: "77-dies".into(), length: Duration::from_secs(60) };
        let claim = fixture.store.claim(Wanted::One { run: id.into(), force: false }, lease).await.unwrap().remove(0);
        let how = Release::Failed { reason: "no printer".into(), delay: Duration::from_secs(60) };
        fixture.store.release(vec![Held::of(&claim.run)], how).await.unwrap();
    }
}

async fn k3_failed_undos_and_stuck_runs_say_what_to_do(fixture: Fixture) {
    refund().run(1).id("r").checkpoint(&fixture.store).await.unwrap_err();
    for id in ["s1", "s2", "t"] {
        graphs::signal().run(Order::to("Ghent")).id(id).checkpoint(&fixture.store).await.unwrap_err();
    }
    trouble(&fixture, "s1", TAKEOVERS_MAX).await;
    trouble(&fixture, "t", 1).await;
    let found = fixture.examine().await;
    let undo = only(&found, "undo_failed");
    assert_eq!(undo.title, "Run r failed at node close, and an undo failed too");
    assert!(undo.cause.as_deref().is_some_and(|cause| cause.contains("the shop has closed")), "{undo:?}");
    let why = fixture.view(json!({ "view": "run", "run": "r" })).await;
    assert!(why["why"]["cause"].to_string().contains("the bank refused the refund"), "{}", why["why"]);
    assert_eq!(undo.so, ["the work of earlier nodes is still done"]);
    assert_eq!(commands(undo), ["pleach why runs.db r", "pleach runs retry runs.db r"]);
    let stuck = only(&found, "run_stuck");
    assert!(stuck.title.starts_with("Run s1 is stuck"), "{}", stuck.title);
    assert_eq!((stuck.cause.as_deref(), stuck.so[0].as_str()), (Some("no printer"), "no worker claims it any more"));
    assert_eq!(commands(stuck), ["pleach why runs.db s1", "pleach runs unstick runs.db s1"]);
    let tried = only(&found, "trouble");
    assert_eq!((tried.title.as_str(), tried.count), ("1 run could not be driven: no printer", 1));
    assert_eq!((json!(tried.severity), tried.run.as_deref()), (json!("warning"), Some("t")));
    assert_eq!(tried.so, ["workers try again; after 5 attempts without progress a run is stuck"]);
    trouble(&fixture, "s2", TAKEOVERS_MAX).await;
    assert!(only(&fixture.examine().await, "run_stuck").title.starts_with("2 runs are stuck"));
    // A stuck run stays an error, however old it is.
    fixture.later(2 * DAY);
    assert_eq!(json!(only(&fixture.examine().await, "run_stuck").severity), "error");
}

async fn k3_late_leases_and_deadlines_are_reported(fixture: Fixture) {
    let graph = graphs::endless();
    for id in ["a", "b"] {
        let run = graph.run(1).id(id).timeout(Duration::from_secs(3_000)).checkpoint(&fixture.store);
        run.enqueue().await.unwrap();
    }
    for id in ["a", "b"] {
        let lease = Lease { owner: "4711-7-driver".into(), length: Duration::from_secs(30) };
        fixture.store.claim(Wanted::One { run: id.into(), force: false }, lease).await.unwrap();
    }
    let now = fixture.examine().await;
    assert!(is_quiet(&now, "No lease is late") && now.problems.is_empty(), "{now:?}");
    let workers = fixture.view(json!({ "view": "workers" })).await;
    assert_eq!(workers["workers"][0]["name"], "4711-7-driver");
    assert_eq!((&workers["workers"][0]["runs"], &workers["workers"][0]["late"]), (&json!(2), &json!(0)));
    assert_eq!(workers["workers"][0]["process"], 4711);
    fixture.later(Duration::from_secs(35));
    assert!(is_quiet(&fixture.examine().await, "No lease is late"), "workers look every few seconds");
    fixture.later(Duration::from_secs(60));
    let found = fixture.examine().await;
    let lost = only(&found, "lease_late");
    assert_eq!(lost.title, "Driver 4711-7-driver (process 4711) lost its leases on 2 runs");
    assert!(lost.cause.is_some() && lost.since.is_some() && lost.count == 2, "{lost:?}");
    assert_eq!(lost.so, ["2 runs wait until another worker takes them over"]);
    assert_eq!(views(lost)[0], json!({ "view": "workers", "store": "s0" }));
    let workers = fixture.view(json!({ "view": "workers" })).await;
    assert_eq!(workers["workers"][0]["late"], json!(2));
    assert!(!found.problems.iter().any(|problem| problem.kind == "past_deadline"));
    fixture.later(Duration::from_secs(4_000));
    let found = fixture.examine().await;
    let late = only(&found, "past_deadline");
    assert_eq!((late.title.as_str(), late.count, json!(late.severity)), ("2 runs past the deadline", 2, json!("error")));
    assert_eq!(late.so, ["the next driver cancels them"]);
}

async fn k3_questions_and_refused_answers_are_reported(fixture: Fixture) {
    let graph = graphs::order(&Done::default());
    for id in ["o1", "o2"] {
        graph.run(Order::to("Ghent")).id(id).checkpoint(&fixture.store).await.unwrap_err();
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    graphs::signal().run(Order::to("Ghent")).id("s").checkpoint(&fixture.store).await.unwrap_err();
    graphs::timer().run(Order::to("Ghent")).id("t").checkpoint(&fixture.store).enqueue().await.unwrap();
    let worker = fixture.worker().graph(&graph).graph(&graphs::timer()).hold_waiting_for(Duration::ZERO).start().unwrap();
    fixture.until("t", |info| info.head > 1 && info.owner.is_none()).await;
    let found = fixture.examine().await;
    let asked = only(&found, "waits_for_person");
    assert_eq!((asked.title.as_str(), asked.count, json!(asked.severity)), ("2 runs wait for a person", 2, json!("waiting")));
    assert_eq!((asked.cause.as_deref(), asked.run.as_deref()), (Some("open questions: approve (2)"), Some("o1")));
    assert_eq!(commands(asked), ["pleach runs list runs.db --status waiting", "pleach why runs.db o1"]);
    assert_eq!(views(asked)[0]["view"], "waiting");
    assert!(is_quiet(&found, "1 run waits for a signal"), "{:?}", found.quiet);
    let why = fixture.view(json!({ "view": "run", "run": "o1" })).await;
    assert_eq!(why["why"]["cause"][0], "node \"approve\" waits for an answer to approve: Ship to Ghent?");
    // A wrong answer to one of them.
    let wrong = json!({ "kind": "answer", "run": "o2", "key": "approve", "value": "\"yes\"" });
    assert_eq!(fixture.order(wrong).await.1.outcome, "refused");
    let found = fixture.examine().await;
    let refused = only(&found, "answer_refused");
    assert_eq!(
        (refused.title.as_str(), json!(refused.severity)),
        ("Run o2 refused the last answer to approve", json!("warning"))
    );
    assert_eq!(refused.so, ["the run keeps waiting for another one"]);
    assert!(refused.cause.as_deref().is_some_and(|cause| cause.contains("boolean")), "{refused:?}");
    for id in ["o1", "o2"] {
        fixture.order(json!({ "kind": "answer", "run": id, "key": "approve", "value": "true" })).await;
        fixture.until(id, |info| info.status.has_ended()).await;
    }
    let found = fixture.examine().await;
    assert!(found.problems.is_empty() && is_quiet(&found, "No run waits for a person"), "{found:?}");
    stop(worker).await;
}

#[tokio::test]
async fn k3_runs_that_no_worker_serves_say_why() {
    let store: AnyStore = Arc::new(MemoryStore::new());
    let probe = Probe::new(store);
    probe.report_overdue_at_once();
    let fixture = Fixture::of(&probe);
    for number in 0..12 {
        graphs::count().run(5).id(format!("c{number}")).checkpoint(&fixture.store).enqueue().await.unwrap();
    }
    let found = fixture.examine().await;
    let unserved = only(&found, "unserved");
    let fingerprint = graphs::count().export().graph.fingerprint;
    assert_eq!(unserved.title, format!("No worker serves 10 or more runs of graph count ({fingerprint}, schema 0)"));
    assert!(unserved.cause.as_deref().is_some_and(|why| why.ends_with("no worker drives any run of this store now")));
    assert_eq!((unserved.so[0].as_str(), unserved.run.as_deref()), ("they do not continue", Some("c0")));
    assert_eq!(commands(unserved), ["pleach check runs.db --graphs FILE.json", "pleach why runs.db c0"]);
    // A worker that has another graph.
    graphs::endless().run(1).id("e").checkpoint(&fixture.store).enqueue().await.unwrap();
    let worker = fixture.worker().graph(&graphs::endless()).start().unwrap();
    fixture.until("e", |info| info.owner.is_some()).await;
    let found = fixture.examine().await;
    let why = only(&found, "unserved").cause.clone().unwrap();
    assert!(why.ends_with("no worker that drives runs now has this graph"), "{why}");
    let workers = fixture.view(json!({ "view": "workers" })).await;
    assert_eq!(workers["unserved"][0]["reason"].as_str().map(|text| text.split(',').nth(1)), Some(why.split(',').nth(1)));
    assert_eq!((&workers["unserved"][0]["runs"], &workers["unserved"][0]["is_cut"]), (&json!(10), &json!(true)));
    stop(worker).await;
}

#[tokio::test]
async fn k3_damage_is_reported_and_hides_nothing() {
    let fixture = Fixture::new(super::fixture::Place::Sqlite).await;
    let graph = graphs::signal();
    for id in ["damaged-record", "damaged-row", "well"] {
        graph.run(Order::to("Ghent")).id(id).checkpoint(&fixture.store).await.unwrap_err();
    }
    refund().run(1).id("undone").checkpoint(&fixture.store).await.unwrap_err();
    fixture.damage(
        "UPDATE log SET body = x'7b7d' WHERE run = (SELECT no FROM run WHERE id = 'damaged-record') AND seq = 1;
         UPDATE run SET epoch = epoch + 1 WHERE id = 'damaged-row';
         UPDATE log SET header = x'7b7d' WHERE run = (SELECT no FROM run WHERE id = 'undone') AND seq = 2;",
    );
    let found = fixture.examine().await;
    let damaged: Vec<&Problem> = found.problems.iter().filter(|problem| problem.kind == "damaged").collect();
    let titles: Vec<&str> = damaged.iter().map(|problem| problem.title.as_str()).collect();
    assert_eq!(titles, ["Run damaged-record is damaged", "Run damaged-row is damaged"]);
    assert!(damaged[1].cause.as_deref().is_some_and(|cause| cause.starts_with("the row of the run is damaged: ")));
    assert_eq!(damaged[0].so, ["no worker can drive it"]);
    assert_eq!(commands(damaged[0]), ["pleach why runs.db damaged-record", "pleach doctor runs.db --full"]);
    assert!(!is_quiet(&found, "No damaged run was found"));
    // The other runs are listed, and each damage stands at its place.
    let page = fixture.view(json!({ "view": "runs" })).await;
    assert_eq!((page["runs"].as_array().unwrap().len(), &page["damaged"][0]["id"]), (3, &json!("damaged-row")));
    let waits = fixture.view(json!({ "view": "waiting" })).await;
    assert_eq!(waits["waits"][0]["run"], "well");
    let row = fixture.view(json!({ "view": "run", "run": "damaged-row" })).await;
    assert!(row["show"].is_null() && row["damage"]["record"] == 0, "{row}");
    let record = fixture.view(json!({ "view": "run", "run": "damaged-record" })).await;
    assert_eq!((&record["damage"]["record"], &record["show"]["id"]), (&json!(1), &json!("damaged-record")));
    assert_eq!(record["why"]["facts"][0]["kind"], "damaged");
    let undone = fixture.view(json!({ "view": "run", "run": "undone" })).await;
    assert_eq!(undone["show"]["status"], "compensation failed");
    let timeline = fixture.view(json!({ "view": "timeline", "run": "undone" })).await;
    let records = timeline["records"].as_array().unwrap();
    assert_eq!(records.iter().filter(|record| record["kind"] == "damaged").count(), 1, "{records:?}");
    assert_eq!(records.len() as u64, timeline["record"].as_u64().unwrap(), "no other record is missing");
    fixture.view(json!({ "view": "graph", "run": "undone" })).await;
    // A damaged row can only be deleted.
    let pause = fixture.plan(json!({ "kind": "pause", "run": "damaged-row" })).await;
    assert!(pause.refusal.as_deref().is_some_and(|why| why.contains("restore the store from a backup")), "{pause:?}");
    let (plan, outcome) = fixture.order(json!({ "kind": "delete", "run": "damaged-row" })).await;
    assert!(plan.is_destructive && outcome.outcome == "done");
    let found = fixture.examine().await;
    assert_eq!(found.problems.iter().filter(|problem| problem.kind == "damaged").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn k3_a_store_that_fails_or_hangs_is_a_problem_and_the_others_answer() {
    let probes = [(); 3].map(|()| Probe::new(Arc::new(MemoryStore::new())));
    let mut sources = Sources::default();
    for (number, probe) in probes.iter().enumerate() {
        let store = crate::report::NamedStore::new(probe, format!("store-{number}"));
        sources.stores.push(Arc::new(crate::durable::StoreSource::new(format!("s{number}"), store)));
    }
    let graph = graphs::order(&Done::default());
    graph.run(Order::to("Ghent")).id("o").checkpoint(&probes[2]).await.unwrap_err();
    fail(&Fixture::of(&probes[2]), "f", "no truck").await;
    probes[0].fail(true);
    probes[1].hang(true);
    let started = tokio::time::Instant::now();
    let home = home::look(&sources).await.unwrap();
    assert_eq!(started.elapsed().as_secs(), 5, "all are examined at once");
    let kinds: Vec<_> =
        home["problems"].as_array().unwrap().iter().map(|one| (one["source"].clone(), one["kind"].clone())).collect();
    let expected = [("s2", "run_failed"), ("s0", "unreachable"), ("s1", "unreachable"), ("s2", "waits_for_person")];
    assert_eq!(kinds, expected.map(|(source, kind)| (json!(source), json!(kind))), "by severity, then by age");
    let failing = &home["problems"][1];
    assert!(failing["cause"].as_str().is_some_and(|cause| cause.contains("the disk is gone")), "{failing}");
    assert_eq!(home["problems"][2]["cause"], "s1 was not examined within 5 s");
    assert!(
        home["quiet"].as_array().unwrap().iter().all(|quiet| quiet["source"] == "s2"),
        "nothing is quiet that was not examined"
    );
    assert!(sources.describe()["stores"][0]["problem"].as_str().is_some_and(|text| text.contains("the disk is gone")));
    // They recover.
    probes[0].fail(false);
    probes[1].hang(false);
    let home = home::look(&sources).await.unwrap();
    assert!(home["problems"].as_array().unwrap().iter().all(|problem| problem["source"] == "s2"), "{home}");
    assert_eq!(sources.describe()["stores"][0]["problem"], json!(null));
    // Views of a store that fails have its error, and are no empty lists.
    probes[0].fail(true);
    let fixture = Fixture::of(&probes[0]);
    for view in ["runs", "waiting", "workers"] {
        let failure = fixture.try_view(json!({ "view": view })).await.unwrap_err();
        assert_eq!(failure.code, "unreachable", "{view}: {failure}");
    }
    let failure = fixture.try_plan(json!({ "kind": "pause", "run": "x" })).await.unwrap_err();
    assert_eq!(failure.code, "unreachable");
}
