//! A10 and D1: the Tokio runtime of a system is dropped while others wait for its members.
#![cfg(feature = "tokio")]

use crate::common::{Gate, Job, Log, TestActor, poll_once};
use pleach::prelude::*;
use pleach::runtime::{TokioRuntime, block_on};

fn tokio_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn system_on(runtime: &tokio::runtime::Runtime) -> ActorSystem {
    let runtime = TokioRuntime::new(runtime.handle().clone()).unwrap();
    ActorSystem::builder("s").runtime(runtime).build().unwrap()
}

#[test]
fn d1_wait_from_another_runtime_survives_a_dropped_runtime() {
    let (runtime, other) = (tokio_runtime(), tokio_runtime());
    let system = system_on(&runtime);
    let scope = system.scope("scope").unwrap();
    let actor = TestActor::spawn(&system, "a");
    other.block_on(async move {
        let mut ask = Box::pin(actor.ask(|reply| Job::Answer(reply, 1)).timeout(Duration::from_secs(3_600)));
        assert!(futures::poll!(&mut ask).is_pending());
        let mut sleep = Box::pin(async { scope.token().child_for(Duration::from_millis(20)).cancelled().await });
        assert!(futures::poll!(&mut sleep).is_pending());
        let mut wait = Box::pin(system.shutdown(Duration::from_secs(3_600)));
        drop(tokio::task::spawn_blocking(move || drop(runtime)).await);
        let answer = ask.await;
        assert!(matches!(answer, Err(AskError::Cancelled(Cause::Dropped))), "{answer:?}");
        drop(sleep);
        drop(futures::poll!(&mut wait));
    });
}

#[test]
fn d1_bounded_wait_ends_after_its_runtime_was_dropped() {
    let tokio = tokio_runtime();
    let runtime = TokioRuntime::new(tokio.handle().clone()).unwrap();
    drop(tokio);
    let wait = Duration::from_millis(20);
    let start = pleach::runtime::Runtime::now(&*runtime);
    block_on(pleach::runtime::Runtime::sleep_until(&*runtime, start + wait));
    assert!(pleach::runtime::Runtime::now(&*runtime) >= start + wait, "not before the deadline");
}

/// Runs the tasks of the runtime until they wait.
fn settle(runtime: &tokio::runtime::Runtime) {
    runtime.block_on(async {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    });
}

fn answer(reply: Reply<u32>) -> Job {
    Job::Answer(reply, 1)
}

#[test]
fn a10_unhandled_asks_are_cancelled_with_the_runtime() {
    let runtime = tokio_runtime();
    let system = system_on(&runtime);
    let log = Log::new();
    let [busy, holder] = ["busy", "holder"].map(|name| system.spawn(name, TestActor::props(&log)).unwrap());
    let mut never = None;
    // Behind a handler, in the state, in the mailbox, and in an actor that is never polled.
    busy.tell(Job::Pass(Gate::new(), 1)).unwrap();
    let mut asks = vec![Box::pin(busy.ask(answer as fn(Reply<u32>) -> Job)), Box::pin(holder.ask(Job::KeepReply as _))];
    asks.iter_mut().for_each(|ask| assert!(poll_once(ask).is_pending()));
    settle(&runtime);
    let never = never.insert(system.spawn("never", TestActor::props(&log)).unwrap());
    for ask in [busy.ask(answer as fn(Reply<u32>) -> Job), never.ask(answer as _)] {
        let mut ask = Box::pin(ask);
        assert!(poll_once(&mut ask).is_pending());
        asks.push(ask);
    }
    drop(runtime);
    for (at, ask) in asks.into_iter().enumerate() {
        let answer = block_on(ask);
        assert!(matches!(answer, Err(AskError::Cancelled(Cause::Dropped))), "{at}: {answer:?}");
    }
    assert!(system.counts().is_settled(), "{}", system.counts());
}

#[test]
fn a10_ask_in_a_handler_is_cancelled_with_the_runtime() {
    let runtime = tokio_runtime();
    let system = system_on(&runtime);
    let actor = TestActor::spawn(&system, "a");
    let mut ask = Box::pin(actor.ask(|reply| {
        Job::work(move |_| async move {
            std::future::pending::<()>().await;
            reply.send(1);
            Ok(())
        })
    }));
    assert!(poll_once(&mut ask).is_pending());
    settle(&runtime);
    drop(runtime);
    let answer: Result<u32, _> = block_on(ask);
    assert!(matches!(answer, Err(AskError::Cancelled(Cause::Dropped))), "{answer:?}");
}
