//! A runtime that counts the reads of its clock.

use pleach::runtime::{BoxFuture, Instant, Runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Another runtime, and the number of reads of its clock.
pub struct CountingClock(pub Arc<dyn Runtime>, pub Arc<AtomicUsize>);

impl Runtime for CountingClock {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.0.spawn(task);
    }

    fn now(&self) -> Instant {
        self.1.fetch_add(1, Relaxed);
        self.0.now()
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        self.0.sleep_until(at)
    }

    fn random(&self) -> u64 {
        self.0.random()
    }
}
