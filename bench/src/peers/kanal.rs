//! kanal: the floor's loops over kanal's channels in place of Tokio's.
//!
//! It has no reply channel, so a reply uses Tokio's oneshot. It has no actors, and so no names.

use std::hint::black_box;
use std::time::Duration;

use kanal::{AsyncReceiver, AsyncSender, bounded_async, unbounded_async};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::Peer;
use crate::ground::{
    CAPACITY, CROWD, FAILS_EVERY, Item, Place, RING, Senders, Tally, heap_of_idle, is_bad, item, slowest_by_bucket,
    tell_in_batches, timed,
};

pub const PEER: Peer = Peer {
    tell_unbounded: Some(tell_unbounded),
    tell_bounded: Some(tell_bounded),
    tell_batches: Some(tell_batches),
    ask: Some(ask),
    ring: Some(|hops| ring(Place::Workers, hops)),
    ring_named: Some(|hops| ring(Place::Main, hops)),
    spawn: Some(spawn),
    spawn_crowd: Some(spawn_crowd),
    restart_error: Some(|ops| restart_error(Place::Workers, ops)),
    restart_panic: Some(|ops| restart_panic(Place::Workers, ops)),
    restart_error_awaited: Some(restart_error),
    restart_panic_awaited: Some(restart_panic),
    supervised: Some(supervised),
    worst_push: Some(worst_push),
    idle_heap: Some(idle_heap),
    ..Peer::named("kanal")
};

fn tell_unbounded(place: Place, ops: u64, senders: Senders) -> Duration {
    place.run(async move {
        let tally = Tally::to(ops);
        let (to, mailbox) = unbounded_async();
        tokio::spawn(count(mailbox, tally.clone()));
        timed(async move {
            senders.start(ops, &to, async |to, share| push(to, share), push).await;
            tally.reached().await;
        })
        .await
    })
}

async fn count(mailbox: AsyncReceiver<Item>, tally: Tally) {
    while let Ok(item) = mailbox.recv().await {
        black_box(item);
        tally.hit();
    }
}

fn push(to: AsyncSender<Item>, share: u64) {
    for n in 0..share {
        tell(&to, item(n));
    }
}

/// An unbounded channel always takes the message at once.
fn tell<T>(to: &AsyncSender<T>, message: T) {
    assert!(to.try_send(message).expect("the receiver lives"));
}

fn tell_bounded(place: Place, ops: u64, senders: Senders) -> Duration {
    place.run(async move {
        let tally = Tally::to(ops);
        let (to, mailbox) = bounded_async(CAPACITY);
        tokio::spawn(count(mailbox, tally.clone()));
        timed(async move {
            senders
                .start(
                    ops,
                    &to,
                    async |to, share| {
                        for n in 0..share {
                            to.send(item(n)).await.expect("the receiver lives");
                        }
                    },
                    |to, share| {
                        for n in 0..share {
                            to.as_sync().send(item(n)).expect("the receiver lives");
                        }
                    },
                )
                .await;
            tally.reached().await;
        })
        .await
    })
}

fn tell_batches(ops: u64, batch: u64) {
    Place::Current.run(async move {
        let tally = Tally::to(ops);
        let (to, mailbox) = unbounded_async();
        tokio::spawn(count(mailbox, tally.clone()));
        tell_in_batches(ops, batch, &tally, |item| tell(&to, item)).await;
    });
}

fn ask(place: Place, ops: u64) -> Duration {
    place.run(async move {
        let (to, mailbox) = unbounded_async::<(u64, oneshot::Sender<u64>)>();
        tokio::spawn(async move {
            while let Ok((n, reply)) = mailbox.recv().await {
                reply.send(n + 1).expect("the asker waits");
            }
        });
        timed(async move {
            for n in 0..ops {
                let (reply, answer) = oneshot::channel();
                tell(&to, (n, reply));
                black_box(answer.await.expect("the receiver replies"));
            }
        })
        .await
    })
}

fn ring(place: Place, hops: u64) -> Duration {
    place.run(async move {
        let tally = Tally::to(1);
        let (first, first_mailbox) = unbounded_async();
        let mut next = first.clone();
        for _ in 1..RING {
            let (to, mailbox) = unbounded_async();
            tokio::spawn(pass_on(mailbox, next, tally.clone()));
            next = to;
        }
        tokio::spawn(pass_on(first_mailbox, next, tally.clone()));
        timed(async move {
            tell(&first, hops);
            tally.reached().await;
        })
        .await
    })
}

async fn pass_on(mailbox: AsyncReceiver<u64>, next: AsyncSender<u64>, tally: Tally) {
    while let Ok(left) = mailbox.recv().await {
        if left == 0 {
            tally.hit();
        } else {
            tell(&next, left - 1);
        }
    }
}

fn spawn(place: Place, ops: u64) -> Duration {
    place.run(async move {
        let mut ends = Vec::with_capacity(ops as usize);
        timed(async move {
            ends.extend((0..ops).map(|_| spawn_and_stop()));
            for end in ends {
                end.await.expect("the task does not panic");
            }
        })
        .await
    })
}

fn spawn_crowd(ops: u64) -> Duration {
    Place::Main.run(timed(async move {
        for _ in 0..ops / CROWD {
            let (senders, ends): (Vec<_>, Vec<_>) = (0..CROWD).map(|_| idle()).unzip();
            drop(senders);
            for end in ends {
                end.await.expect("the task does not panic");
            }
        }
    }))
}

/// The task ends because its only sender is dropped on return.
fn spawn_and_stop() -> JoinHandle<()> {
    idle().1
}

fn idle() -> (AsyncSender<Item>, JoinHandle<()>) {
    let (to, mailbox) = unbounded_async::<Item>();
    let end = tokio::spawn(async move {
        while let Ok(item) = mailbox.recv().await {
            black_box(item);
        }
    });
    (to, end)
}

fn restart_error(place: Place, ops: u64) -> Duration {
    place.run(timed(async move {
        for _ in 0..ops {
            let (to, end) = fragile(Err);
            tell(&to, item(0));
            black_box(end.await.expect("the task does not panic")).expect_err("it failed");
        }
    }))
}

fn restart_panic(place: Place, ops: u64) -> Duration {
    place.run(timed(async move {
        for _ in 0..ops {
            let (to, end) = fragile(|n| panic!("message {n}"));
            tell(&to, item(0));
            assert!(end.await.is_err_and(|end| end.is_panic()));
        }
    }))
}

fn supervised(ops: u64) -> Duration {
    Place::Workers.run(timed(async move {
        for _ in 0..ops / FAILS_EVERY {
            let (to, end) = fragile(|n| if is_bad(black_box(n)) { Err(n) } else { Ok(()) });
            for n in 0..FAILS_EVERY {
                tell(&to, item(n));
            }
            black_box(end.await.expect("the task does not panic")).expect_err("it failed");
        }
    }))
}

/// A task that ends with the first error of its handler.
fn fragile(handle: fn(u64) -> Result<(), u64>) -> (AsyncSender<Item>, JoinHandle<Result<(), u64>>) {
    let (to, mailbox) = unbounded_async::<Item>();
    let end = tokio::spawn(async move {
        while let Ok([n, _]) = mailbox.recv().await {
            handle(n)?;
        }
        Ok(())
    });
    (to, end)
}

fn worst_push(backlog: u64) -> Vec<u64> {
    Place::Current.run(async move {
        let (to, mailbox) = unbounded_async();
        tokio::spawn(count(mailbox, Tally::to(backlog)));
        slowest_by_bucket(backlog, |item| tell(&to, item))
    })
}

fn idle_heap(actors: u64, messages: u64) -> i64 {
    Place::Current.run(heap_of_idle(
        actors,
        messages,
        Tally::to(u64::MAX),
        async |tally| {
            let (to, mailbox) = unbounded_async();
            tokio::spawn(count(mailbox, tally));
            to
        },
        tell,
    ))
}
