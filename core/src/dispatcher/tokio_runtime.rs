//! [`TokioRuntime`]: the [`Runtime`] trait on Tokio. Needs the feature `tokio`.

use crate::base::catch::catch;
use crate::base::runtime::{BoxFuture, Random, Runtime};
use crate::base::time::Instant;
use crate::dispatcher::Clock;
use crate::dispatcher::std_clock::StdClock;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::future::{Future, pending};
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::{Mutex, OnceLock, PoisonError};
use tokio::runtime::Handle;

/// A Tokio runtime as a [`Runtime`]. Its clock starts when it is made.
///
/// When the Tokio runtime is dropped, everything that runs on it ends. Code on other threads may
/// still wait for a time of this runtime; those timers move to a [`StdClock`], which starts one
/// thread.
#[derive(Debug)]
pub struct TokioRuntime {
    handle: Handle,
    start: tokio::time::Instant,
    random: Mutex<Random>,
    timers: Arc<Timers>,
}

/// The source of timers: Tokio, until its runtime is dropped.
#[derive(Debug, Default)]
struct Timers {
    gone: AtomicBool,
    instead: OnceLock<StdClock>,
}

/// A sleep on Tokio's timers that survives the end of the Tokio runtime.
struct Sleep {
    at: tokio::time::Instant,
    /// `None` once the runtime was dropped.
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
            // Tokio panics when its timers are gone. There is no other way to detect it.
            match catch(|| sleep.as_mut().poll(cx)) {
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

/// No usable Tokio runtime was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoRuntime {
    /// The calling code does not run inside a Tokio runtime.
    NotHere,
    /// The Tokio runtime was built without timers.
    WithoutTime,
}

impl fmt::Display for NoRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotHere => "no Tokio runtime found: call this inside one, or pass its handle to `TokioRuntime::new`",
            Self::WithoutTime => "the Tokio runtime has no timers: build it with `enable_time` or `enable_all`",
        })
    }
}

impl core::error::Error for NoRuntime {}

impl TokioRuntime {
    /// Wraps the runtime behind `handle`.
    ///
    /// # Errors
    /// [`NoRuntime::WithoutTime`] if the runtime was built without timers.
    pub fn new(handle: Handle) -> Result<Arc<Self>, NoRuntime> {
        {
            let _guard = handle.enter();
            // Tokio panics if it has no timers. There is no other way to detect it.
            catch(|| drop(tokio::time::sleep(Duration::ZERO))).map_err(|_| NoRuntime::WithoutTime)?;
        }
        Ok(Self::unchecked(handle))
    }

    fn unchecked(handle: Handle) -> Arc<Self> {
        let start = {
            let _guard = handle.enter();
            tokio::time::Instant::now()
        };
        // The seed differs for each process and each runtime. It need not be secret.
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        Arc::new(Self { handle, start, random: Mutex::new(Random::seeded(seed)), timers: Arc::default() })
    }

    /// Returns the Tokio runtime that the calling code runs in.
    ///
    /// # Errors
    /// [`NoRuntime`] outside of a Tokio runtime, or in one without timers.
    pub fn current() -> Result<Arc<Self>, NoRuntime> {
        Self::new(Handle::try_current().map_err(|_| NoRuntime::NotHere)?)
    }

    /// Returns the Tokio runtime that the calling code runs in, even if it has no timers. Then
    /// [`sleep_until`](Runtime::sleep_until) panics.
    #[doc(hidden)]
    pub fn current_unchecked() -> Option<Arc<Self>> {
        Handle::try_current().ok().map(Self::unchecked)
    }

    /// Converts an instant of Tokio's clock to an instant of this runtime.
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

    /// Spawns it from another thread. Tokio keeps the newest task of a thread for that thread, even
    /// while it is blocked.
    fn spawn_observer(&self, task: BoxFuture<'static, ()>) {
        let handle = self.handle.clone();
        drop(self.handle.spawn_blocking(move || drop(handle.spawn(task))));
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
            None => Box::pin(pending()),
        }
    }

    fn random(&self) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }
}
