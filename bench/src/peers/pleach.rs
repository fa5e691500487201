//! pleach: actors and systems.

use std::future::ready;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use pleach::actor::SpawnError;
use pleach::runtime::block_on;
use pleach::supervise::OneForOne;
use pleach::{Actor, ActorRef, ActorSystem, Context, Mailbox, Props, Reply};
use tokio::sync::Notify;

use super::Peer;
use crate::durable;
use crate::graphs;
use crate::ground::{
    CAPACITY, CROWD, FAILS_EVERY, Item, Place, RING, Senders, Tally, heap_of_idle, is_bad, item, slowest_by_bucket,
    tell_in_batches, timed,
};
use crate::groups;
use crate::growth;
use crate::postgres;
use crate::stores;
use crate::workers;

pub const PEER: Peer = Peer {
    name: "pleach",
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
    group: Some(groups::pleach::run),
    group_in_place: Some(groups::pleach::in_place),
    graph: Some(graphs::pleach::run),
    owned_graph: Some(graphs::owned::pleach),
    commit: Some(stores::commits),
    steps: Some(durable::steps),
    steady_steps: Some(durable::steady_steps),
    stored_map: Some(durable::maps),
    resume: Some(durable::resumes),
    claims: Some(workers::claims),
    postgres_steps: Some(postgres::steps),
    growth: Some(growth::run),
    compile: Some(graphs::pleach::compile),
    nested_heap: Some(graphs::pleach::nested_heap),
};

#[derive(Debug)]
struct Failed;

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("failed")
    }
}

impl std::error::Error for Failed {}

struct Counter(Tally);

impl Actor for Counter {
    type Msg = Item;
    type Error = Failed;

    async fn handle(&mut self, item: Item, _cx: &mut Context<Self>) -> Result<(), Failed> {
        black_box(item);
        self.0.hit();
        Ok(())
    }
}

fn system() -> ActorSystem {
    ActorSystem::new("bench").expect("the current thread has a runtime")
}

fn props(tally: Tally) -> Props<Counter> {
    Props::new(move || Counter(tally.clone())).mailbox(Mailbox::unbounded())
}

fn counter(system: &ActorSystem, tally: Tally) -> ActorRef<Item> {
    system.spawn_unnamed(props(tally)).expect("the system takes actors")
}

fn push(to: ActorRef<Item>, share: u64) {
    for n in 0..share {
        to.tell(item(n)).expect("the actor lives");
    }
}

fn tell_unbounded(place: Place, ops: u64, senders: Senders) -> Duration {
    place.run(async move {
        let tally = Tally::to(ops);
        let system = system();
        let to = counter(&system, tally.clone());
        timed(async move {
            senders.start(ops, &to, async |to, share| push(to, share), push).await;
            tally.reached().await;
        })
        .await
    })
}

fn tell_bounded(place: Place, ops: u64, senders: Senders) -> Duration {
    place.run(async move {
        let tally = Tally::to(ops);
        let system = system();
        let props = props(tally.clone()).mailbox(Mailbox::bounded(CAPACITY));
        let to = system.spawn_unnamed(props).expect("the system takes actors");
        timed(async move {
            senders
                .start(
                    ops,
                    &to,
                    async |to, share| {
                        for n in 0..share {
                            to.send(item(n)).await.expect("the actor lives");
                        }
                    },
                    |to, share| {
                        for n in 0..share {
                            block_on(to.send(item(n))).expect("the actor lives");
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
        let system = system();
        let to = counter(&system, tally.clone());
        tell_in_batches(ops, batch, &tally, |item| to.tell(item).expect("the actor lives")).await;
    });
}

struct Adder;

struct Question(u64, Reply<u64>);

impl Actor for Adder {
    type Msg = Question;
    type Error = Failed;

    async fn handle(&mut self, Question(n, reply): Question, _cx: &mut Context<Self>) -> Result<(), Failed> {
        reply.send(n + 1);
        Ok(())
    }
}

fn ask(place: Place, ops: u64) -> Duration {
    place.run(async move {
        let system = system();
        let props = Props::new(|| Adder).mailbox(Mailbox::unbounded());
        let to = system.spawn_unnamed(props).expect("the system takes actors");
        timed(async move {
            for n in 0..ops {
                black_box(to.ask(|reply| Question(n, reply)).await.expect("the actor replies"));
            }
        })
        .await
    })
}

struct RingMember {
    tally: Tally,
    next: Option<ActorRef<Token>>,
}

enum Token {
    Next(ActorRef<Token>),
    Left(u64),
}

impl Actor for RingMember {
    type Msg = Token;
    type Error = Failed;

    async fn handle(&mut self, token: Token, _cx: &mut Context<Self>) -> Result<(), Failed> {
        match token {
            Token::Next(next) => self.next = Some(next),
            Token::Left(0) => self.tally.hit(),
            Token::Left(left) => {
                let next = self.next.as_ref().ok_or(Failed)?;
                next.tell(Token::Left(left - 1)).map_err(|_| Failed)?;
            }
        }
        Ok(())
    }
}

fn ring(hops: u64) -> Duration {
    ring_of(Place::Workers, hops, |system, _, props| system.spawn_unnamed(props.mailbox(Mailbox::unbounded())))
}

fn ring_named(hops: u64) -> Duration {
    ring_of(Place::Main, hops, |system, at, props| system.spawn(&format!("member-{at}"), props))
}

/// How a member of a ring is spawned: the system, its place, and its props.
type SpawnMember = fn(&ActorSystem, usize, Props<RingMember>) -> Result<ActorRef<Token>, SpawnError<RingMember>>;

fn ring_of(place: Place, hops: u64, spawn: SpawnMember) -> Duration {
    place.run(async move {
        let tally = Tally::to(1);
        let system = system();
        let mut members: Vec<ActorRef<Token>> = Vec::with_capacity(RING);
        for at in 0..RING {
            let (tally, next) = (tally.clone(), members.last().cloned());
            let props = Props::new(move || RingMember { tally: tally.clone(), next: next.clone() });
            members.push(spawn(&system, at, props).expect("the system takes actors"));
        }
        let first = members[0].clone();
        first.tell(Token::Next(members[RING - 1].clone())).expect("the ring lives");
        timed(async move {
            first.tell(Token::Left(hops)).expect("the ring lives");
            tally.reached().await;
        })
        .await
    })
}

fn spawn(place: Place, ops: u64) -> Duration {
    place.run(async move {
        let tally = Tally::to(0);
        let system = system();
        let mut stopping = Vec::with_capacity(ops as usize);
        timed(async move {
            for _ in 0..ops {
                let actor = counter(&system, tally.clone());
                actor.stop();
                stopping.push(actor);
            }
            for actor in stopping {
                actor.exited().await;
            }
        })
        .await
    })
}

fn spawn_named(ops: u64) -> Duration {
    Place::Workers.run(async move {
        let tally = Tally::to(0);
        let system = system();
        timed(async move {
            for n in 0..ops {
                let actor = system.spawn(&format!("actor-{n}"), props(tally.clone())).expect("the name is free");
                actor.stop();
                actor.exited().await;
            }
        })
        .await
    })
}

fn spawn_crowd(named: bool, ops: u64) -> Duration {
    Place::Main.run(async move {
        let tally = Tally::to(0);
        let system = system();
        timed(async move {
            for _ in 0..ops / CROWD {
                let actors: Vec<ActorRef<Item>> = (0..CROWD)
                    .map(|n| match named {
                        true => system.spawn(&format!("actor-{n}"), props(tally.clone())).expect("the name is free"),
                        false => counter(&system, tally.clone()),
                    })
                    .collect();
                actors.iter().for_each(ActorRef::stop);
                for actor in actors {
                    actor.exited().await;
                }
            }
        })
        .await
    })
}

/// An actor that applies a function to each message.
struct Fragile(fn(u64) -> Result<(), Failed>);

impl Actor for Fragile {
    type Msg = Item;
    type Error = Failed;

    async fn handle(&mut self, [n, _]: Item, _cx: &mut Context<Self>) -> Result<(), Failed> {
        (self.0)(n)
    }
}

fn restart_error(ops: u64) -> Duration {
    restart(ops, ops, |_| Err(Failed))
}

fn restart_panic(ops: u64) -> Duration {
    restart(ops, ops, |n| panic!("message {n}"))
}

fn supervised(ops: u64) -> Duration {
    restart(ops, ops / FAILS_EVERY, |n| if is_bad(black_box(n)) { Err(Failed) } else { Ok(()) })
}

/// The mailbox survives a restart, so all messages are sent at once.
fn restart(ops: u64, failures: u64, handle: fn(u64) -> Result<(), Failed>) -> Duration {
    Place::Workers.run(async move {
        let starts = Tally::to(failures + 1);
        let counted = starts.clone();
        let system = system();
        let actor = fragile(&system, handle, move || counted.hit());
        timed(async move {
            for n in 0..ops {
                actor.tell(item(n)).expect("the actor lives");
            }
            starts.reached().await;
        })
        .await
    })
}

fn restart_awaited(place: Place, ops: u64, handle: fn(u64) -> Result<(), Failed>) -> Duration {
    place.run(async move {
        let started = Arc::new(Notify::new());
        let starting = Arc::clone(&started);
        let system = system();
        let actor = fragile(&system, handle, move || starting.notify_one());
        started.notified().await;
        timed(async move {
            for n in 0..ops {
                actor.tell(item(n)).expect("the actor lives");
                started.notified().await;
            }
        })
        .await
    })
}

/// A supervised actor that is restarted however often it fails, and calls `starts` at each start.
fn fragile(
    system: &ActorSystem,
    handle: fn(u64) -> Result<(), Failed>,
    starts: impl Fn() + Send + Sync + 'static,
) -> ActorRef<Item> {
    let often = OneForOne::new().restart_limit(u32::MAX, Duration::from_nanos(1));
    let supervisor = system.supervisor("supervisor", often).expect("the name is free");
    let props = Props::new(move || {
        starts();
        Fragile(handle)
    });
    supervisor.spawn_unnamed(props.mailbox(Mailbox::unbounded())).expect("the supervisor takes actors")
}

fn worst_push(backlog: u64) -> Vec<u64> {
    Place::Current.run(async move {
        let system = system();
        let to = counter(&system, Tally::to(backlog));
        slowest_by_bucket(backlog, |item| to.tell(item).expect("the actor lives"))
    })
}

fn idle_heap(actors: u64, messages: u64) -> i64 {
    Place::Current.run(async move {
        let system = system();
        let mut started = 0;
        heap_of_idle(
            actors,
            messages,
            Tally::to(u64::MAX),
            move |tally| {
                started += 1;
                ready(system.spawn(&format!("idle-actor-{started}"), props(tally)).expect("the name is free"))
            },
            |to, item| to.tell(item).expect("the actor lives"),
        )
        .await
    })
}
