//! G13: cancel grace of a group. Its tasks may continue for a limited time after a cancel.

use crate::common::tasks::{AliveCount, after, forever, numbers};
use crate::common::{PanicOnDrop, quiet};
use pleach::group::GroupError;
use pleach::prelude::*;
use pleach::runtime::{Dispatcher, Runtime};
use pleach::sim::{Sim, explore};
use std::sync::Arc;

const GRACE: Duration = Duration::from_secs(5);

/// Waits for the cancel of its group, then cleans up for `secs` seconds.
async fn clean_up(runtime: Arc<dyn Runtime>, token: CancelToken, secs: u64) -> u32 {
    token.cancelled().await;
    runtime.sleep_until(runtime.now() + Duration::from_secs(secs)).await;
    7
}

fn clean_up_task(sim: &Sim, group: &Group<u32>, secs: u64) -> impl Future<Output = u32> + Send + 'static {
    clean_up(sim.runtime(), group.token(), secs)
}

fn cleaned_up() -> Result<u32, TaskError> {
    Err(TaskError::TidiedUp("enough".into()))
}

fn cancelled() -> Result<u32, TaskError> {
    Err(TaskError::Cancelled("enough".into()))
}

#[test]
fn g13_tasks_use_the_grace_of_their_group_or_their_own() {
    explore(0..100, |sim| {
        let group = numbers(sim).cancel_grace(GRACE).build().unwrap();
        group.try_go(clean_up_task(sim, &group, 4)).unwrap();
        group.try_go(clean_up_task(sim, &group, 6)).unwrap();
        group.task().cancel_grace(Duration::from_secs(1)).try_go(clean_up_task(sim, &group, 3)).unwrap();
        group.task().cancel_grace(Duration::from_secs(20)).try_go(clean_up_task(sim, &group, 10)).unwrap();
        sim.settle();
        let start = sim.now();
        group.cancel("enough");
        let mut ended = Vec::new();
        while let Some(result) = sim.run(group.next()) {
            ended.push((sim.now().since(start).as_secs(), result));
        }
        assert_eq!(ended, [(1, cancelled()), (4, cleaned_up()), (5, cancelled()), (10, cleaned_up())]);
        assert!(group.errors().errors.is_empty(), "a cancelled task is not an error");
        assert_eq!(sim.run(group.wait()), Err(TaskError::Cancelled("enough".into())));
        sim.settle();
        assert_eq!(sim.tasks_alive(), 0, "its runners have ended");
    });
}

#[test]
fn g13_one_task_may_have_its_own_grace() {
    explore(0..50, |sim| {
        let group = numbers(sim).build().unwrap();
        group.try_go(clean_up_task(sim, &group, 1)).unwrap();
        group.task().cancel_grace(GRACE).try_go(clean_up_task(sim, &group, 1)).unwrap();
        sim.settle();
        group.cancel("enough");
        let all = sim.run(group.drain());
        assert_eq!(all.errors, [cancelled().unwrap_err(), cleaned_up().unwrap_err()]);
    });
}

#[test]
fn g13_group_stays_in_the_tree_until_the_grace_ends() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let scope = system.scope("work").unwrap();
    let group = scope.group::<u32>("g").cancel_grace(GRACE).build().unwrap();
    let alive = AliveCount::default();
    group.try_go(forever(alive.add())).unwrap();
    sim.settle();
    scope.cancel("enough");
    sim.settle();
    assert_eq!((group.any_ref().exit(), scope.any().exit(), alive.now()), (None, None, 1));
    // A second cancel changes nothing.
    group.cancel("again");
    sim.advance(GRACE);
    assert_eq!(alive.now(), 0);
    assert_eq!(group.any_ref().exit(), Some(Exit::Cancelled("enough".into())));
    assert_eq!(scope.any().exit(), Some(Exit::Cancelled("enough".into())));
    assert_eq!(sim.run(group.drain()).errors, [cancelled().unwrap_err()]);
}

#[test]
fn g13_task_that_has_not_started_is_dropped_at_once() {
    explore(0..50, |sim| {
        let group = numbers(sim).cancel_grace(GRACE).build().unwrap();
        let (alive, start) = (AliveCount::default(), sim.now());
        (0..3).for_each(|_| group.try_go(forever(alive.add())).unwrap());
        group.cancel("enough");
        assert_eq!(alive.now(), 0);
        assert_eq!(sim.run(group.drain()).errors.len(), 3);
        assert_eq!(sim.now(), start);
    });
}

#[test]
fn g13_siblings_get_their_grace_after_a_failure() {
    explore(0..100, |sim| {
        let group = numbers(sim).cancel_grace(GRACE).build().unwrap();
        group.try_go(clean_up_task(sim, &group, 1)).unwrap();
        let (runtime, token) = (sim.runtime(), group.token());
        group
            .try_go(async move {
                clean_up(runtime, token, 2).await;
                Err::<u32, _>("late")
            })
            .unwrap();
        sim.settle();
        group.try_go(async { Err::<u32, _>("first") }).unwrap();
        let all = sim.run(group.drain());
        let texts: Vec<String> = all.errors.iter().map(ToString::to_string).collect();
        assert!(texts[0].contains("first") && texts[1].contains("tidied up") && texts[2].contains("late"), "{texts:?}");
        assert_eq!(group.errors().errors.len(), 2, "a failure during the grace is an error");
        assert_eq!(sim.run(group.wait()), Err(all.errors[0].clone()));
    });
}

#[test]
fn g13_task_that_cancels_its_own_group_continues() {
    explore(0..50, |sim| {
        let group = numbers(sim).cancel_grace(GRACE).build().unwrap();
        // One task returns in the poll in which it cancels; one waits after that.
        for steps in [0, 3] {
            let token = group.token();
            let cancel_then_yield = async move {
                token.cancel("enough");
                after(steps, 1).await
            };
            drop(group.try_go(cancel_then_yield));
            sim.settle();
        }
        let own = numbers(sim).cancel_grace(GRACE).build().unwrap();
        let token = own.token();
        own.try_go(async move {
            token.cancel("enough");
            after(3, 1).await
        })
        .unwrap();
        assert_eq!(sim.run(group.drain()).values, [1]);
        assert_eq!(sim.run(own.drain()).errors, [cleaned_up().unwrap_err()]);
    });
}

#[test]
fn g13_busy_tasks_in_their_grace_share_the_runner() {
    explore(0..50, |sim| {
        let group = numbers(sim).cancel_grace(GRACE).build().unwrap();
        for _ in 0..10 {
            let token = group.token();
            let busy = async move {
                token.cancelled().await;
                after(200, 1).await
            };
            group.try_go(busy).unwrap();
        }
        sim.settle();
        group.cancel("enough");
        assert_eq!(sim.run(group.drain()).errors, vec![cleaned_up().unwrap_err(); 10]);
    });
}

#[test]
fn g13_deadline_during_the_grace_drops_the_task() {
    let sim = Sim::new(1);
    let group = numbers(&sim).cancel_grace(GRACE).build().unwrap();
    group.task().timeout(Duration::from_secs(2)).try_go(forever(())).unwrap();
    sim.settle();
    let start = sim.now();
    group.cancel("enough");
    let error = sim.run(group.next()).unwrap().unwrap_err();
    assert!(error.error::<pleach::scope::Elapsed>().is_some(), "{error}");
    assert_eq!(sim.now().since(start), Duration::from_secs(2));
}

#[test]
fn g13_panic_in_the_drop_of_a_result_fails_its_task() {
    quiet();
    let sim = Sim::new(1);
    let group = GroupBuilder::<PanicOnDrop>::under(&sim.token()).cancel_grace(GRACE).build().unwrap();
    let token = group.token();
    let task = async move {
        token.cancelled().await;
        PanicOnDrop
    };
    group.task().named("panicking").try_go(task).map_err(|refused| refused.reason).unwrap();
    sim.settle();
    group.cancel("enough");
    let error = sim.run(group.next()).unwrap().err().unwrap();
    assert!(matches!(&error, TaskError::Panicked(failure) if failure.path().to_string().ends_with("/panicking")), "{error}");
}

#[test]
fn g13_dropped_group_gives_its_tasks_their_grace() {
    let sim = Sim::new(1);
    let alive = AliveCount::default();
    let group = numbers(&sim).cancel_grace(GRACE).build().unwrap();
    group.try_go(forever(alive.add())).unwrap();
    sim.settle();
    drop(group);
    sim.settle();
    assert_eq!(alive.now(), 1);
    sim.advance(GRACE);
    assert_eq!((alive.now(), sim.tasks_alive()), (0, 0));
}

#[test]
fn g13_dropped_runtime_ends_the_grace() {
    let dispatcher = Dispatcher::seeded(1);
    let group = GroupBuilder::<u32>::under(&CancelToken::root(dispatcher.runtime())).cancel_grace(GRACE).build().unwrap();
    let alive = AliveCount::default();
    for _ in 0..3 {
        let (token, guard) = (group.token(), alive.add());
        let task = async move {
            token.cancelled().await;
            forever(guard).await
        };
        group.try_go(task).unwrap();
    }
    dispatcher.drain_ready();
    group.cancel("enough");
    dispatcher.drain_ready();
    assert_eq!((alive.now(), group.in_flight()), (3, 3));
    drop(dispatcher);
    assert_eq!((alive.now(), group.in_flight()), (0, 0));
}

#[test]
fn g13_group_in_place_rejects_a_grace() {
    let sim = Sim::new(1);
    let refused = numbers(&sim).cancel_grace(GRACE).in_place().unwrap_err();
    assert_eq!(refused, GroupError::GraceInPlace);
    assert!(refused.to_string().contains("make it with `build`"), "{refused}");
}
