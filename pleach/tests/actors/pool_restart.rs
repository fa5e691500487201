//! A13: a restarted pool has all of its workers again.

use crate::common::pool_worker::{Msg, worker_props};
use crate::common::{Log, failures};
use pleach::Supervisor;
use pleach::prelude::*;
use pleach::routing::Pool;
use pleach::sim::{Sim, explore};
use pleach::supervise::ExponentialBackoff;

const SIZE: usize = 3;

/// A pool under a supervisor that restarts it.
fn supervised_pool(sim: &Sim, log: &Log<(usize, u32)>) -> (ActorSystem, Supervisor, Pool<Msg>) {
    let system = sim.system("s");
    let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
    let pool = supervisor.pool("pool", SIZE, worker_props(log)).build().unwrap();
    (system, supervisor, pool)
}

/// Lets each worker exceed its restart limit, one after the other.
fn exceed_all_limits(sim: &Sim, pool: &Pool<Msg>) {
    for worker in pool.workers() {
        (0..4).for_each(|n| worker.tell(Msg::Fail(n)).unwrap());
        sim.settle();
    }
}

#[test]
fn a13_pool_restarted_after_the_last_worker_failed_is_full() {
    explore(0..50, |sim| {
        let log = Log::new();
        let (_system, _above, pool) = supervised_pool(sim, &log);
        exceed_all_limits(sim, &pool);
        assert_eq!(pool.any().exit(), None, "its supervisor has restarted it");
        assert_eq!(pool.workers().len(), SIZE);
        (0..30).for_each(|n| pool.tell(Msg::Note(n)).unwrap());
        sim.settle();
        assert_eq!(log.take().len(), 30);
        assert!(pool.counts().is_settled());
    });
}

#[test]
fn a13_worker_that_failed_before_a_pool_restart_counts_after_it() {
    explore(0..20, |sim| {
        let log = Log::new();
        let (system, _above, pool) = supervised_pool(sim, &log);
        exceed_all_limits(sim, &pool);
        let failures = failures(&system);
        let workers = pool.workers();
        // All but one exceed the limit again: no failure escalates, and the pool is not restarted.
        for worker in &workers[1..] {
            (0..4).for_each(|n| worker.tell(Msg::Fail(n)).unwrap());
            sim.settle();
        }
        assert_eq!(pool.workers(), workers[..1]);
        assert!(failures.take().iter().all(|failure| failure.stage() == pleach::supervise::EscalationStage::Initial));
    });
}

#[test]
fn a13_pool_restarted_with_siblings_or_by_hand_is_full() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let supervisor = system.supervisor("supervisor", OneForAll::new()).unwrap();
        let other = supervisor.spawn("other", crate::common::TestActor::props(&Log::new())).unwrap();
        let pool = supervisor.pool("pool", SIZE, worker_props(&log)).build().unwrap();
        pool.workers()[1].close();
        sim.settle();
        assert_eq!(pool.workers().len(), SIZE - 1);
        other.tell(crate::common::Job::work(|_| async { Err("no".into()) })).unwrap();
        sim.settle();
        assert_eq!(pool.workers().len(), SIZE);

        pool.workers().into_iter().for_each(|worker| worker.close());
        sim.settle();
        assert!(pool.workers().is_empty());
        supervisor.restart_child("pool").unwrap();
        sim.settle();
        assert_eq!((pool.workers().len(), pool.any().exit()), (SIZE, None));
    });
}

#[test]
fn a13_restarted_pool_is_filled_after_the_backoff() {
    let sim = Sim::new(1);
    let (system, log, created) = (sim.system("s"), Log::new(), Log::new());
    let strategy = OneForOne::new().backoff(ExponentialBackoff::new(Duration::from_secs(2), Duration::from_secs(9)));
    let supervisor = system.supervisor("supervisor", strategy).unwrap();
    let (make, seen) = (worker_props(&log), created.clone());
    let props = move |index| {
        seen.push(index);
        make(index)
    };
    let workers = supervisor.pool("pool", SIZE, props).build().unwrap().workers();
    assert_eq!(created.take(), [0, 1, 2]);
    for worker in workers {
        (0..4).for_each(|n| worker.tell(Msg::Fail(n)).unwrap());
        sim.settle();
    }
    assert!(created.take().is_empty(), "not before the backoff is over");
    sim.advance(Duration::from_secs(9));
    assert_eq!(created.take(), [0, 1]);
    supervisor.stop();
    sim.settle();
    assert_eq!((sim.tasks_alive(), created.len()), (0, 0));
}
