//! Actions on members: what they would do, and what happens.

use super::proxy::Folder;
use super::*;
use crate::action::{Action, Outcome, Plan};
use pleach::inspect::InspectAction;
use pleach::supervise::{AlwaysRestart, RestartPolicy};

const ALL: [InspectAction; 4] = [InspectAction::Stop, InspectAction::Restart, InspectAction::Suspend, InspectAction::Resume];

fn action(kind: &str, path: &str) -> Action {
    Action::parse(json!({ "kind": kind, "process": "p0", "path": path })).unwrap()
}

async fn plan(source: &ProcessSource, kind: &str, path: &str) -> Plan {
    source.plan(&action(kind, path)).await.unwrap()
}

/// Plans an action and carries it out.
async fn order(source: &ProcessSource, kind: &str, path: &str) -> Outcome {
    let planned = plan(source, kind, path).await;
    source.carry_out(&action(kind, path), &planned.guard).await.unwrap()
}

fn open_shop() -> (ActorSystem, ProcessSource) {
    let system = ActorSystem::new("shop").unwrap();
    let source = ProcessSource::of_system("p0", &system, ALL);
    (system, source)
}

#[tokio::test]
async fn k4_stop_of_a_transient_actor_says_and_does_that_it_ends() {
    let folder = Folder::new();
    let system = folder.system();
    let source = ProcessSource::of_socket("p0", folder.socket());
    let cash = system.spawn_started("cash", till()).await.unwrap();
    cash.any().suspend().unwrap();
    for _ in 0..2 {
        cash.tell(1).unwrap();
    }
    let planned = plan(&source, "stop", "/user/cash").await;
    assert_eq!(
        planned.will,
        [
            "it stops",
            "it is not restarted: it is transient, and an ordered stop is no failure",
            "2 queued messages become dead letters"
        ]
    );
    let socket = folder.socket().display().to_string();
    assert_eq!(planned.command, Some(format!("pleach stop {socket} /user/cash")));
    assert_eq!((planned.title.as_str(), planned.refusal, planned.is_destructive), ("Stop /user/cash", None, true));
    assert!(cash.exit().is_none(), "a plan changes nothing");
    let done = order(&source, "stop", "/user/cash").await;
    assert_eq!((done.outcome.as_str(), done.text.as_str()), ("done", "/user/cash ended: stopped"));
    assert_eq!(cash.exited().await, Exit::Stopped);
    assert_eq!(cash.counts().dead_lettered, 2);
}

#[tokio::test]
async fn k4_stop_of_a_permanent_actor_says_and_does_that_it_restarts() {
    let (system, source) = open_shop();
    let tills = system.supervisor("tills", OneForAll::new()).unwrap();
    let a = tills.spawn_started("a", till().restart(RestartPolicy::Permanent)).await.unwrap();
    let _b = tills.spawn_started("b", till()).await.unwrap();
    let planned = plan(&source, "stop", "/user/tills/a").await;
    assert_eq!(
        planned.will[1],
        "it is permanent, so supervisor /user/tills treats that as a failure and starts it again (restart 1 of 3 in 5s)"
    );
    assert_eq!(planned.will[2], "siblings that restart with it (one_for_all): /user/tills/b");
    assert_eq!(planned.command, None);
    let done = order(&source, "stop", "/user/tills/a").await;
    assert_eq!(done.outcome, "done");
    assert!(
        done.text.starts_with("it stopped, and its supervisor has started it again; /user/tills/a restarts now"),
        "{done:?}"
    );
    assert!(a.exit().is_none());
}

#[tokio::test]
async fn k4_suspend_resume_and_restart_report_what_happened() {
    let (system, source) = open_shop();
    let cash = system.spawn_started("cash", till()).await.unwrap();
    let done = order(&source, "suspend", "/user/cash").await;
    assert_eq!((done.outcome.as_str(), done.text.as_str()), ("done", "/user/cash was suspended"));
    assert!(plan(&source, "suspend", "/user/cash").await.will.contains(&"nothing changes: it is suspended already".into()));
    cash.tell(1).unwrap();
    let planned = plan(&source, "resume", "/user/cash").await;
    assert_eq!(planned.will, ["it handles messages again, first 1 queued message"]);
    assert_eq!(order(&source, "resume", "/user/cash").await.text, "/user/cash was resumed");
    let done = order(&source, "restart", "/user/cash").await;
    assert_eq!((done.outcome.as_str(), done.text.as_str()), ("done", "/user/cash restarted, incarnation 1"));
    assert_eq!(cash.any().info().restarts.unwrap().used, 0, "it does not count, as the plan says");
}

#[tokio::test]
async fn k4_member_that_changed_since_the_plan_is_left_alone() {
    let (system, source) = open_shop();
    let tills = system.supervisor("tills", AlwaysRestart).unwrap();
    let cash = tills.spawn_started("cash", till()).await.unwrap();
    let stop = action("stop", "/user/tills/cash");
    let guard = source.plan(&stop).await.unwrap().guard;
    cash.any().restart().unwrap();
    while cash.any().info().actor.unwrap().incarnation == 0 {
        tokio::task::yield_now().await;
    }
    let refused = source.carry_out(&stop, &guard).await.unwrap_err();
    assert_eq!(refused.code, "changed");
    assert!(refused.text.ends_with("it was restarted"), "{refused}");
    let guard = source.plan(&stop).await.unwrap().guard;
    cash.stop();
    cash.exited().await;
    assert_eq!(source.carry_out(&stop, &guard).await.unwrap_err().code, "changed");
    let other = tills.spawn_started("cash", till()).await.unwrap();
    let refused = source.carry_out(&stop, &guard).await.unwrap_err();
    assert!(refused.text.ends_with("another member has its path"), "{refused}");
    assert!(other.exit().is_none());
    // The page sends the id of the member that it shows.
    let stale = json!({ "kind": "stop", "process": "p0", "path": "/user/tills/cash", "member_id": cash.any().id().get() });
    assert_eq!(source.plan(&Action::parse(stale).unwrap()).await.unwrap_err().code, "changed");
}

#[tokio::test]
async fn k4_process_has_the_last_word() {
    let (system, source) = shop();
    let cash = system.spawn_started("cash", till()).await.unwrap();
    let planned = plan(&source, "stop", "/user/cash").await;
    let refusal = planned.refusal.unwrap();
    assert!(refusal.starts_with("the process shop does not allow stop; it allows nothing"), "{refusal}");
    // A console that orders nevertheless is refused by the process.
    let refused = source.carry_out(&action("stop", "/user/cash"), &planned.guard).await.unwrap_err();
    assert_eq!(refused.code, "not_allowed");
    assert!(cash.exit().is_none());
    let (system, source) = open_shop();
    let planned = plan(&source, "stop", "/user").await;
    assert!(planned.refusal.is_some());
    assert_eq!(source.carry_out(&action("stop", "/user"), &planned.guard).await.unwrap_err().code, "protected");
    let scope = system.scope("work").unwrap();
    let planned = plan(&source, "suspend", &scope.path().to_string()).await;
    assert!(planned.refusal.unwrap().contains("only actors have a mailbox"));
}

#[tokio::test(start_paused = true)]
async fn k4_order_that_waits_for_a_handler_is_taken() {
    let (system, source) = open_shop();
    let (_bank, gate) = busy_bank(&system).await;
    let planned = plan(&source, "restart", "/user/bank").await;
    assert_eq!(planned.will[0], "its state is lost and it starts again after its current message");
    let taken = order(&source, "restart", "/user/bank").await;
    assert_eq!(
        (taken.outcome.as_str(), taken.text.as_str()),
        ("taken", "the order was given; it is carried out after the current message")
    );
    gate.close();
}

#[tokio::test]
async fn k4_log_level_is_planned_set_and_refused() {
    let folder = Folder::new();
    let _system = folder.system();
    let source = ProcessSource::of_socket("p0", folder.socket());
    let level = Action::parse(json!({ "kind": "log_level", "process": "p0", "level": "debug" })).unwrap();
    let planned = source.plan(&level).await.unwrap();
    assert_eq!((planned.refusal, planned.is_destructive), (None, false));
    assert_eq!(planned.command, Some(format!("pleach log-level {} debug", folder.socket().display())));
    let done = source.carry_out(&level, &planned.guard).await.unwrap();
    assert_eq!(done.text, "the log level is debug now");
    let (_system, source) = shop();
    let refusal = source.plan(&level).await.unwrap().refusal.unwrap();
    assert!(refusal.contains("call `InspectOptions::on_log_level`"), "{refusal}");
    assert_eq!(source.carry_out(&level, "").await.unwrap_err().code, "not_allowed");
}
