//! D3: which systems can be sealed, and the slots of asks, which are used again and again.

use crate::common::poll_once;
use pleach::BoxError;
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::system::SealError;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

type Kept = Arc<Mutex<Vec<Reply<u32>>>>;

/// An actor with room for one ask, which keeps all replies and answers none.
fn silent(system: &ActorSystem) -> (ActorRef<Reply<u32>>, Kept) {
    let kept = Kept::default();
    let keeps = Arc::clone(&kept);
    let props = Props::from_fn(
        move || Arc::clone(&keeps),
        |kept: &mut Kept, reply| {
            kept.lock().unwrap().push(reply);
            Ok::<(), BoxError>(())
        },
    );
    (system.spawn("silent", props.mailbox(Mailbox::bounded(4)).reserve_asks::<u32>(1)).unwrap(), kept)
}

/// A sealed system with that actor.
fn sealed_with_silent() -> (Sim, ActorSystem, ActorRef<Reply<u32>>, Kept) {
    let sim = Sim::new(1);
    let system = sim.system("board");
    let (silent, kept) = silent(&system);
    sim.settle();
    system.seal().unwrap();
    (sim, system, silent, kept)
}

/// The asker runs on another thread as soon as it is woken. Its next ask finds a free slot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d3_a_slot_is_free_before_its_asker_is_woken() {
    let system = ActorSystem::new("board").unwrap();
    let props = Props::from_fn(
        || 0,
        |_: &mut u32, reply: Reply<u32>| {
            reply.send(7);
            Ok::<(), BoxError>(())
        },
    );
    let seven = system.spawn("seven", props.mailbox(Mailbox::bounded(4)).reserve_asks::<u32>(1)).unwrap();
    let props = Props::from_fn(|| 0, |_: &mut u32, _: Reply<u32>| Ok::<(), BoxError>(()));
    let mute = system.spawn("mute", props.mailbox(Mailbox::bounded(4)).reserve_asks::<u32>(1)).unwrap();
    system.seal().unwrap();
    for _ in 0..1_000 {
        assert_eq!(seven.ask(|reply| reply).await.unwrap(), 7);
        assert!(matches!(mute.ask(|reply| reply).await, Err(AskError::Dropped)));
    }
}

#[test]
fn d3_an_ask_that_has_its_answer_needs_no_slot_any_more() {
    let (sim, _system, silent, kept) = sealed_with_silent();
    let mut first = pin!(silent.ask(|reply| reply));
    assert!(poll_once(&mut first).is_pending());
    assert!(matches!(poll_once(&mut silent.ask(|reply| reply)), Poll::Ready(Err(AskError::LimitReached(_)))));
    sim.settle();
    kept.lock().unwrap().remove(0).send(1);
    assert!(matches!(poll_once(&mut first), Poll::Ready(Ok(1))));
    assert!(poll_once(&mut silent.ask(|reply| reply)).is_pending(), "`first` still exists, but is done");
}

#[test]
fn d3_an_answer_to_a_dropped_ask_reaches_no_later_asker() {
    let (sim, _system, silent, kept) = sealed_with_silent();
    assert!(poll_once(&mut silent.ask(|reply| reply)).is_pending());
    sim.settle();
    assert!(kept.lock().unwrap()[0].is_closed());
    assert!(matches!(poll_once(&mut silent.ask(|reply| reply)), Poll::Ready(Err(AskError::LimitReached(_)))));
    kept.lock().unwrap().remove(0).send(1);
    let mut second = pin!(silent.ask(|reply| reply));
    assert!(poll_once(&mut second).is_pending());
    sim.settle();
    assert!(poll_once(&mut second).is_pending());
    kept.lock().unwrap().remove(0).send(2);
    assert!(matches!(poll_once(&mut second), Poll::Ready(Ok(2))));
}

#[test]
fn d3_a_second_seal_changes_nothing() {
    let (sim, system, silent, kept) = sealed_with_silent();
    let mut ask = pin!(silent.ask(|reply| reply));
    assert!(poll_once(&mut ask).is_pending());
    sim.settle();
    system.seal().unwrap();
    assert!(!kept.lock().unwrap()[0].is_closed(), "the asker waits");
    assert!(matches!(poll_once(&mut silent.ask(|reply| reply)), Poll::Ready(Err(AskError::LimitReached(_)))));
}

#[test]
fn d3_a_reply_that_outlives_its_actor_knows_that_the_asker_is_gone() {
    let (sim, _system, silent, kept) = sealed_with_silent();
    assert!(poll_once(&mut silent.ask(|reply| reply)).is_pending());
    sim.settle();
    silent.stop();
    drop(silent);
    sim.settle();
    assert!(kept.lock().unwrap()[0].is_closed());
}

#[test]
fn d3_seal_names_the_actor_with_an_unbounded_mailbox() {
    let sim = Sim::new(1);
    let system = sim.system("board");
    let props = |mailbox| Props::from_fn(|| (), |(), ()| Ok::<(), BoxError>(())).mailbox(mailbox);
    let unbounded = system.spawn("unbounded", props(Mailbox::unbounded())).unwrap();
    assert_eq!(system.seal(), Err(SealError::UnboundedMailbox { path: unbounded.path() }));
    let asked = system
        .spawn(
            "asked",
            Props::from_fn(
                || (),
                |(), reply: Reply<u32>| {
                    reply.send(7);
                    Ok::<(), BoxError>(())
                },
            ),
        )
        .unwrap();
    assert!(system.seal().is_err());
    assert_eq!(sim.run(asked.ask(|reply| reply)).unwrap(), 7, "nothing is limited yet");
    asked.stop();
    assert!(!system.is_sealed() && system.spawn("later", props(Mailbox::bounded(1))).is_ok());
    unbounded.stop();
    sim.settle();
    let large = system.spawn("large", props(Mailbox::bounded(5_000))).unwrap();
    assert!(matches!(system.seal(), Err(SealError::MailboxTooLarge { path, capacity: 5_000, .. }) if path == large.path()));
    large.stop();
    sim.settle();
    assert_eq!(system.seal(), Ok(()));
}
