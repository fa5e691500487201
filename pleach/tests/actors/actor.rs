//! A1, A8, A11, A14, A16 and A19: one message at a time, closures as actors, streams as input,
//! error types and ids.

use crate::common::{Job, Log, TestActor, dead_letters, quiet};
use futures::{SinkExt, StreamExt};
use pleach::BoxError;
use pleach::actor::{AnyRef, Exited};
use pleach::prelude::*;
use pleach::runtime::Random;
use pleach::sim::{Sim, explore};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Panics if two of its handlers run at once. Logs each message: sender and number.
struct Exclusive {
    inside: Arc<AtomicBool>,
    seen: Log<(usize, u32)>,
    pauses: u32,
}

impl Actor for Exclusive {
    type Msg = (usize, u32);
    type Error = Infallible;

    async fn handle(&mut self, msg: (usize, u32), _cx: &mut Context<Self>) -> Result<(), Infallible> {
        assert!(!self.inside.swap(true, Ordering::SeqCst), "two handlers at once");
        for _ in 0..self.pauses.min(msg.1 % 3) {
            tokio::task::yield_now().await;
        }
        self.seen.push(msg);
        self.inside.store(false, Ordering::SeqCst);
        Ok(())
    }
}

/// Checks that every message was handled once, and in the order of each sender.
fn check_order(seen: &[(usize, u32)], senders: usize, each: u32) {
    assert_eq!(seen.len(), senders * each as usize);
    for sender in 0..senders {
        let numbers = seen.iter().filter(|(from, _)| *from == sender).map(|(_, n)| *n);
        assert!(numbers.eq(0..each), "wrong order for sender {sender}");
    }
}

#[test]
fn a1_messages_are_handled_one_at_a_time_in_sender_order() {
    explore(0..200, |sim| {
        let mut random = Random::seeded(sim.seed());
        let system = sim.system("s");
        let seen = Log::new();
        let (log, inside) = (seen.clone(), Arc::new(AtomicBool::new(false)));
        let kind = [Mailbox::bounded(2), Mailbox::unbounded(), Mailbox::bounded(3).prioritised()][random.below(3)];
        let props = Props::new(move || Exclusive { inside: Arc::clone(&inside), seen: log.clone(), pauses: 2 }).mailbox(kind);
        let actor = system.spawn("alone", props).unwrap();
        let senders = system.scope("senders").unwrap();
        for sender in 0..3 {
            let to = actor.clone();
            drop(senders.launch(async move {
                for n in 0..20 {
                    to.send((sender, n)).await.unwrap();
                }
            }));
        }
        sim.run(senders.wait_all()).unwrap();
        actor.close();
        assert_eq!(sim.run(actor.exited()), Exit::Closed);
        check_order(&seen.take(), 3, 20);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a1_messages_are_handled_one_at_a_time_on_threads() {
    const EACH: u32 = 20_000;
    let system = ActorSystem::new("s").unwrap();
    let seen = Log::new();
    let (log, inside) = (seen.clone(), Arc::new(AtomicBool::new(false)));
    let props = Props::new(move || Exclusive { inside: Arc::clone(&inside), seen: log.clone(), pauses: 1 });
    let actor = system.spawn("alone", props.mailbox(Mailbox::bounded(64))).unwrap();
    let senders: Vec<_> = (0..4)
        .map(|sender| {
            let to = actor.clone();
            tokio::spawn(async move {
                for n in 0..EACH {
                    to.send((sender, n)).await.unwrap();
                }
            })
        })
        .collect();
    for sender in senders {
        sender.await.unwrap();
    }
    system.shutdown(Duration::from_secs(30)).await.unwrap();
    assert_eq!(actor.exit(), Some(Exit::Closed));
    check_order(&seen.take(), 4, EACH);
}

#[test]
fn a14_idle_actor_needs_no_poll_and_a_message_needs_one() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let actors: Vec<_> = (0..1_000).map(|_| system.spawn_unnamed(TestActor::props(&Log::new())).unwrap()).collect();
    assert_eq!(sim.settle(), 1_000, "one poll each to start");
    sim.advance(Duration::from_secs(86_400));
    assert_eq!((sim.polls(), sim.tasks_alive()), (1_000, 1_000));
    actors[7].tell(Job::Note(1)).unwrap();
    assert_eq!(sim.settle(), 1, "no other actor is woken");
}

#[test]
fn a16_closure_actor_gets_fresh_state_after_a_restart() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let totals = log.clone();
        let props = Props::from_fn(
            || 100u32,
            move |total: &mut u32, n: u32| -> Result<(), BoxError> {
                *total = total.checked_sub(n).ok_or("overdrawn")?;
                totals.push(*total);
                Ok(())
            },
        );
        let actor = system.spawn("budget", props).unwrap();
        [30, 30, 50, 1].into_iter().for_each(|n| actor.tell(n).unwrap());
        actor.close();
        assert_eq!(sim.run(actor.exited()), Exit::Closed);
        assert_eq!(log.take(), [70, 40, 99]);
    });
}

#[test]
fn a16_each_stream_item_is_handled_once_and_the_end_closes() {
    quiet();
    explore(0..200, |sim| {
        let mut random = Random::seeded(sim.seed());
        let (system, log) = (sim.system("s"), Log::new());
        let dead_letters = dead_letters(&system);
        let (mut items, receiver) = futures::channel::mpsc::channel(2);
        let seen = log.clone();
        let handle = move |(): &mut (), n: u32| -> Result<(), BoxError> {
            seen.push(n);
            // Some items and messages fail or panic, so the actor restarts between items.
            match n % 10 {
                3 => Err("three".into()),
                7 => panic!("injected"),
                _ => Ok(()),
            }
        };
        let supervisor = system.supervisor("supervisor", OneForOne::new().restart_limit(99, Duration::from_secs(1))).unwrap();
        let actor = supervisor.spawn("fed", Props::from_fn(|| (), handle).with_stream(receiver)).unwrap();
        let feeder = system.scope("feeder").unwrap();
        drop(feeder.launch(async move {
            for n in 0..20 {
                items.send(n).await.unwrap();
            }
        }));
        sim.run(async {
            for n in 100..105 {
                for _ in 0..random.below(6) {
                    sim.yield_now().await;
                }
                // The mailbox works beside the stream until the stream ends.
                drop(actor.tell(n));
            }
        });
        assert_eq!(sim.run(actor.exited()), Exit::Closed);
        let seen = log.take();
        assert!(seen.iter().copied().filter(|n| *n < 100).eq(0..20), "each once and in order: {seen:?}");
        assert_eq!(actor.counts().accepted as usize, seen.len());
        assert!(actor.counts().is_settled() && dead_letters.len() == 0);
        assert!(matches!(actor.tell(0), Err(SendError::Closed(0))));
    });
}

#[test]
fn a16_stop_drops_the_stream() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let (items, receiver) = futures::channel::mpsc::unbounded::<u32>();
    let props = Props::from_fn(|| (), |(): &mut (), _: u32| Ok::<(), Infallible>(()));
    let actor = system.spawn("fed", props.with_stream(receiver)).unwrap();
    items.unbounded_send(1).unwrap();
    sim.settle();
    actor.stop();
    assert_eq!(sim.run(actor.exited()), Exit::Stopped);
    assert!(items.is_closed());
    assert_eq!(actor.counts(), Counts { accepted: 1, handled: 1, failed: 0, dead_lettered: 0 });
}

#[test]
fn a16_producer_output_can_feed_an_actor() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let (scope, log) = (system.scope("scope").unwrap(), Log::new());
        let produced = scope
            .produce(1, |mut out| async move {
                for n in 0..10u32 {
                    out.send(n).await.map_err(|_| "receiver dropped")?;
                }
                Ok::<(), BoxError>(())
            })
            .unwrap();
        let seen = log.clone();
        let handle = move |(): &mut (), n: u32| {
            seen.push(n * 2);
            Ok::<(), Infallible>(())
        };
        let actor =
            system.spawn("fed", Props::from_fn(|| (), handle).with_stream(produced.filter(|n| std::future::ready(n % 2 == 0))));
        assert_eq!(sim.run(actor.unwrap().exited()), Exit::Closed);
        assert_eq!(log.take(), [0, 4, 8, 12, 16]);
    });
}

#[test]
fn a19_ids_are_never_reused_even_after_a_restart() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let mut ids = BTreeSet::new();
    for round in 0..100 {
        let actor = TestActor::spawn(&system, "same-name");
        assert!(ids.insert(actor.id()), "id {} was reused", actor.id());
        actor.tell(Job::Fail("no")).unwrap();
        sim.advance(Duration::from_secs(6));
        let (child_ids, id) = (Log::new(), actor.id());
        let child_log = child_ids.clone();
        actor
            .tell(Job::act(move |cx| {
                assert_eq!((cx.id(), cx.incarnation()), (id, 1));
                let child = cx.spawn_unnamed(TestActor::props(&Log::new())).unwrap();
                child_log.push(child.id());
            }))
            .unwrap();
        sim.settle();
        assert!(child_ids.take().into_iter().all(|id| ids.insert(id)), "round {round}");
        actor.stop();
        sim.settle();
    }
    assert_eq!(ids.len(), 200);
}

/// An error type that does not implement `std::error::Error`, like `anyhow::Error`.
struct Anyhow(BoxError);

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Anyhow {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl From<Anyhow> for BoxError {
    fn from(error: Anyhow) -> Self {
        error.0
    }
}

struct Parser;

impl Actor for Parser {
    type Msg = &'static str;
    type Error = Anyhow;

    async fn handle(&mut self, text: &'static str, _cx: &mut Context<Self>) -> Result<(), Anyhow> {
        let _: u32 = text.parse()?;
        Ok(())
    }
}

#[test]
fn a8_any_error_type_is_accepted_and_kept() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let records = crate::common::failures(&system);
    let parser = system.spawn("parser", Props::new(|| Parser)).unwrap();
    parser.tell("7").unwrap();
    parser.tell("seven").unwrap();
    let echo = system.spawn("echo", Props::from_fn(|| (), |(): &mut (), text: String| Err::<(), String>(text))).unwrap();
    echo.tell("plain text".to_string()).unwrap();
    sim.settle();
    let records = records.take();
    assert!(records.iter().any(|record| record.error::<std::num::ParseIntError>().is_some()));
    assert!(records.iter().any(|record| record.reason().to_string() == "plain text"));
}

#[test]
fn a11_public_types_are_send_and_sync() {
    fn is_shared<T: Send + Sync + Clone + 'static>() {}
    fn is_send<T: Send + 'static>(_: &T) {}
    // The message type does not have to be `Sync`.
    is_shared::<ActorRef<std::cell::Cell<u32>>>();
    is_shared::<AnyRef>();
    is_shared::<RootContext>();
    is_shared::<FailureInfo>();
    is_shared::<Exit>();
    is_shared::<ActorPath>();
    is_shared::<SystemMessage>();
    let sim = Sim::new(0);
    let system = sim.system("s");
    let actor = TestActor::spawn(&system, "actor");
    let exited: Exited = actor.exited();
    is_send(&exited);
    let to = actor.clone();
    is_send(&async move {
        drop(to.send(Job::Note(1)).await);
        drop(to.ask(|reply| Job::Answer(reply, 1)).await);
    });
    is_send(&system);
    assert_eq!(actor, actor.clone(), "references to the same actor are equal");
}
