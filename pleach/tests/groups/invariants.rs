//! G1 to G6: one test for each operation of a group and for each invariant of its state.
//!
//! The operations are `go`, `close`, `next`, `wait` and `cancel`. The invariants are numbered.

use crate::common::tasks::{after, forever, gated, numbers, spawn_on};
use crate::common::{Gate, Log, poll_once, quiet};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use std::sync::Arc;
use std::task::Poll;

#[test]
fn g1_a_closed_group_rejects_go() {
    let sim = Sim::new(1);
    let group = numbers(&sim).build().unwrap();
    assert!(sim.run(group.go(after(0, 1))).is_ok());
    group.close();
    assert!(sim.run(group.go(after(0, 2))).is_err());
    assert_eq!(sim.run(group.drain()).values, [1]);
}

#[test]
fn g2_close_accepts_no_more_and_does_not_cancel() {
    let sim = Sim::new(1);
    let (group, gate) = (numbers(&sim).build().unwrap(), Gate::new());
    group.try_go(gated(&gate, 1)).unwrap();
    sim.settle();
    group.close();
    assert!(group.try_go(after(0, 2)).is_err() && !group.token().is_cancelled());
    gate.open();
    assert_eq!(sim.run(group.drain()).values, [1]);
}

#[test]
fn g3_next_returns_results_in_completion_order() {
    let sim = Sim::new(1);
    let (group, gates) = (numbers(&sim).build().unwrap(), [Gate::new(), Gate::new(), Gate::new()]);
    (0..3).for_each(|n| group.try_go(gated(&gates[n as usize], n)).unwrap());
    sim.settle();
    for n in [2, 0, 1] {
        gates[n].open();
        sim.settle();
    }
    assert_eq!([2, 0, 1].map(|_| sim.run(group.next()).unwrap().unwrap()), [2, 0, 1]);
}

#[test]
fn g3_next_returns_the_end_when_drained() {
    let sim = Sim::new(1);
    let group = numbers(&sim).build().unwrap();
    group.close();
    assert_eq!(sim.run(group.next()), None);
    assert_eq!(sim.run(group.next()), None, "repeatedly");
}

#[test]
fn g3_next_or_waits_for_a_result_the_token_or_the_end() {
    let sim = Sim::new(1);
    let (group, gate) = (numbers(&sim).build().unwrap(), Gate::new());
    group.try_go(gated(&gate, 1)).unwrap();
    sim.settle();
    let deadline = sim.token().child_for(Duration::from_secs(3));
    assert_eq!(sim.run(group.next_or(&deadline)), NextOr::Cancelled(Cause::DeadlineExceeded));
    let token = sim.token();
    let mut waiting = group.next_or(&token);
    assert!(poll_once(&mut waiting).is_pending());
    gate.open();
    assert_eq!(sim.run(&mut waiting), NextOr::Item(Ok(1)));
    let mut waiting = group.next_or(&token);
    assert!(poll_once(&mut waiting).is_pending());
    group.close();
    assert_eq!(sim.run(&mut waiting), NextOr::End);
}

#[test]
fn g5_wait_prefers_the_first_error_to_the_cause() {
    let sim = Sim::new(1);
    let good = numbers(&sim).build().unwrap();
    good.try_go(after(1, 1)).unwrap();
    assert_eq!(sim.run(good.wait()), Ok(()));
    good.cancel("later");
    assert_eq!(sim.run(good.wait()), Err(TaskError::Cancelled("later".into())));
    let both = numbers(&sim).fail_fast(false).build().unwrap();
    both.try_go(async { Err::<u32, _>("first") }).unwrap();
    sim.settle();
    both.cancel("later");
    assert!(matches!(sim.run(both.wait()), Err(TaskError::Failed(failure)) if failure.to_string().contains("first")));
}

#[test]
fn g6_cancel_without_a_cause_means_cancelled() {
    let sim = Sim::new(1);
    let group = numbers(&sim).build().unwrap();
    group.try_go(forever(())).unwrap();
    group.cancel(());
    assert_eq!(sim.run(group.wait()), Err(TaskError::Cancelled(Cause::Cancelled)));
}

#[test]
fn g1_invariant_1_in_flight_is_never_negative() {
    explore(0..100, |sim| {
        let group = Arc::new(numbers(sim).fail_fast(false).build().unwrap());
        // A count below zero would wrap to a huge one. Debug builds assert it too.
        for n in 0..20 {
            let group = Arc::clone(&group);
            spawn_on(sim, async move {
                group.go(after(n % 3, n)).await.unwrap();
                assert!(group.in_flight() <= 20);
            });
        }
        sim.settle();
        assert_eq!(group.in_flight(), 0);
    });
}

/// Every call takes one lock, so no call sees a half-done change of another.
#[test]
fn g3_invariant_2_calls_see_only_complete_changes() {
    explore(0..100, |sim| {
        let group = Arc::new(numbers(sim).build().unwrap());
        let seen = Log::new();
        for n in 0..10 {
            let (group, seen) = (Arc::clone(&group), seen.clone());
            spawn_on(sim, async move {
                if group.go(after(n, n)).await.is_ok() {
                    seen.push(());
                }
            });
        }
        let closer = Arc::clone(&group);
        spawn_on(sim, async move { closer.close() });
        sim.settle();
        let all = sim.run(group.drain());
        assert_eq!(all.values.len(), seen.len(), "every accepted task has ended");
    });
}

#[test]
fn g1_invariant_3_task_counts_once_before_it_is_polled() {
    let sim = Sim::new(1);
    let group = numbers(&sim).build().unwrap();
    group.try_go(after(0, 1)).unwrap();
    assert_eq!((group.in_flight(), sim.polls()), (1, 0));
}

#[test]
fn g1_invariants_4_and_5_every_task_ends_exactly_once() {
    quiet();
    explore(0..100, |sim| {
        let group = numbers(sim).fail_fast(false).build().unwrap();
        group.try_go(after(1, 1)).unwrap();
        group.try_go(async { Err::<u32, _>("no") }).unwrap();
        group.try_go(async { if true { panic!("injected") } else { 0_u32 } }).unwrap();
        group.try_go(forever(())).unwrap();
        sim.settle();
        group.try_go(forever(())).unwrap();
        group.cancel(());
        let all = sim.run(group.drain());
        assert_eq!((all.values.len(), all.errors.len(), group.in_flight()), (1, 4, 0));
    });
}

#[test]
fn g5_invariant_6_first_error_never_changes() {
    explore(0..100, |sim| {
        let group = numbers(sim).fail_fast(false).build().unwrap();
        (0..5).for_each(|n| group.try_go(async move { Err::<u32, _>(format!("{}", after(n % 3, n).await)) }).unwrap());
        sim.settle();
        let first = sim.run(group.wait()).unwrap_err();
        assert_eq!(Some(&first), group.errors().errors.first());
        (0..5).for_each(|_| group.try_go(async { Err::<u32, _>("later") }).unwrap());
        assert_eq!(sim.run(group.wait()).unwrap_err(), first);
        drop(sim.run(group.drain()));
        assert_eq!(sim.run(group.wait()).unwrap_err(), first, "reading the results does not change it");
    });
}

#[test]
fn g3_invariant_7_end_requires_closed_idle_and_read() {
    // Each of the three conditions is required for the end.
    for (closed, in_flight, queued) in [(false, false, false), (true, true, false), (true, false, true), (true, false, false)] {
        let sim = Sim::new(1);
        let group = numbers(&sim).build().unwrap();
        if queued {
            group.try_go(after(0, 1)).unwrap();
        }
        sim.settle();
        if in_flight {
            group.try_go(forever(())).unwrap();
        }
        if closed {
            group.close();
        }
        let ended = poll_once(&mut group.next()) == Poll::Ready(None);
        assert_eq!(ended, closed && !in_flight && !queued);
    }
}
