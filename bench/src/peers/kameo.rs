//! kameo: actors with bounded or unbounded mailboxes; a supervisor restarts its child in place.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use kameo::actor::{Actor, ActorRef, Spawn};
use kameo::error::Infallible;
use kameo::mailbox;
use kameo::message::{Context, Message};
use tokio::sync::Notify;

use super::Peer;
use crate::ground::{
    CAPACITY, CROWD, FAILS_EVERY, Item, Place, RING, Senders, Tally, heap_of_idle, is_bad, item, slowest_by_bucket,
    tell_in_batches, timed, unique_name,
};

pub const PEER: Peer = Peer {
    name: "kameo",
    tell_unbounded: Some(tell_unbounded),
    tell_bounded: Some(tell_bounded),
    tell_batches: Some(tell_batches),
    ask: Some(ask),
    ring: Some(ring),
    ring_named: Some(ring_named),
    spawn: Some(spawn),
    spawn_crowd: Some(|ops| spawn_crowd(false, ops)),
    spawn_crowd_named: Some(|ops| spawn_crowd(true, ops)),
    spawn_named: Some(spawn_named),
    restart_error: Some(restart_error),
    restart_panic: Some(restart_panic),
    restart_error_awaited: Some(|place, ops| restart_awaited(place, ops, |_| Err(Failed))),
    restart_panic_awaited: Some(|place, ops| restart_awaited(place, ops, |n| panic!("message {n}"))),
    supervised: Some(supervised),
    worst_push: Some(worst_push),
    idle_heap: Some(idle_heap),
    ..Peer::named("kameo")
};

struct Counter(Tally);

impl Actor for Counter {
    type Args = Tally;
    type Error = Infallible;

    async fn on_start(tally: Tally, _me: ActorRef<Self>) -> Result<Self, Infallible> {
        Ok(Counter(tally))
    }
}

impl Message<Item> for Counter {
    type Reply = ();

    async fn handle(&mut self, item: Item, _cx: &mut Context<Self, ()>) {
        black_box(item);
        self.0.hit();
    }
}

fn counter(tally: Tally) -> ActorRef<Counter> {
    Counter::spawn_with_mailbox(tally, mailbox::unbounded())
}

/// An unbounded mailbox always takes the message at once.
fn tell(to: &ActorRef<Counter>, item: Item) {
    to.tell(item).try_send().expect("the actor lives");
}

fn tell_unbounded(place: Place, ops: u64, senders: Senders) -> Duration {
    place.run(async move {
        let tally = Tally::to(ops);
        let to = counter(tally.clone());
        timed(async move {
            senders.start(ops, &to, async |to, share| push(to, share), push).await;
            tally.reached().await;
        })
        .await
    })
}

fn push(to: ActorRef<Counter>, share: u64) {
    for n in 0..share {
        tell(&to, item(n));
    }
}

fn tell_bounded(place: Place, ops: u64, senders: Senders) -> Duration {
    place.run(async move {
        let tally = Tally::to(ops);
        let to = Counter::spawn_with_mailbox(tally.clone(), mailbox::bounded(CAPACITY));
        timed(async move {
            senders
                .start(
                    ops,
                    &to,
                    async |to, share| {
                        for n in 0..share {
                            to.tell(item(n)).send().await.expect("the actor lives");
                        }
                    },
                    |to, share| {
                        for n in 0..share {
                            to.tell(item(n)).blocking_send().expect("the actor lives");
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
        let to = counter(tally.clone());
        tell_in_batches(ops, batch, &tally, |item| tell(&to, item)).await;
    });
}

struct Question(u64);

impl Message<Question> for Counter {
    type Reply = u64;

    async fn handle(&mut self, Question(n): Question, _cx: &mut Context<Self, u64>) -> u64 {
        n + 1
    }
}

fn ask(place: Place, ops: u64) -> Duration {
    place.run(async move {
        let to = counter(Tally::to(0));
        timed(async move {
            for n in 0..ops {
                black_box(to.ask(Question(n)).send().await.expect("the actor replies"));
            }
        })
        .await
    })
}

struct RingMember {
    tally: Tally,
    next: Option<ActorRef<RingMember>>,
}

impl Actor for RingMember {
    type Args = Self;
    type Error = Infallible;

    async fn on_start(member: Self, _me: ActorRef<Self>) -> Result<Self, Infallible> {
        Ok(member)
    }
}

struct Next(ActorRef<RingMember>);

impl Message<Next> for RingMember {
    type Reply = ();

    async fn handle(&mut self, Next(next): Next, _cx: &mut Context<Self, ()>) {
        self.next = Some(next);
    }
}

struct Token(u64);

impl Message<Token> for RingMember {
    type Reply = ();

    async fn handle(&mut self, Token(left): Token, _cx: &mut Context<Self, ()>) {
        if left == 0 {
            self.tally.hit();
        } else {
            let next = self.next.as_ref().expect("the ring is closed before the token");
            next.tell(Token(left - 1)).try_send().expect("the ring lives");
        }
    }
}

fn ring(hops: u64) -> Duration {
    ring_of(Place::Workers, hops, |member| RingMember::spawn_with_mailbox(member, mailbox::unbounded()))
}

fn ring_named(hops: u64) -> Duration {
    ring_of(Place::Main, hops, |member| {
        let member = RingMember::spawn(member);
        member.register(unique_name()).expect("the name is free");
        member
    })
}

fn ring_of(place: Place, hops: u64, spawn: fn(RingMember) -> ActorRef<RingMember>) -> Duration {
    place.run(async move {
        let tally = Tally::to(1);
        let mut members: Vec<ActorRef<RingMember>> = Vec::with_capacity(RING);
        for _ in 0..RING {
            let member = RingMember { tally: tally.clone(), next: members.last().cloned() };
            members.push(spawn(member));
        }
        let first = members[0].clone();
        let last = members[RING - 1].clone();
        first.ask(Next(last)).send().await.expect("the ring lives");
        timed(async move {
            first.tell(Token(hops)).try_send().expect("the ring lives");
            tally.reached().await;
        })
        .await
    })
}

fn spawn(place: Place, ops: u64) -> Duration {
    place.run(async move {
        let tally = Tally::to(0);
        let mut stopping = Vec::with_capacity(ops as usize);
        timed(async move {
            for _ in 0..ops {
                let actor = counter(tally.clone());
                actor.stop_gracefully().await.expect("the actor lives");
                stopping.push(actor);
            }
            for actor in stopping {
                actor.wait_for_shutdown().await;
            }
        })
        .await
    })
}

fn spawn_named(ops: u64) -> Duration {
    Place::Workers.run(async move {
        let tally = Tally::to(0);
        timed(async move {
            for _ in 0..ops {
                let actor = counter(tally.clone());
                // A name may stay taken for some time after its actor has ended.
                actor.register(format!("actor-{}", actor.id().sequence_id())).expect("the name is free");
                actor.stop_gracefully().await.expect("the actor lives");
                actor.wait_for_shutdown().await;
            }
        })
        .await
    })
}

fn spawn_crowd(named: bool, ops: u64) -> Duration {
    Place::Main.run(async move {
        let tally = Tally::to(0);
        timed(async move {
            for _ in 0..ops / CROWD {
                let actors: Vec<ActorRef<Counter>> = (0..CROWD).map(|_| counter(tally.clone())).collect();
                for actor in actors.iter().filter(|_| named) {
                    actor.register(format!("actor-{}", actor.id().sequence_id())).expect("the name is free");
                }
                for actor in &actors {
                    actor.stop_gracefully().await.expect("the actor lives");
                }
                for actor in actors {
                    actor.wait_for_shutdown().await;
                }
            }
        })
        .await
    })
}

type Handle = fn(u64) -> Result<(), Failed>;

#[derive(Debug)]
struct Failed;

/// Counts its starts, and at each start sends itself a number of messages; it fails at the last.
/// Other messages that are queued during the start are lost with the failure, so they cannot be
/// sent ahead.
struct Fragile(Handle);

impl Actor for Fragile {
    type Args = (Handle, u64, Tally);
    type Error = Infallible;

    async fn on_start((handle, messages, starts): Self::Args, me: ActorRef<Self>) -> Result<Self, Infallible> {
        starts.hit();
        if !starts.is_reached() {
            for n in 0..messages {
                me.tell(item(n)).try_send().expect("the actor lives");
            }
        }
        Ok(Fragile(handle))
    }
}

impl Message<Item> for Fragile {
    type Reply = Result<(), Failed>;

    async fn handle(&mut self, [n, _]: Item, _cx: &mut Context<Self, Self::Reply>) -> Self::Reply {
        (self.0)(n)
    }
}

struct Supervisor;

impl Actor for Supervisor {
    type Args = ();
    type Error = Infallible;

    async fn on_start(_args: (), _me: ActorRef<Self>) -> Result<Self, Infallible> {
        Ok(Supervisor)
    }
}

fn restart_error(ops: u64) -> Duration {
    restart(ops, 1, |_| Err(Failed))
}

fn restart_panic(ops: u64) -> Duration {
    restart(ops, 1, |n| panic!("message {n}"))
}

fn supervised(ops: u64) -> Duration {
    restart(ops / FAILS_EVERY, FAILS_EVERY, |n| if is_bad(black_box(n)) { Err(Failed) } else { Ok(()) })
}

fn restart(failures: u64, messages_each: u64, handle: Handle) -> Duration {
    Place::Workers.run(async move {
        let starts = Tally::to(failures + 1);
        let supervisor = Supervisor::spawn(());
        timed(async move {
            let _child = Fragile::supervise(&supervisor, (handle, messages_each, starts.clone()))
                .restart_limit(u32::MAX, Duration::from_secs(3600))
                .spawn_with_mailbox(mailbox::unbounded())
                .await;
            starts.reached().await;
        })
        .await
    })
}

/// The same actor, failed by messages of the caller. One that arrives during the start is kept.
struct Awaited(Handle);

impl Actor for Awaited {
    type Args = (Handle, Arc<Notify>);
    type Error = Infallible;

    async fn on_start((handle, started): Self::Args, _me: ActorRef<Self>) -> Result<Self, Infallible> {
        started.notify_one();
        Ok(Awaited(handle))
    }
}

impl Message<Item> for Awaited {
    type Reply = Result<(), Failed>;

    async fn handle(&mut self, [n, _]: Item, _cx: &mut Context<Self, Self::Reply>) -> Self::Reply {
        (self.0)(n)
    }
}

fn restart_awaited(place: Place, ops: u64, handle: Handle) -> Duration {
    place.run(async move {
        let started = Arc::new(Notify::new());
        let supervisor = Supervisor::spawn(());
        let actor = Awaited::supervise(&supervisor, (handle, Arc::clone(&started)))
            .restart_limit(u32::MAX, Duration::from_secs(3600))
            .spawn_with_mailbox(mailbox::unbounded())
            .await;
        started.notified().await;
        timed(async move {
            for n in 0..ops {
                actor.tell(item(n)).try_send().expect("the actor lives");
                started.notified().await;
            }
        })
        .await
    })
}

fn worst_push(backlog: u64) -> Vec<u64> {
    Place::Current.run(async move {
        let to = counter(Tally::to(backlog));
        slowest_by_bucket(backlog, |item| tell(&to, item))
    })
}

fn idle_heap(actors: u64, messages: u64) -> i64 {
    Place::Current.run(heap_of_idle(actors, messages, Tally::to(u64::MAX), async |tally| counter(tally), tell))
}
