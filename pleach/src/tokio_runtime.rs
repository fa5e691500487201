//! `TokioRuntime`: pleach on Tokio.

use pleach_core::{BoxFuture, Clock, Instant, Random, Runtime, StdClock, catch_panic};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;

/// A Tokio runtime, as core sees it. Cheap to make; the clock begins when it is made.
///
/// When the Tokio runtime is dropped, everything in it ends. Whoever still waits for a time from elsewhere is served by a clock with one
/// thread of its own ([`StdClock`]).
#[derive(Debug)]
pub struct TokioRuntime {
    handle: Handle,
    start: tokio::time::Instant,
    random: Mutex<Random>,
    timers: Arc<Timers>,
}

/// Who counts the time: Tokio, until its runtime is gone.
#[derive(Debug, Default)]
struct Timers {
    gone: AtomicBool,
    instead: OnceLock<StdClock>,
}

/// A sleep on Tokio's timers, which goes on without them if it must.
struct Sleep {
    at: tokio::time::Instant,
    /// `None` once the runtime is gone.
    tokio: Option<Pin<Box<tokio::time::Sleep>>>,
    timers: Arc<Timers>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { at, tokio, timers } = &mut *self;
        if !timers.gone.load(Ordering::Relaxed)
            && let Some(sleep) = tokio
        {
            // Tokio tells by a panic that its timers are gone; there is no other way to ask.
            match catch_panic(|| sleep.as_mut().poll(cx)) {
                Ok(polled) => return polled,
                Err(_) => timers.gone.store(true, Ordering::Relaxed),
            }
        }
        *tokio = None;
        let left = at.saturating_duration_since(tokio::time::Instant::now());
        if left.is_zero() {
            return Poll::Ready(());
        }
        let clock = timers.instead.get_or_init(StdClock::new);
        clock.wake_at(clock.now() + left, cx.waker());
        Poll::Pending
    }
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
        Ok(Arc::new(Self { handle, start, random: Mutex::new(Random::seeded(seed)), timers: Arc::default() }))
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

    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        drop(self.handle.spawn_blocking(work));
    }

    fn now(&self) -> Instant {
        Instant::after_start(self.start.elapsed())
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        let _guard = self.handle.enter();
        match self.start.checked_add(at.since_start()) {
            Some(at) => {
                Box::pin(Sleep { at, tokio: Some(Box::pin(tokio::time::sleep_until(at))), timers: Arc::clone(&self.timers) })
            }
            None => Box::pin(std::future::pending()),
        }
    }

    fn random(&self) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }
}
