//! [`Sleep`]: a sleep that is part of its owner, and can be set again without allocating.

use crate::base::runtime::{Runtime, SleepSlot};
use crate::base::sync::Arc;
use crate::base::time::Instant;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

/// Completes at its time, on the clock of a runtime. Dropping it removes its timer.
pub(crate) struct Sleep {
    runtime: Arc<dyn Runtime>,
    slot: SleepSlot,
}

impl Sleep {
    pub(crate) fn until(runtime: &Arc<dyn Runtime>, at: Instant) -> Self {
        Self { runtime: Arc::clone(runtime), slot: SleepSlot::until(at) }
    }

    /// Returns when it ends.
    pub(crate) fn at(&self) -> Instant {
        self.slot.at
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { runtime, slot } = &mut *self;
        runtime.poll_sleep(slot, cx)
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.runtime.end_sleep(&mut self.slot);
    }
}
