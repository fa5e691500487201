//! A18: the effect of each system message.

use crate::common::{Job, Log, TestActor, dead_letters};
use crate::control::terminated;
use pleach::events::DeadLetterReason;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};

#[test]
fn a18_each_system_message_has_its_effect() {
    explore(0..50, |sim| {
        let (system, log, signals) = (sim.system("s"), Log::new(), Log::new());
        let actor = system.spawn("actor", TestActor::props(&log)).unwrap();
        let watcher = system.spawn("watcher", TestActor::props(&signals)).unwrap();
        let other = system.spawn("other", TestActor::props(&signals)).unwrap();
        let tell = |message| {
            actor.try_send_system(message).unwrap();
            sim.settle();
        };
        sim.settle();
        signals.take();
        tell(SystemMessage::Suspend);
        actor.tell(Job::Note(1)).unwrap();
        sim.settle();
        assert_eq!(log.take(), ["started 0"], "a suspended actor handles no message");
        tell(SystemMessage::Resume);
        assert_eq!(log.take(), ["1"]);
        tell(SystemMessage::Restart);
        assert_eq!(log.take(), ["stopped 0 stopped", "started 1"]);
        let failure = failure_of(sim);
        tell(SystemMessage::Failure(failure.clone()));
        tell(SystemMessage::Escalate(failure.clone()));
        assert_eq!(log.take(), [format!("failure {}", failure.path()), format!("escalate {}", failure.path())]);
        tell(SystemMessage::Watch(watcher.any()));
        tell(SystemMessage::Watch(other.any()));
        tell(SystemMessage::Unwatch(other.any()));
        tell(SystemMessage::Stop);
        assert_eq!(log.take(), ["stopped 1 stopped"]);
        assert_eq!(signals.take(), ["terminated /user/actor stopped"], "only the watcher, once");
        watcher.try_send_system(SystemMessage::Terminated(terminated(&actor))).unwrap();
        sim.settle();
        assert_eq!(signals.take(), ["terminated /user/actor stopped"]);
    });
}

/// A failure of an actor in another system.
fn failure_of(sim: &Sim) -> FailureInfo {
    let system = sim.system("elsewhere");
    let supervisor = system.supervisor("supervisor", OneForOne::new().always(SupervisorDirective::Stop)).unwrap();
    let actor = supervisor.spawn("actor", TestActor::props(&Log::new())).unwrap();
    actor.tell(Job::Fail("there")).unwrap();
    sim.settle();
    actor.exit().unwrap().failure().unwrap().clone()
}

#[test]
fn a18_system_message_is_returned_after_the_end() {
    let sim = Sim::new(0);
    let (system, signals) = (sim.system("s"), Log::new());
    let actor = TestActor::spawn(&system, "actor");
    let watcher = system.spawn("watcher", TestActor::props(&signals)).unwrap();
    actor.stop();
    sim.settle();
    for message in [SystemMessage::Stop, SystemMessage::Restart, SystemMessage::Suspend, SystemMessage::Resume] {
        let kind = std::mem::discriminant(&message);
        match actor.try_send_system(message) {
            Err(SendError::Closed(back)) => assert_eq!(std::mem::discriminant(&back), kind),
            sent => panic!("not returned: {sent:?}"),
        }
    }
    actor.try_send_system(SystemMessage::Watch(watcher.any())).expect("watching an ended actor is answered");
    sim.settle();
    assert_eq!(signals.take(), ["started 0", "terminated /user/actor stopped"]);
}

#[test]
fn a18_actor_sends_control_messages_from_its_handler() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let dead_letters = dead_letters(&system);
        let actor = system.spawn("actor", TestActor::props(&log)).unwrap();
        let other = TestActor::spawn(&system, "other");
        let send_itself = |message| actor.tell(Job::act(move |cx| cx.try_send_system(message))).unwrap();
        send_itself(SystemMessage::Restart);
        actor.tell(Job::Note(1)).unwrap();
        send_itself(SystemMessage::Suspend);
        actor.tell(Job::Note(2)).unwrap();
        sim.settle();
        assert_eq!(log.take(), ["started 0", "stopped 0 stopped", "started 1", "1"]);
        actor.try_send_system(SystemMessage::Resume).unwrap();
        // From a handler: registers this actor as a watcher of another and stops the other.
        let (watched, me) = (other.clone(), actor.any());
        actor
            .tell(Job::act(move |_| {
                watched.try_send_system(SystemMessage::Watch(me)).unwrap();
                watched.try_send_system(SystemMessage::Stop).unwrap();
            }))
            .unwrap();
        sim.settle();
        assert_eq!(log.take(), ["2", "terminated /user/other stopped"]);
        send_itself(SystemMessage::Stop);
        actor.tell(Job::Note(3)).unwrap();
        assert_eq!(sim.run(actor.exited()), Exit::Stopped);
        assert_eq!(log.take(), ["stopped 1 stopped"]);
        assert_eq!(dead_letters.take(), [("3".to_string(), DeadLetterReason::Stopped)]);
    });
}
