//! A2: every accepted message ends as handled, failed or dead-lettered, exactly once. Each
//! message has an id. Handlers, events and senders record its outcome in a ledger.

use crate::common::quiet;
use crate::ledger::{Action, Ledger, Policy, Sent, TrackedMessage, TrackingActor};
use pleach::prelude::*;
use pleach::runtime::Random;
use pleach::sim::{Sim, explore};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::Poll;

fn mailbox(random: &mut Random) -> Mailbox {
    let capacity = 1 + random.below(4);
    match random.below(8) {
        0 => Mailbox::bounded(capacity),
        1 => Mailbox::bounded(capacity).drop_newest(),
        2 => Mailbox::bounded(capacity).drop_oldest(),
        3 => Mailbox::unbounded(),
        4 => Mailbox::conflated(),
        5 => Mailbox::bounded(capacity).prioritised(),
        6 => Mailbox::bounded(capacity).prioritised().drop_oldest(),
        _ => Mailbox::default(),
    }
}

fn action(random: &mut Random, actors: usize) -> Action {
    match random.below(20) {
        0..2 => Action::Fail,
        2 => Action::Panic,
        3..6 => Action::Wait,
        6 => Action::WaitAndFail,
        7 => Action::Stop,
        8..11 => Action::Forward(random.below(actors)),
        _ => Action::Finish,
    }
}

/// A system with three actors and random senders.
struct TestSystem {
    system: ActorSystem,
    supervisor: Supervisor,
    senders: Scope,
    actors: Vec<ActorRef<TrackedMessage>>,
    policies: Vec<Policy>,
    ledger: Arc<Ledger>,
}

impl TestSystem {
    fn new(sim: &Sim, random: &mut Random) -> Self {
        let system = sim.system("s");
        let ledger = Arc::new(Ledger::default());
        listen(&system, &ledger);
        let strategy = match random.below(5) {
            0 => OneForOne::new().always(SupervisorDirective::Stop),
            1 => OneForOne::new().always(SupervisorDirective::Resume),
            2 => OneForOne::new().always(SupervisorDirective::Escalate),
            3 => OneForOne::new().restart_limit(1, Duration::from_millis(4)),
            _ => OneForOne::new(),
        };
        let supervisor = system.supervisor("supervisor", strategy).unwrap();
        let senders = system.scope("senders").unwrap();
        let others = Arc::new(Mutex::new(Vec::new()));
        let mut policies = Vec::new();
        for number in 0..3 {
            let (runtime, known) = (sim.runtime(), Arc::clone(&others));
            let props = Props::new(move || TrackingActor { number, runtime: Arc::clone(&runtime), others: Arc::clone(&known) });
            let props = props.mailbox(mailbox(random)).describe(|message| message.id.to_string());
            let policy = Policy::any(random);
            policies.push(policy);
            let props = policy.apply_to(props);
            let props = if random.below(6) == 0 { props.with_stream(feed(&ledger, number)) } else { props };
            let name = format!("actor-{number}");
            let spawned = if random.below(2) == 0 { supervisor.spawn(&name, props) } else { system.spawn(&name, props) };
            others.lock().unwrap().push(spawned.unwrap());
        }
        let actors = others.lock().unwrap().clone();
        Self { system, supervisor, senders, actors, policies, ledger }
    }

    /// Sends one message in a random way and records the result.
    fn send(&self, sim: &Sim, random: &mut Random) {
        let to = random.below(self.actors.len());
        let (actor, ledger) = (self.actors[to].clone(), Arc::clone(&self.ledger));
        let message = ledger.message(to, action(random, self.actors.len()));
        let id = message.id;
        let patience = random.below(6);
        // Valid until a launched send reports its result: its task may be cancelled at any time.
        ledger.record(id, Sent::Dropped);
        let sent = match random.below(8) {
            0..3 => actor.tell(message),
            3 => actor.try_send(message),
            4 => {
                let priority = Priority::new(random.below(8) as u8).unwrap();
                actor.tell_envelope(PriorityEnvelope::new(message, priority))
            }
            5 => {
                let token = sim.token();
                drop(self.senders.launch(async move {
                    let sending = actor.send(message).or_cancel(&token);
                    match poll_then_call(patience, sending, || token.cancel(())).await {
                        Ok(()) => ledger.record(id, Sent::Accepted),
                        Err(error) => ledger.record_returned(id, error),
                    }
                }));
                return;
            }
            6 => {
                drop(self.senders.launch(async move {
                    match poll_at_most(patience, actor.send(message)).await {
                        Some(Ok(())) => ledger.record(id, Sent::Accepted),
                        Some(Err(error)) => ledger.record_returned(id, error),
                        None => {}
                    }
                }));
                return;
            }
            _ => {
                drop(self.senders.launch(async move {
                    let ask = actor.ask(|reply| {
                        let mut message = message;
                        message.reply = Some(Arc::new(Mutex::new(Some(reply))));
                        message
                    });
                    if let Ok(answer) = ask.await {
                        assert_eq!(answer, id);
                        ledger.record(id, Sent::Accepted);
                    }
                }));
                return;
            }
        };
        match sent {
            Ok(()) => self.ledger.record(id, Sent::Accepted),
            Err(error) => self.ledger.record_returned(id, error),
        }
    }

    /// Stops, closes, cancels, restarts, suspends or watches a random actor.
    fn disturb(&self, random: &mut Random) {
        let actor = &self.actors[random.below(self.actors.len())];
        match random.below(12) {
            0 => actor.stop(),
            1 => actor.close(),
            2 => actor.cancel("disturbed"),
            3..6 => drop(actor.try_send_system(SystemMessage::Restart)),
            6..9 => drop(actor.try_send_system(SystemMessage::Suspend)),
            9 => drop(actor.try_send_system(SystemMessage::Resume)),
            10 => drop(actor.try_send_system(SystemMessage::Watch(self.actors[0].any()))),
            _ if random.below(4) == 0 => self.supervisor.any().stop(),
            _ => {}
        }
    }

    /// Checks that the ledger and all counts agree. Call it when no task is ready.
    fn check(&self) {
        let expected = self.ledger.expected(&self.policies);
        let mut total = Counts::default();
        for (actor, expected) in self.actors.iter().zip(expected) {
            assert!(actor.counts().is_settled(), "{}: {}", actor.path(), actor.counts());
            assert_eq!(actor.counts(), expected, "{}", actor.path());
            assert_eq!(actor.queued(), 0);
            total += expected;
        }
        assert_eq!(self.system.counts(), total);
        assert!(self.system.counts().is_settled());
        let failed = *self.ledger.failed_attempts.lock().unwrap();
        assert_eq!(self.system.failures(), failed, "one record per failure");
        assert_eq!(*self.ledger.reported_failures.lock().unwrap(), failed);
    }
}

fn listen(system: &ActorSystem, ledger: &Arc<Ledger>) {
    let ledger = Arc::clone(ledger);
    system.on_event(move |event| match event {
        Event::DeadLetter(letter) => ledger.with(letter.message.parse().unwrap(), |entry| entry.dead += 1),
        Event::Failed(_) => *ledger.reported_failures.lock().unwrap() += 1,
        _ => {}
    });
    // A subscriber that panics changes nothing.
    system.on_event(|event| assert!(!matches!(event, Event::DeadLetter(_)), "injected into a subscriber"));
}

/// A stream of three messages with pauses. Each item that the actor takes is accepted.
fn feed(ledger: &Arc<Ledger>, actor: usize) -> impl futures::Stream<Item = TrackedMessage> + Send + 'static {
    let ledger = Arc::clone(ledger);
    futures::stream::unfold(0, move |at| {
        let ledger = Arc::clone(&ledger);
        async move {
            poll_at_most(1, std::future::pending::<()>()).await;
            let message = (at < 3).then(|| ledger.message(actor, if at == 1 { Action::Fail } else { Action::Finish }))?;
            ledger.record(message.id, Sent::Accepted);
            Some((message, at + 1))
        }
    })
}

/// Polls `future` and gives up after `polls` polls. Each poll wakes itself.
async fn poll_at_most<F: Future + Unpin>(polls: usize, mut future: F) -> Option<F::Output> {
    let mut left = polls;
    poll_fn(|cx| {
        if let Poll::Ready(output) = Pin::new(&mut future).poll(cx) {
            return Poll::Ready(Some(output));
        }
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

/// Awaits `future`, and calls `late` after `polls` polls.
async fn poll_then_call<F: Future + Unpin>(polls: usize, mut future: F, late: impl Fn()) -> F::Output {
    if let Some(output) = poll_at_most(polls, &mut future).await {
        return output;
    }
    late();
    future.await
}

fn run_schedule(sim: &Sim) {
    let mut random = Random::seeded(sim.seed() ^ 0xA2);
    let test = TestSystem::new(sim, &mut random);
    sim.run(async {
        for _ in 0..40 {
            match random.below(8) {
                0 => test.disturb(&mut random),
                1 => sim.sleep(Duration::from_millis(1)).await,
                2 => sim.yield_now().await,
                _ => test.send(sim, &mut random),
            }
        }
    });
    if random.below(3) > 0 {
        for actor in &test.actors {
            drop(actor.try_send_system(SystemMessage::Resume));
        }
        sim.advance(Duration::from_secs(3_600));
        test.check();
    }
    match random.below(3) {
        0 => test.system.cancel(Cause::Cancelled),
        1 => drop(sim.run(test.system.shutdown(Duration::from_secs(1)))),
        _ => test.actors.iter().for_each(ActorRef::stop),
    }
    sim.advance(Duration::from_secs(3_600));
    test.check();
    let ledger = Arc::clone(&test.ledger);
    drop(test);
    sim.advance(Duration::from_secs(1));
    assert_eq!(ledger.alive.load(Ordering::Relaxed), 0, "a message outlived the system");
}

#[test]
fn a2_every_accepted_message_has_exactly_one_outcome() {
    quiet();
    explore(0..10_000, run_schedule);
}

#[test]
fn a2_dropped_runtime_leaves_no_message_without_an_outcome() {
    quiet();
    for seed in 0..500 {
        let sim = Sim::new(seed);
        let mut random = Random::seeded(seed);
        let test = TestSystem::new(&sim, &mut random);
        sim.run(async {
            for _ in 0..30 {
                match random.below(8) {
                    0 => sim.sleep(Duration::from_millis(1)).await,
                    1 => sim.yield_now().await,
                    _ => test.send(&sim, &mut random),
                }
            }
        });
        drop(sim);
        test.check();
    }
}
