//! A14: what an idle actor costs, and what a tell allocates, counted by the allocator.
#![cfg(feature = "tokio")]

use crate::{ALLOCATOR, alone};
use pleach::prelude::*;
use stats_alloc::Stats;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// One measurement at a time, from the start of its runtime to the end: the allocator counts for the whole process.
fn measure(measurement: impl Future<Output = ()>) {
    let _alone = alone();
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(measurement);
}

/// The table of their parent, which doubles as it grows, is nearly full with so many.
const ACTORS: usize = 16_000;
const IDLE_BYTES_MAX: usize = 600;
const TELLS: usize = 100_000;

/// State and message of 16 bytes, as the figure says.
type Message = [u64; 2];

/// How many messages all of them have handled. Looking at it allocates nothing.
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

static MADE: AtomicUsize = AtomicUsize::new(0);

fn sink() -> Props<Sink> {
    Props::new(|| {
        MADE.fetch_add(1, Relaxed);
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

/// Lets others run until so many were counted.
async fn until(counted: &AtomicUsize, wanted: usize) {
    while counted.load(Relaxed) < wanted {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a14_an_idle_actor_costs_at_most_600_bytes_fresh_and_after_messages() {
    measure(measure_idle());
}

async fn measure_idle() {
    let system = ActorSystem::new("idle").unwrap();
    let crew = system.supervisor("crew", OneForOne::new()).unwrap();
    let mut actors = Vec::with_capacity(ACTORS);
    // The queue of the runtime is as large as it gets.
    let tasks: Vec<_> = (0..ACTORS).map(|_| tokio::spawn(async {})).collect();
    futures::future::join_all(tasks).await;
    let (handled, made, before) = (HANDLED.load(Relaxed), MADE.load(Relaxed), ALLOCATOR.stats());
    for number in 0..ACTORS {
        // A name of 22 bytes.
        actors.push(crew.spawn(&format!("an-actor-of-ours-{number:05}"), sink()).unwrap());
    }
    until(&MADE, made + ACTORS).await;
    let fresh = live_since(before) / ACTORS;
    for round in 1..=3 {
        for actor in &actors {
            actor.tell([1, 2]).unwrap();
        }
        until(&HANDLED, handled + round * ACTORS).await;
    }
    let used = live_since(before) / ACTORS;
    assert!(fresh <= IDLE_BYTES_MAX && used <= IDLE_BYTES_MAX, "{fresh} bytes fresh, {used} after messages");
    assert!(fresh > 300, "something was measured");
}

#[test]
fn a14_a_tell_allocates_nothing_amortised() {
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
            until(&HANDLED, handled + burst * 1_000).await;
        }
        let Stats { allocations, reallocations, .. } = since(before);
        let made = allocations + reallocations;
        assert!(made * 20 <= TELLS, "{made} allocations for {TELLS} tells to a mailbox that is {name}");
    }
}
