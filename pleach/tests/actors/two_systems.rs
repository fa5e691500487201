//! S10: two systems in one process. Their actors watch, ask and publish to each other, although
//! both systems use the same id numbers.

use crate::common::{Gate, Job, Log, TestActor};
use pleach::prelude::*;
use pleach::routing::SlowSubscriber;
use pleach::sim::{Sim, explore};

/// Two equal systems: the actors called `name` have the same id number.
fn twins(sim: &Sim, name: &str) -> [(ActorSystem, ActorRef<Job>, Log<String>); 2] {
    ["left", "right"].map(|system| {
        let (system, log) = (sim.system(system), Log::new());
        let actor = system.spawn(name, TestActor::props(&log)).unwrap();
        (system, actor, log)
    })
}

fn exits_seen(log: &Log<String>) -> usize {
    log.seen().iter().filter(|line| line.starts_with("terminated")).count()
}

#[test]
fn s10_ids_of_two_systems_differ_and_paths_are_equal() {
    let sim = Sim::new(1);
    let [(left, a, _), (right, b, _)] = twins(&sim, "a");
    assert_eq!(a.id().get(), b.id().get(), "each tree counts from 1");
    assert_ne!(a.id(), b.id());
    let [c, d] = [&left, &right].map(|system| system.spawn_unnamed(TestActor::props(&Log::new())).unwrap());
    assert_eq!(c.path(), d.path(), "a path is the same in every run of a program");
    assert_ne!(c.id(), d.id());
}

#[test]
fn s10_watchers_in_two_systems_both_get_the_signal() {
    explore(0..50, |sim| {
        let [(left, first, first_log), (_right, second, second_log)] = twins(sim, "watcher");
        let watched = left.spawn("watched", TestActor::props(&Log::new())).unwrap();
        for watcher in [&first, &second] {
            let other = watched.any();
            watcher.tell(Job::act(move |cx| cx.watch(&other))).unwrap();
        }
        sim.settle();
        watched.stop();
        sim.settle();
        assert_eq!((exits_seen(&first_log), exits_seen(&second_log)), (1, 1));
    });
}

#[test]
fn s10_exits_in_two_systems_give_two_signals() {
    explore(0..50, |sim| {
        let [(left, first, _), (_right, second, _)] = twins(sim, "watched");
        let log = Log::new();
        let watcher = left.spawn("watcher", TestActor::props(&log)).unwrap();
        let others = [first.any(), second.any()];
        watcher.tell(Job::act(move |cx| others.iter().for_each(|other| cx.watch(other)))).unwrap();
        sim.settle();
        // Both signals wait in the control lane.
        let gate = Gate::new();
        watcher.tell(Job::Pass(gate.clone(), 1)).unwrap();
        sim.settle();
        for watched in [&first, &second] {
            watched.stop();
        }
        sim.settle();
        gate.open();
        sim.settle();
        assert_eq!(exits_seen(&log), 2);
    });
}

#[test]
fn s10_unwatch_affects_only_the_actor_of_one_system() {
    explore(0..50, |sim| {
        let [(left, first, _), (_right, second, _)] = twins(sim, "watched");
        let log = Log::new();
        let watcher = left.spawn("watcher", TestActor::props(&log)).unwrap();
        let others = [first.any(), second.any()];
        // Both signals are queued, and one watch is removed.
        for watched in [&first, &second] {
            watched.stop();
        }
        sim.settle();
        watcher
            .tell(Job::act(move |cx| {
                others.iter().for_each(|other| cx.watch(other));
                cx.unwatch(&others[0]);
            }))
            .unwrap();
        sim.settle();
        assert_eq!(exits_seen(&log), 1, "{:?}", log.seen());
    });
}

#[test]
fn s10_asks_and_topics_work_across_systems() {
    explore(0..50, |sim| {
        let [(left, first, first_log), (right, second, second_log)] = twins(sim, "actor");
        let topic = Topic::<u32>::new();
        for actor in [&first, &second] {
            topic.subscribe_with(actor, SlowSubscriber::Wait, Job::Note);
        }
        sim.run(async {
            let asked = second.clone();
            first
                .tell(Job::work(move |_| async move {
                    assert_eq!(asked.ask(|reply| Job::Answer(reply, 7)).await?, 7);
                    Ok(())
                }))
                .unwrap();
            assert_eq!(topic.publish(3).await.delivered, 2, "one subscription each");
        });
        sim.settle();
        for (system, log) in [(&left, &first_log), (&right, &second_log)] {
            assert!(log.seen().contains(&"3".to_string()), "{:?}", log.seen());
            assert!(system.counts().is_settled() && system.failures() == 0, "{}", system.counts());
        }
        right.cancel(Cause::Cancelled);
        sim.settle();
        let ended = sim.run(second.ask(|reply| Job::Answer(reply, 1)));
        assert!(matches!(ended, Err(AskError::Cancelled(_))), "{ended:?}");
        assert!(first.exit().is_none(), "the end of a system does not end another");
    });
}
