//! `pleach why` of runs: each state with its cause and what to do.

use crate::fixture::{Called, Fixture, Order, Place, call, eventually, on_both_stores, orders, waits};
use crate::graphs::{checkout, shards};
use pleach::prelude::*;
use pleach::store::{Held, Lease, Release, RunStatus, Wanted};
use pleach::worker::Worker;
use serde_json::Value;

on_both_stores!(
    waits_name_the_question_and_its_command,
    refused_answer_is_the_cause_of_a_wait,
    failures_name_the_node_and_its_reason,
    undos_show_both_failures,
    stuck_runs_say_why_and_how_often,
    driven_runs_name_their_driver,
    lost_drivers_are_named,
    due_runs_without_worker_are_unserved,
    runs_of_an_earlier_program_are_found,
    commands_on_their_way_are_shown,
    passed_deadlines_are_shown,
    retries_and_trouble_are_shown,
    branches_and_forks_are_shown,
    damage_is_explained,
    unknown_and_ambiguous_runs_have_exit_codes,
);

fn why(fixture: &Fixture, run: &str) -> Called {
    call(&["why", &fixture.store, run])
}

/// Returns the explanation as JSON.
fn explained(fixture: &Fixture, run: &str) -> Value {
    let called = call(&["why", &fixture.store, run, "--json"]);
    assert_eq!(called.code, 0, "{called:?}");
    serde_json::from_str(&called.out).unwrap()
}

/// Returns the facts of the sentences in one part: `cause`, `so` or `note`.
fn facts<'a>(explained: &'a Value, part: &str) -> &'a [Value] {
    let count = |part: &str| explained[part].as_array().unwrap().len();
    let first = ["cause", "so", "note"].iter().take_while(|one| **one != part).map(|one| count(one)).sum();
    let facts = &explained["facts"].as_array().unwrap()[first..first + count(part)];
    for (fact, sentence) in facts.iter().zip(explained[part].as_array().unwrap()) {
        assert_eq!(&fact["text"], sentence, "{explained}");
    }
    facts
}

fn kinds(explained: &Value, part: &str) -> Vec<String> {
    facts(explained, part).iter().map(|fact| fact["kind"].as_str().unwrap().to_string()).collect()
}

/// Asserts that the text has all parts.
#[track_caller]
fn says(fixture: &Fixture, run: &str, parts: &[&str]) {
    let called = why(fixture, run);
    assert_eq!((called.code, called.err.as_str()), (0, ""), "{called:?}");
    for part in parts {
        assert!(called.out.contains(part), "{part:?} is missing: {}", called.out);
    }
}

async fn hold(fixture: &Fixture, run: &str, length: Duration) -> Held {
    let lease = Lease { owner: "4242-abc".into(), length };
    let claimed = fixture.opened.claim(Wanted::One { run: run.into(), force: false }, lease).await.unwrap();
    Held::of(&claimed[0].run)
}

async fn waits_name_the_question_and_its_command(place: Place) {
    let fixture = Fixture::full(place).await;
    says(
        &fixture,
        "order-2",
        &[
            "run order-2 of graph order: waiting",
            "cause: node \"approve\" waits for an answer to approve: \"ship rice?\", since 20",
            "so:    the run waits, and no worker is needed until then",
            &format!("do:    pleach runs answer {} order-2 approve JSON", quoted(&fixture)),
        ],
    );
    let json = explained(&fixture, "sig");
    assert_eq!(
        (&json["id"], &json["facts"][0]["kind"], &json["facts"][0]["node"]),
        (&"signal-1".into(), &"signal".into(), &"wait".into())
    );
    assert!(json["facts"][0]["since"].is_string() && json["do"][0].as_str().unwrap().contains("signal-1 more JSON"));
    says(&fixture, "order-1", &["finished", "the run reached its end"]);
}

/// The store as commands name it: without a password, and quoted.
fn quoted(fixture: &Fixture) -> String {
    let shown = fixture.runs("show", &["order-2", "--jq", ".next_commands[0]"]).out;
    shown.split(" order-2").next().unwrap().trim_start_matches("pleach runs answer ").to_string()
}

async fn refused_answer_is_the_cause_of_a_wait(place: Place) {
    let fixture = Fixture::full(place).await;
    let worker = Worker::new(&fixture.opened).graph(&orders()).poll_every(Duration::from_millis(100)).start().unwrap();
    assert_eq!(fixture.runs("answer", &["order-2", "approve", "\"banana\"", "--wait", "30s"]).code, 4);
    worker.cancel().await;
    let json = explained(&fixture, "order-2");
    assert_eq!(kinds(&json, "cause"), ["refused", "question"], "the deepest cause first: {json}");
    assert!(json["facts"][0]["text"].as_str().unwrap().contains("banana"));
}

async fn failures_name_the_node_and_its_reason(place: Place) {
    let fixture = Fixture::full(place).await;
    says(
        &fixture,
        "order-3",
        &[
            "run order-3 of graph order: failed",
            "cause: node \"ship\" failed at attempt 1: the truck\\nis \\x1b[31mbroken, 20",
            "so:    the run failed, and no worker continues it",
            "order-3  # after the cause is repaired: continues, at node \"ship\"",
        ],
    );
    let json = explained(&fixture, "order-3");
    assert_eq!((&json["facts"][0]["kind"], &json["facts"][0]["record"]), (&"node_failed".into(), &7.into()));
    assert_eq!(fixture.runs("cancel", &["order-2", "--reason", "it came too late", "--yes"]).code, 0);
    orders().resume("order-2").checkpoint(&fixture.opened).await.unwrap_err();
    assert_eq!(fixture.status("order-2").await, RunStatus::Cancelled);
    says(&fixture, "order-2", &["a command cancelled the run: ", "it came too late, 20", "pleach runs rewind"]);
}

async fn undos_show_both_failures(place: Place) {
    let fixture = Fixture::empty(place).await;
    for note in ["refund fails", "refund works"] {
        checkout().run(Order::new(note)).id(note).checkpoint(&fixture.opened).await.unwrap_err();
    }
    let failed = explained(&fixture, "refund fails");
    assert_eq!(
        (&failed["status"], kinds(&failed, "cause")),
        (&"compensation failed".into(), vec!["node_failed".into(), "undo_failed".into()])
    );
    assert!(failed["facts"][1]["text"].as_str().unwrap().contains("the bank is closed"), "{failed}");
    assert!(failed["do"][0].as_str().unwrap().contains("runs retry"), "{failed}");
    let undone = explained(&fixture, "refund works");
    assert_eq!((&undone["status"], kinds(&undone, "cause")), (&"compensated".into(), vec!["node_failed".to_string()]));
}

async fn stuck_runs_say_why_and_how_often(place: Place) {
    let fixture = Fixture::full(place).await;
    says(&fixture, "stuck-1", &["no worker could drive the run: no printer", "after 5 attempts", "pleach runs unstick"]);
    // Five drivers die: each lease expires without a commit.
    waits().run(Order::new("crash")).id("crash").checkpoint(&fixture.opened).enqueue().await.unwrap();
    fixture.lose_drivers("crash", 7).await;
    assert_eq!(fixture.status("crash").await, RunStatus::Stuck);
    says(&fixture, "crash", &["the driver died 5 times in a row without a commit, each time at node \"wait\"", "unstick"]);
}

async fn driven_runs_name_their_driver(place: Place) {
    let fixture = Fixture::empty(place).await;
    orders().run(Order::new("tea")).id("held").checkpoint(&fixture.opened).enqueue().await.unwrap();
    hold(&fixture, "held", Duration::from_secs(60)).await;
    says(
        &fixture,
        "held",
        &["driver 4242-abc (process 4242) is working at node \"pay\", since 20", "its lease ends in 5", "pleach runs tail"],
    );
    assert_eq!(kinds(&explained(&fixture, "held"), "cause"), ["driven"]);
}

async fn lost_drivers_are_named(place: Place) {
    let fixture = Fixture::empty(place).await;
    orders().run(Order::new("tea")).id("lost").checkpoint(&fixture.opened).enqueue().await.unwrap();
    hold(&fixture, "lost", Duration::from_millis(1)).await;
    let json = explained(&fixture, "lost");
    assert_eq!(kinds(&json, "cause"), ["lease_ended", "unserved"], "{json}");
    assert_eq!(kinds(&json, "so"), ["unclaimed"], "{json}");
    assert!(json["do"][0].as_str().unwrap().starts_with("ps -o pid,stat,etime,args -p 4242  # "), "{json}");
    // A store whose process has ended: SQLite knows that before the lease expires.
    if place == Place::Sqlite {
        assert!(json["facts"][0]["text"].as_str().unwrap().contains("still has the store open"), "{json}");
        hold(&fixture, "lost", Duration::from_secs(60)).await;
        fixture.sql("UPDATE run SET holder = '0123456789abcdef' WHERE id = 'lost'").await;
        let json = explained(&fixture, "lost");
        assert_eq!(kinds(&json, "cause"), ["driver_ended", "unserved"], "{json}");
    }
}

async fn due_runs_without_worker_are_unserved(place: Place) {
    let fixture = Fixture::full(place).await;
    assert_eq!(fixture.runs("answer", &["order-2", "approve", "true"]).code, 0);
    // The run has just become due, so a worker may be about to claim it.
    let json = explained(&fixture, "order-2");
    assert_eq!((kinds(&json, "cause"), kinds(&json, "so")), (vec!["due".to_string()], vec!["messages".to_string()]), "{json}");
    orders().run(Order::new("tea")).id("due").checkpoint(&fixture.opened).enqueue().await.unwrap();
    hold(&fixture, "due", Duration::from_millis(1)).await;
    hold(&fixture, "signal-1", Duration::from_secs(60)).await;
    says(
        &fixture,
        "due",
        &[
            "the only driver that holds runs of this store now has none of graph \"order\" with fingerprint ",
            "the run is due, and no worker claims it",
            "pleach check",
        ],
    );
    hold(&fixture, "-dash", Duration::from_secs(60)).await;
    says(&fixture, "due", &["driver 4242-abc serves this version, and has not claimed the run"]);
}

async fn runs_of_an_earlier_program_are_found(place: Place) {
    let fixture = Fixture::empty(place).await;
    orders().run(Order::new("tea")).id("old").checkpoint(&fixture.opened).enqueue().await.unwrap();
    hold(&fixture, "old", Duration::from_millis(1)).await;
    let later = crate::check::later_orders();
    later.run(Order::new("rice")).id("new").checkpoint(&fixture.opened).enqueue().await.unwrap();
    let json = explained(&fixture, "old");
    assert_eq!(kinds(&json, "cause"), ["lease_ended", "unserved", "other_version"], "{json}");
    let commands: Vec<&str> = json["do"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(commands.iter().any(|command| command.starts_with("pleach check ")), "{json}");
}

async fn commands_on_their_way_are_shown(place: Place) {
    let fixture = Fixture::full(place).await;
    assert_eq!(fixture.runs("pause", &["order-2"]).code, 0);
    let json = explained(&fixture, "order-2");
    assert_eq!(kinds(&json, "cause")[0], "paused", "{json}");
    assert!(json["do"][0].as_str().unwrap().contains("runs resume"), "{json}");
    assert_eq!(fixture.runs("cancel", &["signal-1", "--yes"]).code, 0);
    says(&fixture, "signal-1", &["a command cancels the run, and no driver has taken it yet", "command/cancel"]);
}

async fn passed_deadlines_are_shown(place: Place) {
    let fixture = Fixture::empty(place).await;
    let run = orders().run(Order::new("tea")).id("late").timeout(Duration::from_millis(1)).checkpoint(&fixture.opened);
    run.enqueue().await.unwrap();
    let json = explained(&fixture, "late");
    assert!(kinds(&json, "cause").contains(&"deadline".to_string()), "{json}");
    says(&fixture, "late", &["the deadline of the run has passed", "the next driver cancels the run"]);
}

async fn retries_and_trouble_are_shown(place: Place) {
    let fixture = Fixture::empty(place).await;
    let worker = Worker::new(&fixture.opened).graph(&checkout()).poll_every(Duration::from_millis(50)).start().unwrap();
    checkout().run(Order::new("retry")).id("retry").checkpoint(&fixture.opened).enqueue().await.unwrap();
    let json = eventually(|| {
        let json = explained(&fixture, "retry");
        (json["facts"][0]["kind"] == "node_failed").then_some(json)
    });
    worker.cancel().await;
    assert_eq!(kinds(&json, "so")[0], "retry", "{json}");
    assert!(facts(&json, "so")[0]["due"].is_string() && json["facts"][0]["text"].as_str().unwrap().contains("503"), "{json}");
    orders().run(Order::new("tea")).id("trouble").checkpoint(&fixture.opened).enqueue().await.unwrap();
    let held = hold(&fixture, "trouble", Duration::from_secs(60)).await;
    let how = Release::Failed { reason: "the state does not decode".into(), delay: Duration::from_secs(60) };
    fixture.opened.release(vec![held], how).await.unwrap();
    says(&fixture, "trouble", &["the last worker could not drive the run: the state does not decode", "is stuck (1 so far)"]);
}

async fn branches_and_forks_are_shown(place: Place) {
    let fixture = Fixture::full(place).await;
    shards().run(Order::new("parts")).id("parts").checkpoint(&fixture.opened).await.unwrap_err();
    let json = explained(&fixture, "parts");
    assert_eq!(kinds(&json, "cause"), ["question", "question"], "{json}");
    assert_eq!(json["facts"][1]["branch"], serde_json::json!([2]), "{json}");
    assert!(kinds(&json, "so").contains(&"fan_out".to_string()), "{json}");
    assert_eq!(fixture.runs("fork", &["order-1", "1", "copy", "--yes"]).code, 0);
    says(&fixture, "copy", &["the run was forked from run order-1 after its record 1"]);
}

async fn damage_is_explained(place: Place) {
    let fixture = Fixture::full(place).await;
    fixture.damage_row("order-1").await;
    fixture.damage_record("order-2", 3).await;
    let listed = fixture.json("list", &[]);
    assert_eq!(listed["damaged"][0]["id"], "order-1", "it does not hide the others: {listed}");
    assert!(fixture.runs("list", &[]).out.contains("damaged: order-1 ("));
    let row = why(&fixture, "order-1");
    assert!(row.code == 0 && row.out.contains("damaged") && row.out.contains("restore the store from a backup"), "{row:?}");
    says(&fixture, "order-2", &["record 3 of the log is damaged", "rewind", "order-2 2 --dry-run"]);
    let json = explained(&fixture, "order-1");
    assert_eq!((&json["status"], kinds(&json, "cause")), (&Value::Null, vec!["damaged".to_string()]));
}

async fn unknown_and_ambiguous_runs_have_exit_codes(place: Place) {
    let fixture = Fixture::full(place).await;
    let none = why(&fixture, "nothing");
    assert!(none.code == 3 && none.err.contains("pleach runs list"), "{none:?}");
    assert_eq!(why(&fixture, "order").code, 2);
    assert_eq!(explained(&fixture, "-dash")["id"], "-dash");
}
