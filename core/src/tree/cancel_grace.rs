//! `CancelGrace`: how long a cancelled future may run on before it is dropped.
//!
//! Without one a cancel drops the future at its next await. With one the future is polled on, sees the cancel by its token, and may
//! tidy up; it is dropped when the time is over.

use crate::base::lock::Lock;
use crate::base::runtime::{BoxFuture, Runtime};
use core::mem;
use core::task::Context;
use core::time::Duration;

/// The grace of one future. It begins with the first look after the cancel.
pub(crate) struct CancelGrace {
    length: Duration,
    clock: Lock<Clock>,
}

enum Clock {
    NotBegun,
    Runs(BoxFuture<'static, ()>),
    /// Also while somebody looks, which only the future's own task does.
    Over,
}

impl CancelGrace {
    pub(crate) fn new(length: Duration) -> Self {
        Self { length, clock: Lock::new(Clock::NotBegun) }
    }

    /// Whether the cancelled future may run on. If so, `cx` is woken when it may no longer.
    pub(crate) fn lasts(&self, runtime: &dyn Runtime, cx: &mut Context<'_>) -> bool {
        // The timer is the runtime's own code, so it runs outside the lock.
        let mut timer = match self.clock.with(|clock| mem::replace(clock, Clock::Over)) {
            Clock::NotBegun => runtime.sleep_until(runtime.now() + self.length),
            Clock::Runs(timer) => timer,
            Clock::Over => return false,
        };
        let lasts = timer.as_mut().poll(cx).is_pending();
        if lasts {
            self.clock.with(|clock| *clock = Clock::Runs(timer));
        }
        lasts
    }
}
