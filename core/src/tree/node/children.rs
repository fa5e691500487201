//! `ChildTable`: the children of a node: their table, their names, the order in which they end, and who waits for the last of them.

use crate::base::sync::Ordering;
use crate::base::visits;
use crate::base::wakers::{Key, Spare, Wakers, discard};
use crate::events::counts::Counts;
use crate::events::failure::FailureInfo;
use crate::ids::name::Name;
use crate::ids::path::ActorId;
use crate::tree::member::{Member, StopMode};
use crate::tree::node::stop_children::StopPlan;
use crate::tree::node::{Node, Phase, Running};
use crate::tree::supervision::{ChildAction, Plan, Supervision};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::future::Future;
use core::hash::BuildHasher;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use slab::Slab;

#[derive(Default)]
pub(super) struct ChildTable {
    pub(super) children: Slab<Arc<dyn Member>>,
    names: HashTable<u32>,
    hasher: DefaultHashBuilder,
    pub(super) stop_plan: Option<StopPlan>,
    pub(super) stop_mode: Option<StopMode>,
    pub(super) first_failure: Option<FailureInfo>,
    /// What was decided about this node itself, after a failure below became its own.
    verdict: Option<(ChildAction, FailureInfo)>,
    pub(super) guardian: Supervision,
    /// Children that failed for good and have not left yet.
    given_up: BTreeSet<ActorId>,
    pub(super) ended: Counts,
    /// `ended` has been added to the parent's: what comes later is for a node further up. Never at the top, where all of it ends up.
    pub(super) reported: bool,
    pub(super) waiters: Wakers,
}

/// Why a parent took no child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    ShuttingDown,
    NameTaken,
}

impl ChildTable {
    /// Whether the node was told to end in an orderly way.
    pub(super) fn is_stopping(&self) -> bool {
        self.stop_mode.is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// The counts of all children that have ended, for the parent above. Whoever ends later reports there itself.
    pub(super) fn report(&mut self, at_top: bool) -> Counts {
        self.reported = !at_top;
        self.ended
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &Arc<dyn Member>> {
        self.children.iter().map(|(_, child)| child)
    }

    fn find(&self, name: &[u8]) -> Option<usize> {
        let hash = self.hasher.hash_one(name);
        let is_it = |slot: &u32| self.children[*slot as usize].node().name.given_bytes() == Some(name);
        self.names.find(hash, is_it).map(|slot| *slot as usize)
    }

    fn claim_name(&mut self, name: &[u8], slot: usize) -> Result<(), Refused> {
        let Self { names, children, hasher, .. } = self;
        let given = |slot: &u32| children[*slot as usize].node().name.given_bytes().unwrap_or_default();
        match names.entry(hasher.hash_one(name), |slot| given(slot) == name, |slot| hasher.hash_one(given(slot))) {
            Entry::Occupied(_) => Err(Refused::NameTaken),
            Entry::Vacant(free) => {
                free.insert(slot as u32);
                Ok(())
            }
        }
    }

    /// Takes a child out of the table, for the caller to drop outside the lock.
    pub(super) fn let_go(&mut self, node: &Node) -> Option<Arc<dyn Member>> {
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
        if self.children.is_empty() && self.children.capacity() > 64 {
            // A supervisor that once had a million children does not keep their table.
            self.children = Slab::new();
            self.names = HashTable::new();
        }
        child
    }
}

pub(super) fn is_there(children: &Slab<Arc<dyn Member>>, node: &Node) -> bool {
    let there = children.get(node.slot.load(Ordering::Relaxed) as usize);
    there.is_some_and(|there| there.node().number == node.number)
}

impl Node {
    /// Takes a child in, unless this node is ending or the name is taken: then it comes back. True if there is a strategy that may
    /// want to hear of it.
    pub(crate) fn adopt(&self, child: Arc<dyn Member>) -> Result<bool, (Refused, Arc<dyn Member>)> {
        self.life.with(|life| {
            if life.state().phase != Phase::Open || life.cancel().is_some() {
                return Err((Refused::ShuttingDown, child));
            }
            let table = life.child_table();
            let slot = table.children.vacant_key();
            if let Some(name) = child.node().name.given_bytes()
                && let Err(refused) = table.claim_name(name, slot)
            {
                return Err((refused, child));
            }
            child.node().slot.store(slot as u32, Ordering::Relaxed);
            table.children.insert(child);
            Ok(table.guardian.strategy.is_some())
        })
    }

    /// A live child by name, or by the id in a made name.
    pub(crate) fn child(&self, name: &Name) -> Option<Arc<dyn Member>> {
        self.life.with(|life| {
            let table = life.known_children()?;
            match name.given_bytes() {
                Some(name) => table.find(name).map(|slot| Arc::clone(&table.children[slot])),
                None => table.members().find(|child| child.node().name == *name).cloned(),
            }
        })
    }

    /// The live children in start order.
    pub(crate) fn children(&self) -> Vec<Arc<dyn Member>> {
        let mut children = Vec::new();
        self.life.with(|life| children.extend(life.known_children().into_iter().flat_map(ChildTable::members).cloned()));
        visits::visit(children.len());
        children.sort_unstable_by_key(|child| child.node().number);
        children
    }

    /// Has children restart together by the plan that `make` makes of the one there is, unless this node is ending. Whoever has left since
    /// the caller looked is gone for the plan. Gives the plan that was replaced, or `make` back, for the caller to drop.
    pub(crate) fn replan<F: FnOnce(Option<&Plan>) -> Plan>(&self, make: F) -> Result<Option<Box<Plan>>, F> {
        self.life.with(|life| {
            if life.state().phase != Phase::Open {
                return Err(make);
            }
            let ChildTable { guardian, children, .. } = life.child_table();
            let plan = make(guardian.regroup.as_deref()).of_those(|child| is_there(children, child.node()));
            Ok(guardian.regroup.replace(Box::new(plan)))
        })
    }

    pub(crate) fn takes_children(&self) -> bool {
        self.life.with(|life| life.state().phase == Phase::Open)
    }

    pub(crate) fn has_children(&self) -> bool {
        self.life.with(|life| life.known_children().is_some_and(|table| !table.is_empty()))
    }

    /// Notes that `child` is not restarted any more, until it has left. Gives how many others there are of which that cannot be said.
    pub(crate) fn give_up_on(&self, child: ActorId) -> usize {
        self.life.with(|life| {
            let ChildTable { children, given_up, .. } = life.child_table();
            given_up.insert(child);
            children.len().saturating_sub(given_up.len())
        })
    }

    /// Of all children it can be said that they are restarted: their supervisor was restarted itself.
    pub(crate) fn forget_given_up(&self) {
        self.life.with(|life| life.known_children_mut().into_iter().for_each(|table| table.given_up.clear()));
    }

    pub(crate) fn children_count(&self) -> usize {
        self.life.with(|life| life.known_children().map_or(0, |table| table.children.len()))
    }

    /// Takes no more children from now on. True if there are some.
    pub(crate) fn refuse_children(&self) -> bool {
        let (some, plan) = self.life.with(|life| {
            if life.state().phase == Phase::Open {
                life.state_mut().phase = Phase::Closing;
            }
            let Some(table) = life.known_children_mut() else { return (false, None) };
            // Whoever ends starts none of its children again.
            (!table.is_empty(), table.guardian.regroup.take())
        });
        drop(plan);
        some
    }

    /// Takes children again, for the next incarnation. False if it was cancelled meanwhile.
    pub(crate) fn reopen(&self) -> bool {
        self.life.with(|life| {
            if life.state().phase == Phase::Closing && life.cancel().is_none() {
                life.state_mut().phase = Phase::Open;
            }
            life.state().phase == Phase::Open
        })
    }

    pub(crate) fn first_failure(&self) -> Option<FailureInfo> {
        self.life.with(|life| life.known_children().and_then(|table| table.first_failure.clone()))
    }

    /// Keeps what was decided about this node until its task comes to it. The first verdict stands.
    pub(crate) fn keep_verdict(&self, verdict: ChildAction, failure: FailureInfo) {
        self.life.with(|life| {
            life.child_table().verdict.get_or_insert((verdict, failure));
        });
    }

    pub(crate) fn awaits_verdict(&self) -> bool {
        self.life.with(|life| life.known_children().is_some_and(|table| table.verdict.is_some()))
    }

    pub(crate) fn take_verdict(&self) -> Option<(ChildAction, FailureInfo)> {
        self.life.with(|life| life.known_children_mut().and_then(|table| table.verdict.take()))
    }

    pub(crate) fn record_failure(&self, failure: &FailureInfo) {
        self.life.with(|life| {
            life.child_table().first_failure.get_or_insert_with(|| failure.clone());
        });
    }

    /// Ready once there are no children.
    pub(crate) fn poll_childless(&self, key: &mut Key, waker: &Waker) -> Poll<()> {
        let mut waker = Spare::of(waker);
        self.life.with(|life| match life.known_children_mut() {
            Some(table) if !table.is_empty() => {
                table.waiters.register(key, &mut waker);
                Poll::Pending
            }
            _ => Poll::Ready(()),
        })
    }

    pub(crate) fn forget_child_waiter(&self, key: &mut Key) {
        let waker = self.life.with(|life| life.known_children_mut().and_then(|table| table.waiters.remove(key)));
        discard(waker);
    }

    /// Everything below this node that has not ended, in start order.
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

    /// What became of every message of everything below this node, ended or not.
    pub(crate) fn counts_below(&self) -> Counts {
        let mut members = vec![];
        let mut total = self.ended_and_children(&mut members);
        while let Some(member) = members.pop() {
            total += member.counts();
            total += member.node().ended_and_children(&mut members);
        }
        total
    }

    /// Adds what became of messages below this node to the first node from here up that has not left the tree itself. Children
    /// outlive their parent only when a runtime drops its tasks.
    #[cold]
    pub(super) fn add_ended(&self, counts: Counts) {
        self.upwards().find(|node| {
            node.life.with(|life| {
                let table = life.child_table();
                if !table.reported {
                    table.ended += counts;
                }
                !table.reported
            })
        });
    }

    fn ended_and_children(&self, children: &mut Vec<Arc<dyn Member>>) -> Counts {
        self.life.with(|life| match life.known_children() {
            Some(table) => {
                children.extend(table.members().cloned());
                table.ended
            }
            None => Counts::default(),
        })
    }
}

/// Ready once a node has no children.
#[must_use = "futures do nothing unless awaited"]
pub(crate) struct Childless<'a> {
    node: &'a Node,
    key: Key,
}

impl<'a> Childless<'a> {
    pub(crate) fn of(node: &'a Node) -> Self {
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
