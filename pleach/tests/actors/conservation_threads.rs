//! A2 and A4 on threads: millions of messages, every kind of send and every kind of mailbox. Each
//! message has exactly one outcome, and no send waits forever.

use crate::common::quiet;
use pleach::BoxError;
use pleach::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// For each message id, how often it had each outcome.
#[derive(Default)]
struct Outcomes {
    handled: Vec<AtomicU8>,
    failed: Vec<AtomicU8>,
    dead: Vec<AtomicU8>,
}

impl Outcomes {
    fn of(messages: usize) -> Arc<Self> {
        let zeros = || (0..messages).map(|_| AtomicU8::new(0)).collect();
        Arc::new(Self { handled: zeros(), failed: zeros(), dead: zeros() })
    }

    fn total(of: &[AtomicU8]) -> u64 {
        of.iter().map(|seen| u64::from(seen.load(Ordering::Relaxed))).sum()
    }
}

fn recording_props(outcomes: &Arc<Outcomes>) -> Props<impl Actor<Msg = usize>> {
    let outcomes = Arc::clone(outcomes);
    Props::from_fn(
        || (),
        move |(): &mut (), id: usize| -> Result<(), BoxError> {
            if id.is_multiple_of(997) {
                outcomes.failed[id].fetch_add(1, Ordering::Relaxed);
                assert!(!id.is_multiple_of(9_970), "injected");
                return Err("no".into());
            }
            outcomes.handled[id].fetch_add(1, Ordering::Relaxed);
            Ok(())
        },
    )
    .describe(|id| id.to_string())
}

const SENDERS: usize = 4;
const EACH: usize = 150_000;

/// Sends one sender's messages to each actor, with every kind of send. Returns the accepted ids.
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
async fn a2_millions_of_messages_on_threads_have_exactly_one_outcome() {
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
    let outcomes = Outcomes::of(messages);
    let system = ActorSystem::new("stress").unwrap();
    let dead = Arc::clone(&outcomes);
    system.on_event(move |event| {
        if let Event::DeadLetter(letter) = event {
            let id: usize = letter.message.parse().unwrap();
            dead.dead[id].fetch_add(1, Ordering::Relaxed);
        }
    });
    let supervisor = system.supervisor("supervisor", OneForOne::new().restart_limit(u32::MAX, Duration::ZERO)).unwrap();
    let actors: Vec<_> =
        kinds.iter().map(|kind| supervisor.spawn_unnamed(recording_props(&outcomes).mailbox(*kind)).unwrap()).collect();
    // One sender runs on a thread outside of the runtime.
    let outside = std::thread::spawn({
        let actors = actors.clone();
        move || pleach::runtime::block_on(send_share(actors, 0))
    });
    let inside: Vec<_> = (1..SENDERS).map(|sender| tokio::spawn(send_share(actors.clone(), sender))).collect();
    let disturber = tokio::spawn({
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
    // Half of the actors end while the last sender may still be sending.
    actors[0].stop();
    actors[1].cancel(());
    actors[2].close();
    disturber.await.unwrap();
    accepted.extend(outside.join().unwrap());
    system.shutdown(Duration::from_secs(60)).await.unwrap();

    for id in &accepted {
        let outcome = |of: &[AtomicU8]| of[*id].load(Ordering::Relaxed);
        let total = outcome(&outcomes.handled) + outcome(&outcomes.failed) + outcome(&outcomes.dead);
        assert_eq!(total, 1, "message {id} does not have exactly one outcome");
    }
    let counts = system.counts();
    let [handled, failed, dead_lettered] = [&outcomes.handled, &outcomes.failed, &outcomes.dead].map(|of| Outcomes::total(of));
    assert_eq!(counts, Counts { accepted: accepted.len() as u64, handled, failed, dead_lettered });
    assert!(counts.is_settled() && counts.accepted > 1_000_000, "{counts}");
    assert_eq!(system.failures() as u64, failed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_send_never_waits_while_there_is_room() {
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
                    pleach::runtime::block_on(async move {
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
            assert!(matches!(ended, Ok(Ok(()))), "a sender waits forever: {} {kind:?}", actor.counts());
        }
        system.shutdown(Duration::from_secs(30)).await.unwrap();
        assert_eq!(system.counts(), Counts { accepted: 60_000, handled: 60_000, failed: 0, dead_lettered: 0 });
    }
}
