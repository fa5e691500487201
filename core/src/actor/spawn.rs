//! Starting an actor: one road for systems, supervisors, scopes and actors.

use crate::actor::actor_ref::ActorRef;
use crate::actor::cell::Cell;
use crate::actor::props::Props;
use crate::actor::{Actor, cell};
use crate::base::lock::Lock;
use crate::ids::name::{Name, NameError};
use crate::ids::path::ActorPath;
use crate::mailbox::queue::Inbox;
use crate::tree::member::Member;
use crate::tree::node::children::Refused;
use crate::tree::node::{Above, Node};
use crate::tree::{World, supervision};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;

/// An actor that was not started. Its props come back: [`into_props`](Self::into_props).
pub struct SpawnError<A: Actor> {
    /// Why.
    pub why: Refusal,
    // Boxed, to keep results small; behind the lock, so that the error can be shared between threads although props cannot.
    props: Box<Lock<Props<A>>>,
}

impl<A: Actor> SpawnError<A> {
    /// What was not started.
    pub fn into_props(self) -> Props<A> {
        self.props.into_inner()
    }
}

/// Why something was not started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The name cannot stand in a path.
    Name(NameError),
    /// A live sibling has this name, or one that has not quite ended.
    NameTaken {
        /// The name.
        name: String,
        /// Under whom.
        parent: ActorPath,
    },
    /// The mailbox was given a capacity of 0, so it could never take a message.
    NoCapacity,
    /// Its parent has begun to shut down, or has ended.
    ShuttingDown {
        /// The parent.
        parent: ActorPath,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => write!(f, "{error}"),
            Self::NameTaken { name, parent } => {
                write!(f, "{parent} has a live child called {name:?}: choose another name, or wait for its exit")
            }
            Self::NoCapacity => f.write_str("a mailbox with a capacity of 0 takes no message: give it at least 1"),
            Self::ShuttingDown { parent } => write!(f, "{parent} is shutting down or has ended, and starts nothing more"),
        }
    }
}

impl core::error::Error for Refusal {}

impl From<NameError> for Refusal {
    fn from(error: NameError) -> Self {
        Self::Name(error)
    }
}

impl<A: Actor> fmt::Display for SpawnError<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the actor was not started: {}", self.why)
    }
}

impl<A: Actor> fmt::Debug for SpawnError<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnError").field("why", &self.why).finish_non_exhaustive()
    }
}

impl<A: Actor> core::error::Error for SpawnError<A> {}

/// Starts an actor below `parent`.
pub(crate) fn actor<A: Actor>(
    parent: &Arc<dyn Member>,
    name: Option<&str>,
    props: Props<A>,
) -> Result<ActorRef<A::Msg>, SpawnError<A>> {
    let world = parent.node().world();
    match prepare(world, parent, name, &props) {
        Ok(cell) => {
            world.runtime.spawn(cell::task(props.recipe, Arc::clone(&cell)));
            Ok(ActorRef::new(cell))
        }
        Err(why) => Err(SpawnError { why, props: Box::new(Lock::new(props)) }),
    }
}

#[inline]
fn prepare<A: Actor>(
    world: &World,
    parent: &Arc<dyn Member>,
    name: Option<&str>,
    props: &Props<A>,
) -> Result<Arc<Cell<A::Msg>>, Refusal> {
    let kind = props.mailbox_kind();
    if kind.capacity == 0 {
        return Err(Refusal::NoCapacity);
    }
    let node = new_node(world, parent, name)?.with_policy(props.policy());
    let cell = Arc::new(Cell::new(node, Inbox::new(kind), props.shared_extra()));
    props.equip(cell.node());
    if adopt(parent, Arc::clone(&cell) as Arc<dyn Member>)? || world.strategy.is_some() {
        let child = Arc::clone(&cell) as Arc<dyn Member>;
        supervision::call_hook(&child, |strategy, child| strategy.before_start(child));
    }
    Ok(cell)
}

/// A node below `parent`, in its world and not yet in its table.
#[inline(always)]
pub(crate) fn new_node(world: &World, parent: &Arc<dyn Member>, name: Option<&str>) -> Result<Node, Refusal> {
    name.map_or(Ok(()), Name::check)?;
    let id = world.next_id();
    let above = Above::Parent(Arc::clone(parent));
    Ok(Node::new(above, id, name.map_or(Name::made(id), Name::unchecked)))
}

/// Puts a member into its parent's table. True if the parent has a strategy that may want to hear of it.
#[inline]
pub(crate) fn adopt(parent: &Arc<dyn Member>, child: Arc<dyn Member>) -> Result<bool, Refusal> {
    let above = parent.node();
    above.adopt(child).map_err(|(refused, child)| refusal(above, refused, &child))
}

#[cold]
fn refusal(parent: &Node, refused: Refused, child: &Arc<dyn Member>) -> Refusal {
    let parent = parent.path();
    match refused {
        Refused::ShuttingDown => Refusal::ShuttingDown { parent },
        Refused::NameTaken => Refusal::NameTaken { name: child.node().name.to_string(), parent },
    }
}
