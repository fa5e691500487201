//! T9: producers.

use futures::StreamExt;
use pleach::BoxError;
use pleach::prelude::*;
use pleach::scope::{Produced, Producer, Unreceived, WaitError};
use pleach::sim::{Sim, explore};
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Receives until the end, and checks that the end is permanent.
async fn drain(produced: &mut Produced<u32>) -> Vec<u32> {
    let mut items = Vec::new();
    while let Some(item) = produced.next().await {
        items.push(item);
    }
    for _ in 0..3 {
        assert_eq!(produced.next().await, None);
    }
    items
}

async fn count_to(out: &mut Producer<u32>, end: u32) -> Result<(), Unreceived<u32>> {
    for n in 0..end {
        out.send(n).await?;
    }
    Ok(())
}

#[test]
fn t9_channel_closes_when_the_producer_returns() {
    explore(0..200, |sim| {
        let scope = sim.scope();
        let capacity = 1 + (sim.seed() % 4) as usize;
        let mut produced = scope.produce(capacity, |mut out| async move { count_to(&mut out, 10).await }).unwrap();
        assert_eq!(sim.run(drain(&mut produced)), (0..10).collect::<Vec<_>>());
        assert_eq!(sim.run(produced.task().exited()), Exit::Closed);
        sim.run(scope.wait_all()).unwrap();
    });
}

#[test]
fn t9_channel_closes_when_the_producer_fails() {
    explore(0..100, |sim| {
        let panics = sim.seed() % 2 == 0;
        let scope = sim.scope();
        let produces = move |mut out: Producer<u32>| async move {
            count_to(&mut out, 3).await?;
            assert!(!panics, "on purpose");
            Err::<(), BoxError>("on purpose".into())
        };
        let mut produced = scope.produce(8, produces).unwrap();
        assert_eq!(sim.run(drain(&mut produced)), [0, 1, 2], "items sent before the failure arrive");
        let Err(WaitError::Failed(failure)) = sim.run(scope.wait_all()) else { panic!("it failed") };
        assert_eq!(*failure.path(), produced.task().path());
        assert_eq!(sim.run(produced.task().exited()), Exit::Failed(failure));
    });
}

#[test]
fn t9_channel_closes_when_the_producer_is_cancelled() {
    explore(0..200, |sim| {
        let scope = sim.scope();
        let produces = |mut out: Producer<u32>| async move {
            count_to(&mut out, 3).await?;
            pending::<Result<(), Unreceived<u32>>>().await
        };
        let mut produced = scope.produce(8, produces).unwrap();
        let items = sim.run(async {
            for _ in 0..sim.seed() % 3 {
                sim.yield_now().await;
            }
            match sim.seed() % 4 {
                0 => scope.cancel("enough"),
                1 => produced.task().cancel("enough"),
                2 => scope.token().child().cancel("another token"),
                _ => drop(scope),
            }
            if sim.seed() % 4 == 2 {
                produced.task().any().stop();
            }
            drain(&mut produced).await
        });
        // Cancelled before its first poll or after its last item, never between two items.
        assert!(items.is_empty() || items == [0, 1, 2], "{items:?}");
        assert!(matches!(sim.run(produced.task().exited()), Exit::Cancelled(_)));
    });
}

#[test]
fn t9_channel_closes_even_if_the_sender_outlives_its_task() {
    explore(0..100, |sim| {
        let scope = sim.scope();
        let slot = Arc::new(Mutex::new(None));
        let escaped = Arc::clone(&slot);
        let produces = move |mut out: Producer<u32>| async move {
            count_to(&mut out, 2).await.unwrap();
            *escaped.lock().unwrap() = Some(out);
        };
        let mut produced = scope.produce(2, produces).unwrap();
        sim.run(produced.task().exited());
        let mut out = slot.lock().unwrap().take().unwrap();
        assert_eq!(sim.run(out.send(9)), Err(Unreceived(9)), "closed, and the item is returned");
        assert_eq!(sim.run(drain(&mut produced)), [0, 1]);
        drop(out);
        assert_eq!(sim.run(produced.next()), None);
    });
}

#[test]
fn t9_waiting_receiver_is_woken_once_by_the_close() {
    let sim = Sim::new(9);
    let scope = sim.scope();
    let sleep = sim.runtime().sleep_until(sim.now() + Duration::from_secs(1));
    let produces = |out: Producer<u32>| async move {
        sleep.await;
        drop(out);
    };
    let mut produced = scope.produce(1, produces).unwrap();
    let wakes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&wakes);
    let waiter = sim.scope();
    let task = waiter
        .launch(async move {
            std::future::poll_fn(|cx| {
                counted.fetch_add(1, Ordering::Relaxed);
                produced.poll_next_unpin(cx)
            })
            .await
            .map_or(Ok(()), |item| Err(format!("got {item}")))
        })
        .unwrap();
    assert_eq!(sim.run(task.exited()), Exit::Closed);
    assert_eq!(wakes.load(Ordering::Relaxed), 2, "one poll before and one after the close");
}

#[test]
fn t9_producer_waits_for_room_and_notices_a_dropped_receiver() {
    explore(0..100, |sim| {
        let scope = sim.scope();
        let sent = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sent);
        let produces = move |mut out: Producer<u32>| async move {
            loop {
                if let Err(Unreceived(item)) = out.send(7).await {
                    assert_eq!(item, 7);
                    return;
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
        };
        let mut produced = scope.produce(3, produces).unwrap();
        sim.settle();
        assert_eq!(sent.load(Ordering::Relaxed), 3, "at most three items wait");
        assert_eq!(sim.run(produced.next()), Some(7));
        sim.settle();
        assert_eq!(sent.load(Ordering::Relaxed), 4);
        let task = produced.task().clone();
        drop(produced);
        assert_eq!(sim.run(task.exited()), Exit::Closed);
        sim.run(scope.wait_all()).unwrap();
    });
}

#[test]
fn t9_producer_feeds_an_actor_until_its_end() {
    explore(0..100, |sim| {
        let system = sim.system("t9");
        let scope = system.scope("s").unwrap();
        let produced = scope.produce(2, |mut out| async move { count_to(&mut out, 100).await }).unwrap();
        let sum = Arc::new(AtomicUsize::new(0));
        let total = Arc::clone(&sum);
        let add = move |(): &mut (), n: u32| {
            total.fetch_add(n as usize, Ordering::Relaxed);
            Ok::<(), BoxError>(())
        };
        let actor = scope.spawn("adder", Props::from_fn(|| (), add).with_stream(produced)).unwrap();
        assert_eq!(sim.run(actor.exited()), Exit::Closed);
        assert_eq!((sum.load(Ordering::Relaxed), actor.counts().handled), (4_950, 100));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t9_no_item_is_lost_or_duplicated_between_threads() {
    let scope = pleach::scope().unwrap();
    let mut produced = scope.produce(4, |mut out| async move { count_to(&mut out, 100_000).await }).unwrap();
    assert!(drain(&mut produced).await.into_iter().eq(0..100_000));
    scope.wait_all().await.unwrap();
}
