//! G1 to G4: what a group accepts, the order of its results, and when it ends.

use crate::common::tasks::{AliveCount, after, gated, numbers, spawn_on};
use crate::common::{Gate, Log, poll_once};
use futures::StreamExt;
use pleach::group::{GoRejection, GroupError};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

#[test]
fn g1_go_after_close_returns_the_task_unpolled() {
    let sim = Sim::new(1);
    let group = numbers(&sim).build().unwrap();
    let polled = Arc::new(AtomicUsize::new(0));
    let task = |polled: &Arc<AtomicUsize>| {
        let polled = Arc::clone(polled);
        async move { polled.fetch_add(1, Ordering::SeqCst) as u32 }
    };
    group.close();
    let refused = sim.run(group.go(task(&polled))).unwrap_err();
    assert_eq!((refused.cause.clone(), refused.group.clone()), (None, group.path()));
    assert!(refused.to_string().contains("is closed"));
    let tried = group.try_go(task(&polled)).unwrap_err();
    assert_eq!(tried.reason, GoRejection::Closed(None));
    sim.settle();
    assert_eq!((polled.load(Ordering::SeqCst), group.in_flight()), (0, 0));
    // The returned task is unchanged.
    assert_eq!(sim.run(refused.into_task()), 0);
    assert_eq!(sim.run(tried.into_task()), 1);
}

#[test]
fn g1_task_is_in_flight_before_it_starts_and_ends_once() {
    explore(0..100, |sim| {
        let group = numbers(sim).build().unwrap();
        for n in 0..20 {
            group.try_go(after(n % 3, n)).unwrap();
            assert_eq!(group.in_flight(), n as usize + 1, "accepted but not started");
        }
        group.close();
        let mut seen = Vec::new();
        sim.run(async {
            while let Some(result) = group.next().await {
                seen.push(result.unwrap());
                assert_eq!(group.in_flight() + group.unread() + seen.len(), 20);
            }
        });
        seen.sort_unstable();
        assert_eq!(seen, (0..20).collect::<Vec<_>>());
        assert_eq!(group.in_flight(), 0);
    });
}

#[test]
fn g2_close_is_idempotent_and_cancels_no_task() {
    let sim = Sim::new(1);
    let group = numbers(&sim).build().unwrap();
    let gate = Gate::new();
    group.try_go(gated(&gate, 7)).unwrap();
    sim.settle();
    group.close();
    group.close();
    sim.settle();
    assert_eq!((group.in_flight(), group.cause(), group.is_closed()), (1, None, true));
    gate.open();
    assert_eq!(sim.run(group.next()), Some(Ok(7)));
    assert_eq!(sim.run(group.next()), None);
    group.close();
    assert_eq!(group.any_ref().exit(), Some(Exit::Closed));
}

#[test]
fn g2_close_wakes_every_waiter_of_a_drained_group() {
    explore(0..50, |sim| {
        let group = Arc::new(numbers(sim).build().unwrap());
        let ended = AliveCount::default();
        for _ in 0..10 {
            let (group, guard) = (Arc::clone(&group), ended.add());
            spawn_on(sim, async move {
                assert_eq!(group.next().await, None);
                drop(guard);
            });
        }
        sim.settle();
        assert_eq!(ended.now(), 10);
        group.close();
        sim.settle();
        assert_eq!(ended.now(), 0);
    });
}

#[test]
fn g3_queued_result_comes_before_the_end() {
    let sim = Sim::new(1);
    let group = numbers(&sim).build().unwrap();
    group.try_go(after(0, 1)).unwrap();
    sim.settle();
    group.close();
    assert_eq!(poll_once(&mut group.next()), Poll::Ready(Some(Ok(1))));
    assert_eq!(poll_once(&mut group.next()), Poll::Ready(None));
}

#[test]
fn g3_next_waits_while_the_group_is_open_or_has_tasks() {
    let sim = Sim::new(1);
    let group = numbers(&sim).build().unwrap();
    assert!(poll_once(&mut group.next()).is_pending(), "open");
    let gate = Gate::new();
    group.try_go(gated(&gate, 1)).unwrap();
    group.close();
    sim.settle();
    assert!(poll_once(&mut group.next()).is_pending(), "in flight");
    gate.open();
    sim.settle();
    let mut served = group.next();
    assert_eq!(poll_once(&mut served), Poll::Ready(Some(Ok(1))));
}

#[test]
fn g3_waiters_are_served_in_arrival_order() {
    explore(0..100, |sim| {
        let group = numbers(sim).build().unwrap();
        let (mut first, mut second, mut third) = (group.next(), group.next(), group.next());
        assert!(
            poll_once(&mut first).is_pending() && poll_once(&mut second).is_pending() && poll_once(&mut third).is_pending()
        );
        group.try_go(after(0, 1)).unwrap();
        sim.settle();
        group.try_go(after(0, 2)).unwrap();
        sim.settle();
        // A late caller does not overtake, and a waiter that is polled late keeps its result.
        assert!(poll_once(&mut group.next()).is_pending());
        assert_eq!(poll_once(&mut second), Poll::Ready(Some(Ok(2))));
        assert_eq!(poll_once(&mut first), Poll::Ready(Some(Ok(1))));
        assert!(poll_once(&mut third).is_pending());
    });
}

#[test]
fn g3_dropped_next_consumes_no_result_and_keeps_the_order() {
    let sim = Sim::new(1);
    let group = numbers(&sim).build().unwrap();
    let (mut first, mut second, mut third) = (group.next(), group.next(), group.next());
    assert!(poll_once(&mut first).is_pending() && poll_once(&mut second).is_pending());
    for n in 1..=2 {
        group.try_go(after(0, n)).unwrap();
        sim.settle();
    }
    assert_eq!(group.unread(), 2, "served but not read");
    assert!(poll_once(&mut third).is_pending());
    group.close();
    assert!(poll_once(&mut third).is_pending(), "a served result may be returned");
    drop(first);
    assert_eq!(poll_once(&mut third), Poll::Ready(Some(Ok(1))));
    drop(second);
    assert_eq!(poll_once(&mut group.next()), Poll::Ready(Some(Ok(2))));
    assert_eq!(poll_once(&mut group.next()), Poll::Ready(None));
}

#[test]
fn g3_each_result_goes_to_one_of_many_readers() {
    explore(0..100, |sim| {
        let group = Arc::new(numbers(sim).build().unwrap());
        let seen = Log::new();
        for reader in 0..4 {
            let (group, seen) = (Arc::clone(&group), seen.clone());
            spawn_on(sim, async move {
                loop {
                    if reader == 0 {
                        // This reader drops some of its calls.
                        let mut dropped = group.next();
                        if let Poll::Ready(Some(result)) = poll_once(&mut dropped) {
                            seen.push(result.unwrap());
                        }
                        after(1, 0).await;
                    }
                    match group.next().await {
                        Some(result) => seen.push(result.unwrap()),
                        None => break,
                    }
                }
            });
        }
        for n in 0..50 {
            group.try_go(after(n % 4, n)).unwrap();
        }
        group.close();
        sim.settle();
        let mut seen = seen.take();
        seen.sort_unstable();
        assert_eq!(seen, (0..50).collect::<Vec<_>>());
    });
}

#[test]
fn g3_next_or_prefers_an_item_to_the_end_and_both_to_the_token() {
    let sim = Sim::new(1);
    let (group, token) = (numbers(&sim).build().unwrap(), sim.token());
    let mut waiting = group.next_or(&token);
    assert!(poll_once(&mut waiting).is_pending());
    token.cancel("enough");
    assert_eq!(poll_once(&mut waiting), Poll::Ready(NextOr::Cancelled("enough".into())));
    drop(waiting);
    group.try_go(after(0, 1)).unwrap();
    sim.settle();
    assert_eq!(poll_once(&mut group.next_or(&token)), Poll::Ready(NextOr::Item(Ok(1))));
    assert_eq!(poll_once(&mut group.next_or(&token)), Poll::Ready(NextOr::Cancelled("enough".into())));
    group.close();
    assert_eq!(poll_once(&mut group.next_or(&token)), Poll::Ready(NextOr::End));
}

#[test]
fn g3_group_is_a_stream() {
    let sim = Sim::new(1);
    let group = numbers(&sim).build().unwrap();
    (0..5).for_each(|n| group.try_go(after(0, n)).unwrap());
    group.close();
    let borrowed = sim.run(group.results().take(2).collect::<Vec<_>>());
    assert_eq!(borrowed.len(), 2);
    let rest: Vec<u32> = sim.run(group.map(Result::unwrap).collect());
    assert_eq!(rest.len(), 3);
}

#[test]
fn g4_results_come_in_completion_order() {
    explore(0..100, |sim| {
        let group = numbers(sim).build().unwrap();
        let finished = Log::new();
        for n in 0..20 {
            let finished = finished.clone();
            group
                .try_go(async move {
                    after(n * 7 % 5, n).await;
                    finished.push(n);
                    n
                })
                .unwrap();
        }
        group.close();
        let read: Vec<u32> = sim.run(group.results().map(Result::unwrap).collect());
        assert_eq!(read, finished.take());
    });
}

#[test]
fn group_with_a_limit_or_a_buffer_of_zero_is_refused() {
    let sim = Sim::new(1);
    assert_eq!(numbers(&sim).limit(0).build().unwrap_err(), GroupError::ZeroLimit);
    assert_eq!(numbers(&sim).buffer(0).build().unwrap_err(), GroupError::ZeroBuffer);
    assert_eq!(numbers(&sim).limit(0).in_place().unwrap_err(), GroupError::ZeroLimit);
}
