//! What is wrong in a process, for the home page.

use super::proxy::Folder;
use super::*;
use pleach::inspect::{HealthReason, Problem};

/// Examines a source and returns the problems of a kind, as the page gets them.
async fn problems(source: &ProcessSource, kind: &str) -> Vec<Value> {
    let found = source.examine().await.unwrap().problems;
    found.iter().filter(|problem| problem.kind == kind).map(|problem| serde_json::to_value(problem).unwrap()).collect()
}

async fn quiet(source: &ProcessSource) -> Vec<String> {
    source.examine().await.unwrap().quiet.into_iter().map(|quiet| quiet.text).collect()
}

#[tokio::test]
async fn k3_process_without_problems_says_what_was_examined() {
    let (system, source) = shop();
    system.spawn_started("cash", till()).await.unwrap();
    let found = source.examine().await.unwrap();
    assert_eq!((found.problems, found.is_cut), (vec![], false));
    let expected = [
        "No supervisor has given up",
        "Every pool has its workers",
        "No mailbox is full for long",
        "No handler is stuck",
        "No failure is unhandled",
        "No actor has failed within the last minute",
        "Every accepted message is accounted for",
    ];
    assert_eq!(quiet(&source).await, expected);
}

#[tokio::test]
async fn k3_give_up_is_a_problem_with_cause_and_command() {
    let folder = Folder::new();
    let system = folder.system();
    let lone = system.supervisor("lone", OneForOne::new().restart_limit(0, Duration::from_secs(5))).unwrap();
    let weak = lone.spawn_started("weak", till()).await.unwrap();
    weak.tell(0).unwrap();
    weak.exited().await;
    let source = ProcessSource::of_socket("p0", folder.socket());
    let found = problems(&source, "gave_up").await;
    let problem = &found[0];
    assert_eq!(problem["title"], "/user/lone gave up on /user/lone/weak after 0 restarts in 5 s");
    assert_eq!((&problem["cause"], &problem["severity"]), (&json!("nothing paid"), &json!("error")));
    assert_eq!(problem["so"], json!(["its only child stopped and stays stopped"]));
    // The words are those of `pleach health`.
    let health = system.health();
    let reason = health.reasons().iter().find(|reason| matches!(reason, HealthReason::GaveUp { .. })).unwrap().to_string();
    assert!(reason.contains("; its only child stopped and stays stopped; remove the cause"), "{reason}");
    let socket = folder.socket().display().to_string();
    assert_eq!(problem["do"][0]["command"], format!("pleach why {socket} /user/lone"));
    assert_eq!(problem["do"][0]["view"], json!({ "view": "member", "process": "p0", "path": "/user/lone" }));
    assert_eq!(problem["do"][1]["text"], "Remove the cause of the failures, then start it again");
    assert_eq!(problems(&source, "gave_up").await, found, "the next look shows the same");
    assert!(!quiet(&source).await.contains(&"No supervisor has given up".to_string()));
}

#[tokio::test]
async fn k3_actor_that_fails_within_its_limit_is_a_warning() {
    let (system, source) = shop();
    let cash = system.spawn_started("cash", till()).await.unwrap();
    cash.tell(0).unwrap();
    while cash.counts().failed == 0 || cash.any().info().last_failure.is_none() {
        tokio::task::yield_now().await;
    }
    let found = problems(&source, "failing").await;
    let problem = &found[0];
    assert_eq!((&problem["title"], &problem["severity"]), (&json!("/user/cash failed: nothing paid"), &json!("warning")));
    assert_eq!((&problem["cause"], &problem["path"]), (&json!("it was handling u32"), &json!("/user/cash")));
    assert_eq!(problem["so"], json!(["it is restarted; 2 of 3 restarts are left"]));
    assert_eq!(problem["do"][0]["command"], Value::Null, "a system in this process has no socket");
}

#[tokio::test(start_paused = true)]
async fn k3_stuck_handler_names_what_it_waits_for_in_the_end() {
    let (system, source) = shop();
    let (_bank, gate) = busy_bank(&system).await;
    problems(&source, "handler_stuck").await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let found = problems(&source, "handler_stuck").await;
    assert_eq!(found[0]["title"], "/user/bank does not finish a u32", "{found:#?}");
    assert_eq!(found[0]["so"], json!(["it handles nothing else"]));
    assert_eq!(
        found[0]["do"][1]["text"],
        "Set a timeout in its handler; a stop or restart waits for it, and only a cancel or a new process ends it"
    );
    gate.close();
}

#[tokio::test(start_paused = true)]
async fn k3_full_mailbox_of_a_suspended_actor_is_to_be_resumed() {
    let folder = Folder::new();
    let system = folder.system();
    let source = ProcessSource::of_socket("p0", folder.socket());
    let cash = system.spawn_started("cash", till().mailbox(Mailbox::bounded(2))).await.unwrap();
    cash.any().suspend().unwrap();
    for _ in 0..2 {
        cash.tell(1).unwrap();
    }
    problems(&source, "mailbox_full").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let found = problems(&source, "mailbox_full").await;
    assert_eq!(found[0]["title"], "The mailbox of /user/cash is full", "{found:#?}");
    assert_eq!(found[0]["cause"], "it is suspended: it handles nothing until it is resumed");
    assert_eq!(found[0]["do"][1]["command"], format!("pleach resume {} /user/cash", folder.socket().display()));
}

#[tokio::test]
async fn k3_reported_problem_and_end_of_the_system_are_shown() {
    let folder = Folder::new();
    let system = folder.system();
    let source = ProcessSource::of_system("p0", &system, []);
    let report = system.root().report_health(Problem::new("ink", "there is no ink").advice("buy some"));
    let found = problems(&source, "reported").await;
    assert_eq!((&found[0]["title"], &found[0]["do"][1]["text"]), (&json!("/: there is no ink"), &json!("Buy some")));
    drop(report);
    assert_eq!(problems(&source, "reported").await, Vec::<Value>::new());
    system.shutdown(Duration::from_secs(10)).await.unwrap();
    assert_eq!(source.examine().await.map(drop).unwrap_err().code, "unreachable");
}
