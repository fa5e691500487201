//! The ground every peer runs on: the runtimes, the senders, the message and the tally that says when all is handled.
//!
//! What is here is the same for all peers, so that a difference between two of them is theirs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::yield_now;

use crate::counting;

/// The message of all `tell` workloads.
pub type Item = [u64; 2];

/// A message, different for each `n`.
pub fn item(n: u64) -> Item {
    [n, n]
}

/// The capacity of a bounded mailbox.
pub const CAPACITY: usize = 1024;

/// One message in so many fails, where supervision is measured under load.
pub const FAILS_EVERY: u64 = 100;

/// The number of actors in a ring.
pub const RING: usize = 1_000;

/// Pushes per bucket of [`slowest_by_bucket`].
const BUCKET: u64 = 1_024;

/// Which Tokio runtime a workload runs on.
#[derive(Clone, Copy)]
pub enum Place {
    /// A fresh multi-thread runtime with two workers.
    Workers,
    /// A fresh current-thread runtime, where everything is deterministic.
    Current,
}

impl Place {
    /// Runs the work as a task. A future that `block_on` polls itself is woken by another path than a task is.
    pub fn run<F>(self, work: F) -> F::Output
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let mut builder = match self {
            Place::Workers => Builder::new_multi_thread(),
            Place::Current => Builder::new_current_thread(),
        };
        // A current-thread runtime has no use for the number of workers.
        let runtime = builder.worker_threads(2).enable_time().build();
        runtime.expect("the runtime starts").block_on(async { tokio::spawn(work).await.expect("the workload does not panic") })
    }
}

/// Who sends: this many tasks of the runtime, or this many plain threads outside of it.
#[derive(Clone, Copy)]
pub enum Senders {
    Tasks(u64),
    Threads(u64),
}

impl Senders {
    /// Starts the senders, each with a clone of the address and an equal share of the messages.
    pub fn start<T, F>(self, ops: u64, to: &T, in_task: impl Fn(T, u64) -> F, in_thread: fn(T, u64))
    where
        T: Clone + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        match self {
            Senders::Tasks(count) => {
                for _ in 0..count {
                    tokio::spawn(in_task(to.clone(), ops / count));
                }
            }
            Senders::Threads(count) => {
                for _ in 0..count {
                    let to = to.clone();
                    thread::spawn(move || in_thread(to, ops / count));
                }
            }
        }
    }
}

/// Counts what was handled and wakes the one who waits for the last of it. One pointer wide, so that the state of an
/// idle actor stays small.
#[derive(Clone)]
pub struct Tally(Arc<TallyState>);

struct TallyState {
    handled: AtomicU64,
    goal: u64,
    reached: Notify,
}

impl Tally {
    pub fn to(goal: u64) -> Tally {
        Tally(Arc::new(TallyState { handled: AtomicU64::new(0), goal, reached: Notify::new() }))
    }

    /// Counts one. Only one task at a time counts on a tally, so a load and a store suffice; an atomic addition would
    /// add a constant to every peer and flatten the ratios.
    pub fn hit(&self) {
        let handled = self.0.handled.load(Relaxed) + 1;
        self.0.handled.store(handled, Relaxed);
        if handled == self.0.goal {
            self.0.reached.notify_one();
        }
    }

    pub fn is_reached(&self) -> bool {
        self.0.handled.load(Relaxed) >= self.0.goal
    }

    pub async fn reached(&self) {
        self.0.reached.notified().await;
    }

    /// Gives way to the actors until this many were handled.
    async fn wait_for(&self, handled: u64) {
        while self.0.handled.load(Relaxed) < handled {
            yield_now().await;
        }
    }
}

/// Whether the handler fails at this message of the supervised workload: the last of each [`FAILS_EVERY`].
pub fn is_bad(n: u64) -> bool {
    n % FAILS_EVERY == FAILS_EVERY - 1
}

/// The time the work takes.
pub async fn timed(work: impl Future<Output = ()>) -> Duration {
    let start = Instant::now();
    work.await;
    start.elapsed()
}

/// Tells `ops` messages, and after each `batch` of them waits until it is handled. Meant for [`Place::Current`], where
/// the receiver runs only while the sender waits.
pub async fn tell_in_batches(ops: u64, batch: u64, tally: &Tally, mut tell: impl FnMut(Item)) {
    let mut told = 0;
    while told < ops {
        let batch = batch.min(ops - told);
        for n in 0..batch {
            tell(item(n));
        }
        told += batch;
        tally.wait_for(told).await;
    }
}

/// The live heap of `actors` idle actors, after each was sent a burst of `messages` and has handled it. Meant for
/// [`Place::Current`].
pub async fn heap_of_idle<T>(
    actors: u64,
    messages: u64,
    tally: Tally,
    mut spawn: impl AsyncFnMut(Tally) -> T,
    tell: impl Fn(&T, Item),
) -> i64 {
    let mut addresses = Vec::with_capacity(actors as usize);
    counting::start();
    for _ in 0..actors {
        addresses.push(spawn(tally.clone()).await);
    }
    // The runtime polls in the order of spawning: once the last actor has handled a message, all have started.
    let last = spawn(tally.clone()).await;
    tell(&last, item(0));
    tally.wait_for(1).await;
    for (index, address) in addresses.iter().enumerate() {
        for n in 0..messages {
            tell(address, item(n));
        }
        tally.wait_for(1 + messages * (index as u64 + 1)).await;
    }
    counting::stop().live_bytes
}

/// The slowest push in ns of each bucket of [`BUCKET`] pushes, while the caller's thread, and so a receiver on it, is
/// busy pushing.
pub fn slowest_by_bucket(backlog: u64, mut push: impl FnMut(Item)) -> Vec<u64> {
    let mut buckets = vec![0; backlog.div_ceil(BUCKET) as usize];
    for n in 0..backlog {
        let start = Instant::now();
        push(item(n));
        let ns = start.elapsed().as_nanos() as u64;
        let slowest = &mut buckets[(n / BUCKET) as usize];
        *slowest = ns.max(*slowest);
    }
    buckets
}
