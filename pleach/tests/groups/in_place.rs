//! G12, and G6, G7, G8, G10 in place: a group whose tasks are polled where its results are awaited.

use crate::common::tasks::{AliveCount, after, forever, gated, numbers};
use crate::common::{Gate, Log, poll_once, quiet};
use futures::StreamExt;
use pleach::group::{GoRejection, InPlace, PanicPolicy};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

fn in_place<'env>(sim: &Sim) -> InPlace<'env, u32> {
    numbers(sim).in_place().unwrap()
}

#[test]
fn g12_tasks_may_borrow_and_no_task_is_spawned() {
    explore(0..50, |sim| {
        let words = ["a".to_string(), "bcd".to_string(), "ef".to_string()];
        let total = AtomicUsize::new(0);
        let system = sim.system("s");
        let group = system.group::<&str>("g").in_place().unwrap();
        sim.run(async {
            for word in &words {
                let total = &total;
                group
                    .go(async move {
                        after(word.len() as u32, 0).await;
                        total.fetch_add(word.len(), Ordering::SeqCst);
                        word.as_str()
                    })
                    .await
                    .unwrap();
            }
            assert_eq!(sim.tasks_alive(), 0);
            group.close();
            let mut seen: Vec<&str> = group.results().map(Result::unwrap).collect().await;
            seen.sort_unstable();
            assert_eq!(seen, ["a", "bcd", "ef"]);
        });
        assert_eq!((total.load(Ordering::SeqCst), sim.tasks_alive()), (6, 0));
    });
}

#[test]
fn g12_tasks_run_only_while_a_result_is_awaited() {
    let sim = Sim::new(1);
    let log = Log::new();
    let group = in_place(&sim);
    let started = log.clone();
    group
        .try_go(async move {
            started.push("started");
            after(1, 1).await
        })
        .unwrap();
    sim.settle();
    assert_eq!(log.len(), 0);
    assert_eq!(sim.run(group.next()), Some(Ok(1)));
    assert_eq!(log.take(), ["started"]);
}

#[test]
fn g12_waiting_task_is_woken_and_polled_by_the_reader() {
    explore(0..100, |sim| {
        let group = in_place(sim);
        let gates: Vec<Gate> = (0..5).map(|_| Gate::new()).collect();
        for (n, gate) in (0..).zip(&gates) {
            group.try_go(gated(gate, n)).unwrap();
        }
        let opener = gates.clone();
        let runtime = sim.runtime();
        runtime.spawn(Box::pin(async move {
            for gate in opener.iter().rev() {
                after(2, 0).await;
                gate.open();
            }
        }));
        group.close();
        let mut seen: Vec<u32> = sim.run(group.results().map(Result::unwrap).collect());
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 4]);
    });
}

#[test]
fn g12_idle_group_is_not_polled_and_a_busy_group_yields() {
    let sim = Sim::new(1);
    let group = in_place(&sim);
    group.try_go(pending::<u32>()).unwrap();
    let mut next = group.next();
    assert!(poll_once(&mut next).is_pending());
    // A task that always wakes itself is polled a bounded number of times per poll of the group.
    let polls = AtomicUsize::new(0);
    let busy = in_place(&sim);
    busy.try_go(poll_fn(|cx| {
        polls.fetch_add(1, Ordering::SeqCst);
        cx.waker().wake_by_ref();
        Poll::<u32>::Pending
    }))
    .unwrap();
    assert!(poll_once(&mut busy.next()).is_pending());
    assert!(polls.load(Ordering::SeqCst) <= 2);
}

#[test]
fn g12_new_tasks_do_not_starve_woken_tasks() {
    let sim = Sim::new(1);
    let group = in_place(&sim);
    group.try_go(after(3, 1_000)).unwrap();
    let mut seen = Vec::new();
    sim.run(async {
        for n in 0..100 {
            group.go(after(0, n)).await.unwrap();
            group.go(after(0, n)).await.unwrap();
            seen.push(group.next().await.unwrap().unwrap());
            if seen.contains(&1_000) {
                break;
            }
        }
    });
    assert!(seen.contains(&1_000) && seen.len() < 20, "{seen:?}");
}

#[test]
fn g12_go_polls_the_others_while_it_waits_for_a_slot() {
    let sim = Sim::new(1);
    let (alive, group) = (AliveCount::default(), numbers(&sim).limit(2).in_place().unwrap());
    sim.run(async {
        for n in 0..20 {
            let alive = alive.clone();
            group
                .go(async move {
                    let _guard = alive.add();
                    after(n % 3, n).await
                })
                .await
                .unwrap();
            assert!(group.in_flight() <= 2);
        }
        assert_eq!(group.try_go(after(0, 0)).map_err(|refused| refused.reason), Err(GoRejection::Full));
        group.wait().await.unwrap();
    });
    assert_eq!((group.unread(), alive.max()), (20, 2));
}

#[test]
fn g12_several_readers_are_served_and_share_the_polling() {
    explore(0..50, |sim| {
        let group = in_place(sim);
        let seen = Mutex::new(Vec::new());
        let read = async || {
            while let Some(result) = group.next().await {
                seen.lock().unwrap().push(result.unwrap());
            }
        };
        let feed = async {
            for n in 0..30 {
                group.go(after(n % 4, n)).await.unwrap();
                sim.yield_now().await;
            }
            group.close();
        };
        sim.run(async { futures::join!(read(), read(), feed, read()) });
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert_eq!(seen, (0..30).collect::<Vec<_>>());
    });
}

#[test]
fn g12_later_task_is_polled_by_a_reader_in_another_task() {
    explore(0..50, |sim| {
        let group: Arc<InPlace<'static, u32>> = Arc::new(in_place(sim));
        let (reader, seen) = (Arc::clone(&group), Log::new());
        let log = seen.clone();
        sim.runtime().spawn(Box::pin(async move {
            while let Some(result) = reader.next().await {
                log.push(result.unwrap());
            }
        }));
        sim.settle();
        for n in 0..3 {
            group.try_go(after(n, n)).unwrap();
            sim.settle();
            assert_eq!(seen.take(), [n]);
        }
        group.close();
        sim.settle();
        assert_eq!(sim.tasks_alive(), 0);
    });
}

#[test]
fn g12_dropped_next_consumes_no_result() {
    let sim = Sim::new(1);
    let (group, gate) = (in_place(&sim), Gate::new());
    group.try_go(gated(&gate, 1)).unwrap();
    for _ in 0..1_000 {
        assert!(poll_once(&mut group.next()).is_pending());
    }
    gate.open();
    group.close();
    assert_eq!(sim.run(group.next()), Some(Ok(1)));
    assert_eq!(sim.run(group.next()), None);
}

#[test]
fn g7_in_place_first_failure_cancels_the_rest_before_it_is_seen() {
    let sim = Sim::new(1);
    let (group, alive) = (in_place(&sim), AliveCount::default());
    (0..3).for_each(|_| group.try_go(forever(alive.add())).unwrap());
    group.task().named("bad").try_go(async { Err::<u32, _>("broken") }).unwrap();
    group.close();
    let all: Vec<_> = sim.run(group.results().collect());
    assert_eq!((all.len(), alive.now()), (4, 0));
    let failed: Vec<_> = all.iter().filter(|result| matches!(result, Err(TaskError::Failed(_)))).collect();
    assert_eq!(failed.len(), 1);
    assert!(matches!(group.cause(), Some(Cause::Failed(_))));
    assert!(matches!(sim.run(group.wait()), Err(TaskError::Failed(failure)) if failure.path().to_string().ends_with("/bad")));
}

#[test]
fn g8_in_place_panic_is_an_error_or_unwinds_in_the_reader() {
    quiet();
    let sim = Sim::new(1);
    let group = in_place(&sim);
    group.try_go(async { if true { panic!("injected") } else { 1_u32 } }).unwrap();
    assert!(matches!(sim.run(group.next()), Some(Err(TaskError::Panicked(_)))));
    let group = numbers(&sim).panic_policy(PanicPolicy::Resume).fail_fast(false).in_place().unwrap();
    group.try_go(async { if true { panic!("injected") } else { 1_u32 } }).unwrap();
    group.try_go(after(0, 2)).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| sim.run(group.next()))).is_err());
    assert_eq!(sim.run(group.next()), Some(Ok(2)));
}

#[test]
fn g6_in_place_any_cancel_ends_the_tasks() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let scope = system.scope("s").unwrap();
        let group = scope.group::<u32>("g").in_place().unwrap();
        let alive = AliveCount::default();
        (0..3).for_each(|_| group.try_go(forever(alive.add())).unwrap());
        let mut next = group.next();
        assert!(poll_once(&mut next).is_pending());
        (0..2).for_each(|_| group.try_go(forever(alive.add())).unwrap());
        let token = scope.token();
        sim.runtime().spawn(Box::pin(async move { token.cancel("over") }));
        assert_eq!(sim.run(&mut next), Some(Err(TaskError::Cancelled("over".into()))));
        drop(next);
        let rest: Vec<_> = sim.run(group.results().collect());
        assert_eq!((rest.len(), alive.now()), (4, 0));
        // In the tree the group ended with the cancel, so the scope does not wait for its holder.
        sim.run(scope.wait_all()).unwrap();
        assert_eq!(group.any_ref().exit(), Some(Exit::Cancelled("over".into())));
        assert!(group.try_go(after(0, 1)).is_err());
    });
}

#[test]
fn g10_in_place_cancelled_group_does_not_delay_its_scope() {
    let sim = Sim::new(1);
    let scope = sim.scope();
    let group = scope.group::<u32>("g").in_place().unwrap();
    group.try_go(pending::<u32>()).unwrap();
    scope.cancel("over");
    // The group is not polled, but the scope has ended.
    sim.run(scope.wait_all()).unwrap();
    assert_eq!(sim.run(scope.exited()), Exit::Cancelled("over".into()));
    assert_eq!(sim.run(group.next()), Some(Err(TaskError::Cancelled("over".into()))));
}

#[test]
fn g10_in_place_dropped_group_drops_its_tasks_and_leaves_the_tree() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let alive = AliveCount::default();
    let group = system.group::<u32>("g").in_place().unwrap();
    (0..3).for_each(|_| group.try_go(forever(alive.add())).unwrap());
    assert!(poll_once(&mut group.next()).is_pending());
    let any = group.any_ref();
    drop(group);
    assert_eq!((alive.now(), any.exit()), (0, Some(Exit::Cancelled(Cause::Dropped))));
}

#[test]
fn g10_in_place_idle_group_does_not_delay_a_shutdown() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    // The youngest ends first.
    let stuck = system.group::<u32>("stuck").in_place().unwrap();
    let idle = system.group::<u32>("idle").in_place().unwrap();
    stuck.try_go(pending::<u32>()).unwrap();
    let late = sim.run(system.shutdown(Duration::from_secs(1))).unwrap_err();
    assert!(late.to_string().contains("/user/stuck") && !late.to_string().contains("idle"), "{late}");
    assert!(idle.is_closed() && stuck.is_closed());
}
