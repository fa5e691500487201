//! The inspection socket serves snapshots, members, top lists, health, rates and events.

use crate::common::no_text::NoText;
use crate::common::{Gate, Job, Log, TestActor, quiet};
use crate::socket_folder::{Folder, path};
use pleach::inspect::{
    Activity, ClientError, Followed, Health, MemberKind, PROTOCOL_VERSION, Problem, SnapshotRequest, TopBy, TopRequest,
};
use pleach::prelude::*;
use std::collections::BTreeSet;
use std::time::Duration;

fn props() -> Props<TestActor> {
    TestActor::props(&Log::new())
}

#[tokio::test]
async fn o1_socket_greets_and_lists_the_tree_in_pages() {
    let folder = Folder::new();
    let system = folder.system();
    for index in 0..250 {
        system.spawn_started(&format!("a{index}"), props()).await.unwrap();
    }
    let mut client = folder.client().await;
    let hello = client.hello().clone();
    assert_eq!((hello.protocol, hello.name.as_str(), hello.pid), (PROTOCOL_VERSION, "shop", std::process::id()));
    assert!(hello.actions.is_empty(), "read-only unless the program allows more");
    let mut request = SnapshotRequest::new();
    request.path = Some(path("/user"));
    request.limit = Some(100);
    let (mut ids, mut pages) = (BTreeSet::new(), 0);
    loop {
        let page = client.snapshot(request.clone()).await.unwrap();
        assert!(page.members.len() <= 100);
        page.members.iter().for_each(|member| assert!(ids.insert(member.id)));
        pages += 1;
        match page.next {
            Some(next) => request.cursor = Some(next),
            None => break,
        }
    }
    assert_eq!((ids.len(), pages), (251, 3));
    let member = client.member(&path("/user/a7")).await.unwrap();
    assert_eq!((member.kind, member.activity), (MemberKind::Actor, Activity::Idle));
    // The socket is part of the tree that it shows.
    let own = client.member(&path("/system/inspect")).await.unwrap();
    assert_eq!(own.kind, MemberKind::Actor);
    match client.member(&path("/user/nothing")).await {
        Err(ClientError::Refused(failure)) => assert_eq!(failure.code, "not_found"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn o1_socket_sorts_on_the_server() {
    let folder = Folder::new();
    let system = folder.system();
    let gate = Gate::new();
    for index in 0..40 {
        let actor = system.spawn_started(&format!("a{index}"), props()).await.unwrap();
        actor.tell(Job::Pass(gate.clone(), 0)).unwrap();
        (0..index).for_each(|n| actor.tell(Job::Note(n)).unwrap());
    }
    let mut client = folder.client().await;
    let mut request = TopRequest::by(TopBy::Queued);
    request.limit = Some(5);
    let top = client.top(request).await.unwrap();
    let names: Vec<_> = top.rows.iter().map(|row| row.member.path.to_string()).collect();
    assert_eq!(names, ["/user/a39", "/user/a38", "/user/a37", "/user/a36", "/user/a35"]);
    assert!(top.is_complete && top.compared >= 40);
    let top = client.top(TopRequest::by(TopBy::Handling)).await.unwrap();
    assert_eq!(top.rows.len(), 20);
    assert!(top.rows.iter().all(|row| row.member.handling_for().is_some()));
}

#[tokio::test]
async fn o1_sorted_list_says_that_rows_were_cut() {
    let folder = Folder::new();
    let system = folder.system();
    // The paths of all rows together are longer than an answer may be.
    let mut scopes = vec![system.scope("a").unwrap()];
    for _ in 0..8 {
        scopes.push(scopes.last().unwrap().scope(&"b".repeat(120)).unwrap());
    }
    for index in 0..1_000 {
        drop(scopes.last().unwrap().spawn(&index.to_string(), props()).unwrap());
    }
    let mut client = folder.client().await;
    let mut request = TopRequest::by(TopBy::Queued);
    request.limit = Some(1_000);
    let top = client.top(request.clone()).await.unwrap();
    assert!(top.is_cut && top.is_complete && top.rows.len() < 1_000, "{} rows", top.rows.len());
    request.limit = Some(100);
    let top = client.top(request).await.unwrap();
    assert!(!top.is_cut && top.rows.len() == 100, "fewer rows by request are not cut");
}

#[tokio::test]
async fn o1_sorted_list_is_limited_by_path_and_summed() {
    let folder = Folder::new();
    let system = folder.system();
    let gate = Gate::new();
    for (name, queued) in [("Bank-a", 2), ("bank-b", 3), ("till", 50)] {
        let actor = system.spawn_started(name, props()).await.unwrap();
        actor.tell(Job::Pass(gate.clone(), 0)).unwrap();
        (0..queued).for_each(|n| actor.tell(Job::Note(n)).unwrap());
    }
    let mut client = folder.client().await;
    let mut request = TopRequest::by(TopBy::Queued);
    request.path = Some(path("/user"));
    request.limit = Some(1);
    let all = client.top(request.clone()).await.unwrap();
    let sums = all.sums.unwrap();
    assert_eq!((sums.members, sums.counts.accepted, sums.counts.handled), (3, 58, 0));
    assert!((55..=58).contains(&sums.queued), "at most one message of each is being handled: {sums:?}");
    request.contains = Some("BANK".into());
    let banks = client.top(request.clone()).await.unwrap();
    let names: Vec<_> = banks.rows.iter().map(|row| row.member.path.to_string()).collect();
    assert_eq!((names, banks.sums.unwrap().members), (vec!["/user/bank-b".into()], 2));
    assert_eq!(banks.compared, all.compared, "all of them were compared");
    request.contains = Some("nothing".into());
    let none = client.top(request).await.unwrap();
    assert!(none.rows.is_empty() && none.sums.unwrap().members == 0);
}

#[tokio::test]
async fn o1_events_of_one_subtree_are_followed() {
    quiet();
    let folder = Folder::new();
    let system = folder.system();
    let mut client = folder.client().await;
    client.follow_below(&path("/user/shop"), Some(&["lifecycle"])).await.unwrap();
    system.spawn_started("shopping", props()).await.unwrap();
    let shop = system.supervisor("shop", OneForOne::new()).unwrap();
    shop.spawn("till", props()).unwrap();
    match client.next_event().await.unwrap() {
        Followed::Event(event) => assert_eq!(event.path.unwrap().to_string(), "/user/shop/till"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn o1_socket_serves_rates_between_two_requests() {
    let folder = Folder::new();
    let system = folder.system();
    let actor = system.spawn_started("busy", props()).await.unwrap();
    let mut client = folder.client().await;
    assert_eq!(client.rates(&path("/user")).await.unwrap().last_10s, None);
    let mut by_rate = TopRequest::by(TopBy::Rate);
    by_rate.path = Some(path("/user"));
    assert_eq!(client.top(by_rate.clone()).await.unwrap().rows[0].handled_per_s, None);
    // A pass is due half a second after the one before.
    let rates = loop {
        actor.ask(|reply| Job::Answer(reply, 1)).await.unwrap();
        let rates = client.rates(&path("/user")).await.unwrap();
        if let Some(rates) = rates.last_10s {
            break rates;
        }
    };
    assert!(rates.handled > 1.0, "{rates:?}");
    let row = client.top(by_rate).await.unwrap().rows.remove(0);
    assert!(row.member.path == "/user/busy" && row.handled_per_s.unwrap() > 1.0, "{row:?}");
}

#[tokio::test]
async fn o2_socket_serves_health() {
    let folder = Folder::new();
    let system = folder.system();
    let mut client = folder.client().await;
    assert_eq!(client.health().await.unwrap(), Health::Healthy);
    let _report = system.root().report_health(Problem::new("printer", "out of paper").advice("add paper"));
    let health = client.health().await.unwrap();
    assert_eq!(health.to_string(), "degraded\n- /: out of paper; add paper");
}

#[tokio::test]
async fn o1_why_follows_waits_to_the_deepest_cause() {
    let folder = Folder::new();
    let system = folder.system();
    let spawn = |name: &'static str| system.spawn_started(name, props());
    let (first, second, third) = (spawn("first").await.unwrap(), spawn("second").await.unwrap(), spawn("third").await.unwrap());
    third.tell(Job::Pass(Gate::new(), 0)).unwrap();
    for (from, to) in [(&second, &third), (&first, &second)] {
        let to = to.clone();
        from.tell(Job::work(move |_| async move {
            to.ask(|reply| Job::Answer(reply, 1)).await?;
            Ok(())
        }))
        .unwrap();
    }
    let mut client = folder.client().await;
    let why = loop {
        let why = client.why(&path("/user/first")).await.unwrap();
        if why.chain.len() == 3 && why.chain[2].handling_for().is_some() {
            break why;
        }
    };
    let names: Vec<_> = why.chain.iter().map(|member| member.path.to_string()).collect();
    assert_eq!((names, why.is_cycle), (vec!["/user/first".into(), "/user/second".into(), "/user/third".into()], false));
}

#[tokio::test]
async fn o1_followed_events_arrive_in_order() {
    quiet();
    let folder = Folder::new();
    let system = folder.system();
    let mut client = folder.client().await;
    client.follow(None).await.unwrap();
    let actor = system.spawn_started("actor", props()).await.unwrap();
    actor.tell(Job::Fail("no ink")).unwrap();
    let mut seen = Vec::new();
    while !seen.iter().any(|(kind, _)| kind == "restarted") {
        match client.next_event().await.unwrap() {
            Followed::Event(event) => {
                assert_eq!(event.seq, seen.len() as u64 + 1);
                assert!(event.path.as_ref().is_none_or(|path| !path.to_string().starts_with("/system/inspect")));
                seen.push((event.kind, event.text));
            }
            other => panic!("{other:?}"),
        }
    }
    let kinds: Vec<_> = seen.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["started", "failed", "decided", "restarted"]);
    assert_eq!(seen[1].1, "/user/actor failed: no ink (handling job)");
    client.unfollow().await.unwrap();
    match client.follow(Some(&["rumours"])).await {
        Err(ClientError::Refused(failure)) => assert_eq!(failure.code, "bad_request"),
        other => panic!("{other:?}"),
    }
    client.follow(Some(&["failures"])).await.unwrap();
    actor.tell(Job::Fail("no paper")).unwrap();
    match client.next_event().await.unwrap() {
        Followed::Event(event) => assert_eq!(event.text, "/user/actor failed: no paper (handling job)"),
        other => panic!("{other:?}"),
    }
}

/// Otherwise each event that is sent would cause the next one.
#[tokio::test]
async fn o1_socket_sends_no_events_about_itself() {
    let folder = Folder::new();
    let system = folder.system();
    let mut client = folder.client().await;
    client.follow(Some(&["lifecycle"])).await.unwrap();
    // Another client comes, asks and leaves, and this one asks too: members start and end for it.
    let mut other = folder.client().await;
    other.health().await.unwrap();
    client.health().await.unwrap();
    let connection = system.root().lookup_any(&path("/system/inspect/c2")).unwrap();
    drop(other);
    connection.exited().await;
    system.spawn_started("actor", props()).await.unwrap();
    match client.next_event().await.unwrap() {
        Followed::Event(event) => assert_eq!((event.seq, event.text.as_str()), (1, "/user/actor started")),
        other => panic!("{other:?}"),
    }
}

/// With no client connected, nothing listens and nothing is measured.
#[tokio::test]
async fn o1_socket_without_clients_wants_no_events() {
    let folder = Folder::new();
    let system = folder.system();
    let before = system.hub().subscribers();
    let mut client = folder.client().await;
    assert_eq!(system.hub().subscribers(), before, "a client that only asks listens to nothing");
    client.follow(None).await.unwrap();
    assert_eq!(system.hub().subscribers(), before + 1);
    drop(client);
    let own = system.root().lookup_any(&path("/system/inspect/c1")).unwrap();
    own.exited().await;
    assert_eq!(system.hub().subscribers(), before);
}

#[tokio::test]
async fn o1_socket_serves_until_everything_below_user_has_ended() {
    let folder = Folder::new();
    let system = folder.system();
    let gate = Gate::new();
    let actor = system.spawn_started("slow", props()).await.unwrap();
    actor.tell(Job::Pass(gate.clone(), 0)).unwrap();
    let mut client = folder.client().await;
    system.root().begin_shutdown();
    assert_eq!(client.health().await.unwrap(), Health::Down);
    let slow = client.member(&path("/user/slow")).await.unwrap();
    assert!(slow.handling_for().is_some(), "the client sees what the shutdown waits for");
    gate.open();
    system.shutdown(Duration::from_secs(10)).await.unwrap();
    assert!(!folder.socket().exists());
    assert!(matches!(client.health().await, Err(ClientError::Io(_))));
}

#[tokio::test]
async fn o1_event_whose_text_panics_leaves_the_connection_open() {
    quiet();
    let folder = Folder::new();
    let system = folder.system();
    let mut client = folder.client().await;
    client.follow(Some(&["failures", "lifecycle"])).await.unwrap();
    let actor = system.spawn("a", Props::from_fn(|| (), |_, ()| Err(NoText)).restart(RestartPolicy::Temporary)).unwrap();
    actor.tell(()).unwrap();
    let mut texts = Vec::new();
    while texts.len() < 3 {
        match client.next_event().await.unwrap() {
            Followed::Event(event) => texts.push(event.text),
            other => panic!("{other:?}"),
        }
    }
    assert!(texts[1].starts_with("failed; the error panicked"), "{texts:?}");
    assert!(client.health().await.is_ok());
}
