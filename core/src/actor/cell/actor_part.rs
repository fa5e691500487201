//! [`ActorPart`]: the part of a task that depends on the actor's type, and [`AnyActorPart`]: what
//! the lifecycle needs of it.

use crate::actor::Actor;
use crate::actor::cell::{AnyCell, Cell};
use crate::actor::context::Context;
use crate::actor::props::BoxStream;
use crate::actor::stash::StashedIn;
use crate::base::catch;
use crate::base::reason::{BoxError, Reason};
use crate::base::runtime::BoxFuture;
use crate::events::cause::Exit;
use crate::events::event::DeadLetterReason;
use crate::events::failure::FailureInfo;
use crate::tree::member::Member;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::{Poll, Waker};

/// The part of a task that depends on the actor's type.
pub(super) struct ActorPart<A: Actor> {
    /// The state of this incarnation, present from the factory to the end of `stopped`.
    pub(super) actor: Option<A>,
    pub(super) cx: Context<A>,
    /// Messages taken from the mailbox, oldest last.
    pub(super) batch: Vec<A::Msg>,
    pub(super) extra: Option<Box<FeedAndCopy<A::Msg>>>,
}

/// What only actors with a feed, or with copies of their messages, have.
pub(super) struct FeedAndCopy<M> {
    pub(super) feed: Option<BoxStream<M>>,
    /// The copy of the current message, for a retry or a dead letter.
    pub(super) retry_copy: Option<M>,
}

/// What the lifecycle needs of the part that depends on the actor's type. Nothing here is called
/// for a message that is handled.
pub(super) trait AnyActorPart: Send {
    /// Returns the actor as a member of the tree.
    fn member(&self) -> Arc<dyn Member>;
    fn cell(&self) -> Arc<AnyCell>;
    fn incarnation(&self) -> u32;
    fn next_incarnation(&mut self);
    fn batch_is_empty(&self) -> bool;

    /// Begins the `restarting` hook on the failed state.
    fn restarting<'a>(&'a mut self, failure: &'a FailureInfo) -> BoxFuture<'a, Result<(), BoxError>>;
    /// Begins the `stopped` hook.
    fn stopped<'a>(&'a mut self, exit: &'a Exit) -> BoxFuture<'a, Result<(), BoxError>>;

    /// Drops the state. Fails if its drop panics.
    fn drop_actor(&mut self) -> Result<(), Reason>;
    /// Drops all timers. Fails if a drop panics.
    fn drop_timers(&mut self) -> Result<(), Reason>;
    /// Drops the feed and the copy. Returns the panics of these drops.
    fn drop_feed_and_copy(&mut self) -> [Option<Reason>; 2];

    /// Takes back all stashed messages.
    fn unstash(&self);
    /// Settles changes of the stash. Returns true if the current message was stashed.
    fn settle_stash(&mut self, at: StashedIn) -> bool;
    /// Returns true if there is a copy of the current message.
    fn has_copy(&self) -> bool;
    /// Puts the copy back into the batch. Returns how many messages are below it.
    fn retry_copy(&mut self) -> usize;
    /// Drops the copy, if there is one; as a dead letter if `dead_letter`.
    fn drop_copy(&mut self, dead_letter: bool);
    /// Makes a dead letter of the next remaining message. Returns true if there was one, and parks
    /// the receiver while a message is still being made.
    fn poll_dead_letter(&mut self, reason: DeadLetterReason, waker: &Waker) -> Poll<bool>;
}

impl<A: Actor> ActorPart<A> {
    #[inline]
    pub(super) fn new(cell: Arc<Cell<A::Msg>>) -> Self {
        let extra = if cell.mailbox.owner_bits == 0 { None } else { FeedAndCopy::fed_by(&cell) };
        Self { actor: None, cx: Context::new(cell), batch: Vec::new(), extra }
    }

    pub(super) fn cell(&self) -> &Arc<Cell<A::Msg>> {
        self.cx.cell()
    }
}

impl<M> Default for FeedAndCopy<M> {
    fn default() -> Self {
        Self { feed: None, retry_copy: None }
    }
}

impl<M: Send + 'static> FeedAndCopy<M> {
    /// Takes the feed of an actor that has one.
    #[cold]
    fn fed_by(cell: &Cell<M>) -> Option<Box<Self>> {
        let feed = cell.any().options()?.for_messages::<M>()?.feed.with(Option::take)?;
        Some(Box::new(Self { feed: Some(feed), retry_copy: None }))
    }
}

impl<A: Actor> AnyActorPart for ActorPart<A> {
    fn member(&self) -> Arc<dyn Member> {
        Arc::clone(self.cell()) as Arc<dyn Member>
    }

    fn cell(&self) -> Arc<AnyCell> {
        Arc::clone(self.cx.cell()) as Arc<AnyCell>
    }

    fn incarnation(&self) -> u32 {
        self.cx.incarnation()
    }

    fn next_incarnation(&mut self) {
        self.cx.next_incarnation();
    }

    fn batch_is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    fn restarting<'a>(&'a mut self, failure: &'a FailureInfo) -> BoxFuture<'a, Result<(), BoxError>> {
        let actor = self.actor.as_mut().expect("the `restarting` hook runs on a state");
        let hook = actor.restarting(failure, &mut self.cx);
        Box::pin(async move { hook.await.map_err(Into::into) })
    }

    fn stopped<'a>(&'a mut self, exit: &'a Exit) -> BoxFuture<'a, Result<(), BoxError>> {
        self.cx.begin_ending();
        let actor = self.actor.as_mut().expect("the `stopped` hook runs on a state");
        let hook = actor.stopped(exit, &mut self.cx);
        Box::pin(async move { hook.await.map_err(Into::into) })
    }

    fn drop_actor(&mut self) -> Result<(), Reason> {
        let actor = self.actor.take();
        catch::catch(|| drop(actor))
    }

    fn drop_timers(&mut self) -> Result<(), Reason> {
        let timers = self.cell().take_timers();
        catch::catch(|| drop(timers))
    }

    fn drop_feed_and_copy(&mut self) -> [Option<Reason>; 2] {
        let Some(FeedAndCopy { feed, retry_copy }) = self.extra.take().map(|extra| *extra) else { return [None, None] };
        [catch::catch(|| drop(feed)).err(), catch::catch(|| drop(retry_copy)).err()]
    }

    fn unstash(&self) {
        self.cell().unstash();
    }

    fn settle_stash(&mut self, at: StashedIn) -> bool {
        self.cx.cell().settle_stash(&mut self.batch, at)
    }

    fn has_copy(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| extra.retry_copy.is_some())
    }

    fn retry_copy(&mut self) -> usize {
        let below = self.batch.len();
        self.batch.extend(self.extra.as_mut().and_then(|extra| extra.retry_copy.take()));
        below
    }

    fn drop_copy(&mut self, dead_letter: bool) {
        match self.extra.as_mut().and_then(|extra| extra.retry_copy.take()) {
            Some(message) if dead_letter => self.cell().dead_letter(message, DeadLetterReason::HandlerFailed),
            Some(message) => self.cell().discard(message),
            None => {}
        }
    }

    fn poll_dead_letter(&mut self, reason: DeadLetterReason, waker: &Waker) -> Poll<bool> {
        if self.batch.is_empty() {
            match self.cx.cell().mailbox.poll_remaining(&mut self.batch, waker) {
                Poll::Ready(true) => {}
                none_or_pending => return none_or_pending,
            }
        }
        if let Some(message) = self.batch.pop() {
            let cell: &AnyCell = self.cell().any();
            cell.mailbox.count_removed();
            self.cell().dead_letter(message, reason);
        }
        Poll::Ready(true)
    }
}
