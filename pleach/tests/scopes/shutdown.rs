//! T13: the shutdown of a system.

use pleach::BoxError;
use pleach::actor::{AskError, Refusal};
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::sim::{Sim, explore};
use pleach::system::{LookupError, ShutdownError};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

/// Waits for the given time, then counts.
struct Slow {
    runtime: Arc<dyn Runtime>,
    handled: Arc<AtomicUsize>,
}

impl Actor for Slow {
    type Msg = Duration;
    type Error = BoxError;

    async fn handle(&mut self, wait: Duration, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.runtime.sleep_until(self.runtime.now() + wait).await;
        self.handled.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn slow(sim: &Sim, handled: &Arc<AtomicUsize>) -> Props<Slow> {
    let (runtime, handled) = (sim.runtime(), Arc::clone(handled));
    Props::new(move || Slow { runtime: Arc::clone(&runtime), handled: Arc::clone(&handled) })
}

#[test]
fn t13_shutdown_accepts_no_more_and_handles_queued_messages() {
    explore(0..100, |sim| {
        let system = sim.system("t13");
        let handled = Arc::new(AtomicUsize::new(0));
        let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
        let actors: Vec<_> = (0..3).map(|n| supervisor.spawn(&n.to_string(), slow(sim, &handled)).unwrap()).collect();
        for actor in &actors {
            (0..10).for_each(|_| actor.tell(Duration::from_millis(10)).unwrap());
        }
        let began = sim.now();
        sim.run(async {
            let shutdown = system.shutdown(Duration::from_secs(60));
            let mut shutdown = std::pin::pin!(shutdown);
            assert!(futures::poll!(shutdown.as_mut()).is_pending());
            let refused = system.spawn("late", slow(sim, &handled)).unwrap_err();
            assert_eq!(refused.reason, Refusal::ShuttingDown { parent: "/user".parse().unwrap() });
            assert!(system.scope("late").is_err() && system.supervisor("late", OneForOne::new()).is_err());
            shutdown.await.unwrap();
        });
        assert_eq!(sim.now() - began, Duration::from_millis(100), "it ends when all messages are handled");
        assert_eq!(handled.load(Ordering::Relaxed), 30);
        assert!(actors.iter().all(|actor| actor.exit() == Some(Exit::Closed)));
        assert_eq!(system.counts(), Counts { accepted: 30, handled: 30, ..Counts::default() });
    });
}

#[test]
fn t13_shutdown_cancels_at_the_deadline_and_lists_who_was_running() {
    explore(0..50, |sim| {
        let system = sim.system("t13");
        let handled = Arc::new(AtomicUsize::new(0));
        let late = system.spawn("late", slow(sim, &handled)).unwrap();
        let fast = system.spawn("fast", slow(sim, &handled)).unwrap();
        fast.tell(Duration::from_millis(1)).unwrap();
        late.tell(Duration::from_secs(3_600)).unwrap();
        late.tell(Duration::ZERO).unwrap();
        let Err(error) = sim.run(system.shutdown(Duration::from_secs(2))) else { panic!("one actor was late") };
        let ShutdownError::Late(running) = &error else { panic!("it ended after the cancel: {error}") };
        assert!(running.iter().any(|one| one.path == late.path()) && running.iter().all(|one| one.path != fast.path()));
        assert!(error.to_string().contains("/user/late"), "{error}");
        assert_eq!(sim.now().since_start(), Duration::from_secs(2));
        assert_eq!(late.exit(), Some(Exit::Cancelled(Cause::DeadlineExceeded)));
        assert_eq!(fast.exit(), Some(Exit::Closed));
        let Counts { accepted, handled, failed, dead_lettered } = system.counts();
        assert_eq!((accepted, handled, failed, dead_lettered), (3, 1, 1, 1));
        assert!(system.root().running().is_empty());
        sim.run(system.shutdown(Duration::ZERO)).unwrap();
    });
}

#[test]
fn t13_dropped_shutdown_still_cancels_at_its_deadline() {
    explore(0..50, |sim| {
        for waited in [0, 1] {
            let (system, handled) = (sim.system("t13"), Arc::new(AtomicUsize::new(0)));
            let late = system.spawn("late", slow(sim, &handled)).unwrap();
            late.tell(Duration::from_secs(3_600)).unwrap();
            let began = sim.now();
            sim.run(async {
                let mut shutdown = Box::pin(system.shutdown(Duration::from_secs(2)));
                assert!(futures::poll!(&mut shutdown).is_pending());
                sim.sleep(Duration::from_secs(waited)).await;
            });
            assert_eq!(sim.run(late.exited()), Exit::Cancelled(Cause::DeadlineExceeded));
            assert_eq!(sim.now() - began, Duration::from_secs(2));
            sim.run(system.ended()).unwrap();
            sim.settle();
            assert_eq!(sim.tasks_alive(), 0);
        }
    });
}

#[test]
fn t13_several_callers_may_shut_down_at_once() {
    explore(0..50, |sim| {
        let system = sim.system("t13");
        let handled = Arc::new(AtomicUsize::new(0));
        let actor = system.spawn("a", slow(sim, &handled)).unwrap();
        actor.tell(Duration::from_millis(5)).unwrap();
        let both = futures::future::join(system.shutdown(Duration::from_secs(1)), system.shutdown(Duration::from_secs(9)));
        let (one, other) = sim.run(both);
        assert!(one.is_ok() && other.is_ok());
        assert_eq!(handled.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn t13_kill_and_drop_cancel_at_once_with_their_cause() {
    explore(0..50, |sim| {
        for (dropped, cause) in [(false, Cause::Cancelled), (true, Cause::Dropped)] {
            let system = sim.system("t13");
            let (root, handled) = (system.root(), Arc::new(AtomicUsize::new(0)));
            let scope = system.scope("s").unwrap();
            let actors = [system.spawn("a", slow(sim, &handled)).unwrap(), scope.spawn("b", slow(sim, &handled)).unwrap()];
            for actor in &actors {
                (0..3).for_each(|_| actor.tell(Duration::from_secs(1)).unwrap());
            }
            let task = scope.launch(pending::<()>()).unwrap();
            let now = sim.run(async {
                sim.yield_now().await;
                sim.now()
            });
            if dropped {
                drop(system);
            } else {
                system.cancel(Cause::Cancelled);
            }
            for exited in [actors[0].exited(), actors[1].exited(), task.exited(), scope.exited()] {
                assert_eq!(sim.run(exited), Exit::Cancelled(cause.clone()));
            }
            assert_eq!((sim.now(), handled.load(Ordering::Relaxed)), (now, 0));
            assert!(root.running().is_empty() && root.counts().is_settled(), "{}", root.counts());
            assert_eq!(root.counts().accepted, 6);
        }
    });
}

#[test]
fn t13_operations_after_a_shutdown_return_errors() {
    let sim = Sim::new(13);
    let system = sim.system("t13");
    let handled = Arc::new(AtomicUsize::new(0));
    let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
    let scope = system.scope("s").unwrap();
    let actor = supervisor.spawn("a", slow(&sim, &handled)).unwrap();
    sim.run(system.shutdown(Duration::from_secs(1))).unwrap();
    assert!(matches!(system.spawn("b", slow(&sim, &handled)).unwrap_err().reason, Refusal::ShuttingDown { .. }));
    assert!(matches!(system.spawn_unnamed(slow(&sim, &handled)).unwrap_err().reason, Refusal::ShuttingDown { .. }));
    assert!(matches!(supervisor.spawn("b", slow(&sim, &handled)).unwrap_err().reason, Refusal::ShuttingDown { .. }));
    assert!(matches!(scope.launch(async {}).unwrap_err().reason, Refusal::ShuttingDown { .. }));
    assert!(matches!(system.scope("t"), Err(Refusal::ShuttingDown { .. })));
    let wait = Duration::from_millis(7);
    assert!(matches!(actor.tell(wait), Err(SendError::Closed(back)) if back == wait));
    assert!(matches!(sim.run(actor.send(wait)), Err(SendError::Closed(back)) if back == wait));
    assert!(matches!(sim.run(actor.ask(|_: Reply<()>| wait)), Err(AskError::Closed)));
    assert!(
        matches!(system.root().lookup::<Duration>(&actor.path()), Err(LookupError::NotFound(path)) if path == actor.path())
    );
    assert_eq!(sim.run(actor.exited()), Exit::Closed);
    sim.run(system.ended()).unwrap();
    sim.run(system.shutdown(Duration::from_secs(1))).unwrap();
    system.cancel(Cause::Cancelled);
    assert_eq!(system.counts(), Counts::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t13_shutdown_on_tokio_lists_members_that_do_not_end() {
    let system = ActorSystem::builder("t13").grace(Duration::from_millis(50)).build().unwrap();
    let scope = system.scope("s").unwrap();
    let (release, released) = channel::<()>();
    scope.task().named("stuck").launch(async move { released.recv().map_err(BoxError::from) }).unwrap();
    let actor = system.spawn("fine", Props::from_fn(|| (), |(), _: u32| Ok::<(), BoxError>(()))).unwrap();
    (0..100).for_each(|n| actor.tell(n).unwrap());
    let error = system.shutdown(Duration::from_millis(50)).await.unwrap_err();
    let ShutdownError::Stuck(running) = &error else { panic!("{error}") };
    let stuck: Vec<_> = running.iter().filter(|one| one.in_poll).map(|one| one.path.to_string()).collect();
    assert_eq!(stuck, ["/user/s/stuck"]);
    assert!(error.to_string().contains("/user/s/stuck (cancelled "), "{error}");
    assert_eq!(actor.exit(), Some(Exit::Closed), "the youngest handled its messages first");
    release.send(()).unwrap();
    system.ended().await.unwrap();
    assert_eq!(system.counts().handled, 100);
}

/// An actor with a binary tree of children.
struct TreeActor {
    depth: u32,
}

impl Actor for TreeActor {
    type Msg = bool;
    type Error = BoxError;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        if self.depth > 0 {
            for n in 0..2 {
                let depth = self.depth - 1;
                let child = cx.spawn(&n.to_string(), Props::new(move || TreeActor { depth })).unwrap();
                child.tell(false)?;
                child.tell(true)?;
                child.tell(false)?;
            }
        }
        Ok(())
    }

    async fn handle(&mut self, wait: bool, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        if wait {
            pending::<()>().await;
        }
        Ok(())
    }
}

#[test]
fn t13_dropped_tokio_runtime_settles_counts_and_empties_the_tree() {
    for workers in [1, 2] {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap();
        let guard = runtime.enter();
        let system = ActorSystem::new("orphans").unwrap();
        let scope = system.scope("s").unwrap();
        let actor = scope.spawn("top", Props::new(|| TreeActor { depth: 4 })).unwrap();
        let task = scope.launch(pending::<()>()).unwrap();
        let mut produced = scope.produce::<u32, _>(1, |out| async { drop((out, pending::<()>().await)) }).unwrap();
        // 30 actors below the top one. Each handles one message, waits in the second and has the
        // third queued.
        while system.counts().handled < 30 || system.counts().accepted < 90 {
            std::thread::yield_now();
        }
        drop(guard);
        drop(runtime);
        let ended = Exit::Cancelled(Cause::Dropped);
        assert_eq!((actor.exit(), task.any().exit()), (Some(ended.clone()), Some(ended)));
        assert_eq!(pleach::runtime::block_on(produced.next()), None);
        let counts = system.counts();
        assert!(counts.is_settled(), "{counts}");
        assert_eq!((counts.accepted, counts.handled), (90, 30));
        scope.blocking_wait_all_for(Duration::ZERO).unwrap();
        drop(scope);
        assert_eq!(system.root().running().len(), 2, "only the guardians remain");
        pleach::runtime::block_on(system.shutdown(Duration::from_secs(1))).unwrap();
        assert!(system.root().running().is_empty());
        // A task launched on a dropped runtime ends at once.
        let scope = Scope::under(&CancelToken::root(pleach::runtime::TokioRuntime::new(dead_handle()).unwrap()));
        let task = scope.launch(pending::<()>()).unwrap();
        assert_eq!(task.any().exit(), Some(Exit::Cancelled(Cause::Dropped)));
    }
}

fn dead_handle() -> tokio::runtime::Handle {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.handle().clone()
}
