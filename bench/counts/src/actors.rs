//! Operations of actors.

use std::convert::Infallible;
use std::fmt;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use pleach::supervise::OneForOne;
use pleach::{Actor, ActorRef, ActorSystem, Context, Mailbox, Props, Reply};
use tokio::sync::Notify;

/// Messages that are sent before the receiver runs.
const BATCH: u64 = 100;

struct Receiver(Arc<Notify>);

enum Message {
    Number([u64; 2]),
    Last,
    Add(u64, Reply<u64>),
}

impl Actor for Receiver {
    type Msg = Message;
    type Error = Infallible;

    async fn handle(&mut self, message: Message, _cx: &mut Context<Self>) -> Result<(), Infallible> {
        match message {
            Message::Number(number) => drop(black_box(number)),
            Message::Last => self.0.notify_one(),
            Message::Add(number, reply) => reply.send(number + 1),
        }
        Ok(())
    }
}

fn system() -> ActorSystem {
    ActorSystem::new("counts").expect("the current thread has a runtime")
}

fn receiver(system: &ActorSystem, last: &Arc<Notify>) -> ActorRef<Message> {
    let last = Arc::clone(last);
    let props = Props::new(move || Receiver(Arc::clone(&last))).mailbox(Mailbox::unbounded());
    system.spawn_unnamed(props).expect("the system takes actors")
}

/// Sends messages, and waits after each [`BATCH`].
pub async fn tell(n: u64) {
    let (system, last) = (system(), Arc::new(Notify::new()));
    let to = receiver(&system, &last);
    for _ in 0..n / BATCH {
        for number in 1..BATCH {
            to.tell(Message::Number([number, number])).expect("the actor lives");
        }
        to.tell(Message::Last).expect("the actor lives");
        last.notified().await;
    }
}

/// Sends requests, one after the other.
pub async fn ask(n: u64) {
    let (system, last) = (system(), Arc::new(Notify::new()));
    let to = receiver(&system, &last);
    for number in 0..n {
        black_box(to.ask(|reply| Message::Add(number, reply)).await.expect("the actor replies"));
    }
}

/// Spawns and stops actors without a name, then waits for all exits.
pub async fn spawn(n: u64) {
    let (system, last) = (system(), Arc::new(Notify::new()));
    let mut stopping = Vec::with_capacity(usize::try_from(n).expect("a number of actors"));
    for _ in 0..n {
        let actor = receiver(&system, &last);
        actor.stop();
        stopping.push(actor);
    }
    for actor in stopping {
        actor.exited().await;
    }
}

#[derive(Debug)]
struct Failed;

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("failed")
    }
}

impl std::error::Error for Failed {}

struct Fragile;

impl Actor for Fragile {
    type Msg = ();
    type Error = Failed;

    async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), Failed> {
        Err(Failed)
    }
}

/// Fails an actor with an error, waits for its restart, and fails it again.
pub async fn restart(n: u64) {
    let (system, started) = (system(), Arc::new(Notify::new()));
    let often = OneForOne::new().restart_limit(u32::MAX, Duration::from_nanos(1));
    let supervisor = system.supervisor("supervisor", often).expect("the name is free");
    let starting = Arc::clone(&started);
    let props = Props::new(move || {
        starting.notify_one();
        Fragile
    });
    let actor = supervisor.spawn_unnamed(props).expect("the supervisor takes actors");
    started.notified().await;
    for _ in 0..n {
        actor.tell(()).expect("the actor lives");
        started.notified().await;
    }
}
