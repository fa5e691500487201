//! What a group holds, counted by the allocator: nothing after it is dropped, and no more than is in flight or unread. G10, G9, A9.

use crate::{ALLOCATOR, alone};
use pleach::prelude::*;
use pleach::sim::Sim;
use std::future::pending;

/// What the threads of the test harness may allocate beside a measurement: less than seven bytes for each of so many rounds.
const HARNESS_BYTES_MAX: isize = 65_536;
const ROUNDS: usize = 10_000;

/// How much more is allocated now than was before `work`.
fn kept(work: impl FnOnce()) -> isize {
    let before = ALLOCATOR.stats();
    work();
    let change = ALLOCATOR.stats() - before;
    change.bytes_allocated as isize - change.bytes_deallocated as isize
}

/// The most that was allocated at once while `work` ran, as it says itself by calling the function it is given.
fn most(work: impl FnOnce(&mut dyn FnMut())) -> isize {
    let before = ALLOCATOR.stats();
    let mut most = 0;
    work(&mut || {
        let change = ALLOCATOR.stats() - before;
        most = most.max(change.bytes_allocated as isize - change.bytes_deallocated as isize);
    });
    most
}

/// Everything a group can be in the middle of.
fn live_and_drop(sim: &Sim, token: &CancelToken) {
    let group = GroupBuilder::<String>::under(token).fail_fast(false).limit(64).build().unwrap();
    for n in 0..20 {
        group.try_go(async move { format!("a result that nobody reads: {n}") }).unwrap();
        group.try_go(pending::<String>()).unwrap();
    }
    group.task().named("named").within(Duration::from_secs(9)).try_go(pending::<String>()).unwrap();
    group.try_go(async { Err::<String, _>("an error") }).unwrap();
    sim.settle();
    group.try_go(pending::<String>()).unwrap();
    let held = group.token();
    drop(group);
    drop(held);
    sim.settle();
    let place = GroupBuilder::<String>::under(token).in_place().unwrap();
    place.try_go(async { String::from("unread") }).unwrap();
    place.try_go(pending::<String>()).unwrap();
    sim.run(async { drop(place.next().await) });
}

#[test]
fn g10_nothing_is_allocated_after_a_group_was_dropped() {
    let _alone = alone();
    let sim = Sim::new(1);
    let token = sim.token();
    // The first ones leave the queues of the simulator as large as they get.
    (0..3).for_each(|_| live_and_drop(&sim, &token));
    let kept = kept(|| (0..ROUNDS).for_each(|_| live_and_drop(&sim, &token)));
    assert!(kept < HARNESS_BYTES_MAX, "{kept} bytes");
    assert_eq!(sim.tasks_alive(), 0);
}

#[test]
fn g10_a_million_tasks_take_no_more_memory_than_a_thousand_when_they_are_read() {
    let _alone = alone();
    let through = |tasks: u64| {
        let sim = Sim::new(1);
        let group = GroupBuilder::<u64>::under(&sim.token()).limit(100).build().unwrap();
        most(|look| {
            sim.run(async {
                let mut sum = 0;
                for n in 0..tasks {
                    group.go(async move { n }).await.unwrap();
                    if n % 50 == 49 {
                        for _ in 0..50 {
                            sum += group.next().await.unwrap().unwrap();
                        }
                        look();
                    }
                }
                assert_eq!(sum, tasks * (tasks - 1) / 2);
            });
        })
    };
    let (few, many) = (through(1_000), through(1_000_000));
    assert!(many <= few + HARNESS_BYTES_MAX, "{many} bytes for a million, {few} for a thousand");
}

#[test]
fn g9_with_a_buffer_memory_is_bounded_though_nobody_reads_for_long() {
    let _alone = alone();
    let held = |tasks: u32| {
        let sim = Sim::new(1);
        let group = std::sync::Arc::new(GroupBuilder::<[u8; 256]>::under(&sim.token()).buffer(16).build().unwrap());
        let feeder = std::sync::Arc::clone(&group);
        most(|look| {
            sim.runtime().spawn(Box::pin(async move {
                for _ in 0..tasks {
                    feeder.go(async { [0; 256] }).await.unwrap();
                }
                feeder.close();
            }));
            sim.settle();
            assert_eq!(group.unread(), 16);
            look();
            sim.run(async {
                while let Some(result) = group.next().await {
                    drop(result);
                    look();
                }
            });
        })
    };
    let (few, many) = (held(100), held(10_000));
    assert!(many <= few + HARNESS_BYTES_MAX, "{many} bytes for ten thousand, {few} for a hundred");
}

#[test]
fn g10_a_group_that_was_large_gives_its_queues_back() {
    let _alone = alone();
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
    assert!(kept < HARNESS_BYTES_MAX, "{kept} bytes are kept after a hundred thousand tasks");
}

#[test]
fn g3_a_next_that_is_dropped_over_and_over_leaves_nothing_behind() {
    let _alone = alone();
    let sim = Sim::new(1);
    let group = GroupBuilder::<u64>::under(&sim.token()).limit(1).build().unwrap();
    group.try_go(pending::<u64>()).unwrap();
    let place = GroupBuilder::<u64>::under(&sim.token()).in_place().unwrap();
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let mut round = || {
        assert!(std::pin::Pin::new(&mut group.next()).poll(&mut cx).is_pending());
        assert!(std::pin::Pin::new(&mut group.wait()).poll(&mut cx).is_pending());
        assert!(std::pin::Pin::new(&mut group.go(async { 1 })).poll(&mut cx).is_pending());
        assert!(std::pin::Pin::new(&mut place.next()).poll(&mut cx).is_pending());
    };
    round();
    let kept = kept(|| (0..ROUNDS).for_each(|_| round()));
    assert!(kept < HARNESS_BYTES_MAX, "{kept} bytes");
}
