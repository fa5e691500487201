//! How many tasks run, how many results wait, and who waits for that: G9.

use crate::common::tasks::{Living, after, beside, forever, numbers};
use crate::common::{Log, poll_once};
use pleach::NotTaken;
use pleach::sim::{Sim, explore};
use std::sync::Arc;
use std::task::Poll;

async fn counted(living: Living, steps: u32, value: u32) -> u32 {
    let _one = living.one();
    after(steps, value).await
}

#[test]
fn g9_the_limit_is_never_exceeded_and_is_reached() {
    for limit in [1, 3, 8] {
        explore(0..50, |sim| {
            let group = Arc::new(numbers(sim).limit(limit).build().unwrap());
            let living = Living::default();
            for feeder in 0..3 {
                let (group, living) = (Arc::clone(&group), living.clone());
                beside(sim, async move {
                    for n in 0..10 {
                        assert!(group.in_flight() <= limit);
                        group.go(counted(living.clone(), n % 3, feeder * 10 + n)).await.unwrap();
                    }
                });
            }
            sim.settle();
            let mut all = sim.run(group.drain());
            all.values.sort_unstable();
            assert_eq!(all.values, (0..30).collect::<Vec<_>>());
            assert!(living.most() <= limit);
        });
    }
    // Tasks that wait fill it to the brim.
    let sim = Sim::new(1);
    let group = numbers(&sim).limit(3).build().unwrap();
    (0..3).for_each(|_| group.try_go(forever(())).unwrap());
    assert_eq!(group.try_go(forever(())).unwrap_err().why, NotTaken::Full);
}

#[test]
fn g9_try_go_gives_the_task_back_and_go_waits_for_a_slot() {
    let sim = Sim::new(1);
    let group = numbers(&sim).limit(1).build().unwrap();
    let gate = crate::common::Gate::new();
    let open = gate.pass();
    group
        .try_go(async move {
            open.await;
            1
        })
        .unwrap();
    let refused = group.try_go(after(0, 2)).unwrap_err();
    assert_eq!(refused.why, NotTaken::Full);
    assert!(refused.to_string().contains("no free slot"));
    let mut waiting = group.go(refused.into_task());
    assert!(poll_once(&mut waiting).is_pending());
    sim.settle();
    gate.open();
    sim.settle();
    // The slot is promised: nobody gets ahead.
    assert_eq!(group.try_go(after(0, 3)).unwrap_err().why, NotTaken::Full);
    assert!(matches!(poll_once(&mut waiting), Poll::Ready(Ok(()))));
    drop(waiting);
    assert_eq!(sim.run(group.drain()).values, [1, 2]);
}

#[test]
fn g9_those_who_wait_for_a_slot_are_let_in_in_order() {
    explore(0..50, |sim| {
        let group = Arc::new(numbers(sim).limit(1).build().unwrap());
        let gate = crate::common::Gate::new();
        let open = gate.pass();
        group
            .try_go(async move {
                open.await;
                0
            })
            .unwrap();
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
fn g9_a_wait_for_a_slot_that_is_dropped_passes_its_slot_on() {
    let sim = Sim::new(1);
    let group = numbers(&sim).limit(1).build().unwrap();
    let gate = crate::common::Gate::new();
    let open = gate.pass();
    group
        .try_go(async move {
            open.await;
            1
        })
        .unwrap();
    let living = Living::default();
    let mut first = group.go(counted(living.clone(), 0, 2));
    let mut second = group.go(counted(living.clone(), 0, 3));
    assert!(poll_once(&mut first).is_pending() && poll_once(&mut second).is_pending());
    sim.settle();
    gate.open();
    sim.settle();
    drop(first); // it was promised the slot
    assert!(matches!(poll_once(&mut second), Poll::Ready(Ok(()))));
    drop(second);
    assert_eq!(sim.run(group.drain()).values, [1, 3]);
    assert_eq!(living.most(), 1);
}

#[test]
fn g9_a_wait_for_a_slot_can_be_cancelled_and_gives_the_task_back() {
    let sim = Sim::new(1);
    let group = numbers(&sim).limit(1).build().unwrap();
    group.try_go(forever(())).unwrap();
    let token = sim.token();
    let mut waiting = group.go_or(&token, after(0, 9));
    assert!(poll_once(&mut waiting).is_pending());
    token.cancel("no time");
    let Poll::Ready(Err(refused)) = poll_once(&mut waiting) else { panic!("it should be over") };
    assert_eq!(refused.why, NotTaken::Cancelled("no time".into()));
    assert_eq!(sim.run(refused.into_task()), 9);
    // With a slot free, a token that is cancelled does not matter.
    drop(waiting);
    let free = numbers(&sim).build().unwrap();
    sim.run(free.go_or(&token, after(0, 9))).unwrap();
}

#[test]
fn g9_closing_or_cancelling_the_group_ends_the_wait_for_a_slot() {
    explore(0..50, |sim| {
        for cancelled in [false, true] {
            let group = Arc::new(numbers(sim).limit(1).build().unwrap());
            group.try_go(after(50, 0)).unwrap();
            let causes = Log::new();
            for n in 0..3 {
                let (group, causes) = (Arc::clone(&group), causes.clone());
                beside(sim, async move {
                    let refused = group.go(after(0, n)).await.unwrap_err();
                    causes.push((refused.cause.clone(), refused.into_task().await));
                });
            }
            let quit = Arc::clone(&group);
            beside(sim, async move {
                after(5, 0).await;
                if cancelled { quit.cancel("quit") } else { quit.close() }
            });
            sim.settle();
            let mut given_back: Vec<u32> = Vec::new();
            for (cause, value) in causes.take() {
                assert_eq!(cause, cancelled.then(|| "quit".into()));
                given_back.push(value);
            }
            given_back.sort_unstable();
            assert_eq!(given_back, [0, 1, 2]);
        }
    });
}

#[test]
fn g9_the_buffer_bounds_unread_results_by_not_starting() {
    explore(0..50, |sim| {
        let group = Arc::new(numbers(sim).buffer(3).build().unwrap());
        let feeder = Arc::clone(&group);
        beside(sim, async move {
            for n in 0..20 {
                feeder.go(after(n % 2, n)).await.unwrap();
            }
            feeder.close();
        });
        sim.settle();
        assert_eq!((group.unread(), group.in_flight()), (3, 0), "started what there is room for, and finished it");
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
fn g9_wait_lifts_the_bound_on_unread_results() {
    explore(0..50, |sim| {
        let group = Arc::new(numbers(sim).buffer(2).build().unwrap());
        let gate = crate::common::Gate::new();
        let (feeder, first) = (Arc::clone(&group), gate.pass());
        beside(sim, async move {
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
        assert_eq!((group.in_flight(), group.unread()), (1, 1), "the buffer holds the rest up");
        // Nobody reads. Whoever waits for all of it must not wait for a reader that never comes.
        let mut waiting = group.wait();
        assert!(poll_once(&mut waiting).is_pending());
        sim.settle();
        assert_eq!((group.in_flight(), group.unread()), (1, 9));
        gate.open();
        assert_eq!(sim.run(&mut waiting), Ok(()));
        assert_eq!(group.unread(), 10);
        // With nobody waiting the bound is there again.
        drop(waiting);
        assert_eq!(group.try_go(after(0, 10)).unwrap_err().why, NotTaken::Full);
    });
}

#[test]
fn g9_a_group_with_both_bounds_keeps_both() {
    explore(0..50, |sim| {
        let group = Arc::new(numbers(sim).limit(2).buffer(5).build().unwrap());
        let (feeder, living) = (Arc::clone(&group), Living::default());
        let counting = living.clone();
        beside(sim, async move {
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
        assert!(living.most() <= 2);
    });
}

#[test]
fn g9_a_wait_that_is_over_lifts_no_bound() {
    let sim = Sim::new(1);
    let group = numbers(&sim).limit(1).buffer(1).build().unwrap();
    let gate = crate::common::Gate::new();
    let open = gate.pass();
    let gated = async move {
        open.await;
        1
    };
    group.try_go(gated).unwrap();
    let (mut waiting, mut going) = (group.wait(), group.go(after(0, 2)));
    assert!(poll_once(&mut waiting).is_pending() && poll_once(&mut going).is_pending());
    gate.open();
    sim.settle();
    // The wait has its answer, whether it was fetched or not, and the one result fills the buffer.
    assert!(poll_once(&mut going).is_pending());
    drop(going);
    assert_eq!(group.try_go(after(0, 3)).unwrap_err().why, NotTaken::Full);
    assert_eq!(poll_once(&mut waiting), Poll::Ready(Ok(())));
    assert_eq!(sim.run(group.next()), Some(Ok(1)));
    group.try_go(after(0, 4)).unwrap();
}
