//! `ActorRef`: how everybody else reaches an actor. All sending goes through this file.

use crate::actor::ask::{Ask, Reply};
use crate::actor::cell::Cell;
use crate::actor::recipient::Recipient;
use crate::actor::send::Sending;
use crate::actor::system_message::SystemMessage;
use crate::events::cause::{Cause, Exit};
use crate::events::counts::Counts;
use crate::events::signal::Signal;
use crate::ids::path::{ActorId, ActorPath};
use crate::mailbox::send_error::SendError;
use crate::mailbox::{PriorityEnvelope, control};
use crate::tree::any_ref::AnyRef;
use crate::tree::any_ref::Exited;
use crate::tree::member::Member;
use crate::tree::node;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::hash::{Hash, Hasher};

/// The address of an actor that understands `M`. It stays valid across restarts; dropping it does nothing to the actor.
pub struct ActorRef<M: Send + 'static> {
    cell: Arc<Cell<M>>,
}

impl<M: Send + 'static> ActorRef<M> {
    pub(crate) fn new(cell: Arc<Cell<M>>) -> Self {
        Self { cell }
    }

    /// Puts a message into the mailbox without waiting. A full mailbox fails, or drops what its policy says.
    #[inline]
    pub fn tell(&self, message: M) -> Result<(), SendError<M>> {
        let high_water =
            self.cell.mailbox().push(message, |dropped, reason| self.cell.dead_letter_for_sender(dropped, reason))?;
        self.cell.report_if_high_water(high_water);
        Ok(())
    }

    /// As [`tell`](Self::tell), for a mailbox with priorities.
    pub fn tell_envelope(&self, envelope: PriorityEnvelope<M>) -> Result<(), SendError<M>> {
        let PriorityEnvelope { message, priority } = envelope;
        let dead_letter = |dropped, reason| self.cell.dead_letter_for_sender(dropped, reason);
        self.cell.report_if_high_water(self.cell.mailbox().push_slow(message, priority, true, dead_letter)?);
        Ok(())
    }

    /// Puts a message into the mailbox, waiting for room.
    #[inline]
    pub fn send(&self, message: M) -> Sending<'_, M> {
        Sending::new(&self.cell, message)
    }

    /// Puts a message into the mailbox if there is room, whatever its overflow policy.
    pub fn try_send(&self, message: M) -> Result<(), SendError<M>> {
        self.cell.report_if_high_water(self.cell.mailbox().try_push(message)?);
        Ok(())
    }

    /// Asks and waits for the answer: `budget.ask(Msg::Left).await?`. It waits for room like [`send`](Self::send), and never hangs
    /// after the actor ended.
    #[inline]
    pub fn ask<T, Q>(&self, question: Q) -> Ask<'_, M, T, Q>
    where
        T: Send + 'static,
        Q: FnOnce(Reply<T>) -> M,
    {
        Ask::new(&self.cell, question)
    }

    /// The same actor for code that speaks of `N`s: each is made into a message of this actor by `adapt`, after its mailbox has taken
    /// it. See [`Recipient`].
    pub fn map<N: Send + 'static>(&self, adapt: impl Fn(N) -> M + Send + Sync + 'static) -> Recipient<N> {
        Recipient::from(self.clone()).map(adapt)
    }

    /// Puts something into the control lane, which is never full. `Err` gives it back once the actor has ended.
    pub fn try_send_system(&self, message: SystemMessage) -> Result<(), SendError<SystemMessage>> {
        match message {
            SystemMessage::Watch(watcher) => node::watch(&self.any().member, &watcher.member),
            SystemMessage::Unwatch(watcher) => node::unwatch(self.cell.node(), watcher.member.node()),
            message if self.cell.node().exit().is_some() => return Err(SendError::Closed(message)),
            SystemMessage::Stop => self.cell.raise(control::STOP),
            SystemMessage::Restart => self.cell.raise(control::RESTART),
            SystemMessage::Suspend => self.cell.suspend(),
            SystemMessage::Resume => self.cell.resume(),
            SystemMessage::Terminated(terminated) => self.cell.notify(Signal::Terminated(terminated)),
            SystemMessage::Failure(failure) => self.cell.notify(Signal::Failure(failure)),
            SystemMessage::Escalate(failure) => self.cell.notify(Signal::Escalate(failure)),
        }
        Ok(())
    }

    /// Ends the actor after the message in hand; what is queued becomes dead letters.
    pub fn stop(&self) {
        self.cell.raise(control::STOP);
    }

    /// Ends its input: what is queued is handled, then it ends.
    pub fn close(&self) {
        self.cell.close();
    }

    /// Cuts it off at its next await, with everything below it. The first cause wins; `()` stands for [`Cause::Cancelled`].
    pub fn cancel(&self, cause: impl Into<Cause>) {
        node::cancel(&self.member(), &cause.into());
    }

    /// Runs `f` with the exit, once: when the actor ends, or at once if it has.
    pub fn on_done(&self, f: impl FnOnce(&Exit) + Send + 'static) {
        self.cell.node().on_done(Box::new(f));
    }

    /// Waits for the actor to end and gives its exit, after every `on_done` has run. Any number of callers, early or late.
    pub fn exited(&self) -> Exited {
        self.any().exited()
    }

    /// The exit, `None` while the actor lives.
    pub fn exit(&self) -> Option<Exit> {
        self.cell.node().exit()
    }

    /// Who it is. Never reused.
    pub fn id(&self) -> ActorId {
        self.cell.node().id()
    }

    /// Where it stands in the tree.
    pub fn path(&self) -> ActorPath {
        self.cell.node().path()
    }

    /// What became of its messages.
    pub fn counts(&self) -> Counts {
        self.cell.mailbox().counts()
    }

    /// How many messages wait in its mailbox.
    pub fn queued(&self) -> usize {
        self.cell.mailbox().len()
    }

    /// The same actor without its message type.
    pub fn any(&self) -> AnyRef {
        AnyRef { member: self.member() }
    }

    pub(crate) fn cell(&self) -> &Arc<Cell<M>> {
        &self.cell
    }

    fn member(&self) -> Arc<dyn Member> {
        Arc::clone(&self.cell) as Arc<dyn Member>
    }
}

impl<M: Send + 'static> Clone for ActorRef<M> {
    fn clone(&self) -> Self {
        Self { cell: Arc::clone(&self.cell) }
    }
}

impl<M: Send + 'static> fmt::Debug for ActorRef<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActorRef({} {})", self.id(), self.path())
    }
}

impl<M: Send + 'static> PartialEq for ActorRef<M> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.cell, &other.cell)
    }
}

impl<M: Send + 'static> Eq for ActorRef<M> {}

impl<M: Send + 'static> Hash for ActorRef<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl AnyRef {
    /// The actor again, if its message type is `M`.
    pub fn actor<M: Send + 'static>(&self) -> Option<ActorRef<M>> {
        let any: Arc<dyn core::any::Any + Send + Sync> = self.member.clone();
        any.downcast::<Cell<M>>().ok().map(ActorRef::new)
    }
}
