//! Finds the runtime of a run without one: the runtime of the polling actor or task, else the
//! current Tokio runtime.

use pleach_core::{Runtime, current_runtime};
use std::sync::Arc;

/// Returns the runtime of the current task, or the current Tokio runtime.
pub(crate) fn find() -> Option<Arc<dyn Runtime>> {
    current_runtime().or_else(on_tokio::current)
}

#[cfg(feature = "tokio")]
mod on_tokio {
    use pleach_core::{BoxFuture, Instant, Random, Runtime};
    use std::sync::{Arc, Mutex, PoisonError};
    use tokio::runtime::Handle;

    /// The minimal runtime for a run without a system or a scope, on Tokio.
    struct OnTokio {
        handle: Handle,
        start: tokio::time::Instant,
        random: Mutex<Random>,
    }

    pub(super) fn current() -> Option<Arc<dyn Runtime>> {
        let handle = Handle::try_current().ok()?;
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        Some(Arc::new(OnTokio { handle, start: tokio::time::Instant::now(), random: Mutex::new(Random::seeded(seed)) }))
    }

    impl Runtime for OnTokio {
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
}

#[cfg(not(feature = "tokio"))]
mod on_tokio {
    use pleach_core::Runtime;
    use std::sync::Arc;

    pub(super) fn current() -> Option<Arc<dyn Runtime>> {
        None
    }
}
