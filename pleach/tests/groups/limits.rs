//! G9: the limit of running tasks and the buffer of unread results.

use crate::common::tasks::{AliveCount, after, forever, gated, numbers, spawn_on};
use crate::common::{Log, poll_once};
use pleach::group::GoRejection;
use pleach::sim::{Sim, explore};
use std::sync::Arc;
use std::task::Poll;

async fn counted(alive: AliveCount, steps: u32, value: u32) -> u32 {
    let _guard = alive.add();
    after(steps, value).await
}

#[test]
fn g9_limit_is_reached_but_never_exceeded() {
    for limit in [1, 3, 8] {
        explore(0..50, |sim| {
            let group = Arc::new(numbers(sim).limit(limit).build().unwrap());
            let alive = AliveCount::default();
            for feeder in 0..3 {
                let (group, alive) = (Arc::clone(&group), alive.clone());
                spawn_on(sim, async move {
                    for n in 0..10 {
                        assert!(group.in_flight() <= limit);
                        group.go(counted(alive.clone(), n % 3, feeder * 10 + n)).await.unwrap();
                    }
                });
            }
            sim.settle();
            let mut all = sim.run(group.drain());
            all.values.sort_unstable();
            assert_eq!(all.values, (0..30).collect::<Vec<_>>());
            assert!(alive.max() <= limit);
        });
    }
    // Waiting tasks fill the group to its limit.
    let sim = Sim::new(1);
    let group = numbers(&sim).limit(3).build().unwrap();
    (0..3).for_each(|_| group.try_go(forever(())).unwrap());
    assert_eq!(group.try_go(forever(())).unwrap_err().reason, GoRejection::Full);
}

#[test]
fn g9_try_go_returns_the_task_and_go_waits_for_a_slot() {
    let sim = Sim::new(1);
    let group = numbers(&sim).limit(1).build().unwrap();
    let gate = crate::common::Gate::new();
    group.try_go(gated(&gate, 1)).unwrap();
    let refused = group.try_go(after(0, 2)).unwrap_err();
    assert_eq!(refused.reason, GoRejection::Full);
    assert!(refused.to_string().contains("no free slot"));
    let mut waiting = group.go(refused.into_task());
    assert!(poll_once(&mut waiting).is_pending());
    sim.settle();
    gate.open();
    sim.settle();
    // The slot is reserved for the waiting call.
    assert_eq!(group.try_go(after(0, 3)).unwrap_err().reason, GoRejection::Full);
    assert!(matches!(poll_once(&mut waiting), Poll::Ready(Ok(()))));
    drop(waiting);
    assert_eq!(sim.run(group.drain()).values, [1, 2]);
}

#[test]
fn g9_calls_that_wait_for_a_slot_are_served_in_order() {
    explore(0..50, |sim| {
        let group = Arc::new(numbers(sim).limit(1).build().unwrap());
        let gate = crate::common::Gate::new();
        group.try_go(gated(&gate, 0)).unwrap();
        let mut waiting: Vec<_> = (1..=3).map(|n| group.go(after(0, n))).collect();
        assert!(waiting.iter_mut().all(|go| poll_once(go).is_pending()));
        sim.settle();
        gate.open();
        for go in waiting {
            sim.run(go).unwrap();
        }
        assert_eq!(sim.run(group.drain()).values, [0, 1, 2, 3]);
    });
}

#[test]
fn g9_dropped_wait_for_a_slot_passes_its_slot_on() {
    let sim = Sim::new(1);
    let group = numbers(&sim).limit(1).build().unwrap();
    let gate = crate::common::Gate::new();
    group.try_go(gated(&gate, 1)).unwrap();
    let alive = AliveCount::default();
    let mut first = group.go(counted(alive.clone(), 0, 2));
    let mut second = group.go(counted(alive.clone(), 0, 3));
    assert!(poll_once(&mut first).is_pending() && poll_once(&mut second).is_pending());
    sim.settle();
    gate.open();
    sim.settle();
    drop(first); // It had the reserved slot.
    assert!(matches!(poll_once(&mut second), Poll::Ready(Ok(()))));
    drop(second);
    assert_eq!(sim.run(group.drain()).values, [1, 3]);
    assert_eq!(alive.max(), 1);
}

#[test]
fn g9_cancelled_wait_for_a_slot_returns_the_task() {
    let sim = Sim::new(1);
    let group = numbers(&sim).limit(1).build().unwrap();
    group.try_go(forever(())).unwrap();
    let token = sim.token();
    let mut waiting = group.go_or(&token, after(0, 9));
    assert!(poll_once(&mut waiting).is_pending());
    token.cancel("no time");
    let Poll::Ready(Err(refused)) = poll_once(&mut waiting) else { panic!("the call must be ready") };
    assert_eq!(refused.reason, GoRejection::Cancelled("no time".into()));
    assert_eq!(sim.run(refused.into_task()), 9);
    // With a free slot the cancelled token has no effect.
    drop(waiting);
    let free = numbers(&sim).build().unwrap();
    sim.run(free.go_or(&token, after(0, 9))).unwrap();
}

#[test]
fn g9_close_or_cancel_ends_the_wait_for_a_slot() {
    explore(0..50, |sim| {
        for cancelled in [false, true] {
            let group = Arc::new(numbers(sim).limit(1).build().unwrap());
            group.try_go(after(50, 0)).unwrap();
            let causes = Log::new();
            for n in 0..3 {
                let (group, causes) = (Arc::clone(&group), causes.clone());
                spawn_on(sim, async move {
                    let refused = group.go(after(0, n)).await.unwrap_err();
                    causes.push((refused.cause.clone(), refused.into_task().await));
                });
            }
            let closer = Arc::clone(&group);
            spawn_on(sim, async move {
                after(5, 0).await;
                if cancelled { closer.cancel("closer") } else { closer.close() }
            });
            sim.settle();
            let mut returned: Vec<u32> = Vec::new();
            for (cause, value) in causes.take() {
                assert_eq!(cause, cancelled.then(|| "closer".into()));
                returned.push(value);
            }
            returned.sort_unstable();
            assert_eq!(returned, [0, 1, 2]);
        }
    });
}

#[test]
fn g9_full_buffer_starts_no_further_task() {
    explore(0..50, |sim| {
        let group = Arc::new(numbers(sim).buffer(3).build().unwrap());
        let feeder = Arc::clone(&group);
        spawn_on(sim, async move {
            for n in 0..20 {
                feeder.go(after(n % 2, n)).await.unwrap();
            }
            feeder.close();
        });
        sim.settle();
        assert_eq!((group.unread(), group.in_flight()), (3, 0), "three tasks were started and have completed");
        let mut seen = Vec::new();
        sim.run(async {
            while let Some(result) = group.next().await {
                seen.push(result.unwrap());
                assert!(group.unread() + group.in_flight() <= 3);
            }
        });
        seen.sort_unstable();
        assert_eq!(seen, (0..20).collect::<Vec<_>>());
    });
}

#[test]
fn g9_wait_lifts_the_limit_of_unread_results() {
    explore(0..50, |sim| {
        let group = Arc::new(numbers(sim).buffer(2).build().unwrap());
        let gate = crate::common::Gate::new();
        let (feeder, first) = (Arc::clone(&group), gate.pass());
        spawn_on(sim, async move {
            let gated = async move {
                first.await;
                0
            };
            feeder.go(gated).await.unwrap();
            for n in 1..10 {
                feeder.go(after(1, n)).await.unwrap();
            }
        });
        sim.settle();
        assert_eq!((group.in_flight(), group.unread()), (1, 1), "the buffer blocks the other tasks");
        // No reader exists. `wait` must not wait for one.
        let mut waiting = group.wait();
        assert!(poll_once(&mut waiting).is_pending());
        sim.settle();
        assert_eq!((group.in_flight(), group.unread()), (1, 9));
        gate.open();
        assert_eq!(sim.run(&mut waiting), Ok(()));
        assert_eq!(group.unread(), 10);
        // Without a waiter the limit applies again.
        drop(waiting);
        assert_eq!(group.try_go(after(0, 10)).unwrap_err().reason, GoRejection::Full);
    });
}

#[test]
fn g9_group_respects_both_limits() {
    explore(0..50, |sim| {
        let group = Arc::new(numbers(sim).limit(2).buffer(5).build().unwrap());
        let (feeder, alive) = (Arc::clone(&group), AliveCount::default());
        let counting = alive.clone();
        spawn_on(sim, async move {
            for n in 0..30 {
                feeder.go(counted(counting.clone(), n % 4, n)).await.unwrap();
                assert!(feeder.in_flight() <= 2 && feeder.unread() <= 5);
            }
            feeder.close();
        });
        let mut read = 0;
        sim.run(async {
            while let Some(result) = group.next().await {
                read += usize::from(result.is_ok());
                assert!(group.unread() <= 5);
                after(read as u32 % 3, 0).await;
            }
        });
        assert_eq!(read, 30);
        assert!(alive.max() <= 2);
    });
}

#[test]
fn g9_answered_wait_lifts_no_limit() {
    let sim = Sim::new(1);
    let group = numbers(&sim).limit(1).buffer(1).build().unwrap();
    let gate = crate::common::Gate::new();
    group.try_go(gated(&gate, 1)).unwrap();
    let (mut waiting, mut going) = (group.wait(), group.go(after(0, 2)));
    assert!(poll_once(&mut waiting).is_pending() && poll_once(&mut going).is_pending());
    gate.open();
    sim.settle();
    // The wait has its answer, even if it was not polled, and one result fills the buffer.
    assert!(poll_once(&mut going).is_pending());
    drop(going);
    assert_eq!(group.try_go(after(0, 3)).unwrap_err().reason, GoRejection::Full);
    assert_eq!(poll_once(&mut waiting), Poll::Ready(Ok(())));
    assert_eq!(sim.run(group.next()), Some(Ok(1)));
    group.try_go(after(0, 4)).unwrap();
}
