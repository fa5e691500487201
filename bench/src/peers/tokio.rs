//! The floor: a plain loop over a Tokio mpsc channel in a task, and a oneshot channel for a reply.
//!
//! A restart is that of a program without actors: it awaits the join handle, then spawns the task
//! again with a new channel.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::Peer;
use crate::durable;
use crate::graphs;
use crate::ground::{
    CAPACITY, CROWD, FAILS_EVERY, Item, Place, RING, Senders, Tally, heap_of_idle, is_bad, item, slowest_by_bucket,
    tell_in_batches, timed,
};
use crate::groups;
use crate::postgres;
use crate::stores;
use crate::workers;

pub const PEER: Peer = Peer {
    name: "tokio",
    tell_unbounded: Some(tell_unbounded),
    tell_bounded: Some(tell_bounded),
    tell_batches: Some(tell_batches),
    ask: Some(ask),
    ring: Some(|hops| ring(Place::Workers, hops)),
    ring_named: Some(|hops| ring(Place::Main, hops)),
    spawn: Some(spawn),
    spawn_crowd: Some(spawn_crowd),
    // Not a map of names as in `spawn_named`: both kinds of crowds have the same floor.
    spawn_crowd_named: Some(spawn_crowd),
    spawn_named: Some(spawn_named),
    restart_error: Some(|ops| restart_error(Place::Workers, ops)),
    restart_panic: Some(|ops| restart_panic(Place::Workers, ops)),
    restart_error_awaited: Some(restart_error),
    restart_panic_awaited: Some(restart_panic),
    supervised: Some(supervised),
    worst_push: Some(worst_push),
    idle_heap: Some(idle_heap),
    group: Some(groups::joinset::run),
    group_in_place: Some(groups::joinset::in_place),
    graph: Some(graphs::boxed::run),
    owned_graph: Some(graphs::owned::boxed),
    commit: Some(stores::bare_inserts),
    steps: Some(stores::bare_inserts),
    steady_steps: Some(stores::steady_inserts),
    stored_map: Some(stores::bare_inserts),
    // Ignores the history: the workload shows that its length makes no difference.
    resume: Some(|_, ops| durable::resumes(10, ops)),
    claims: Some(workers::bare_loop),
    postgres_steps: Some(postgres::bare_steps),
    growth: None,
    compile: None,
    nested_heap: None,
};

fn tell_unbounded(place: Place, ops: u64, senders: Senders) -> Duration {
    place.run(async move {
        let tally = Tally::to(ops);
        let to = receiver(tally.clone());
        timed(async move {
            senders.start(ops, &to, async |to, share| push(to, share), push).await;
            tally.reached().await;
        })
        .await
    })
}

fn receiver(tally: Tally) -> UnboundedSender<Item> {
    let (to, mut mailbox) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(item) = mailbox.recv().await {
            black_box(item);
            tally.hit();
        }
    });
    to
}

fn push(to: UnboundedSender<Item>, share: u64) {
    for n in 0..share {
        to.send(item(n)).expect("the receiver lives");
    }
}

fn tell_bounded(place: Place, ops: u64, senders: Senders) -> Duration {
    place.run(async move {
        let tally = Tally::to(ops);
        let (to, mut mailbox) = mpsc::channel::<Item>(CAPACITY);
        let handled = tally.clone();
        tokio::spawn(async move {
            while let Some(item) = mailbox.recv().await {
                black_box(item);
                handled.hit();
            }
        });
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
                            to.blocking_send(item(n)).expect("the receiver lives");
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
        let to = receiver(tally.clone());
        tell_in_batches(ops, batch, &tally, |item| to.send(item).expect("the receiver lives")).await;
    });
}

fn ask(place: Place, ops: u64) -> Duration {
    place.run(async move {
        let (to, mut mailbox) = mpsc::unbounded_channel::<(u64, oneshot::Sender<u64>)>();
        tokio::spawn(async move {
            while let Some((n, reply)) = mailbox.recv().await {
                reply.send(n + 1).expect("the asker waits");
            }
        });
        timed(async move {
            for n in 0..ops {
                let (reply, answer) = oneshot::channel();
                to.send((n, reply)).expect("the receiver lives");
                black_box(answer.await.expect("the receiver replies"));
            }
        })
        .await
    })
}

fn ring(place: Place, hops: u64) -> Duration {
    place.run(async move {
        let tally = Tally::to(1);
        let (first, first_mailbox) = mpsc::unbounded_channel();
        let mut next = first.clone();
        for _ in 1..RING {
            let (to, mailbox) = mpsc::unbounded_channel();
            tokio::spawn(pass_on(mailbox, next, tally.clone()));
            next = to;
        }
        tokio::spawn(pass_on(first_mailbox, next, tally.clone()));
        timed(async move {
            first.send(hops).expect("the ring lives");
            tally.reached().await;
        })
        .await
    })
}

async fn pass_on(mut mailbox: UnboundedReceiver<u64>, next: UnboundedSender<u64>, tally: Tally) {
    while let Some(left) = mailbox.recv().await {
        if left == 0 {
            tally.hit();
        } else {
            next.send(left - 1).expect("the ring lives");
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

/// The minimum for names: a map from names to senders, which has an entry while the task lives.
fn spawn_named(ops: u64) -> Duration {
    Place::Workers.run(async move {
        let names: Arc<Mutex<HashMap<String, UnboundedSender<Item>>>> = Arc::default();
        timed(async move {
            for n in 0..ops {
                let name = format!("actor-{n}");
                let (to, mut mailbox) = mpsc::unbounded_channel::<Item>();
                names.lock().expect("the lock is not poisoned").insert(name.clone(), to);
                let end = tokio::spawn(async move {
                    while let Some(item) = mailbox.recv().await {
                        black_box(item);
                    }
                });
                drop(names.lock().expect("the lock is not poisoned").remove(&name));
                end.await.expect("the task does not panic");
            }
        })
        .await
    })
}

/// The task ends because its only sender is dropped on return.
fn spawn_and_stop() -> JoinHandle<()> {
    idle().1
}

fn idle() -> (UnboundedSender<Item>, JoinHandle<()>) {
    let (to, mut mailbox) = mpsc::unbounded_channel::<Item>();
    let end = tokio::spawn(async move {
        while let Some(item) = mailbox.recv().await {
            black_box(item);
        }
    });
    (to, end)
}

fn restart_error(place: Place, ops: u64) -> Duration {
    place.run(timed(async move {
        for _ in 0..ops {
            let (to, end) = fragile(Err);
            to.send(item(0)).expect("the task lives");
            black_box(end.await.expect("the task does not panic")).expect_err("it failed");
        }
    }))
}

fn restart_panic(place: Place, ops: u64) -> Duration {
    place.run(timed(async move {
        for _ in 0..ops {
            let (to, end) = fragile(|n| panic!("message {n}"));
            to.send(item(0)).expect("the task lives");
            assert!(end.await.is_err_and(|end| end.is_panic()));
        }
    }))
}

fn supervised(ops: u64) -> Duration {
    Place::Workers.run(timed(async move {
        for _ in 0..ops / FAILS_EVERY {
            let (to, end) = fragile(|n| if is_bad(black_box(n)) { Err(n) } else { Ok(()) });
            for n in 0..FAILS_EVERY {
                to.send(item(n)).expect("the task lives");
            }
            black_box(end.await.expect("the task does not panic")).expect_err("it failed");
        }
    }))
}

/// A task that ends with the first error of its handler.
fn fragile(handle: fn(u64) -> Result<(), u64>) -> (UnboundedSender<Item>, JoinHandle<Result<(), u64>>) {
    let (to, mut mailbox) = mpsc::unbounded_channel::<Item>();
    let end = tokio::spawn(async move {
        while let Some([n, _]) = mailbox.recv().await {
            handle(n)?;
        }
        Ok(())
    });
    (to, end)
}

fn worst_push(backlog: u64) -> Vec<u64> {
    Place::Current.run(async move {
        let to = receiver(Tally::to(backlog));
        slowest_by_bucket(backlog, |item| to.send(item).expect("the receiver lives"))
    })
}

fn idle_heap(actors: u64, messages: u64) -> i64 {
    Place::Current.run(heap_of_idle(
        actors,
        messages,
        Tally::to(u64::MAX),
        async |tally| receiver(tally),
        |to, item| to.send(item).expect("the receiver lives"),
    ))
}
