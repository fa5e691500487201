//! [`Hints`]: notifies waiters that runs may have become ready.
//!
//! Invariants:
//! 1. A wait completes if `notify` is called after `wait` was called, even before the first poll.
//! 2. No waker is woken, cloned or dropped under the lock.
//! 3. A dropped wait removes its waker.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Notifies all waiters when a run may have become ready.
#[derive(Default)]
pub(super) struct Hints(Mutex<Waiters>);

#[derive(Default)]
struct Waiters {
    /// The number of notifications so far.
    notified: u64,
    /// The number of the last wait.
    last: u64,
    /// The wakers of pending waits by number, woken in the order of their waits.
    waiting: BTreeMap<u64, Waker>,
}

impl Hints {
    /// Completes all pending waits.
    pub(super) fn notify(&self) {
        let woken = {
            let mut waiters = self.lock();
            waiters.notified += 1;
            std::mem::take(&mut waiters.waiting)
        };
        woken.into_values().for_each(Waker::wake);
    }

    /// Waits for the next call of [`notify`](Self::notify).
    pub(super) fn wait(&self) -> HintWait<'_> {
        let mut waiters = self.lock();
        waiters.last += 1;
        HintWait { hints: self, notified: waiters.notified, number: waiters.last }
    }

    fn lock(&self) -> MutexGuard<'_, Waiters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The future of [`Hints::wait`]. Cancel safe.
pub(super) struct HintWait<'a> {
    hints: &'a Hints,
    /// The number of notifications when the wait began.
    notified: u64,
    number: u64,
}

impl Future for HintWait<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // Cloning or dropping a waker can run foreign code, so both happen outside of the lock.
        let waker = cx.waker().clone();
        let (polled, _replaced) = {
            let mut waiters = self.hints.lock();
            if waiters.notified == self.notified {
                (Poll::Pending, waiters.waiting.insert(self.number, waker))
            } else {
                (Poll::Ready(()), Some(waker))
            }
        };
        polled
    }
}

impl Drop for HintWait<'_> {
    fn drop(&mut self) {
        let waker = self.hints.lock().waiting.remove(&self.number);
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use std::task::Wake;

    /// Counts the drops that happen while the lock is free.
    struct LockProbe(Arc<Hints>, Arc<AtomicU32>);

    impl Wake for LockProbe {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for LockProbe {
        fn drop(&mut self) {
            self.1.fetch_add(u32::from(self.0.0.try_lock().is_ok()), SeqCst);
        }
    }

    #[test]
    fn w8_replaced_waker_is_dropped_outside_the_lock() {
        let (hints, dropped) = (Arc::new(Hints::default()), Arc::new(AtomicU32::new(0)));
        let poll = |waiting: Pin<&mut HintWait<'_>>| {
            let waker = Arc::new(LockProbe(Arc::clone(&hints), Arc::clone(&dropped))).into();
            waiting.poll(&mut Context::from_waker(&waker))
        };
        let mut waiting = std::pin::pin!(hints.wait());
        assert_eq!(poll(waiting.as_mut()), Poll::Pending);
        assert_eq!(poll(waiting.as_mut()), Poll::Pending);
        assert_eq!(dropped.load(SeqCst), 1);
        hints.notify();
        assert_eq!(poll(waiting.as_mut()), Poll::Ready(()));
        assert_eq!(dropped.load(SeqCst), 3);
    }
}
