//! O1: a snapshot lists the tree below a path as plain values.

use crate::common::{Job, Log, TestActor, quiet};
use pleach::inspect::{Activity, MemberInfo, MemberKind, SNAPSHOT_LIMIT_MAX, Snapshot, SnapshotError, SnapshotQuery};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::system::System;
use std::time::Duration;

fn at(path: &str) -> SnapshotQuery {
    SnapshotQuery::at(path.parse().unwrap())
}

fn paths(snapshot: &Snapshot) -> Vec<String> {
    snapshot.members.iter().map(|member| member.path.to_string()).collect()
}

fn member(system: &System, path: &str) -> MemberInfo {
    system.snapshot(&at(path).depth(0)).unwrap().members.remove(0)
}

fn props() -> Props<TestActor> {
    TestActor::props(&Log::new())
}

#[test]
fn o1_members_without_a_task_say_how_long_they_are_up() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    sim.advance(Duration::from_secs(60));
    let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
    let child = supervisor.spawn("child", props()).unwrap();
    let _pool = system.pool("pool", 1, |_| props()).build().unwrap();
    sim.advance(Duration::from_secs(5));
    // A restart of a child, or of the supervisor itself, is no new start.
    child.tell(Job::Fail("no")).unwrap();
    system.root().lookup_any(&supervisor.path()).unwrap().restart().unwrap();
    sim.advance(Duration::from_secs(5));
    let up = |path: &str| member(&system, path).up_for.map(|up| up.as_secs());
    assert_eq!([up("/"), up("/user"), up("/system")], [Some(70); 3]);
    assert_eq!([up("/user/supervisor"), up("/user/pool")], [Some(10); 2]);
    assert_eq!(up("/user/supervisor/child"), None, "a spawn does not look at the clock");
    assert!(member(&system, "/user").to_string().contains("; up 70s"), "{}", member(&system, "/user"));
}

#[test]
fn o1_snapshot_lists_the_tree_with_kinds() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
    supervisor.spawn("child", props()).unwrap();
    let scope = system.scope("scope").unwrap();
    scope.task().named("task").launch(std::future::pending::<()>()).unwrap();
    let _group = system.group::<()>("group").build().unwrap();
    let _pool = system.pool("pool", 2, |_| props()).build().unwrap();
    sim.settle();
    let snapshot = system.snapshot(&SnapshotQuery::new()).unwrap();
    let listed: Vec<_> = snapshot.members.iter().map(|one| (one.path.to_string(), one.kind, one.depth)).collect();
    let listed: Vec<_> = listed.iter().map(|(path, kind, depth)| (path.as_str(), *kind, *depth)).collect();
    assert_eq!(
        listed,
        [
            ("/", MemberKind::Root, 0),
            ("/system", MemberKind::Guardian, 1),
            ("/user", MemberKind::Guardian, 1),
            ("/user/supervisor", MemberKind::Supervisor, 2),
            ("/user/supervisor/child", MemberKind::Actor, 3),
            ("/user/scope", MemberKind::Scope, 2),
            ("/user/scope/task", MemberKind::Task, 3),
            ("/user/group", MemberKind::Group, 2),
            ("/user/pool", MemberKind::Pool, 2),
            ("/user/pool/0", MemberKind::Actor, 3),
            ("/user/pool/1", MemberKind::Actor, 3),
        ]
    );
    assert_eq!(snapshot.next, None);
    let ids: std::collections::HashSet<_> = snapshot.members.iter().map(|one| one.id).collect();
    assert_eq!(ids.len(), snapshot.members.len());
}

#[test]
fn o1_snapshot_is_bounded_by_depth_count_and_kind() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
    for index in 0..5 {
        supervisor.spawn(&format!("a{index}"), props()).unwrap();
    }
    assert_eq!(paths(&system.snapshot(&at("/user").depth(0)).unwrap()), ["/user"]);
    assert_eq!(paths(&system.snapshot(&at("/user").depth(1)).unwrap()), ["/user", "/user/supervisor"]);
    let actors = system.snapshot(&SnapshotQuery::new().kinds([MemberKind::Actor])).unwrap();
    assert_eq!(actors.members.len(), 5);
    let page = system.snapshot(&at("/user/supervisor").limit(3)).unwrap();
    assert_eq!(paths(&page), ["/user/supervisor", "/user/supervisor/a0", "/user/supervisor/a1"]);
    let rest = system.snapshot(&at("/user/supervisor").limit(SNAPSHOT_LIMIT_MAX).after(page.next.unwrap())).unwrap();
    assert_eq!(paths(&rest), ["/user/supervisor/a2", "/user/supervisor/a3", "/user/supervisor/a4"]);
    assert_eq!(rest.next, None);
    let missing = system.snapshot(&at("/user/nothing"));
    assert_eq!(missing, Err(SnapshotError::NotFound("/user/nothing".parse().unwrap())));
}

#[test]
fn o1_actor_shows_mailbox_counts_restarts_and_last_failure() {
    quiet();
    let sim = Sim::new(1);
    let system = sim.system("s");
    let strategy = OneForOne::new().restart_limit(3, Duration::from_secs(60));
    let supervisor = system.supervisor("supervisor", strategy).unwrap();
    let actor = supervisor.spawn("actor", props().mailbox(Mailbox::bounded(10))).unwrap();
    for job in [Job::Note(1), Job::Fail("no ink"), Job::Fail("no paper"), Job::Note(2)] {
        actor.tell(job).unwrap();
    }
    sim.run(sim.sleep(Duration::from_secs(2)));
    actor.tell(Job::Note(3)).unwrap();
    let info = actor.any().info();
    let of_actor = info.actor.as_ref().unwrap();
    assert_eq!(of_actor.message_type, std::any::type_name::<Job>());
    assert_eq!((of_actor.queued, of_actor.capacity, of_actor.incarnation), (1, Some(10), 2));
    assert_eq!((of_actor.counts.accepted, of_actor.counts.handled, of_actor.counts.failed), (5, 2, 2));
    let restarts = info.restarts.unwrap();
    assert_eq!((restarts.used, restarts.allowed, restarts.window), (2, Some(3), Duration::from_secs(60)));
    assert!(restarts.is_shared);
    let failure = info.last_failure.as_ref().unwrap();
    assert_eq!((failure.reason.as_str(), failure.incarnation, failure.ago), ("no paper", 1, Duration::from_secs(2)));
    assert_eq!(failure.message.as_deref(), Some("job"));
    // The same through a path, without the message type.
    let any = system.root().lookup_any(&"/user/supervisor/actor".parse().unwrap()).unwrap();
    assert_eq!((any.queued(), any.kind(), any.restarts().unwrap().used), (1, MemberKind::Actor, 2));
    assert_eq!(any.counts(), actor.counts());
    // The window passes: no restart counts any more.
    sim.run(sim.sleep(Duration::from_secs(61)));
    assert_eq!(any.restarts().unwrap().used, 0);
}

#[test]
fn o1_actor_shows_stash_timers_and_waiting_senders() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let actor = system.spawn("actor", props().mailbox(Mailbox::bounded(1))).unwrap();
    actor
        .tell(Job::act(|cx| {
            cx.send_after(Duration::from_secs(5), Job::Note(1));
            cx.send_every(Duration::from_secs(5), || Job::Note(2));
            cx.stash(Job::Note(3)).unwrap();
        }))
        .unwrap();
    sim.settle();
    actor.any().suspend().unwrap();
    sim.settle();
    actor.tell(Job::Note(4)).unwrap();
    let scope = system.scope("senders").unwrap();
    let to = actor.clone();
    let task = scope.launch(async move { to.send(Job::Note(5)).await.map_err(|_| "refused") }).unwrap();
    sim.settle();
    let info = actor.any().info();
    let of_actor = info.actor.as_ref().unwrap();
    assert_eq!((of_actor.stashed, of_actor.timers, of_actor.queued, of_actor.waiting_senders), (1, 2, 1, 1));
    assert!(info.is_full());
    // The sender shows for whose room it waits.
    let waits = task.any().info().waits;
    assert_eq!((waits.len(), waits[0].on.to_string(), waits[0].id), (1, actor.path().to_string(), actor.id().get()));
    assert_eq!(waits[0].to_string(), "waits for room in the mailbox of /user/actor");
}

#[test]
fn o1_snapshot_displays_an_indented_tree() {
    quiet();
    let sim = Sim::new(1);
    let system = sim.system("s");
    let supervisor = system.supervisor("workers", OneForOne::new()).unwrap();
    let actor = supervisor.spawn("ink", props()).unwrap();
    actor.tell(Job::Fail("line one\nline two\u{1b}[2J")).unwrap();
    sim.settle();
    let text = system.snapshot(&at("/user")).unwrap().to_string();
    assert_eq!(
        text,
        "/user (guardian) open; 1 child; up 0us\n  \
           workers (supervisor) open; 1 child; up 0us\n    \
             ink (actor) idle; 0 queued, 0 handled, 1 failed; 1 of 3 restarts in 5.0s; \
             failed 0us ago: line one\\nline two\\u{1b}[2J"
    );
    let page = system.snapshot(&SnapshotQuery::new().limit(1)).unwrap().to_string();
    assert_eq!(page, "/ (root) open; 2 children; up 0us\n… more");
}

#[test]
fn o1_pool_shows_its_workers_and_its_size() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let pool = system.pool("pool", 3, |_| props()).build().unwrap();
    let info = member(&system, "/user/pool");
    assert_eq!((info.children, info.pool_size), (3, Some(3)));
    pool.resize(2).unwrap();
    sim.settle();
    let info = member(&system, "/user/pool");
    assert_eq!((info.children, info.pool_size, info.activity), (2, Some(2), Activity::Open));
}

#[test]
fn o1_unnamed_member_is_found_among_many() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let actors: Vec<_> = (0..1_000).map(|_| system.spawn_unnamed(props()).unwrap()).collect();
    for actor in actors.iter().step_by(97).chain(actors.last()) {
        assert_eq!(system.root().lookup_any(&actor.path()).unwrap(), actor.any());
    }
    actors[500].stop();
    sim.settle();
    assert_eq!(system.root().lookup_any(&actors[500].path()), None);
}

#[cfg(feature = "serde")]
#[test]
fn o1_values_survive_json() {
    quiet();
    let sim = Sim::new(1);
    let system = sim.system("s");
    let actor = system.spawn("actor", props()).unwrap();
    actor.tell(Job::Fail("no ink")).unwrap();
    sim.settle();
    let snapshot = system.snapshot(&SnapshotQuery::new().limit(2)).unwrap();
    let text = serde_json::to_string(&snapshot).unwrap();
    assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), snapshot);
    let info = actor.any().info();
    let json = serde_json::to_value(&info).unwrap();
    assert_eq!(json["path"], "/user/actor");
    assert_eq!((&json["kind"], &json["activity"]["state"]), (&"actor".into(), &"idle".into()));
    assert_eq!(json["restarts"]["window_us"], 5_000_000);
    assert_eq!(serde_json::from_value::<MemberInfo>(json).unwrap(), info);
}

#[cfg(feature = "graph")]
#[test]
fn o1_run_of_a_graph_shows_as_a_run() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let scope = system.scope("runs").unwrap();
    let graph = Graph::<u32>::new("adds")
        .add_node("wait", |n: u32| async move {
            std::future::pending::<()>().await;
            Ok::<_, String>(n)
        })
        .add_edge("wait", END)
        .set_entry("wait")
        .compile()
        .unwrap();
    let _run = graph.run(1).id("first").in_scope(&scope).into_future();
    sim.settle();
    let info = member(&system, "/user/runs/first");
    assert_eq!((info.kind, info.children), (MemberKind::Run, 2));
}
