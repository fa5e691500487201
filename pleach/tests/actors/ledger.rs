//! Messages that record their outcome in a ledger, and the actor that handles them.

use pleach::BoxError;
use pleach::prelude::*;
use pleach::runtime::{Random, Runtime};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

/// The recorded outcome of one message.
#[derive(Clone, Copy, Default, Debug)]
pub struct Entry {
    pub actor: usize,
    pub sent: Sent,
    pub handled: u32,
    pub unfinished: u32,
    pub dead: u32,
}

/// The result that the sender got.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub enum Sent {
    #[default]
    Refused,
    /// Dropped while it waited. It may have been accepted just before.
    Dropped,
    Accepted,
}

/// The entries of all messages, and the number of live copies.
#[derive(Default)]
pub struct Ledger {
    pub entries: Mutex<Vec<Entry>>,
    pub failed_attempts: Mutex<usize>,
    pub reported_failures: Mutex<usize>,
    pub alive: AtomicI64,
}

impl Ledger {
    pub fn with<R>(&self, id: usize, f: impl FnOnce(&mut Entry) -> R) -> R {
        f(&mut self.entries.lock().unwrap()[id])
    }

    pub fn message(self: &Arc<Self>, actor: usize, action: Action) -> TrackedMessage {
        let mut entries = self.entries.lock().unwrap();
        entries.push(Entry { actor, ..Entry::default() });
        self.alive.fetch_add(1, Ordering::Relaxed);
        TrackedMessage { id: entries.len() - 1, action, reply: None, ledger: Arc::clone(self) }
    }

    pub fn record(&self, id: usize, sent: Sent) {
        self.with(id, |entry| entry.sent = sent);
    }

    pub fn record_returned(&self, id: usize, error: SendError<TrackedMessage>) {
        assert_eq!(error.into_message().id, id, "a refused message is returned");
        self.record(id, Sent::Refused);
    }

    /// Checks every entry and returns the expected counts of each actor.
    pub fn expected(&self, policies: &[Policy]) -> Vec<Counts> {
        let mut counts = vec![Counts::default(); policies.len()];
        for (id, entry) in self.entries.lock().unwrap().iter().enumerate() {
            let Entry { actor, sent, handled, unfinished, dead } = *entry;
            let failed = u32::from(unfinished > 0 && handled == 0 && dead == 0);
            let outcomes = handled + failed + dead;
            assert!(unfinished <= policies[actor].retries + 1, "message {id} was tried too often: {entry:?}");
            assert!(failed == 0 || !policies[actor].dead_letter, "message {id} should be a dead letter: {entry:?}");
            match sent {
                Sent::Accepted => assert_eq!(outcomes, 1, "message {id} does not have exactly one outcome: {entry:?}"),
                Sent::Dropped => assert!(outcomes <= 1, "message {id} has more than one outcome: {entry:?}"),
                Sent::Refused => assert_eq!(outcomes, 0, "message {id} was refused but has an outcome: {entry:?}"),
            }
            counts[actor] += Counts {
                accepted: u64::from(outcomes),
                handled: u64::from(handled),
                failed: u64::from(failed),
                dead_lettered: u64::from(dead),
            };
        }
        counts
    }
}

/// What the handler does with a message.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    Finish,
    Fail,
    Panic,
    Wait,
    WaitAndFail,
    Stop,
    Forward(usize),
}

/// A message with an id. Its clones and drops are counted.
pub struct TrackedMessage {
    pub id: usize,
    pub action: Action,
    pub reply: Option<Arc<Mutex<Option<Reply<usize>>>>>,
    pub ledger: Arc<Ledger>,
}

impl Clone for TrackedMessage {
    fn clone(&self) -> Self {
        self.ledger.alive.fetch_add(1, Ordering::Relaxed);
        let Self { id, action, reply, ledger } = self;
        Self { id: *id, action: *action, reply: reply.clone(), ledger: Arc::clone(ledger) }
    }
}

impl Drop for TrackedMessage {
    fn drop(&mut self) {
        self.ledger.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Records an attempt: handled if it was marked as finished, otherwise unfinished.
struct Attempt<'a>(&'a TrackedMessage, bool);

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let Self(message, finished) = *self;
        message.ledger.with(message.id, |entry| if finished { entry.handled += 1 } else { entry.unfinished += 1 });
    }
}

/// Executes the action of each message and records the outcome.
pub struct TrackingActor {
    pub number: usize,
    pub runtime: Arc<dyn Runtime>,
    pub others: Arc<Mutex<Vec<ActorRef<TrackedMessage>>>>,
}

impl Actor for TrackingActor {
    type Msg = TrackedMessage;
    type Error = BoxError;

    async fn handle(&mut self, message: TrackedMessage, cx: &mut Context<Self>) -> Result<(), BoxError> {
        assert_eq!(message.ledger.with(message.id, |entry| entry.actor), self.number);
        let mut attempt = Attempt(&message, false);
        let fail = || *message.ledger.failed_attempts.lock().unwrap() += 1;
        match message.action {
            Action::Finish => {}
            Action::Fail => {
                fail();
                return Err("no".into());
            }
            Action::Panic => {
                fail();
                panic!("injected");
            }
            Action::Wait => self.runtime.sleep_until(cx.now() + Duration::from_millis(3)).await,
            Action::WaitAndFail => {
                self.runtime.sleep_until(cx.now() + Duration::from_millis(2)).await;
                fail();
                return Err("late".into());
            }
            Action::Stop => cx.stop(),
            Action::Forward(to) => {
                let other = self.others.lock().unwrap()[to].clone();
                let next = message.ledger.message(to, Action::Finish);
                let id = next.id;
                if other.tell(next).is_ok() {
                    message.ledger.record(id, Sent::Accepted);
                }
            }
        }
        if let Some(reply) = message.reply.as_ref().and_then(|reply| reply.lock().unwrap().take()) {
            reply.send(message.id);
        }
        attempt.1 = true;
        Ok(())
    }
}

/// The policy for failed messages: the number of retries, and whether the message becomes a dead
/// letter.
#[derive(Clone, Copy)]
pub struct Policy {
    pub retries: u32,
    pub dead_letter: bool,
}

impl Policy {
    pub fn any(random: &mut Random) -> Self {
        Self { retries: random.below(3) as u32, dead_letter: random.below(3) == 0 }
    }

    pub fn apply_to(self, props: Props<TrackingActor>) -> Props<TrackingActor> {
        let props = if self.dead_letter { props.dead_letter_failed() } else { props };
        if self.retries > 0 { props.retry(self.retries) } else { props }
    }
}
