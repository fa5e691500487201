//! A2 and A4 on threads: millions of messages by every kind of send to every kind of mailbox have exactly one end each, and no
//! send waits for ever.

use crate::common::quiet;
use pleach::BoxError;
use pleach::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// An id, and how often what has become of it.
#[derive(Default)]
struct Fates {
    handled: Vec<AtomicU8>,
    failed: Vec<AtomicU8>,
    dead: Vec<AtomicU8>,
}

impl Fates {
    fn of(messages: usize) -> Arc<Self> {
        let zeros = || (0..messages).map(|_| AtomicU8::new(0)).collect();
        Arc::new(Self { handled: zeros(), failed: zeros(), dead: zeros() })
    }

    fn total(of: &[AtomicU8]) -> u64 {
        of.iter().map(|seen| u64::from(seen.load(Ordering::Relaxed))).sum()
    }
}

fn stamping(fates: &Arc<Fates>) -> Props<impl Actor<Msg = usize>> {
    let fates = Arc::clone(fates);
    Props::from_fn(
        || (),
        move |(): &mut (), id: usize| -> Result<(), BoxError> {
            if id.is_multiple_of(997) {
                fates.failed[id].fetch_add(1, Ordering::Relaxed);
                assert!(!id.is_multiple_of(9_970), "injected");
                return Err("no".into());
            }
            fates.handled[id].fetch_add(1, Ordering::Relaxed);
            Ok(())
        },
    )
    .describe(|id| id.to_string())
}

const SENDERS: usize = 4;
const EACH: usize = 150_000;

/// Sends its share to each actor, by every kind of send; which were accepted.
async fn send_share(actors: Vec<ActorRef<usize>>, sender: usize) -> Vec<usize> {
    let mut accepted = Vec::with_capacity(EACH * actors.len());
    for at in 0..EACH {
        for (number, actor) in actors.iter().enumerate() {
            let id = (sender * EACH + at) * actors.len() + number;
            let sent = match at % 4 {
                0 => actor.send(id).await,
                1 => actor.try_send(id),
                _ => actor.tell(id),
            };
            match sent {
                Ok(()) => accepted.push(id),
                Err(error) => assert_eq!(error.into_message(), id),
            }
        }
    }
    accepted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a2_millions_of_messages_on_threads_have_exactly_one_end_each() {
    quiet();
    let kinds = [
        Mailbox::default(),
        Mailbox::unbounded(),
        Mailbox::bounded(16).drop_newest(),
        Mailbox::bounded(16).drop_oldest(),
        Mailbox::conflated(),
        Mailbox::bounded(64).prioritised(),
    ];
    let messages = SENDERS * EACH * kinds.len();
    let fates = Fates::of(messages);
    let system = ActorSystem::new("stress").unwrap();
    let dead = Arc::clone(&fates);
    system.on_event(move |event| {
        if let Event::DeadLetter(letter) = event {
            let id: usize = letter.message.parse().unwrap();
            dead.dead[id].fetch_add(1, Ordering::Relaxed);
        }
    });
    let crew = system.supervisor("crew", OneForOne::new().intensity(u32::MAX, Duration::ZERO)).unwrap();
    let actors: Vec<_> = kinds.iter().map(|kind| crew.spawn_unnamed(stamping(&fates).mailbox(*kind)).unwrap()).collect();
    // One of the senders is outside the runtime, on a thread of its own.
    let outside = std::thread::spawn({
        let actors = actors.clone();
        move || pleach::block_on(send_share(actors, 0))
    });
    let inside: Vec<_> = (1..SENDERS).map(|sender| tokio::spawn(send_share(actors.clone(), sender))).collect();
    let meddler = tokio::spawn({
        let actors = actors.clone();
        async move {
            for round in 0..2_000 {
                let actor = &actors[round % actors.len()];
                drop(actor.try_send_system(SystemMessage::Suspend));
                tokio::task::yield_now().await;
                drop(actor.try_send_system(SystemMessage::Restart));
                drop(actor.try_send_system(SystemMessage::Resume));
            }
        }
    });
    let mut accepted = Vec::new();
    for sender in inside {
        accepted.extend(sender.await.unwrap());
    }
    // Half of them end while the last sender may still be at it.
    actors[0].stop();
    actors[1].cancel(());
    actors[2].close();
    meddler.await.unwrap();
    accepted.extend(outside.join().unwrap());
    system.shutdown(Duration::from_secs(60)).await.unwrap();

    for id in &accepted {
        let fate = |of: &[AtomicU8]| of[*id].load(Ordering::Relaxed);
        let ends = fate(&fates.handled) + fate(&fates.failed) + fate(&fates.dead);
        assert_eq!(ends, 1, "message {id} has not exactly one end");
    }
    let counts = system.counts();
    let [handled, failed, dead_lettered] = [&fates.handled, &fates.failed, &fates.dead].map(|of| Fates::total(of));
    assert_eq!(counts, Counts { accepted: accepted.len() as u64, handled, failed, dead_lettered });
    assert!(counts.is_settled() && counts.accepted > 1_000_000, "{counts}");
    assert_eq!(system.failures() as u64, failed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_a_send_never_waits_while_there_is_room() {
    for kind in
        [Mailbox::bounded(1), Mailbox::conflated(), Mailbox::bounded(2).drop_oldest(), Mailbox::bounded(2).prioritised()]
    {
        let system = ActorSystem::new("s").unwrap();
        let props = Props::from_fn(|| (), |(): &mut (), _: u32| Ok::<(), BoxError>(()));
        let actor = system.spawn("sink", props.mailbox(kind)).unwrap();
        let senders: Vec<_> = (0..2)
            .map(|_| {
                let to = actor.clone();
                let (done, ended) = tokio::sync::oneshot::channel();
                std::thread::spawn(move || {
                    pleach::block_on(async move {
                        for n in 0..30_000 {
                            to.send(n).await.unwrap();
                        }
                    });
                    done.send(()).unwrap();
                });
                ended
            })
            .collect();
        for sender in senders {
            let ended = tokio::time::timeout(Duration::from_secs(30), sender).await;
            assert!(matches!(ended, Ok(Ok(()))), "a sender waits for ever: {} {kind:?}", actor.counts());
        }
        system.shutdown(Duration::from_secs(30)).await.unwrap();
        assert_eq!(system.counts(), Counts { accepted: 60_000, handled: 60_000, failed: 0, dead_lettered: 0 });
    }
}
