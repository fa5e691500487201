//! A13: `ActorRef::map`, an adapter for senders of another message type. Their messages are
//! counted, refused and dropped like any message and are returned in the sender's type. S8: a panic
//! in an adapter is recorded.

use crate::common::adapters::{text, text_recipient};
use crate::common::{INJECTED, Job, Log, PanicOnDrop, TestActor, busy_actor, dead_letters, failures, poll_once, quiet};
use pleach::events::DeadLetterReason;
use pleach::prelude::*;
use pleach::sim::Sim;
use std::sync::atomic::Ordering;
use std::task::Poll;

#[test]
fn a13_recipient_supports_every_send_operation() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let log = Log::new();
    let actor = system.spawn("actor", TestActor::props(&log).mailbox(Mailbox::bounded(9).prioritised())).unwrap();
    let (texts, _) = text_recipient(&actor);
    // Adapters can be chained, and a plain address is a recipient too.
    let lengths: Recipient<&str> = texts.map(|word: &str| word.len().to_string());
    let plain = Recipient::from(actor.clone());

    texts.tell(text(1)).unwrap();
    texts.try_send(text(2)).unwrap();
    texts.tell_envelope(PriorityEnvelope::new(text(3), Priority::HIGHEST)).unwrap();
    lengths.tell("four").unwrap();
    plain.tell(Job::Note(5)).unwrap();
    let done = log.clone();
    lengths.on_done(move |exit| done.note(exit));
    sim.run(async {
        lengths.send("sixsix").await.unwrap();
        texts.send(text(7)).priority(Priority::HIGHEST).await.unwrap();
        let asked = actor.map(|(reply, n)| Job::Answer(reply, n));
        assert_eq!(asked.ask(|reply| (reply, 70)).await.unwrap(), 70);
        let mut handled = log.take();
        assert_eq!(handled.remove(0), "started 0");
        assert_eq!(handled, ["3", "7", "1", "2", "4", "5", "6"].map(text));

        assert_eq!((texts.id(), texts.path(), texts.any()), (actor.id(), actor.path(), actor.any()));
        assert_eq!(format!("{lengths:?}"), format!("Recipient({} {})", actor.id(), actor.path()));
        assert_eq!(texts.clone().exit(), None);
        lengths.close();
        assert_eq!(texts.exited().await, Exit::Closed);
        assert_eq!(asked.ask(|reply| (reply, 0)).await.unwrap_err().to_string(), AskError::Closed.to_string());
    });
    assert_eq!(log.take().last(), Some(&Exit::Closed.to_string()));
    assert_eq!(actor.counts(), Counts { accepted: 8, handled: 8, failed: 0, dead_lettered: 0 });

    let ends: [fn(&Recipient<u32>); 2] = [|one| one.stop(), |one| one.cancel("enough")];
    let exits = ends.map(|end| {
        let actor = system.spawn_unnamed(TestActor::props(&log)).unwrap().map(Job::Note);
        end(&actor);
        sim.run(actor.exited())
    });
    assert_eq!(exits, [Exit::Stopped, Exit::Cancelled(Cause::from("enough"))]);
}

#[test]
fn a3_refused_message_is_returned_without_calling_the_adapter() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let (actor, log, gate) = busy_actor(&sim, &system, Mailbox::bounded(1));
    let (texts, calls) = text_recipient(&actor);
    let words = texts.map(|word: Vec<char>| word.into_iter().collect());
    texts.tell(text(1)).unwrap();
    assert_eq!(texts.tell(text(2)), Err(SendError::Full(text(2))));
    assert_eq!(texts.try_send(text(3)), Err(SendError::Full(text(3))));
    assert_eq!(words.tell(vec!['4']), Err(SendError::Full(vec!['4'])));
    let urgent = PriorityEnvelope::new(text(5), Priority::HIGHEST);
    assert_eq!(texts.tell_envelope(urgent), Err(SendError::NoPriorities(text(5))));
    assert_eq!(sim.run(texts.send(text(6)).priority(Priority::LOWEST)), Err(SendError::NoPriorities(text(6))));

    let token = sim.token();
    let mut cancelled = texts.send(text(7)).or_cancel(&token);
    let mut closed = words.send(vec!['8']);
    assert!(poll_once(&mut cancelled).is_pending() && poll_once(&mut closed).is_pending());
    token.cancel("impatience");
    assert_eq!(sim.run(cancelled), Err(SendError::Cancelled(text(7), Cause::from("impatience"))));
    actor.close();
    assert_eq!(sim.run(&mut closed), Err(SendError::Closed(vec!['8'])));
    assert_eq!(texts.tell(text(9)), Err(SendError::Closed(text(9))));
    assert_eq!(sim.run(texts.send(text(10))), Err(SendError::Closed(text(10))));
    gate.open();
    sim.settle();
    assert_eq!(calls.load(Ordering::SeqCst), 1, "only for the accepted message");
    assert_eq!(log.take()[..2], ["1000", "1"]);
    assert_eq!(actor.counts(), Counts { accepted: 2, handled: 2, failed: 0, dead_lettered: 0 });
}

#[test]
fn a4_overflow_policy_applies_to_mapped_messages() {
    use DeadLetterReason::{Conflated, DroppedNewest, DroppedOldest};
    for (mailbox, dropped, handled) in [
        (Mailbox::bounded(2).drop_newest(), [(3, DroppedNewest), (4, DroppedNewest)], &[1, 2][..]),
        (Mailbox::bounded(2).drop_oldest(), [(1, DroppedOldest), (2, DroppedOldest)], &[3, 4]),
        (Mailbox::bounded(2).prioritised().drop_oldest(), [(1, DroppedOldest), (2, DroppedOldest)], &[3, 4]),
        (Mailbox::conflated(), [(1, Conflated), (2, Conflated)], &[4]),
    ] {
        let sim = Sim::new(0);
        let system = sim.system("s");
        let dead_letters = dead_letters(&system);
        let (actor, log, gate) = busy_actor(&sim, &system, mailbox);
        let (texts, calls) = text_recipient(&actor);
        // Alternates between plain and mapped messages.
        (1..=4).for_each(|n| if n % 2 == 0 { actor.tell(Job::Note(n)).unwrap() } else { texts.tell(text(n)).unwrap() });
        assert_eq!(texts.try_send(text(5)), Err(SendError::Full(text(5))), "try_send always fails when full");
        assert_eq!(dead_letters.take()[..2], dropped.map(|(n, reason)| (text(n), reason)));
        gate.open();
        sim.settle();
        assert_eq!(log.take()[1..], handled.iter().map(text).collect::<Vec<_>>());
        assert_eq!(calls.load(Ordering::SeqCst), 2);
        let counts = actor.counts();
        assert!(counts.is_settled() && counts.accepted == 5 && counts.handled as usize == 1 + handled.len(), "{counts}");
    }
}

#[test]
fn a6_least_urgent_mapped_message_drops_no_other() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let dead_letters = dead_letters(&system);
    let (actor, log, gate) = busy_actor(&sim, &system, Mailbox::bounded(1).prioritised().drop_oldest());
    let (texts, _) = text_recipient(&actor);
    texts.tell(text(1)).unwrap();
    texts.tell_envelope(PriorityEnvelope::new(text(2), Priority::LOWEST)).unwrap();
    assert_eq!(dead_letters.take(), [(text(2), DeadLetterReason::DroppedOldest)]);
    gate.open();
    sim.settle();
    assert_eq!(log.take(), ["1000", "1"]);
}

#[test]
fn a4_plain_and_mapped_sends_share_one_wait_queue() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let (actor, log, gate) = busy_actor(&sim, &system, Mailbox::bounded(1));
    let (texts, calls) = text_recipient(&actor);
    actor.tell(Job::Note(1)).unwrap();
    let mut second = texts.send(text(2));
    let mut third = actor.send(Job::Note(3));
    let mut fourth = texts.send(text(4));
    assert!(poll_once(&mut second).is_pending() && poll_once(&mut third).is_pending() && poll_once(&mut fourth).is_pending());
    gate.open();
    sim.settle();
    assert_eq!(log.take(), ["1000", "1"]);
    // The free slot is reserved for the second send, which was not polled yet. No other send takes
    // it.
    assert!(poll_once(&mut third).is_pending() && matches!(actor.tell(Job::Note(9)), Err(SendError::Full(_))));
    assert_eq!((actor.counts().accepted, actor.queued(), calls.load(Ordering::SeqCst)), (2, 0, 0));
    assert!(matches!(poll_once(&mut second), Poll::Ready(Ok(()))));
    sim.settle();
    assert_eq!(log.take(), ["2", "3"]);
    assert!(matches!(poll_once(&mut third), Poll::Ready(Ok(()))));
    // When a send with a reserved slot is dropped, the next in the queue gets the slot.
    let mut fifth = actor.send(Job::Note(5));
    assert!(poll_once(&mut fifth).is_pending());
    drop(fourth);
    sim.settle();
    assert_eq!((log.take(), calls.load(Ordering::SeqCst)), (vec![text(5)], 1));
    assert_eq!(actor.counts().handled, 5);
}

#[test]
fn a7_reserved_slot_does_not_delay_the_end() {
    for end in [ActorRef::stop, ActorRef::close, |actor: &ActorRef<Job>| actor.cancel(())] {
        let sim = Sim::new(0);
        let system = sim.system("s");
        let (actor, _log, gate) = busy_actor(&sim, &system, Mailbox::bounded(1));
        let (texts, calls) = text_recipient(&actor);
        actor.tell(Job::Note(1)).unwrap();
        let mut reserved = texts.send(text(2));
        assert!(poll_once(&mut reserved).is_pending());
        gate.open();
        sim.settle();
        end(&actor);
        sim.settle();
        assert!(actor.exit().is_some());
        assert!(matches!(poll_once(&mut reserved), Poll::Ready(Err(SendError::Closed(back))) if back == "2"));
        assert_eq!((calls.load(Ordering::SeqCst), actor.counts().open()), (0, 0));
    }
}

#[test]
fn s8_panic_in_an_adapter_is_recorded_and_harms_neither_side() {
    quiet();
    let sim = Sim::new(0);
    let system = sim.system("s");
    let recorded = failures(&system);
    let log = Log::new();
    let actor = system.spawn("actor", TestActor::props(&log).mailbox(Mailbox::bounded(2))).unwrap();
    let (texts, _) = text_recipient(&actor);
    let nested = texts.map(|n: u32| text(n).repeat(usize::try_from(10 - n).expect(INJECTED)));
    texts.tell(text("one")).expect("accepted; the sender does not see the panic");
    texts.try_send(text("two")).unwrap();
    nested.map(|n: u32| if n > 9 { panic!("{INJECTED}: far too large") } else { n }).tell(10).unwrap();
    sim.run(async {
        nested.send(9).await.unwrap();
        texts.send(text("three")).await.unwrap();
        let asks = actor.map(|reply: Reply<u32>| {
            drop(reply);
            panic!("{INJECTED}: no asks")
        });
        match asks.ask(|reply| reply).await {
            Err(AskError::Failed(failure)) => assert!(failure.to_string().contains("no asks")),
            answer => panic!("{answer:?}"),
        }
        // An adapter that drops the reply ends the ask.
        let kept = actor.map(|_: Reply<u32>| Job::Note(8));
        assert!(matches!(kept.ask(|reply| reply).await, Err(AskError::Dropped)));
    });
    sim.settle();
    let recorded = recorded.take();
    assert_eq!((recorded.len(), system.failures()), (5, 5), "one record for each panic: {recorded:?}");
    for failure in &recorded {
        assert_eq!((failure.path(), failure.actor()), (&actor.path(), actor.id()));
        assert!(failure.message().is_some_and(|message| message.contains("Job")));
        assert!(matches!(failure.reason(), pleach::supervise::Reason::Panic { message, .. } if message.starts_with(INJECTED)));
    }
    assert_eq!(log.take(), ["started 0", "9", "8"], "no restart, and no message is stuck");
    assert_eq!(actor.counts(), Counts { accepted: 7, handled: 2, failed: 5, dead_lettered: 0 });
    (0..2).for_each(|n| texts.tell(text(n)).expect("no capacity was lost"));
    assert!(texts.tell(text(2)).is_err());
}

#[test]
fn s8_panic_in_the_drop_of_an_adapter_is_recorded() {
    quiet();
    let sim = Sim::new(0);
    let system = sim.system("s");
    let recorded = failures(&system);
    let actor = TestActor::spawn(&system, "actor");
    let panics = PanicOnDrop;
    let mapped = actor.map(move |n| {
        let _panics = &panics;
        Job::Note(n)
    });
    drop(mapped.clone());
    assert_eq!(recorded.len(), 0);
    drop(mapped);
    assert_eq!(recorded.take()[0].path(), &actor.path());
}

#[test]
fn a13_adapter_works_across_restarts() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let log = Log::new();
    let actor = system.spawn("actor", TestActor::props(&log)).unwrap();
    let (texts, _) = text_recipient(&actor);
    texts.tell(text(1)).unwrap();
    actor.tell(Job::Fail("once")).unwrap();
    texts.tell(text(2)).unwrap();
    sim.settle();
    texts.tell(text(3)).unwrap();
    sim.settle();
    let handled: Vec<_> = log.take().into_iter().filter(|entry| entry.parse::<u32>().is_ok() || entry == "started 1").collect();
    assert_eq!(handled, ["1", "started 1", "2", "3"]);
}

#[test]
fn a10_mapped_ask_that_closes_a_cycle_is_an_error() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let log = Log::new();
    let actor = system.spawn("actor", TestActor::props(&log)).unwrap();
    let seen = log.clone();
    let ask_itself = move |me: ActorRef<Job>| async move {
        let me = me.map(|reply| Job::Answer(reply, 1));
        match me.ask(|reply| reply).await {
            Err(AskError::Cycle(paths)) => seen.note(format!("{paths:?}")),
            answer => seen.note(format!("{answer:?}")),
        }
        // With a timeout the ask is sent, and times out.
        let late = me.ask(|reply| reply).timeout(Duration::from_secs(1)).await;
        seen.note(matches!(late, Err(AskError::TimedOut(_))));
        Ok(())
    };
    actor.tell(Job::work(ask_itself)).unwrap();
    sim.run(sim.sleep(Duration::from_secs(2)));
    assert_eq!(log.take()[1..3], [format!("[{:?}]", actor.path()), text(true)]);
}
