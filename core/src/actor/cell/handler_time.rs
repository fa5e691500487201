//! How long a handler is at its message, measured only while somebody listens to lints.
//!
//! A bit of the control word says that handlers are to be timed. It is set with a batch of messages, so that the loop, which looks at the
//! word before every message, comes here between two handlers. The stopwatch itself lies beside the mailbox, in the box of what is rare.
//!
//! Invariants:
//! 1. With nobody listening no clock is read, no timer set and no lock taken: a batch costs one relaxed load, a message nothing, and a
//!    handler that waits one look at the control word.
//! 2. The bit is gone before the actor looks for more messages, so it keeps nobody from going idle.
//! 3. A handler is told of at most once: at the threshold if it is waiting then, else when it is over.

use crate::actor::cell::Cell;
use crate::actor::cell::member::type_name;
use crate::actor::cell::optional_state::Stopwatch;
use crate::events::event::{Event, EventKinds, Lint};
use crate::events::hub;
use crate::mailbox::control;
use alloc::boxed::Box;
use core::task::{Context, Waker};
use core::time::Duration;

impl<M> Cell<M> {
    /// Has the handlers of the messages to come timed, if somebody may want to know.
    #[inline]
    pub(super) fn begin_batch(&self) {
        if hub::any_tree_wants_lints() {
            self.mailbox.raise_silently(control::TIME_HANDLERS);
        }
    }

    /// As [`MessageQueue::take_alone`](crate::mailbox::queue::MessageQueue::take_alone), unless somebody may want to know how long its handler takes.
    #[inline]
    pub(super) fn take_single(&self, waker: &Waker) -> Option<M> {
        if hub::any_tree_wants_lints() { None } else { self.mailbox.take_single(waker) }
    }

    /// Between two messages: the handler before is over, and another one begins if `handles_next`.
    #[cold]
    pub(super) fn time_next_handler(&self, handles_next: bool) {
        self.stop_stopwatch();
        let tree = self.node.tree();
        if handles_next && tree.events.wants(EventKinds::LINTS) {
            let stopwatch = Box::new(Stopwatch { started_at: tree.runtime.now(), alarm: None });
            drop(self.set_stopwatch(Some(stopwatch)));
            self.mailbox.raise_silently(control::TIME_HANDLERS);
        }
    }

    /// The last handler of a batch is over, one way or another.
    #[inline]
    pub(super) fn handler_returned(&self) {
        if self.mailbox.control_word() & control::TIME_HANDLERS != 0 {
            self.stop_stopwatch();
        }
    }

    /// The handler has to wait.
    #[inline]
    pub(super) fn handler_waits(&self, cx: &mut Context<'_>) {
        if self.mailbox.control_word() & control::TIME_HANDLERS != 0 {
            self.check_stopwatch(cx);
        }
    }

    #[cold]
    fn stop_stopwatch(&self) {
        self.mailbox.clear_bits(control::TIME_HANDLERS);
        if let Some(stopwatch) = self.set_stopwatch(None)
            && let Some(running_for) = self.time_over_limit(&stopwatch)
        {
            self.report_long_handler(running_for);
        }
    }

    /// Tells if it is too long already, else has the task polled again when it will be.
    #[cold]
    fn check_stopwatch(&self, cx: &mut Context<'_>) {
        let Some(mut stopwatch) = self.set_stopwatch(None) else { return };
        if let Some(running_for) = self.time_over_limit(&stopwatch) {
            return self.report_long_handler(running_for);
        }
        let tree = self.node.tree();
        let at = stopwatch.started_at + tree.long_handler;
        let alarm = stopwatch.alarm.get_or_insert_with(|| tree.runtime.sleep_until(at));
        if alarm.as_mut().poll(cx).is_ready() {
            // The clock has come there between two looks at it.
            cx.waker().wake_by_ref();
            stopwatch.alarm = None;
        }
        drop(self.set_stopwatch(Some(stopwatch)));
    }

    fn time_over_limit(&self, stopwatch: &Stopwatch) -> Option<Duration> {
        let tree = self.node.tree();
        let running_for = tree.runtime.now().since(stopwatch.started_at);
        (running_for >= tree.long_handler).then_some(running_for)
    }

    fn report_long_handler(&self, running_for: Duration) {
        self.node.events().emit(EventKinds::LINTS, || {
            Event::Lint(Lint::LongHandler { path: self.node.path(), message: type_name::<M>(), running_for })
        });
    }
}
