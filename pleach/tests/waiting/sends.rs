//! Sends that wait for room, and those that need not: who lets them in, and when.

use crate::common::{Doer, Job, Log, poll_once};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{BoxError, ExponentialBackoff};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Poll;

/// There is room as soon as the message that failed was taken, and a backoff is no reason to wait longer.
#[test]
fn w9_a_backoff_admits_waiting_sends_that_have_room() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let wait = Duration::from_secs(60);
        let strategy = OneForOne::new().backoff(ExponentialBackoff::new(wait, wait));
        let crew = system.supervisor("crew", strategy).unwrap();
        let log = Log::new();
        let actor = crew.spawn("a", Doer::props(&log).mailbox(Mailbox::bounded(1))).unwrap();
        actor.try_send_system(SystemMessage::Suspend).unwrap();
        sim.settle();
        actor.tell(Job::Fail("down")).unwrap();
        let mut sends = [1, 2].map(|note| actor.send(Job::Note(note)));
        assert!(sends.iter_mut().all(|send| poll_once(send).is_pending()));
        actor.try_send_system(SystemMessage::Resume).unwrap();
        sim.settle();
        assert_eq!(actor.queued(), 1, "the place of the message that failed is taken");
        assert!(matches!(poll_once(&mut sends[0]), Poll::Ready(Ok(()))));
        assert!(poll_once(&mut sends[1]).is_pending());
        sim.advance(wait * 2);
        assert!(matches!(poll_once(&mut sends[1]), Poll::Ready(Ok(()))));
        sim.settle();
        assert_eq!(actor.counts().handled, 2);
    });
}

/// A feed is user code in the actor's poll, and a reply that it drops is answered by the same poll.
#[test]
fn w9_a_reply_that_a_feed_drops_is_answered_before_the_feed_pends() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let (given, held) = (Log::new(), Log::new());
        let keep = given.clone();
        let holder = system.spawn(
            "holder",
            Props::from_fn(
                || (),
                move |(): &mut (), reply: Reply<u32>| {
                    keep.push(reply);
                    Ok::<(), BoxError>(())
                },
            ),
        );
        let holder = holder.unwrap();
        let mut ask = holder.ask(|reply| reply);
        assert!(poll_once(&mut ask).is_pending());
        sim.settle();
        let replies = given.clone();
        let feed = futures::stream::poll_fn(move |_| {
            held.push(replies.take().len());
            Poll::Pending
        });
        let fed = Props::from_fn(|| (), |(): &mut (), (): ()| Ok::<(), BoxError>(())).fed_by(feed);
        let fed = system.spawn("fed", fed).unwrap();
        sim.settle();
        assert!(matches!(poll_once(&mut ask), Poll::Ready(Err(AskError::Dropped))));
        assert!(fed.exit().is_none());
    });
}

/// A task that sends without end to a mailbox without end lets the receiver run, whatever its kind.
#[test]
fn w9_send_to_an_unbounded_mailbox_yields_to_its_receiver() {
    for (name, mailbox, adapted) in [
        ("unbounded", Mailbox::unbounded(), false),
        ("large", Mailbox::bounded(1_000_000), false),
        ("prioritised", Mailbox::bounded(1_000_000).prioritised(), false),
        ("adapted", Mailbox::unbounded(), true),
    ] {
        let sim = Sim::new(1);
        let system = sim.system("s");
        let handled = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&handled);
        let count = move |(): &mut (), _: u32| {
            seen.fetch_add(1, Relaxed);
            Ok::<(), BoxError>(())
        };
        let actor = system.spawn("a", Props::from_fn(|| (), count).mailbox(mailbox)).unwrap();
        sim.settle();
        let early = sim.run(async {
            let recipient = actor.map(|n: u32| n);
            for n in 0..10_000 {
                if adapted {
                    recipient.send(n).await.unwrap();
                } else {
                    actor.send(n).await.unwrap();
                }
            }
            handled.load(Relaxed)
        });
        assert!(early > 0, "{name}: the receiver ran before the sender was done");
        sim.settle();
        assert_eq!(actor.counts().handled, 10_000, "{name}");
    }
}

/// What was accepted stays accepted, although the send that yields is dropped.
#[test]
fn w9_a_send_that_yields_has_been_accepted() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let actor = system.spawn("a", Doer::props(&Log::new())).unwrap();
    let mut yields = 0;
    for n in 0..3_000 {
        let mut send = actor.send(Job::Note(n));
        yields += usize::from(poll_once(&mut send).is_pending());
    }
    assert!((1..=200).contains(&yields), "{yields}");
    assert_eq!(actor.counts().accepted, 3_000);
    sim.settle();
    assert_eq!(actor.counts().handled, 3_000);
}
