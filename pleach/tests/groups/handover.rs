//! Those who leave hand over what they had: results in the order they came, and the work of driving a group in place.

use crate::common::poll_once;
use crate::common::tasks::{after, numbers};
use pleach::InPlace;
use pleach::sim::{Sim, explore};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

/// Readers that were served leave in any order; what they give back is read in the order of completion.
#[test]
fn g4_results_given_back_by_several_readers_keep_the_order_of_completion() {
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

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

type Reading = Pin<Box<dyn Future<Output = Option<u32>> + Send>>;

/// A task is with one driver while another finds nothing to poll and goes to sleep. The task steps aside, and the first driver is dropped
/// before it comes back to it: the other is told.
#[test]
fn g12_a_driver_that_leaves_does_not_strand_a_task_that_stepped_aside() {
    let sim = Sim::new(1);
    let group: Arc<InPlace<'static, u32>> = Arc::new(numbers(&sim).in_place().unwrap());
    let count = Arc::new(Count::default());
    let other: Arc<Mutex<Option<Reading>>> = Arc::default();
    let reading = Arc::clone(&group);
    *other.lock().unwrap() = Some(Box::pin(async move { reading.next().await?.ok() }));
    let (sleeper, waker) = (Arc::clone(&other), Waker::from(Arc::clone(&count)));
    let mut polls = 0;
    let steps_aside = poll_fn(move |cx| {
        polls += 1;
        if polls > 2 {
            return Poll::Ready(7);
        }
        cx.waker().wake_by_ref();
        if polls == 2 {
            // What another thread may do at this moment.
            let mut sleeper = sleeper.lock().unwrap();
            assert!(sleeper.as_mut().unwrap().as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        Poll::Pending
    });
    group.try_go(steps_aside).unwrap();
    let mut first = Box::pin({
        let group = Arc::clone(&group);
        async move { group.next().await }
    });
    assert!(poll_once(&mut first).is_pending());
    drop(first);
    assert!(count.0.load(Ordering::SeqCst) > 0, "nobody else is left to poll the task");
    let mut sleeper = other.lock().unwrap().take().unwrap();
    assert_eq!(poll_once(&mut sleeper), Poll::Ready(Some(7)));
}
