//! What nodes of a test do outside of their run, how long they take, and runs that are dropped on the way.

use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::{RunOptions, Runtime};
use std::sync::{Arc, Mutex};
use std::task::Poll;

/// What happened outside.
#[derive(Clone, Default)]
pub struct World(Arc<Mutex<Vec<String>>>);

impl World {
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

pub fn world(cx: &NodeContext) -> World {
    cx.extension::<World>().unwrap().clone()
}

/// Takes so much virtual time.
pub async fn rest(cx: &NodeContext, millis: u64) {
    let clock = cx.extension::<Arc<dyn Runtime>>().unwrap().clone();
    clock.sleep_until(clock.now() + Duration::from_millis(millis)).await;
}

/// Takes a little time, so that seeds give many orders.
pub async fn jitter(cx: &NodeContext) {
    let millis = cx.extension::<Arc<dyn Runtime>>().unwrap().random() % 4;
    rest(cx, millis).await;
}

pub fn with<'a>(sim: &Sim, outside: &World, run: RunOptions<'a, u32>) -> RunOptions<'a, u32> {
    run.extension(outside.clone()).extension(sim.runtime()).on(sim.runtime())
}

/// Polls a run for so long, and drops it if it has not ended by then.
pub fn dropped_after(sim: &Sim, run: RunOptions<'_, u32>, millis: u64) -> Option<Result<u32, RunError<u32>>> {
    let clock = sim.runtime();
    let mut run = Box::pin(run.into_future());
    let mut timer = clock.sleep_until(clock.now() + Duration::from_millis(millis));
    sim.run(std::future::poll_fn(move |cx| match run.as_mut().poll(cx) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending => timer.as_mut().poll(cx).map(|()| None),
    }))
}
