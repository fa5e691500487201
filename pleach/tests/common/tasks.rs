//! For tests of groups: a group builder, tasks that wait, and a counter of live values.

use super::Gate;
use pleach::prelude::*;
use pleach::sim::Sim;
use std::future::{Future, pending, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

/// Builds a group of numbers under a new token.
pub fn numbers(sim: &Sim) -> GroupBuilder<u32> {
    GroupBuilder::under(&sim.token())
}

/// Yields `steps` times, then returns `value`.
pub async fn after(steps: u32, value: u32) -> u32 {
    let mut remaining = steps;
    poll_fn(|cx| {
        if remaining == 0 {
            return Poll::Ready(());
        }
        remaining -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    value
}

/// Waits until the gate is open, then returns `value`.
pub fn gated(gate: &Gate, value: u32) -> impl Future<Output = u32> + Send + use<> {
    let open = gate.pass();
    async move {
        open.await;
        value
    }
}

/// Never completes. Holds `guard` until it is dropped.
pub async fn forever<H>(guard: H) -> u32 {
    let _guard = guard;
    pending::<u32>().await
}

/// Counts live [`Alive`] values: how many exist now, and the maximum so far.
#[derive(Clone, Default)]
pub struct AliveCount(Arc<(AtomicUsize, AtomicUsize)>);

impl AliveCount {
    /// Adds one until the returned value is dropped.
    pub fn add(&self) -> Alive {
        let now = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.1.fetch_max(now, Ordering::SeqCst);
        Alive(self.clone())
    }

    pub fn now(&self) -> usize {
        self.0.0.load(Ordering::SeqCst)
    }

    pub fn max(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

/// A value that [`AliveCount`] counts.
pub struct Alive(AliveCount);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Spawns the task on the simulated runtime.
pub fn spawn_on(sim: &Sim, task: impl Future<Output = ()> + Send + 'static) {
    sim.runtime().spawn(Box::pin(task));
}
