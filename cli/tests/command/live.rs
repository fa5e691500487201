//! `tree`, `health` and the orders, on a system in this process.

use crate::fixture::call;
use crate::process::{Job, Process, until, worker};
use pleach::inspect::{Activity, InspectAction, Problem};
use pleach::prelude::*;
use std::sync::Arc;
use tokio::sync::Semaphore;

#[tokio::test(flavor = "multi_thread")]
async fn tree_shows_what_runs() {
    let process = Process::start([]);
    let gate = process.chain().await;
    let tree = process.call("tree", &["/user"]);
    assert_eq!(tree.code, 0, "{tree:?}");
    let lines: Vec<&str> = tree.out.lines().collect();
    assert_eq!(lines[0], "/user (guardian) open; 3 children");
    assert!(lines[1].starts_with("  bank (actor) handling ") && lines[1].contains("::Job for at least "), "{tree:?}");
    assert!(lines[1].contains("; 1 of 1024 queued, 0 handled"), "{tree:?}");
    assert!(lines[2].starts_with("  till (actor) handling ") && lines[2].contains(", asks /user/bank; "), "{tree:?}");
    let json = process.json("tree", &["/user/till"]);
    assert_eq!((&json["version"], &json["name"], &json["next"]), (&1.into(), &"shop".into(), &serde_json::Value::Null));
    assert_eq!(json["members"][0]["waits"][0]["on"], "/user/bank");
    let paths =
        process.call("tree", &["--kinds", "actor", "--jq", ".members[] | select(.path | startswith(\"/user\")) | .path"]);
    assert_eq!(paths.out, "/user/bank\n/user/till\n/user/shop\n");
    let fields = process.call("tree", &["/user", "--depth", "0", "--fields", "path,kind"]);
    assert!(fields.out.contains(r#""members":[{"path":"/user","kind":"guardian"}]"#), "{fields:?}");
    let missing = process.call("tree", &["/user/nosuch"]);
    assert!(missing.code == 3 && missing.err.contains("no member found at /user/nosuch"), "{missing:?}");
    gate.add_permits(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn tree_draws_members_and_waits() {
    let process = Process::start([]);
    let gate = process.chain().await;
    process.system.spawn_started("<b>\"`x\\", worker()).await.unwrap();
    let mermaid = process.call("tree", &["/user", "--output", "mermaid"]);
    assert!(mermaid.out.starts_with("flowchart TD\n  n0[\"/user<br>guardian: open\"]\n"), "{mermaid:?}");
    assert!(mermaid.out.contains("  n0 --> n1\n") && mermaid.out.contains("  n2 -. answer .-> n1\n"), "{mermaid:?}");
    assert!(mermaid.out.contains("n4[\"#60;b#62;#34;#96;x#92;<br>"), "{mermaid:?}");
    let dot = process.call("tree", &["/user", "--output", "dot"]);
    assert!(dot.out.contains("  n2 -> n1 [style=dashed, constraint=false, label=\"answer\"];\n"), "{dot:?}");
    assert!(dot.out.contains("[label=\"<b>\\\"`x\\\\\\n"), "{dot:?}");
    let json = process.call("tree", &["/user", "--output", "json"]);
    assert!(json.code == 0 && json.out.starts_with("{\"version\":1,"), "{json:?}");
    let both = process.call("tree", &["/user", "--output", "dot", "--json"]);
    assert_eq!(both.code, 2, "{both:?}");
    gate.add_permits(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn tree_of_100_000_actors_comes_in_pages() {
    let process = Process::start([]);
    let scope = process.system.supervisor("crowd", OneForOne::new()).unwrap();
    let actors: Vec<_> = (0..100_000).map(|number| scope.spawn(&format!("a{number}"), worker()).unwrap()).collect();
    until(|| actors[99_999].any().activity() == Activity::Idle).await;
    let tree = process.call("tree", &["/user/crowd", "--limit", "101"]);
    assert_eq!(tree.out.lines().count(), 102, "{tree:?}");
    let last = tree.out.lines().last().unwrap();
    let cursor = last.rsplit(' ').next().unwrap();
    assert!(last.starts_with("… at least 99,900 more, continue with: pleach tree "), "{last}");
    assert!(last.ends_with(&format!(" /user/crowd --limit 101 --after {cursor}")), "{last}");
    let next = process.call("tree", &["/user/crowd", "--limit", "101", "--after", cursor]);
    let lines: Vec<&str> = next.out.lines().collect();
    assert!(lines[0].starts_with("/user/crowd (supervisor)"), "the ancestors are shown again: {next:?}");
    assert!(lines[1].starts_with("  a100 (actor) idle"), "{next:?}");
    let all = process.call("tree", &["/user/crowd", "--limit", "1000000", "--jq", ".members | length"]);
    assert_eq!(all.out, "100001\n", "{}", all.err);
    // One of them is not well, and only this one is sent.
    actors[77_777].any().suspend().unwrap();
    until(|| actors[77_777].any().activity() == Activity::Suspended).await;
    let not_well = process.call("tree", &["--not-well"]);
    let names: Vec<&str> = not_well.out.lines().map(|line| line.trim().split(' ').next().unwrap()).collect();
    assert_eq!(names, ["/", "user", "crowd", "a77777"], "{not_well:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tree_of_members_that_are_not_well_has_their_problems() {
    let process = Process::start([]);
    process.spawn("fine").await;
    let fine = process.call("tree", &["--not-well"]);
    assert_eq!((fine.code, fine.out.as_str()), (0, "every member that runs below / is well\n"));
    process.give_up().await;
    let tree = process.call("tree", &["/user", "--not-well"]);
    assert!(tree.out.starts_with("every member that runs below /user is well; these problems are left:\n"), "{tree:?}");
    assert!(tree.out.contains("- supervisor /user/workers gave up on /user/workers/printer"), "{tree:?}");
    let report = process.spawn("named").await.any().report_health(Problem::new("ink", "there is no ink"));
    let tree = process.call("tree", &["/user", "--not-well"]);
    assert!(tree.out.contains("\n  named (actor) idle;") && !tree.out.contains("fine"), "{tree:?}");
    drop(report);
    let json = process.json("tree", &["--not-well"]);
    assert_eq!(json["reasons"][0]["kind"], "gave_up");
}

#[tokio::test(flavor = "multi_thread")]
async fn health_has_exit_codes_for_monitoring() {
    let process = Process::start([]);
    let health = process.call("health", &[]);
    assert_eq!(health.code, 0, "{health:?}");
    assert!(health.out.starts_with("shop (process ") && health.out.ends_with("): healthy, ready\n"), "{health:?}");
    process.give_up().await;
    let health = process.call("health", &[]);
    assert_eq!((health.code, health.err.as_str()), (7, ""), "{health:?}");
    assert!(health.out.contains("degraded, ready\n- supervisor /user/workers gave up"), "{health:?}");
    assert!(health.out.contains("remove the cause of the failures, then start it again"), "advice: {health:?}");
    assert_eq!(process.call("health", &["--ready"]).code, 0, "a degraded process is ready");
    let report = process.system.root().report_health(Problem::new("bank", "the bank is\u{9b} away").blocks_readiness());
    let ready = process.call("health", &["--ready", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&ready.out).unwrap();
    assert_eq!((ready.code, &json["status"], &json["is_ready"]), (7, &"degraded".into(), &false.into()));
    assert_eq!((&json["reasons"][0]["child"], &json["version"]), (&"/user/workers/printer".into(), &1.into()));
    assert!(!process.call("health", &[]).out.contains('\u{9b}'));
    drop(report);
    let gate = Arc::new(Semaphore::new(0));
    process.spawn("slow").await.tell(Job::Wait(Arc::clone(&gate))).unwrap();
    process.system.root().begin_shutdown();
    let down = process.call("health", &["--ready"]);
    assert!(down.code == 5 && down.out.contains("): down, not ready\n"), "{down:?}");
    gate.add_permits(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_are_carried_out_if_the_process_allows_them() {
    let process = Process::start([InspectAction::Suspend, InspectAction::Resume, InspectAction::Restart]);
    let till = process.spawn("till").await;
    let unconfirmed = process.call("suspend", &["/user/till"]);
    assert!(unconfirmed.code == 4 && unconfirmed.err.contains("not confirmed: suspend /user/till: "), "{unconfirmed:?}");
    let dry = process.call("suspend", &["/user/till", "--dry-run"]);
    assert!(dry.code == 0 && dry.out.starts_with("would suspend /user/till: it handles no message until"), "{dry:?}");
    assert_eq!(till.any().activity(), Activity::Idle, "a dry run changes nothing");
    let done = process.call("suspend", &["/user/till", "--yes"]);
    assert!(done.code == 0 && done.out.starts_with("ordered to suspend /user/till"), "{done:?}");
    until(|| till.any().activity() == Activity::Suspended).await;
    till.tell(Job::Note).unwrap();
    let resumed = process.call("resume", &["/user/till", "--yes"]);
    assert!(resumed.out.contains("it handles messages again, first 1 queued message"), "{resumed:?}");
    until(|| till.any().counts().handled == 1).await;
    assert_eq!(process.json("restart", &["/user/till", "--yes"])["action"], "restart");
    until(|| till.any().info().actor.is_some_and(|actor| actor.incarnation == 1)).await;
    let refused = process.call("stop", &["/user/till", "--yes"]);
    assert!(refused.code == 4 && refused.err.contains("it allows: restart, suspend, resume"), "{refused:?}");
    let protected = process.call("restart", &["/user", "--yes"]);
    assert!(protected.code == 4 && protected.err.contains("belongs to the system itself"), "{protected:?}");
    assert_eq!(process.call("restart", &["/user/nosuch", "--yes"]).code, 3);
    let level = process.call("log-level", &["debug"]);
    assert!(level.code == 4 && level.err.contains("does not allow"), "{level:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn log_level_goes_through_the_program() {
    let set = |level: &str| if level == "debug" { Ok(()) } else { Err(format!("unknown level {level}")) };
    let process = Process::with(|options| options.on_log_level(set));
    assert_eq!(process.call("log-level", &["debug"]).out, "the log level is debug now\n");
    let wrong = process.call("log-level", &["--", "-loud"]);
    assert!(wrong.code == 4 && wrong.err.contains("unknown level -loud"), "{wrong:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_and_reasons_are_harmless() {
    let process = Process::start([InspectAction::Stop]);
    let names = ["-rf", "--help", "a b", "\u{202e}txt", "it's"];
    for name in names {
        let actor = process.system.spawn_started(name, worker().restart(RestartPolicy::Permanent)).await.unwrap();
        actor.tell(Job::Fail("\u{1b}[31mred\u{9b}\n\u{202e}")).unwrap();
        until(|| actor.any().counts().failed == 1).await;
        let path = format!("/user/{name}");
        for (word, rest) in [("tree", &[][..]), ("why", &[]), ("stop", &["--dry-run"])] {
            let called = process.call(word, &[&[path.as_str()], rest].concat());
            assert_eq!(called.code, 0, "{word} {called:?}");
            assert!(!called.out.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{word} {called:?}");
        }
    }
    let tree = process.call("tree", &["--json"]);
    assert!(!tree.out.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{tree:?}");
    for wrong in ["user", "-rf", "--", "/a//b", ""] {
        assert_eq!(call(&["why", &process.socket, wrong]).code, 2, "{wrong:?}");
    }
}
