//! The details of events and of supervision on the wire: what `docs/inspect-protocol.md` shows.

use crate::common::{Job, Log, TestActor, quiet};
use crate::socket_folder::{Folder, path};
use pleach::inspect::{Followed, InspectAction, Supervision, TopBy, TopRequest};
use pleach::prelude::*;
use pleach::supervise::RestartPolicy;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

fn props() -> Props<TestActor> {
    TestActor::props(&Log::new())
}

/// Returns the first events of each kind as they are on the wire, without their times.
async fn events_of(folder: &Folder, kinds: &[&str], act: impl FnOnce()) -> Vec<Value> {
    let mut stream = BufReader::new(UnixStream::connect(folder.socket()).await.unwrap());
    let mut line = String::new();
    stream.read_line(&mut line).await.unwrap();
    stream.get_mut().write_all(b"{\"id\":1,\"op\":\"follow\"}\n").await.unwrap();
    stream.read_line(&mut line).await.unwrap();
    act();
    let mut seen: Vec<Value> = Vec::new();
    while seen.len() < kinds.len() {
        line.clear();
        stream.read_line(&mut line).await.unwrap();
        let mut event = serde_json::from_str::<Value>(&line).unwrap()["event"].take();
        let is_wanted = kinds.contains(&event["kind"].as_str().unwrap_or_default());
        if is_wanted && seen.iter().all(|known| known["kind"] != event["kind"]) {
            let fields = event.as_object_mut().unwrap();
            fields.remove("seq");
            fields.remove("unix_us");
            seen.push(event);
        }
    }
    seen
}

#[tokio::test]
async fn k6_failure_and_decision_travel_with_their_details() {
    quiet();
    let folder = Folder::new();
    let system = folder.system();
    let tills = system.supervisor("tills", OneForAll::new()).unwrap();
    let till = tills.spawn_started("a", props()).await.unwrap();
    for name in ["b", "c"] {
        tills.spawn_started(name, props()).await.unwrap();
    }
    let fail = || till.tell(Job::Fail("no ink")).unwrap();
    let seen = events_of(&folder, &["failed", "decided"], fail).await;
    let failure = json!({
        "reason": "no ink", "origin": "/user/tills/a", "message": "job", "message_type": "observing::common::Job",
        "incarnation": 0,
    });
    let failed = json!({
        "kind": "failed", "path": "/user/tills/a", "text": "/user/tills/a failed: no ink (handling job)",
        "failure": failure,
    });
    assert_eq!(seen[0], failed);
    assert_eq!(seen[1]["failure"], failure);
    let decision = json!({
        "directive": "restart", "supervisor": "/user/tills", "strategy": "one_for_all", "restarts": 1, "limit": 3,
        "window_us": 5_000_000, "delay_us": 0, "also": ["/user/tills/b", "/user/tills/c"], "also_left_out": 0,
    });
    assert_eq!(seen[1]["decision"], decision);
}

#[tokio::test]
async fn k6_failure_of_a_member_that_has_left_has_its_message_type() {
    quiet();
    let folder = Folder::new();
    let system = folder.system();
    let stop = OneForOne::new().always(SupervisorDirective::Stop);
    let tills = system.supervisor("tills", stop).unwrap();
    let till = tills.spawn_started("a", props()).await.unwrap();
    // It has left before the event is sent.
    let fail = || till.tell(Job::Fail("no ink")).unwrap();
    let seen = events_of(&folder, &["failed", "decided"], fail).await;
    for event in &seen {
        assert_eq!(event["failure"]["message_type"], "observing::common::Job", "{event}");
    }
}

#[tokio::test]
async fn k6_siblings_of_a_decision_are_bounded_and_counted() {
    quiet();
    let folder = Folder::new();
    let system = folder.system();
    let crowd = system.supervisor("crowd", OneForAll::new().restart_limit(0, Duration::from_secs(5))).unwrap();
    let first = crowd.spawn_started("first", props()).await.unwrap();
    for number in 0..40 {
        crowd.spawn_started(&format!("n{number}"), props()).await.unwrap();
    }
    let seen = events_of(&folder, &["decided", "gave_up"], || first.tell(Job::Fail("no ink")).unwrap()).await;
    let of = |kind: &str| seen.iter().find(|event| event["kind"] == kind).unwrap();
    let decision = &of("decided")["decision"];
    assert_eq!((&decision["directive"], &decision["delay_us"]), (&json!("escalate"), &Value::Null));
    assert_eq!((decision["also"].as_array().unwrap().len(), &decision["also_left_out"]), (32, &json!(8)));
    assert_eq!(of("gave_up")["failure"]["origin"], "/user/crowd/first");
}

#[tokio::test]
async fn k6_dead_letter_travels_with_its_type_and_reason() {
    let folder = Folder::new();
    let system = folder.system();
    let till = system.spawn_started("till", props()).await.unwrap();
    till.any().suspend().unwrap();
    let seen = events_of(&folder, &["dead_letter"], || {
        till.tell(Job::Note(1)).unwrap();
        till.stop();
    })
    .await;
    let letter = json!({ "message": "1", "message_type": "observing::common::Job", "reason": "stopped" });
    assert_eq!(seen[0]["dead_letter"], letter);
}

#[tokio::test]
async fn k4_supervision_says_what_a_stop_will_really_do() {
    quiet();
    let folder = Folder::new();
    let system = folder.system();
    let tills = system.supervisor("tills", RestForOne::new().restart_limit(1, Duration::from_secs(60))).unwrap();
    let till = tills.spawn_started("a", props().restart(RestartPolicy::Permanent)).await.unwrap();
    let other = tills.spawn_started("b", props()).await.unwrap();
    let mut client = folder.client().await;
    let mut plan = async |at: &str| {
        let member = client.member(&path(at)).await.unwrap();
        let supervision: Supervision = client.supervision(&path(at)).await.unwrap();
        (supervision.consequences(InspectAction::Stop, &member), supervision)
    };
    let (will, supervision) = plan("/user/tills/a").await;
    assert_eq!((supervision.policy.as_str(), supervision.strategy.as_str()), ("permanent", "rest_for_one"));
    assert_eq!(
        will,
        [
            "it stops",
            "it is permanent, so supervisor /user/tills treats that as a failure and starts it again (restart 1 of 1 in 60s)",
            "siblings that restart with it (rest_for_one): /user/tills/b",
        ]
    );
    assert_eq!(plan("/user/tills/b").await.0[1], "it is not restarted: it is transient, and an ordered stop is no failure");
    // The stop does what was said: both restart.
    let mut events = folder.client().await;
    events.follow(Some(&["lifecycle"])).await.unwrap();
    till.any().stop();
    let mut restarted = Vec::new();
    while restarted.len() < 2 {
        match events.next_event().await.unwrap() {
            Followed::Event(event) if event.kind == "restarted" => restarted.push(event.path.unwrap().to_string()),
            Followed::Event(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(restarted, ["/user/tills/a", "/user/tills/b"]);
    assert!(other.exit().is_none());
    let (will, supervision) = plan("/user/tills/a").await;
    assert!(supervision.gives_up);
    assert!(
        will[1].ends_with("treats that as a failure and gives up, because its restarts are used: 1 of 1 in 60s"),
        "{will:?}"
    );
}

#[tokio::test]
async fn k3_sums_of_top_add_up_while_members_work() {
    let folder = Folder::new();
    let system = folder.system();
    let mut tills = Vec::new();
    for number in 0..20 {
        tills.push(system.spawn_started(&format!("t{number}"), props()).await.unwrap());
    }
    let mut client = folder.client().await;
    for round in 0..50 {
        for till in &tills {
            till.tell(Job::Note(round)).unwrap();
        }
        let sums = client.top(TopRequest::by(TopBy::Queued)).await.unwrap().sums.unwrap();
        let counts = sums.counts;
        assert_eq!(sums.difference, 0, "{sums:?}");
        assert!(counts.accepted >= counts.handled, "{sums:?}");
    }
}
