//! S10: a watcher gets one signal when the watched member exits.

use crate::common::{Gate, Job, Log, TestActor};
use pleach::actor::AnyRef;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::system::System;

/// An actor that logs its signals.
fn logging_actor(system: &System, name: &str) -> (ActorRef<Job>, Log<String>) {
    let log = Log::new();
    (system.spawn(name, TestActor::props(&log)).unwrap(), log)
}

fn watch(sim: &Sim, watcher: &ActorRef<Job>, other: &AnyRef) {
    let other = other.clone();
    watcher.tell(Job::act(move |cx| cx.watch(&other))).unwrap();
    sim.settle();
}

fn terminations(log: &Log<String>) -> Vec<String> {
    log.take().into_iter().filter(|line| line.starts_with("terminated")).collect()
}

#[test]
fn s10_root_context_can_watch() {
    explore(0..20, |sim| {
        let system = sim.system("s");
        let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
        let watched = supervisor.spawn("watched", TestActor::props(&Log::new())).unwrap();
        let root = system.root();
        let mut watch = Box::pin(root.watch(&watched.any()));
        let dropped = root.watch(&watched.any());
        watched.tell(Job::Fail("no")).unwrap();
        sim.settle();
        sim.run(async { assert!(futures::poll!(&mut watch).is_pending(), "a restart is not an exit") });
        drop(dropped);
        watched.stop();
        for terminations in [sim.run(watch), sim.run(root.watch(&watched.any()))] {
            assert_eq!(
                (terminations.id, terminations.path, terminations.exit),
                (watched.id(), watched.path(), Exit::Stopped),
                "watched before or after the exit"
            );
        }
    });
}

#[test]
fn s10_each_watcher_gets_one_signal_even_after_the_exit() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let ((early, first), (late, second), (stopped, _)) =
            (logging_actor(&system, "early"), logging_actor(&system, "late"), logging_actor(&system, "watched"));
        watch(sim, &early, &stopped.any());
        watch(sim, &early, &stopped.any());
        stopped.stop();
        sim.settle();
        watch(sim, &late, &stopped.any());
        sim.advance(Duration::from_secs(1));
        for log in [&first, &second] {
            assert_eq!(
                terminations(log),
                ["terminated /user/watched stopped"],
                "once, even if it watched twice or after the exit"
            );
        }
    });
}

#[test]
fn s10_every_kind_of_member_can_be_watched() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let (watcher, log) = logging_actor(&system, "watcher");
    let scope = system.scope("scope").unwrap();
    let task = scope.task().named("task").launch(std::future::pending::<()>()).unwrap();
    let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
    let group = system.group::<()>("group").build().unwrap();
    for other in [scope.any(), task.any(), supervisor.any(), group.any_ref()] {
        watch(&sim, &watcher, &other);
    }
    task.cancel("enough");
    sim.settle();
    scope.close();
    supervisor.any().stop();
    group.cancel("no more");
    sim.settle();
    let mut signals = terminations(&log);
    signals.sort();
    assert_eq!(
        signals,
        [
            "terminated /user/group cancelled: no more",
            "terminated /user/scope closed",
            "terminated /user/scope/task cancelled: enough",
            "terminated /user/supervisor stopped",
        ]
    );
}

/// Watches, waits at the gate in its handler, and unwatches if the message is `true`.
struct Busy {
    watched: AnyRef,
    gate: Gate,
    log: Log<String>,
}

impl Actor for Busy {
    type Msg = bool;
    type Error = std::convert::Infallible;

    async fn handle(&mut self, unwatches: bool, cx: &mut Context<Self>) -> Result<(), Self::Error> {
        cx.watch(&self.watched);
        self.gate.pass().await;
        if unwatches {
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
fn s10_unwatch_removes_a_queued_signal() {
    for unwatches in [false, true] {
        explore(0..50, |sim| {
            let (system, gate, log) = (sim.system("s"), Gate::new(), Log::new());
            let (watched, _) = logging_actor(&system, "watched");
            let (any, waits, entries) = (watched.any(), gate.clone(), log.clone());
            let props = Props::new(move || Busy { watched: any.clone(), gate: waits.clone(), log: entries.clone() });
            let busy = system.spawn("busy", props).unwrap();
            busy.tell(unwatches).unwrap();
            sim.settle();
            watched.stop();
            assert_eq!(sim.run(watched.exited()), Exit::Stopped);
            // The signal is queued while the handler runs.
            gate.open();
            sim.settle();
            let expected: &[&str] = if unwatches { &[] } else { &["stopped"] };
            assert_eq!(log.take(), expected);
        });
    }
}

#[test]
fn s10_watches_survive_restarts_on_both_sides() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let ((watcher, log), (watched, _)) = (logging_actor(&system, "watcher"), logging_actor(&system, "watched"));
        watch(sim, &watcher, &watched.any());
        watched.tell(Job::Fail("no")).unwrap();
        watcher.tell(Job::Fail("no")).unwrap();
        sim.settle();
        assert!(terminations(&log).is_empty());
        watched.close();
        sim.settle();
        assert_eq!(terminations(&log), ["terminated /user/watched closed"]);
    });
}

#[test]
fn s10_parent_gets_signals_of_children_and_child_sees_watchers() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let ((parent, log), (watcher, _)) = (logging_actor(&system, "parent"), logging_actor(&system, "watcher"));
        let (children, seen) = (Log::new(), Log::new());
        let spawned = children.clone();
        parent.tell(Job::act(move |cx| spawned.push(cx.spawn("child", TestActor::props(&Log::new())).unwrap()))).unwrap();
        sim.settle();
        let child: ActorRef<Job> = children.take().remove(0);
        watch(sim, &watcher, &child.any());
        let ids = seen.clone();
        child.tell(Job::act(move |cx| ids.push(cx.watchers().iter().map(AnyRef::id).collect::<Vec<_>>()))).unwrap();
        sim.settle();
        assert_eq!(seen.take(), [vec![watcher.id()]]);
        child.stop();
        sim.settle();
        assert_eq!(terminations(&log), ["terminated /user/parent/child stopped"]);
    });
}

#[test]
fn s10_actor_lists_watched_actors_until_exit_or_unwatch() {
    let sim = Sim::new(1);
    let (system, other) = (sim.system("s"), sim.system("other"));
    let (watcher, _) = logging_actor(&system, "watcher");
    let watched: Vec<_> = ["a", "b"].map(|name| logging_actor(&system, name).0).into();
    let elsewhere = logging_actor(&other, "a").0;
    let seen = Log::new();
    let look = || {
        let seen = seen.clone();
        watcher.tell(Job::act(move |cx| seen.push(cx.watching().iter().map(AnyRef::id).collect::<Vec<_>>()))).unwrap();
        sim.settle();
    };
    for member in watched.iter().chain([&elsewhere]) {
        watch(&sim, &watcher, &member.any());
    }
    watched[0].try_send_system(SystemMessage::Watch(watcher.any())).unwrap();
    look();
    let mut all = vec![watched[0].id(), watched[1].id(), elsewhere.id()];
    all.sort_unstable();
    assert_eq!(seen.take(), [all], "each once");
    watched[0].stop();
    sim.settle();
    let unwatched = elsewhere.any();
    watcher.tell(Job::act(move |cx| cx.unwatch(&unwatched))).unwrap();
    look();
    assert_eq!(seen.take(), [vec![watched[1].id()]]);
}

#[test]
fn s10_watching_itself_has_no_effect() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let (alone, log) = logging_actor(&system, "alone");
    watch(&sim, &alone, &alone.any());
    alone.stop();
    assert_eq!(sim.run(alone.exited()), Exit::Stopped);
    assert!(terminations(&log).is_empty());
}
