//! D1 and A9: one program on every runtime, and the cost of an idle system.

use crate::common::counter::{counter, system_on};
use pleach::BoxError;
use pleach::prelude::*;
use pleach::runtime::{BoxFuture, Dispatcher, Instant, Runtime, TokioRuntime, block_on};
use pleach::sim::Sim;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// A runtime that counts the polls of its tasks.
struct CountingRuntime {
    inner: Arc<dyn Runtime>,
    polls: Arc<AtomicU64>,
}

impl Runtime for CountingRuntime {
    fn spawn(&self, mut task: BoxFuture<'static, ()>) {
        let polls = Arc::clone(&self.polls);
        self.inner.spawn(Box::pin(poll_fn(move |cx| {
            polls.fetch_add(1, Ordering::SeqCst);
            task.as_mut().poll(cx)
        })));
    }

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        self.inner.sleep_until(at)
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }
}

/// A program with actors, restarts, asks, scopes, tasks, producers, timers and a shutdown. Returns
/// its results.
async fn program(runtime: Arc<dyn Runtime>) -> (u32, Vec<u32>, Counts, usize) {
    let system = system_on(Arc::clone(&runtime));
    let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
    let ask = |sum: &mut u32, (n, reply): (u32, Option<Reply<u32>>)| {
        *sum += n;
        reply.into_iter().for_each(|reply| reply.send(*sum));
        if n == 0 { Err(BoxError::from("zero")) } else { Ok(()) }
    };
    let adder = supervisor.spawn("adder", Props::from_fn(|| 0, ask)).unwrap();
    for n in [5, 0, 1, 2] {
        adder.send((n, None)).await.unwrap();
    }
    let sum = adder.ask(|reply| (3, Some(reply))).await.unwrap();
    let scope = system.scope("s").unwrap();
    let mut produced = scope
        .produce(1, |mut out| async move {
            for n in 0..3 {
                runtime.sleep_until(runtime.now() + Duration::from_millis(1)).await;
                out.send(n).await.map_err(|_| "receiver dropped")?;
            }
            Ok::<(), BoxError>(())
        })
        .unwrap();
    let mut items = Vec::new();
    while let Some(item) = produced.next().await {
        items.push(item);
    }
    scope.wait_all().await.unwrap();
    drop(scope);
    system.shutdown(Duration::from_secs(30)).await.unwrap();
    (sum, items, system.counts(), system.failures())
}

#[test]
fn d1_one_program_runs_the_same_on_every_runtime() {
    let counts = Counts { accepted: 5, handled: 4, failed: 1, dead_lettered: 0 };
    let expected = (6, vec![0, 1, 2], counts, 1);

    let sim = Sim::new(1);
    assert_eq!(sim.run(program(sim.runtime())), expected);

    let dispatcher = Dispatcher::on_std();
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| dispatcher.blocking_dispatch_loop(|| done.load(Ordering::SeqCst)));
        assert_eq!(block_on(program(dispatcher.runtime())), expected);
        done.store(true, Ordering::SeqCst);
        dispatcher.runtime().spawn(Box::pin(async {}));
    });

    let single = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(single.block_on(program(TokioRuntime::new(single.handle().clone()).unwrap())), expected);
    let many = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    assert_eq!(many.block_on(program(TokioRuntime::new(many.handle().clone()).unwrap())), expected);
    // From outside: only the threads of the runtime do the work.
    let counting =
        Arc::new(CountingRuntime { inner: TokioRuntime::new(many.handle().clone()).unwrap(), polls: Arc::default() });
    let runtime: Arc<dyn Runtime> = counting.clone();
    assert_eq!(block_on(program(runtime)), expected);
    assert!(counting.polls.load(Ordering::SeqCst) > 0);
}

#[test]
fn d1_error_without_a_runtime_says_what_to_do() {
    assert!(matches!(ActorSystem::new("nowhere"), Err(pleach::Error::NoRuntime)));
    assert!(pleach::scope().is_err());
    let error = pleach::token().unwrap_err();
    assert!(error.to_string().contains("call this inside one"), "{error}");
}

#[test]
fn a9_idle_system_of_100_000_actors_makes_no_poll_on_tokio() {
    // The paused clock jumps when the runtime is idle, so an idle hour takes no time.
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let polls = Arc::new(AtomicU64::new(0));
    let runtime = CountingRuntime { inner: TokioRuntime::new(tokio.handle().clone()).unwrap(), polls: Arc::clone(&polls) };
    let system = system_on(Arc::new(runtime));
    let handled = Arc::new(AtomicUsize::new(0));
    let actors: Vec<_> = (0..100_000).map(|_| system.spawn_unnamed(counter(&handled)).unwrap()).collect();
    for actor in &actors {
        actor.tell(1).unwrap();
    }
    let idle_for = |time| tokio.block_on(async { tokio::time::sleep(time).await });
    idle_for(Duration::from_millis(1));
    assert_eq!(handled.load(Ordering::SeqCst), actors.len());
    let before = polls.load(Ordering::SeqCst);
    idle_for(Duration::from_secs(3_600));
    assert_eq!(polls.load(Ordering::SeqCst), before);
    actors[7].tell(1).unwrap();
    idle_for(Duration::from_millis(1));
    assert_eq!(actors[7].counts().handled, 2);
    assert!(polls.load(Ordering::SeqCst) > before, "polls are counted");
}

#[test]
fn d1_tokio_runtime_without_timers_is_refused() {
    let bare = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(TokioRuntime::new(bare.handle().clone()).unwrap_err(), pleach::runtime::NoRuntime::WithoutTime);
    bare.block_on(async {
        let error = ActorSystem::new("bare").unwrap_err();
        assert!(matches!(error, pleach::Error::WithoutTime) && error.to_string().contains("enable_time"), "{error}");
        assert_eq!(pleach::scope().unwrap_err(), pleach::runtime::NoRuntime::WithoutTime);
    });
}
