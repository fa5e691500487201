//! The throughput of many busy actors while an observer reads pages of a snapshot.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use pleach::inspect::SnapshotQuery;
use pleach::prelude::*;

use super::median;
use crate::ground::Place;

const ACTORS: usize = 100_000;
/// How often a page is read.
const EVERY: Duration = Duration::from_millis(10);
/// The duration of one measurement of throughput.
const SPAN: Duration = Duration::from_secs(3);
/// Measurements with and without an observer, alternating.
const ROUNDS: usize = 5;
/// The members of one page.
const PAGE: usize = 100;

pub fn run() {
    let (without, with): (Vec<f64>, Vec<f64>) = (0..ROUNDS).map(|_| (throughput(false), throughput(true))).unzip();
    let (without, with) = (median(without), median(with));
    println!("messages per second of {ACTORS} busy actors: {without:.0} without an observer");
    println!("with a page of {PAGE} members every {EVERY:?}: {with:.0}; ratio {:.3}", with / without);
}

/// Messages per second, while two tasks send to all actors in turn.
fn throughput(observed: bool) -> f64 {
    Place::Workers.run(async move {
        let system = Arc::new(ActorSystem::new("busy").expect("the current thread has a runtime"));
        let handled = Arc::new(AtomicU64::new(0));
        let actors: Arc<Vec<ActorRef<u64>>> = Arc::new((0..ACTORS).map(|_| spawn(&system, &handled)).collect());
        let is_over = Arc::new(AtomicBool::new(false));
        let senders: Vec<_> = (0..2).map(|n| tokio::spawn(send(Arc::clone(&actors), n, Arc::clone(&is_over)))).collect();
        let observer = observed.then(|| observe(Arc::clone(&system), Arc::clone(&is_over)));
        // The first second is not counted: mailboxes and tables reach their size.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (begun, before) = (Instant::now(), handled.load(Relaxed));
        tokio::time::sleep(SPAN).await;
        let rate = (handled.load(Relaxed) - before) as f64 / begun.elapsed().as_secs_f64();
        is_over.store(true, Relaxed);
        for sender in senders {
            sender.await.expect("a sender ends");
        }
        if let Some(observer) = observer {
            let pages = observer.join().expect("the observer ends");
            assert!(pages > 100, "it read only {pages} pages");
        }
        rate
    })
}

fn spawn(system: &ActorSystem, handled: &Arc<AtomicU64>) -> ActorRef<u64> {
    let handled = Arc::clone(handled);
    let handle = move |(): &mut (), n: u64| {
        handled.fetch_add(black_box(n), Relaxed);
        Ok::<(), pleach::BoxError>(())
    };
    system.spawn_unnamed(Props::from_fn(|| (), handle)).expect("the system takes actors")
}

async fn send(actors: Arc<Vec<ActorRef<u64>>>, half: usize, is_over: Arc<AtomicBool>) {
    while !is_over.load(Relaxed) {
        for chunk in actors.chunks(64).skip(half).step_by(2) {
            for actor in chunk {
                actor.send(1).await.expect("the actor lives");
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Reads pages, one after the other through the whole tree. Returns how many.
fn observe(system: Arc<ActorSystem>, is_over: Arc<AtomicBool>) -> thread::JoinHandle<u64> {
    thread::spawn(move || {
        let (mut next, mut pages) = (None, 0);
        while !is_over.load(Relaxed) {
            let mut query = SnapshotQuery::new().limit(PAGE);
            if let Some(cursor) = next.take() {
                query = query.after(cursor);
            }
            next = black_box(system.snapshot(&query)).expect("the root is there").next;
            pages += 1;
            thread::sleep(EVERY);
        }
        pages
    })
}
