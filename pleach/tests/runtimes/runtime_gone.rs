//! T4, A8: the Tokio runtime of a system is dropped while others still wait for something in it.
#![cfg(feature = "tokio")]

use crate::common::{Doer, Gate, Job, Log, poll_once};
use pleach::prelude::*;
use pleach::{TokioRuntime, block_on};

fn tokio_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn system_on(runtime: &tokio::runtime::Runtime) -> ActorSystem {
    let runtime = TokioRuntime::new(runtime.handle().clone()).unwrap();
    ActorSystem::builder("s").runtime(runtime).build().unwrap()
}

#[test]
fn w10_waits_from_another_runtime_survive_the_end_of_this_one() {
    let (home, away) = (tokio_runtime(), tokio_runtime());
    let system = system_on(&home);
    let scope = system.scope("scope").unwrap();
    let actor = system.spawn("a", Doer::props(&Log::new())).unwrap();
    away.block_on(async move {
        let mut ask = Box::pin(actor.ask(|reply| Job::Answer(reply, 1)).timeout(Duration::from_secs(3_600)));
        assert!(futures::poll!(&mut ask).is_pending());
        let mut sleep = Box::pin(async { scope.token().child_for(Duration::from_millis(20)).cancelled().await });
        assert!(futures::poll!(&mut sleep).is_pending());
        let mut wait = Box::pin(system.shutdown(Duration::from_secs(3_600)));
        drop(tokio::task::spawn_blocking(move || drop(home)).await);
        let answer = ask.await;
        assert!(matches!(answer, Err(AskError::Cancelled(Cause::Dropped))), "{answer:?}");
        drop(sleep);
        drop(futures::poll!(&mut wait));
    });
}

#[test]
fn w10_a_bounded_wait_still_answers_after_its_runtime_is_gone() {
    let home = tokio_runtime();
    let runtime = TokioRuntime::new(home.handle().clone()).unwrap();
    drop(home);
    let wait = Duration::from_millis(20);
    let begun = pleach::Runtime::now(&*runtime);
    block_on(pleach::Runtime::sleep_until(&*runtime, begun + wait));
    assert!(pleach::Runtime::now(&*runtime) >= begun + wait, "not before its time");
}

/// Lets everything on the runtime run until it waits.
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
fn w9b_asks_that_no_handler_saw_are_cancelled_with_the_runtime() {
    let home = tokio_runtime();
    let system = system_on(&home);
    let log = Log::new();
    let [busy, keeper] = ["busy", "keeper"].map(|name| system.spawn(name, Doer::props(&log)).unwrap());
    let mut never = None;
    // Behind a handler in the batch, in the state, in the mailbox, and in an actor that is never polled.
    busy.tell(Job::Pass(Gate::new(), 1)).unwrap();
    let mut asks = vec![Box::pin(busy.ask(answer as fn(Reply<u32>) -> Job)), Box::pin(keeper.ask(Job::Keep as _))];
    asks.iter_mut().for_each(|ask| assert!(poll_once(ask).is_pending()));
    settle(&home);
    let never = never.insert(system.spawn("never", Doer::props(&log)).unwrap());
    for ask in [busy.ask(answer as fn(Reply<u32>) -> Job), never.ask(answer as _)] {
        let mut ask = Box::pin(ask);
        assert!(poll_once(&mut ask).is_pending());
        asks.push(ask);
    }
    drop(home);
    for (at, ask) in asks.into_iter().enumerate() {
        let answer = block_on(ask);
        assert!(matches!(answer, Err(AskError::Cancelled(Cause::Dropped))), "{at}: {answer:?}");
    }
    assert!(system.counts().is_settled(), "{}", system.counts());
}

#[test]
fn w9b_a_reply_inside_a_handler_is_cancelled_with_the_runtime() {
    let home = tokio_runtime();
    let system = system_on(&home);
    let actor = system.spawn("a", Doer::props(&Log::new())).unwrap();
    let mut ask = Box::pin(actor.ask(|reply| {
        Job::work(move |_| async move {
            std::future::pending::<()>().await;
            reply.send(1);
            Ok(())
        })
    }));
    assert!(poll_once(&mut ask).is_pending());
    settle(&home);
    drop(home);
    let answer: Result<u32, _> = block_on(ask);
    assert!(matches!(answer, Err(AskError::Cancelled(Cause::Dropped))), "{answer:?}");
}
