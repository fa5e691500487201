//! S10: whoever watches something hears of its end, once, whatever lies in between.

use crate::common::{Doer, Gate, Job, Log};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{AnyRef, System};

/// An actor that notes what it hears.
fn ear(system: &System, name: &str) -> (ActorRef<Job>, Log<String>) {
    let log = Log::new();
    (system.spawn(name, Doer::props(&log)).unwrap(), log)
}

fn watch(sim: &Sim, watcher: &ActorRef<Job>, other: &AnyRef) {
    let other = other.clone();
    watcher.tell(Job::act(move |cx| cx.watch(&other))).unwrap();
    sim.settle();
}

fn heard(log: &Log<String>) -> Vec<String> {
    log.take().into_iter().filter(|line| line.starts_with("terminated")).collect()
}

#[test]
fn s10_the_root_context_watches_from_outside_any_actor() {
    explore(0..20, |sim| {
        let system = sim.system("s");
        let crew = system.supervisor("crew", OneForOne::new()).unwrap();
        let watched = crew.spawn("watched", Doer::props(&Log::new())).unwrap();
        let root = system.root();
        let mut watch = Box::pin(root.watch(&watched.any()));
        let dropped = root.watch(&watched.any());
        watched.tell(Job::Fail("no")).unwrap();
        sim.settle();
        sim.run(async { assert!(futures::poll!(&mut watch).is_pending(), "a restart is no end") });
        drop(dropped);
        watched.stop();
        for heard in [sim.run(watch), sim.run(root.watch(&watched.any()))] {
            assert_eq!((heard.id, heard.path, heard.exit), (watched.id(), watched.path(), Exit::Stopped), "early or late");
        }
    });
}

#[test]
fn s10_each_watcher_hears_once_with_the_exit_also_of_the_dead() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let ((early, first), (late, second), (stopped, _)) =
            (ear(&system, "early"), ear(&system, "late"), ear(&system, "watched"));
        watch(sim, &early, &stopped.any());
        watch(sim, &early, &stopped.any());
        stopped.stop();
        sim.settle();
        watch(sim, &late, &stopped.any());
        sim.advance(Duration::from_secs(1));
        for log in [&first, &second] {
            assert_eq!(heard(log), ["terminated /user/watched stopped"], "once, although it watched twice, or came late");
        }
    });
}

#[test]
fn s10_anything_in_the_tree_can_be_watched() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let (watcher, log) = ear(&system, "watcher");
    let scope = system.scope("scope").unwrap();
    let task = scope.task().named("task").launch(std::future::pending::<()>()).unwrap();
    let crew = system.supervisor("crew", OneForOne::new()).unwrap();
    let group = system.group::<()>("group").build().unwrap();
    for other in [scope.any(), task.any(), crew.any(), group.any_ref()] {
        watch(&sim, &watcher, &other);
    }
    task.cancel("enough");
    sim.settle();
    scope.close();
    crew.any().stop();
    group.cancel("no more");
    sim.settle();
    let mut told = heard(&log);
    told.sort();
    assert_eq!(
        told,
        [
            "terminated /user/crew stopped",
            "terminated /user/group cancelled: no more",
            "terminated /user/scope closed",
            "terminated /user/scope/task cancelled: enough",
        ]
    );
}

/// Watches, waits at the gate inside its handler, and takes the watch back if it is told to.
struct Busy {
    watched: AnyRef,
    gate: Gate,
    log: Log<String>,
}

impl Actor for Busy {
    type Msg = bool;
    type Error = std::convert::Infallible;

    async fn handle(&mut self, takes_back: bool, cx: &mut Context<Self>) -> Result<(), Self::Error> {
        cx.watch(&self.watched);
        self.gate.pass().await;
        if takes_back {
            cx.unwatch(&self.watched);
        }
        Ok(())
    }

    async fn signal(&mut self, signal: Signal, _cx: &mut Context<Self>) -> Result<(), Self::Error> {
        if let Signal::Terminated(end) = signal {
            self.log.note(end.exit);
        }
        Ok(())
    }
}

#[test]
fn s10_after_unwatch_not_even_news_that_waits_arrives() {
    for takes_back in [false, true] {
        explore(0..50, |sim| {
            let (system, gate, log) = (sim.system("s"), Gate::new(), Log::new());
            let (watched, _) = ear(&system, "watched");
            let (any, waits, notes) = (watched.any(), gate.clone(), log.clone());
            let props = Props::new(move || Busy { watched: any.clone(), gate: waits.clone(), log: notes.clone() });
            let busy = system.spawn("busy", props).unwrap();
            busy.tell(takes_back).unwrap();
            sim.settle();
            watched.stop();
            assert_eq!(sim.run(watched.exited()), Exit::Stopped);
            // The news waits behind the handler by now.
            gate.open();
            sim.settle();
            let expected: &[&str] = if takes_back { &[] } else { &["stopped"] };
            assert_eq!(log.take(), expected);
        });
    }
}

#[test]
fn s10_a_restart_is_no_end_and_watches_survive_it_on_either_side() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let ((watcher, log), (watched, _)) = (ear(&system, "watcher"), ear(&system, "watched"));
        watch(sim, &watcher, &watched.any());
        watched.tell(Job::Fail("no")).unwrap();
        watcher.tell(Job::Fail("no")).unwrap();
        sim.settle();
        assert!(heard(&log).is_empty());
        watched.close();
        sim.settle();
        assert_eq!(heard(&log), ["terminated /user/watched closed"]);
    });
}

#[test]
fn s10_a_parent_hears_of_its_children_without_asking_and_sees_who_watches() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let ((parent, log), (watcher, _)) = (ear(&system, "parent"), ear(&system, "watcher"));
        let (born, seen) = (Log::new(), Log::new());
        let spawned = born.clone();
        parent.tell(Job::act(move |cx| spawned.push(cx.spawn("child", Doer::props(&Log::new())).unwrap()))).unwrap();
        sim.settle();
        let child: ActorRef<Job> = born.take().remove(0);
        watch(sim, &watcher, &child.any());
        let ids = seen.clone();
        child.tell(Job::act(move |cx| ids.push(cx.watchers().iter().map(AnyRef::id).collect::<Vec<_>>()))).unwrap();
        sim.settle();
        assert_eq!(seen.take(), [vec![watcher.id()]]);
        child.stop();
        sim.settle();
        assert_eq!(heard(&log), ["terminated /user/parent/child stopped"]);
    });
}

#[test]
fn s10_actor_sees_whom_it_watches_until_they_end_or_it_unwatches() {
    let sim = Sim::new(1);
    let (system, other) = (sim.system("s"), sim.system("other"));
    let (watcher, _) = ear(&system, "watcher");
    let watched: Vec<_> = ["a", "b"].map(|name| ear(&system, name).0).into();
    let abroad = ear(&other, "a").0;
    let seen = Log::new();
    let look = || {
        let seen = seen.clone();
        watcher.tell(Job::act(move |cx| seen.push(cx.watching().iter().map(AnyRef::id).collect::<Vec<_>>()))).unwrap();
        sim.settle();
    };
    for one in watched.iter().chain([&abroad]) {
        watch(&sim, &watcher, &one.any());
    }
    watched[0].try_send_system(SystemMessage::Watch(watcher.any())).unwrap();
    look();
    let mut all = vec![watched[0].id(), watched[1].id(), abroad.id()];
    all.sort_unstable();
    assert_eq!(seen.take(), [all], "each once");
    watched[0].stop();
    sim.settle();
    let unwatched = abroad.any();
    watcher.tell(Job::act(move |cx| cx.unwatch(&unwatched))).unwrap();
    look();
    assert_eq!(seen.take(), [vec![watched[1].id()]]);
}

#[test]
fn s10_watching_oneself_tells_nothing_and_harms_nothing() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let (alone, log) = ear(&system, "alone");
    watch(&sim, &alone, &alone.any());
    alone.stop();
    assert_eq!(sim.run(alone.exited()), Exit::Stopped);
    assert!(heard(&log).is_empty());
}
