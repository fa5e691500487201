//! [`ActorPart`]: the part of a task that depends on the actor's type, and [`AnyActorPart`]: what
//! the lifecycle needs of it.

use crate::actor::Actor;
use crate::actor::cell::{AnyCell, Cell};
use crate::actor::context::Context;
use crate::base::sync::{Arc, unsize};
use crate::mailbox::slot::Batch;
use crate::tree::member::Member;
use alloc::vec::Vec;

/// The part of a task that depends on the actor's type.
pub(super) struct ActorPart<A: Actor> {
    /// The state of this incarnation, present from the factory to the end of `stopped`.
    pub(super) actor: Option<A>,
    pub(super) cx: Context<A>,
    /// Messages taken from the mailbox, oldest last.
    pub(super) batch: Vec<A::Msg>,
}

/// What the lifecycle needs of the part that depends on the actor's type. Of these, only `batch` is
/// called for messages that are handled, and only between two batches.
pub(super) trait AnyActorPart: Send {
    /// Returns the actor as a member of the tree.
    fn member(&self) -> Arc<dyn Member>;
    fn cell(&self) -> Arc<AnyCell>;
    fn incarnation(&self) -> u32;
    fn next_incarnation(&mut self);
    fn batch(&mut self) -> &mut dyn Batch;
    fn batch_is_empty(&self) -> bool;

    /// Drops the state. This is user code.
    fn drop_actor(&mut self);
}

impl<A: Actor> ActorPart<A> {
    #[inline]
    pub(super) fn new(cell: Arc<Cell<A::Msg>>) -> Self {
        Self { actor: None, cx: Context::new(cell), batch: Vec::new() }
    }
}

impl<A: Actor> AnyActorPart for ActorPart<A> {
    fn member(&self) -> Arc<dyn Member> {
        unsize!(Arc::clone(self.cx.cell()) => dyn Member)
    }

    fn cell(&self) -> Arc<AnyCell> {
        unsize!(Arc::clone(self.cx.cell()) => AnyCell)
    }

    fn incarnation(&self) -> u32 {
        self.cx.incarnation()
    }

    fn next_incarnation(&mut self) {
        self.cx.next_incarnation();
    }

    fn batch(&mut self) -> &mut dyn Batch {
        &mut self.batch
    }

    fn batch_is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    fn drop_actor(&mut self) {
        self.actor = None;
    }
}
