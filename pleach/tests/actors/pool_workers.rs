//! A13: pools while workers fail, end and are replaced. No worker is forgotten, and no message is
//! lost.

use crate::common::pool_worker::{Msg, key_of, many_restarts, shares, worker_props};
use crate::common::{Gate, Job, Log, TestActor, dead_letters, poll_once, quiet};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn a13_failed_worker_restarts_with_its_address_and_mailbox() {
    explore(0..100, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let pool = system.pool("pool", 3, worker_props(&log)).strategy(many_restarts()).build().unwrap();
        let before = pool.workers();
        for n in 0..90 {
            pool.tell(if n % 10 == 0 { Msg::Fail(n) } else { Msg::Note(n) }).unwrap();
        }
        sim.settle();
        assert_eq!(pool.workers(), before);
        assert_eq!(log.len(), 81);
        assert_eq!(pool.counts(), Counts { accepted: 90, handled: 81, failed: 9, dead_lettered: 0 });
        assert_eq!(system.failures(), 9);
    });
}

#[test]
fn a13_pool_with_one_restart_limit_fails_as_a_whole() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let pool = system.pool("pool", 2, worker_props(&log)).strategy(OneForOne::new()).build().unwrap();
        (0..4).for_each(|n| pool.tell(Msg::Fail(n)).unwrap());
        assert!(matches!(sim.run(pool.any().exited()), Exit::Failed(_)));
        assert!(matches!(pool.tell(Msg::Note(7)), Err(SendError::Closed(Msg::Note(7)))));
        assert!(matches!(sim.run(pool.ask(Msg::Index)), Err(AskError::Failed(_))));
        assert!(pool.workers().is_empty() && system.counts().is_settled());
    });
}

#[test]
fn a13_ended_worker_is_skipped_until_none_is_left() {
    explore(0..50, |sim| {
        for routing in 0..3 {
            let (system, log) = (sim.system("s"), Log::new());
            let builder = system.pool("pool", 3, worker_props(&log));
            let pool = match routing {
                0 => builder.round_robin(),
                1 => builder.least_loaded(),
                _ => builder.by_key(key_of),
            };
            let pool = pool.build().unwrap();
            for left in [2, 1] {
                pool.workers()[0].close();
                (0..20).for_each(|n| pool.tell(Msg::Note(n)).unwrap());
                sim.settle();
                assert_eq!((log.take().len(), pool.workers().len()), (20, left));
                assert!(sim.run(pool.ask(Msg::Index)).unwrap() >= 3 - left, "earlier workers have ended");
            }
            pool.workers()[0].close();
            assert!(matches!(sim.run(pool.send(Msg::Note(1))), Err(SendError::Closed(Msg::Note(1)))));
            assert!(matches!(pool.tell(Msg::Note(2)), Err(SendError::Closed(Msg::Note(2)))));
            assert!(matches!(pool.try_send(Msg::Note(3)), Err(SendError::Closed(Msg::Note(3)))));
            assert!(matches!(sim.run(pool.ask(Msg::Index)), Err(AskError::Closed)));
            sim.settle();
            assert!(system.counts().is_settled() && log.take().is_empty());
            pool.resize(2).unwrap();
            assert_eq!(sim.run(pool.ask(Msg::Index)).map(|index| index < 2).ok(), Some(true), "resizing restores it");
        }
    });
}

#[test]
fn a13_ended_workers_are_replaced_up_to_a_limit() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let pool = system.pool("pool", 1, worker_props(&log)).replace_ended(2, Duration::from_secs(5)).build().unwrap();
        for n in 0..2 {
            let worker = pool.workers()[0].clone();
            worker.stop();
            sim.run(worker.exited());
            pool.tell(Msg::Note(n)).expect("a replacement exists at once");
            sim.settle();
            assert_eq!((log.take(), pool.workers().len()), (vec![(0, n)], 1), "at the same index");
            assert_ne!(pool.workers()[0], worker);
        }
        pool.workers()[0].stop();
        sim.settle();
        assert!(matches!(pool.tell(Msg::Note(2)), Err(SendError::Closed(_))), "the third in five seconds exceeds the limit");
        pool.resize(1).unwrap();
        sim.advance(Duration::from_secs(6));
        pool.workers()[0].stop();
        sim.settle();
        pool.tell(Msg::Note(3)).expect("allowed again later");
        sim.settle();
        assert_eq!(log.take(), [(0, 3)]);
        assert!(system.counts().is_settled());
    });
}

#[test]
fn a13_pool_that_shuts_down_replaces_no_worker() {
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let pool = system.pool("pool", 2, worker_props(&log)).replace_ended(9, Duration::from_secs(5)).build().unwrap();
    (0..10).for_each(|n| pool.tell(Msg::Note(n)).unwrap());
    pool.any().close();
    assert_eq!(sim.run(pool.any().exited()), Exit::Closed);
    assert!(matches!(pool.tell(Msg::Note(7)), Err(SendError::Closed(_))));
    assert_eq!((log.len(), pool.counts().handled, sim.tasks_alive()), (10, 10, 0));
}

#[test]
fn a13_shrinking_closes_the_youngest_workers() {
    explore(0..100, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let dead_letters = dead_letters(&system);
        let pool = system.pool("pool", 4, worker_props(&log)).build().unwrap();
        let all = pool.workers();
        (0..40).for_each(|n| pool.tell(Msg::Note(n)).unwrap());
        pool.resize(2).unwrap();
        assert_eq!((pool.size(), pool.workers()), (2, all[..2].to_vec()));
        (40..60).for_each(|n| pool.tell(Msg::Note(n)).unwrap());
        assert_eq!(sim.run(all[3].exited()), Exit::Closed);
        sim.settle();
        assert_eq!(shares(&log.take(), 4), [20, 20, 10, 10]);
        pool.resize(3).unwrap();
        (0..30).for_each(|n| pool.tell(Msg::Note(n)).unwrap());
        sim.settle();
        assert_eq!((shares(&log.take(), 4), dead_letters.len()), (vec![10, 10, 10, 0], 0));
        assert!(system.counts().is_settled());
    });
}

#[test]
fn a13_resize_to_the_same_size_replaces_ended_workers() {
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let pool = system.pool("pool", 3, worker_props(&log)).build().unwrap();
    pool.workers()[1].stop();
    sim.settle();
    assert_eq!((pool.workers().len(), pool.size()), (2, 3));
    pool.resize(3).unwrap();
    let paths: Vec<String> = pool.workers().iter().map(|worker| worker.path().to_string()).collect();
    assert_eq!(paths, ["/user/pool/0", "/user/pool/3", "/user/pool/2"], "the old index, a new name");
    (0..9).for_each(|n| pool.tell(Msg::Note(n)).unwrap());
    sim.settle();
    assert_eq!(shares(&log.take(), 3), [3, 3, 3]);
}

#[test]
fn a13_worker_can_resize_its_own_pool() {
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let actor_log = log.clone();
    let pool = system.pool("pool", 3, move |_| TestActor::props(&actor_log)).build().unwrap();
    for size in [1, 5] {
        let own = pool.clone();
        pool.tell(Job::act(move |_| own.resize(size).unwrap())).unwrap();
        sim.settle();
        assert_eq!((pool.workers().len(), pool.size()), (size, size));
    }
}

#[test]
fn a13_send_waiting_at_an_ending_worker_goes_to_another() {
    explore(0..100, |sim| {
        let (system, log, gate) = (sim.system("s"), Log::new(), Gate::new());
        let props = worker_props(&log);
        let small = move |index| props(index).mailbox(Mailbox::bounded(1));
        let pool = system.pool("pool", 2, small).build().unwrap();
        for worker in pool.workers() {
            worker.tell(Msg::Pass(gate.clone())).unwrap();
        }
        sim.settle();
        (0..2).for_each(|n| pool.tell(Msg::Note(n)).unwrap());
        assert!(matches!(pool.tell(Msg::Note(2)), Err(SendError::Full(Msg::Note(2)))));
        assert!(matches!(pool.try_send(Msg::Note(2)), Err(SendError::Full(Msg::Note(2)))));
        let mut send = Box::pin(pool.send(Msg::Note(3)));
        let mut ask = pool.ask(Msg::Index);
        assert!(poll_once(&mut send).is_pending() && poll_once(&mut ask).is_pending());
        pool.resize(1).unwrap();
        gate.open();
        gate.open();
        sim.run(async {
            send.await.unwrap();
            gate.open();
            assert_eq!(ask.await.unwrap(), 0);
        });
        sim.settle();
        let mut seen = log.take();
        seen.sort_unstable();
        assert_eq!(seen, [(0, 0), (0, 3), (1, 1)]);
        assert!(system.counts().is_settled());
    });
}

/// Sends in every way while workers fail, stop and are replaced and the pool is resized. All
/// accepted messages are counted.
#[test]
fn a13_no_message_is_lost_while_a_pool_is_resized() {
    quiet();
    explore(0..300, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let props = worker_props(&log);
        let small = move |index| props(index).mailbox(Mailbox::bounded(3));
        let builder = system.pool("pool", 2, small).strategy(many_restarts()).replace_ended(50, Duration::from_secs(1));
        let pool = match sim.seed() % 3 {
            0 => builder.round_robin(),
            1 => builder.least_loaded(),
            _ => builder.by_key(key_of),
        };
        let pool = pool.build().unwrap();
        let (accepted, unclear, senders) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), sim.scope());
        for sender in 0..4u32 {
            let (pool, accepted, unclear) = (pool.clone(), Arc::clone(&accepted), Arc::clone(&unclear));
            let send = async move {
                for n in 0..25 {
                    let n = sender * 100 + n;
                    let message = match n % 11 {
                        3 => Msg::Fail(n),
                        7 => Msg::Stop,
                        _ => Msg::Note(n),
                    };
                    let sent = match sender {
                        0 => pool.tell(message).is_ok(),
                        1 => pool.try_send(message).is_ok(),
                        2 => pool.send(message).await.is_ok(),
                        _ => match pool.ask(Msg::Index).await {
                            // The pool was empty, or the worker with the ask was stopped.
                            Err(AskError::Closed) => {
                                unclear.fetch_add(1, Ordering::Relaxed);
                                false
                            }
                            _ => true,
                        },
                    };
                    accepted.fetch_add(usize::from(sent), Ordering::Relaxed);
                }
            };
            senders.launch(send).unwrap();
        }
        sim.run(async {
            for _ in 0..12 {
                pool.resize(1 + sim.runtime().random() as usize % 5).unwrap();
                for _ in 0..sim.runtime().random() % 5 {
                    sim.yield_now().await;
                }
            }
            senders.wait_all().await.unwrap();
        });
        sim.settle();
        let counts = system.counts();
        assert!(counts.is_settled(), "{counts}");
        let known = accepted.load(Ordering::Relaxed) as u64;
        assert!((known..=known + unclear.load(Ordering::Relaxed) as u64).contains(&counts.accepted), "{counts}, {known} known");
        assert!(pool.workers().len() <= pool.size());
        assert_eq!(pool.workers().len(), sim.tasks_alive(), "the pool knows every running worker");
    });
}

#[test]
fn a13_no_message_is_lost_while_a_pool_is_resized_on_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async {
        let (system, log) = (ActorSystem::new("s").unwrap(), Log::new());
        let props = worker_props(&log);
        let pool = system.pool("pool", 2, move |index| props(index).mailbox(Mailbox::bounded(8))).build().unwrap();
        let senders: Vec<_> = (0..4u32)
            .map(|sender| {
                let pool = pool.clone();
                tokio::spawn(async move {
                    for n in 0..1_000 {
                        pool.send(Msg::Note(sender * 10_000 + n)).await.unwrap();
                    }
                })
            })
            .collect();
        let resizers: Vec<_> = [3, 5]
            .map(|step| {
                let pool = pool.clone();
                tokio::spawn(async move {
                    for n in 0..200 {
                        pool.resize(1 + n * step % 7).unwrap();
                        tokio::task::yield_now().await;
                    }
                })
            })
            .into_iter()
            .chain(senders)
            .collect();
        for task in resizers {
            task.await.unwrap();
        }
        pool.resize(3).unwrap();
        assert_eq!((pool.workers().len(), pool.size()), (3, 3));
        // Closed workers end. Only the three workers of the pool remain.
        let alive = || system.root().running().iter().filter(|one| one.path.parent() == Some(pool.path())).count();
        tokio::time::timeout(Duration::from_secs(10), async {
            while alive() != 3 {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("only three workers remain");
        system.shutdown(Duration::from_secs(10)).await.unwrap();
        let mut seen: Vec<u32> = log.take().into_iter().map(|(_, n)| n).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..4).flat_map(|sender| (0..1_000).map(move |n| sender * 10_000 + n)).collect::<Vec<_>>());
        assert!(system.counts().is_settled());
    });
}

#[test]
fn a13_closed_permanent_worker_returns_after_its_restart() {
    explore(0..50, |sim| {
        for routing in 0..3 {
            let (system, log) = (sim.system("s"), Log::new());
            let make = worker_props(&log);
            let builder = system.pool("pool", 1, move |index| make(index).restart(RestartPolicy::Permanent));
            let pool = match routing {
                0 => builder.round_robin(),
                1 => builder.least_loaded(),
                _ => builder.by_key(key_of),
            };
            let pool = pool.build().unwrap();
            sim.settle();
            let before = pool.workers();
            before[0].close();
            assert!(matches!(pool.tell(Msg::Note(1)), Err(SendError::Closed(Msg::Note(1)))), "the worker is closed");
            sim.settle();
            assert_eq!(pool.workers(), before, "the supervisor has restarted it");
            pool.tell(Msg::Note(2)).unwrap();
            sim.run(pool.send(Msg::Note(3))).unwrap();
            assert_eq!(sim.run(pool.ask(Msg::Index)).ok(), Some(0));
            assert_eq!(log.take().len(), 2);
        }
    });
}

#[test]
fn a13_surplus_permanent_worker_ends_permanently() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let make = worker_props(&log);
        let pool = system.pool("pool", 3, move |index| make(index).restart(RestartPolicy::Permanent)).build().unwrap();
        sim.settle();
        let last = pool.workers()[2].clone();
        pool.resize(2).unwrap();
        sim.settle();
        assert_eq!((last.exit(), system.failures()), (Some(Exit::Closed), 0));
    });
}

#[test]
fn a13_no_worker_starts_if_the_props_of_one_fail() {
    quiet();
    for refuses in [false, true] {
        let (sim, started) = (Sim::new(1), Arc::new(AtomicUsize::new(0)));
        let system = sim.system("s");
        let counter = Arc::clone(&started);
        let built = system
            .pool("pool", 4, move |index| {
                let counter = Arc::clone(&counter);
                assert!(index < 3 || refuses, "no props for index {index}");
                let props = Props::from_fn(move || counter.fetch_add(1, Ordering::Relaxed), |_, (): ()| Ok::<(), String>(()));
                if index == 3 { props.mailbox(Mailbox::bounded(0)) } else { props }
            })
            .build();
        assert!(built.is_err());
        sim.settle();
        assert_eq!(started.load(Ordering::Relaxed), 0, "no worker has started");
        assert!(system.root().lookup_any(&"/user/pool".parse().unwrap()).is_none());
    }
}
