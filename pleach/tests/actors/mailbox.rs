//! A3 and A4: what a mailbox accepts, what it returns to the sender, and the order of delivery.

use crate::common::{Job, busy_actor, dead_letters, poll_once};
use pleach::BoxError;
use pleach::actor::{MAILBOX_CAPACITY_DEFAULT, Refusal};
use pleach::events::DeadLetterReason;
use pleach::prelude::*;
use pleach::runtime::Random;
use pleach::sim::{Sim, explore};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

pub fn note(n: u32) -> Job {
    Job::Note(n)
}

pub fn texts<const N: usize>(numbers: [u32; N]) -> Vec<String> {
    numbers.map(|n| n.to_string()).into()
}

#[test]
fn a4_default_mailbox_holds_1024_messages() {
    assert_eq!(MAILBOX_CAPACITY_DEFAULT, 1024);
    let sim = Sim::new(0);
    let system = sim.system("s");
    let actor = system.spawn("plain", Props::from_fn(|| (), |(): &mut (), _: u32| Ok::<(), BoxError>(()))).unwrap();
    for n in 0..1024 {
        actor.tell(n).unwrap();
    }
    assert_eq!(actor.queued(), 1024);
    assert_eq!(actor.tell(1024), Err(SendError::Full(1024)));
    assert_eq!(actor.try_send(1025), Err(SendError::Full(1025)));
    assert!(poll_once(&mut actor.send(1026)).is_pending());
    sim.settle();
    assert_eq!(actor.counts(), Counts { accepted: 1024, handled: 1024, failed: 0, dead_lettered: 0 });
    actor.tell(0).expect("there is room again");
}

#[test]
fn a4_queued_messages_never_exceed_the_capacity() {
    explore(0..300, |sim| {
        let mut random = Random::seeded(sim.seed());
        let system = sim.system("s");
        let capacity = 1 + random.below(5);
        let plain = Mailbox::bounded(capacity);
        let kind = [plain, plain.drop_newest(), plain.drop_oldest(), plain.prioritised()][random.below(4)];
        let (actor, log, gate) = busy_actor(sim, &system, kind);
        let mut handled = 1;
        sim.run(async {
            for n in 0..60 {
                match random.below(6) {
                    0 => {
                        gate.open();
                        sim.yield_now().await;
                    }
                    1 => sim.yield_now().await,
                    2 => drop(actor.try_send(Job::Pass(gate.clone(), n))),
                    3 => drop(poll_once(&mut actor.send(note(n)))),
                    _ => drop(actor.tell(Job::Pass(gate.clone(), n))),
                }
                assert!(actor.queued() <= capacity);
                let counts = actor.counts();
                handled = handled.max(counts.handled);
                assert!(counts.open() <= capacity as u64 + 1, "{counts} with one current message and capacity {capacity}");
            }
        });
        assert!(log.len() as u64 >= handled);
    });
}

#[test]
fn a4_full_mailbox_returns_the_message_by_default() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let dead_letters = dead_letters(&system);
    let (actor, log, gate) = busy_actor(&sim, &system, Mailbox::bounded(2));
    actor.tell(note(1)).unwrap();
    actor.try_send(note(2)).unwrap();
    assert!(matches!(actor.tell(note(3)), Err(SendError::Full(Job::Note(3)))));
    assert!(matches!(actor.try_send(note(4)), Err(SendError::Full(Job::Note(4)))));
    gate.open();
    sim.settle();
    assert_eq!(log.take(), texts([1_000, 1, 2]));
    assert_eq!((dead_letters.len(), system.counts().accepted), (0, 3), "a refused message is not accepted");
}

#[test]
fn a4_drop_newest_drops_a_message_sent_when_full() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let dead_letters = dead_letters(&system);
    let (actor, log, gate) = busy_actor(&sim, &system, Mailbox::bounded(2).drop_newest());
    (1..=4).for_each(|n| actor.tell(note(n)).unwrap());
    assert!(matches!(actor.try_send(note(5)), Err(SendError::Full(Job::Note(5)))), "try_send always fails when full");
    assert_eq!(actor.queued(), 2);
    gate.open();
    sim.settle();
    assert_eq!(log.take(), texts([1_000, 1, 2]));
    assert_eq!(dead_letters.take(), [3, 4].map(|n| (n.to_string(), DeadLetterReason::DroppedNewest)));
    assert_eq!(actor.counts(), Counts { accepted: 5, handled: 3, failed: 0, dead_lettered: 2 });
}

#[test]
fn a4_drop_oldest_drops_the_oldest_queued_message() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let dead_letters = dead_letters(&system);
    let (actor, log, gate) = busy_actor(&sim, &system, Mailbox::bounded(2).drop_oldest());
    (1..=4).for_each(|n| actor.tell(note(n)).unwrap());
    assert!(matches!(actor.try_send(note(5)), Err(SendError::Full(Job::Note(5)))));
    assert_eq!(
        dead_letters.take(),
        [1, 2].map(|n| (n.to_string(), DeadLetterReason::DroppedOldest)),
        "at once, and not the current message"
    );
    gate.open();
    sim.settle();
    assert_eq!(log.take(), texts([1_000, 3, 4]));
    assert_eq!(actor.counts(), Counts { accepted: 5, handled: 3, failed: 0, dead_lettered: 2 });
}

#[test]
fn a4_conflated_mailbox_keeps_the_latest_message() {
    // An overflow policy changes nothing: a conflated mailbox never overflows.
    for mailbox in [Mailbox::conflated(), Mailbox::conflated().drop_newest(), Mailbox::conflated().drop_oldest()] {
        let sim = Sim::new(0);
        let system = sim.system("s");
        let dead_letters = dead_letters(&system);
        let (actor, log, gate) = busy_actor(&sim, &system, mailbox);
        (1..=4).for_each(|n| actor.tell(note(n)).unwrap());
        gate.open();
        sim.settle();
        assert_eq!(log.take(), texts([1_000, 4]));
        assert_eq!(dead_letters.take(), [1, 2, 3].map(|n| (n.to_string(), DeadLetterReason::Conflated)));
    }
}

#[test]
fn a4_unbounded_mailbox_accepts_all_in_order() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let (actor, log, gate) = busy_actor(&sim, &system, Mailbox::unbounded());
    (0..100_000).for_each(|n| actor.tell(note(n)).unwrap());
    gate.open();
    sim.settle();
    assert!(log.take().iter().skip(1).enumerate().all(|(at, seen)| *seen == at.to_string()));
    assert_eq!(system.counts(), Counts { accepted: 100_001, handled: 100_001, failed: 0, dead_lettered: 0 });
}

#[test]
fn a4_zero_capacity_is_refused_and_zero_sized_messages_work() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let props = || Props::from_fn(|| (), |(): &mut (), (): ()| Ok::<(), BoxError>(()));
    let refused = system.spawn("none", props().mailbox(Mailbox::bounded(0))).unwrap_err();
    assert_eq!(refused.reason, Refusal::ZeroCapacity);
    let actor = system.spawn("none", refused.into_props().mailbox(Mailbox::bounded(3))).expect("the props were returned");
    (0..3).for_each(|_| actor.tell(()).unwrap());
    assert_eq!(actor.tell(()), Err(SendError::Full(())));
    sim.settle();
    assert_eq!(actor.counts().handled, 3);
}

#[test]
fn a4_waiting_sends_get_room_in_order() {
    explore(0..100, |sim| {
        let system = sim.system("s");
        let (actor, log, gate) = busy_actor(sim, &system, Mailbox::bounded(1));
        let senders = system.scope("senders").unwrap();
        actor.tell(note(0)).unwrap();
        for n in 1..5 {
            let to = actor.clone();
            let task = senders.launch(async move { to.send(note(n)).await.unwrap() }).unwrap();
            sim.settle();
            assert!(task.any().exit().is_none(), "there is no room");
        }
        assert_eq!((actor.queued(), actor.counts().accepted), (1, 2));
        gate.open();
        sim.run(async {
            // While senders wait, no other message is accepted.
            while actor.counts().accepted < 6 {
                assert!(matches!(actor.tell(note(9)), Err(SendError::Full(_))));
                sim.yield_now().await;
            }
        });
        sim.settle();
        assert_eq!(log.take(), texts([1_000, 0, 1, 2, 3, 4]));
    });
}

#[test]
fn a4_send_waits_for_room_with_every_overflow_policy() {
    for kind in [Mailbox::bounded(1).drop_newest(), Mailbox::bounded(1).drop_oldest(), Mailbox::conflated()] {
        let sim = Sim::new(0);
        let system = sim.system("s");
        let (actor, log, gate) = busy_actor(&sim, &system, kind);
        drop(actor.send(note(1))); // A send that is not polled does nothing.
        actor.try_send(note(2)).unwrap();
        let mut waiting = actor.send(note(3));
        assert!(poll_once(&mut waiting).is_pending());
        gate.open();
        sim.run(waiting).unwrap();
        sim.settle();
        assert_eq!(log.take(), texts([1_000, 2, 3]), "no message was dropped for it");
    }
}

#[test]
fn a4_send_to_a_suspended_actor_is_accepted_if_there_is_room() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let (actor, log, gate) = busy_actor(&sim, &system, Mailbox::bounded(1));
    let me = actor.clone();
    actor.tell(Job::act(move |_| drop(me.try_send_system(SystemMessage::Suspend)))).unwrap();
    let mut waiting = actor.send(note(1));
    assert!(poll_once(&mut waiting).is_pending());
    gate.open();
    sim.settle();
    assert!(matches!(poll_once(&mut waiting), Poll::Ready(Ok(()))), "both messages were handled, so there is room");
    assert_eq!(log.take(), texts([1_000]));
    assert_eq!(actor.queued(), 1);
}

#[test]
fn a3_send_that_is_not_accepted_returns_its_message() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let (actor, _log, gate) = busy_actor(sim, &system, Mailbox::bounded(1));
        actor.tell(note(1)).unwrap();
        let token = sim.token();
        let mut cancelled = actor.send(note(2)).or_cancel(&token);
        let mut closed = actor.send(note(3));
        assert!(poll_once(&mut cancelled).is_pending() && poll_once(&mut closed).is_pending());
        token.cancel("impatience");
        match sim.run(cancelled) {
            Err(SendError::Cancelled(Job::Note(2), cause)) => assert_eq!(cause, Cause::from("impatience")),
            sent => panic!("not returned: {sent:?}"),
        }
        let late = sim.run(actor.send(note(4)).or_cancel(&token));
        assert!(matches!(late, Err(SendError::Cancelled(Job::Note(4), _))));
        actor.close();
        assert!(matches!(sim.run(closed), Err(SendError::Closed(Job::Note(3)))));
        assert!(matches!(sim.run(actor.send(note(5))), Err(SendError::Closed(Job::Note(5)))));
        assert!(matches!(actor.tell(note(6)), Err(SendError::Closed(Job::Note(6)))));
        assert!(matches!(actor.try_send(note(7)), Err(SendError::Closed(Job::Note(7)))));
        gate.open();
        assert_eq!(sim.run(actor.exited()), Exit::Closed);
        assert_eq!(system.counts(), Counts { accepted: 2, handled: 2, failed: 0, dead_lettered: 0 });
    });
}

#[test]
fn a3_second_poll_of_a_failed_send_panics() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let (actor, _log, gate) = busy_actor(&sim, &system, Mailbox::bounded(1));
    let token = sim.token();
    let mut accepted = actor.send(note(1)).or_cancel(&token);
    assert!(matches!(poll_once(&mut accepted), Poll::Ready(Ok(()))));
    let mut cancelled = actor.send(note(2)).or_cancel(&token);
    let mut closed = actor.send(note(3));
    assert!(poll_once(&mut cancelled).is_pending() && poll_once(&mut closed).is_pending());
    token.cancel(());
    actor.close();
    assert!(matches!(poll_once(&mut accepted), Poll::Ready(Ok(()))), "an accepted send stays accepted");
    assert!(matches!(poll_once(&mut cancelled), Poll::Ready(Err(SendError::Cancelled(..)))));
    assert!(matches!(poll_once(&mut closed), Poll::Ready(Err(SendError::Closed(_)))));
    // The sender has the message back, so a second poll must not report success.
    for sending in [&mut cancelled, &mut closed] {
        let again = catch_unwind(AssertUnwindSafe(|| drop(poll_once(sending))));
        assert!(again.unwrap_err().downcast_ref::<&str>().unwrap().contains("given its message back"));
    }
    gate.open();
    sim.settle();
    assert_eq!(actor.counts().accepted, 2);
}

#[test]
fn a3_waiting_send_returns_its_message_when_the_actor_ends() {
    for end in [ActorRef::stop, ActorRef::close, |actor: &ActorRef<Job>| actor.cancel(())] {
        let sim = Sim::new(0);
        let system = sim.system("s");
        let (actor, _log, gate) = busy_actor(&sim, &system, Mailbox::bounded(1));
        actor.tell(note(1)).unwrap();
        let mut waiting = actor.send(note(2));
        assert!(poll_once(&mut waiting).is_pending());
        end(&actor);
        gate.open();
        sim.settle();
        assert!(actor.exit().is_some());
        assert!(matches!(actor.tell(note(3)), Err(SendError::Closed(Job::Note(3)))));
        assert!(matches!(poll_once(&mut waiting), Poll::Ready(Err(SendError::Closed(Job::Note(2))))));
        assert!(actor.counts().is_settled() && actor.queued() == 0);
    }
}

#[test]
fn a3_dropped_send_loses_no_message_and_no_capacity() {
    explore(0..500, |sim| {
        let mut random = Random::seeded(sim.seed());
        let capacity = 1 + random.below(3);
        let system = sim.system("s");
        let kind = Mailbox::bounded(capacity);
        let (actor, log, gate) = busy_actor(sim, &system, if random.below(2) == 0 { kind } else { kind.prioritised() });
        let senders = system.scope("senders").unwrap();
        let tasks: Vec<_> = (0..6)
            .map(|n| {
                let to = actor.clone();
                senders.task().isolated().launch(async move { to.send(note(n)).await.map_err(|_| "refused") }).unwrap()
            })
            .collect();
        sim.run(async {
            for _ in 0..random.below(12) {
                sim.yield_now().await;
            }
            for task in &tasks {
                match random.below(3) {
                    0 => task.cancel(()),
                    1 => gate.open(),
                    _ => {}
                }
                if random.below(2) == 0 {
                    sim.yield_now().await;
                }
            }
        });
        gate.open();
        sim.settle();
        let ended: Vec<_> = tasks.iter().map(|task| task.any().exit().expect("no send waits forever")).collect();
        let sent = ended.iter().filter(|exit| **exit == Exit::Closed).count();
        let seen = log.take().len() - 1;
        assert!(seen >= sent, "every accepted message was handled");
        assert_eq!(actor.counts().handled as usize, seen + 1);
        // The full capacity is available again.
        actor.tell(Job::Pass(gate.clone(), 0)).unwrap();
        sim.run(async {
            while actor.queued() > 0 {
                sim.yield_now().await;
            }
        });
        (0..capacity).for_each(|_| actor.tell(note(7)).unwrap());
        assert!(matches!(actor.tell(note(8)), Err(SendError::Full(_))));
    });
}
