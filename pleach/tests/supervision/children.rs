//! S12 and S13: changing the children at run time, and restarts of a subtree.

use crate::common::{Job, Log, TestActor, quiet};
use crate::named_actor::NamedActor;
use crate::strategy::spawn_three;
use pleach::BoxError;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::supervise::{ChildError, OneForAll, RestForOne, RestartPolicy};
use std::sync::Arc;

#[test]
fn s12_children_can_be_listed_stopped_restarted_and_added() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
        let [a, b, _] = spawn_three(&supervisor, &log);
        let inner = supervisor.supervisor("inner", OneForOne::new()).unwrap();
        inner.spawn("d", NamedActor::props("d", &log)).unwrap();
        supervisor.spawn("permanent", NamedActor::props("permanent", &log).restart(RestartPolicy::Permanent)).unwrap();
        sim.settle();
        log.take();
        let names: Vec<String> = supervisor.children().iter().map(|child| child.path().to_string()).collect();
        assert_eq!(names.len(), 5);
        assert_eq!((names[0].as_str(), supervisor.child("b").map(|child| child.id())), ("/user/supervisor/a", Some(b.id())));
        for name in ["b", "permanent"] {
            assert_eq!(sim.run(supervisor.stop_child(name).unwrap().exited()), Exit::Stopped, "stopped, with any policy");
        }
        assert_eq!(log.take(), ["down b", "down permanent"]);
        supervisor.restart_child("a").unwrap();
        supervisor.restart_child("inner").unwrap();
        sim.settle();
        let mut seen = log.take();
        seen.sort();
        assert_eq!(seen, ["down a", "down d", "up a", "up d"]);
        assert_eq!((a.exit(), system.failures()), (None, 0));
        supervisor.spawn("b", NamedActor::props("b", &log)).unwrap();
        sim.settle();
        assert_eq!(log.take(), ["up b"]);
        // Unknown children.
        assert!(matches!(supervisor.stop_child("unknown"), Err(ChildError::NotFound { .. })));
        assert!(matches!(supervisor.stop_child("unknown").map_err(pleach::Error::from), Err(pleach::Error::Child(_))));
        let unknown = supervisor.restart_child("un/known").unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "/user/supervisor has no live child called \"un/known\": `children()` lists its children"
        );
    });
}

#[test]
fn s12_actor_can_stop_and_restart_its_own_children() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let parent = TestActor::spawn(&system, "parent");
        let entries = log.clone();
        parent
            .tell(Job::act(move |cx| {
                let supervisor = cx.supervisor("supervisor", OneForOne::new()).unwrap();
                supervisor.spawn("a", NamedActor::props("a", &entries)).unwrap();
                cx.spawn("b", NamedActor::props("b", &entries)).unwrap();
                let scope = cx.scope("scope").unwrap();
                assert!(matches!(cx.restart_child("scope"), Err(ChildError::CannotRestart(_))));
                drop(scope);
            }))
            .unwrap();
        sim.settle();
        assert_eq!(log.len(), 2);
        log.take();
        parent
            .tell(Job::act(|cx| {
                cx.restart_child("supervisor").unwrap();
                drop(cx.stop_child("b").unwrap());
            }))
            .unwrap();
        sim.settle();
        let mut seen = log.take();
        seen.sort();
        assert_eq!(seen, ["down a", "down b", "up a"]);
    });
}

#[test]
fn s13_supervisor_restart_restarts_its_subtree_and_keeps_addresses() {
    explore(0..200, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let outer = system.supervisor("outer", OneForOne::new()).unwrap();
        let inner = outer.supervisor("inner", OneForOne::new().restart_limit(1, Duration::from_secs(1))).unwrap();
        let [a, b, c] = spawn_three(&inner, &log);
        let deep = inner.supervisor("deep", OneForOne::new()).unwrap();
        let d = deep.spawn("d", NamedActor::props("d", &log)).unwrap();
        let sibling = outer.spawn("sibling", NamedActor::props("sibling", &log)).unwrap();
        sim.settle();
        log.take();
        (0..2).for_each(|_| b.tell(false).unwrap());
        b.tell(true).unwrap();
        sim.settle();
        let seen = log.take();
        // The first failure restarts the child. The second exceeds the limit, so the supervisor
        // restarts.
        let order = |what: &str| seen.iter().filter(|line| line.starts_with(what)).cloned().collect::<Vec<_>>();
        assert_eq!(order("up"), ["up b", "up a", "up b", "up c", "up d"]);
        let downs: Vec<String> = order("down").into_iter().filter(|line| line != "down b").collect();
        assert_eq!(downs, ["down d", "down c", "down a"]);
        assert_eq!(order("handled"), ["handled b"], "address and mailbox survive");
        assert!([&a, &b, &c, &d, &sibling].iter().all(|child| child.exit().is_none()));
        assert_eq!((system.unhandled(), inner.any().exit()), (0, None));
        // Its restart window starts again.
        b.tell(false).unwrap();
        sim.settle();
        assert_eq!(log.take(), ["down b", "up b"]);
    });
}

#[test]
fn s13_events_during_a_group_stop_do_not_stall_it() {
    quiet();
    explore(0..2_000, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let outer = system.supervisor("outer", OneForAll::new().restart_limit(50, Duration::from_secs(1))).unwrap();
        let inner = outer.supervisor("inner", RestForOne::new().restart_limit(2, Duration::from_secs(1))).unwrap();
        let children = [spawn_three(&outer, &log), spawn_three(&inner, &log)].concat();
        let mut random = pleach::runtime::Random::seeded(sim.seed());
        sim.run(async {
            for _ in 0..20 {
                let child = &children[random.below(children.len())];
                match random.below(12) {
                    0 => child.stop(),
                    1 => child.cancel(()),
                    2 => drop(outer.stop_child("b")),
                    3 => drop(outer.restart_child("inner")),
                    4 => drop(inner.spawn("b", NamedActor::props("b", &log))),
                    5 => drop(child.try_send_system(SystemMessage::Restart)),
                    6 => child.close(),
                    7 => sim.yield_now().await,
                    _ => drop(child.tell(false)),
                }
                if random.below(2) == 0 {
                    sim.yield_now().await;
                }
            }
        });
        sim.settle();
        // Every live child is up and handles messages.
        for child in children.iter().filter(|child| child.exit().is_none()) {
            let handled = child.counts().handled;
            child.tell(true).unwrap();
            sim.settle();
            assert_eq!(child.counts().handled, handled + 1, "{} is stuck", child.path());
        }
        sim.run(system.shutdown(Duration::from_secs(1))).unwrap();
        sim.settle();
        assert_eq!(sim.tasks_alive(), 0);
    });
}

#[test]
fn s13_group_of_thousands_restarts() {
    let (sim, log) = (Sim::new(1), Log::new());
    let system = sim.system("s");
    let outer = system.supervisor("outer", OneForAll::new()).unwrap();
    let shared = Arc::new(());
    for _ in 0..5_000 {
        let keep = Arc::clone(&shared);
        outer.spawn_unnamed(Props::from_fn(move || Arc::clone(&keep), |_, ()| Ok::<(), BoxError>(()))).unwrap();
    }
    for n in 0..2_000 {
        outer.supervisor(&format!("empty-{n}"), OneForOne::new()).unwrap();
    }
    let fails = outer.spawn("fails", NamedActor::props("fails", &log)).unwrap();
    sim.settle();
    fails.tell(false).unwrap();
    sim.settle();
    assert_eq!(log.take(), ["up fails", "down fails", "up fails"]);
    assert_eq!((outer.children().len(), Arc::strong_count(&shared)), (7_001, 10_001));
}
