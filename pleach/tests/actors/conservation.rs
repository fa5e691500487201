//! A2: every accepted message ends in exactly one of handled, failed, or dead-lettered. Each message has an id, and a ledger kept by
//! the handlers, the events and the senders says what became of it.

use crate::common::quiet;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{BoxError, Random, Runtime};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

/// What is known of one id.
#[derive(Clone, Copy, Default, Debug)]
struct Entry {
    actor: usize,
    sent: Sent,
    handled: u32,
    unfinished: u32,
    dead: u32,
}

/// What the sender was told.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
enum Sent {
    #[default]
    Refused,
    /// Dropped while it waited: it may have been accepted just before.
    Dropped,
    Accepted,
}

/// Every id, and how many copies of messages exist.
#[derive(Default)]
struct Ledger {
    entries: Mutex<Vec<Entry>>,
    failed_attempts: Mutex<usize>,
    failures_told: Mutex<usize>,
    alive: AtomicI64,
}

impl Ledger {
    fn with<R>(&self, id: usize, f: impl FnOnce(&mut Entry) -> R) -> R {
        f(&mut self.entries.lock().unwrap()[id])
    }

    fn message(self: &Arc<Self>, actor: usize, what: What) -> Parcel {
        let mut entries = self.entries.lock().unwrap();
        entries.push(Entry { actor, ..Entry::default() });
        self.alive.fetch_add(1, Ordering::Relaxed);
        Parcel { id: entries.len() - 1, what, reply: None, ledger: Arc::clone(self) }
    }

    fn told(&self, id: usize, sent: Sent) {
        self.with(id, |entry| entry.sent = sent);
    }

    fn came_back(&self, id: usize, error: SendError<Parcel>) {
        assert_eq!(error.into_message().id, id, "a refused message comes back");
        self.told(id, Sent::Refused);
    }

    /// What the counts of each actor must be, after looking at every id.
    fn expected(&self, policies: &[Policy]) -> Vec<Counts> {
        let mut counts = vec![Counts::default(); policies.len()];
        for (id, entry) in self.entries.lock().unwrap().iter().enumerate() {
            let Entry { actor, sent, handled, unfinished, dead } = *entry;
            let failed = u32::from(unfinished > 0 && handled == 0 && dead == 0);
            let ends = handled + failed + dead;
            assert!(unfinished <= policies[actor].retries + 1, "message {id} was tried too often: {entry:?}");
            assert!(failed == 0 || !policies[actor].bury, "message {id} should be a dead letter: {entry:?}");
            match sent {
                Sent::Accepted => assert_eq!(ends, 1, "message {id} has not exactly one end: {entry:?}"),
                Sent::Dropped => assert!(ends <= 1, "message {id} has more than one end: {entry:?}"),
                Sent::Refused => assert_eq!(ends, 0, "message {id} was refused and yet: {entry:?}"),
            }
            counts[actor] += Counts {
                accepted: u64::from(ends),
                handled: u64::from(handled),
                failed: u64::from(failed),
                dead_lettered: u64::from(dead),
            };
        }
        counts
    }
}

/// What a handler does with a message.
#[derive(Clone, Copy, Debug)]
enum What {
    Finish,
    Fail,
    Panic,
    Wait,
    WaitAndFail,
    Stop,
    PassOn(usize),
}

struct Parcel {
    id: usize,
    what: What,
    reply: Option<Arc<Mutex<Option<Reply<usize>>>>>,
    ledger: Arc<Ledger>,
}

impl Clone for Parcel {
    fn clone(&self) -> Self {
        self.ledger.alive.fetch_add(1, Ordering::Relaxed);
        let Self { id, what, reply, ledger } = self;
        Self { id: *id, what: *what, reply: reply.clone(), ledger: Arc::clone(ledger) }
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        self.ledger.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Writes down an attempt that does not come to its end.
struct Attempt<'a>(&'a Parcel, bool);

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let Self(parcel, finished) = *self;
        parcel.ledger.with(parcel.id, |entry| if finished { entry.handled += 1 } else { entry.unfinished += 1 });
    }
}

struct Clerk {
    number: usize,
    runtime: Arc<dyn Runtime>,
    others: Arc<Mutex<Vec<ActorRef<Parcel>>>>,
}

impl Actor for Clerk {
    type Msg = Parcel;
    type Error = BoxError;

    async fn handle(&mut self, parcel: Parcel, cx: &mut Context<Self>) -> Result<(), BoxError> {
        assert_eq!(parcel.ledger.with(parcel.id, |entry| entry.actor), self.number);
        let mut attempt = Attempt(&parcel, false);
        let fail = || *parcel.ledger.failed_attempts.lock().unwrap() += 1;
        match parcel.what {
            What::Finish => {}
            What::Fail => {
                fail();
                return Err("no".into());
            }
            What::Panic => {
                fail();
                panic!("injected");
            }
            What::Wait => self.runtime.sleep_until(cx.now() + Duration::from_millis(3)).await,
            What::WaitAndFail => {
                self.runtime.sleep_until(cx.now() + Duration::from_millis(2)).await;
                fail();
                return Err("late".into());
            }
            What::Stop => cx.stop(),
            What::PassOn(to) => {
                let other = self.others.lock().unwrap()[to].clone();
                let next = parcel.ledger.message(to, What::Finish);
                let id = next.id;
                if other.tell(next).is_ok() {
                    parcel.ledger.told(id, Sent::Accepted);
                }
            }
        }
        if let Some(reply) = parcel.reply.as_ref().and_then(|reply| reply.lock().unwrap().take()) {
            reply.send(parcel.id);
        }
        attempt.1 = true;
        Ok(())
    }
}

fn mailbox(random: &mut Random) -> Mailbox {
    let few = 1 + random.below(4);
    match random.below(8) {
        0 => Mailbox::bounded(few),
        1 => Mailbox::bounded(few).drop_newest(),
        2 => Mailbox::bounded(few).drop_oldest(),
        3 => Mailbox::unbounded(),
        4 => Mailbox::conflated(),
        5 => Mailbox::bounded(few).prioritised(),
        6 => Mailbox::bounded(few).prioritised().drop_oldest(),
        _ => Mailbox::default(),
    }
}

/// What becomes of a message that failed: its retries, and whether it is a dead letter in the end.
#[derive(Clone, Copy)]
struct Policy {
    retries: u32,
    bury: bool,
}

impl Policy {
    fn any(random: &mut Random) -> Self {
        Self { retries: random.below(3) as u32, bury: random.below(3) == 0 }
    }

    fn give_to(self, props: Props<Clerk>) -> Props<Clerk> {
        let props = if self.bury { props.dead_letter_failed() } else { props };
        if self.retries > 0 { props.retry(self.retries) } else { props }
    }
}

fn what(random: &mut Random, actors: usize) -> What {
    match random.below(20) {
        0..2 => What::Fail,
        2 => What::Panic,
        3..6 => What::Wait,
        6 => What::WaitAndFail,
        7 => What::Stop,
        8..11 => What::PassOn(random.below(actors)),
        _ => What::Finish,
    }
}

/// One world of a few actors with everything that can happen to them.
struct Office {
    system: ActorSystem,
    crew: Supervisor,
    senders: Scope,
    actors: Vec<ActorRef<Parcel>>,
    policies: Vec<Policy>,
    ledger: Arc<Ledger>,
}

impl Office {
    fn open(sim: &Sim, random: &mut Random) -> Self {
        let system = sim.system("office");
        let ledger = Arc::new(Ledger::default());
        listen(&system, &ledger);
        let strategy = match random.below(5) {
            0 => OneForOne::new().always(SupervisorDirective::Stop),
            1 => OneForOne::new().always(SupervisorDirective::Resume),
            2 => OneForOne::new().always(SupervisorDirective::Escalate),
            3 => OneForOne::new().intensity(1, Duration::from_millis(4)),
            _ => OneForOne::new(),
        };
        let crew = system.supervisor("crew", strategy).unwrap();
        let senders = system.scope("senders").unwrap();
        let others = Arc::new(Mutex::new(Vec::new()));
        let mut policies = Vec::new();
        for number in 0..3 {
            let (runtime, known) = (sim.runtime(), Arc::clone(&others));
            let props = Props::new(move || Clerk { number, runtime: Arc::clone(&runtime), others: Arc::clone(&known) });
            let props = props.mailbox(mailbox(random)).describe(|parcel| parcel.id.to_string());
            let policy = Policy::any(random);
            policies.push(policy);
            let props = policy.give_to(props);
            let props = if random.below(6) == 0 { props.fed_by(feed(&ledger, number)) } else { props };
            let name = format!("clerk-{number}");
            let spawned = if random.below(2) == 0 { crew.spawn(&name, props) } else { system.spawn(&name, props) };
            others.lock().unwrap().push(spawned.unwrap());
        }
        let actors = others.lock().unwrap().clone();
        Self { system, crew, senders, actors, policies, ledger }
    }

    /// One send of one kind, told to the ledger.
    fn send(&self, sim: &Sim, random: &mut Random) {
        let to = random.below(self.actors.len());
        let (actor, ledger) = (self.actors[to].clone(), Arc::clone(&self.ledger));
        let parcel = ledger.message(to, what(random, self.actors.len()));
        let id = parcel.id;
        let patience = random.below(6);
        // Until a launched send says more: its task may be cancelled at any time.
        ledger.told(id, Sent::Dropped);
        let sent = match random.below(8) {
            0..3 => actor.tell(parcel),
            3 => actor.try_send(parcel),
            4 => {
                let priority = Priority::new(random.below(8) as u8).unwrap();
                actor.tell_envelope(PriorityEnvelope::new(parcel, priority))
            }
            5 => {
                let token = sim.token();
                drop(self.senders.launch(async move {
                    let sending = actor.send(parcel).or_cancel(&token);
                    match within(patience, sending, || token.cancel(())).await {
                        Ok(()) => ledger.told(id, Sent::Accepted),
                        Err(error) => ledger.came_back(id, error),
                    }
                }));
                return;
            }
            6 => {
                drop(self.senders.launch(async move {
                    match unless(patience, actor.send(parcel)).await {
                        Some(Ok(())) => ledger.told(id, Sent::Accepted),
                        Some(Err(error)) => ledger.came_back(id, error),
                        None => {}
                    }
                }));
                return;
            }
            _ => {
                drop(self.senders.launch(async move {
                    let ask = actor.ask(|reply| {
                        let mut parcel = parcel;
                        parcel.reply = Some(Arc::new(Mutex::new(Some(reply))));
                        parcel
                    });
                    if let Ok(answer) = ask.await {
                        assert_eq!(answer, id);
                        ledger.told(id, Sent::Accepted);
                    }
                }));
                return;
            }
        };
        match sent {
            Ok(()) => self.ledger.told(id, Sent::Accepted),
            Err(error) => self.ledger.came_back(id, error),
        }
    }

    /// Something that is no message happens to an actor.
    fn meddle(&self, random: &mut Random) {
        let actor = &self.actors[random.below(self.actors.len())];
        match random.below(12) {
            0 => actor.stop(),
            1 => actor.close(),
            2 => actor.cancel("meddling"),
            3..6 => drop(actor.try_send_system(SystemMessage::Restart)),
            6..9 => drop(actor.try_send_system(SystemMessage::Suspend)),
            9 => drop(actor.try_send_system(SystemMessage::Resume)),
            10 => drop(actor.try_send_system(SystemMessage::Watch(self.actors[0].any()))),
            _ if random.below(4) == 0 => self.crew.any().stop(),
            _ => {}
        }
    }

    /// Nothing is left to do anywhere: the ledger and all counts agree.
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
        assert_eq!(self.system.failures(), failed, "one record for every failure");
        assert_eq!(*self.ledger.failures_told.lock().unwrap(), failed);
    }
}

fn listen(system: &ActorSystem, ledger: &Arc<Ledger>) {
    let ledger = Arc::clone(ledger);
    system.on_event(move |event| match event {
        Event::DeadLetter(letter) => ledger.with(letter.message.parse().unwrap(), |entry| entry.dead += 1),
        Event::Failed(_) => *ledger.failures_told.lock().unwrap() += 1,
        _ => {}
    });
    // Whatever subscribers do.
    system.on_event(|event| assert!(!matches!(event, Event::DeadLetter(_)), "injected into a subscriber"));
}

/// A stream of three parcels with pauses. What the actor took out of it is accepted.
fn feed(ledger: &Arc<Ledger>, actor: usize) -> impl futures::Stream<Item = Parcel> + Send + 'static {
    let ledger = Arc::clone(ledger);
    futures::stream::unfold(0, move |at| {
        let ledger = Arc::clone(&ledger);
        async move {
            unless(1, std::future::pending::<()>()).await;
            let parcel = (at < 3).then(|| ledger.message(actor, if at == 1 { What::Fail } else { What::Finish }))?;
            ledger.told(parcel.id, Sent::Accepted);
            Some((parcel, at + 1))
        }
    })
}

/// Polls `future`, and gives up after `polls` polls of which each is due at once.
async fn unless<F: Future + Unpin>(polls: usize, mut future: F) -> Option<F::Output> {
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

/// Polls `future` to its end, and calls `late` after `polls` polls.
async fn within<F: Future + Unpin>(polls: usize, mut future: F, late: impl Fn()) -> F::Output {
    if let Some(output) = unless(polls, &mut future).await {
        return output;
    }
    late();
    future.await
}

fn one_world(sim: &Sim) {
    let mut random = Random::seeded(sim.seed() ^ 0xA2);
    let office = Office::open(sim, &mut random);
    sim.run(async {
        for _ in 0..40 {
            match random.below(8) {
                0 => office.meddle(&mut random),
                1 => sim.sleep(Duration::from_millis(1)).await,
                2 => sim.step_aside().await,
                _ => office.send(sim, &mut random),
            }
        }
    });
    if random.below(3) > 0 {
        for actor in &office.actors {
            drop(actor.try_send_system(SystemMessage::Resume));
        }
        sim.advance(Duration::from_secs(3_600));
        office.check();
    }
    match random.below(3) {
        0 => office.system.kill(),
        1 => drop(sim.run(office.system.shutdown(Duration::from_secs(1)))),
        _ => office.actors.iter().for_each(ActorRef::stop),
    }
    sim.advance(Duration::from_secs(3_600));
    office.check();
    let ledger = Arc::clone(&office.ledger);
    drop(office);
    sim.advance(Duration::from_secs(1));
    assert_eq!(ledger.alive.load(Ordering::Relaxed), 0, "a message outlived everything");
}

#[test]
fn a2_every_accepted_message_has_exactly_one_end_under_ten_thousand_schedules() {
    quiet();
    explore(0..10_000, one_world);
}

#[test]
fn a2_a_runtime_that_is_dropped_leaves_no_message_without_an_end() {
    quiet();
    for seed in 0..500 {
        let sim = Sim::new(seed);
        let mut random = Random::seeded(seed);
        let office = Office::open(&sim, &mut random);
        sim.run(async {
            for _ in 0..30 {
                match random.below(8) {
                    0 => sim.sleep(Duration::from_millis(1)).await,
                    1 => sim.step_aside().await,
                    _ => office.send(&sim, &mut random),
                }
            }
        });
        drop(sim);
        office.check();
    }
}
