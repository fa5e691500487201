//! G3, G9 and G10: the memory of a group: nothing after it was dropped, and otherwise only its
//! running tasks and unread results.

use crate::{ALLOCATOR, HARNESS_BYTES_MAX, exclusive, kept};
use pleach::prelude::*;
use pleach::sim::Sim;
use std::future::pending;

/// So many that [`HARNESS_BYTES_MAX`] is less than seven bytes per round.
const ROUNDS: usize = 10_000;

/// The largest number of allocated bytes at any call of the function given to `work`.
fn peak(work: impl FnOnce(&mut dyn FnMut())) -> isize {
    let before = ALLOCATOR.stats();
    let mut peak = 0;
    work(&mut || {
        let change = ALLOCATOR.stats() - before;
        peak = peak.max(change.bytes_allocated as isize - change.bytes_deallocated as isize);
    });
    peak
}

/// Drops a group with tasks and results in every state.
fn use_and_drop(sim: &Sim, token: &CancelToken) {
    let group = GroupBuilder::<String>::under(token).fail_fast(false).limit(64).build().unwrap();
    for n in 0..20 {
        group.try_go(async move { format!("an unread result: {n}") }).unwrap();
        group.try_go(pending::<String>()).unwrap();
    }
    group.task().named("named").timeout(Duration::from_secs(9)).try_go(pending::<String>()).unwrap();
    group.try_go(async { Err::<String, _>("an error") }).unwrap();
    sim.settle();
    group.try_go(pending::<String>()).unwrap();
    let token_clone = group.token();
    drop(group);
    drop(token_clone);
    sim.settle();
    let in_place = GroupBuilder::<String>::under(token).in_place().unwrap();
    in_place.try_go(async { String::from("unread") }).unwrap();
    in_place.try_go(pending::<String>()).unwrap();
    sim.run(async { drop(in_place.next().await) });
}

#[test]
fn g10_dropped_group_keeps_no_memory() {
    let _exclusive = exclusive();
    let sim = Sim::new(1);
    let token = sim.token();
    // Lets the queues of the simulator grow to their final size.
    (0..3).for_each(|_| use_and_drop(&sim, &token));
    let kept = kept(|| (0..ROUNDS).for_each(|_| use_and_drop(&sim, &token)));
    assert!(kept < HARNESS_BYTES_MAX, "{kept} bytes");
    assert_eq!(sim.tasks_alive(), 0);
}

#[test]
fn g10_a_million_read_tasks_use_no_more_memory_than_a_thousand() {
    let _exclusive = exclusive();
    let peak_of = |tasks: u64| {
        let sim = Sim::new(1);
        let group = GroupBuilder::<u64>::under(&sim.token()).limit(100).build().unwrap();
        peak(|measure| {
            sim.run(async {
                let mut sum = 0;
                for n in 0..tasks {
                    group.go(async move { n }).await.unwrap();
                    if n % 50 == 49 {
                        for _ in 0..50 {
                            sum += group.next().await.unwrap().unwrap();
                        }
                        measure();
                    }
                }
                assert_eq!(sum, tasks * (tasks - 1) / 2);
            });
        })
    };
    let (small, large) = (peak_of(1_000), peak_of(1_000_000));
    assert!(large <= small + HARNESS_BYTES_MAX, "{large} bytes for a million, {small} for a thousand");
}

#[test]
fn g9_buffer_bounds_memory_without_a_reader() {
    let _exclusive = exclusive();
    let peak_of = |tasks: u32| {
        let sim = Sim::new(1);
        let group = std::sync::Arc::new(GroupBuilder::<[u8; 256]>::under(&sim.token()).buffer(16).build().unwrap());
        let feeder = std::sync::Arc::clone(&group);
        peak(|measure| {
            sim.runtime().spawn(Box::pin(async move {
                for _ in 0..tasks {
                    feeder.go(async { [0; 256] }).await.unwrap();
                }
                feeder.close();
            }));
            sim.settle();
            assert_eq!(group.unread(), 16);
            measure();
            sim.run(async {
                while let Some(result) = group.next().await {
                    drop(result);
                    measure();
                }
            });
        })
    };
    let (small, large) = (peak_of(100), peak_of(10_000));
    assert!(large <= small + HARNESS_BYTES_MAX, "{large} bytes for ten thousand, {small} for a hundred");
}

#[test]
fn g10_group_frees_its_queues_after_a_burst() {
    let _exclusive = exclusive();
    let sim = Sim::new(1);
    let group = GroupBuilder::<u64>::under(&sim.token()).build().unwrap();
    let burst = |tasks: u64| {
        (0..tasks).for_each(|n| group.try_go(async move { n }).unwrap());
        sim.settle();
        sim.run(async {
            for _ in 0..tasks {
                drop(group.next().await);
            }
        });
    };
    burst(1_000);
    let kept = kept(|| burst(100_000));
    assert!(kept < HARNESS_BYTES_MAX, "{kept} bytes remain after a hundred thousand tasks");
}

#[test]
fn g3_repeatedly_dropped_next_keeps_no_memory() {
    let _exclusive = exclusive();
    let sim = Sim::new(1);
    let group = GroupBuilder::<u64>::under(&sim.token()).limit(1).build().unwrap();
    group.try_go(pending::<u64>()).unwrap();
    let in_place = GroupBuilder::<u64>::under(&sim.token()).in_place().unwrap();
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let mut round = || {
        assert!(std::pin::Pin::new(&mut group.next()).poll(&mut cx).is_pending());
        assert!(std::pin::Pin::new(&mut group.wait()).poll(&mut cx).is_pending());
        assert!(std::pin::Pin::new(&mut group.go(async { 1 })).poll(&mut cx).is_pending());
        assert!(std::pin::Pin::new(&mut in_place.next()).poll(&mut cx).is_pending());
    };
    round();
    let kept = kept(|| (0..ROUNDS).for_each(|_| round()));
    assert!(kept < HARNESS_BYTES_MAX, "{kept} bytes");
}
