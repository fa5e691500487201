//! What all peers share: the runtimes, the senders, the message, and the tally that says when all
//! messages are handled. So a difference between two peers comes from the peers.

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

/// Makes the message number `n`.
pub fn item(n: u64) -> Item {
    [n, n]
}

/// The capacity of a bounded mailbox.
pub const CAPACITY: usize = 1024;

/// Every message with this distance fails in the supervised workload.
pub const FAILS_EVERY: u64 = 100;

/// The number of actors in a ring.
pub const RING: usize = 1_000;

/// The number of actors that are spawned before the first of them is stopped.
pub const CROWD: u64 = 1_000;

/// Pushes per bucket of [`slowest_by_bucket`].
const BUCKET: u64 = 1_024;

/// Which Tokio runtime a workload runs on.
#[derive(Clone, Copy)]
pub enum Place {
    /// A fresh multi-thread runtime with two workers.
    Workers,
    /// The same workers, but the timed code is the future of `block_on`: the main thread polls it,
    /// as in a program with `#[tokio::main]`.
    Main,
    /// A fresh current-thread runtime, where everything is deterministic.
    Current,
}

impl Place {
    /// Runs the work as a task, except on [`Place::Main`]. A future that `block_on` polls directly
    /// is woken in another way than a task: by unparking a thread.
    pub fn run<F>(self, work: F) -> F::Output
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let mut builder = match self {
            Place::Workers | Place::Main => Builder::new_multi_thread(),
            Place::Current => Builder::new_current_thread(),
        };
        // A current-thread runtime ignores the number of workers.
        let runtime = builder.worker_threads(2).enable_time().build();
        let runtime = runtime.expect("the runtime starts");
        match self {
            Place::Main => runtime.block_on(work),
            Place::Workers | Place::Current => {
                runtime.block_on(async { tokio::spawn(work).await.expect("the workload does not panic") })
            }
        }
    }
}

/// The senders: the timed code itself, tasks of the runtime, or plain threads outside of it.
#[derive(Clone, Copy)]
pub enum Senders {
    Caller,
    Tasks(u64),
    Threads(u64),
}

impl Senders {
    /// Starts the senders. Each gets a clone of the address and an equal part of the messages. The
    /// caller as the sender has sent them all when this returns.
    pub async fn start<T, F>(self, ops: u64, to: &T, in_task: impl Fn(T, u64) -> F, in_thread: fn(T, u64))
    where
        T: Clone + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        match self {
            Senders::Caller => in_task(to.clone(), ops).await,
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

/// Counts handled messages and wakes the task that waits for the last one. It is one pointer wide,
/// so that the state of an idle actor stays small.
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

    /// Counts one message. Only one task at a time uses a tally, so a load and a store are enough.
    /// An atomic addition would add a constant to every peer and hide differences.
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

    /// Yields to the actors until this many messages were handled.
    async fn wait_for(&self, handled: u64) {
        while self.0.handled.load(Relaxed) < handled {
            yield_now().await;
        }
    }
}

/// Whether the handler fails at this message of the supervised workload: the last of each
/// [`FAILS_EVERY`] messages.
pub fn is_bad(n: u64) -> bool {
    n % FAILS_EVERY == FAILS_EVERY - 1
}

/// Returns another name at each call, for registries that outlive a runtime.
pub fn unique_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("actor-{}", COUNT.fetch_add(1, Relaxed))
}

/// Measures the time of the work.
pub async fn timed(work: impl Future<Output = ()>) -> Duration {
    let start = Instant::now();
    work.await;
    start.elapsed()
}

/// Sends `ops` messages, and waits after each `batch` until it is handled. Use it on
/// [`Place::Current`], where the receiver runs only while the sender waits.
pub async fn tell_in_batches(ops: u64, batch: u64, tally: &Tally, mut tell: impl FnMut(Item)) {
    let mut sent = 0;
    while sent < ops {
        let batch = batch.min(ops - sent);
        for n in 0..batch {
            tell(item(n));
        }
        sent += batch;
        tally.wait_for(sent).await;
    }
}

/// Measures the live heap of `actors` idle actors, after each has handled a burst of `messages`.
/// Use it on [`Place::Current`].
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
    // The runtime polls in the order of spawning. Once the last actor has handled a message, all
    // actors have started.
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

/// Returns the slowest push, in ns, of each bucket of [`BUCKET`] pushes. The caller's thread is
/// busy with pushing, so a receiver on it does not run.
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
