//! T4, T5, T6 and T12: what a scope owns, waits for and refuses. `on_done` is tested in
//! `on_done.rs`.

use futures::FutureExt;
use pleach::BoxError;
use pleach::actor::Refusal;
use pleach::prelude::*;
use pleach::scope::WaitError;
use pleach::sim::{Sim, explore};
use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Wake, Waker};

/// An actor that adds numbers and fails on zero.
fn adder() -> Props<impl Actor<Msg = u32>> {
    let add = |sum: &mut u32, n: u32| {
        *sum += n;
        if n == 0 { Err(BoxError::from("zero")) } else { Ok(()) }
    };
    Props::from_fn(|| 0, add)
}

fn paths(running: &[pleach::scope::Running]) -> Vec<String> {
    running.iter().map(|member| member.path.to_string()).collect()
}

#[test]
fn t4_every_child_is_added_once_and_removed_once() {
    explore(0..200, |sim| {
        let system = sim.system("t4");
        let ended = Arc::new(Mutex::new(BTreeMap::<String, u32>::new()));
        let log = Arc::clone(&ended);
        system.on_event(move |event| {
            if let Event::Ended { path, .. } = event {
                *log.lock().unwrap().entry(path.to_string()).or_default() += 1;
            }
        });
        let scope = system.scope("s").unwrap();
        scope.task().named("task").launch(async {}).unwrap();
        let actor = scope.spawn("actor", adder()).unwrap();
        let inner = scope.scope("inner").unwrap();
        inner.task().named("deep").launch(async {}).unwrap();
        let supervisor = scope.supervisor("supervisor", OneForOne::new()).unwrap();
        supervisor.spawn("worker", adder()).unwrap();
        let produced = scope.produce(1, |mut out| async move { out.send(1).await.map_err(|_| "receiver dropped") }).unwrap();
        let producer = produced.task().path().to_string();
        let names = || scope.children().iter().map(|child| child.path().to_string()).collect::<Vec<_>>();
        let all = ["/user/s/task", "/user/s/actor", "/user/s/inner", "/user/s/supervisor", producer.as_str()];
        assert_eq!(names(), all);

        sim.settle();
        assert_eq!(names(), ["/user/s/actor", "/user/s/inner", "/user/s/supervisor"], "ended children are removed");
        actor.stop();
        inner.close();
        supervisor.any().stop();
        sim.run(scope.wait_all()).unwrap();
        assert!(scope.children().is_empty());
        let ended = ended.lock().unwrap();
        let below = ["/user/s/inner/deep", "/user/s/supervisor/worker"];
        assert!(all.iter().chain(&below).all(|path| ended.get(*path) == Some(&1)), "{ended:?}");
        assert_eq!(ended.len(), 7);
    });
}

#[test]
fn t4_scope_can_be_created_under_any_token() {
    let sim = Sim::new(4);
    let token = sim.token();
    let (first, other) = (Scope::under(&token), Scope::under(&token.child()));
    let tasks = [first.launch(pending::<()>()).unwrap(), other.launch(pending::<()>()).unwrap()];
    token.cancel("all");
    for task in tasks {
        assert_eq!(sim.run(task.exited()), Exit::Cancelled("all".into()));
    }
    let late = Scope::under(&token);
    assert_eq!(late.token().cause(), Some("all".into()));
    assert!(late.launch(async {}).is_err());
    // A dropped scope leaves nothing under the token and does not cancel it.
    let token = sim.token();
    drop(Scope::under(&token));
    assert!(!token.is_cancelled());
}

#[test]
fn t4_wide_and_deep_scopes_end_without_a_deep_stack() {
    let sim = Sim::new(4);
    let wide = sim.scope();
    let scopes: Vec<_> = (0..20_000).map(|n| wide.scope(&n.to_string()).unwrap()).collect();
    for _ in 0..20_000 {
        wide.launch(pending::<()>()).unwrap();
    }
    wide.stop();
    sim.run(wide.wait_all()).unwrap();
    assert_eq!(sim.run(wide.exited()), Exit::Stopped);
    drop(scopes);

    let mut deep = vec![sim.scope()];
    for _ in 0..20_000 {
        deep.push(deep.last().unwrap().scope("below").unwrap());
    }
    deep.last().unwrap().launch(pending::<()>()).unwrap();
    deep[0].stop();
    assert_eq!(sim.run(deep[0].exited()), Exit::Stopped);
}

#[test]
fn t5_wait_all_is_ready_after_every_child_and_on_done() {
    explore(0..200, |sim| {
        let scope = Arc::new(sim.scope());
        let done = Arc::new(AtomicUsize::new(0));
        for n in 0..5 {
            let sleep = sim.runtime().sleep_until(sim.now() + Duration::from_millis(n % 3));
            let task = scope.launch(sleep).unwrap();
            for _ in 0..2 {
                let done = Arc::clone(&done);
                task.on_done(move |_| _ = done.fetch_add(1, Ordering::Relaxed));
            }
        }
        // Several callers, some of which are cancelled.
        let waiters = sim.scope();
        for n in 0..10 {
            let (scope, done) = (Arc::clone(&scope), Arc::clone(&done));
            let waits = async move {
                scope.wait_all().await.unwrap();
                assert_eq!(done.load(Ordering::Relaxed), 10);
            };
            let waiter = waiters.launch(waits).unwrap();
            if n % 4 == 3 {
                waiter.cancel(());
            }
        }
        sim.run(waiters.wait_all()).unwrap();
        sim.run(scope.wait_all()).unwrap();
        assert_eq!(scope.try_wait_all().ok(), Some(()));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t5_wait_all_waits_for_a_slow_on_done_on_another_thread() {
    let scope = pleach::scope().unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    // The task ends only after its `on_done` was set. Set later, it would run on this thread.
    let (set, is_set) = futures::channel::oneshot::channel::<()>();
    let task = scope.launch(is_set).unwrap();
    let late = Arc::clone(&done);
    let (entered, enters) = std::sync::mpsc::channel();
    let (resume, resumed) = std::sync::mpsc::channel::<()>();
    task.on_done(move |_| {
        entered.send(()).unwrap();
        resumed.recv().unwrap();
        late.fetch_add(1, Ordering::SeqCst);
    });
    set.send(()).unwrap();
    enters.recv().unwrap();
    let mut waits = scope.wait_all();
    assert!((&mut waits).now_or_never().is_none(), "the task has ended, its `on_done` has not");
    resume.send(()).unwrap();
    waits.await.unwrap();
    assert_eq!(done.load(Ordering::SeqCst), 1);
}

#[test]
fn t5_bounded_wait_ends_at_its_deadline_and_lists_running_members() {
    explore(0..100, |sim| {
        let system = sim.system("t5");
        let scope = system.scope("s").unwrap();
        assert!(scope.try_wait_all().is_ok());
        scope.task().named("forever").launch(pending::<()>()).unwrap();
        scope.task().named("short").launch(sim.runtime().sleep_until(sim.now() + Duration::from_millis(3))).unwrap();
        let inner = scope.scope("inner").unwrap();
        inner.spawn("actor", adder()).unwrap();

        let Err(WaitError::StillRunning(now)) = scope.try_wait_all() else { panic!("four members are running") };
        assert_eq!(paths(&now), ["/user/s/forever", "/user/s/short", "/user/s/inner", "/user/s/inner/actor"]);
        assert!(now.iter().all(|member| member.cancelled_for.is_none() && !member.in_poll));

        let began = sim.now();
        let Err(error) = sim.run(scope.wait_all_for(Duration::from_millis(7))) else { panic!("three members are running") };
        assert_eq!(sim.now() - began, Duration::from_millis(7));
        let WaitError::StillRunning(left) = &error else { panic!("not a timeout: {error}") };
        assert_eq!(paths(left), ["/user/s/forever", "/user/s/inner", "/user/s/inner/actor"]);
        assert!(error.to_string().contains("3 still running: /user/s/forever, "), "{error}");

        scope.cancel(());
        sim.run(scope.wait_all_for(Duration::from_millis(7))).unwrap();
        assert_eq!(sim.now() - began, Duration::from_millis(7), "without children it does not wait");
        assert!(scope.try_wait_all().is_ok());
    });
}

#[test]
fn t5_wait_from_inside_a_child_is_an_error() {
    explore(0..50, |sim| {
        let system = sim.system("t5");
        let outer = Arc::new(system.scope("outer").unwrap());
        let inner = Arc::new(outer.scope("inner").unwrap());
        let waits = |scope: &Arc<Scope>, bound: Option<Duration>| {
            let scope = Arc::clone(scope);
            async move {
                let wait = bound.map_or_else(|| scope.wait_all(), |bound| scope.wait_all_for(bound));
                // Combinators use their own wakers; the error is found anyway.
                let answers = futures::future::join_all([wait]).await;
                let Err(WaitError::FromInside { child, scope: of }) = &answers[0] else { panic!("{answers:?}") };
                assert_eq!(child.to_string(), "/user/outer/inner/child");
                assert_eq!(*of, scope.path());
                let thread = scope.blocking_wait_all_for(Duration::from_secs(60));
                assert!(matches!(thread, Err(WaitError::FromInside { .. })), "{thread:?}");
            }
        };
        for scope in [&outer, &inner] {
            for bound in [None, Some(Duration::from_secs(1))] {
                let child = inner.task().named("child").launch(waits(scope, bound)).unwrap();
                assert_eq!(sim.run(child.exited()), Exit::Closed);
            }
        }
        assert_eq!((sim.now(), system.failures()), (pleach::runtime::Instant::ZERO, 0));
        // A task may wait for a scope that it is not part of.
        let (separate, scope) = (system.scope("separate").unwrap(), Arc::clone(&inner));
        let free = separate.launch(async move { scope.wait_all().await }).unwrap();
        assert_eq!(sim.run(free.exited()), Exit::Closed);
    });
}

struct NoopWaker;

impl Wake for NoopWaker {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn t5_dropped_wait_leaves_nothing_behind() {
    let sim = Sim::new(5);
    let scope = sim.scope();
    scope.launch(pending::<()>()).unwrap();
    let noop = Arc::new(NoopWaker);
    let waker = Waker::from(Arc::clone(&noop));
    for _ in 0..10_000 {
        assert!(scope.wait_all().poll_unpin(&mut TaskContext::from_waker(&waker)).is_pending());
    }
    assert_eq!(Arc::strong_count(&noop), 2);
}

/// Checks that every way to start a child in `scope` is refused.
fn assert_refuses_all(sim: &Sim, scope: &Scope) {
    let shutting_down = |why: &Refusal| {
        assert_eq!(*why, Refusal::ShuttingDown { parent: scope.path() });
        assert!(why.to_string().contains("shutting down"), "{why}");
    };
    let polled = Arc::new(AtomicUsize::new(0));
    let counts = |answer: u32| {
        let polled = Arc::clone(&polled);
        async move {
            polled.fetch_add(1, Ordering::Relaxed);
            if answer == 42 { Ok(()) } else { Err(BoxError::from("wrong")) }
        }
    };
    let refused = scope.launch(counts(42)).unwrap_err();
    shutting_down(&refused.reason);
    let named = scope.task().named("named").isolated().launch(counts(42)).unwrap_err();
    shutting_down(&named.reason);
    let produced = scope.produce::<u32, _>(1, |_| counts(42)).unwrap_err();
    shutting_down(&produced.reason);
    assert_eq!(polled.load(Ordering::Relaxed), 0, "a refused future is returned unpolled");
    // A returned future can be awaited, and launched elsewhere.
    assert!(sim.run(refused.into_future()).is_ok());
    assert!(sim.run(named.into_future()).is_ok());
    let elsewhere = sim.scope();
    assert!(elsewhere.launch(produced.into_future()).is_ok());
    let actor = scope.spawn("actor", adder().mailbox(Mailbox::bounded(1))).unwrap_err();
    shutting_down(&actor.reason);
    let actor = elsewhere.spawn("actor", actor.into_props()).unwrap();
    assert!(actor.tell(1).is_ok() && actor.tell(1).is_err(), "the returned props are unchanged");
    shutting_down(&scope.scope("scope").unwrap_err());
    shutting_down(&scope.isolated_scope("isolated").unwrap_err());
    shutting_down(&scope.supervisor("supervisor", OneForOne::new()).unwrap_err());
    sim.run(async {
        actor.close();
        elsewhere.wait_all().await.unwrap();
    });
    assert_eq!(polled.load(Ordering::Relaxed), 3);
}

#[test]
fn t6_ending_scope_refuses_and_returns_new_children() {
    let sim = Sim::new(6);
    let system = sim.system("t6");
    let ends: [fn(&Scope); 3] = [|scope| scope.cancel("enough"), Scope::stop, Scope::close];
    for (name, end) in ["cancel", "stop", "close"].into_iter().zip(ends) {
        let scope = system.scope(name).unwrap();
        // The scope is ending but cannot end yet: its task needs a poll.
        let gate = scope.task().named("gate").launch(sim.runtime().sleep_until(sim.now() + Duration::from_secs(1))).unwrap();
        sim.settle();
        end(&scope);
        assert_eq!((scope.any().exit(), scope.children().len()), (None, 1));
        assert_refuses_all(&sim, &scope);
        sim.run(gate.exited());
        assert!(scope.any().exit().is_some());
        assert_refuses_all(&sim, &scope);
    }
    let under = Scope::under(&sim.token());
    under.cancel(());
    assert_refuses_all(&sim, &under);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t6_launch_that_races_with_a_cancel_is_refused_or_cancelled() {
    for _ in 0..200 {
        let scope = Arc::new(pleach::scope().unwrap());
        let launcher = Arc::clone(&scope);
        let launches = tokio::spawn(async move {
            let (mut accepted, mut refused) = (Vec::new(), 0);
            while refused == 0 {
                match launcher.launch(pending::<()>()) {
                    Ok(task) => accepted.push(task),
                    Err(_) => refused += 1,
                }
            }
            accepted
        });
        tokio::task::yield_now().await;
        scope.cancel("race");
        for task in launches.await.unwrap() {
            assert_eq!(task.exited().await, Exit::Cancelled("race".into()));
        }
        scope.wait_all().await.unwrap();
    }
}

#[test]
fn t12_failed_task_cancels_its_scope_and_fails_wait_all() {
    explore(0..100, |sim| {
        let system = sim.system("t12");
        let outer = system.scope("outer").unwrap();
        let scope = outer.scope("inner").unwrap();
        let (sibling, outer_task) = (scope.launch(pending::<()>()).unwrap(), outer.launch(pending::<()>()).unwrap());
        let panics = sim.seed() % 2 == 0;
        let fails = async move { if panics { panic!("bad") } else { Err::<(), BoxError>("bad".into()) } };
        let task = scope.task().named("bad").launch(fails).unwrap();
        let Err(WaitError::Failed(failure)) = sim.run(scope.wait_all()) else { panic!("it failed") };
        assert_eq!(failure.path().to_string(), "/user/outer/inner/bad");
        assert!(failure.reason().to_string().ends_with("bad"));
        assert_eq!(sim.run(task.exited()), Exit::Failed(failure.clone()));
        assert_eq!(sim.run(sibling.exited()), Exit::Cancelled(Cause::Failed(failure.clone())));
        assert!(matches!(scope.try_wait_all(), Err(WaitError::Failed(_))), "every caller gets the failure, also later");
        assert_eq!(sim.run(scope.exited()), Exit::Failed(failure.clone()));
        // A failed scope is a failed child of its parent.
        let Err(WaitError::Failed(above)) = sim.run(outer.wait_all()) else { panic!("it fails with its child") };
        assert_eq!((above.origin(), above.path().to_string()), (failure.path(), "/user/outer".to_string()));
        assert_eq!(sim.run(outer_task.exited()), Exit::Cancelled(Cause::Failed(failure)));
        assert_eq!(system.failures(), 1);
    });
}

#[test]
fn t12_failure_of_an_isolated_task_or_scope_does_not_spread() {
    explore(0..50, |sim| {
        let system = sim.system("t12");
        let scope = system.scope("s").unwrap();
        let fails = || async { Err::<(), BoxError>("bad".into()) };
        let task = scope.task().isolated().launch(fails()).unwrap();
        assert!(matches!(sim.run(task.exited()), Exit::Failed(_)));
        let separate = scope.isolated_scope("separate").unwrap();
        let sibling = separate.launch(sim.runtime().sleep_until(sim.now() + Duration::from_secs(1))).unwrap();
        separate.launch(fails()).unwrap();
        assert!(matches!(sim.run(separate.wait_all()), Err(WaitError::Failed(_))));
        assert_eq!(sim.run(sibling.exited()), Exit::Closed);
        separate.close();
        sim.run(scope.wait_all()).unwrap();
        assert_eq!((scope.token().cause(), system.failures()), (None, 2));
        assert!(scope.launch(async {}).is_ok());
    });
}

#[test]
fn t12_supervisor_decides_before_the_scope_fails() {
    explore(0..50, |sim| {
        let system = sim.system("t12");
        let scope = system.scope("s").unwrap();
        let sibling = scope.launch(pending::<()>()).unwrap();
        let actor = scope.spawn("actor", adder()).unwrap();
        for _ in 0..3 {
            actor.tell(0).unwrap();
        }
        sim.settle();
        assert_eq!((actor.exit(), scope.token().cause(), system.failures()), (None, None, 3), "three restarts are allowed");
        actor.tell(0).unwrap();
        let Err(WaitError::Failed(failure)) = sim.run(scope.wait_all()) else { panic!("the fourth exceeds the limit") };
        assert_eq!(failure.origin().to_string(), "/user/s/actor");
        assert_eq!(sim.run(sibling.exited()), Exit::Cancelled(Cause::Failed(failure)));
        assert!(system.counts().is_settled());
    });
}
