//! `TokioRuntime`: pleach on Tokio.

use pleach_core::{BoxFuture, Instant, Random, Runtime, catch_panic};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;

/// A Tokio runtime, as core sees it. Cheap to make; the clock begins when it is made.
#[derive(Debug)]
pub struct TokioRuntime {
    handle: Handle,
    start: tokio::time::Instant,
    random: Mutex<Random>,
}

/// There is no Tokio runtime to run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoRuntime {
    /// There is none here.
    NotHere,
    /// There is one, and it has no timers.
    WithoutTime,
}

impl std::fmt::Display for NoRuntime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotHere => "there is no Tokio runtime here: call this inside one, or pass its handle to `TokioRuntime::new`",
            Self::WithoutTime => "the Tokio runtime has no timers: build it with `enable_time` or `enable_all`",
        })
    }
}

impl std::error::Error for NoRuntime {}

impl TokioRuntime {
    /// The runtime behind `handle`. One that was built without timers is refused; Tokio tells of that by a panic, which is caught.
    pub fn new(handle: Handle) -> Result<Arc<Self>, NoRuntime> {
        let start = {
            let _guard = handle.enter();
            // There is no other way to ask.
            catch_panic(|| drop(tokio::time::sleep(Duration::ZERO))).map_err(|_| NoRuntime::WithoutTime)?;
            tokio::time::Instant::now()
        };
        // A seed that differs from process to process and from runtime to runtime; it needs to be no secret.
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        Ok(Arc::new(Self { handle, start, random: Mutex::new(Random::seeded(seed)) }))
    }

    /// The runtime this code runs in.
    pub fn current() -> Result<Arc<Self>, NoRuntime> {
        Self::new(Handle::try_current().map_err(|_| NoRuntime::NotHere)?)
    }

    /// A moment of Tokio's clock on the clock of this runtime.
    pub fn instant(&self, at: tokio::time::Instant) -> Instant {
        Instant::after_start(at.saturating_duration_since(self.start))
    }
}

impl Runtime for TokioRuntime {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        drop(self.handle.spawn(task));
    }

    fn now(&self) -> Instant {
        Instant::after_start(self.start.elapsed())
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        let _guard = self.handle.enter();
        match self.start.checked_add(at.since_start()) {
            Some(at) => Box::pin(tokio::time::sleep_until(at)),
            None => Box::pin(std::future::pending()),
        }
    }

    fn random(&self) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }
}
