//! G13: tasks of a group that may run on for a while after a cancel, to tidy up.

use crate::common::tasks::{Living, after, forever, numbers};
use crate::common::{INJECTED, quiet};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{Dispatcher, GroupError, Runtime};
use std::sync::Arc;

const GRACE: Duration = Duration::from_secs(5);

/// Waits for the cancel of its group, then takes `secs` to tidy up.
async fn tidy(runtime: Arc<dyn Runtime>, token: CancelToken, secs: u64) -> u32 {
    token.cancelled().await;
    runtime.sleep_until(runtime.now() + Duration::from_secs(secs)).await;
    7
}

fn tidying(sim: &Sim, group: &Group<u32>, secs: u64) -> impl Future<Output = u32> + Send + 'static {
    tidy(sim.runtime(), group.token(), secs)
}

fn tidied_up() -> Result<u32, TaskError> {
    Err(TaskError::TidiedUp("enough".into()))
}

fn cut_off() -> Result<u32, TaskError> {
    Err(TaskError::Cancelled("enough".into()))
}

#[test]
fn g13_group_grace_lets_tasks_tidy_up_and_says_whether_they_did() {
    explore(0..100, |sim| {
        let group = numbers(sim).cancel_grace(GRACE).build().unwrap();
        group.try_go(tidying(sim, &group, 4)).unwrap();
        group.try_go(tidying(sim, &group, 6)).unwrap();
        group.task().cancel_grace(Duration::from_secs(1)).try_go(tidying(sim, &group, 3)).unwrap();
        group.task().cancel_grace(Duration::from_secs(20)).try_go(tidying(sim, &group, 10)).unwrap();
        sim.settle();
        let begun = sim.now();
        group.cancel("enough");
        let mut ended = Vec::new();
        while let Some(result) = sim.run(group.next()) {
            ended.push((sim.now().since(begun).as_secs(), result));
        }
        assert_eq!(ended, [(1, cut_off()), (4, tidied_up()), (5, cut_off()), (10, tidied_up())]);
        assert!(group.errors().errors.is_empty(), "a task that was cancelled is no error");
        assert_eq!(sim.run(group.wait()), Err(TaskError::Cancelled("enough".into())));
        sim.settle();
        assert_eq!(sim.tasks_alive(), 0, "its runners have ended with it");
    });
}

#[test]
fn g13_one_task_may_have_a_grace_in_a_group_without() {
    explore(0..50, |sim| {
        let group = numbers(sim).build().unwrap();
        group.try_go(tidying(sim, &group, 1)).unwrap();
        group.task().cancel_grace(GRACE).try_go(tidying(sim, &group, 1)).unwrap();
        sim.settle();
        group.cancel("enough");
        let all = sim.run(group.drain());
        assert_eq!(all.errors, [cut_off().unwrap_err(), tidied_up().unwrap_err()]);
    });
}

#[test]
fn g13_group_stays_in_the_tree_until_the_grace_is_over() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let scope = system.scope("work").unwrap();
    let group = scope.group::<u32>("g").cancel_grace(GRACE).build().unwrap();
    let living = Living::default();
    group.try_go(forever(living.one())).unwrap();
    sim.settle();
    scope.cancel("enough");
    sim.settle();
    assert_eq!((group.any_ref().exit(), scope.any().exit(), living.now()), (None, None, 1));
    // A second cancel changes nothing.
    group.cancel("again");
    sim.advance(GRACE);
    assert_eq!(living.now(), 0);
    assert_eq!(group.any_ref().exit(), Some(Exit::Cancelled("enough".into())));
    assert_eq!(scope.any().exit(), Some(Exit::Cancelled("enough".into())));
    assert_eq!(sim.run(group.drain()).errors, [cut_off().unwrap_err()]);
}

#[test]
fn g13_task_that_has_not_begun_is_dropped_at_once() {
    explore(0..50, |sim| {
        let group = numbers(sim).cancel_grace(GRACE).build().unwrap();
        let (living, begun) = (Living::default(), sim.now());
        (0..3).for_each(|_| group.try_go(forever(living.one())).unwrap());
        group.cancel("enough");
        assert_eq!(living.now(), 0);
        assert_eq!(sim.run(group.drain()).errors.len(), 3);
        assert_eq!(sim.now(), begun);
    });
}

#[test]
fn g13_first_failure_gives_the_siblings_their_grace() {
    explore(0..100, |sim| {
        let group = numbers(sim).cancel_grace(GRACE).build().unwrap();
        group.try_go(tidying(sim, &group, 1)).unwrap();
        let (runtime, token) = (sim.runtime(), group.token());
        group
            .try_go(async move {
                tidy(runtime, token, 2).await;
                Err::<u32, _>("late")
            })
            .unwrap();
        sim.settle();
        group.try_go(async { Err::<u32, _>("first") }).unwrap();
        let all = sim.run(group.drain());
        let texts: Vec<String> = all.errors.iter().map(ToString::to_string).collect();
        assert!(texts[0].contains("first") && texts[1].contains("tidied up") && texts[2].contains("late"), "{texts:?}");
        assert_eq!(group.errors().errors.len(), 2, "a failure within the grace is an error like any other");
        assert_eq!(sim.run(group.wait()), Err(all.errors[0].clone()));
    });
}

#[test]
fn g13_task_that_cancels_its_own_group_runs_on() {
    explore(0..50, |sim| {
        let group = numbers(sim).cancel_grace(GRACE).build().unwrap();
        // One returns in the poll in which it cancels, as any task may; one waits after that.
        for steps in [0, 3] {
            let token = group.token();
            let stepping = async move {
                token.cancel("enough");
                after(steps, 1).await
            };
            drop(group.try_go(stepping));
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
        assert_eq!(sim.run(own.drain()).errors, [tidied_up().unwrap_err()]);
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
        assert_eq!(sim.run(group.drain()).errors, vec![tidied_up().unwrap_err(); 10]);
    });
}

#[test]
fn g13_deadline_within_the_grace_drops_the_task() {
    let sim = Sim::new(1);
    let group = numbers(&sim).cancel_grace(GRACE).build().unwrap();
    group.task().within(Duration::from_secs(2)).try_go(forever(())).unwrap();
    sim.settle();
    let begun = sim.now();
    group.cancel("enough");
    let error = sim.run(group.next()).unwrap().unwrap_err();
    assert!(error.error::<pleach::Elapsed>().is_some(), "{error}");
    assert_eq!(sim.now().since(begun), Duration::from_secs(2));
}

/// Panics when it is dropped.
struct Explosive;

impl Drop for Explosive {
    fn drop(&mut self) {
        std::panic::panic_any(INJECTED);
    }
}

#[test]
fn g13_dropped_value_that_panics_is_a_failure_of_its_task() {
    quiet();
    let sim = Sim::new(1);
    let group = GroupBuilder::<Explosive>::under(&sim.token()).cancel_grace(GRACE).build().unwrap();
    let token = group.token();
    let task = async move {
        token.cancelled().await;
        Explosive
    };
    group.task().named("boom").try_go(task).map_err(|refused| refused.why).unwrap();
    sim.settle();
    group.cancel("enough");
    let error = sim.run(group.next()).unwrap().err().unwrap();
    assert!(matches!(&error, TaskError::Panicked(failure) if failure.path().to_string().ends_with("/boom")), "{error}");
}

#[test]
fn g13_dropped_group_gives_its_tasks_their_grace() {
    let sim = Sim::new(1);
    let living = Living::default();
    let group = numbers(&sim).cancel_grace(GRACE).build().unwrap();
    group.try_go(forever(living.one())).unwrap();
    sim.settle();
    drop(group);
    sim.settle();
    assert_eq!(living.now(), 1);
    sim.advance(GRACE);
    assert_eq!((living.now(), sim.tasks_alive()), (0, 0));
}

#[test]
fn g13_runtime_that_goes_away_ends_the_grace() {
    let dispatcher = Dispatcher::seeded(1);
    let group = GroupBuilder::<u32>::under(&CancelToken::root(dispatcher.runtime())).cancel_grace(GRACE).build().unwrap();
    let living = Living::default();
    for _ in 0..3 {
        let (token, held) = (group.token(), living.one());
        let task = async move {
            token.cancelled().await;
            forever(held).await
        };
        group.try_go(task).unwrap();
    }
    dispatcher.drain_ready();
    group.cancel("enough");
    dispatcher.drain_ready();
    assert_eq!((living.now(), group.in_flight()), (3, 3));
    drop(dispatcher);
    assert_eq!((living.now(), group.in_flight()), (0, 0));
}

#[test]
fn g13_group_in_place_rejects_a_grace() {
    let sim = Sim::new(1);
    let refused = numbers(&sim).cancel_grace(GRACE).in_place().unwrap_err();
    assert_eq!(refused, GroupError::GraceInPlace);
    assert!(refused.to_string().contains("make it with `build`"), "{refused}");
}
