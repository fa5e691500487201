//! W9: when waiting sends are accepted, and when a send yields.

use crate::common::{Job, Log, TestActor, poll_once};
use pleach::BoxError;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::supervise::ExponentialBackoff;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Poll;

/// A failed message frees its slot at once, not after the backoff.
#[test]
fn w9_waiting_send_gets_room_during_a_backoff() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let wait = Duration::from_secs(60);
        let strategy = OneForOne::new().backoff(ExponentialBackoff::new(wait, wait));
        let supervisor = system.supervisor("supervisor", strategy).unwrap();
        let log = Log::new();
        let actor = supervisor.spawn("a", TestActor::props(&log).mailbox(Mailbox::bounded(1))).unwrap();
        actor.try_send_system(SystemMessage::Suspend).unwrap();
        sim.settle();
        actor.tell(Job::Fail("down")).unwrap();
        let mut sends = [1, 2].map(|note| actor.send(Job::Note(note)));
        assert!(sends.iter_mut().all(|send| poll_once(send).is_pending()));
        actor.try_send_system(SystemMessage::Resume).unwrap();
        sim.settle();
        assert_eq!(actor.queued(), 1, "the slot of the failed message is used");
        assert!(matches!(poll_once(&mut sends[0]), Poll::Ready(Ok(()))));
        assert!(poll_once(&mut sends[1]).is_pending());
        sim.advance(wait * 2);
        assert!(matches!(poll_once(&mut sends[1]), Poll::Ready(Ok(()))));
        sim.settle();
        assert_eq!(actor.counts().handled, 2);
    });
}

/// A reply dropped by a feed ends its ask in the same poll.
#[test]
fn w9_reply_dropped_by_a_feed_ends_its_ask_at_once() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let (kept_replies, dropped_counts) = (Log::new(), Log::new());
        let store = kept_replies.clone();
        let holder = system.spawn(
            "holder",
            Props::from_fn(
                || (),
                move |(): &mut (), reply: Reply<u32>| {
                    store.push(reply);
                    Ok::<(), BoxError>(())
                },
            ),
        );
        let holder = holder.unwrap();
        let mut ask = holder.ask(|reply| reply);
        assert!(poll_once(&mut ask).is_pending());
        sim.settle();
        let replies = kept_replies.clone();
        let feed = futures::stream::poll_fn(move |_| {
            dropped_counts.push(replies.take().len());
            Poll::Pending
        });
        let fed = Props::from_fn(|| (), |(): &mut (), (): ()| Ok::<(), BoxError>(())).with_stream(feed);
        let fed = system.spawn("fed", fed).unwrap();
        sim.settle();
        assert!(matches!(poll_once(&mut ask), Poll::Ready(Err(AskError::Dropped))));
        assert!(fed.exit().is_none());
    });
}

/// A task that sends repeatedly to a mailbox with room lets the receiver run.
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
        let handled_early = sim.run(async {
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
        assert!(handled_early > 0, "{name}: the receiver ran before the sender was done");
        sim.settle();
        assert_eq!(actor.counts().handled, 10_000, "{name}");
    }
}

/// A message stays accepted if its yielding send is dropped.
#[test]
fn w9_send_that_yields_has_been_accepted() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let actor = TestActor::spawn(&system, "a");
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
