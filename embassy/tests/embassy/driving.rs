//! One task drives a system: it sleeps when idle, and its timers are those of Embassy.

use crate::common::{advance, advance_ticks, on_embassy, settle};
use core::convert::Infallible;
use core::fmt;
use core::time::Duration;
use embassy_executor::Spawner;
use pleach_core::{Actor, Context, Dispatcher, ExponentialBackoff, OneForOne, Props, Reply, SupervisorDirective, System};
use std::boxed::Box;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::vec::Vec;

/// Counts messages, and one more with each timer.
struct Counter {
    every: Option<Duration>,
    count: u32,
}

enum Msg {
    Count,
    Total(Reply<u32>),
}

impl Actor for Counter {
    type Msg = Msg;
    type Error = Infallible;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), Infallible> {
        if let Some(every) = self.every {
            cx.send_every(every, || Msg::Count);
        }
        Ok(())
    }

    async fn handle(&mut self, msg: Msg, _cx: &mut Context<Self>) -> Result<(), Infallible> {
        match msg {
            Msg::Count => self.count += 1,
            Msg::Total(reply) => reply.send(self.count),
        }
        Ok(())
    }
}

fn counter(every: Option<Duration>) -> Props<Counter> {
    Props::new(move || Counter { every, count: 0 })
}

/// Drives `dispatcher` and counts how often the executor polls the task.
#[embassy_executor::task(pool_size = 4)]
async fn drive_and_count(dispatcher: &'static Dispatcher, polls: Arc<AtomicU32>) {
    let mut driving = pin!(dispatcher.run_forever());
    poll_fn(|cx| {
        polls.fetch_add(1, Ordering::Relaxed);
        driving.as_mut().poll(cx).map(|never| match never {})
    })
    .await;
}

fn counted(spawner: Spawner) -> (System, Arc<AtomicU32>) {
    let dispatcher: &'static Dispatcher = Box::leak(Box::new(pleach_embassy::dispatcher()));
    let polls = Arc::new(AtomicU32::new(0));
    spawner.spawn(drive_and_count(dispatcher, Arc::clone(&polls)).expect("a task is free"));
    (System::builder("board", dispatcher.runtime()).build().expect("a valid name"), polls)
}

#[test]
fn d3_idle_system_is_not_polled() {
    on_embassy(|spawner| async move {
        let (system, polls) = counted(spawner);
        let idle: Vec<_> = (0..50).map(|_| system.spawn_unnamed(counter(None)).unwrap()).collect();
        let timed = system.spawn("timed", counter(Some(Duration::from_secs(60)))).unwrap();
        settle().await;
        let before = polls.load(Ordering::Relaxed);
        for _ in 0..59 {
            advance(1_000).await;
        }
        advance_ticks(embassy_time::TICK_HZ - 1).await;
        assert_eq!(polls.load(Ordering::Relaxed), before, "no poll while nothing is due, up to the last tick");
        advance_ticks(1).await;
        let one_timer = polls.load(Ordering::Relaxed) - before;
        assert_eq!(timed.ask(Msg::Total).await.unwrap(), 1);
        assert!((1..=3).contains(&one_timer), "one timer took {one_timer} polls of the task");
        drop(idle);
    });
}

#[test]
fn d3_timers_are_due_at_their_tick_and_not_before() {
    on_embassy(|spawner| async move {
        let (system, _) = counted(spawner);
        let timed = system.spawn("timed", counter(Some(Duration::from_millis(10)))).unwrap();
        settle().await;
        for due in 0..100 {
            advance(9).await;
            assert_eq!(timed.ask(Msg::Total).await.unwrap(), due, "1 ms before the timer");
            advance(1).await;
            assert_eq!(timed.ask(Msg::Total).await.unwrap(), due + 1, "at the timer");
        }
    });
}

/// Fails with each message.
struct Failing;

#[derive(Debug)]
struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broken")
    }
}

impl core::error::Error for Broken {}

impl Actor for Failing {
    type Msg = ();
    type Error = Broken;

    async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), Broken> {
        Err(Broken)
    }
}

#[test]
fn d3_backoff_waits_on_the_clock_of_embassy() {
    on_embassy(|spawner| async move {
        let (system, _) = counted(spawner);
        let backoff = ExponentialBackoff::new(Duration::from_millis(100), Duration::from_secs(1)).jitter(0.0);
        let strategy = OneForOne::new().deciding(move |_| SupervisorDirective::Restart).backoff(backoff);
        let workers = system.supervisor("workers", strategy).unwrap();
        let starts = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&starts);
        let props = Props::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Failing
        });
        let failing = workers.spawn("failing", props).unwrap();
        failing.tell(()).unwrap();
        settle().await;
        advance(99).await;
        assert_eq!(starts.load(Ordering::Relaxed), 1, "1 ms before the end of the backoff");
        advance(1).await;
        assert_eq!(starts.load(Ordering::Relaxed), 2);
    });
}
