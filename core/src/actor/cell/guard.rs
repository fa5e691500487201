//! `Guarded`: polls user code and contains it: a panic becomes a value, and a cancel drops the code
//! at its await.

use crate::actor::cell::lifecycle::StageEnd;
use crate::actor::cell::{AnyCell, Cell};
use crate::base::catch;
use crate::base::sync::Arc;
use crate::mailbox::control;
use crate::mailbox::control::PollState;
use crate::tree::current;
use crate::tree::member::Member;
use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use pin_project_lite::pin_project;

pin_project! {
    /// Polls `inner` as the member of `cell`. The inner future is dropped before this one is ready,
    /// and a panic in that drop counts as a panic of the code.
    pub(super) struct Guarded<'a, C: ?Sized, F> {
        #[pin]
        inner: Option<F>,
        cell: &'a C,
        member: &'a mut Option<Arc<dyn Member>>,
    }

    /// The runtime dropped the task in the middle. Replies in the code are kept by the actor, which
    /// answers them with its exit.
    impl<C: ?Sized, F> PinnedDrop for Guarded<'_, C, F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if this.inner.is_some() {
                let _inside = current::enter(this.member, Waker::noop());
                this.inner.set(None);
            }
        }
    }
}

/// A cell whose code is guarded. The guard of a stage that does not depend on the message type is
/// compiled once.
pub(super) trait GuardedCell {
    fn any_cell(&self) -> &AnyCell;
}

impl<M: Send + 'static> GuardedCell for Cell<M> {
    #[inline]
    fn any_cell(&self) -> &AnyCell {
        self.any()
    }
}

impl GuardedCell for AnyCell {
    fn any_cell(&self) -> &AnyCell {
        self
    }
}

impl<'a, C: GuardedCell + ?Sized, F: Future> Guarded<'a, C, F> {
    /// `member` is the cell again, as the current member for code that asks for it.
    pub(super) fn new(cell: &'a C, member: &'a mut Option<Arc<dyn Member>>, inner: F) -> Self {
        Self { inner: Some(inner), cell, member }
    }
}

impl<C: GuardedCell + ?Sized, F: Future<Output = StageEnd>> Future for Guarded<'_, C, F> {
    type Output = StageEnd;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<StageEnd> {
        let mut this = self.project();
        let _inside = current::enter(this.member, cx.waker());
        let cell = this.cell.any_cell();
        let mailbox = &cell.mailbox;
        mailbox.set_poll_state(PollState::Polling);
        let end = loop {
            let is_cancelled = mailbox.must_cancel();
            if is_cancelled && !cell.may_finish_in_grace(cx) {
                break drop_unfinished(this.inner, StageEnd::CancelledAtAwait(None));
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
                Ok(Poll::Ready(output)) => break output,
                Err(reason) => break drop_unfinished(this.inner, StageEnd::Failed(Box::new(reason))),
                // An idle or yielding actor has already left a waker or a wake-up; a handler that
                // waits has not.
                Ok(Poll::Pending)
                    if is_cancelled || mailbox.poll_state() == PollState::Parked || mailbox.park_in_handler(cx.waker()) =>
                {
                    cell.handler_waits(cx);
                    mailbox.set_poll_state(PollState::Outside);
                    return Poll::Pending;
                }
                // A cancel came before the waker was stored: check again.
                Ok(Poll::Pending) => {}
            }
        };
        mailbox.set_poll_state(PollState::Outside);
        Poll::Ready(end)
    }
}

impl AnyCell {
    /// Returns true while cancelled code may continue, by `Props::cancel_grace`. Between two
    /// incarnations no code runs, so no grace applies.
    #[cold]
    fn may_finish_in_grace(&self, cx: &mut Context<'_>) -> bool {
        let options = self.options();
        let grace = options.as_ref().and_then(|options| options.cancel_grace.as_ref());
        grace.is_some_and(|grace| {
            self.mailbox.control_word() & control::WAITING_TO_RESTART == 0 && grace.is_running(self.node().runtime(), cx)
        })
    }
}

/// Drops unfinished code. Its values are dropped here, and a panic counts as a panic of the code.
#[cold]
fn drop_unfinished<F>(mut inner: Pin<&mut Option<F>>, end: StageEnd) -> StageEnd {
    match (catch::catch(|| inner.set(None)), end) {
        (Ok(()), end) => end,
        (Err(reason), StageEnd::CancelledAtAwait(_)) => StageEnd::CancelledAtAwait(Some(Box::new(reason))),
        (Err(reason), _) => StageEnd::Failed(Box::new(reason)),
    }
}
