//! A2 with `ActorRef::map`: each message sent through an adapter has exactly one outcome.

use crate::common::adapters::{text, text_recipient};
use crate::common::{INJECTED, Job, Log, TestActor, busy_actor, dead_letters, failures, poll_once, quiet};
use pleach::BoxError;
use pleach::events::DeadLetterReason;
use pleach::prelude::*;
use pleach::runtime::Random;
use pleach::sim::explore;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Every kind of send, plain and mapped, to every kind of mailbox. Adapters panic, sends are
/// dropped and the actor ends at any time. The counts are exact, and the full capacity is free
/// afterwards.
#[test]
fn a2_counts_are_exact_with_adapters() {
    quiet();
    explore(0..1_500, |sim| {
        let mut random = Random::seeded(sim.seed());
        let system = sim.system("s");
        let dead_letters = dead_letters(&system);
        let recorded = failures(&system);
        let capacity = 1 + random.below(3);
        let bounded = Mailbox::bounded(capacity);
        let kinds = [bounded, bounded.drop_newest(), bounded.drop_oldest(), bounded.prioritised(), Mailbox::conflated()];
        let kind = kinds[random.below(kinds.len())];
        let capacity = if kind == Mailbox::conflated() { 1 } else { capacity };
        let (actor, log, gate) = busy_actor(sim, &system, kind);
        let (texts, calls) = text_recipient(&actor);
        let senders = system.scope("senders").unwrap();
        let accepted = Arc::new(AtomicUsize::new(1));
        let count = |sent: bool| accepted.fetch_add(usize::from(sent), Ordering::SeqCst);
        let mut tasks = Vec::new();
        sim.run(async {
            for n in 0..30 {
                let text_sent = if random.below(5) == 0 { text("none") } else { text(n) };
                match random.below(9) {
                    0 => drop(count(actor.tell(Job::Note(n)).is_ok())),
                    1 => drop(count(texts.try_send(text_sent).is_ok())),
                    2 | 3 => drop(count(texts.tell(text_sent).is_ok())),
                    4..7 => {
                        let (texts, actor, accepted) = (texts.clone(), actor.clone(), Arc::clone(&accepted));
                        let plain = random.below(3) == 0;
                        let sending = async move {
                            let sent = if plain {
                                actor.send(Job::Note(n)).await.is_ok()
                            } else {
                                texts.send(text_sent).await.is_ok()
                            };
                            accepted.fetch_add(usize::from(sent), Ordering::SeqCst);
                        };
                        tasks.push((plain, senders.launch(sending).unwrap()));
                    }
                    7 => gate.open(),
                    _ => sim.yield_now().await,
                }
                // A dropped mapped send was never accepted. A dropped plain send may have been
                // accepted.
                if random.below(6) == 0
                    && let Some((false, task)) = tasks.pop()
                {
                    task.cancel(());
                }
                assert!(actor.queued() <= capacity);
            }
            match random.below(4) {
                0 => actor.stop(),
                1 => actor.close(),
                2 => actor.cancel(()),
                _ => {}
            }
        });
        gate.open();
        gate.open();
        sim.settle();
        let counts = actor.counts();
        assert!(counts.is_settled(), "{counts}");
        assert_eq!(counts.accepted as usize, accepted.load(Ordering::SeqCst));
        assert_eq!(counts.dead_lettered as usize, dead_letters.len());
        assert_eq!(system.counts(), counts);
        // A message whose handler was cancelled counts as failed, without a record.
        let cancelled =
            usize::from(matches!(actor.exit(), Some(Exit::Cancelled(_))) && counts.failed as usize > recorded.len());
        assert_eq!(counts.failed as usize, recorded.len() + cancelled);
        let mapped = calls.load(Ordering::SeqCst);
        assert!(mapped >= recorded.len() && mapped <= counts.accepted as usize, "an adapter runs only for accepted messages");
        assert!(log.len() >= counts.handled as usize);
        if actor.exit().is_none() {
            actor.tell(Job::Pass(gate.clone(), 0)).unwrap();
            sim.settle();
            assert!((0..capacity).all(|n| texts.try_send(text(n)).is_ok()), "the full capacity is free again");
            assert!(texts.try_send(text(9)).is_err());
        }
    });
}

/// On threads: the actor is asked to end while an adapter runs. The actor waits for the adapter's
/// message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_actor_waits_for_running_adapters_before_it_ends() {
    for stops in [false, true] {
        let system = ActorSystem::new("s").unwrap();
        let dead_letters = dead_letters(&system);
        let log = Log::new();
        let actor = system.spawn("actor", TestActor::props(&log)).unwrap();
        let (entered, enters) = std::sync::mpsc::channel();
        let (resume, resumed) = std::sync::mpsc::channel::<()>();
        let resumed = std::sync::Mutex::new(resumed);
        let mapped = actor.map(move |n| {
            entered.send(()).unwrap();
            resumed.lock().unwrap().recv().unwrap();
            Job::Note(n)
        });
        let sender = std::thread::spawn(move || mapped.tell(7));
        enters.recv().unwrap();
        assert_eq!(actor.counts().accepted, 1, "accepted before the adapter runs");
        let end = if stops { ActorRef::stop } else { ActorRef::close };
        end(&actor);
        let mut exited = actor.exited();
        // The hooks have run, so the actor waits only for the adapter.
        while stops && !log.take().iter().any(|entry| entry.starts_with("stopped")) {
            tokio::task::yield_now().await;
        }
        assert!(poll_once(&mut exited).is_pending());
        resume.send(()).unwrap();
        let exit = exited.await;
        assert_eq!(sender.join().unwrap(), Ok(()));
        assert_eq!(exit, if stops { Exit::Stopped } else { Exit::Closed });
        assert_eq!(dead_letters.take(), if stops { vec![(text(7), DeadLetterReason::Stopped)] } else { vec![] });
        assert!(stops || log.take().contains(&text(7)), "an accepted message is handled before the end");
        assert!(actor.counts().is_settled() && system.counts().accepted == 1);
    }
}

/// A dropped runtime does not wait for an adapter. Its message counts as a dead letter and is
/// dropped when the adapter returns.
#[test]
fn a2_message_of_a_running_adapter_is_counted_without_a_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let (system, actor) = runtime.block_on(async {
        let system = ActorSystem::new("s").unwrap();
        let actor = TestActor::spawn(&system, "actor");
        (system, actor)
    });
    let (entered, enters) = std::sync::mpsc::channel();
    let (resume, resumed) = std::sync::mpsc::channel::<()>();
    let resumed = std::sync::Mutex::new(resumed);
    let dropped = Arc::new(());
    let witness = Arc::clone(&dropped);
    let mapped = actor.map(move |n: u32| {
        entered.send(()).unwrap();
        resumed.lock().unwrap().recv().unwrap();
        let witness = Arc::clone(&witness);
        Job::act(move |_| drop((n, witness)))
    });
    let sender = std::thread::spawn(move || mapped.tell(7));
    enters.recv().unwrap();
    drop(runtime);
    assert_eq!(actor.exit(), Some(Exit::Cancelled(Cause::Dropped)));
    assert_eq!(system.counts(), Counts { accepted: 1, handled: 0, failed: 0, dead_lettered: 1 });
    resume.send(()).unwrap();
    assert_eq!(sender.join().unwrap(), Ok(()));
    assert_eq!(Arc::strong_count(&dropped), 1, "the adapter's message was dropped");
    assert_eq!(system.counts(), Counts { accepted: 1, handled: 0, failed: 0, dead_lettered: 1 });
}

/// Threads send through adapters, some of which panic, while the actor ends. No message is lost,
/// and no send hangs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_counts_are_exact_with_adapters_on_threads() {
    quiet();
    let kinds =
        [Mailbox::bounded(2), Mailbox::bounded(2).drop_oldest(), Mailbox::conflated(), Mailbox::bounded(2).prioritised()];
    for kind in kinds.into_iter().cycle().take(40) {
        let system = ActorSystem::new("s").unwrap();
        let props = Props::from_fn(|| (), |(): &mut (), _: usize| Ok::<(), BoxError>(()));
        let actor = system.spawn("sink", props.mailbox(kind)).unwrap();
        let senders: Vec<_> = (0..2)
            .map(|number| {
                let to = actor.map(|n: u64| {
                    assert!(!n.is_multiple_of(97), "{INJECTED}");
                    n as usize
                });
                let plain = actor.clone();
                std::thread::spawn(move || {
                    pleach::runtime::block_on(async move {
                        let mut accepted = 0;
                        for n in 1..1_000_u64 {
                            let sent = match n % 4 {
                                0 => to.tell(n).is_ok(),
                                1 => plain.send(n as usize).await.is_ok(),
                                _ => to.send(n).await.is_ok(),
                            };
                            accepted += u64::from(sent);
                            if number == 0 && n == 700 {
                                plain.close();
                            }
                        }
                        accepted
                    })
                })
            })
            .collect();
        let exit = actor.exited().await;
        let accepted: u64 = senders.into_iter().map(|sender| sender.join().unwrap()).sum();
        assert_eq!(exit, Exit::Closed);
        let counts = actor.counts();
        assert!(counts.is_settled() && counts.accepted == accepted && accepted > 500, "{counts}, {accepted}");
        assert_eq!((system.counts(), system.failures() as u64), (counts, counts.failed));
    }
}
