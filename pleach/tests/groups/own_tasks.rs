//! G9: a task that waits for its own group gets an error and does not hang.

use crate::common::quiet;
use crate::common::tasks::numbers;
use pleach::group::{GoError, GoRejection};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use std::sync::{Arc, Weak};

/// Waits for a slot of its own group, with a token so that it gets the reason if there is none.
async fn go_in_own_group(group: Weak<Group<u32>>, token: CancelToken) -> u32 {
    let group = group.upgrade().unwrap();
    match group.go_or(&token, async { 1 }).await.map_err(GoError::without_task) {
        Ok(()) => 10,
        Err(error) if error.reason == GoRejection::SlotDeadlock => {
            assert!(error.to_string().contains("none will be free"), "{error}");
            20
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn g9_task_that_waits_for_a_slot_of_its_full_group_gets_an_error() {
    for limit in [1, 3] {
        explore(0..50, |sim| {
            let group = Arc::new(numbers(sim).limit(limit).build().unwrap());
            let token = CancelToken::root(sim.runtime());
            for _ in 0..limit {
                group.try_go(go_in_own_group(Arc::downgrade(&group), token.clone())).unwrap();
            }
            let mut all = Vec::new();
            sim.run(async {
                while let Some(result) = if group.in_flight() + group.unread() > 0 { group.next().await } else { None } {
                    all.push(result.unwrap());
                }
            });
            // The last task to wait gets the error and ends. With its slot the others continue,
            // each with a new task.
            all.sort_unstable();
            let mut expected = vec![1; limit - 1];
            expected.extend(vec![10; limit - 1]);
            expected.push(20);
            assert_eq!(all, expected);
        });
    }
}

#[test]
fn g9_task_may_wait_for_a_slot_of_its_group_while_another_runs() {
    explore(0..50, |sim| {
        let group = Arc::new(numbers(sim).limit(2).build().unwrap());
        let (token, runtime) = (CancelToken::root(sim.runtime()), sim.runtime());
        group.try_go(go_in_own_group(Arc::downgrade(&group), token)).unwrap();
        let slow = async move {
            runtime.sleep_until(runtime.now() + Duration::from_secs(1)).await;
            3
        };
        group.try_go(slow).unwrap();
        sim.run(group.wait()).unwrap();
        group.close();
        let mut all = sim.run(group.drain()).values;
        all.sort_unstable();
        assert_eq!(all, [1, 3, 10]);
    });
}

#[test]
fn g9_several_waits_of_one_task_do_not_deadlock() {
    let sim = Sim::new(1);
    let group = Arc::new(numbers(&sim).limit(2).build().unwrap());
    let runtime = sim.runtime();
    let own = Arc::downgrade(&group);
    group
        .try_go(async move {
            let group = own.upgrade().unwrap();
            let all = futures::future::join_all((0..40).map(|_| group.go(async { 1 }))).await;
            all.iter().filter(|result| result.is_ok()).count() as u32
        })
        .unwrap();
    group
        .try_go(async move {
            runtime.sleep_until(runtime.now() + Duration::from_secs(1)).await;
            3
        })
        .unwrap();
    sim.run(group.wait()).unwrap();
    group.close();
    let all = sim.run(group.drain()).values;
    assert_eq!((all.len(), all.iter().sum::<u32>()), (42, 40 + 40 + 3));
}

#[test]
fn g9_in_place_task_that_waits_for_its_own_group_fails() {
    quiet();
    let sim = Sim::new(1);
    for waits in [false, true] {
        let group = Arc::new(numbers(&sim).limit(1).in_place().unwrap());
        let own = Arc::downgrade(&group);
        let task = async move {
            let group = own.upgrade().unwrap();
            if waits {
                drop(group.wait().await);
            } else {
                drop(group.go(async { 1 }).await);
            }
            1
        };
        group.try_go(task).unwrap();
        let error = sim.run(group.wait()).unwrap_err();
        assert!(matches!(&error, TaskError::Panicked(_)), "{error}");
    }
    // A task of another in-place group may wait for it.
    let (outer, inner) = (numbers(&sim).in_place().unwrap(), Arc::new(numbers(&sim).limit(1).in_place().unwrap()));
    let own = Arc::clone(&inner);
    sim.run(async {
        inner.go(async { 7 }).await.unwrap();
        outer.go(async move { u32::from(own.wait().await.is_ok()) }).await.unwrap();
        assert_eq!(outer.next().await, Some(Ok(1)));
    });
}

#[test]
fn g9_task_that_calls_go_or_wait_of_its_full_group_fails() {
    quiet();
    let sim = Sim::new(1);
    for waits in [false, true] {
        let group = Arc::new(numbers(&sim).limit(1).build().unwrap());
        let own = Arc::downgrade(&group);
        let task = async move {
            let group = own.upgrade().unwrap();
            if waits {
                drop(group.wait().await);
            } else {
                drop(group.go(async { 1 }).await);
            }
            1
        };
        group.try_go(task).unwrap();
        let error = sim.run(group.wait()).unwrap_err();
        assert!(matches!(&error, TaskError::Panicked(_)), "{error}");
        assert!(error.to_string().contains("wait"), "{error}");
    }
}
