//! [`ActorRef`]: the address of an actor. Every send to an actor starts in this file.

use crate::actor::ask::Ask;
use crate::actor::cell::Cell;
use crate::actor::recipient::Recipient;
use crate::actor::reply::Reply;
use crate::actor::send::Sending;
use crate::actor::system_message::SystemMessage;
use crate::base::sync::{Arc, unsize};
use crate::events::cause::{Cause, Exit};
use crate::events::counts::Counts;
use crate::events::signal::Signal;
use crate::ids::path::{ActorId, ActorPath};
use crate::mailbox::push::WhenFull;
use crate::mailbox::send_error::SendError;
use crate::mailbox::{Priority, PriorityEnvelope, control};
use crate::tree::any_ref::AnyRef;
use crate::tree::any_ref::Exited;
use crate::tree::member::{Member, SupervisedMember};
use crate::tree::node;
use alloc::boxed::Box;
use core::fmt;
use core::hash::{Hash, Hasher};

/// The address of an actor with message type `M`.
///
/// It stays valid across restarts. Clones are cheap and address the same actor. Dropping an address
/// does nothing to the actor.
///
/// # Examples
/// ```
/// use pleach::BoxError;
/// use pleach::prelude::*;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), pleach::Error> {
/// let system = ActorSystem::new("app")?;
/// let props = Props::from_fn(|| 0, |sum: &mut u32, n: u32| {
///     *sum += n;
///     Ok::<(), BoxError>(())
/// });
/// let sum: ActorRef<u32> = system.spawn("sum", props)?;
/// sum.tell(1)?; // never waits; a full mailbox returns the message
/// sum.send(2).await?; // waits for room
/// sum.close(); // handles the queued messages, then ends
/// assert_eq!(sum.exited().await, Exit::Closed);
/// assert_eq!(sum.counts().handled, 2);
/// # Ok(())
/// # }
/// ```
pub struct ActorRef<M: Send + 'static> {
    cell: Arc<Cell<M>>,
}

impl<M: Send + 'static> ActorRef<M> {
    pub(crate) fn new(cell: Arc<Cell<M>>) -> Self {
        Self { cell }
    }

    /// Sends a message without waiting.
    ///
    /// If the mailbox is full, its overflow rule decides: fail (the default), drop the newest
    /// message or drop the oldest.
    ///
    /// # Errors
    /// - [`SendError::Full`] if the mailbox is full and its rule is to fail.
    /// - [`SendError::Closed`] if the actor has ended or was closed.
    #[inline]
    pub fn tell(&self, message: M) -> Result<(), SendError<M>> {
        match self.cell.mailbox().push_fast(message) {
            Ok(()) => Ok(()),
            Err(message) => self.tell_slow(message, Priority::NORMAL, WhenFull::Drop),
        }
    }

    /// Sends a message with a priority, without waiting; see [`tell`](Self::tell).
    ///
    /// # Errors
    /// As [`tell`](Self::tell), and [`SendError::NoPriorities`] if the priority is not normal and
    /// the mailbox has no [priorities](crate::Mailbox::prioritised).
    pub fn tell_envelope(&self, envelope: PriorityEnvelope<M>) -> Result<(), SendError<M>> {
        let PriorityEnvelope { message, priority } = envelope;
        self.tell_slow(message, priority, WhenFull::Drop)
    }

    /// Sends a message and waits for room. The returned future does nothing until polled.
    ///
    /// Cancel safety: dropping the future before it is ready takes the message back out of the
    /// mailbox's waiting list, and drops it.
    ///
    /// # Errors
    /// [`SendError::Closed`] if the actor has ended or was closed; see also [`Sending::or_cancel`].
    #[inline]
    pub fn send(&self, message: M) -> Sending<'_, M> {
        Sending::new(&self.cell, message)
    }

    /// Sends a message if there is room, and ignores the overflow rule of the mailbox.
    ///
    /// # Errors
    /// [`SendError::Full`] or [`SendError::Closed`], each with the message.
    pub fn try_send(&self, message: M) -> Result<(), SendError<M>> {
        match self.cell.mailbox().push_fast(message) {
            Ok(()) => Ok(()),
            Err(message) => self.tell_slow(message, Priority::NORMAL, WhenFull::Fail),
        }
    }

    /// Sends a question and waits for its answer: `budget.ask(Msg::Left).await?`.
    ///
    /// It waits for room as [`send`](Self::send) does. It has no time limit by default; set one
    /// with [`Ask::timeout`]. It never hangs after the actor has ended.
    ///
    /// The argument is a function from the [`Reply`] to the message, not a message: the reply is
    /// made here. A variant with one field is such a function. For a variant with more fields,
    /// write a closure: `budget.ask(|reply| Msg::Spend(5, reply))`. A message that has no `Reply`
    /// cannot be asked; use [`tell`](Self::tell) or [`send`](Self::send).
    ///
    /// # Errors
    /// See [`AskError`](crate::AskError) for the reasons why there can be no answer.
    #[inline]
    pub fn ask<T, Q>(&self, question: Q) -> Ask<'_, M, T, Q>
    where
        T: Send + 'static,
        Q: FnOnce(Reply<T>) -> M,
    {
        Ask::new(&self.cell, question)
    }

    /// Returns an address of the same actor for messages of type `N`. `adapt` converts each message
    /// after the mailbox has accepted it. See [`Recipient`].
    pub fn map<N: Send + 'static>(&self, adapt: impl Fn(N) -> M + Send + Sync + 'static) -> Recipient<N> {
        Recipient::from(self.clone()).map(adapt)
    }

    /// Sends a command or signal that bypasses the message queue. It is never rejected for lack of
    /// room.
    ///
    /// # Errors
    /// [`SendError::Closed`] with the message if the actor has ended. `Watch` and `Unwatch` always
    /// succeed.
    pub fn try_send_system(&self, message: SystemMessage) -> Result<(), SendError<SystemMessage>> {
        match message {
            SystemMessage::Watch(watcher) => node::watch(&self.any().member, &watcher.member),
            SystemMessage::Unwatch(watcher) => node::unwatch(self.cell.node(), watcher.member.node()),
            message if self.cell.node().exit().is_some() => return Err(SendError::Closed(message)),
            SystemMessage::Stop => self.cell.any().raise(control::STOP),
            SystemMessage::Restart => self.cell.any().raise(control::RESTART),
            SystemMessage::Suspend => self.cell.any().suspend(),
            SystemMessage::Resume => self.cell.any().resume(),
            SystemMessage::Terminated(terminated) => self.cell.notify(Signal::Terminated(terminated)),
            SystemMessage::Failure(failure) => self.cell.notify(Signal::Failure(failure)),
            SystemMessage::Escalate(failure) => self.cell.notify(Signal::Escalate(failure)),
        }
        Ok(())
    }

    /// Stops the actor after its current message. Queued messages become dead letters.
    pub fn stop(&self) {
        self.cell.any().raise(control::STOP);
    }

    /// Closes the mailbox: no more messages are accepted, the queued ones are handled, then the
    /// actor ends.
    pub fn close(&self) {
        self.cell.any().close();
    }

    /// Cancels the actor at its next await, and everything below it. The first cause wins; `()`
    /// means [`Cause::Cancelled`].
    pub fn cancel(&self, cause: impl Into<Cause>) {
        node::cancel(&self.member(), &cause.into());
    }

    /// Calls `f` once with the exit of the actor: when it ends, or at once if it has ended.
    pub fn on_done(&self, f: impl FnOnce(&Exit) + Send + 'static) {
        self.cell.node().on_done(Box::new(f));
    }

    /// Waits until the actor has ended and returns its exit. Every `on_done` callback has run by
    /// then.
    ///
    /// Any number of callers can wait, before and after the end.
    pub fn exited(&self) -> Exited {
        self.any().exited()
    }

    /// Returns the exit of the actor, or `None` while it is alive.
    pub fn exit(&self) -> Option<Exit> {
        self.cell.node().exit()
    }

    /// Returns the id of the actor. Ids are never reused.
    pub fn id(&self) -> ActorId {
        self.cell.node().id()
    }

    /// Returns the path of the actor in the tree.
    pub fn path(&self) -> ActorPath {
        self.cell.node().path()
    }

    /// Returns how many messages were accepted, handled, failed and dead-lettered.
    pub fn counts(&self) -> Counts {
        self.cell.any().mailbox().counts()
    }

    /// Returns how many messages wait in the mailbox.
    pub fn queued(&self) -> usize {
        self.cell.any().mailbox().len()
    }

    /// Returns the same address without its message type.
    pub fn any(&self) -> AnyRef {
        AnyRef { member: self.member() }
    }

    #[cold]
    fn tell_slow(&self, message: M, priority: Priority, when_full: WhenFull) -> Result<(), SendError<M>> {
        let mut slot = Some(message);
        self.cell.any().tell_slow(&mut slot, priority, when_full).map_err(|error| error.with_message_of(&mut slot))
    }

    pub(crate) fn cell(&self) -> &Arc<Cell<M>> {
        &self.cell
    }

    fn member(&self) -> Arc<dyn Member> {
        unsize!(Arc::clone(&self.cell) => dyn Member)
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
    /// Returns the typed address again, or `None` if the message type is not `M`.
    pub fn actor<M: Send + 'static>(&self) -> Option<ActorRef<M>> {
        let any = unsize!(self.member.clone() => dyn core::any::Any + Send + Sync);
        any.downcast::<Cell<M>>().ok().map(ActorRef::new)
    }
}
