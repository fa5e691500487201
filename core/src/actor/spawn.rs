//! Spawns actors: one function for systems, supervisors, scopes and actors.

use crate::actor::actor_ref::ActorRef;
use crate::actor::cell::{AnyCell, Cell};
use crate::actor::props::{Props, Settings};
use crate::actor::{Actor, cell};
use crate::base::lock::Lock;
use crate::base::sync::{Arc, unsize};
use crate::tree::adopt::Refusal;
use crate::tree::adopt::adopt;
use crate::tree::adopt::new_node;
use crate::tree::member::Member;
use crate::tree::{Tree, supervision};
use alloc::boxed::Box;
use core::fmt;

/// The error of a spawn: the actor was not started. [`into_props`](Self::into_props) returns its
/// props.
pub struct SpawnError<A: Actor> {
    /// The reason why the parent refused the actor.
    pub reason: Refusal,
    // Boxed, to keep results small. Behind a lock, so that the error is `Sync` although props are
    // not.
    props: Box<Lock<Props<A>>>,
}

impl<A: Actor> SpawnError<A> {
    /// Returns the props of the actor that was not started.
    pub fn into_props(self) -> Props<A> {
        self.props.into_inner()
    }
}

impl<A: Actor> fmt::Display for SpawnError<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the actor was not started: {}", self.reason)
    }
}

impl<A: Actor> fmt::Debug for SpawnError<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnError").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<A: Actor> core::error::Error for SpawnError<A> {}

/// Spawns an actor below `parent`. Without a `name` it gets a generated one.
pub(crate) fn actor<A: Actor>(
    parent: &Arc<dyn Member>,
    name: Option<&str>,
    props: Props<A>,
) -> Result<ActorRef<A::Msg>, SpawnError<A>> {
    let tree = parent.node().tree();
    match prepare(tree, parent, name, &props.settings) {
        Ok(cell) => {
            tree.runtime.spawn(cell::into_task(props.factory, Arc::clone(&cell)));
            Ok(ActorRef::new(cell))
        }
        Err(reason) => Err(SpawnError { reason, props: Box::new(Lock::new(props)) }),
    }
}

/// Creates the cell of an actor and adds it to the tree.
#[inline]
fn prepare<M: Send + 'static>(
    tree: &Tree,
    parent: &Arc<dyn Member>,
    name: Option<&str>,
    settings: &Settings,
) -> Result<Arc<Cell<M>>, Refusal> {
    if settings.mailbox.capacity == 0 {
        return Err(Refusal::ZeroCapacity);
    }
    let node = new_node(tree, parent, name)?.with_policy(settings.policy);
    let cell = Arc::new(Cell::new(node, settings));
    if tree.instrument.is_some() {
        carry_contexts(tree, cell.any(), settings);
    }
    #[cfg(feature = "std")]
    if tree.faults.is_some() {
        cell.any().expect_faults();
    }
    settings.apply_supervision(cell.node());
    if adopt(parent, unsize!(Arc::clone(&cell) => dyn Member))? || tree.strategy.is_some() {
        call_before_start(&(unsize!(Arc::clone(&cell) => dyn Member)));
    }
    Ok(cell)
}

#[cold]
fn carry_contexts(tree: &Tree, cell: &AnyCell, settings: &Settings) {
    if tree.instruments_all || settings.is_instrumented() {
        cell.mailbox().carry_contexts();
    }
}

#[cold]
fn call_before_start(child: &Arc<dyn Member>) {
    supervision::call_hook(child, |strategy, child| strategy.before_start(child));
}
