//! `Cell` as seen by others: its senders, its watchers and, as a tree [`Member`], its parent.

use crate::actor::cell::Cell;
use crate::actor::cell::optional_state::OptionalState;
use crate::actor::props::ActorOptions;
use crate::actor::stash::STASH_CAPACITY_DEFAULT;
use crate::base::catch;
use crate::events::cause::Exit;
use crate::events::counts::Counts;
use crate::events::event::{DeadLetter, DeadLetterReason, Event, EventKinds, Lint};
use crate::events::failure::FailureInfo;
use crate::events::signal::Signal;
use crate::mailbox::control;
use crate::mailbox::control::PollState;
use crate::mailbox::high_water::HighWater;
use crate::mailbox::queue::MessageQueue;
use crate::tree::member::SupervisedMember;
use crate::tree::member::WaitingMember;
use crate::tree::member::{Member, StopMode};
use crate::tree::node::Node;
use crate::tree::supervision::restart_together::Progress;
use crate::tree::supervision::{ChildAction, FailedChild, FailureStep};
use crate::tree::waits::{Edge, Unanswered};
use crate::tree::{current, supervision, waits};
use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::{Poll, Waker};

impl<M> Cell<M> {
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    pub(crate) fn mailbox(&self) -> &MessageQueue<M, OptionalState<M>> {
        &self.mailbox
    }

    /// Reports a mailbox that passed its high-water mark. Nearly every push passes `None`.
    #[inline]
    pub(crate) fn report_if_high_water(&self, high_water: Option<HighWater>) {
        if let Some(high_water) = high_water {
            self.report_high_water(high_water);
        }
    }

    #[cold]
    fn report_high_water(&self, HighWater { queued, capacity }: HighWater) {
        let (queued, capacity) = (queued as usize, capacity as usize);
        self.node
            .events()
            .emit(EventKinds::LINTS, || Event::Lint(Lint::MailboxFilling { path: self.node.path(), queued, capacity }));
    }

    /// Returns `polled`. If it is pending, records that the task has left a waker or a wake-up.
    #[inline]
    pub(super) fn mark_parked<T>(&self, polled: Poll<T>) -> Poll<T> {
        if polled.is_pending() {
            self.mailbox.set_poll_state(PollState::Parked);
        }
        polled
    }
}

impl<M: Send + 'static> Cell<M> {
    #[inline]
    pub(crate) fn new(node: Node, mailbox: MessageQueue<M, OptionalState<M>>, options: Option<Arc<ActorOptions<M>>>) -> Self {
        Self { node, mailbox, options }
    }

    /// Describes a message for records: through `Props::describe`, else by the name of its type.
    pub(crate) fn describe(&self, message: &M) -> Cow<'static, str> {
        match self.options.as_ref().and_then(|options| options.describe.as_ref()) {
            // `describe` is user code. If it panics, the name of the type is used.
            Some(describe) => catch::catch(|| describe(message)).map_or_else(|_| type_name::<M>(), Cow::Owned),
            None => type_name::<M>(),
        }
    }

    /// Records a message that was accepted and will not be handled, and drops it. The mailbox has
    /// counted it already.
    #[cold]
    pub(crate) fn dead_letter(&self, message: M, reason: DeadLetterReason) {
        self.node.events().emit(EventKinds::DEAD_LETTERS, || {
            let message = self.describe(&message);
            Event::DeadLetter(DeadLetter { to: self.node.path(), message, reason })
        });
        self.discard(message);
    }

    /// As [`dead_letter`](Self::dead_letter), called in the poll of a sender. A reply in the
    /// message is answered at once, and not kept for the sender's handler.
    #[cold]
    pub(crate) fn dead_letter_for_sender(&self, message: M, reason: DeadLetterReason) {
        let mut no_member = None;
        let _outside = current::enter(&mut no_member, Waker::noop());
        self.dead_letter(message, reason);
    }

    /// Drops a message. A panic in its drop is recorded as a failure and has no other effect.
    pub(crate) fn discard(&self, message: M) {
        if let Err(reason) = catch::catch(|| drop(message)) {
            self.node.events().record_failure(&self.node.failure(0, reason));
        }
    }

    pub(crate) fn stash_capacity(&self) -> usize {
        self.options.as_ref().map_or(STASH_CAPACITY_DEFAULT, |options| options.stash_capacity)
    }

    /// Sets control bits, and wakes the actor if it must look at them now.
    pub(crate) fn raise(&self, bits: u32) {
        if let Some(waker) = self.mailbox.raise(bits) {
            self.node.runtime().wake_for_control(waker);
        }
    }

    /// Requests a stop or close. Returns true if the actor was parked, so it awaits nothing in a
    /// handler.
    fn request_end(&self, mode: StopMode) -> bool {
        let waker = match mode {
            StopMode::Stop => self.mailbox.raise(control::STOP),
            StopMode::Close => self.mailbox.close(),
        };
        let was_parked = waker.is_some();
        if let Some(waker) = waker {
            self.node.runtime().wake_for_control(waker);
        }
        was_parked
    }

    /// Stops handling messages after the current one; control is still processed.
    pub(crate) fn suspend(&self) {
        self.mailbox.clear_bits(control::RESUME);
        self.raise(control::SUSPEND);
    }

    /// Handles messages again after a suspend.
    pub(crate) fn resume(&self) {
        self.mailbox.clear_bits(control::SUSPEND);
        self.raise(control::RESUME);
    }

    /// Closes the mailbox: queued messages are handled, then the actor exits. A suspended actor is
    /// resumed for that.
    pub(crate) fn close(&self) {
        if let Some(waker) = self.mailbox.close() {
            self.node.runtime().wake_for_control(waker);
        }
    }
}

/// Returns the name of a message type, as records use it.
pub(crate) fn type_name<M>() -> Cow<'static, str> {
    Cow::Borrowed(core::any::type_name::<M>())
}

impl<M: Send + 'static> Member for Cell<M> {
    fn node(&self) -> &Node {
        &self.node
    }

    fn stop_with(self: Arc<Self>, mode: StopMode) {
        self.mailbox.raise_silently(control::FINAL);
        let was_parked = self.request_end(mode);
        // Siblings that end after this actor wait for it now, and for its children if it is ending
        // them.
        if self.mailbox.control_word() & control::ENDING != 0 || (!was_parked && self.has_edges()) {
            waits::break_cycles_of(alloc::vec![self]);
        }
    }

    fn request_stop(self: Arc<Self>, mode: StopMode) {
        self.request_end(mode);
    }

    fn on_cancel(self: Arc<Self>) {
        self.raise(control::CANCEL);
    }

    fn exit_when_childless(&self) -> Option<Exit> {
        // The actor's task waits for its children itself, as a waiter of the node.
        None
    }

    fn halt(self: Arc<Self>) -> Progress {
        self.halt_for_group();
        Progress::Pending
    }

    fn counts(&self) -> Counts {
        self.mailbox.counts()
    }

    fn in_poll(&self) -> bool {
        self.mailbox.poll_state() != PollState::Outside
    }
}

impl<M: Send + 'static> SupervisedMember for Cell<M> {
    fn child_failed(self: Arc<Self>, failure: FailureInfo) -> FailureStep {
        // An actor that ends this incarnation ends its children too. One that has a decision needs
        // no second.
        if !self.node.takes_children() || self.node.has_pending_action() {
            return FailureStep::default();
        }
        self.notify(Signal::Escalate(failure.clone()));
        supervision::judge_and_apply(self, FailedChild::Actor, failure)
    }

    fn apply_action(self: Arc<Self>, action: ChildAction, failure: FailureInfo) {
        if action != ChildAction::Resume {
            self.node.keep_action(action, failure);
            self.raise(control::CHILD_FAILED);
        }
    }

    fn start_again(self: Arc<Self>) -> Progress {
        self.start_with_group();
        Progress::Pending
    }

    fn request_restart(self: Arc<Self>) -> bool {
        self.raise(control::RESTART);
        true
    }

    fn wants_signals(&self) -> bool {
        true
    }

    fn notify(&self, signal: Signal) {
        if let Some(waker) = self.mailbox.push_signal(signal) {
            self.node.runtime().wake_for_control(waker);
        }
    }
}

impl<M: Send + 'static> WaitingMember for Cell<M> {
    fn keep_unanswered(&self, reply: Arc<dyn Unanswered>) -> Result<(), Arc<dyn Unanswered>> {
        self.push_unanswered(reply);
        Ok(())
    }

    fn edges(&self) -> Vec<Edge> {
        self.own_edges()
    }

    fn waits_for(&self) -> Vec<Arc<dyn Member>> {
        match self.mailbox.control_word() {
            _ if self.waits_for_children() => self.node.children(),
            word if word & control::WAITING_TO_RESTART != 0 => supervision::waits_for(&self.node).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn waits_for_children(&self) -> bool {
        self.mailbox.control_word() & control::ENDING != 0
    }

    fn begin_wait(&self, edge: Edge) {
        self.add_edge(edge);
    }

    fn end_wait(&self, edge: &Edge) {
        self.remove_edge(edge);
    }

    fn has_waiting_send(&self, key: u64) -> bool {
        self.mailbox.is_send_waiting(key)
    }

    fn admit_send(&self, key: u64) -> bool {
        self.mailbox.admit_beyond_capacity(key)
    }
}
