//! The way of a failure up the tree, from member to member, until one handles it.

use crate::base::sync::Arc;
use crate::events::failure::FailureInfo;
use crate::supervise::decide::RestartPolicy;
use crate::tree::member::Member;
use crate::tree::node::Node;
use crate::tree::supervision::escalate::escalate;
use crate::tree::supervision::judge::judge;
use crate::tree::supervision::state::{ChildAction, FailedMemberKind};
use alloc::vec::Vec;
use core::time::Duration;

/// The result of one step of a failure up the tree.
#[derive(Default)]
pub(crate) struct FailureStep {
    /// The member that must handle the failure next.
    pub(crate) next: Option<(Arc<dyn Member>, FailureInfo)>,
    /// The failure as this member escalated it. An ancestor decides whether the member restarts or
    /// ends.
    pub(crate) escalated: Option<FailureInfo>,
}

/// Passes a failure from below to `member` and, as long as it escalates, to its ancestors. A loop,
/// because a branch may be deep.
pub(crate) fn propagate(member: Arc<dyn Member>, mut failure: FailureInfo) {
    failure.set_has_no_sink(false);
    let mut undecided = Vec::new();
    let mut next = Some((member, failure));
    while let Some((member, failure)) = next {
        let step = member.child_failed(&member, failure);
        undecided.extend(step.escalated.map(|failure| (member, failure)));
        next = step.next;
    }
    // Members that escalated the failure end, unless they restart with a supervisor above.
    let mut above: Option<(Arc<dyn Member>, bool)> = None;
    while let Some((member, failure)) = undecided.pop() {
        // The ancestor was checked in the round before, which also covered everything above it.
        let of_parent = above.as_ref().filter(|(above, _)| is_parent(above, member.node())).map(|(_, is_reached)| *is_reached);
        let is_reached = is_reached_by_plan(member.node(), of_parent);
        let starts_again = is_reached && member.node().policy() != RestartPolicy::Temporary;
        above = Some((Arc::clone(&member), is_reached));
        let action = if starts_again { ChildAction::Wait(Duration::ZERO) } else { ChildAction::Stop };
        member.apply_action(&member, action, failure);
    }
}

/// Decides about a failure from below that has become the failure of `member`, by the strategy of
/// its parent.
pub(crate) fn judge_and_apply(member: &Arc<dyn Member>, failed: FailedMemberKind, failure: FailureInfo) -> FailureStep {
    let (action, failure) = judge(member.node(), failed, failure);
    match (action, member.node().parent()) {
        (ChildAction::Escalate { exceeded }, Some(parent)) => {
            FailureStep { next: escalate(parent, &failure, exceeded), escalated: Some(failure) }
        }
        _ => {
            member.apply_action(member, action, failure);
            FailureStep::default()
        }
    }
}

/// Returns whether `child` has to halt and start again by an existing plan: the one of its parent,
/// or one further up that will reach its parent.
pub(crate) fn is_to_restart(child: &Node) -> bool {
    child.policy() != RestartPolicy::Temporary && is_reached_by_plan(child, None)
}

/// Returns whether such a plan exists. `of_parent`: the same answer for its parent, if known.
fn is_reached_by_plan(child: &Node, of_parent: Option<bool>) -> bool {
    match (plan_of_parent(child), of_parent) {
        (Some(is_reached), _) | (None, Some(is_reached)) => is_reached,
        (None, None) => child.upwards().skip(1).find_map(plan_of_parent).unwrap_or(false),
    }
}

/// Returns what the plan of its parent means for `child`, or `None` if a plan further up decides.
fn plan_of_parent(child: &Node) -> Option<bool> {
    let Some(parent) = child.parent() else { return Some(false) };
    let (awaited, is_halted) = parent
        .node()
        .existing_supervision(|supervision| (supervision.awaits_halt_of(child.id()), supervision.is_halted_by_parent()))
        .unwrap_or_default();
    // A parent with an order to halt has already listed its members. A parent that restarts no
    // children lists none.
    (awaited || is_halted || !parent.restarts_children()).then_some(awaited)
}

fn is_parent(above: &Arc<dyn Member>, child: &Node) -> bool {
    child.parent().is_some_and(|parent| core::ptr::eq(parent.node(), above.node()))
}
