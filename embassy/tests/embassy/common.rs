//! Runs the body of a test as a task of Embassy, in mock time.

use embassy_executor::{Executor, Spawner};
use embassy_time::MockDriver;
use pleach_core::{Dispatcher, System};
use std::boxed::Box;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError, mpsc};
use std::task::Poll;
use std::thread;

/// How many times `settle` yields: more than any test needs until nothing is ready.
const YIELDS: u32 = 200;

type Body = Pin<Box<dyn Future<Output = ()>>>;

#[embassy_executor::task(pool_size = 32)]
async fn run(body: Body) {
    body.await;
}

/// Runs `body` on a new executor, on a thread of its own. Tests run one after the other, because
/// the mock time is one for the process.
pub fn on_embassy<F: Future<Output = ()> + 'static>(body: impl FnOnce(Spawner) -> F + Send + 'static) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (done, ended) = mpsc::channel();
    executor(move |spawner| async move {
        body(spawner).await;
        done.send(()).expect("the test waits");
    });
    ended.recv().expect("the body panicked");
}

/// Starts a new executor, on a thread of its own, which lives until the process ends.
pub fn executor<F: Future<Output = ()> + 'static>(body: impl FnOnce(Spawner) -> F + Send + 'static) {
    thread::spawn(move || {
        let executor: &'static mut Executor = Box::leak(Box::new(Executor::new()));
        executor.run(|spawner| spawner.spawn(run(Box::pin(body(spawner))).expect("a task is free")))
    });
}

/// Lets all tasks of this executor run until none has anything left to do.
pub async fn settle() {
    for _ in 0..YIELDS {
        let mut has_yielded = false;
        poll_fn(|cx| {
            cx.waker().wake_by_ref();
            if core::mem::replace(&mut has_yielded, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Advances the mock time, and lets all tasks of this executor run.
pub async fn advance(millis: u64) {
    advance_ticks(millis * embassy_time::TICK_HZ / 1_000).await;
}

/// Advances the mock time by some of its ticks, and lets all tasks of this executor run.
pub async fn advance_ticks(ticks: u64) {
    MockDriver::get().advance(embassy_time::Duration::from_ticks(ticks));
    settle().await;
}

#[embassy_executor::task(pool_size = 32)]
async fn drive(dispatcher: Dispatcher) {
    match dispatcher.run_forever().await {}
}

/// Starts a system on a runtime of its own. Only the test of `start` uses `start`, because the
/// number of its tasks is limited.
pub fn system(spawner: Spawner) -> System {
    let dispatcher = pleach_embassy::dispatcher();
    let runtime = dispatcher.runtime();
    spawner.spawn(drive(dispatcher).expect("a task is free"));
    System::builder("board", runtime).build().expect("a valid name")
}
