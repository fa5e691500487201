//! [`CancelGrace`]: how long a cancelled future may keep running before it is dropped.
//!
//! Without a grace a cancel drops the future at its next await. With a grace the future is still
//! polled: it sees the cancel through its token and may clean up. It is dropped when the time is
//! over.
//!
//! | state | meaning | next |
//! |---|---|---|
//! | `NotStarted` | no cancel was seen yet | `Running` at the first check |
//! | `Running(timer)` | the future may continue | `Expired` when the timer fires |
//! | `Expired` | the future must be dropped | |

use crate::base::lock::Lock;
use crate::base::runtime::{BoxFuture, Runtime};
use core::mem;
use core::task::Context;
use core::time::Duration;

/// The grace of one future. It starts with the first check after the cancel.
pub(crate) struct CancelGrace {
    length: Duration,
    timer: Lock<GraceTimer>,
}

enum GraceTimer {
    NotStarted,
    Running(BoxFuture<'static, ()>),
    /// Also set while the timer is polled, which only the task of the future does.
    Expired,
}

impl CancelGrace {
    pub(crate) fn new(length: Duration) -> Self {
        Self { length, timer: Lock::new(GraceTimer::NotStarted) }
    }

    /// Returns whether the cancelled future may continue. If so, `cx` is woken when the grace is
    /// over.
    pub(crate) fn is_running(&self, runtime: &dyn Runtime, cx: &mut Context<'_>) -> bool {
        // The timer is code of the runtime, so it is polled outside of the lock.
        let mut timer = match self.timer.with(|slot| mem::replace(slot, GraceTimer::Expired)) {
            GraceTimer::NotStarted => runtime.sleep_until(runtime.now() + self.length),
            GraceTimer::Running(timer) => timer,
            GraceTimer::Expired => return false,
        };
        let is_running = timer.as_mut().poll(cx).is_pending();
        if is_running {
            self.timer.with(|slot| *slot = GraceTimer::Running(timer));
        }
        is_running
    }
}
