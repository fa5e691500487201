//! G4 and G12: a dropped reader returns its results, and a dropped driver passes its tasks on.

use crate::common::tasks::{after, numbers};
use crate::common::{CountingWaker, poll_once};
use pleach::group::InPlace;
use pleach::sim::{Sim, explore};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// Served readers are dropped in any order. Their results are read in completion order.
#[test]
fn g4_results_of_dropped_readers_keep_the_completion_order() {
    explore(0..24, |sim| {
        let group = numbers(sim).build().unwrap();
        let mut readers: Vec<_> = (0..4).map(|_| group.next()).collect();
        assert!(readers.iter_mut().all(|reader| poll_once(reader).is_pending()));
        for n in 1..=5 {
            group.try_go(after(0, n)).unwrap();
            sim.settle();
        }
        let mut pick = sim.seed() as usize;
        while !readers.is_empty() {
            let at = pick % readers.len();
            pick /= readers.len();
            drop(readers.remove(at));
        }
        assert_eq!(sim.run(group.drain()).values, [1, 2, 3, 4, 5]);
    });
}

type Reading = Pin<Box<dyn Future<Output = Option<u32>> + Send>>;

/// One driver polls a task while another finds nothing to poll and sleeps. The task yields, and the
/// first driver is dropped before it polls the task again. The other driver is woken.
#[test]
fn g12_dropped_driver_does_not_strand_a_task_that_yielded() {
    let sim = Sim::new(1);
    let group: Arc<InPlace<'static, u32>> = Arc::new(numbers(&sim).in_place().unwrap());
    let count = Arc::new(CountingWaker::default());
    let other: Arc<Mutex<Option<Reading>>> = Arc::default();
    let reading = Arc::clone(&group);
    *other.lock().unwrap() = Some(Box::pin(async move { reading.next().await?.ok() }));
    let (sleeper, waker) = (Arc::clone(&other), Waker::from(Arc::clone(&count)));
    let mut polls = 0;
    let yields_twice = poll_fn(move |cx| {
        polls += 1;
        if polls > 2 {
            return Poll::Ready(7);
        }
        cx.waker().wake_by_ref();
        if polls == 2 {
            // Another thread could do this now.
            let mut sleeper = sleeper.lock().unwrap();
            assert!(sleeper.as_mut().unwrap().as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        Poll::Pending
    });
    group.try_go(yields_twice).unwrap();
    let mut first = Box::pin({
        let group = Arc::clone(&group);
        async move { group.next().await }
    });
    assert!(poll_once(&mut first).is_pending());
    drop(first);
    assert!(count.wakes() > 0, "no other driver is left to poll the task");
    let mut sleeper = other.lock().unwrap().take().unwrap();
    assert_eq!(poll_once(&mut sleeper), Poll::Ready(Some(7)));
}
