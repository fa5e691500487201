//! How a node ends its children: one after the other, the youngest first, and all at once after a hook of one was cut off.
//!
//! Nobody owns a task for this. Whoever begins, and whichever child ends while the others wait for it, goes on with the next
//! (`stop_next_child`); `driven` keeps two from doing so at once for the same child.

use crate::base::sync::Ordering;
use crate::tree::member::{Member, StopMode};
use crate::tree::node::children::{ChildTable, is_there};
use crate::tree::node::{Node, Phase};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Children ending one after the other, the youngest first.
pub(super) struct StopPlan {
    how: StopMode,
    /// The child whose turn it is.
    waiting_for: Option<Turn>,
    /// Somebody is in `stop_next_child` and goes on by itself when a child ends at once.
    driven: bool,
    /// A hook was cut off: the rest end at the same time.
    hurried: bool,
    oldest_first: Vec<Arc<dyn Member>>,
}

/// A child by its number, and its slot in the table.
#[derive(Clone, Copy)]
struct Turn {
    number: u64,
    slot: usize,
}

impl ChildTable {
    /// Notes that `gone` has ended. True if the others waited for it and it is for the caller to go on with the next.
    pub(super) fn was_awaited(&mut self, gone: u64) -> bool {
        let Some(plan) = self.stop_plan.as_mut().filter(|plan| plan.waiting_for.is_some_and(|turn| turn.number == gone)) else {
            return false;
        };
        plan.waiting_for = None;
        !plan.driven
    }

    /// The next child in the plan, and how it is to end; `None` in place of that if it has ended by itself. Either way it is for the
    /// caller to drop, outside the lock.
    fn next_to_stop(&mut self) -> Option<(Arc<dyn Member>, Option<StopMode>)> {
        let Self { children, stop_plan, .. } = self;
        let plan = stop_plan.as_mut()?;
        let Some(child) = plan.oldest_first.pop() else {
            *stop_plan = None;
            return None;
        };
        let node = child.node();
        if !is_there(children, node) {
            return Some((child, None));
        }
        plan.waiting_for = Some(Turn { number: node.number, slot: node.slot.load(Ordering::Relaxed) as usize });
        plan.driven = true;
        let how = plan.how;
        Some((child, Some(how)))
    }
}

impl Node {
    /// Takes no more children, because it ends this way. True if there are some.
    pub(crate) fn note_stop(&self, how: StopMode) -> bool {
        self.life.with(|life| life.child_table().stop_mode = Some(how));
        self.refuse_children()
    }

    /// Whether its children are ending this way already.
    pub(crate) fn is_stopping_by(&self, how: StopMode) -> bool {
        let planned =
            |table: &ChildTable| table.stop_mode == Some(how) && table.stop_plan.as_ref().is_some_and(|plan| plan.how == how);
        self.life.with(|life| life.state().phase == Phase::Closing && life.known_children().is_some_and(planned))
    }

    /// Whether it is stopping because of a failure.
    pub(crate) fn is_failing(&self) -> bool {
        let failed = |table: &ChildTable| table.stop_mode == Some(StopMode::Stop) && table.first_failure.is_some();
        self.life.with(|life| life.known_children().is_some_and(failed))
    }

    pub(crate) fn noted_stop(&self) -> Option<StopMode> {
        self.life.with(|life| life.known_children().and_then(|table| table.stop_mode))
    }

    /// Ends the children one after the other, the youngest first. The node must refuse new ones by now.
    pub(crate) fn wind_down_children(&self, how: StopMode) {
        self.plan_stop(how);
        self.stop_next_child();
    }

    /// Notes in which order the children are to end; `stop_next_child` begins with it.
    pub(crate) fn plan_stop(&self, how: StopMode) {
        let children = self.children();
        let plan = StopPlan { how, waiting_for: None, driven: false, hurried: false, oldest_first: children };
        let replaced = self.life.with(|life| life.child_table().stop_plan.replace(plan));
        drop(replaced);
    }

    /// Ends the next child, and further ones as long as each ends at once: a loop, because there may be a hundred thousand, and because a branch
    /// may be as deep.
    pub(crate) fn stop_next_child(&self) {
        // The members below that are being wound down, each a child of the one before.
        let mut inside: Vec<Arc<dyn Member>> = Vec::new();
        loop {
            let node = inside.last().map_or(self, |member| member.node());
            match node.life.with(|life| life.known_children_mut()?.next_to_stop()) {
                Some((_, None)) => continue,
                Some((child, Some(how))) => {
                    if Arc::clone(&child).begin_stop(how) {
                        inside.push(child);
                        continue;
                    }
                    child.finish_stop();
                    if node.has_ended_at_once() {
                        continue;
                    }
                }
                None => {}
            }
            // Nothing more to do in this one for now: on with whoever waits for it.
            loop {
                let Some(member) = inside.pop() else { return };
                member.finish_stop();
                if inside.last().map_or(self, |above| above.node()).has_ended_at_once() {
                    break;
                }
            }
        }
    }

    /// The child whose turn it is to end, while the others wait for that.
    pub(crate) fn ending_child(&self) -> Option<Arc<dyn Member>> {
        self.life.with(|life| {
            let ChildTable { children, stop_plan, .. } = life.known_children()?;
            let turn = stop_plan.as_ref()?.waiting_for?;
            children.get(turn.slot).filter(|child| child.node().number == turn.number).cloned()
        })
    }

    /// Has the remaining children end at the same time, if this node is ending them one after the other.
    pub(crate) fn hurry_wind_down(&self) {
        let drives = self.life.with(|life| {
            let plan = life.known_children_mut().and_then(|table| table.stop_plan.as_mut());
            plan.is_some_and(|plan| {
                plan.hurried = true;
                !plan.driven
            })
        });
        if drives {
            self.stop_next_child();
        }
    }

    /// Whether the child that was told to end has ended by now, or is not waited for. If not, whoever ends it goes on with the next.
    fn has_ended_at_once(&self) -> bool {
        self.life.with(|life| {
            let plan = life.known_children_mut().and_then(|table| table.stop_plan.as_mut());
            plan.is_some_and(|plan| {
                plan.driven = false;
                plan.hurried || plan.waiting_for.is_none()
            })
        })
    }
}
