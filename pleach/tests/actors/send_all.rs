//! A20: many messages at once, compared with one send for each.

use crate::common::poll_once;
use pleach::BoxError;
use pleach::prelude::*;
use pleach::runtime::Random;
use pleach::sim::{Sim, explore};
use std::pin::pin;
use std::sync::{Arc, Mutex};

/// The messages that an actor has handled.
type Handled = Arc<Mutex<Vec<u32>>>;

fn logging(system: &ActorSystem, name: &str, mailbox: Mailbox) -> (ActorRef<u32>, Handled) {
    let handled = Handled::default();
    let log = Arc::clone(&handled);
    let props = Props::from_fn(
        move || Arc::clone(&log),
        |log: &mut Handled, n: u32| {
            log.lock().unwrap().push(n);
            Ok::<(), BoxError>(())
        },
    );
    (system.spawn(name, props.mailbox(mailbox)).unwrap(), handled)
}

fn logged(handled: &Handled) -> Vec<u32> {
    handled.lock().unwrap().clone()
}

#[test]
fn a20_tell_all_is_as_one_tell_for_each() {
    explore(0..200, |sim| {
        let mut random = Random::seeded(sim.seed());
        let system = sim.system("s");
        let bounded = Mailbox::bounded(1 + random.below(200));
        let kinds = [
            bounded,
            bounded.drop_newest(),
            bounded.drop_oldest(),
            bounded.prioritised(),
            Mailbox::conflated(),
            Mailbox::unbounded(),
        ];
        let kind = kinds[random.below(kinds.len())];
        let (single, singly_handled) = logging(&system, "single", kind);
        let (many, handled) = logging(&system, "many", kind);
        let mut first = 0;
        for _ in 0..1 + random.below(5) {
            let last = first + random.below(300) as u32;
            let expected = (first..last).find(|n| single.tell(*n).is_err());
            let unsent = many.tell_all(first..last).err().map(|unsent| unsent.into_messages().collect::<Vec<_>>());
            assert_eq!(unsent, expected.map(|rejected| (rejected..last).collect()));
            assert_eq!((many.queued(), many.counts()), (single.queued(), single.counts()));
            if random.below(2) == 0 {
                sim.settle();
            }
            first = last;
        }
        sim.settle();
        assert_eq!(logged(&handled), logged(&singly_handled));
        assert_eq!(many.counts(), single.counts());
    });
}

#[test]
fn a20_error_returns_what_was_not_accepted() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let (actor, handled) = logging(&system, "a", Mailbox::bounded(100));
    let unsent = actor.tell_all(0..250).unwrap_err();
    assert_eq!(unsent.error(), &SendError::Full(100));
    assert_eq!(unsent.into_messages().collect::<Vec<_>>(), (100..250).collect::<Vec<_>>());
    sim.settle();
    assert_eq!(logged(&handled), (0..100).collect::<Vec<_>>());
    actor.close();
    let unsent = sim.run(actor.send_all([7, 8])).unwrap_err();
    assert_eq!(unsent.error(), &SendError::Closed(7));
    assert_eq!(unsent.into_messages().collect::<Vec<_>>(), [7, 8]);
}

#[test]
fn a20_send_all_waits_for_room_and_keeps_the_order() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let capacity = 1 + Random::seeded(sim.seed()).below(100);
        let (actor, handled) = logging(&system, "a", Mailbox::bounded(capacity));
        let mut most = 0;
        // The iterator is asked for further messages during the sends.
        let messages = (0..1_000).inspect(|_| most = most.max(actor.queued()));
        sim.run(actor.send_all(messages)).unwrap();
        assert!(most <= capacity, "{most} of {capacity}");
        sim.settle();
        assert_eq!(logged(&handled), (0..1_000).collect::<Vec<_>>());
        assert_eq!(actor.counts().accepted, 1_000);
    });
}

#[test]
fn a20_dropped_send_all_leaks_no_room() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let (actor, handled) = logging(&system, "a", Mailbox::bounded(8));
    {
        let mut sending = pin!(actor.send_all(0..20));
        assert!(poll_once(&mut sending).is_pending());
    }
    assert_eq!(actor.queued(), 8);
    sim.settle();
    assert_eq!(logged(&handled), (0..8).collect::<Vec<_>>());
    actor.tell_all(20..28).unwrap();
    assert_eq!(actor.queued(), 8);
    assert_eq!(actor.tell(28), Err(SendError::Full(28)));
}

/// An iterator may panic. What it returned before is sent or dropped, and the actor continues.
#[test]
fn a20_panic_of_the_iterator_breaks_nothing() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let (actor, handled) = logging(&system, "a", Mailbox::default());
    let messages = (0..).inspect(|n| assert!(*n < 130, "at message {n}"));
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| actor.tell_all(messages)));
    assert!(result.is_err());
    actor.tell(1_000).unwrap();
    sim.settle();
    let handled = logged(&handled);
    let sent = handled.len() as u32 - 1;
    assert!(sent <= 130, "{sent}");
    assert_eq!(handled, (0..sent).chain([1_000]).collect::<Vec<_>>());
    assert!(actor.counts().is_settled());
}

/// As a loop does, it stops at the first `None`, and does not look again.
#[test]
fn a20_an_iterator_that_continues_after_its_end_has_ended() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let (actor, handled) = logging(&system, "a", Mailbox::default());
    let mut n = 0;
    let messages = std::iter::from_fn(|| {
        n += 1;
        (n % 3 != 0 && n < 100).then_some(n)
    });
    actor.tell_all(messages).unwrap();
    sim.settle();
    assert_eq!(logged(&handled), [1, 2]);
}
