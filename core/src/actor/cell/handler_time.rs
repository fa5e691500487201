//! Measures how long handlers run, only while a listener wants long handlers; and enters the actor
//! into the list of busy actors, only while a listener wants stuck ones (see `tree::watch`).
//!
//! The control bit `TIME_HANDLERS` enables it. The bit is set with each batch of messages, so the
//! loop, which checks the control word before every message, gets here between two handlers. The
//! stopwatch is in `OptionalState`.
//!
//! Invariants:
//! 1. Without a listener no clock is read, no timer is set and no lock is taken. A batch costs one
//!    relaxed load, a message nothing, and a pending handler one load of the control word.
//! 2. The bit is cleared before the actor looks for more messages, so it never keeps an actor from
//!    going idle.
//! 3. A handler is reported at most once: at the limit if it is pending then, else when it returns.
//!    Each report is followed by one that it has returned, failed or was dropped.

use crate::actor::cell::optional_state::{Stopwatch, WATCHED};
use crate::actor::cell::{AnyCell, Cell};
use crate::events::event::{Event, EventKinds, Lint, Recovery};
use crate::events::hub;
use crate::mailbox::control;
use crate::tree::Tree;
use crate::tree::node::Node;
use crate::tree::{current, watch};
use alloc::borrow::Cow;
use alloc::boxed::Box;
use core::task::{Context, Waker};
use core::time::Duration;

impl<M: Send + 'static> Cell<M> {
    /// At the start of a batch: prepares what listeners for long or stuck handlers need.
    #[inline]
    pub(super) fn begin_batch(&self) {
        if hub::any_tree_observes_handlers() {
            self.any().begin_observed_batch();
        }
    }

    /// As [`MessageQueue::take_single`](crate::mailbox::queue::MessageQueue::take_single), but
    /// returns `None` if a listener may want the handler's time.
    #[inline]
    pub(super) fn take_single(&self, waker: &Waker) -> Option<M> {
        if hub::any_tree_observes_handlers() && self.any().begin_observed_single() {
            return None;
        }
        self.mailbox.take_single(waker)
    }
}

impl AnyCell {
    /// Enables the measurement if any tree has a listener for long handlers, and enters the actor
    /// into the list of busy actors if its tree has one. Not inlined, so that the loop over
    /// messages needs no registers for it.
    #[cold]
    #[inline(never)]
    fn begin_observed_batch(&self) {
        if hub::any_tree_times_handlers() {
            self.mailbox.raise_silently(control::TIME_HANDLERS);
        }
        self.watch_if_wanted();
    }

    /// As [`begin_observed_batch`](Self::begin_observed_batch), for a single message. Returns true
    /// if its handler may have to be timed, which needs a batch.
    #[cold]
    #[inline(never)]
    fn begin_observed_single(&self) -> bool {
        if hub::any_tree_times_handlers() {
            return true;
        }
        self.watch_if_wanted();
        false
    }

    fn watch_if_wanted(&self) {
        if hub::any_tree_watches_handlers() && !self.mailbox.owner_flag(WATCHED) {
            watch_batch(self.node(), self.mailbox.progress_of_next());
        }
    }
}

/// Enters the current actor into the list of busy actors, if its tree has one.
#[cold]
fn watch_batch(node: &Node, at: watch::Progress) {
    let tree = node.tree();
    if !tree.events.wants(EventKinds::STUCK_HANDLERS) {
        return;
    }
    if let Some(member) = current::member().filter(|member| core::ptr::eq(member.node(), node))
        && !member.set_watched(true)
    {
        Tree::watch_handler(tree, &member, at);
    }
}

impl AnyCell {
    /// After a poll in which the handler was pending.
    #[inline]
    pub(super) fn handler_waits(&self, cx: &mut Context<'_>) {
        if self.mailbox.control_word() & control::TIME_HANDLERS != 0 {
            self.check_stopwatch(cx);
        }
    }

    /// Between two messages: stops the stopwatch of the last handler, and starts one for the next
    /// if `handles_next`.
    #[cold]
    pub(super) fn time_next_handler(&self, handles_next: bool) {
        self.stop_stopwatch();
        let tree = self.node().tree();
        if handles_next && tree.events.wants(EventKinds::LONG_HANDLERS) {
            let stopwatch = Box::new(Stopwatch { started_at: tree.runtime.now(), alarm: None, is_reported: false });
            drop(self.set_stopwatch(Some(stopwatch)));
            self.mailbox.raise_silently(control::TIME_HANDLERS);
        }
    }

    /// After the last handler of a batch, whether it returned, failed or was dropped.
    #[inline]
    pub(super) fn handler_returned(&self) {
        if self.mailbox.control_word() & (control::TIME_HANDLERS | control::STUCK) != 0 {
            self.last_handler_returned();
        }
    }

    #[cold]
    fn last_handler_returned(&self) {
        let word = self.mailbox.control_word();
        if word & control::STUCK != 0 {
            self.report_unstuck();
        }
        if word & control::TIME_HANDLERS != 0 {
            self.stop_stopwatch();
        }
    }

    /// Reports that a handler that was stuck has returned, unless its stopwatch does. The actor may
    /// be watched again.
    #[cold]
    pub(super) fn report_unstuck(&self) {
        self.mailbox.clear_bits(control::STUCK);
        self.mailbox.set_owner_flag(WATCHED, false);
        let Some(since) = self.set_stuck_since(None) else { return };
        let stopwatch = self.set_stopwatch(None);
        let is_timed = stopwatch.as_ref().is_some_and(|stopwatch| self.time_over_limit(stopwatch).is_some());
        drop(self.set_stopwatch(stopwatch));
        if !is_timed {
            self.report_returned(self.node().runtime().now().since(since));
        }
    }

    #[cold]
    fn stop_stopwatch(&self) {
        self.mailbox.clear_bits(control::TIME_HANDLERS);
        if let Some(stopwatch) = self.set_stopwatch(None)
            && let Some(ran_for) = self.time_over_limit(&stopwatch)
        {
            if !stopwatch.is_reported {
                self.report_long_handler(ran_for);
            }
            self.report_returned(ran_for);
        }
    }

    /// Reports the handler if it already runs too long. Otherwise sets a timer that polls the task
    /// again at the limit.
    #[cold]
    fn check_stopwatch(&self, cx: &mut Context<'_>) {
        let Some(mut stopwatch) = self.set_stopwatch(None) else { return };
        if stopwatch.is_reported {
            return drop(self.set_stopwatch(Some(stopwatch)));
        }
        if let Some(running_for) = self.time_over_limit(&stopwatch) {
            (stopwatch.is_reported, stopwatch.alarm) = (true, None);
            drop(self.set_stopwatch(Some(stopwatch)));
            return self.report_long_handler(running_for);
        }
        let tree = self.node().tree();
        let at = stopwatch.started_at + tree.long_handler;
        let alarm = stopwatch.alarm.get_or_insert_with(|| tree.runtime.sleep_until(at));
        if alarm.as_mut().poll(cx).is_ready() {
            // The limit passed between the two reads of the clock.
            cx.waker().wake_by_ref();
            stopwatch.alarm = None;
        }
        drop(self.set_stopwatch(Some(stopwatch)));
    }

    fn time_over_limit(&self, stopwatch: &Stopwatch) -> Option<Duration> {
        let tree = self.node().tree();
        let running_for = tree.runtime.now().since(stopwatch.started_at);
        (running_for >= tree.long_handler).then_some(running_for)
    }

    fn report_long_handler(&self, running_for: Duration) {
        self.node().events().emit(EventKinds::LONG_HANDLERS, || {
            Event::Lint(Lint::LongHandler {
                path: self.node().path(),
                message: Cow::Borrowed(self.mailbox.message_type()),
                running_for,
            })
        });
    }

    fn report_returned(&self, ran_for: Duration) {
        self.node().events().emit(EventKinds::RECOVERIES, || {
            Event::Recovered(Recovery::HandlerReturned {
                path: self.node().path(),
                message: Cow::Borrowed(self.mailbox.message_type()),
                ran_for,
            })
        });
    }
}
