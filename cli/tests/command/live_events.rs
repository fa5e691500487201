//! `events`: as they happen, missed ones, a process that is replaced, and the end.

use crate::fixture::{call, pleach};
use crate::process::{Job, Process, until, worker};
use pleach::inspect::{InspectBuilder as _, InspectOptions, Problem};
use pleach::prelude::*;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// A running `pleach events --follow`.
struct Follower {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Follower {
    fn start(socket: &str, arguments: &[&str]) -> Self {
        let all = [&["events", socket, "--follow", "--json", "--timeout", "60s"], arguments].concat();
        let mut child = pleach(&all).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn next(&mut self) -> Value {
        let line = self.lines.next().expect("the command ended").unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Returns the next event of this kind.
    fn next_of(&mut self, kind: &str) -> Value {
        loop {
            let event = self.next();
            if event["kind"] == kind {
                return event;
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_printed_as_they_happen() {
    let process = Process::start([]);
    let mut follower = Follower::start(&process.socket, &[]);
    assert_eq!(follower.next()["text"], "the system is healthy and ready");
    let till = process.spawn("till").await;
    till.tell(Job::Fail("no \u{1b}change")).unwrap();
    let (started, failed) = (follower.next_of("started"), follower.next_of("failed"));
    assert_eq!((&started["version"], &started["path"]), (&1.into(), &"/user/till".into()));
    assert!(failed["text"].as_str().unwrap().starts_with("/user/till failed: no \u{1b}change"), "{failed}");
    assert!(failed["at"].as_str().unwrap().ends_with('Z') && failed["seq"].as_u64() > started["seq"].as_u64());
    let report = till.any().report_health(Problem::new("ink", "there is no ink"));
    assert_eq!(follower.next_of("problem")["text"], "/user/till: there is no ink");
    drop(report);
    assert_eq!(follower.next_of("problem_over")["text"], "over: /user/till: there is no ink");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_can_be_chosen_by_kind_path_and_time() {
    let process = Process::start([]);
    let _report = process.system.root().report_health(Problem::new("old", "an old problem"));
    let listeners = || process.system.hub().subscribers();
    let before = listeners();
    let known = Follower::start(&process.socket, &["--kinds", "health"]).next_of("problem");
    assert_eq!(known["text"], "/: an old problem");
    until(|| listeners() == before).await;
    let mut follower = Follower::start(&process.socket, &["--kinds", "failures,health", "--since-now", "--path", "/user/a"]);
    // Until it follows, nothing may happen that it should see.
    until(|| listeners() > before).await;
    for name in ["b", "a"] {
        let actor = process.system.spawn_started(name, worker().restart(RestartPolicy::Permanent)).await.unwrap();
        actor.tell(Job::Fail(name)).unwrap();
        until(|| actor.any().counts().failed == 1).await;
    }
    let first = follower.next();
    assert_eq!((&first["kind"], &first["path"]), (&"failed".into(), &"/user/a".into()));
    // Later problems are shown, those from before are not.
    let mut follower = Follower::start(&process.socket, &["--kinds", "health", "--since-now"]);
    until(|| listeners() > before + 1).await;
    let _later = process.system.root().report_health(Problem::new("new", "a new problem"));
    assert_eq!(follower.next_of("problem")["text"], "/: a new problem");
}

#[tokio::test(flavor = "multi_thread")]
async fn stuck_handler_is_an_event_at_both_ends() {
    let process = Process::start([]);
    let mut follower = Follower::start(&process.socket, &["--kinds", "stuck_handlers,health"]);
    follower.next_of("health");
    let gate = Arc::new(Semaphore::new(0));
    process.spawn("slow").await.tell(Job::Wait(Arc::clone(&gate))).unwrap();
    let stuck = follower.next_of("stuck_handler");
    assert!(stuck["text"].as_str().unwrap().starts_with("/user/slow has been handling one "), "{stuck}");
    // The sampler knows since when, so a first look at the tree does too.
    let tree = process.call("tree", &["/user/slow", "--jq", ".members[0].activity.for_us >= 1000000"]);
    assert_eq!(tree.out, "true\n", "{tree:?}");
    gate.add_permits(1);
    assert_eq!(follower.next_of("handler_returned")["path"], "/user/slow");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_reader_learns_how_many_events_it_missed() {
    let process = Process::start([]);
    let mut follower = Follower::start(&process.socket, &["--kinds", "lifecycle,health"]);
    follower.next_of("health");
    let scope = process.system.supervisor("crowd", OneForOne::new()).unwrap();
    for number in 0..50_000 {
        drop(scope.spawn(&format!("a{number}"), worker()).unwrap());
    }
    let missed = follower.next_of("missed");
    assert!(missed["count"].as_u64().unwrap() > 0 && missed["text"].as_str().unwrap().contains("read too slowly"), "{missed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_process_is_a_gap() {
    let process = Process::start([]);
    let mut follower = Follower::start(&process.socket, &["--retry-for", "60s"]);
    follower.next_of("health");
    process.system.shutdown(Duration::from_secs(10)).await.unwrap();
    let again = ActorSystem::builder("shop").inspect(InspectOptions::at(&process.socket)).build().unwrap();
    let gap = follower.next_of("gap");
    assert!(gap["text"].as_str().unwrap().contains("connected again to shop") && gap["seq"].is_null(), "{gap}");
    again.spawn_started("after", worker()).await.unwrap();
    assert_eq!(follower.next_of("started")["path"], "/user/after");
}

#[tokio::test(flavor = "multi_thread")]
async fn end_of_the_process_or_of_the_time_is_an_exit_code() {
    let process = Process::start([]);
    let late = call(&["events", &process.socket, "--follow", "--timeout", "100ms"]);
    assert!(late.code == 6 && late.err.contains("stopped after 100ms"), "{late:?}");
    assert!(late.out.contains("  health            the system is healthy and ready\n"), "{late:?}");
    let once = call(&["events", &process.socket]);
    assert!(once.code == 2 && once.err.contains("--follow"), "{once:?}");
    let mut follower = Follower::start(&process.socket, &["--retry-for", "300ms"]);
    follower.next_of("health");
    process.system.shutdown(Duration::from_secs(10)).await.unwrap();
    let rest = follower.lines.by_ref().count();
    assert_eq!(follower.child.wait().unwrap().code(), Some(5), "after {rest} more lines");
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_pipe_ends_events() {
    let process = Process::start([]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = pleach(&["events", &process.socket, "--follow"]).stdout(writer).stderr(Stdio::piped()).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(141), &b""[..]));
}
