//! Performs a restart plan: orders to children, their reports, and the next step.
//!
//! `RestartPlan` decides; this file acts. A plan may be ordered by a plan above (a supervisor has
//! to halt or start) and may order plans below, so `advance` walks down and up in a loop.

use crate::base::sync::Arc;
use crate::base::time::Instant;
use crate::ids::path::ActorId;
use crate::supervise::restart_plan::{ChildReport, PlanStep, RestartPlan};
use crate::tree::member::Member;
use crate::tree::node::Node;
use crate::tree::task::TaskKind;
use crate::tree::{task, waits};
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

/// Restarts `members` of `parent` together, after `wait`. `failed` halts without an order.
pub(super) fn begin(parent: &Arc<dyn Member>, members: Vec<Arc<dyn Member>>, failed: Option<ActorId>, wait: Duration) {
    let until = (!wait.is_zero()).then(|| parent.node().runtime().now() + wait);
    let mut start_time = None;
    let members = members.into_iter().map(|member| (member.node().id(), member));
    let replaced = parent.node().set_restart_plan(|before| {
        let mut plan = RestartPlan::new(members, before);
        if let Some(failed) = failed {
            plan = plan.after_failure_of(failed);
        }
        until.into_iter().for_each(|until| plan.delay_until(until));
        start_time = plan.start_time();
        plan
    });
    // A parent that is ending also ends the children that wait for a restart.
    if replaced.is_err() {
        return;
    }
    drop(replaced);
    if let Some(until) = start_time {
        start_at(parent, until);
    }
    advance(parent);
}

/// Starts the members of the plan of `parent` at `until`. The task is an ordinary child: a later
/// plan may halt it, and starts its own.
fn start_at(parent: &Arc<dyn Member>, until: Instant) {
    let (member, runtime) = (Arc::clone(parent), Arc::clone(&parent.node().tree().runtime));
    let release = async move {
        runtime.sleep_until(until).await;
        let now = runtime.now().max(until);
        member
            .node()
            .with_supervision(|supervision| supervision.restart_plan.iter_mut().for_each(|plan| plan.clear_delay(now)));
        advance(&member);
    };
    // A parent that accepts no task is ending, and its plan with it.
    drop(task::launch(parent, None, TaskKind::Pipe, release));
}

/// Returns the member that `child`, which is down, waits for: the plan's current member, or its
/// supervisor, which has halted. If the parent is ending, the sibling that ends now, because the
/// parent stops this child afterwards.
pub(crate) fn waits_for(child: &Node) -> Option<Arc<dyn Member>> {
    let parent = child.parent()?;
    let waits = parent.node().existing_supervision(|supervision| supervision.restart_plan.as_ref()?.waits_for(child.id()));
    match waits.flatten() {
        Some(None) => Some(Arc::clone(parent)),
        Some(current) => current,
        None => parent.node().stopping_child(),
    }
}

/// Passes the report of `child` to its restart plan and continues the plan. Returns true if the
/// child halted out of order: the plan's current member may be waiting for it. The same holds if
/// the parent is stopping its children and has not reached this one.
pub(crate) fn report(child: &Node, report: ChildReport) -> bool {
    let Some(parent) = child.parent() else { return false };
    match note(parent, child, report) {
        Some(out_of_order) => {
            advance(parent);
            out_of_order
        }
        None => report == ChildReport::Halted && !parent.node().takes_children(),
    }
}

/// Records the report, if a plan exists. Returns whether it came out of order.
fn note(parent: &Arc<dyn Member>, child: &Node, report: ChildReport) -> Option<bool> {
    let noted = parent.node().existing_supervision(|supervision| {
        let plan = supervision.restart_plan.as_mut()?;
        let out_of_order = report == ChildReport::Halted && plan.halts_out_of_order(child.id());
        plan.note(child.id(), report);
        Some(out_of_order)
    });
    noted.flatten()
}

/// How a member reacts to an order of its parent's restart plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It performs the order on its own and reports when it is done.
    Pending,
    /// It is a supervisor, and its own plan must be advanced next.
    Planned,
    /// It has nothing to do, and this is its report.
    Done(ChildReport),
}

/// Halts the children of a supervisor, the youngest first, until [`start`] is called, because its
/// parent restarts it.
pub(crate) fn halt(supervisor: &Node) -> Progress {
    match supervisor.with_supervision(|supervision| supervision.restart_plan.as_ref().and_then(|plan| plan.all_halted())) {
        Some(true) => return Progress::Done(ChildReport::Halted),
        Some(false) => return Progress::Pending,
        None => {}
    }
    let children = supervisor.children().into_iter().map(|member| (member.node().id(), member));
    let planned = supervisor.set_restart_plan(|before| RestartPlan::new(children, before).ordered_by_parent()).map(drop);
    // A supervisor that is ending leaves the tree, which also counts as a report.
    if planned.is_ok() { Progress::Planned } else { Progress::Pending }
}

/// Starts the children of a halted supervisor, the oldest first, with a clear restart history.
pub(crate) fn start(supervisor: &Node) -> Progress {
    let (planned, refill) = supervisor.with_supervision(|supervision| {
        supervision.forget_restarts();
        let planned = supervision.restart_plan.as_mut().map(|plan| plan.start()).is_some();
        // With a plan, the refill runs at its end.
        (planned, if planned { None } else { supervision.take_refill() })
    });
    refill.into_iter().for_each(|refill| refill());
    supervisor.forget_given_up();
    if planned { Progress::Planned } else { Progress::Done(ChildReport::Started) }
}

/// Stops waiting one by one after a hook of `child` exceeded the grace period: all ancestors that
/// stop or halt their children in order now do so at once.
///
/// The order is kept for hooks that return. Hooks that do not return cost one grace period in
/// total, not one each.
pub(crate) fn skip_stop_order(child: &Node) {
    for parent in child.upwards().filter_map(Node::parent) {
        parent.node().stop_remaining_at_once();
        let planned =
            parent.node().existing_supervision(|supervision| supervision.restart_plan.as_mut().map(|plan| plan.halt_all()));
        if planned.flatten().is_some() {
            advance(parent);
        }
    }
}

/// Restarts a single supervisor after `wait`. Its children halt and start by their own plan, so
/// that other supervisors beside it do not wait.
pub(crate) fn restart_supervisor(supervisor: &Arc<dyn Member>, wait: Duration) {
    let node = supervisor.node();
    let is_halted = node.with_supervision(|supervision| {
        supervision.forget_restarts();
        supervision.is_halted_by_parent()
    });
    node.forget_given_up();
    // If its parent has halted it, the parent starts it again.
    if !is_halted {
        begin(supervisor, node.children(), None, wait);
    }
}

/// Performs all possible steps in the plan of `parent`, in the plans of supervisors below that it
/// halts or starts, and in the plans above that wait for it. A loop, because supervisors may be
/// nested deeply.
pub(crate) fn advance(parent: &Arc<dyn Member>) {
    let mut at = Arc::clone(parent);
    // Each supervisor here has ordered the next one, and the last one `at`, to halt or to start.
    let mut parents: Vec<Arc<dyn Member>> = Vec::new();
    loop {
        match take_step(&at) {
            StepOutcome::Done => continue,
            StepOutcome::Below(child) => {
                parents.push(core::mem::replace(&mut at, child));
                continue;
            }
            StepOutcome::Nothing => {}
            StepOutcome::Report(report) => {
                let Some(parent) = at.node().parent().cloned() else { return };
                let planned = note(&parent, at.node(), report).is_some();
                if parents.is_empty() && planned {
                    at = parent;
                    continue;
                }
            }
        }
        let Some(back) = parents.pop() else { return };
        at = back;
        step_done(at.node());
    }
}

/// The result of one step of a plan.
enum StepOutcome {
    /// The step was performed, and the next one may follow.
    Done,
    /// The plan of this supervisor must be advanced first; the step is complete when that plan
    /// waits.
    Below(Arc<dyn Member>),
    /// The parent must get this report.
    Report(ChildReport),
    /// No step is possible now.
    Nothing,
}

fn take_step(parent: &Arc<dyn Member>) -> StepOutcome {
    let node = parent.node();
    let step = node.existing_supervision(|supervision| {
        let step = supervision.restart_plan.as_mut()?.step();
        let is_done = matches!(step, PlanStep::Done(_));
        let over = if is_done { supervision.restart_plan.take() } else { None };
        Some((step, over, if is_done { supervision.take_refill() } else { None }))
    });
    let Some((step, over, refill)) = step.flatten() else { return StepOutcome::Nothing };
    drop(over);
    // This runs the factories of workers, which are user code.
    refill.into_iter().for_each(|refill| refill());
    let (child, progress) = match step {
        PlanStep::Halt(child) => {
            let progress = child.halt(&child);
            // The children of a supervisor halt one by one, and are searched for cycles then.
            if progress == Progress::Pending {
                waits::break_cycles_of(vec![Arc::clone(&child)]);
            }
            (child, progress)
        }
        PlanStep::Await(child) => {
            waits::break_cycles_of(vec![Arc::clone(&child)]);
            (child, Progress::Pending)
        }
        PlanStep::Start(child) => (Arc::clone(&child), child.start_again()),
        PlanStep::AllHalted => return StepOutcome::Report(ChildReport::Halted),
        PlanStep::Done(true) => return StepOutcome::Report(ChildReport::Started),
        PlanStep::Done(false) | PlanStep::Wait => return StepOutcome::Nothing,
    };
    match progress {
        Progress::Planned => return StepOutcome::Below(child),
        Progress::Done(report) => drop(note(parent, child.node(), report)),
        Progress::Pending => {}
    }
    step_done(node);
    StepOutcome::Done
}

fn step_done(node: &Node) {
    node.existing_supervision(|supervision| supervision.restart_plan.iter_mut().for_each(|plan| plan.step_done()));
}
