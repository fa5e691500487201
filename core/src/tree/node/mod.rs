//! [`Node`]: one place in the tree. It owns the children, the exit and everyone who waits for
//! either.
//!
//! The state of a node is behind one lock ([`NodeState`]):
//!
//! ```text
//!          adopt          refuse_children: adopts no child
//! (none) ────────► Open ───────────────► Closing
//!                   │ ▲     reopen          │
//!                   │ └─────────────────────┤
//!                   └───────────┬───────────┘
//!                               ▼ leave: exit set, on_done callbacks run
//!                            Exited
//!                               ▼ leave: removed from the parent, waiters woken
//!                             Gone
//! ```
//!
//! | file | owns |
//! |---|---|
//! | `state` | the data behind the lock, kept small |
//! | `children` | the child table: names, counts, restart plan |
//! | `child_order`, `place_index` | for observers: which child is the n-th one |
//! | `stop_children` | stopping the children one after the other |
//! | `exit` | cancelling a member; leaving the tree |
//! | `parent` | the link to the parent and to the tree |
//! | `observe` | what an observer reads: the state of the node, its children one at a time |
//! | `reserve` | what a node of a sealed system has allocated |
//! | `watchers` | which member watches which |
//!
//! Invariants:
//! 1. A member is in its parent's child table from `adopt` to `leave`, once. Its slot does not
//!    change.
//! 2. The exit is set once. Every `on_done` runs once, outside of the lock, before the parent
//!    releases the member.
//! 3. The parent's waiters see "no children" only after every `on_done` of every child has run.
//! 4. A child holds its parent; a parent holds a child only while it is in the table. No reference
//!    cycle survives an exit.
//! 5. A node's lock is never held together with another lock, and no user code runs under it.

pub(crate) mod child_order;
pub(crate) mod children;
pub(crate) mod exit;
pub(crate) mod observe;
pub(crate) mod parent;
pub(crate) mod place_index;
pub(crate) mod reserve;
pub(crate) mod state;
pub(crate) mod stop_children;
pub(crate) mod watchers;

pub(crate) use crate::tree::member::Member;
pub(crate) use crate::tree::node::exit::{cancel, last_token, leave, token};
pub(crate) use crate::tree::node::watchers::{unwatch, watch};

use crate::base::lock::Lock;
use crate::base::reason::Reason;
use crate::base::runtime::Runtime;
use crate::base::sync::{Arc, AtomicU32};
use crate::base::time::Instant;
use crate::base::wakers::{ClonedWaker, WakerKey, discard};
use crate::base::{catch, work_count};
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
use crate::tree::node::state::{CancelRecord, NodePhase, NodeState, RareDetails};
use crate::tree::supervision::Supervision;
use crate::tree::token::CancelToken;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::task::{Poll, Waker};
use core::time::Duration;

/// A path with at most this many segments is built with a single allocation.
const SHORT_PATH_MAX: usize = 8;

/// One place in the tree.
pub(crate) struct Node {
    /// The number of this member in its tree, in creation order. [`id`](Self::id) also tells trees
    /// apart.
    pub(super) number: u64,
    pub(crate) name: Name,
    link: ParentLink,
    /// How many links lie between this node and the nearest one that holds the tree.
    tree_distance: u8,
    policy: RestartPolicy,
    /// The index in the parent's child table.
    slot: AtomicU32,
    state: Lock<NodeState>,
}

/// The parent of a new node, or the tree for a root.
pub(crate) enum NodeParent {
    Root(Arc<Tree>),
    Member(Arc<dyn Member>),
}

/// A callback for the exit of a member.
pub(crate) type OnDone = Box<dyn FnOnce(&Exit) + Send>;

/// A member that was still running when a time limit passed; part of
/// [`WaitError`](crate::WaitError) and [`ShutdownError`](crate::ShutdownError).
#[derive(Clone, Debug)]
pub struct Running {
    /// The path of the running member.
    pub path: ActorPath,
    /// How long ago the member was cancelled, or `None` if it was not.
    pub cancelled_for: Option<Duration>,
    /// Whether the member is inside one poll: it computes or blocks and does not reach an await.
    pub in_poll: bool,
}

/// The path and the time since the cancel: `/user/late (cancelled 2s ago, inside one poll)`.
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

/// A branch may be deep, and this node may be the last owner of it. Then the tree drops the members
/// from a list, not by recursion. This also covers members with weak references, such as watchers.
impl Drop for Node {
    #[inline]
    fn drop(&mut self) {
        if self.link.parent().is_some_and(|parent| Arc::strong_count(parent) == 1) {
            let tree = Arc::clone(self.tree());
            if let Some(parent) = self.link.take_parent(&tree) {
                tree.drop_member(parent);
            }
        }
    }
}

impl Node {
    #[inline]
    pub(crate) fn new(parent: NodeParent, id: ActorId, name: Name) -> Self {
        let (number, (link, tree_distance)) = (id.get(), ParentLink::new(parent));
        Self {
            number,
            name,
            link,
            tree_distance,
            policy: RestartPolicy::Transient,
            slot: AtomicU32::new(0),
            state: Lock::new(NodeState::new()),
        }
    }

    /// Returns the id. The number of the tree is stored in the tree, which saves one word per node.
    pub(crate) fn id(&self) -> ActorId {
        self.tree().id(self.number)
    }

    pub(crate) fn parent(&self) -> Option<&Arc<dyn Member>> {
        self.link.parent()
    }

    pub(crate) fn tree(&self) -> &Arc<Tree> {
        let mut node = self;
        loop {
            work_count::count(1);
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

    /// Reports a start or an end, if any listener wants it.
    #[inline]
    pub(crate) fn report_lifecycle(&self, make: impl FnOnce() -> Event) {
        if hub::any_tree_wants_lifecycle() {
            self.events().emit(EventKinds::LIFECYCLE, make);
        }
    }

    /// Returns this node and all its ancestors.
    pub(crate) fn upwards(&self) -> impl Iterator<Item = &Node> {
        core::iter::successors(Some(self), |node| node.parent().map(|parent| parent.node())).inspect(|_| work_count::count(1))
    }

    pub(crate) fn path(&self) -> ActorPath {
        // A root has an empty name and is not a segment of any path.
        let names = || self.upwards().map(|node| &node.name).filter(|name| !name.is_root());
        let depth = names().count();
        let mut names_up = [&self.name; SHORT_PATH_MAX];
        match names_up.get_mut(..depth) {
            Some(names_up) => {
                names_up.iter_mut().zip(names()).for_each(|(slot, name)| *slot = name);
                ActorPath::from_segments(names_up.iter().rev().copied().cloned().collect())
            }
            None => {
                let mut segments: Vec<Name> = names().cloned().collect();
                segments.reverse();
                ActorPath::from_segments(segments.into())
            }
        }
    }

    /// Returns whether this is a guardian of a system: `/user` or `/system`.
    pub(crate) fn is_guardian(&self) -> bool {
        self.parent().is_some_and(|root| root.node().name.is_root())
    }

    /// Returns whether `ancestor` is this node or one of its ancestors.
    pub(crate) fn is_within(&self, ancestor: &Node) -> bool {
        self.upwards().any(|node| core::ptr::eq(node, ancestor))
    }

    pub(crate) fn failure(&self, incarnation: u32, reason: Reason) -> FailureInfo {
        let (now, unused) = (self.runtime().now(), self.take_unused_failure());
        let failure = match unused {
            Some(unused) => unused.used_again(incarnation, reason, now),
            None => Err(reason),
        };
        let failure = failure
            .unwrap_or_else(|reason| FailureInfo::new(self.id(), self.path(), incarnation, reason, now).below(self.parent()));
        match self.annotations(incarnation) {
            Some(annotations) => failure.with_annotations(annotations),
            None => failure,
        }
    }

    /// Adds metadata to every later failure of `incarnation`. Returns false if it already has
    /// [`METADATA_MAX`] pairs.
    pub(crate) fn annotate(&self, incarnation: u32, key: String, value: String) -> bool {
        self.state.with(|state| {
            let earlier = state.rare_details().annotations.take_if(|(of, _)| *of != incarnation);
            let (_, annotations) = state.rare_details().annotations.get_or_insert_with(|| (incarnation, BTreeMap::new()));
            let has_room = annotations.len() < METADATA_MAX || annotations.contains_key(&key);
            if has_room {
                annotations.insert(key, value);
            }
            drop(earlier);
            has_room
        })
    }

    fn annotations(&self, incarnation: u32) -> Option<BTreeMap<String, String>> {
        self.state.with(|state| {
            let (of, annotations) = state.existing_rare()?.annotations.as_ref()?;
            (*of == incarnation).then(|| annotations.clone())
        })
    }

    /// Reports a failure of user code that belongs to this node, without any further consequence.
    pub(crate) fn report_failure(&self, reason: Reason) {
        self.events().record_failure(&self.failure(0, reason));
    }

    /// Sets the restart policy. Default: transient.
    #[inline]
    pub(crate) fn with_policy(mut self, policy: RestartPolicy) -> Self {
        self.policy = policy;
        self
    }

    pub(crate) fn policy(&self) -> RestartPolicy {
        self.policy
    }

    pub(crate) fn cause(&self) -> Option<Cause> {
        self.state.with(|state| state.cancel().map(|cancel| cancel.cause.clone()))
    }

    /// Returns the time since the cancel.
    fn cancelled_for(&self, now: Instant) -> Option<Duration> {
        self.state.with(|state| state.cancel().map(|cancel| now.since(cancel.at)))
    }

    /// Returns the deadline of the token above the root of this tree.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let top = self.upwards().last()?;
        top.state.with(|state| state.existing_rare()?.token_above.as_ref()?.0.deadline())
    }

    /// Stores the token above this node, to unregister from it on exit.
    pub(crate) fn attach_below(&self, token: CancelToken, key: usize) {
        self.state.with(|state| state.rare_details().token_above = Some((token, key)));
    }

    pub(crate) fn exit(&self) -> Option<Exit> {
        self.state.with(|state| state.exit())
    }

    /// Runs `f` on the supervision state of this node, under the lock. `f` must be short and call
    /// no user code.
    pub(crate) fn with_supervision<R>(&self, f: impl FnOnce(&mut Supervision) -> R) -> R {
        self.state.with(|state| f(&mut state.child_table().supervision))
    }

    /// Like [`with_supervision`](Self::with_supervision), but does not create the state.
    pub(crate) fn existing_supervision<R>(&self, f: impl FnOnce(&mut Supervision) -> R) -> Option<R> {
        self.state.with(|state| state.existing_children_mut().map(|table| f(&mut table.supervision)))
    }

    /// Calls `f` with the exit, exactly once: when the member ends, or immediately if it has ended.
    pub(crate) fn on_done(&self, f: OnDone) {
        let already_ended = self.state.with(|state| match state.exit() {
            Some(exit) => Some((exit, f)),
            None => {
                state.rare_details().on_done.push(f);
                None
            }
        });
        if let Some((exit, f)) = already_ended {
            self.run_on_done(f, &exit);
        }
    }

    /// Calls `f`. A panic is reported as a failure and does not affect other callbacks.
    fn run_on_done(&self, f: OnDone, exit: &Exit) {
        if let Err(reason) = catch::catch(|| f(exit)) {
            self.report_failure(reason);
        }
    }

    fn terminated(&self, exit: Exit) -> Terminated {
        Terminated { id: self.id(), path: self.path(), exit }
    }

    /// Ready with the exit once every `on_done` has run and the parent has released the member.
    #[inline]
    pub(crate) fn poll_exit(&self, key: &mut WakerKey, waker: &Waker) -> Poll<Exit> {
        let gone = |state: &NodeState| if state.status().phase == NodePhase::Gone { Some(state.exit()) } else { None };
        // Most callers poll when the exit is already set, and need no waker.
        let found = self.state.with(|state| gone(state)).or_else(|| {
            let mut waker = ClonedWaker::of(waker);
            self.state.with(|state| {
                let found = gone(state);
                if found.is_none() {
                    state.details().exit_waiters.register(key, &mut waker);
                }
                found
            })
        });
        let Some(exit) = found else { return Poll::Pending };
        // The waiter was removed before it was woken.
        *key = None;
        Poll::Ready(exit.expect("a node in phase Gone has an exit"))
    }

    pub(crate) fn forget_exit_waiter(&self, key: &mut WakerKey) {
        let waker = self.state.with(|state| state.existing_details_mut().and_then(|details| details.exit_waiters.remove(key)));
        discard(waker);
    }
}
