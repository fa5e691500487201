//! What a client of the inspection socket can follow and ask for beyond single members: stuck
//! handlers, full mailboxes, health, members that are not well, and who waits for whom.

use crate::common::{Gate, Job, Log, TestActor, quiet};
use crate::socket_folder::{Folder, path};
use pleach::inspect::{Activity, Client, ClientError, EventInfo, Followed, Problem, SnapshotRequest, WaitKind};
use pleach::prelude::*;
use std::io::Write as _;
use std::os::unix::net::UnixListener;

fn props() -> Props<TestActor> {
    TestActor::props(&Log::new())
}

/// Returns the next event of this kind.
async fn next(client: &mut Client, kind: &str) -> EventInfo {
    loop {
        let event = tokio::time::timeout(Duration::from_secs(30), client.next_event()).await;
        match event.unwrap_or_else(|_| panic!("no event of the kind {kind}")).unwrap() {
            Followed::Event(event) if event.kind == kind => return event,
            Followed::Event(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn o1_stuck_handler_is_followed_at_both_ends() {
    let folder = Folder::new();
    let system = folder.system();
    let (mut client, gate) = (folder.client().await, Gate::new());
    client.follow(Some(&["stuck_handlers"])).await.unwrap();
    system.spawn_started("slow", props()).await.unwrap().tell(Job::Pass(gate.clone(), 0)).unwrap();
    let stuck = next(&mut client, "stuck_handler").await;
    assert_eq!(stuck.path, Some(path("/user/slow")));
    // Nothing has looked at the actor before, and yet its time is known.
    let Activity::Handling { for_at_least, is_exact: false } = client.member(&path("/user/slow")).await.unwrap().activity
    else {
        panic!("it should be handling")
    };
    assert!(for_at_least >= Duration::from_secs(1), "{for_at_least:?}");
    gate.open();
    assert!(next(&mut client, "handler_returned").await.text.starts_with("/user/slow has ended a "));
}

#[tokio::test]
async fn o1_full_mailbox_is_followed_at_both_ends() {
    let folder = Folder::new();
    let system = folder.system();
    let (mut client, gate) = (folder.client().await, Gate::new());
    client.follow(Some(&["mailboxes"])).await.unwrap();
    let till = system.spawn_started("till", props().mailbox(Mailbox::bounded(10))).await.unwrap();
    till.tell(Job::Pass(gate.clone(), 0)).unwrap();
    while till.any().info().handling_for().is_none() {
        tokio::task::yield_now().await;
    }
    for number in 0..10 {
        till.tell(Job::Note(number)).unwrap();
    }
    let filling = next(&mut client, "mailbox_filling").await;
    assert!(filling.text.contains("of 10 messages are queued"), "{filling:?}");
    gate.open();
    assert_eq!(next(&mut client, "mailbox_drained").await.path, Some(path("/user/till")));
}

#[tokio::test]
async fn o2_health_is_followed_from_its_present_state_on() {
    let folder = Folder::new();
    let system = folder.system();
    let report = system.root().report_health(Problem::new("ink", "there is no ink"));
    let mut client = folder.client().await;
    client.follow(Some(&["health"])).await.unwrap();
    assert_eq!(next(&mut client, "health").await.text, "the system is degraded and ready");
    assert_eq!(next(&mut client, "problem").await.text, "/: there is no ink");
    drop(report);
    assert_eq!(next(&mut client, "health").await.text, "the system is healthy and ready");
    assert_eq!(next(&mut client, "problem_over").await.text, "over: /: there is no ink");
}

#[tokio::test]
async fn o1_snapshot_can_list_only_members_that_are_not_well() {
    quiet();
    let folder = Folder::new();
    let system = folder.system();
    let scope = system.supervisor("crowd", OneForOne::new()).unwrap();
    let mut actors = Vec::new();
    for number in 0..1_000 {
        actors.push(scope.spawn_started(&format!("a{number}"), props()).await.unwrap());
    }
    actors[500].any().suspend().unwrap();
    actors[700].tell(Job::Fail("no ink")).unwrap();
    let _report = actors[900].any().report_health(Problem::new("odd", "it is odd"));
    while actors[500].any().activity() != Activity::Suspended || actors[700].any().info().last_failure.is_none() {
        tokio::task::yield_now().await;
    }
    let mut client = folder.client().await;
    let mut request = SnapshotRequest::new();
    (request.not_well, request.limit) = (true, Some(2));
    let mut found = Vec::new();
    loop {
        let page = client.snapshot(request.clone()).await.unwrap();
        assert!(page.members.len() <= 2);
        found.extend(page.members.into_iter().map(|member| member.path.to_string()));
        request.cursor = page.next;
        if request.cursor.is_none() {
            break;
        }
    }
    assert_eq!(found, ["/user/crowd/a500", "/user/crowd/a700", "/user/crowd/a900"]);
}

#[tokio::test]
async fn o1_why_names_others_that_wait_for_the_same_member() {
    let folder = Folder::new();
    let system = folder.system();
    let gate = Gate::new();
    let bank = system.spawn_started("bank", props()).await.unwrap();
    bank.tell(Job::Pass(gate.clone(), 0)).unwrap();
    for name in ["first", "second"] {
        let (bank, actor) = (bank.clone(), system.spawn_started(name, props()).await.unwrap());
        actor
            .tell(Job::work(move |_| async move {
                bank.ask(|reply| Job::Answer(reply, 1)).await?;
                Ok(())
            }))
            .unwrap();
        while actor.any().info().waits.is_empty() {
            tokio::task::yield_now().await;
        }
    }
    let why = folder.client().await.why(&path("/user/first")).await.unwrap();
    assert_eq!(why.chain.len(), 2);
    let waiters: Vec<_> = why.waiters.iter().map(|one| (one.path.to_string(), one.wait.kind)).collect();
    assert_eq!(waiters, [("/user/second".to_string(), WaitKind::Answer)]);
    assert_eq!(why.waiters_left_out, 0);
    gate.open();
}

#[tokio::test]
async fn o1_newer_protocol_is_recognised_whatever_its_greeting_has() {
    let folder = Folder::new();
    let listener = UnixListener::bind(folder.socket()).unwrap();
    let served = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        writeln!(stream, r#"{{"hello":{{"protocol":2,"who":["shop"]}}}}"#).unwrap();
    });
    let refused = Client::connect(folder.socket()).await;
    assert!(matches!(refused, Err(ClientError::Version { theirs: 2 })), "{refused:?}");
    served.join().unwrap();
}
