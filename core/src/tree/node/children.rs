//! [`ChildTable`]: the children of a node, their names, and the tasks that wait for the last one.

use crate::base::hash::NameHashBuilder;
use crate::base::sorted::{SortedSet, sort_by_key};
use crate::base::sync::{Arc, Ordering};
use crate::base::wakers::{ClonedWaker, WakerKey, Wakers, discard};
use crate::base::work_count;
use crate::events::counts::Counts;
use crate::events::failure::FailureInfo;
use crate::ids::name::Name;
use crate::ids::path::ActorId;
use crate::tree::member::{Member, StopMode};
use crate::tree::node::child_order::OptionalIndex;
use crate::tree::node::observe::NextChild;
use crate::tree::node::stop_children::StopPlan;
use crate::tree::node::{Node, NodePhase, Running};
use crate::tree::supervision::{ChildAction, ChildrenPlan, Supervision};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::future::Future;
use core::hash::BuildHasher;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use slab::Slab;

/// The children of one node.
#[derive(Default)]
pub(super) struct ChildTable {
    pub(super) children: Slab<Arc<dyn Member>>,
    names: HashTable<u32>,
    hasher: NameHashBuilder,
    pub(super) stop_plan: Option<StopPlan>,
    pub(super) stop_mode: Option<StopMode>,
    pub(super) first_failure: Option<FailureInfo>,
    /// The decision about this node itself, after a failure of a child became its own.
    pending_action: Option<(ChildAction, FailureInfo)>,
    pub(super) supervision: Supervision,
    /// Children that are not restarted any more and have not left yet.
    pub(super) given_up: SortedSet<ActorId>,
    /// The message counts of children that have ended.
    pub(super) ended: Counts,
    /// `ended` was added to the counts of the parent, so later counts go to an ancestor. Never set
    /// at the root, where all counts end up.
    pub(super) reported: bool,
    pub(super) waiters: Wakers,
    /// Only while an observer asks for windows of the children.
    pub(super) index: OptionalIndex,
}

/// Why a parent rejected a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AdoptError {
    ShuttingDown,
    NameTaken,
}

impl ChildTable {
    /// Returns whether the node was stopped or closed.
    pub(super) fn is_stopping(&self) -> bool {
        self.stop_mode.is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// Returns the counts of all ended children, to add them to the parent's. Children that end
    /// later report to an ancestor.
    pub(super) fn report_counts(&mut self, is_root: bool) -> Counts {
        self.reported = !is_root;
        self.ended
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &Arc<dyn Member>> {
        self.children.iter().map(|(_, child)| child)
    }

    fn find(&self, name: &[u8]) -> Option<usize> {
        let hash = self.hasher.hash_one(name);
        let has_name = |slot: &u32| self.children[*slot as usize].node().name.given_bytes() == Some(name);
        self.names.find(hash, has_name).map(|slot| *slot as usize)
    }

    fn claim_name(&mut self, name: &[u8], slot: usize) -> Result<(), AdoptError> {
        let Self { names, children, hasher, .. } = self;
        let given = |slot: &u32| children[*slot as usize].node().name.given_bytes().unwrap_or_default();
        match names.entry(hasher.hash_one(name), |slot| given(slot) == name, |slot| hasher.hash_one(given(slot))) {
            Entry::Occupied(_) => Err(AdoptError::NameTaken),
            Entry::Vacant(free) => {
                free.insert(slot as u32);
                Ok(())
            }
        }
    }

    /// Removes a child from the table and returns it, for the caller to drop outside of the lock.
    pub(super) fn remove_child(&mut self, node: &Node) -> Option<Arc<dyn Member>> {
        let slot = node.slot.load(Ordering::Relaxed);
        if let Some(name) = node.name.given_bytes() {
            let hash = self.hasher.hash_one(name);
            if let Ok(entry) = self.names.find_entry(hash, |at| *at == slot) {
                entry.remove();
            }
        }
        if !self.given_up.is_empty() {
            self.given_up.remove(&node.id());
        }
        let child = self.children.try_remove(slot as usize);
        if child.is_some() {
            self.note_place(slot as usize, false);
        }
        if self.children.is_empty() && self.children.capacity() > 64 {
            // A supervisor that once had a million children does not keep the memory of their
            // table.
            self.children = Slab::new();
            self.names = HashTable::new();
            self.index = None;
        }
        child
    }
}

pub(super) fn contains_child(children: &Slab<Arc<dyn Member>>, node: &Node) -> bool {
    let found = children.get(node.slot.load(Ordering::Relaxed) as usize);
    found.is_some_and(|found| found.node().number == node.number)
}

impl Node {
    /// Adds a child, unless this node is ending or the name is taken. Returns true if a strategy
    /// exists, whose `before_start` hook is due; returns the child in the error.
    pub(crate) fn adopt(&self, child: Arc<dyn Member>) -> Result<bool, (AdoptError, Arc<dyn Member>)> {
        self.state.with(|state| {
            if state.status().phase != NodePhase::Open || state.cancel().is_some() {
                return Err((AdoptError::ShuttingDown, child));
            }
            let table = state.child_table();
            let slot = table.children.vacant_key();
            if let Some(name) = child.node().name.given_bytes()
                && let Err(refused) = table.claim_name(name, slot)
            {
                return Err((refused, child));
            }
            child.node().slot.store(slot as u32, Ordering::Relaxed);
            table.children.insert(child);
            table.note_place(slot, true);
            Ok(table.supervision.strategy.is_some())
        })
    }

    /// Returns a live child by name, or by the id of a generated name.
    pub(crate) fn child(&self, name: &Name) -> Option<Arc<dyn Member>> {
        match name.given_bytes() {
            Some(name) => self.state.with(|state| {
                let table = state.existing_children()?;
                table.find(name).map(|slot| Arc::clone(&table.children[slot]))
            }),
            None => self.generated_child(name),
        }
    }

    /// Searches for a child with a generated name, with the lock released after every few children.
    fn generated_child(&self, name: &Name) -> Option<Arc<dyn Member>> {
        let mut from = 0;
        loop {
            match self.next_child(from) {
                NextChild::Found(_, child) if child.node().name == *name => return Some(child),
                NextChild::Found(place, _) => from = place + 1,
                NextChild::NoneBefore(place) => from = place,
                NextChild::End => return None,
            }
        }
    }

    /// Returns the live children in start order.
    pub(crate) fn children(&self) -> Vec<Arc<dyn Member>> {
        let mut children = Vec::new();
        self.state.with(|state| children.extend(state.existing_children().into_iter().flat_map(ChildTable::members).cloned()));
        work_count::count(children.len());
        sort_by_key(&mut children, |child| child.node().number);
        children
    }

    /// Replaces the restart plan by the one that `make` creates from the current one, unless this
    /// node is ending. Children that have left meanwhile count as gone. Returns the replaced plan,
    /// or `make` in the error, for the caller to drop.
    pub(crate) fn set_restart_plan<F: FnOnce(Option<&ChildrenPlan>) -> ChildrenPlan>(
        &self,
        make: F,
    ) -> Result<Option<Box<ChildrenPlan>>, F> {
        self.state.with(|state| {
            if state.status().phase != NodePhase::Open {
                return Err(make);
            }
            let ChildTable { supervision, children, .. } = state.child_table();
            let plan = make(supervision.restart_plan.as_deref()).without_absent(|child| contains_child(children, child.node()));
            Ok(supervision.restart_plan.replace(Box::new(plan)))
        })
    }

    pub(crate) fn takes_children(&self) -> bool {
        self.state.with(|state| state.status().phase == NodePhase::Open)
    }

    pub(crate) fn has_children(&self) -> bool {
        self.state.with(|state| state.existing_children().is_some_and(|table| !table.is_empty()))
    }

    /// Marks `child` as not restarted any more, until it has left. Returns how many other children
    /// are not marked.
    pub(crate) fn give_up_on(&self, child: ActorId) -> usize {
        self.state.with(|state| {
            let ChildTable { children, given_up, .. } = state.child_table();
            given_up.insert(child);
            children.len().saturating_sub(given_up.len())
        })
    }

    /// Returns how many other children would not be marked if `child` were.
    pub(crate) fn left_without(&self, child: ActorId) -> usize {
        let left = |table: &ChildTable| {
            let marked = table.given_up.len() + usize::from(!table.given_up.contains(&child));
            table.children.len().saturating_sub(marked)
        };
        self.state.with(|state| state.existing_children().map_or(0, left))
    }

    /// Unmarks all children, because their supervisor was restarted.
    pub(crate) fn forget_given_up(&self) {
        self.state.with(|state| state.existing_children_mut().into_iter().for_each(|table| table.given_up.clear()));
    }

    pub(crate) fn children_count(&self) -> usize {
        self.state.with(|state| state.existing_children().map_or(0, |table| table.children.len()))
    }

    /// Rejects new children from now on. Returns true if the node has children.
    pub(crate) fn refuse_children(&self) -> bool {
        let (some, plan) = self.state.with(|state| {
            if state.status().phase == NodePhase::Open {
                state.status_mut().phase = NodePhase::Closing;
            }
            let Some(table) = state.existing_children_mut() else { return (false, None) };
            // A node that is ending restarts none of its children.
            (!table.is_empty(), table.supervision.restart_plan.take())
        });
        drop(plan);
        some
    }

    /// Accepts children again, for the next incarnation. Returns false if the node was cancelled
    /// meanwhile.
    pub(crate) fn reopen(&self) -> bool {
        self.state.with(|state| {
            if state.status().phase == NodePhase::Closing && state.cancel().is_none() {
                state.status_mut().phase = NodePhase::Open;
            }
            state.status().phase == NodePhase::Open
        })
    }

    pub(crate) fn first_failure(&self) -> Option<FailureInfo> {
        self.state.with(|state| state.existing_children().and_then(|table| table.first_failure.clone()))
    }

    /// Stores the decision about this node until its task handles it. The first decision stays.
    pub(crate) fn keep_action(&self, pending_action: ChildAction, failure: FailureInfo) {
        self.state.with(|state| {
            state.child_table().pending_action.get_or_insert((pending_action, failure));
        });
    }

    pub(crate) fn has_pending_action(&self) -> bool {
        self.state.with(|state| state.existing_children().is_some_and(|table| table.pending_action.is_some()))
    }

    pub(crate) fn take_action(&self) -> Option<(ChildAction, FailureInfo)> {
        self.state.with(|state| state.existing_children_mut().and_then(|table| table.pending_action.take()))
    }

    pub(crate) fn keep_first_failure(&self, failure: &FailureInfo) {
        self.state.with(|state| {
            state.child_table().first_failure.get_or_insert_with(|| failure.clone());
        });
    }

    /// Ready once the node has no children.
    pub(crate) fn poll_childless(&self, key: &mut WakerKey, waker: &Waker) -> Poll<()> {
        let mut waker = ClonedWaker::of(waker);
        self.state.with(|state| match state.existing_children_mut() {
            Some(table) if !table.is_empty() => {
                table.waiters.register(key, &mut waker);
                Poll::Pending
            }
            _ => Poll::Ready(()),
        })
    }

    pub(crate) fn forget_child_waiter(&self, key: &mut WakerKey) {
        let waker = self.state.with(|state| state.existing_children_mut().and_then(|table| table.waiters.remove(key)));
        discard(waker);
    }

    /// Returns all members below this node that have not ended, in start order.
    pub(crate) fn running(&self) -> Vec<Running> {
        let now = self.runtime().now();
        let mut found = Vec::new();
        let mut below = self.children();
        below.reverse();
        while let Some(member) = below.pop() {
            let node = member.node();
            let (path, cancelled_for) = (node.path(), node.cancelled_for(now));
            found.push(Running { path, cancelled_for, in_poll: member.in_poll() });
            let mut children = node.children();
            children.reverse();
            below.append(&mut children);
        }
        found
    }

    /// Returns the message counts of everything below this node, ended or not.
    pub(crate) fn counts_below(&self) -> Counts {
        let mut members = vec![];
        let mut total = self.ended_and_children(&mut members);
        while let Some(member) = members.pop() {
            total += member.counts();
            total += member.node().ended_and_children(&mut members);
        }
        total
    }

    /// Adds message counts to the nearest node from here up that has not left the tree. Children
    /// outlive their parent only when a runtime drops its tasks.
    #[cold]
    pub(super) fn add_ended(&self, counts: Counts) {
        self.upwards().find(|node| {
            node.state.with(|state| {
                let table = state.child_table();
                if !table.reported {
                    table.ended += counts;
                }
                !table.reported
            })
        });
    }

    fn ended_and_children(&self, children: &mut Vec<Arc<dyn Member>>) -> Counts {
        self.state.with(|state| match state.existing_children() {
            Some(table) => {
                children.extend(table.members().cloned());
                table.ended
            }
            None => Counts::default(),
        })
    }
}

/// A future that completes once a node has no children.
#[must_use = "futures do nothing unless awaited"]
pub(crate) struct Childless<'a> {
    node: &'a Node,
    key: WakerKey,
}

impl<'a> Childless<'a> {
    pub(crate) fn new(node: &'a Node) -> Self {
        Self { node, key: None }
    }
}

impl Future for Childless<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { node, key } = &mut *self;
        node.poll_childless(key, cx.waker())
    }
}

impl Drop for Childless<'_> {
    fn drop(&mut self) {
        if self.key.is_some() {
            self.node.forget_child_waiter(&mut self.key);
        }
    }
}
