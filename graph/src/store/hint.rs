//! `Hints`: notifies waiters that something may have changed. A dropped waiter leaves nothing
//! behind.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Rung whenever something may have changed.
#[derive(Default)]
pub(super) struct Hints(Mutex<Waiters>);

#[derive(Default)]
struct Waiters {
    rings: u64,
    next: u64,
    /// Woken in the order in which they came.
    waiting: BTreeMap<u64, Waker>,
}

impl Hints {
    pub(super) fn ring(&self) {
        let woken = {
            let mut waiters = self.lock();
            waiters.rings += 1;
            std::mem::take(&mut waiters.waiting)
        };
        woken.into_values().for_each(Waker::wake);
    }

    /// Resolves at the next ring from now on.
    pub(super) fn wait(&self) -> HintWait<'_> {
        let mut waiters = self.lock();
        waiters.next += 1;
        HintWait { hints: self, rings: waiters.rings, number: waiters.next }
    }

    fn lock(&self) -> MutexGuard<'_, Waiters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct HintWait<'a> {
    hints: &'a Hints,
    rings: u64,
    number: u64,
}

impl Future for HintWait<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // Cloned before the lock, and the one that it replaces is dropped after: both may run code of the waker's owner.
        let waker = cx.waker().clone();
        let (polled, _replaced) = {
            let mut waiters = self.hints.lock();
            if waiters.rings == self.rings {
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

    /// Counts when it is dropped while the lock is free.
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
    fn w6_a_replaced_waker_is_dropped_outside_the_lock() {
        let (hints, dropped) = (Arc::new(Hints::default()), Arc::new(AtomicU32::new(0)));
        let poll = |waiting: Pin<&mut HintWait<'_>>| {
            let waker = Arc::new(LockProbe(Arc::clone(&hints), Arc::clone(&dropped))).into();
            waiting.poll(&mut Context::from_waker(&waker))
        };
        let mut waiting = std::pin::pin!(hints.wait());
        assert_eq!(poll(waiting.as_mut()), Poll::Pending);
        assert_eq!(poll(waiting.as_mut()), Poll::Pending);
        assert_eq!(dropped.load(SeqCst), 1);
        hints.ring();
        assert_eq!(poll(waiting.as_mut()), Poll::Ready(()));
        assert_eq!(dropped.load(SeqCst), 3);
    }
}
