//! D3: a sealed system allocates nothing, and refuses what was not reserved.
//!
//! A counting allocator proves the first half in the build without `std`, where tables are vectors.
//! The flag `--cfg pleach_portable` in `RUSTFLAGS` leaves out a development dependency that turns
//! `std` on: `cargo test -p pleach-core --no-default-features --test sealed`.
#![allow(unsafe_code)]

use pleach_core::{
    Actor, ActorRef, AskError, Context, Dispatcher, Event, EventKinds, ExponentialBackoff, Health, HealthReason, Instant,
    Limit, Lint, Mailbox, OneForOne, Props, Refusal, Reply, SendError, SupervisorDirective, System,
};
use std::alloc::{GlobalAlloc, Layout, System as Heap};
use std::cell::Cell;
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    /// Allocations of this thread, so that tests do not disturb each other.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// Held by one test at a time: without `std`, all threads are one core, whose polls are nested.
static CORE: Mutex<()> = Mutex::new(());

fn alone_on_the_core() -> MutexGuard<'static, ()> {
    CORE.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Counting;

fn count() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

// SAFETY: every method passes its arguments unchanged to the allocator of the system and returns
// its result. `count` neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`, which is the same there.
        unsafe { Heap.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: every block comes from there, and the caller keeps the contract of `realloc`.
        unsafe { Heap.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: every block comes from there, and the caller keeps the contract of `dealloc`.
        unsafe { Heap.dealloc(block, layout) }
    }
}

/// An error of size zero: its box needs no memory.
#[derive(Debug)]
struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broken")
    }
}

impl std::error::Error for Broken {}

enum Work {
    Do,
    Fail,
    Beat,
    After(Duration),
    TryAfter,
    Handled(Reply<u32>),
    Incarnation(Reply<u32>),
    Text(Reply<String>),
    FailTo(Reply<u32>),
    Ignore(Reply<u32>),
}

/// Handles nothing before its gate is open.
struct Gated(Arc<AtomicU32>);

impl Actor for Gated {
    type Msg = u64;
    type Error = Infallible;

    async fn handle(&mut self, _: u64, cx: &mut Context<Self>) -> Result<(), Infallible> {
        while self.0.load(Ordering::Relaxed) == 0 {
            cx.sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }
}

/// Works, beats with a timer, and fails when a message says so. Its hooks run at each restart.
struct Worker {
    handled: u32,
    beats: Arc<AtomicU32>,
    hooks: Arc<AtomicU32>,
}

impl Actor for Worker {
    type Msg = Work;
    type Error = Broken;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), Broken> {
        cx.send_every(Duration::from_millis(10), || Work::Beat);
        Ok(())
    }

    async fn handle(&mut self, work: Work, cx: &mut Context<Self>) -> Result<(), Broken> {
        match work {
            Work::Do => self.handled += 1,
            Work::Fail => return Err(Broken),
            Work::Beat => drop(self.beats.fetch_add(1, Ordering::Relaxed)),
            Work::After(wait) => drop(cx.send_after(wait, Work::Do)),
            Work::TryAfter => {
                let refused = cx.try_send_after(Duration::ZERO, Work::Do).unwrap_err();
                assert!(matches!(refused.message, Work::Do) && refused.limit.limit == Limit::Timers);
                assert!(cx.try_send_every(Duration::from_secs(1), || Work::Do).is_err());
            }
            Work::Handled(reply) => reply.send(self.handled),
            Work::Incarnation(reply) => reply.send(cx.incarnation()),
            Work::Text(reply) => reply.send("text".into()),
            Work::FailTo(_reply) => return Err(Broken),
            Work::Ignore(_reply) => {}
        }
        Ok(())
    }

    async fn restarting(&mut self, _failure: &pleach_core::FailureInfo, _cx: &mut Context<Self>) -> Result<(), Broken> {
        self.hooks.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn stopped(&mut self, _exit: &pleach_core::Exit, _cx: &mut Context<Self>) -> Result<(), Broken> {
        self.hooks.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Asks the worker in its handler, with and without a timeout.
struct Asker {
    worker: ActorRef<Work>,
    answers: Arc<AtomicU32>,
}

impl Actor for Asker {
    type Msg = ();
    type Error = Infallible;

    async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), Infallible> {
        self.worker.ask(Work::Handled).await.expect("it answers");
        self.worker.ask(Work::Incarnation).timeout(Duration::from_secs(1)).await.expect("it answers in time");
        self.answers.fetch_add(2, Ordering::Relaxed);
        Ok(())
    }
}

struct Board {
    sim: Dispatcher,
    system: System,
    worker: ActorRef<Work>,
    asker: ActorRef<()>,
    beats: Arc<AtomicU32>,
    hooks: Arc<AtomicU32>,
    answers: Arc<AtomicU32>,
}

fn board(backoff: Option<Duration>) -> Board {
    let sim = Dispatcher::seeded(1);
    let system = System::builder("board", sim.runtime()).build().unwrap();
    let mut strategy = OneForOne::new().restart_limit(3, Duration::from_millis(1));
    if let Some(backoff) = backoff {
        strategy = strategy.backoff(ExponentialBackoff::new(backoff, backoff));
    }
    let workers = system.supervisor("workers", strategy.deciding(|_| SupervisorDirective::Restart)).unwrap();
    let (beats, hooks, answers) = (Arc::default(), Arc::default(), Arc::<AtomicU32>::default());
    let (counted, ran): (Arc<AtomicU32>, Arc<AtomicU32>) = (Arc::clone(&beats), Arc::clone(&hooks));
    let worker = Props::new(move || Worker { handled: 0, beats: Arc::clone(&counted), hooks: Arc::clone(&ran) });
    let worker = worker.mailbox(Mailbox::bounded(16)).reserve_timers(2).reserve_asks::<u32>(2);
    let worker = workers.spawn("worker", worker).unwrap();
    let (to, counted) = (worker.clone(), Arc::clone(&answers));
    let asker = Props::new(move || Asker { worker: to.clone(), answers: Arc::clone(&counted) }).mailbox(Mailbox::bounded(2));
    let asker = workers.spawn("asker", asker).unwrap();
    sim.drain_ready();
    system.seal().unwrap();
    Board { sim, system, worker, asker, beats, hooks, answers }
}

impl Board {
    /// One round of everything that a sealed system does: messages, timers, asks, a failure.
    fn round(&self, begin: Instant) {
        for _ in 0..5 {
            self.worker.tell(Work::Do).unwrap();
            self.worker.try_send(Work::Do).unwrap();
        }
        self.worker.tell(Work::After(Duration::from_millis(3))).unwrap();
        self.asker.tell(()).unwrap();
        let mut cx = TaskContext::from_waker(Waker::noop());
        let mut ask = pin!(self.worker.ask(Work::Handled));
        assert!(ask.as_mut().poll(&mut cx).is_pending());
        self.sim.drain_ready();
        assert!(matches!(ask.as_mut().poll(&mut cx), Poll::Ready(Ok(10))));
        self.sim.run_until_time(begin + Duration::from_millis(12));
        self.worker.tell(Work::Fail).unwrap();
        self.sim.run_until_time(begin + Duration::from_millis(20));
    }
}

/// Returns how often `f` allocates.
fn allocations(f: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    f();
    ALLOCATIONS.get() - before
}

#[test]
fn d3_sealed_system_allocates_nothing() {
    let _alone = alone_on_the_core();
    const ROUNDS: u64 = 1_000;
    for backoff in [None, Some(Duration::from_millis(2))] {
        let board = board(backoff);
        let allocated = allocations(|| {
            for round in 0..ROUNDS {
                board.round(Instant::after_start(Duration::from_millis(20) * round as u32));
            }
        });
        let counts = board.worker.counts();
        let [beats, hooks, answers] =
            [&board.beats, &board.hooks, &board.answers].map(|n| u64::from(n.load(Ordering::Relaxed)));
        assert!(
            beats >= ROUNDS && (hooks, answers) == (2 * ROUNDS, 2 * ROUNDS),
            "{beats} beats, {hooks} hooks, {answers} answers"
        );
        // Each round: ten messages, the order of a timer, its message, three questions, a failure.
        assert_eq!((counts.handled - beats, counts.failed), (ROUNDS * 15, ROUNDS), "{counts}");
        assert!(board.system.counts().is_settled() && board.system.refusals().is_empty());
        if cfg!(not(feature = "std")) {
            assert_eq!(allocated, 0, "allocations in {ROUNDS} rounds, backoff {backoff:?}");
        }
    }
}

#[test]
fn d3_sealed_system_refuses_what_was_not_reserved() {
    let _alone = alone_on_the_core();
    let board = board(None);
    let lints = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&lints);
    let _listener = board.system.hub().listen_to(EventKinds::LIMITS, move |event| {
        if let Event::Lint(Lint::LimitReached(reached)) = event {
            seen.lock().unwrap().push((reached.member.to_string(), reached.limit));
        }
    });
    // A third timer: two are set. The message of `send_after` becomes a dead letter.
    board.worker.tell(Work::After(Duration::from_secs(1))).unwrap();
    board.worker.tell(Work::TryAfter).unwrap();
    board.worker.tell(Work::After(Duration::from_secs(1))).unwrap();
    board.sim.drain_ready();
    assert_eq!(board.worker.counts().dead_lettered, 1);
    // A third ask, and an ask of a type for which none are reserved.
    let mut cx = TaskContext::from_waker(Waker::noop());
    let mut asks = [Work::Handled, Work::Handled, Work::Handled].map(|question| Box::pin(board.worker.ask(question)));
    let polled = asks.each_mut().map(|ask| ask.as_mut().poll(&mut cx));
    assert!(matches!(polled, [Poll::Pending, Poll::Pending, Poll::Ready(Err(AskError::LimitReached(_)))]), "{polled:?}");
    let text = pin!(board.worker.ask(Work::Text)).poll(&mut cx);
    assert!(matches!(text, Poll::Ready(Err(AskError::LimitReached(reached))) if reached.reserved == 0));
    board.sim.drain_ready();
    drop(asks);
    // A send to a full mailbox returns its message.
    board.asker.tell(()).unwrap();
    board.asker.tell(()).unwrap();
    let sent = pin!(board.asker.send(())).poll(&mut cx);
    assert!(matches!(sent, Poll::Ready(Err(SendError::CannotWait((), _)))), "{sent:?}");
    // A further member.
    let refused = board.system.spawn("late", Props::from_fn(|| (), |(), ()| Ok::<(), Broken>(()))).unwrap_err();
    assert!(matches!(refused.reason, Refusal::LimitReached(_)), "{refused}");
    assert!(board.system.scope("late").is_err());
    board.sim.drain_ready();
    let expected = [
        ("/user/workers/worker", Limit::Timers, 3),
        ("/user/workers/worker", Limit::Asks, 1),
        ("/user/workers/worker", Limit::Asks, 1),
        ("/user/workers/asker", Limit::WaitingSends, 1),
        ("/user", Limit::Members, 2),
    ];
    let refusals = board.system.refusals();
    let kept: Vec<_> = refusals.iter().map(|one| (one.limit.member.to_string(), one.limit.limit, one.times)).collect();
    assert_eq!(kept, expected.map(|(path, limit, times)| (path.to_string(), limit, times)));
    assert_eq!(*lints.lock().unwrap(), expected.map(|(path, limit, _)| (path.to_string(), limit)), "each is reported once");
    let Health::Degraded(reasons) = board.system.health() else { panic!("refusals are a reason") };
    assert!(reasons.iter().all(|reason| matches!(reason, HealthReason::LimitReached { .. })) && reasons.len() == 5);
    assert!(board.system.counts().is_settled());
}

/// All overflow rules and priorities, filled to the brim many times.
#[test]
fn d3_full_mailboxes_of_a_sealed_system_allocate_nothing() {
    let _alone = alone_on_the_core();
    for mailbox in [
        Mailbox::bounded(8).drop_newest(),
        Mailbox::bounded(8).drop_oldest(),
        Mailbox::conflated(),
        Mailbox::bounded(8).prioritised(),
        Mailbox::bounded(8),
    ] {
        let sim = Dispatcher::seeded(1);
        let system = System::builder("board", sim.runtime()).build().unwrap();
        let actor = system
            .spawn(
                "actor",
                Props::from_fn(
                    || 0,
                    |sum: &mut u64, n: u64| {
                        *sum += n;
                        Ok::<(), Broken>(())
                    },
                )
                .mailbox(mailbox),
            )
            .unwrap();
        sim.drain_ready();
        system.seal().unwrap();
        let allocated = allocations(|| {
            for n in 0..1_000 {
                (0..20).for_each(|_| drop(actor.tell(n)));
                sim.drain_ready();
            }
        });
        assert!(system.counts().is_settled());
        if cfg!(not(feature = "std")) {
            assert_eq!(allocated, 0, "{mailbox:?}");
        }
    }
}

/// Asks that fail, are dropped by the actor, or time out.
#[test]
fn d3_asks_without_an_answer_allocate_nothing_in_a_sealed_system() {
    let _alone = alone_on_the_core();
    let board = board(None);
    let mut cx = TaskContext::from_waker(Waker::noop());
    let allocated = allocations(|| {
        for round in 0..100 {
            let begin = Instant::after_start(Duration::from_millis(20) * round);
            let mut failed = pin!(board.worker.ask(Work::FailTo));
            let mut dropped = pin!(board.worker.ask(Work::Ignore));
            assert!(failed.as_mut().poll(&mut cx).is_pending() && dropped.as_mut().poll(&mut cx).is_pending());
            board.sim.run_until_time(begin + Duration::from_millis(5));
            assert!(matches!(failed.as_mut().poll(&mut cx), Poll::Ready(Err(AskError::Failed(_)))));
            assert!(matches!(dropped.as_mut().poll(&mut cx), Poll::Ready(Err(AskError::Dropped))));
            board.sim.run_until_time(begin + Duration::from_millis(20));
        }
    });
    assert!(board.system.refusals().is_empty());
    if cfg!(not(feature = "std")) {
        assert_eq!(allocated, 0);
    }
}

/// The actor keeps the small batch that it is working on, and its mailbox fills up meanwhile.
#[test]
fn d3_an_actor_that_is_busy_when_its_system_is_sealed_allocates_nothing() {
    let _alone = alone_on_the_core();
    let sim = Dispatcher::seeded(1);
    let system = System::builder("board", sim.runtime()).build().unwrap();
    let gate = Arc::new(AtomicU32::new(0));
    let opened = Arc::clone(&gate);
    let props = Props::new(move || Gated(Arc::clone(&opened))).mailbox(Mailbox::bounded(64));
    let actor = system.spawn("actor", props).unwrap();
    sim.drain_ready();
    (0..3).for_each(|_| actor.tell(1).unwrap());
    sim.drain_ready();
    system.seal().unwrap();
    let allocated = allocations(|| {
        for round in 1..=10 {
            (0..60).for_each(|_| actor.tell(1).unwrap());
            gate.store(1, Ordering::Relaxed);
            sim.run_until_time(Instant::after_start(Duration::from_millis(10) * round));
        }
    });
    assert_eq!(actor.counts().handled, 603);
    if cfg!(not(feature = "std")) {
        assert_eq!(allocated, 0);
    }
}
