//! Names and deadlines of tasks, and the operations `try_map_all` and `race`.

use crate::common::tasks::{AliveCount, after, forever, numbers};
use pleach::group::{GoRejection, GroupError, MapError, RaceError};
use pleach::prelude::*;
use pleach::runtime::Instant;
use pleach::scope::Elapsed;
use pleach::sim::{Sim, explore};
use std::future::pending;

#[test]
fn try_map_all_returns_every_value_within_its_limit() {
    explore(0..50, |sim| {
        let alive = AliveCount::default();
        let square = |n: u32| {
            let alive = alive.clone();
            async move {
                let _guard = alive.add();
                after(n % 4, n * n).await
            }
        };
        let mut squares = sim.run(numbers(sim).try_map_all(0..20, 3, square)).unwrap();
        assert!(alive.max() <= 3);
        squares.sort_unstable();
        assert_eq!(squares, (0..20).map(|n| n * n).collect::<Vec<_>>());
        let in_order = sim.run(numbers(sim).try_map_all_in_order(0..20, 3, square)).unwrap();
        assert_eq!(in_order, squares);
        sim.settle();
        assert_eq!(sim.tasks_alive(), 0);
    });
}

#[test]
fn try_map_all_returns_the_first_failure_and_ends_all_tasks() {
    explore(0..50, |sim| {
        let alive = AliveCount::default();
        let task = |n: u32| {
            let alive = alive.clone();
            async move { if n == 3 { Err("three") } else { Ok(forever(alive.add()).await) } }
        };
        let failed = sim.run(numbers(sim).try_map_all(0..10, 4, task)).unwrap_err();
        let MapError::Task(TaskError::Failed(failure)) = &failed else { panic!("{failed}") };
        assert!(failure.to_string().contains("three"));
        assert_eq!(alive.now(), 0);
    });
    let sim = Sim::new(1);
    let refused = sim.run(numbers(&sim).try_map_all(0..3, 0, |n| after(0, n))).unwrap_err();
    assert_eq!(refused, MapError::Group(GroupError::ZeroLimit));
}

#[test]
fn race_returns_the_first_value_and_cancels_the_rest() {
    explore(0..50, |sim| {
        let alive = AliveCount::default();
        let racer = |n: u32, guard| async move {
            let _guard = guard;
            match n {
                0 => Err("out of fuel"),
                1 => Ok(after(5, 1).await),
                _ => Ok(pending::<u32>().await),
            }
        };
        let racers: Vec<_> = (0..4).map(|n| racer(n, alive.add())).collect();
        assert_eq!(sim.run(numbers(sim).race(racers)), Ok(1));
        sim.settle();
        assert_eq!((alive.now(), sim.tasks_alive()), (0, 0));
    });
}

#[test]
fn race_without_a_winner_returns_every_error() {
    let sim = Sim::new(1);
    let lost = sim.run(numbers(&sim).race((0..3).map(|_| async { Err::<u32, _>("out of fuel") }))).unwrap_err();
    assert!(matches!(&lost, RaceError::NoWinner(errors) if errors.len() == 3));
    assert!(lost.to_string().contains("out of fuel"));
    let empty = sim.run(numbers(&sim).race(Vec::<std::future::Ready<u32>>::new())).unwrap_err();
    assert_eq!(empty, RaceError::NoWinner(Vec::new()));
}

#[test]
fn task_that_misses_its_deadline_fails_with_elapsed() {
    explore(0..20, |sim| {
        let group = numbers(sim).fail_fast(false).build().unwrap();
        let second = Duration::from_secs(1);
        let alive = AliveCount::default();
        group.task().named("slow").timeout(second).try_go(forever(alive.add())).unwrap();
        group.task().timeout(second).try_go(after(3, 7)).unwrap();
        let all = sim.run(group.drain());
        assert_eq!((all.values, alive.now(), sim.now()), (vec![7], 0, Instant::after_start(second)));
        let [error] = all.errors.as_slice() else { panic!("one error") };
        assert_eq!(error.error::<Elapsed>(), Some(&Elapsed(second)));
        assert!(error.to_string().contains("/slow failed: timed out after 1s"), "{error}");
    });
}

#[test]
fn deadline_counts_from_the_first_poll() {
    let sim = Sim::new(1);
    let group = numbers(&sim).limit(1).build().unwrap();
    let (runtime, wait) = (sim.runtime(), Duration::from_secs(5));
    sim.run(async {
        let sleeps = runtime.sleep_until(Instant::after_start(wait));
        let first = async move {
            sleeps.await;
            1
        };
        group.go(first).await.unwrap();
        let runtime = sim.runtime();
        let short = async move {
            runtime.sleep_until(Instant::after_start(wait + Duration::from_millis(500))).await;
            2
        };
        group.task().timeout(Duration::from_secs(1)).go(short).await.unwrap();
    });
    assert_eq!(sim.run(group.drain()).values, [1, 2]);
}

#[test]
fn bad_name_returns_the_task() {
    let sim = Sim::new(1);
    let group = numbers(&sim).build().unwrap();
    let refused = group.task().named("a/b").try_go(after(0, 4)).unwrap_err();
    assert!(matches!(refused.reason, GoRejection::Name(_)), "{refused}");
    assert_eq!((sim.run(refused.into_task()), group.in_flight()), (4, 0));
    let refused = sim.run(group.task().named("").go(after(0, 5))).unwrap_err();
    assert_eq!(sim.run(refused.into_task()), 5);
}

#[test]
fn errors_of_groups_convert_to_the_common_error() {
    let sim = Sim::new(1);
    let group = numbers(&sim).limit(1).build().unwrap();
    let full = |group: &Group<u32>| -> Result<(), pleach::Error> { Ok(group.try_go(after(1, 0))?) };
    full(&group).unwrap();
    assert!(full(&group).unwrap_err().to_string().contains("no free slot"));
    group.close();
    let closed = async |group: &Group<u32>| -> Result<(), pleach::Error> { Ok(group.go(after(1, 0)).await?) };
    assert!(sim.run(closed(&group)).unwrap_err().to_string().contains("is closed"));
    let read = async |group: &Group<u32>| -> Result<u32, pleach::Error> { Ok(group.next().await.expect("one result")?) };
    assert_eq!(sim.run(read(&group)).unwrap(), 0);
    let build_without_limit = || -> Result<Group<u32>, pleach::Error> { Ok(numbers(&sim).limit(0).build()?) };
    assert!(build_without_limit().unwrap_err().to_string().contains("limit of 0"));
}
