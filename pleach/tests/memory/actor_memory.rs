//! A14: the memory of an idle actor, and the allocations of a tell.
#![cfg(feature = "tokio")]

use crate::{ALLOCATOR, exclusive};
use pleach::prelude::*;
use stats_alloc::Stats;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Runs one measurement at a time, including its runtime, because the allocator counts for the
/// whole process.
fn measure(measurement: impl Future<Output = ()>) {
    let _exclusive = exclusive();
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(measurement);
}

/// With this many children the table of their parent, which doubles as it grows, is nearly full.
const ACTORS: usize = 16_000;
const IDLE_BYTES_MAX: usize = 600;
const TELLS: usize = 100_000;

/// State and message have 16 bytes.
type Message = [u64; 2];

/// The number of messages that all actors have handled. Reading it does not allocate.
static HANDLED: AtomicUsize = AtomicUsize::new(0);

struct Sink(Message);

impl Actor for Sink {
    type Msg = Message;
    type Error = Infallible;

    async fn handle(&mut self, message: Message, _cx: &mut Context<Self>) -> Result<(), Infallible> {
        self.0 = message;
        HANDLED.fetch_add(1, Relaxed);
        Ok(())
    }
}

static CREATED: AtomicUsize = AtomicUsize::new(0);

fn sink() -> Props<Sink> {
    Props::new(|| {
        CREATED.fetch_add(1, Relaxed);
        Sink([0, 0])
    })
}

fn since(before: Stats) -> Stats {
    ALLOCATOR.stats() - before
}

fn live_since(before: Stats) -> usize {
    let Stats { bytes_allocated, bytes_deallocated, .. } = since(before);
    bytes_allocated.saturating_sub(bytes_deallocated)
}

/// Yields until the counter has reached `wanted`.
async fn yield_until(counted: &AtomicUsize, wanted: usize) {
    while counted.load(Relaxed) < wanted {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a14_idle_actor_uses_at_most_600_bytes() {
    measure(measure_idle());
}

async fn measure_idle() {
    let system = ActorSystem::new("idle").unwrap();
    let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
    let mut actors = Vec::with_capacity(ACTORS);
    // Lets the queue of the runtime grow to its final size.
    let tasks: Vec<_> = (0..ACTORS).map(|_| tokio::spawn(async {})).collect();
    futures::future::join_all(tasks).await;
    let (handled, created, before) = (HANDLED.load(Relaxed), CREATED.load(Relaxed), ALLOCATOR.stats());
    for number in 0..ACTORS {
        // A name of 22 bytes.
        actors.push(supervisor.spawn(&format!("an-actor-of-ours-{number:05}"), sink()).unwrap());
    }
    yield_until(&CREATED, created + ACTORS).await;
    let when_new = live_since(before) / ACTORS;
    for round in 1..=3 {
        for actor in &actors {
            actor.tell([1, 2]).unwrap();
        }
        yield_until(&HANDLED, handled + round * ACTORS).await;
    }
    let used = live_since(before) / ACTORS;
    assert!(when_new <= IDLE_BYTES_MAX && used <= IDLE_BYTES_MAX, "{when_new} bytes when new, {used} after messages");
    assert!(when_new > 300, "the measurement works");
}

#[test]
fn a14_tell_allocates_almost_nothing() {
    measure(measure_tells());
}

async fn measure_tells() {
    let system = ActorSystem::new("tells").unwrap();
    let mailboxes = [("bounded", Mailbox::bounded(1_024)), ("unbounded", Mailbox::unbounded())];
    for (name, mailbox) in mailboxes {
        let actor = system.spawn(name, sink().mailbox(mailbox)).unwrap();
        let (handled, before) = (HANDLED.load(Relaxed), ALLOCATOR.stats());
        for burst in 1..=TELLS / 1_000 {
            (0..1_000).for_each(|_| actor.tell([1, 2]).unwrap());
            yield_until(&HANDLED, handled + burst * 1_000).await;
        }
        let Stats { allocations, reallocations, .. } = since(before);
        let created = allocations + reallocations;
        assert!(created * 20 <= TELLS, "{created} allocations for {TELLS} tells to mailbox {name}");
    }
}
