//! [`SimRuntime`]: the dispatcher's runtime, with the faults of the simulation.

use crate::runtime::{BoxFuture, HandlerFaults, Instant, Runtime, SleepSlot};
use crate::sim::faults::handlers::SimHandlerFaults;
use crate::sim::faults::injector::Injector;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The runtime of a simulation. Everything but the faults comes from the dispatcher.
pub(super) struct SimRuntime {
    pub(super) dispatcher: Arc<dyn Runtime>,
    pub(super) injector: Arc<Injector>,
}

impl Runtime for SimRuntime {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.dispatcher.spawn(task);
    }

    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        self.dispatcher.spawn_blocking(work);
    }

    fn spawn_observer(&self, task: BoxFuture<'static, ()>) {
        self.dispatcher.spawn_observer(task);
    }

    fn now(&self) -> Instant {
        self.dispatcher.now()
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        self.dispatcher.sleep_until(at)
    }

    fn poll_sleep(&self, sleep: &mut SleepSlot, cx: &mut Context<'_>) -> Poll<()> {
        self.dispatcher.poll_sleep(sleep, cx)
    }

    fn end_sleep(&self, sleep: &mut SleepSlot) {
        self.dispatcher.end_sleep(sleep);
    }

    fn reserve(&self) {
        self.dispatcher.reserve();
    }

    fn random(&self) -> u64 {
        self.dispatcher.random()
    }

    fn time_of_day(&self) -> Option<Duration> {
        self.dispatcher.time_of_day()
    }

    fn handler_faults(&self) -> Option<Arc<dyn HandlerFaults>> {
        let faults = || SimHandlerFaults { injector: Arc::clone(&self.injector), runtime: Arc::clone(&self.dispatcher) };
        self.injector.hits_new_tree().then(|| Arc::new(faults()) as Arc<dyn HandlerFaults>)
    }

    fn wake_for_control(&self, waker: Waker) {
        self.dispatcher.wake_for_control(waker);
    }
}
