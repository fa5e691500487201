//! T4, G10, D1 and D4: a group as a member of the tree, and groups on other runtimes.

use crate::common::tasks::{AliveCount, after, forever, numbers, spawn_on};
use crate::common::{Job, Log, TestActor, failures, poll_once};
use pleach::actor::Refusal;
use pleach::group::GroupError;
use pleach::prelude::*;
use pleach::runtime::{Dispatcher, Instant, Runtime, StdClock};
use pleach::sim::{Sim, explore};
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

#[test]
fn t4_group_joins_the_tree_once_and_leaves_it_at_its_end() {
    explore(0..100, |sim| {
        let system = sim.system("t4");
        let ended = Log::new();
        let log = ended.clone();
        system.on_event(move |event| {
            if let Event::Ended { path, exit } = event {
                log.push((path.to_string(), exit.clone()));
            }
        });
        let scope = system.scope("s").unwrap();
        let group = scope.group::<u32>("g").build().unwrap();
        let names = || scope.children().iter().map(|child| child.path().to_string()).collect::<Vec<_>>();
        assert_eq!((names(), group.path().to_string()), (vec!["/user/s/g".to_string()], "/user/s/g".to_string()));
        let taken = scope.group::<u32>("g").build().unwrap_err();
        assert!(matches!(taken, GroupError::Refused(Refusal::NameTaken { .. })));
        (0..5).for_each(|n| group.try_go(after(n, n)).unwrap());
        sim.settle();
        assert_eq!(names().len(), 1, "open, although idle");
        group.close();
        assert!(names().is_empty(), "closed, with no task in flight");
        sim.settle();
        assert_eq!(sim.tasks_alive(), 0, "its runners have ended");
        assert_eq!(ended.take(), [("/user/s/g".to_string(), Exit::Closed)]);
        // The results can still be read, and the name is free.
        assert_eq!(sim.run(group.drain()).values.len(), 5);
        scope.group::<u32>("g").build().unwrap();
        drop(group);
        sim.settle();
        assert_eq!(ended.take().len(), 1, "only the second group, which was dropped");
    });
}

#[test]
fn t4_group_can_be_created_under_any_token() {
    let sim = Sim::new(4);
    let token = sim.token();
    let (first, second) = (Group::<u32>::under(&token), Group::<u32>::under(&token.child()));
    first.try_go(pending::<u32>()).unwrap();
    second.try_go(pending::<u32>()).unwrap();
    sim.settle();
    token.cancel("all");
    for group in [first, second] {
        assert_eq!(sim.run(group.next()), Some(Err(TaskError::Cancelled("all".into()))));
        assert_eq!(sim.run(group.any_ref().exited()), Exit::Cancelled("all".into()));
    }
    // A dropped group does not cancel the token.
    let token = sim.token();
    drop(Group::<u32>::under(&token));
    assert!(!token.is_cancelled());
}

#[test]
fn g10_group_is_cancelled_with_its_scope_which_waits_for_it() {
    explore(0..100, |sim| {
        let system = sim.system("s");
        let scope = system.scope("s").unwrap();
        let group = scope.group::<u32>("g").build().unwrap();
        let alive = AliveCount::default();
        (0..3).for_each(|_| group.try_go(forever(alive.add())).unwrap());
        if sim.seed() % 2 == 0 {
            sim.settle();
        }
        scope.cancel("over");
        sim.run(scope.wait_all()).unwrap();
        assert_eq!(alive.now(), 0, "the scope has no children, so no task is left");
        assert_eq!(sim.run(group.drain()).errors, vec![TaskError::Cancelled("over".into()); 3]);
        let refused = scope.group::<u32>("late").build().unwrap_err();
        assert!(matches!(refused, GroupError::Refused(Refusal::ShuttingDown { .. })));
    });
}

#[test]
fn g10_failure_in_a_group_does_not_cancel_the_scope() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let scope = system.scope("s").unwrap();
    let recorded = failures(&system);
    let group = scope.group::<u32>("g").build().unwrap();
    group.try_go(async { Err::<u32, _>("mine") }).unwrap();
    assert!(sim.run(group.wait()).is_err());
    assert_eq!((scope.token().cause(), recorded.len(), system.unhandled()), (None, 1, 0));
    let failure = recorded.take().remove(0);
    assert_eq!(failure.path().to_string(), "/user/s/g/$1", "the first task of the group");
}

#[test]
fn g10_dropped_group_leaves_no_task_and_no_memory() {
    explore(0..200, |sim| {
        let system = sim.system("s");
        let group = system.group::<u32>("g").build().unwrap();
        let alive = AliveCount::default();
        (0..5).for_each(|_| group.try_go(forever(alive.add())).unwrap());
        if sim.seed() % 3 > 0 {
            sim.settle();
        }
        (0..5).for_each(|_| group.try_go(forever(alive.add())).unwrap());
        let token = group.token();
        drop(group);
        assert!(alive.now() <= 5, "tasks that have not started are dropped at once");
        sim.settle();
        assert_eq!((alive.now(), sim.tasks_alive(), token.cause()), (0, 0, Some(Cause::Dropped)));
        let running: Vec<String> = system.root().running().iter().map(|member| member.path.to_string()).collect();
        assert_eq!(running, ["/system", "/user"]);
    });
}

#[test]
fn g10_group_dropped_in_its_own_task_ends() {
    let sim = Sim::new(1);
    let group = Arc::new(numbers(&sim).build().unwrap());
    let (own, alive) = (Arc::new(Mutex::new(Some(Arc::clone(&group)))), AliveCount::default());
    let guard = alive.add();
    group
        .try_go(async move {
            let _guard = guard;
            drop(own.lock().unwrap().take());
            pending::<u32>().await
        })
        .unwrap();
    drop(group);
    sim.settle();
    assert_eq!((alive.now(), sim.tasks_alive()), (0, 0));
}

#[test]
fn g10_cancelled_group_ends_all_waiting_readers() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let group = Arc::new(system.group::<u32>("g").build().unwrap());
        let waiting = AliveCount::default();
        for _ in 0..10 {
            let (group, guard) = (Arc::clone(&group), waiting.add());
            spawn_on(sim, async move {
                assert_eq!(group.next().await, None);
                drop(guard);
            });
        }
        sim.settle();
        assert_eq!(waiting.now(), 10);
        drop(system); // Dropping the owner cancels the group.
        sim.settle();
        assert_eq!(waiting.now(), 0);
        assert_eq!(group.cause(), Some(Cause::Dropped));
    });
}

#[test]
fn g10_dropped_readers_consume_no_result() {
    let sim = Sim::new(1);
    let group = numbers(&sim).build().unwrap();
    let mut consumers: Vec<_> = (0..10).map(|_| group.next()).collect();
    assert!(consumers.iter_mut().all(|next| poll_once(next).is_pending()));
    drop(consumers);
    group.try_go(after(0, 1)).unwrap();
    sim.settle();
    assert_eq!(poll_once(&mut group.next()), Poll::Ready(Some(Ok(1))));
}

#[test]
fn g10_group_ends_with_the_incarnation_of_its_actor() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let (log, alive) = (Log::new(), AliveCount::default());
        let actor = system.spawn("actor", TestActor::props(&log)).unwrap();
        let (kept, counted) = (Arc::new(Mutex::new(None)), alive.clone());
        let keep = Arc::clone(&kept);
        actor
            .tell(Job::act(move |cx| {
                let group = cx.group::<u32>("work").build().unwrap();
                (0..3).for_each(|_| group.try_go(forever(counted.add())).unwrap());
                assert_eq!(group.path().to_string(), "/user/actor/work");
                *keep.lock().unwrap() = Some(group);
            }))
            .unwrap();
        sim.settle();
        assert_eq!(alive.now(), 3);
        actor.tell(Job::Fail("again")).unwrap();
        sim.settle();
        let group = kept.lock().unwrap().take().unwrap();
        assert_eq!((alive.now(), group.any_ref().exit()), (0, Some(Exit::Cancelled(Cause::Cancelled))));
        assert!(log.take().contains(&"started 1".to_string()), "the restart does not wait for the tasks of the group");
    });
}

#[test]
fn g10_shutdown_closes_a_group_and_lets_its_tasks_complete() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let group = system.group::<u32>("g").build().unwrap();
        let runtime = sim.runtime();
        group
            .try_go(async move {
                runtime.sleep_until(Instant::after_start(Duration::from_secs(1))).await;
                7
            })
            .unwrap();
        sim.run(system.shutdown(Duration::from_secs(5))).unwrap();
        assert!(group.is_closed());
        assert_eq!(sim.run(group.drain()).values, [7]);
        // A group that does not end in time is cancelled and listed.
        let system = sim.system("s");
        let group = system.group::<u32>("g").build().unwrap();
        group.try_go(pending::<u32>()).unwrap();
        let late = sim.run(system.shutdown(Duration::from_secs(5))).unwrap_err();
        assert!(late.to_string().contains("/user/g"), "{late}");
        assert_eq!(sim.run(group.drain()).errors.len(), 1);
    });
}

#[test]
fn g10_dropped_runtime_drops_the_tasks() {
    let dispatcher = Dispatcher::seeded(1);
    let token = CancelToken::root(dispatcher.runtime());
    let group = Group::<u32>::under(&token);
    let alive = AliveCount::default();
    (0..3).for_each(|_| group.try_go(forever(alive.add())).unwrap());
    dispatcher.drain_ready();
    (0..2).for_each(|_| group.try_go(forever(alive.add())).unwrap());
    drop(dispatcher);
    assert_eq!((alive.now(), group.in_flight(), group.cause()), (0, 0, Some(Cause::Dropped)));
    assert!(group.try_go(forever(())).is_err());
    // An idle group notices it at its next use.
    let dispatcher = Dispatcher::seeded(1);
    let group = Group::<u32>::under(&CancelToken::root(dispatcher.runtime()));
    drop(dispatcher);
    group.try_go(forever(alive.add())).unwrap();
    assert_eq!((alive.now(), group.in_flight()), (0, 0));
}

#[test]
fn d1_group_runs_on_tokio_and_on_a_dispatcher() {
    let work = |runtime: Arc<dyn Runtime>| async move {
        let group = GroupBuilder::<u32>::under(&CancelToken::root(runtime)).limit(4).build().unwrap();
        for n in 0..100 {
            group.go(after(n % 3, n)).await.unwrap();
        }
        group.drain().await.values.iter().sum::<u32>()
    };
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let on_tokio = tokio.block_on(async { work(pleach::runtime::TokioRuntime::current().unwrap()).await });
    let dispatcher = Dispatcher::new(StdClock::new());
    let on_dispatcher = pleach::runtime::block_on(dispatcher.run_until(work(dispatcher.runtime())));
    assert_eq!((on_tokio, on_dispatcher), (4_950, 4_950));
}

#[test]
fn d4_one_seed_gives_one_order_of_results() {
    let run = |seed| {
        let sim = Sim::new(seed);
        let group = numbers(&sim).build().unwrap();
        let counter = Arc::new(AtomicUsize::new(0));
        (0..30).for_each(|n| {
            let counter = Arc::clone(&counter);
            group
                .try_go(async move {
                    after(n % 5, n).await;
                    counter.fetch_add(1, Ordering::Relaxed) as u32 * 100 + n
                })
                .unwrap();
        });
        let values = sim.run(group.drain()).values;
        (values, sim.trace_hash())
    };
    assert_eq!(run(7), run(7));
}
