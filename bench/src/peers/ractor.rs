//! ractor: actors with unbounded mailboxes only. A supervisor sees its child fail and spawns
//! another.

use std::hint::black_box;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use tokio::sync::mpsc::{self, UnboundedSender};

use super::Peer;
use crate::ground::{
    CROWD, FAILS_EVERY, Item, Place, RING, Senders, Tally, heap_of_idle, is_bad, item, slowest_by_bucket, tell_in_batches,
    timed, unique_name,
};

pub const PEER: Peer = Peer {
    tell_unbounded: Some(tell_unbounded),
    tell_batches: Some(tell_batches),
    ask: Some(ask),
    ring: Some(|hops| ring(Place::Workers, false, hops)),
    ring_named: Some(|hops| ring(Place::Main, true, hops)),
    spawn: Some(spawn),
    spawn_crowd: Some(|ops| spawn_crowd(false, ops)),
    spawn_crowd_named: Some(|ops| spawn_crowd(true, ops)),
    spawn_named: Some(spawn_named),
    restart_error: Some(restart_error),
    restart_panic: Some(restart_panic),
    restart_error_awaited: Some(|place, ops| restart_awaited(place, ops, |n| Err(format!("message {n}").into()))),
    restart_panic_awaited: Some(|place, ops| restart_awaited(place, ops, |n| panic!("message {n}"))),
    supervised: Some(supervised),
    worst_push: Some(worst_push),
    idle_heap: Some(idle_heap),
    ..Peer::named("ractor")
};

struct Counter;

impl Actor for Counter {
    type Msg = Item;
    type State = Tally;
    type Arguments = Tally;

    async fn pre_start(&self, _me: ActorRef<Item>, tally: Tally) -> Result<Tally, ActorProcessingErr> {
        Ok(tally)
    }

    async fn handle(&self, _me: ActorRef<Item>, item: Item, tally: &mut Tally) -> Result<(), ActorProcessingErr> {
        black_box(item);
        tally.hit();
        Ok(())
    }
}

async fn counter(tally: Tally) -> ActorRef<Item> {
    let (actor, _end) = Actor::spawn(None, Counter, tally).await.expect("it starts");
    actor
}

fn tell_unbounded(place: Place, ops: u64, senders: Senders) -> Duration {
    place.run(async move {
        let tally = Tally::to(ops);
        let to = counter(tally.clone()).await;
        timed(async move {
            senders.start(ops, &to, async |to, share| push(to, share), push).await;
            tally.reached().await;
        })
        .await
    })
}

fn push(to: ActorRef<Item>, share: u64) {
    for n in 0..share {
        to.cast(item(n)).expect("the actor lives");
    }
}

fn tell_batches(ops: u64, batch: u64) {
    Place::Current.run(async move {
        let tally = Tally::to(ops);
        let to = counter(tally.clone()).await;
        tell_in_batches(ops, batch, &tally, |item| to.cast(item).expect("the actor lives")).await;
    });
}

struct Answerer;

struct Question(u64, RpcReplyPort<u64>);

// Without the cluster feature a message needs no serialization; ractor implements `Message` for it.
impl Actor for Answerer {
    type Msg = Question;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _me: ActorRef<Question>, _args: ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _me: ActorRef<Question>,
        Question(n, reply): Question,
        _state: &mut (),
    ) -> Result<(), ActorProcessingErr> {
        reply.send(n + 1)?;
        Ok(())
    }
}

fn ask(place: Place, ops: u64) -> Duration {
    place.run(async move {
        let (to, _end) = Actor::spawn(None, Answerer, ()).await.expect("it starts");
        timed(async move {
            for n in 0..ops {
                let answer = to.call(|reply| Question(n, reply), None).await;
                black_box(answer.expect("the actor lives").unwrap());
            }
        })
        .await
    })
}

struct Link {
    tally: Tally,
    next: Option<ActorRef<Pass>>,
}

enum Pass {
    Next(ActorRef<Pass>),
    Token(u64),
}

struct RingMember;

impl Actor for RingMember {
    type Msg = Pass;
    type State = Link;
    type Arguments = Link;

    async fn pre_start(&self, _me: ActorRef<Pass>, link: Link) -> Result<Link, ActorProcessingErr> {
        Ok(link)
    }

    async fn handle(&self, _me: ActorRef<Pass>, message: Pass, link: &mut Link) -> Result<(), ActorProcessingErr> {
        match (message, &link.next) {
            (Pass::Next(next), _) => link.next = Some(next),
            (Pass::Token(0), _) => link.tally.hit(),
            (Pass::Token(left), Some(next)) => next.cast(Pass::Token(left - 1))?,
            (Pass::Token(_), None) => unreachable!("the ring is closed before the token"),
        }
        Ok(())
    }
}

fn ring(place: Place, named: bool, hops: u64) -> Duration {
    place.run(async move {
        let tally = Tally::to(1);
        let mut members: Vec<ActorRef<Pass>> = Vec::with_capacity(RING);
        for _ in 0..RING {
            let link = Link { tally: tally.clone(), next: members.last().cloned() };
            let name = named.then(unique_name);
            let (member, _end) = Actor::spawn(name, RingMember, link).await.expect("it starts");
            members.push(member);
        }
        let first = members[0].clone();
        first.cast(Pass::Next(members[RING - 1].clone())).expect("the ring lives");
        timed(async move {
            first.cast(Pass::Token(hops)).expect("the ring lives");
            tally.reached().await;
        })
        .await
    })
}

fn spawn(place: Place, ops: u64) -> Duration {
    place.run(async move {
        let tally = Tally::to(0);
        let mut ends = Vec::with_capacity(ops as usize);
        timed(async move {
            for _ in 0..ops {
                let (actor, end) = Actor::spawn(None, Counter, tally.clone()).await.expect("it starts");
                actor.stop(None);
                ends.push(end);
            }
            for end in ends {
                end.await.expect("the actor does not panic");
            }
        })
        .await
    })
}

fn spawn_named(ops: u64) -> Duration {
    Place::Workers.run(async move {
        let tally = Tally::to(0);
        timed(async move {
            for n in 0..ops {
                let name = Some(format!("actor-{n}"));
                let (actor, end) = Actor::spawn(name, Counter, tally.clone()).await.expect("it starts");
                actor.stop(None);
                end.await.expect("the actor does not panic");
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
                let mut actors = Vec::with_capacity(CROWD as usize);
                for n in 0..CROWD {
                    let name = named.then(|| format!("actor-{n}"));
                    actors.push(Actor::spawn(name, Counter, tally.clone()).await.expect("it starts"));
                }
                for (actor, _end) in &actors {
                    actor.stop(None);
                }
                for (_actor, end) in actors {
                    end.await.expect("the actor does not panic");
                }
            }
        })
        .await
    })
}

type Handle = fn(u64) -> Result<(), ActorProcessingErr>;

struct Fragile(Handle);

impl Actor for Fragile {
    type Msg = Item;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _me: ActorRef<Item>, _args: ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(&self, _me: ActorRef<Item>, [n, _]: Item, _state: &mut ()) -> Result<(), ActorProcessingErr> {
        (self.0)(n)
    }
}

/// Keeps one fragile child alive. Sends each incarnation a number of messages; it fails at the
/// last.
struct Supervisor(Handle, u64);

impl Supervisor {
    async fn start_child(&self, me: &ActorRef<()>) -> Result<(), ActorProcessingErr> {
        let (child, _end) = Actor::spawn_linked(None, Fragile(self.0), (), me.get_cell()).await?;
        for n in 0..self.1 {
            child.cast(item(n))?;
        }
        Ok(())
    }
}

impl Actor for Supervisor {
    type Msg = ();
    type State = Tally;
    type Arguments = Tally;

    async fn pre_start(&self, _me: ActorRef<()>, tally: Tally) -> Result<Tally, ActorProcessingErr> {
        Ok(tally)
    }

    async fn handle(&self, me: ActorRef<()>, _start: (), _tally: &mut Tally) -> Result<(), ActorProcessingErr> {
        self.start_child(&me).await
    }

    async fn handle_supervisor_evt(
        &self,
        me: ActorRef<()>,
        event: SupervisionEvent,
        tally: &mut Tally,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(..) = event {
            tally.hit();
            if !tally.is_reached() {
                self.start_child(&me).await?;
            }
        }
        Ok(())
    }
}

fn restart_error(ops: u64) -> Duration {
    restart(ops, 1, |n| Err(format!("message {n}").into()))
}

fn restart_panic(ops: u64) -> Duration {
    restart(ops, 1, |n| panic!("message {n}"))
}

fn supervised(ops: u64) -> Duration {
    let fails_on_last = |n| if is_bad(black_box(n)) { Err(format!("message {n}").into()) } else { Ok(()) };
    restart(ops / FAILS_EVERY, FAILS_EVERY, fails_on_last)
}

fn restart(failures: u64, messages_each: u64, handle: Handle) -> Duration {
    Place::Workers.run(async move {
        let tally = Tally::to(failures);
        let spawned = Actor::spawn(None, Supervisor(handle, messages_each), tally.clone()).await;
        let (supervisor, _end) = spawned.expect("it starts");
        timed(async move {
            supervisor.cast(()).expect("the supervisor lives");
            tally.reached().await;
        })
        .await
    })
}

/// Keeps one fragile child alive, and sends the address of each incarnation to the caller.
struct AwaitedSupervisor(Handle);

impl Actor for AwaitedSupervisor {
    type Msg = ();
    type State = UnboundedSender<ActorRef<Item>>;
    type Arguments = UnboundedSender<ActorRef<Item>>;

    async fn pre_start(&self, me: ActorRef<()>, started: Self::Arguments) -> Result<Self::State, ActorProcessingErr> {
        let (child, _end) = Actor::spawn_linked(None, Fragile(self.0), (), me.get_cell()).await?;
        started.send(child)?;
        Ok(started)
    }

    async fn handle_supervisor_evt(
        &self,
        me: ActorRef<()>,
        event: SupervisionEvent,
        started: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(..) = event {
            let (child, _end) = Actor::spawn_linked(None, Fragile(self.0), (), me.get_cell()).await?;
            started.send(child)?;
        }
        Ok(())
    }
}

fn restart_awaited(place: Place, ops: u64, handle: Handle) -> Duration {
    place.run(async move {
        let (started, mut children) = mpsc::unbounded_channel();
        let (_supervisor, _end) = Actor::spawn(None, AwaitedSupervisor(handle), started).await.expect("it starts");
        let mut child = children.recv().await.expect("the supervisor lives");
        timed(async move {
            for n in 0..ops {
                child.cast(item(n)).expect("the actor lives");
                child = children.recv().await.expect("the supervisor lives");
            }
        })
        .await
    })
}

fn worst_push(backlog: u64) -> Vec<u64> {
    Place::Current.run(async move {
        let to = counter(Tally::to(backlog)).await;
        slowest_by_bucket(backlog, |item| to.cast(item).expect("the actor lives"))
    })
}

fn idle_heap(actors: u64, messages: u64) -> i64 {
    Place::Current
        .run(heap_of_idle(actors, messages, Tally::to(u64::MAX), counter, |to, item| to.cast(item).expect("the actor lives")))
}
