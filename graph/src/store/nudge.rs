//! `Nudge`: tells whoever waits that something may have changed. Waiters that are dropped leave nothing behind.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Rung whenever something may have changed.
#[derive(Default)]
pub(super) struct Nudge(Mutex<Waiters>);

#[derive(Default)]
struct Waiters {
    rings: u64,
    next: u64,
    /// Woken in the order in which they came.
    waiting: BTreeMap<u64, Waker>,
}

impl Nudge {
    pub(super) fn ring(&self) {
        let woken = {
            let mut waiters = self.lock();
            waiters.rings += 1;
            std::mem::take(&mut waiters.waiting)
        };
        woken.into_values().for_each(Waker::wake);
    }

    /// Resolves at the next ring from now on.
    pub(super) fn wait(&self) -> Waiting<'_> {
        let mut waiters = self.lock();
        waiters.next += 1;
        Waiting { nudge: self, rings: waiters.rings, number: waiters.next }
    }

    fn lock(&self) -> MutexGuard<'_, Waiters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Waiting<'a> {
    nudge: &'a Nudge,
    rings: u64,
    number: u64,
}

impl Future for Waiting<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut waiters = self.nudge.lock();
        if waiters.rings != self.rings {
            return Poll::Ready(());
        }
        waiters.waiting.insert(self.number, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let waker = self.nudge.lock().waiting.remove(&self.number);
        drop(waker);
    }
}
