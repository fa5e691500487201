//! A13: a pool that its parent restarts comes back with a worker in every place.

use crate::common::clerk::{Msg, clerks};
use crate::common::{Log, failures};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{ExponentialBackoff, Pool, Supervisor};

const SIZE: usize = 3;

/// A pool below a supervisor that restarts it.
fn pool_below(sim: &Sim, log: &Log<(usize, u32)>) -> (ActorSystem, Supervisor, Pool<Msg>) {
    let system = sim.system("s");
    let above = system.supervisor("above", OneForOne::new()).unwrap();
    let pool = above.pool("pool", SIZE, clerks(log)).build().unwrap();
    (system, above, pool)
}

/// Lets one worker after the other fail past its budget.
fn give_up_on_all(sim: &Sim, pool: &Pool<Msg>) {
    for worker in pool.workers() {
        (0..4).for_each(|n| worker.tell(Msg::Fail(n)).unwrap());
        sim.settle();
    }
}

#[test]
fn a13_pool_restarted_after_its_last_worker_gave_up_has_all_its_workers() {
    explore(0..50, |sim| {
        let log = Log::new();
        let (_system, _above, pool) = pool_below(sim, &log);
        give_up_on_all(sim, &pool);
        assert_eq!(pool.any().exit(), None, "the supervisor above has restarted it");
        assert_eq!(pool.workers().len(), SIZE);
        (0..30).for_each(|n| pool.tell(Msg::Note(n)).unwrap());
        sim.settle();
        assert_eq!(log.take().len(), 30);
        assert!(pool.counts().is_settled());
    });
}

#[test]
fn a13_worker_that_gave_up_before_a_restart_counts_as_a_sibling_after_it() {
    explore(0..20, |sim| {
        let log = Log::new();
        let (system, _above, pool) = pool_below(sim, &log);
        give_up_on_all(sim, &pool);
        let failures = failures(&system);
        let workers = pool.workers();
        // All but one give up again: nobody hands that up, and the pool is not restarted.
        for worker in &workers[1..] {
            (0..4).for_each(|n| worker.tell(Msg::Fail(n)).unwrap());
            sim.settle();
        }
        assert_eq!(pool.workers(), workers[..1]);
        assert!(failures.take().iter().all(|failure| failure.stage() == pleach::EscalationStage::Initial));
    });
}

#[test]
fn a13_pool_restarted_with_its_siblings_or_by_hand_fills_the_places_of_the_ended() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let above = system.supervisor("above", OneForAll::new()).unwrap();
        let other = above.spawn("other", crate::common::Doer::props(&Log::new())).unwrap();
        let pool = above.pool("pool", SIZE, clerks(&log)).build().unwrap();
        pool.workers()[1].close();
        sim.settle();
        assert_eq!(pool.workers().len(), SIZE - 1);
        other.tell(crate::common::Job::work(|_| async { Err("no".into()) })).unwrap();
        sim.settle();
        assert_eq!(pool.workers().len(), SIZE);

        pool.workers().into_iter().for_each(|worker| worker.close());
        sim.settle();
        assert!(pool.workers().is_empty());
        above.restart_child("pool").unwrap();
        sim.settle();
        assert_eq!((pool.workers().len(), pool.any().exit()), (SIZE, None));
    });
}

#[test]
fn a13_restarted_pool_fills_its_places_after_the_backoff_and_without_a_handle() {
    let sim = Sim::new(1);
    let (system, log, hired) = (sim.system("s"), Log::new(), Log::new());
    let strategy = OneForOne::new().backoff(ExponentialBackoff::new(Duration::from_secs(2), Duration::from_secs(9)));
    let above = system.supervisor("above", strategy).unwrap();
    let (clerk, seen) = (clerks(&log), hired.clone());
    let props = move |place| {
        seen.push(place);
        clerk(place)
    };
    let workers = above.pool("pool", SIZE, props).build().unwrap().workers();
    assert_eq!(hired.take(), [0, 1, 2]);
    for worker in workers {
        (0..4).for_each(|n| worker.tell(Msg::Fail(n)).unwrap());
        sim.settle();
    }
    assert!(hired.take().is_empty(), "not before the wait is over");
    sim.advance(Duration::from_secs(9));
    assert_eq!(hired.take(), [0, 1]);
    above.stop();
    sim.settle();
    assert_eq!((sim.tasks_alive(), hired.len()), (0, 0));
}
