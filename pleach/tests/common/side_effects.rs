//! Side effects of nodes outside of their run, delays of nodes, and runs that are dropped early.

use pleach::graph::RunOptions;
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::sim::Sim;
use std::sync::{Arc, Mutex};
use std::task::Poll;

/// The recorded side effects.
#[derive(Clone, Default)]
pub struct SideEffects(Arc<Mutex<Vec<String>>>);

impl SideEffects {
    pub fn happen(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    pub fn count(&self, what: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|one| one.starts_with(what)).count()
    }

    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

pub fn side_effects(cx: &NodeContext) -> SideEffects {
    cx.extension::<SideEffects>().unwrap().clone()
}

/// Waits for this much virtual time.
pub async fn rest(cx: &NodeContext, millis: u64) {
    let clock = cx.extension::<Arc<dyn Runtime>>().unwrap().clone();
    clock.sleep_until(clock.now() + Duration::from_millis(millis)).await;
}

/// Waits up to 3 ms, so that different seeds give different orders.
pub async fn jitter(cx: &NodeContext) {
    let millis = cx.extension::<Arc<dyn Runtime>>().unwrap().random() % 4;
    rest(cx, millis).await;
}

pub fn with<'a>(sim: &Sim, outside: &SideEffects, run: RunOptions<'a, u32>) -> RunOptions<'a, u32> {
    run.extension(outside.clone()).extension(sim.runtime()).runtime(sim.runtime())
}

/// Polls a run for this long and drops it if it has not ended.
pub fn dropped_after(sim: &Sim, run: RunOptions<'_, u32>, millis: u64) -> Option<Result<u32, RunError<u32>>> {
    let clock = sim.runtime();
    let mut run = Box::pin(run.into_future());
    let mut timer = clock.sleep_until(clock.now() + Duration::from_millis(millis));
    sim.run(std::future::poll_fn(move |cx| match run.as_mut().poll(cx) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending => timer.as_mut().poll(cx).map(|()| None),
    }))
}
