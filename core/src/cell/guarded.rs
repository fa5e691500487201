//! `Guarded`: user code polled so that nothing it does gets out: a panic becomes a value, a cancel cuts it off at its await.

use super::Cell;
use crate::current;
use crate::mailbox::Posture;
use crate::node::Member;
use crate::{Reason, catch};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use pin_project_lite::pin_project;

/// Why guarded code did not come to its own end. Boxed, since what is handed on after every stage should be small.
pub(super) enum Cut {
    /// With what a panic said in the drop of what was cut off.
    Cancelled(Option<Box<Reason>>),
    Panicked(Box<Reason>),
}

pin_project! {
    /// Polls `inner` as the member of `cell`. The inner future is dropped before this one is ready, and a panic in that drop counts as
    /// a panic of the code.
    pub(super) struct Guarded<'a, M, F> {
        #[pin]
        inner: Option<F>,
        cell: &'a Cell<M>,
        member: &'a mut Option<Arc<dyn Member>>,
    }
}

impl<'a, M, F: Future> Guarded<'a, M, F> {
    /// `member` is the cell once more, lent to whoever asks who is being polled.
    pub(super) fn new(cell: &'a Cell<M>, member: &'a mut Option<Arc<dyn Member>>, inner: F) -> Self {
        Self { inner: Some(inner), cell, member }
    }
}

impl<M, F: Future> Future for Guarded<'_, M, F> {
    type Output = Result<F::Output, Cut>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let _inside = current::enter(this.member, cx.waker());
        let inbox = &this.cell.inbox;
        inbox.set_posture(Posture::Polling);
        let result = loop {
            if inbox.is_cut_off() {
                break Err(Cut::Cancelled(None));
            }
            let polled = catch::catch(|| {
                let Some(inner) = this.inner.as_mut().as_pin_mut() else { return Poll::Pending };
                let polled = inner.poll(cx);
                if polled.is_ready() {
                    this.inner.set(None);
                }
                polled
            });
            match polled {
                Ok(Poll::Ready(output)) => break Ok(output),
                Err(reason) => break Err(Cut::Panicked(Box::new(reason))),
                // Going idle and stepping aside left a waker or a wake-up themselves; a handler that waits did not.
                Ok(Poll::Pending) if inbox.posture() == Posture::Resting || inbox.park_in_handler(cx.waker()) => {
                    this.cell.handler_waits(cx);
                    inbox.set_posture(Posture::Outside);
                    return Poll::Pending;
                }
                // A cancel came before the waker was there.
                Ok(Poll::Pending) => {}
            }
        };
        let result = result.map_err(|cut| drop_unfinished(this.inner, cut));
        inbox.set_posture(Posture::Outside);
        Poll::Ready(result)
    }
}

/// The code may be half-way through: what it holds is dropped here, as a part of it.
#[cold]
fn drop_unfinished<F>(mut inner: Pin<&mut Option<F>>, cut: Cut) -> Cut {
    match (catch::catch(|| inner.set(None)), cut) {
        (Ok(()), cut) => cut,
        (Err(reason), Cut::Cancelled(_)) => Cut::Cancelled(Some(Box::new(reason))),
        (Err(reason), Cut::Panicked(_)) => Cut::Panicked(Box::new(reason)),
    }
}
