//! The checks, one after the other, on one system.

use crate::actors::{Ball, Beat, Clockwork, Player, Work, Worker};
use crate::{HEAP, platform};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;
use critical_section::Mutex;
use embassy_executor::Spawner;
use embassy_time::Timer;
use pleach_core::{ActorRef, Arc, Event, EventKinds, Mailbox, OneForOne, Props, Runtime, SendError, System};
use semihosting::println;

/// Messages from interrupts that one check sends.
const INTERRUPT_MESSAGES: u32 = 10_000;
/// Messages of one run of the sending interrupt: more than the mailbox holds.
const MESSAGES_PER_INTERRUPT: u32 = 40;
const MAILBOX: usize = 32;
/// Rounds of spawning and stopping.
const ROUNDS: usize = 1_000;
/// Rounds of messages, asks and restarts in a sealed system.
const SEALED_ROUNDS: u32 = 1_000;
/// Idle actors that are measured.
const IDLE: usize = 20;

type Shared<T> = Mutex<T>;

/// Where the interrupts send to, and what became of their messages.
static TARGET: Shared<RefCell<Option<ActorRef<Work>>>> = Mutex::new(RefCell::new(None));
static SENT: Shared<Cell<u32>> = Mutex::new(Cell::new(0));
static RETURNED: Shared<Cell<u32>> = Mutex::new(Cell::new(0));
static GIVE_UPS: Shared<Cell<u32>> = Mutex::new(Cell::new(0));

pub async fn all(spawner: Spawner) {
    let runtime = pleach_embassy::start(spawner).expect("a runtime is free");
    let before = HEAP.used();
    let system = System::builder("board", Arc::clone(&runtime)).build().expect("the name is valid");
    settle().await;
    println!("size empty_system {}", HEAP.used() - before);
    ask(&system).await;
    idle_actor(&system).await;
    supervision(&system).await;
    timers(&system).await;
    interrupts(&system).await;
    executors(&system, spawner).await;
    memory(&system).await;
    assert!(system.counts().is_settled(), "{}", system.counts());
    system.shutdown(Duration::from_secs(1)).await.expect("everything ends");
    println!("ok shutdown {}", system.counts());
    second_system(Arc::clone(&runtime)).await;
    sealed(runtime).await;
}

/// Lets everything run that is ready.
async fn settle() {
    Timer::after_millis(3).await;
}

async fn ask(system: &System) {
    let worker = system.spawn("asked", Props::new(Worker::default)).expect("the name is free");
    for n in 0..100 {
        assert_eq!(worker.ask(Work::Handled).await.expect("it answers"), n);
        worker.tell(Work::Do).expect("it has room");
    }
    worker.close();
    worker.exited().await;
    println!("ok ask");
}

async fn idle_actor(system: &System) {
    let mut idle = Vec::with_capacity(IDLE);
    let spawn = || system.spawn_unnamed(Props::new(Worker::default)).expect("the system runs");
    // The first one makes the tables of the system.
    idle.push(spawn());
    settle().await;
    let before = HEAP.used();
    idle.extend((1..IDLE).map(|_| spawn()));
    settle().await;
    println!("size idle_actor {}", (HEAP.used() - before) / (IDLE - 1));
    for actor in idle {
        actor.stop();
        actor.exited().await;
    }
}

async fn supervision(system: &System) {
    let note = |event: &Event| {
        if let Event::GaveUp(_) = event {
            critical_section::with(|section| GIVE_UPS.borrow(section).set(GIVE_UPS.borrow(section).get() + 1));
        }
    };
    let listener = system.hub().listen_to(EventKinds::GAVE_UP, note);
    let strategy = OneForOne::new().restart_limit(2, Duration::from_secs(60));
    let workers = system.supervisor("workers", strategy).expect("the name is free");
    let worker = workers.spawn("worker", Props::new(Worker::default)).expect("the name is free");
    for restarts in 1..=2 {
        worker.tell(Work::Fail).expect("it has room");
        assert_eq!(worker.ask(Work::Incarnation).await.expect("it restarted"), restarts);
    }
    println!("ok restart");
    worker.tell(Work::Fail).expect("it has room");
    worker.exited().await;
    workers.exited().await;
    assert_eq!(critical_section::with(|section| GIVE_UPS.borrow(section).get()), 1);
    drop(listener);
    println!("ok give-up");
}

async fn timers(system: &System) {
    let new = || Clockwork { period: Duration::from_millis(10), next: None, count: 0, latest: 0 };
    let clockwork = system.spawn("clockwork", Props::new(new)).expect("the name is free");
    Timer::after_millis(505).await;
    let (count, latest) = clockwork.ask(Beat::Report).await.expect("it answers");
    assert!(count == 50 && latest <= 1, "{count} beats, the latest {latest} ticks late");
    clockwork.stop();
    clockwork.exited().await;
    println!("ok timers");
}

async fn interrupts(system: &System) {
    let props = Props::new(Worker::default).mailbox(Mailbox::bounded(MAILBOX));
    let worker = system.spawn("target", props).expect("the name is free");
    settle().await;
    critical_section::with(|section| TARGET.borrow_ref_mut(section).replace(worker.clone()));
    while critical_section::with(|section| SENT.borrow(section).get()) < INTERRUPT_MESSAGES {
        platform::interrupt();
        Timer::after_millis(1).await;
    }
    let target = critical_section::with(|section| TARGET.borrow_ref_mut(section).take());
    drop(target);
    settle().await;
    let [sent, returned] = critical_section::with(|section| [&SENT, &RETURNED].map(|n| n.borrow(section).get()));
    let handled = worker.ask(Work::Handled).await.expect("it answers");
    assert_eq!(handled + returned, sent);
    assert!(returned > 0, "the mailbox was never full");
    worker.stop();
    worker.exited().await;
    println!("ok interrupts sent {sent} handled {handled} returned {returned}");
}

fn send(messages: u32) {
    let target = critical_section::with(|section| TARGET.borrow_ref(section).clone());
    let Some(target) = target else { return };
    let mut returned = 0;
    for n in 0..messages {
        // The critical section is over: other interrupts may come in between.
        let sent = if n % 2 == 0 { target.tell(Work::Do) } else { target.try_send(Work::Do) };
        match sent {
            Ok(()) => {}
            Err(SendError::Full(Work::Do)) => returned += 1,
            Err(_) => panic!("an open mailbox accepts or returns the message"),
        }
    }
    for (count, more) in [(&SENT, messages), (&RETURNED, returned)] {
        critical_section::with(|section| count.borrow(section).set(count.borrow(section).get() + more));
    }
}

/// The sending interrupt.
pub fn on_interrupt() {
    send(MESSAGES_PER_INTERRUPT);
}

/// The timer interrupt, which interrupts the sending one where the platform nests.
pub fn on_timer() {
    send(1);
}

async fn executors(system: &System, spawner: Spawner) {
    let runtime = match platform::second_executor() {
        Some(interrupt) => pleach_embassy::start_send(interrupt),
        // Embassy has no interrupt executor for this platform: two runtimes share the executor.
        None => pleach_embassy::start(spawner),
    };
    let runtime = runtime.expect("a runtime is free");
    let other = System::builder("high", runtime).build().expect("the name is valid");
    let low = system.spawn("player", Props::new(Player::default)).expect("the name is free");
    let high = other.spawn("player", Props::new(Player::default)).expect("the name is free");
    low.tell(Ball::Peer(high.clone())).expect("it has room");
    high.tell(Ball::Peer(low.clone())).expect("it has room");
    low.tell(Ball::Hit(999)).expect("it has room");
    let hits = loop {
        let hits = low.ask(Ball::Hits).await.expect("it answers") + high.ask(Ball::Hits).await.expect("it answers");
        if hits == 1_000 {
            break hits;
        }
        settle().await;
    };
    low.stop();
    low.exited().await;
    other.shutdown(Duration::from_secs(1)).await.expect("everything ends");
    println!("ok executors {hits} hits");
}

async fn memory(system: &System) {
    let mut start = 0;
    for round in 0..=ROUNDS {
        let worker = system.spawn_unnamed(Props::new(Worker::default)).expect("the system runs");
        worker.tell(Work::Do).expect("it has room");
        assert_eq!(worker.ask(Work::Handled).await.expect("it answers"), 1);
        worker.stop();
        worker.exited().await;
        drop(worker);
        settle().await;
        // The first round makes the tables.
        if round == 0 {
            start = HEAP.used();
        }
    }
    assert_eq!(HEAP.used(), start, "bytes in use after {ROUNDS} rounds");
    println!("ok memory {start} bytes in use");
}

/// A runtime outlives its systems.
async fn second_system(runtime: Arc<dyn Runtime>) {
    let system = System::builder("again", runtime).build().expect("the name is valid");
    ask(&system).await;
    system.shutdown(Duration::from_secs(1)).await.expect("everything ends");
}

/// A sealed system allocates nothing: messages, asks, a timer and restarts after errors.
async fn sealed(runtime: Arc<dyn Runtime>) {
    let system = System::builder("sealed", runtime).build().expect("the name is valid");
    let strategy = OneForOne::new().restart_limit(u32::MAX, Duration::from_secs(1));
    let workers = system.supervisor("workers", strategy).expect("the name is free");
    let props = Props::new(Worker::default).mailbox(Mailbox::bounded(MAILBOX)).reserve_asks::<u32>(1);
    let worker = workers.spawn("worker", props).expect("the name is free");
    let new = || Clockwork { period: Duration::from_millis(10), next: None, count: 0, latest: 0 };
    let props = Props::new(new).mailbox(Mailbox::bounded(2)).reserve_timers(1);
    let clockwork = workers.spawn("clockwork", props).expect("the name is free");
    settle().await;
    system.seal().expect("all mailboxes are bounded");
    let before = HEAP.allocations();
    for round in 0..SEALED_ROUNDS {
        for _ in 0..10 {
            worker.tell(Work::Do).expect("it has room");
        }
        assert_eq!(worker.ask(Work::Handled).await.expect("it answers"), 10);
        worker.tell(Work::Fail).expect("it has room");
        assert_eq!(worker.ask(Work::Incarnation).await.expect("it restarted"), round + 1);
    }
    Timer::after_millis(100).await;
    let allocated = HEAP.allocations() - before;
    assert_eq!(allocated, 0, "allocations of a sealed system");
    assert!(clockwork.counts().handled >= 10);
    assert!(system.spawn_unnamed(Props::new(Worker::default)).is_err(), "a sealed system starts nothing");
    println!("ok sealed {SEALED_ROUNDS} restarts");
    system.shutdown(Duration::from_secs(1)).await.expect("everything ends");
}
