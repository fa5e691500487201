//! Stops the children of a node one after the other, the youngest first. After the hook of one
//! child timed out, all remaining ones stop at once.
//!
//! No task drives this. The caller that begins, and each child that ends while others wait for it,
//! stops the next child (`stop_next_child`).
//!
//! | flag of `StopPlan` | set by | cleared by |
//! |---|---|---|
//! | `current` | `next_to_stop` | `finish_current`, when that child has ended |
//! | `is_advancing` | `next_to_stop` | `child_ended_at_once` |
//! | `stops_all` | `stop_remaining_at_once` | never |
//!
//! `is_advancing` keeps two callers from stopping the next child for the same ended one.

use crate::base::sync::{Arc, Ordering};
use crate::tree::member::{Member, StopMode};
use crate::tree::node::children::{ChildTable, contains_child};
use crate::tree::node::{Node, NodePhase};
use alloc::vec::Vec;

/// The order in which the children of a node stop.
pub(super) struct StopPlan {
    mode: StopMode,
    /// The child that the others wait for.
    current: Option<StoppingChild>,
    /// A caller is in `stop_next_child` and continues if the child ends at once.
    is_advancing: bool,
    /// A hook timed out: the remaining children stop at once.
    stops_all: bool,
    oldest_first: Vec<Arc<dyn Member>>,
}

/// A child: its number and its slot in the table.
#[derive(Clone, Copy)]
struct StoppingChild {
    number: u64,
    slot: usize,
}

impl ChildTable {
    /// Records that the child `ended` has ended. Returns true if the others waited for it and the
    /// caller must stop the next one.
    pub(super) fn finish_current(&mut self, ended: u64) -> bool {
        let Some(plan) = self.stop_plan.as_mut().filter(|plan| plan.current.is_some_and(|child| child.number == ended)) else {
            return false;
        };
        plan.current = None;
        !plan.is_advancing
    }

    /// Takes the next child of the plan and how to stop it, or `None` as the mode if it has ended
    /// already. The caller drops the child outside of the lock.
    fn next_to_stop(&mut self) -> Option<(Arc<dyn Member>, Option<StopMode>)> {
        let Self { children, stop_plan, .. } = self;
        let plan = stop_plan.as_mut()?;
        let Some(child) = plan.oldest_first.pop() else {
            *stop_plan = None;
            return None;
        };
        let node = child.node();
        if !contains_child(children, node) {
            return Some((child, None));
        }
        plan.current = Some(StoppingChild { number: node.number, slot: node.slot.load(Ordering::Relaxed) as usize });
        plan.is_advancing = true;
        let mode = plan.mode;
        Some((child, Some(mode)))
    }
}

impl Node {
    /// Records how the node ends and rejects new children. Returns true if it has children.
    pub(crate) fn set_stop_mode(&self, mode: StopMode) -> bool {
        self.state.with(|state| state.child_table().stop_mode = Some(mode));
        self.refuse_children()
    }

    /// Returns whether its children are already ending with this mode.
    pub(crate) fn is_stopping_with(&self, mode: StopMode) -> bool {
        let is_planned = |table: &ChildTable| {
            table.stop_mode == Some(mode) && table.stop_plan.as_ref().is_some_and(|plan| plan.mode == mode)
        };
        self.state.with(|state| state.status().phase == NodePhase::Closing && state.existing_children().is_some_and(is_planned))
    }

    /// Returns whether it is stopping because of a failure.
    pub(crate) fn is_failing(&self) -> bool {
        let is_failed = |table: &ChildTable| table.stop_mode == Some(StopMode::Stop) && table.first_failure.is_some();
        self.state.with(|state| state.existing_children().is_some_and(is_failed))
    }

    pub(crate) fn stop_mode(&self) -> Option<StopMode> {
        self.state.with(|state| state.existing_children().and_then(|table| table.stop_mode))
    }

    /// Ends the children one after the other, the youngest first. The node must already reject new
    /// ones.
    pub(crate) fn stop_children(&self, mode: StopMode) {
        self.plan_stop(mode);
        self.stop_next_child();
    }

    /// Records the order in which the children end; `stop_next_child` starts with it.
    pub(crate) fn plan_stop(&self, mode: StopMode) {
        let children = self.children();
        let plan = StopPlan { mode, current: None, is_advancing: false, stops_all: false, oldest_first: children };
        let replaced = self.state.with(|state| state.child_table().stop_plan.replace(plan));
        drop(replaced);
    }

    /// Ends the next child, and further ones as long as each ends at once. A loop, because a node
    /// may have 100,000 children and a branch may be as deep.
    pub(crate) fn stop_next_child(&self) {
        // The members that are being stopped, each a child of the one before.
        let mut descent: Vec<Arc<dyn Member>> = Vec::new();
        loop {
            let node = descent.last().map_or(self, |member| member.node());
            match node.state.with(|state| state.existing_children_mut()?.next_to_stop()) {
                Some((_, None)) => continue,
                Some((child, Some(mode))) => {
                    if child.begin_stop(&child, mode) {
                        descent.push(child);
                        continue;
                    }
                    child.finish_stop(&child);
                    if node.child_ended_at_once() {
                        continue;
                    }
                }
                None => {}
            }
            // Nothing more to do here for now: continue with the member that waits for it.
            loop {
                let Some(member) = descent.pop() else { return };
                member.finish_stop(&member);
                if descent.last().map_or(self, |above| above.node()).child_ended_at_once() {
                    break;
                }
            }
        }
    }

    /// Returns the child that is ending now, while the others wait for it.
    pub(crate) fn stopping_child(&self) -> Option<Arc<dyn Member>> {
        self.state.with(|state| {
            let ChildTable { children, stop_plan, .. } = state.existing_children()?;
            let stopping = stop_plan.as_ref()?.current?;
            children.get(stopping.slot).filter(|child| child.node().number == stopping.number).cloned()
        })
    }

    /// Stops the remaining children at the same time, if this node is stopping them one after the
    /// other.
    pub(crate) fn stop_remaining_at_once(&self) {
        let advances = self.state.with(|state| {
            let plan = state.existing_children_mut().and_then(|table| table.stop_plan.as_mut());
            plan.is_some_and(|plan| {
                plan.stops_all = true;
                !plan.is_advancing
            })
        });
        if advances {
            self.stop_next_child();
        }
    }

    /// Returns whether the child has ended by now, or is not waited for. If not, the child itself
    /// will stop the next one when it ends.
    fn child_ended_at_once(&self) -> bool {
        self.state.with(|state| {
            let plan = state.existing_children_mut().and_then(|table| table.stop_plan.as_mut());
            plan.is_some_and(|plan| {
                plan.is_advancing = false;
                plan.stops_all || plan.current.is_none()
            })
        })
    }
}
