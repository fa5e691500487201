//! `Node` and `Member`: a place in the tree, and whatever stands on it: a task, an actor, a scope, a supervisor.
//!
//! Owned here, behind one lock a node: the children (`table`), the exit, and everybody who waits for either.
//!
//! ```text
//!          adopt                       leave: exit set, on_done run       leave: out of the parent, waiters woken
//!  (none) ──────► Open ──► Closing ───────────────────────────► Exited ─────────────────────────────► Gone
//!                  ▲ reopen  │ refuse_children: adopts nothing
//!                  └─────────┘
//! ```
//!
//! Invariants:
//! 1. A member is in its parent's table from `adopt` to `leave`, once; its slot there does not change.
//! 2. The exit is set once. Every `on_done` runs once, outside the lock, before the parent lets go of the member.
//! 3. The parent's waiters see "no children" only after every `on_done` of every child has run.
//! 4. A child holds its parent, a parent holds a child only while it is in the table: no cycle survives an exit.
//! 5. A node's lock is never held together with another, and no user code runs under it.

pub(crate) mod children;
pub(crate) mod exit;
pub(crate) mod parent;
pub(crate) mod state;
pub(crate) mod stop_children;
pub(crate) mod watchers;

pub(crate) use crate::tree::member::Member;
pub(crate) use crate::tree::node::exit::{cancel, last_token, leave, token};
pub(crate) use crate::tree::node::watchers::{unwatch, watch};

use crate::base::lock::Lock;
use crate::base::reason::Reason;
use crate::base::runtime::Runtime;
use crate::base::sync::AtomicU32;
use crate::base::time::Instant;
use crate::base::wakers::{Key, Spare, discard};
use crate::base::{catch, visits};
use crate::events::cause::{Cause, Exit};
use crate::events::event::{Event, EventKinds};
use crate::events::failure::{FailureInfo, METADATA_MAX};
use crate::events::hub;
use crate::events::hub::Events;
use crate::events::signal::Terminated;
use crate::ids::name::Name;
use crate::ids::path::{ActorId, ActorPath};
use crate::supervise::decide::RestartPolicy;
use crate::tree::Tree;
use crate::tree::node::parent::ParentLink;
use crate::tree::node::state::{Cancel, NodeState, Phase, Rare};
use crate::tree::supervision::Supervision;
use crate::tree::token::CancelToken;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::task::{Poll, Waker};
use core::time::Duration;

/// The path of a node with at most this many steps is put together with a single allocation.
const NEAR_MAX: usize = 8;

pub(crate) struct Node {
    /// Which member of its tree it is, in the order they were made; [`id`](Self::id) tells trees apart as well.
    pub(super) number: u64,
    pub(crate) name: Name,
    link: ParentLink,
    /// How many steps lie between this node and the nearest one that holds the tree.
    climb: u8,
    policy: RestartPolicy,
    slot: AtomicU32,
    life: Lock<NodeState>,
}

/// What a node is made below: nothing, as the root of a tree, or its parent.
pub(crate) enum NodeParent {
    Root(Arc<Tree>),
    Member(Arc<dyn Member>),
}

pub(crate) type OnDone = Box<dyn FnOnce(&Exit) + Send>;

/// Something that had not ended when a bounded wait ran out.
#[derive(Clone, Debug)]
pub struct Running {
    /// Where it stands in the tree.
    pub path: ActorPath,
    /// How long ago it was cancelled, `None` if it was not.
    pub cancelled_for: Option<Duration>,
    /// Whether it is inside one poll at this moment: it computes or blocks and does not reach an await.
    pub in_poll: bool,
}

/// The path, and how long ago it was cancelled: `/user/late (cancelled 2s ago, inside one poll)`.
impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        match self.cancelled_for {
            Some(since) if self.in_poll => write!(f, " (cancelled {since:?} ago, inside one poll)"),
            Some(since) => write!(f, " (cancelled {since:?} ago)"),
            None => Ok(()),
        }
    }
}

/// A branch may be deep, and this may be the last owner of all of it: then its tree drops the members one after the other, from a
/// list and not by recursion. That holds for members with weak references too, such as watchers.
impl Drop for Node {
    #[inline]
    fn drop(&mut self) {
        if self.link.parent().is_some_and(|parent| Arc::strong_count(parent) == 1) {
            let tree = Arc::clone(self.tree());
            if let Some(parent) = self.link.take_parent(&tree) {
                tree.drop_in_turn(parent);
            }
        }
    }
}

impl Node {
    #[inline]
    pub(crate) fn new(above: NodeParent, id: ActorId, name: Name) -> Self {
        let (number, (link, climb)) = (id.get(), ParentLink::new(above));
        Self {
            number,
            name,
            link,
            climb,
            policy: RestartPolicy::Transient,
            slot: AtomicU32::new(0),
            life: Lock::new(NodeState::new()),
        }
    }

    /// Who it is. The tree's part of an id lies at the root, which spares each node a word.
    pub(crate) fn id(&self) -> ActorId {
        self.tree().id(self.number)
    }

    pub(crate) fn parent(&self) -> Option<&Arc<dyn Member>> {
        self.link.parent()
    }

    pub(crate) fn tree(&self) -> &Arc<Tree> {
        let mut node = self;
        loop {
            visits::visit(1);
            match node.link.tree() {
                Ok(tree) => return tree,
                Err(parent) => node = parent.node(),
            }
        }
    }

    pub(crate) fn runtime(&self) -> &dyn Runtime {
        &*self.tree().runtime
    }

    pub(crate) fn events(&self) -> &Events {
        &self.tree().events
    }

    /// Tells of a start or an end, if somebody wants to hear of it.
    #[inline]
    pub(crate) fn report_lifecycle(&self, make: impl FnOnce() -> Event) {
        if hub::any_tree_wants_lifecycle() {
            self.events().emit(EventKinds::LIFECYCLE, make);
        }
    }

    /// This node and all above it.
    pub(crate) fn upwards(&self) -> impl Iterator<Item = &Node> {
        core::iter::successors(Some(self), |node| node.parent().map(|parent| parent.node())).inspect(|_| visits::visit(1))
    }

    pub(crate) fn path(&self) -> ActorPath {
        // A root has an empty name and is no step of any path.
        let names = || self.upwards().map(|node| &node.name).filter(|name| !name.is_root());
        let depth = names().count();
        let mut near = [&self.name; NEAR_MAX];
        match near.get_mut(..depth) {
            Some(near) => {
                near.iter_mut().zip(names()).for_each(|(place, name)| *place = name);
                ActorPath::from_steps(near.iter().rev().copied().cloned().collect())
            }
            None => {
                let mut steps: Vec<Name> = names().cloned().collect();
                steps.reverse();
                ActorPath::from_steps(steps.into())
            }
        }
    }

    /// Whether this is a guardian at the top of a system: `/user`, `/system`.
    pub(crate) fn is_guardian(&self) -> bool {
        self.parent().is_some_and(|root| root.node().name.is_root())
    }

    /// Whether `ancestor` is this node or lies above it.
    pub(crate) fn is_within(&self, ancestor: &Node) -> bool {
        self.upwards().any(|node| core::ptr::eq(node, ancestor))
    }

    pub(crate) fn failure(&self, incarnation: u32, reason: Reason) -> FailureInfo {
        let failure = FailureInfo::new(self.id(), self.path(), incarnation, reason, self.runtime().now()).below(self.parent());
        match self.annotations(incarnation) {
            Some(annotations) => failure.with_annotations(annotations),
            None => failure,
        }
    }

    /// Adds metadata to every later failure of `incarnation`. False if it has [`METADATA_MAX`] pairs already.
    pub(crate) fn annotate(&self, incarnation: u32, key: String, value: String) -> bool {
        self.life.with(|life| {
            let of_before = life.rare().annotations.take_if(|(of, _)| *of != incarnation);
            let (_, annotations) = life.rare().annotations.get_or_insert_with(|| (incarnation, BTreeMap::new()));
            let has_room = annotations.len() < METADATA_MAX || annotations.contains_key(&key);
            if has_room {
                annotations.insert(key, value);
            }
            drop(of_before);
            has_room
        })
    }

    fn annotations(&self, incarnation: u32) -> Option<BTreeMap<String, String>> {
        self.life.with(|life| {
            let (of, annotations) = life.known_rare()?.annotations.as_ref()?;
            (*of == incarnation).then(|| annotations.clone())
        })
    }

    /// Puts a failure of something that belongs to this node on record, and changes nothing else.
    pub(crate) fn record(&self, reason: Reason) {
        self.events().failure(&self.failure(0, reason));
    }

    /// Transient where nothing else is said.
    #[inline]
    pub(crate) fn with_policy(mut self, policy: RestartPolicy) -> Self {
        self.policy = policy;
        self
    }

    pub(crate) fn policy(&self) -> RestartPolicy {
        self.policy
    }

    pub(crate) fn cause(&self) -> Option<Cause> {
        self.life.with(|life| life.cancel().map(|cancel| cancel.cause.clone()))
    }

    /// How long ago it was cancelled.
    fn cancelled_for(&self, now: Instant) -> Option<Duration> {
        self.life.with(|life| life.cancel().map(|cancel| now.since(cancel.at)))
    }

    /// The deadline of the token that the whole tree hangs below.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let top = self.upwards().last()?;
        top.life.with(|life| life.known_rare()?.above.as_ref()?.0.deadline())
    }

    /// Remembers the token this node hangs below, to leave it on exit.
    pub(crate) fn hang_below(&self, token: CancelToken, place: usize) {
        self.life.with(|life| life.rare().above = Some((token, place)));
    }

    pub(crate) fn exit(&self) -> Option<Exit> {
        self.life.with(|life| life.exit())
    }

    /// Runs `f` on the supervision state of this node, under the lock: `f` is ours and short.
    pub(crate) fn with_supervision<R>(&self, f: impl FnOnce(&mut Supervision) -> R) -> R {
        self.life.with(|life| f(&mut life.child_table().guardian))
    }

    /// As [`with_supervision`](Self::with_supervision), if there is one.
    pub(crate) fn known_supervision<R>(&self, f: impl FnOnce(&mut Supervision) -> R) -> Option<R> {
        self.life.with(|life| life.known_children_mut().map(|table| f(&mut table.guardian)))
    }

    /// Runs `f` with the exit, once: when it comes, or here and now if it came.
    pub(crate) fn on_done(&self, f: OnDone) {
        let late = self.life.with(|life| match life.exit() {
            Some(exit) => Some((exit, f)),
            None => {
                life.rare().on_done.push(f);
                None
            }
        });
        if let Some((exit, f)) = late {
            self.run_on_done(f, &exit);
        }
    }

    /// A panic in it is a failure on record, and does not stop the rest.
    fn run_on_done(&self, f: OnDone, exit: &Exit) {
        if let Err(reason) = catch::catch(|| f(exit)) {
            self.record(reason);
        }
    }

    fn terminated(&self, exit: Exit) -> Terminated {
        Terminated { id: self.id(), path: self.path(), exit }
    }

    /// Ready with the exit once every `on_done` has run and the parent has let go.
    #[inline]
    pub(crate) fn poll_exit(&self, key: &mut Key, waker: &Waker) -> Poll<Exit> {
        let gone = |life: &NodeState| if life.state().phase == Phase::Gone { Some(life.exit()) } else { None };
        // Most look when the exit is there, and need no waker for that.
        let found = self.life.with(|life| gone(life)).or_else(|| {
            let mut waker = Spare::of(waker);
            self.life.with(|life| {
                let found = gone(life);
                if found.is_none() {
                    life.around().exit_waiters.register(key, &mut waker);
                }
                found
            })
        });
        let Some(exit) = found else { return Poll::Pending };
        // Whoever waited was taken out before it was woken.
        *key = None;
        Poll::Ready(exit.expect("whoever is gone has its exit"))
    }

    pub(crate) fn forget_exit_waiter(&self, key: &mut Key) {
        let waker = self.life.with(|life| life.known_extras_mut().and_then(|around| around.exit_waiters.remove(key)));
        discard(waker);
    }
}
