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
use crate::actor::cell::extras::Stopwatch;
use crate::actor::cell::member::type_name;
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
            self.mailbox.mark(control::TIMED);
        }
    }

    /// As [`MessageQueue::take_alone`](crate::mailbox::queue::MessageQueue::take_alone), unless somebody may want to know how long its handler takes.
    #[inline]
    pub(super) fn take_alone(&self, waker: &Waker) -> Option<M> {
        if hub::any_tree_wants_lints() { None } else { self.mailbox.take_alone(waker) }
    }

    /// Between two messages: the handler before is over, and another one begins if `handles_next`.
    #[cold]
    pub(super) fn time_next(&self, handles_next: bool) {
        self.stop_the_watch();
        let tree = self.node.tree();
        if handles_next && tree.events.wants(EventKinds::LINTS) {
            let stopwatch = Box::new(Stopwatch { begun: tree.runtime.now(), alarm: None });
            drop(self.set_stopwatch(Some(stopwatch)));
            self.mailbox.mark(control::TIMED);
        }
    }

    /// The last handler of a batch is over, one way or another.
    #[inline]
    pub(super) fn handler_returned(&self) {
        if self.mailbox.word() & control::TIMED != 0 {
            self.stop_the_watch();
        }
    }

    /// The handler has to wait.
    #[inline]
    pub(super) fn handler_waits(&self, cx: &mut Context<'_>) {
        if self.mailbox.word() & control::TIMED != 0 {
            self.look_at_the_watch(cx);
        }
    }

    #[cold]
    fn stop_the_watch(&self) {
        self.mailbox.lower(control::TIMED);
        if let Some(stopwatch) = self.set_stopwatch(None)
            && let Some(running_for) = self.too_long(&stopwatch)
        {
            self.say_long(running_for);
        }
    }

    /// Tells if it is too long already, else has the task polled again when it will be.
    #[cold]
    fn look_at_the_watch(&self, cx: &mut Context<'_>) {
        let Some(mut stopwatch) = self.set_stopwatch(None) else { return };
        if let Some(running_for) = self.too_long(&stopwatch) {
            return self.say_long(running_for);
        }
        let tree = self.node.tree();
        let at = stopwatch.begun + tree.long_handler;
        let alarm = stopwatch.alarm.get_or_insert_with(|| tree.runtime.sleep_until(at));
        if alarm.as_mut().poll(cx).is_ready() {
            // The clock has come there between two looks at it.
            cx.waker().wake_by_ref();
            stopwatch.alarm = None;
        }
        drop(self.set_stopwatch(Some(stopwatch)));
    }

    fn too_long(&self, stopwatch: &Stopwatch) -> Option<Duration> {
        let tree = self.node.tree();
        let running_for = tree.runtime.now().since(stopwatch.begun);
        (running_for >= tree.long_handler).then_some(running_for)
    }

    fn say_long(&self, running_for: Duration) {
        self.node.events().emit(EventKinds::LINTS, || {
            Event::Lint(Lint::LongHandler { path: self.node.path(), message: type_name::<M>(), running_for })
        });
    }
}
