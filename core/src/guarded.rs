//! `Guarded`: user code polled so that nothing it does gets out: a panic becomes a value, a cancel cuts it off at its await.

use crate::cell::{Cell, Posture};
use crate::current::{self, Current};
use crate::mailbox::control::CANCEL;
use crate::{Reason, catch};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use pin_project_lite::pin_project;

/// Why guarded code did not come to its own end.
pub(crate) enum Cut {
    Cancelled,
    Panicked(Reason),
}

pin_project! {
    /// Polls `inner` as the member of `cell`. The inner future is dropped before this one is ready, and a panic in that drop counts as
    /// a panic of the code.
    pub(crate) struct Guarded<'a, M, F> {
        #[pin]
        inner: Option<F>,
        cell: &'a Cell<M>,
        current: &'a mut Option<Current>,
        heeds_cancel: bool,
    }
}

impl<'a, M, F: Future> Guarded<'a, M, F> {
    pub(crate) fn new(cell: &'a Cell<M>, current: &'a mut Option<Current>, inner: F) -> Self {
        Self { inner: Some(inner), cell, current, heeds_cancel: true }
    }

    /// Runs on after a cancel: for what must be done at the end.
    pub(crate) fn despite_cancel(mut self) -> Self {
        self.heeds_cancel = false;
        self
    }
}

impl<M, F: Future> Future for Guarded<'_, M, F> {
    type Output = Result<F::Output, Cut>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let _inside = current::enter(this.current, cx.waker());
        this.cell.set_posture(Posture::Polling);
        let result = loop {
            if *this.heeds_cancel && this.cell.inbox().word() & CANCEL != 0 {
                break Err(Cut::Cancelled);
            }
            let polled = catch::catch(|| this.inner.as_mut().as_pin_mut().map(|inner| inner.poll(cx)));
            match polled {
                Ok(Some(Poll::Ready(output))) => break Ok(output),
                Err(reason) => break Err(Cut::Panicked(reason)),
                // Going idle and yielding left a waker or a wake-up themselves; a handler that waits did not.
                Ok(_) if this.cell.posture() == Posture::Resting => {}
                Ok(_) if this.cell.inbox().park_in_handler(cx.waker()) => {}
                // A cancel came before the waker was there.
                Ok(_) if *this.heeds_cancel => continue,
                Ok(_) => {}
            }
            this.cell.set_posture(Posture::Outside);
            return Poll::Pending;
        };
        // The code may be half-way through: what it holds is dropped here, as a part of it.
        let result = match catch::catch(|| this.inner.set(None)) {
            Ok(()) => result,
            Err(reason) => Err(Cut::Panicked(reason)),
        };
        this.cell.set_posture(Posture::Outside);
        Poll::Ready(result)
    }
}
