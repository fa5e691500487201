//! A2 through `ActorRef::map`: whatever is sent through adapters has exactly one end, whatever ends meanwhile.

use crate::common::texts::{busy, numbers, text};
use crate::common::{Doer, INJECTED, Job, Log, dead_letters, failures, poll_once, quiet};
use pleach::prelude::*;
use pleach::sim::explore;
use pleach::{BoxError, DeadLetterReason, Random};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Every kind of send, by both kinds of address, to every kind of mailbox, with adapters that panic, sends that are dropped and ends at
/// any time: the counts are exact, and every place is free again.
#[test]
fn a2_conservation_holds_through_adapters() {
    quiet();
    explore(0..1_500, |sim| {
        let mut random = Random::seeded(sim.seed());
        let system = sim.system("s");
        let letters = dead_letters(&system);
        let recorded = failures(&system);
        let capacity = 1 + random.below(3);
        let bounded = Mailbox::bounded(capacity);
        let kinds = [bounded, bounded.drop_newest(), bounded.drop_oldest(), bounded.prioritised(), Mailbox::conflated()];
        let kind = kinds[random.below(kinds.len())];
        let capacity = if kind == Mailbox::conflated() { 1 } else { capacity };
        let (actor, log, gate) = busy(sim, &system, kind);
        let (texts, runs) = numbers(&actor);
        let senders = system.scope("senders").unwrap();
        let accepted = Arc::new(AtomicUsize::new(1));
        let count = |sent: bool| accepted.fetch_add(usize::from(sent), Ordering::SeqCst);
        let mut tasks = Vec::new();
        sim.run(async {
            for n in 0..30 {
                let what = if random.below(5) == 0 { text("none") } else { text(n) };
                match random.below(9) {
                    0 => drop(count(actor.tell(Job::Note(n)).is_ok())),
                    1 => drop(count(texts.try_send(what).is_ok())),
                    2 | 3 => drop(count(texts.tell(what).is_ok())),
                    4..7 => {
                        let (texts, actor, accepted) = (texts.clone(), actor.clone(), Arc::clone(&accepted));
                        let plain = random.below(3) == 0;
                        let sending = async move {
                            let sent =
                                if plain { actor.send(Job::Note(n)).await.is_ok() } else { texts.send(what).await.is_ok() };
                            accepted.fetch_add(usize::from(sent), Ordering::SeqCst);
                        };
                        tasks.push((plain, senders.launch(sending).unwrap()));
                    }
                    7 => gate.open(),
                    _ => sim.step_aside().await,
                }
                // A mapped send that is dropped was not accepted, at whatever point; of a plain one nobody can say.
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
        assert_eq!(counts.dead_lettered as usize, letters.len());
        assert_eq!(system.counts(), counts);
        // What was cut off by a cancel is failed without a record.
        let cut_off = usize::from(matches!(actor.exit(), Some(Exit::Cancelled(_))) && counts.failed as usize > recorded.len());
        assert_eq!(counts.failed as usize, recorded.len() + cut_off);
        let mapped = runs.load(Ordering::SeqCst);
        assert!(mapped >= recorded.len() && mapped <= counts.accepted as usize, "an adapter runs for what was accepted alone");
        assert!(log.len() >= counts.handled as usize);
        if actor.exit().is_none() {
            actor.tell(Job::Pass(gate.clone(), 0)).unwrap();
            sim.settle();
            assert!((0..capacity).all(|n| texts.try_send(text(n)).is_ok()), "every place is free again");
            assert!(texts.try_send(text(9)).is_err());
        }
    });
}

/// On threads: the adapter is at work while the actor is told to end. What was accepted has its end, and the actor waits for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_an_actor_ends_after_the_adapters_at_work() {
    for stops in [false, true] {
        let system = ActorSystem::new("s").unwrap();
        let letters = dead_letters(&system);
        let log = Log::new();
        let actor = system.spawn("doer", Doer::props(&log)).unwrap();
        let (begun, begins) = std::sync::mpsc::channel();
        let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
        let goes_on = std::sync::Mutex::new(goes_on);
        let mapped = actor.map(move |n| {
            begun.send(()).unwrap();
            goes_on.lock().unwrap().recv().unwrap();
            Job::Note(n)
        });
        let sender = std::thread::spawn(move || mapped.tell(7));
        begins.recv().unwrap();
        assert_eq!(actor.counts().accepted, 1, "from before the adapter runs");
        let end = if stops { ActorRef::stop } else { ActorRef::close };
        end(&actor);
        let mut exited = actor.exited();
        // The hooks of the actor have run by now, so it waits for nothing else.
        while stops && !log.take().iter().any(|entry| entry.starts_with("stopped")) {
            tokio::task::yield_now().await;
        }
        assert!(poll_once(&mut exited).is_pending());
        go_on.send(()).unwrap();
        let exit = exited.await;
        assert_eq!(sender.join().unwrap(), Ok(()));
        assert_eq!(exit, if stops { Exit::Stopped } else { Exit::Closed });
        assert_eq!(letters.take(), if stops { vec![(text(7), DeadLetterReason::Stopped)] } else { vec![] });
        assert!(stops || log.take().contains(&text(7)), "the end of input comes after what was accepted");
        assert!(actor.counts().is_settled() && system.counts().accepted == 1);
    }
}

/// A runtime that goes away does not wait for an adapter: its message is a dead letter on the books, and is dropped when it comes.
#[test]
fn a2_a_message_that_is_made_for_an_actor_whose_runtime_is_gone_is_counted() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let (system, actor) = runtime.block_on(async {
        let system = ActorSystem::new("s").unwrap();
        let actor = system.spawn("doer", Doer::props(&Log::new())).unwrap();
        (system, actor)
    });
    let (begun, begins) = std::sync::mpsc::channel();
    let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
    let goes_on = std::sync::Mutex::new(goes_on);
    let dropped = Arc::new(());
    let witness = Arc::clone(&dropped);
    let mapped = actor.map(move |n: u32| {
        begun.send(()).unwrap();
        goes_on.lock().unwrap().recv().unwrap();
        let witness = Arc::clone(&witness);
        Job::act(move |_| drop((n, witness)))
    });
    let sender = std::thread::spawn(move || mapped.tell(7));
    begins.recv().unwrap();
    drop(runtime);
    assert_eq!(actor.exit(), Some(Exit::Cancelled(Cause::Dropped)));
    assert_eq!(system.counts(), Counts { accepted: 1, handled: 0, failed: 0, dead_lettered: 1 });
    go_on.send(()).unwrap();
    assert_eq!(sender.join().unwrap(), Ok(()));
    assert_eq!(Arc::strong_count(&dropped), 1, "with the adapter went its message");
    assert_eq!(system.counts(), Counts { accepted: 1, handled: 0, failed: 0, dead_lettered: 1 });
}

/// Senders on threads through adapters, some of which panic, against actors that end: nothing is lost, nobody hangs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_conservation_holds_through_adapters_on_threads() {
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
                    pleach::block_on(async move {
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
