//! `Cell` as seen by others: its senders, its watchers and, as a tree [`Member`], its parent.
//!
//! What needs no message type is in [`AnyCell`], and compiled once; the traits of the tree are
//! implemented for every [`Cell`] by calling it.

use crate::actor::cell::optional_state::{OptionalState, WATCHED};
use crate::actor::cell::{AnyCell, Cell, CellHead, CellOf};
use crate::actor::props::{ActorOptions, Settings};
use crate::actor::stash::STASH_CAPACITY_DEFAULT;
use crate::base::catch;
use crate::base::reason::Reason;
use crate::base::sync::Arc;
use crate::base::time::Instant;
use crate::events::cause::Exit;
use crate::events::counts::Counts;
use crate::events::event::{DeadLetter, DeadLetterReason, Event, EventKinds, Lint, Recovery};
use crate::events::failure::FailureInfo;
use crate::events::limit::Limit;
use crate::events::signal::Signal;
use crate::mailbox::Priority;
use crate::mailbox::control;
use crate::mailbox::control::PollState;
use crate::mailbox::high_water::HighWater;
use crate::mailbox::push::WhenFull;
use crate::mailbox::queue::QueueOf;
use crate::mailbox::send_error::SendError;
use crate::mailbox::slot::Slot;
use crate::supervise::decide::RestartPolicy;
use crate::tree::facts::MemberFacts;
use crate::tree::member::{Member, ObservedMember, StopMode, SupervisedMember, WaitingMember};
use crate::tree::node::Node;
use crate::tree::reserve::SealError;
use crate::tree::supervision::restart_together::Progress;
use crate::tree::supervision::{ChildAction, FailedMemberKind, FailureStep};
use crate::tree::waits::{Edge, Unanswered};
use crate::tree::watch::Progress as HandlerProgress;
use crate::tree::{current, supervision, waits};
use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::any::Any;
use core::task::{Poll, Waker};

impl<S: ?Sized> CellOf<S> {
    #[inline]
    pub(crate) fn node(&self) -> &Node {
        &self.mailbox.owner.node
    }

    #[inline]
    pub(crate) fn mailbox(&self) -> &QueueOf<S, OptionalState, CellHead> {
        &self.mailbox
    }

    /// Reports a mailbox that passed its high-water mark. Nearly every push passes `None`.
    #[inline]
    pub(crate) fn report_if_high_water(&self, high_water: Option<HighWater>) {
        if let Some(high_water) = high_water {
            report_high_water(self.node(), high_water);
        }
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

#[cold]
fn report_high_water(node: &Node, HighWater { queued, capacity }: HighWater) {
    let (queued, capacity) = (queued as usize, capacity as usize);
    node.events().emit(EventKinds::MAILBOXES, || Event::Lint(Lint::MailboxFilling { path: node.path(), queued, capacity }));
}

impl AnyCell {
    /// Reports that a mailbox, which was reported as filling up, is less than half full again.
    #[cold]
    pub(super) fn report_drained(&self) {
        self.mailbox.clear_bits(control::DRAINED);
        self.node().events().emit(EventKinds::RECOVERIES, || {
            let (queued, capacity) = (self.mailbox.len(), self.mailbox.capacity());
            Event::Recovered(Recovery::MailboxDrained { path: self.node().path(), queued, capacity })
        });
    }
}

impl<M: Send + 'static> Cell<M> {
    #[inline]
    pub(crate) fn new(node: Node, settings: &Settings) -> Self {
        let bits = settings.options.as_deref().map_or(0, ActorOptions::bits);
        let cell = Self { mailbox: QueueOf::new(settings.mailbox, CellHead { node }, bits) };
        if let Some(options) = &settings.options {
            cell.any().set_options(Arc::clone(options));
        }
        cell
    }

    /// Returns this cell without its message type, for code that is compiled once.
    #[inline]
    pub(crate) fn any(&self) -> &AnyCell {
        self
    }

    /// Begins a send: pushes the message, or begins to wait for room.
    #[inline]
    pub(crate) fn begin_send(&self, message: M, priority: Priority, waker: &Waker) -> Result<SendStart, SendError<M>> {
        let message = match priority {
            Priority::NORMAL => match self.mailbox.push_fast(message) {
                Ok(()) => return Ok(SendStart::Accepted),
                Err(message) => message,
            },
            _ => message,
        };
        let mut slot = Some(message);
        self.any().begin_send_slow(&mut slot, priority, waker).map_err(|error| error.with_message_of(&mut slot))
    }
}

impl AnyCell {
    /// As [`begin_send`](Cell::begin_send), after a fast push was not possible. If the send is
    /// rejected, the message stays in the slot.
    #[cold]
    pub(crate) fn begin_send_slow(
        &self,
        slot: &mut dyn Slot,
        priority: Priority,
        waker: &Waker,
    ) -> Result<SendStart, SendError<()>> {
        let context = self.capture();
        let pushed = match self.mailbox.push_slow(slot, priority, WhenFull::Fail, context.clone()) {
            Err(SendError::Full(())) if self.is_reserved() => {
                self.node().refuse(Limit::WaitingSends, 0);
                return Err(SendError::CannotWait((), self.node().id()));
            }
            Err(SendError::Full(())) => self.mailbox.push_slow(slot, priority, WhenFull::Wait(Some(waker.clone())), context)?,
            pushed => pushed?,
        };
        Ok(self.after_begin_send(pushed.waiting, pushed.high_water))
    }

    /// Slow path of a `tell`: the mailbox may be full, and may drop a message. If the message is
    /// rejected, it stays in the slot.
    #[cold]
    pub(crate) fn tell_slow(&self, slot: &mut dyn Slot, priority: Priority, when_full: WhenFull) -> Result<(), SendError<()>> {
        let pushed = self.mailbox.push_slow(slot, priority, when_full, self.capture())?;
        if let Some(reason) = pushed.dropped {
            self.dead_letter_for_sender(slot, reason);
        }
        self.report_if_high_water(pushed.high_water);
        Ok(())
    }

    /// Describes a message with `Props::describe`, if that is set. It is user code; if it panics,
    /// the name of the message type is used, as for any other message.
    pub(super) fn describe_with(&self, options: &ActorOptions, message: &dyn Any) -> Option<Cow<'static, str>> {
        let options = options.for_messages.as_ref()?;
        catch::catch(|| options.describe(message)).ok().flatten().map(Cow::Owned)
    }

    /// Converts a signal to a message in `slot`, with `Props::map_signals` if that is set.
    pub(super) fn map_signal(&self, signal: &Signal, slot: &mut dyn Slot) {
        if let Some(options) = self.options()
            && let Some(options) = &options.for_messages
        {
            options.map_signal(signal, slot);
        }
    }

    /// Records a message that was accepted and will not be handled, and drops it. The mailbox has
    /// counted it already.
    #[cold]
    pub(crate) fn dead_letter(&self, slot: &mut dyn Slot, reason: DeadLetterReason) {
        if let Some(message) = slot.message() {
            self.record_dead_letter(message, reason);
        }
        self.discard(slot);
    }

    /// Records a message that was accepted and will not be handled. The caller drops it.
    pub(super) fn record_dead_letter(&self, message: &dyn Any, reason: DeadLetterReason) {
        if self.node().events().wants(reason.kind()) {
            let description = self.options().and_then(|options| self.describe_with(&options, message));
            self.report_dead_letter(description.unwrap_or(Cow::Borrowed(self.mailbox.message_type())), reason);
        }
    }

    /// As [`dead_letter`](Self::dead_letter), called in the poll of a sender. A reply in the
    /// message is answered at once, and not kept for the sender's handler.
    #[cold]
    pub(crate) fn dead_letter_for_sender(&self, slot: &mut dyn Slot, reason: DeadLetterReason) {
        let mut no_member = None;
        let _outside = current::enter(&mut no_member, Waker::noop());
        self.dead_letter(slot, reason);
    }

    /// Drops a message. A panic in its drop is recorded as a failure and has no other effect.
    pub(crate) fn discard(&self, slot: &mut dyn Slot) {
        self.drop_value(|| slot.clear());
    }

    /// Drops a value of a user. A panic is recorded as a failure and has no other effect.
    pub(super) fn drop_value(&self, drop: impl FnOnce()) {
        if let Err(reason) = catch::catch(drop) {
            self.record_failed_drop(reason);
        }
    }
}

/// How a send has begun.
pub(crate) enum SendStart {
    /// The mailbox has accepted the message.
    Accepted,
    /// The same, but the receiver is behind by a whole part of its queue: the sender should yield
    /// once, so that the receiver can run.
    ReceiverBehind,
    /// The send waits for room, with this key.
    Waits(u64),
}

impl AnyCell {
    fn after_begin_send(&self, waiting: Option<u64>, high_water: Option<HighWater>) -> SendStart {
        self.report_if_high_water(high_water);
        match waiting {
            Some(key) => SendStart::Waits(key),
            None if self.mailbox.receiver_is_behind() => SendStart::ReceiverBehind,
            None => SendStart::Accepted,
        }
    }

    /// Returns the label of the actor: by its props, else the name of its message type.
    pub(super) fn label(&self) -> &'static str {
        self.options().and_then(|options| options.label).unwrap_or_else(|| self.mailbox.message_type())
    }

    fn report_dead_letter(&self, message: Cow<'static, str>, reason: DeadLetterReason) {
        let message_type = self.mailbox.message_type();
        self.node()
            .events()
            .emit(reason.kind(), || Event::DeadLetter(DeadLetter { to: self.node().path(), message, message_type, reason }));
    }

    #[cold]
    fn record_failed_drop(&self, reason: Reason) {
        self.node().events().record_failure(&self.node().failure(0, reason));
    }

    pub(crate) fn stash_capacity(&self) -> usize {
        self.options().map_or(STASH_CAPACITY_DEFAULT, |options| options.stash_capacity)
    }

    /// Sets control bits, and wakes the actor if it must look at them now.
    pub(crate) fn raise(&self, bits: u32) {
        self.wake_for_control(self.mailbox.raise(bits));
    }

    fn wake_for_control(&self, waker: Option<Waker>) {
        if let Some(waker) = waker {
            self.node().runtime().wake_for_control(waker);
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
        self.wake_for_control(waker);
        was_parked
    }

    /// As [`request_end`](Self::request_end), by the supervisor. Returns true if siblings that end
    /// after this actor wait for it, or for its children, from now on.
    fn request_final_end(&self, mode: StopMode) -> bool {
        self.mailbox.raise_silently(control::FINAL);
        let was_parked = self.request_end(mode);
        self.mailbox.control_word() & control::ENDING != 0 || (!was_parked && self.has_edges())
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
        self.wake_for_control(self.mailbox.close());
    }

    /// Queues a signal for this actor.
    pub(crate) fn push_signal(&self, signal: Signal) {
        self.wake_for_control(self.mailbox.push_signal(signal));
    }

    /// Queues the signal of a child's failure. Returns false if the failure needs no decision: an
    /// actor that ends this incarnation ends its children too, and one that has a decision needs no
    /// second.
    fn receive_failure(&self, failure: &FailureInfo) -> bool {
        let needs_decision = self.node().takes_children() && !self.node().has_pending_action();
        if needs_decision {
            self.push_signal(Signal::Escalate(failure.clone()));
        }
        needs_decision
    }

    fn keep_action(&self, action: ChildAction, failure: FailureInfo) {
        if action != ChildAction::Resume {
            self.node().keep_action(action, failure);
            self.raise(control::CHILD_FAILED);
        }
    }

    /// Returns the members that this actor waits for: its children, or those of its restart plan.
    pub(super) fn waits_for(&self) -> Vec<Arc<dyn Member>> {
        match self.mailbox.control_word() {
            word if word & control::ENDING != 0 => self.node().children(),
            word if word & control::WAITING_TO_RESTART != 0 => supervision::waits_for(self.node()).into_iter().collect(),
            _ => Vec::new(),
        }
    }
}

/// Returns the name of a message type, as records use it.
pub(crate) fn type_name<M>() -> Cow<'static, str> {
    Cow::Borrowed(core::any::type_name::<M>())
}

impl<M: Send + 'static> Member for Cell<M> {
    fn node(&self) -> &Node {
        self.node()
    }

    fn stop_with(&self, this: &Arc<dyn Member>, mode: StopMode) {
        if self.any().request_final_end(mode) {
            waits::break_cycles_of(alloc::vec![Arc::clone(this)]);
        }
    }

    fn request_stop(&self, _this: &Arc<dyn Member>, mode: StopMode) {
        self.any().request_end(mode);
    }

    fn on_cancel(&self, _this: &Arc<dyn Member>) {
        self.any().raise(control::CANCEL);
    }

    fn exit_when_childless(&self) -> Option<Exit> {
        // The actor's task waits for its children itself, as a waiter of the node.
        None
    }

    fn halt(&self, this: &Arc<dyn Member>) -> Progress {
        // A temporary actor is not restarted: it exits.
        if self.node().policy() == RestartPolicy::Temporary {
            self.stop_with(this, StopMode::Stop);
        } else {
            self.any().halt_for_group();
        }
        Progress::Pending
    }

    fn check_reserve(&self) -> Result<(), SealError> {
        self.any().mailbox.check_capacity(|| self.node().path())
    }

    fn reserve(&self) {
        self.reserve_all();
    }

    fn counts(&self) -> Counts {
        self.any().mailbox.counts()
    }

    fn in_poll(&self) -> bool {
        self.mailbox.poll_state() != PollState::Outside
    }
}

impl<M: Send + 'static> ObservedMember for Cell<M> {
    fn facts(&self) -> MemberFacts {
        self.any().facts()
    }

    fn handler_progress(&self) -> Option<HandlerProgress> {
        self.any().mailbox.handler_progress()
    }

    fn set_watched(&self, is_watched: bool) -> bool {
        self.mailbox.set_owner_flag(WATCHED, is_watched)
    }

    fn mark_stuck(&self, since: Instant) {
        self.any().set_stuck_since(Some(since));
        self.any().raise(control::STUCK);
    }
}

impl<M: Send + 'static> SupervisedMember for Cell<M> {
    fn child_failed(&self, this: &Arc<dyn Member>, failure: FailureInfo) -> FailureStep {
        if self.any().receive_failure(&failure) {
            supervision::judge_and_apply(this, FailedMemberKind::Actor, failure)
        } else {
            FailureStep::default()
        }
    }

    fn apply_action(&self, _this: &Arc<dyn Member>, action: ChildAction, failure: FailureInfo) {
        self.any().keep_action(action, failure);
    }

    fn start_again(&self) -> Progress {
        self.any().start_with_group();
        Progress::Pending
    }

    fn request_restart(&self, _this: &Arc<dyn Member>) -> bool {
        self.any().raise(control::RESTART);
        true
    }

    fn request_suspend(&self, suspended: bool) -> bool {
        if suspended {
            self.any().suspend();
        } else {
            self.any().resume();
        }
        true
    }

    fn wants_signals(&self) -> bool {
        true
    }

    fn notify(&self, signal: Signal) {
        self.any().push_signal(signal);
    }
}

impl<M: Send + 'static> WaitingMember for Cell<M> {
    fn keep_unanswered(&self, reply: Arc<dyn Unanswered>) -> Result<(), Arc<dyn Unanswered>> {
        self.any().push_unanswered(reply);
        Ok(())
    }

    fn edges(&self) -> Vec<Edge> {
        self.any().own_edges()
    }

    fn waits_for(&self) -> Vec<Arc<dyn Member>> {
        self.any().waits_for()
    }

    fn waits_for_children(&self) -> bool {
        self.mailbox.control_word() & control::ENDING != 0
    }

    fn begin_wait(&self, edge: Edge) {
        self.any().add_edge(edge);
    }

    fn end_wait(&self, edge: &Edge) {
        self.any().remove_edge(edge);
    }

    fn has_waiting_send(&self, key: u64) -> bool {
        self.any().mailbox.is_send_waiting(key)
    }

    fn admit_send(&self, key: u64) -> bool {
        self.any().mailbox.admit_beyond_capacity(key)
    }
}
