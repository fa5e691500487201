//! actix: actors bound to a thread, with a mailbox that can reject a message but never waits.
//!
//! The senders and the receiving actor are on two threads, like two workers. Everything else stays
//! on one thread, as actix programs do. A bounded send yields and tries again. The supervisor
//! restarts an actor that stopped but not one that panicked, and actors have no names.

use std::hint::black_box;
use std::rc::Rc;
use std::time::Duration;

use actix::prelude::*;
use tokio::sync::Notify;

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
    ring: Some(ring),
    spawn: Some(spawn),
    spawn_crowd: Some(spawn_crowd),
    restart_error: Some(restart_error),
    restart_error_awaited: Some(restart_error_awaited),
    supervised: Some(supervised),
    worst_push: Some(worst_push),
    idle_heap: Some(idle_heap),
    ..Peer::named("actix")
};

/// Runs the work as a task of a fresh actix system on this thread.
fn on_system<T: 'static>(work: impl Future<Output = T> + 'static) -> T {
    let task = async { actix::spawn(work).await.expect("the workload does not panic") };
    System::new().block_on(task)
}

#[derive(Message)]
#[rtype(result = "()")]
struct Tell(Item);

struct Counter(Tally);

impl Actor for Counter {
    type Context = Context<Self>;
}

impl Handler<Tell> for Counter {
    type Result = ();

    fn handle(&mut self, Tell(item): Tell, _cx: &mut Context<Self>) {
        black_box(item);
        self.0.hit();
    }
}

fn tell_unbounded(_place: Place, ops: u64, senders: Senders) -> Duration {
    tell_across(ops, senders, 0, async |to, share| push(to, share), push)
}

fn push(to: Addr<Counter>, share: u64) {
    for n in 0..share {
        to.do_send(Tell(item(n)));
    }
}

fn tell_bounded(_place: Place, ops: u64, senders: Senders) -> Duration {
    tell_across(
        ops,
        senders,
        CAPACITY,
        async |to, share| {
            for n in 0..share {
                while is_full(&to, Tell(item(n))) {
                    tokio::task::yield_now().await;
                }
            }
        },
        |to, share| {
            for n in 0..share {
                while is_full(&to, Tell(item(n))) {
                    std::thread::yield_now();
                }
            }
        },
    )
}

fn is_full(to: &Addr<Counter>, message: Tell) -> bool {
    match to.try_send(message) {
        Ok(()) => false,
        Err(SendError::Full(_)) => true,
        Err(SendError::Closed(_)) => panic!("the actor has ended"),
    }
}

fn tell_across<F>(
    ops: u64,
    senders: Senders,
    capacity: usize,
    in_task: impl Fn(Addr<Counter>, u64) -> F + 'static,
    in_thread: fn(Addr<Counter>, u64),
) -> Duration
where
    F: Future<Output = ()> + Send + 'static,
{
    on_system(async move {
        let tally = Tally::to(ops);
        let arbiter = Arbiter::new();
        let handled = tally.clone();
        let to = Counter::start_in_arbiter(&arbiter.handle(), move |cx| {
            cx.set_mailbox_capacity(capacity);
            Counter(handled)
        });
        let taken = timed(async {
            senders.start(ops, &to, in_task, in_thread).await;
            tally.reached().await;
        })
        .await;
        arbiter.stop();
        arbiter.join().expect("the arbiter does not panic");
        taken
    })
}

fn tell_batches(ops: u64, batch: u64) {
    on_system(async move {
        let tally = Tally::to(ops);
        let to = Counter(tally.clone()).start();
        tell_in_batches(ops, batch, &tally, |item| to.do_send(Tell(item))).await;
    });
}

#[derive(Message)]
#[rtype(result = "u64")]
struct Question(u64);

impl Handler<Question> for Counter {
    type Result = u64;

    fn handle(&mut self, Question(n): Question, _cx: &mut Context<Self>) -> u64 {
        n + 1
    }
}

fn ask(_place: Place, ops: u64) -> Duration {
    on_system(async move {
        let to = Counter(Tally::to(0)).start();
        timed(async move {
            for n in 0..ops {
                black_box(to.send(Question(n)).await.expect("the actor replies"));
            }
        })
        .await
    })
}

struct RingMember {
    tally: Tally,
    next: Option<Addr<RingMember>>,
}

impl Actor for RingMember {
    type Context = Context<Self>;
}

#[derive(Message)]
#[rtype(result = "()")]
struct Next(Addr<RingMember>);

impl Handler<Next> for RingMember {
    type Result = ();

    fn handle(&mut self, Next(next): Next, _cx: &mut Context<Self>) {
        self.next = Some(next);
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Token(u64);

impl Handler<Token> for RingMember {
    type Result = ();

    fn handle(&mut self, Token(left): Token, _cx: &mut Context<Self>) {
        if left == 0 {
            self.tally.hit();
        } else {
            let next = self.next.as_ref().expect("the ring is closed before the token");
            next.do_send(Token(left - 1));
        }
    }
}

fn ring(hops: u64) -> Duration {
    on_system(async move {
        let tally = Tally::to(1);
        let mut members: Vec<Addr<RingMember>> = Vec::with_capacity(RING);
        for _ in 0..RING {
            let member = RingMember { tally: tally.clone(), next: members.last().cloned() };
            members.push(member.start());
        }
        let first = members[0].clone();
        first.do_send(Next(members[RING - 1].clone()));
        timed(async move {
            first.do_send(Token(hops));
            tally.reached().await;
        })
        .await
    })
}

/// An actor that counts its exit.
struct Brief(Tally);

impl Actor for Brief {
    type Context = Context<Self>;

    fn stopped(&mut self, _cx: &mut Context<Self>) {
        self.0.hit();
    }
}

/// An actor stops when its only address is dropped.
fn spawn(_place: Place, ops: u64) -> Duration {
    on_system(async move {
        let ends = Tally::to(ops);
        timed(async move {
            for _ in 0..ops {
                Brief(ends.clone()).start();
            }
            ends.reached().await;
        })
        .await
    })
}

fn spawn_crowd(ops: u64) -> Duration {
    on_system(timed(async move {
        for _ in 0..ops / CROWD {
            let ends = Tally::to(CROWD);
            let actors: Vec<Addr<Brief>> = (0..CROWD).map(|_| Brief(ends.clone()).start()).collect();
            drop(actors);
            ends.reached().await;
        }
    }))
}

/// Stops itself at a bad message, which its supervisor treats as a failure, and reports its
/// restarts.
struct Fragile(fn(u64) -> bool, Box<dyn Fn()>);

impl Actor for Fragile {
    type Context = Context<Self>;
}

impl Supervised for Fragile {
    fn restarting(&mut self, _cx: &mut Context<Self>) {
        (self.1)();
    }
}

impl Handler<Tell> for Fragile {
    type Result = ();

    fn handle(&mut self, Tell([n, _]): Tell, cx: &mut Context<Self>) {
        if (self.0)(n) {
            cx.stop();
        }
    }
}

fn restart_error(ops: u64) -> Duration {
    restart(ops, ops, |_| true)
}

fn supervised(ops: u64) -> Duration {
    restart(ops, ops / FAILS_EVERY, is_bad)
}

/// The mailbox survives a restart, so all messages are sent at once.
fn restart(ops: u64, failures: u64, is_bad: fn(u64) -> bool) -> Duration {
    on_system(async move {
        let restarts = Tally::to(failures);
        let counted = restarts.clone();
        let actor = Fragile(is_bad, Box::new(move || counted.hit()));
        let to = Supervisor::start(|_cx| actor);
        timed(async move {
            for n in 0..ops {
                to.do_send(Tell(item(n)));
            }
            restarts.reached().await;
        })
        .await
    })
}

fn restart_error_awaited(_place: Place, ops: u64) -> Duration {
    on_system(async move {
        let restarted = Rc::new(Notify::new());
        let restarting = Rc::clone(&restarted);
        let actor = Fragile(|_| true, Box::new(move || restarting.notify_one()));
        let to = Supervisor::start(|_cx| actor);
        timed(async move {
            for n in 0..ops {
                to.do_send(Tell(item(n)));
                restarted.notified().await;
            }
        })
        .await
    })
}

fn worst_push(backlog: u64) -> Vec<u64> {
    on_system(async move {
        let to = Counter(Tally::to(backlog)).start();
        slowest_by_bucket(backlog, |item| to.do_send(Tell(item)))
    })
}

fn idle_heap(actors: u64, messages: u64) -> i64 {
    on_system(heap_of_idle(
        actors,
        messages,
        Tally::to(u64::MAX),
        async |tally| Counter(tally).start(),
        |to, item| to.do_send(Tell(item)),
    ))
}
