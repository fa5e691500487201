//! G1, G3, G9 and G10: groups on Tokio's threads: parallel tasks, blocked tasks, the coop budget,
//! and many threads at once.

use crate::common::tasks::AliveCount;
use futures::StreamExt;
use pleach::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc as std_mpsc};
use tokio::sync::{Semaphore, mpsc};

fn runtime_with(count: usize) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(count).enable_all().build().unwrap()
}

/// Each task blocks until all of them run, so they end only if every thread runs one.
#[test]
fn g9_blocking_tasks_use_every_thread() {
    for count in [2, 4] {
        // Fed from inside and from outside of the runtime, without a reader.
        for inside in [true, false] {
            let runtime = runtime_with(count);
            let all = Arc::new(Barrier::new(count));
            let work = async move {
                let group = pleach::group::<u32>().unwrap();
                for _ in 0..count {
                    let all = Arc::clone(&all);
                    group.go(async move { u32::from(all.wait().is_leader()) }).await.unwrap();
                }
                group.wait().await.unwrap();
                assert_eq!(group.drain().await.values.iter().sum::<u32>(), 1);
            };
            if inside {
                runtime.block_on(async { tokio::spawn(work).await.unwrap() });
            } else {
                runtime.block_on(work);
            }
        }
    }
}

/// As above, again and again in one group, whose idle runners are woken instead of spawned.
#[test]
fn g9_blocking_tasks_use_every_thread_again() {
    for count in [2, 4] {
        let runtime = runtime_with(count);
        let work = async move {
            let group = pleach::group::<u32>().unwrap();
            for _ in 0..50 {
                let all = Arc::new(Barrier::new(count));
                for _ in 0..count {
                    let all = Arc::clone(&all);
                    group.go(async move { u32::from(all.wait().is_leader()) }).await.unwrap();
                }
                let mut leaders = 0;
                for _ in 0..count {
                    leaders += group.next().await.unwrap().unwrap();
                }
                assert_eq!(leaders, 1);
            }
        };
        runtime.block_on(async { tokio::spawn(work).await.unwrap() });
    }
}

/// The task that feeds the group blocks. Meanwhile other threads run the tasks.
#[test]
fn g9_tasks_run_while_their_feeder_blocks() {
    let runtime = runtime_with(2);
    let (done, wait) = std_mpsc::channel();
    runtime.block_on(async move {
        tokio::spawn(async move {
            let group = pleach::group::<()>().unwrap();
            for _ in 0..10 {
                let done = done.clone();
                group.go(async move { done.send(()).unwrap() }).await.unwrap();
            }
            // This thread is blocked until all ten are done.
            (0..10).for_each(|_| wait.recv().unwrap());
            group.wait().await.unwrap();
        })
        .await
        .unwrap();
    });
}

#[test]
fn g9_tasks_in_block_in_place_block_no_other() {
    let runtime = runtime_with(2);
    runtime.block_on(async {
        let group = pleach::group::<u32>().unwrap();
        let (release, released) = std_mpsc::channel::<()>();
        let (release_other, released_other) = std_mpsc::channel::<()>();
        for released in [released, released_other] {
            group.go(async move { tokio::task::block_in_place(|| released.recv()).map_or(1, |()| 0) }).await.unwrap();
        }
        for n in 2..100 {
            group.go(async move { n }).await.unwrap();
        }
        // All others complete while two are blocked.
        for _ in 2..100 {
            assert!(group.next().await.unwrap().unwrap() >= 2);
        }
        drop((release, release_other));
        assert_eq!(group.drain().await.values, [1, 1]);
    });
}

/// Tasks of one runner share its coop budget. When it is used up, they are polled again later.
#[test]
fn g1_tasks_that_use_up_the_coop_budget_all_complete() {
    for runtime in [runtime_with(2), tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()] {
        runtime.block_on(async {
            let group = pleach::group::<usize>().unwrap();
            let permits = Arc::new(Semaphore::new(1_000_000));
            for _ in 0..100 {
                let permits = Arc::clone(&permits);
                group
                    .go(async move {
                        let (send, mut receive) = mpsc::unbounded_channel();
                        for n in 0..50 {
                            permits.acquire().await.unwrap().forget();
                            send.send(n).unwrap();
                        }
                        drop(send);
                        let mut count = 0;
                        while receive.recv().await.is_some() {
                            count += 1;
                        }
                        count
                    })
                    .await
                    .unwrap();
            }
            assert_eq!(group.drain().await.values, vec![50; 100]);
        });
    }
}

#[test]
fn g3_no_result_is_lost_with_many_feeders_and_readers() {
    let runtime = runtime_with(4);
    let read = Arc::new(AtomicUsize::new(0));
    let alive = AliveCount::default();
    runtime.block_on(async {
        let group = Arc::new(GroupBuilder::<usize>::under(&pleach::token().unwrap()).limit(16).buffer(64).build().unwrap());
        let feeders: Vec<_> = (0..4)
            .map(|feeder| {
                let (group, alive) = (Arc::clone(&group), alive.clone());
                tokio::spawn(async move {
                    for n in 0..2_000 {
                        let guard = alive.add();
                        let task = async move {
                            let _guard = guard;
                            for _ in 0..n % 3 {
                                tokio::task::yield_now().await;
                            }
                            feeder * 2_000 + n
                        };
                        group.go(task).await.unwrap();
                    }
                })
            })
            .collect();
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let (group, read) = (Arc::clone(&group), Arc::clone(&read));
                tokio::spawn(async move {
                    let mut results = std::pin::pin!(group.results());
                    while let Some(result) = results.next().await {
                        read.fetch_add(result.unwrap(), Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for feeder in feeders {
            feeder.await.unwrap();
        }
        group.close();
        for reader in readers {
            reader.await.unwrap();
        }
    });
    assert_eq!(read.load(Ordering::Relaxed), (0..8_000).sum::<usize>());
    assert_eq!(alive.now(), 0);
}

#[test]
fn g10_group_dropped_on_many_threads_leaves_nothing_behind() {
    let runtime = runtime_with(4);
    let alive = AliveCount::default();
    runtime.block_on(async {
        for _ in 0..200 {
            let group = pleach::group::<()>().unwrap();
            for n in 0..20 {
                let guard = alive.add();
                let task = async move {
                    let _guard = guard;
                    for _ in 0..n {
                        tokio::task::yield_now().await;
                    }
                    std::future::pending::<()>().await;
                };
                group.go(task).await.unwrap();
            }
            let any = group.any_ref();
            drop(group);
            assert_eq!(any.exited().await, Exit::Cancelled(Cause::Dropped));
        }
    });
    assert_eq!(alive.now(), 0, "each group has ended, so no task is left");
}

#[test]
fn g10_dropped_tokio_runtime_drops_the_tasks() {
    let alive = AliveCount::default();
    let runtime = runtime_with(2);
    let group = runtime.block_on(async {
        let group = pleach::group::<()>().unwrap();
        for _ in 0..10 {
            let guard = alive.add();
            let task = async move {
                let _guard = guard;
                std::future::pending::<()>().await;
            };
            group.go(task).await.unwrap();
        }
        group
    });
    drop(runtime);
    drop(group);
    assert_eq!(alive.now(), 0);
}
