//! What the tests of groups share: where a group is made, tasks that wait, and how many of something there are.

use pleach::prelude::*;
use pleach::sim::Sim;
use std::future::{Future, pending, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

/// A group of numbers below a fresh token.
pub fn numbers(sim: &Sim) -> GroupBuilder<u32> {
    GroupBuilder::under(&sim.token())
}

/// Gives `value` after stepping aside so many times.
pub async fn after(steps: u32, value: u32) -> u32 {
    let mut left = steps;
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    value
}

/// Never ends, and holds `held` until it is dropped.
pub async fn forever<H>(held: H) -> u32 {
    let _held = held;
    pending::<u32>().await
}

/// Counts how many of something live, and how many lived at once at most.
#[derive(Clone, Default)]
pub struct Living(Arc<(AtomicUsize, AtomicUsize)>);

impl Living {
    /// One more, until it is dropped.
    pub fn one(&self) -> One {
        let now = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.1.fetch_max(now, Ordering::SeqCst);
        One(self.clone())
    }

    pub fn now(&self) -> usize {
        self.0.0.load(Ordering::SeqCst)
    }

    pub fn most(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

/// One of those that [`Living`] counts.
pub struct One(Living);

impl Drop for One {
    fn drop(&mut self) {
        self.0.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs the task on the simulated runtime, beside the test.
pub fn beside(sim: &Sim, task: impl Future<Output = ()> + Send + 'static) {
    sim.runtime().spawn(Box::pin(task));
}
