//! Acting on the plan of children that restart together: orders to them, their reports, and the next step.
//!
//! `RestartPlan` says what to do; this file does it. A plan may be part of one above (a supervisor is told to halt or to start) and may lead
//! to others below, so whoever advances one walks down and up in a loop.

use crate::base::time::Instant;
use crate::ids::path::ActorId;
use crate::supervise::restart_plan::{Report, RestartPlan, Step};
use crate::tree::member::Member;
use crate::tree::node::Node;
use crate::tree::task::TaskKind;
use crate::tree::{task, waits};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

/// Restarts `members` of `parent` together, not before `wait` has passed. `failed` halts by itself.
pub(super) fn regroup(parent: &Arc<dyn Member>, members: Vec<Arc<dyn Member>>, failed: Option<ActorId>, wait: Duration) {
    let until = (!wait.is_zero()).then(|| parent.node().runtime().now() + wait);
    let mut held = None;
    let members = members.into_iter().map(|member| (member.node().id(), member));
    let replaced = parent.node().replan(|before| {
        let mut plan = RestartPlan::new(members, before);
        if let Some(failed) = failed {
            plan = plan.after_failure_of(failed);
        }
        until.into_iter().for_each(|until| plan.hold_until(until));
        held = plan.held_until();
        plan
    });
    // A parent that is ending ends its children, those that wait for their group among them.
    if replaced.is_err() {
        return;
    }
    drop(replaced);
    if let Some(until) = held {
        release_at(parent, until);
    }
    advance(parent);
}

/// Lets the plan of `parent` start its members at `until`. The task is a child like any other: a later plan may halt it, and has its own.
fn release_at(parent: &Arc<dyn Member>, until: Instant) {
    let (member, runtime) = (Arc::clone(parent), Arc::clone(&parent.node().tree().runtime));
    let release = async move {
        runtime.sleep_until(until).await;
        let now = runtime.now().max(until);
        member.node().with_supervision(|guardian| guardian.regroup.iter_mut().for_each(|plan| plan.release(now)));
        advance(&member);
    };
    // A parent that takes no task is ending, and its plan with it.
    drop(task::launch(parent, None, TaskKind::Pipe, release));
}

/// Whom `child`, which is down, waits for: the member of its group whose turn it is, else its supervisor, which rests. If the parent ends,
/// the sibling that ends now: the parent comes to this child afterwards.
pub(crate) fn waits_for(child: &Node) -> Option<Arc<dyn Member>> {
    let parent = child.parent()?;
    let waits = parent.node().known_supervision(|guardian| guardian.regroup.as_ref()?.waits_for(child.id()));
    match waits.flatten() {
        Some(None) => Some(Arc::clone(parent)),
        Some(turn) => turn,
        None => parent.node().ending_child(),
    }
}

/// Notes what `child` has to say to the plan it is part of, and goes on with that plan. True if it has halted out of its turn: the one
/// whose turn it is may be waiting for it. So it is if the parent ends its children, and has not come to this one yet.
pub(crate) fn report(child: &Node, report: Report) -> bool {
    let Some(parent) = child.parent() else { return false };
    match note(parent, child, report) {
        Some(out_of_turn) => {
            advance(parent);
            out_of_turn
        }
        None => report == Report::Halted && !parent.node().takes_children(),
    }
}

/// Notes it, if there is a plan; and whether it came out of turn.
fn note(parent: &Arc<dyn Member>, child: &Node, report: Report) -> Option<bool> {
    let noted = parent.node().known_supervision(|guardian| {
        let plan = guardian.regroup.as_mut()?;
        let out_of_turn = report == Report::Halted && plan.is_out_of_turn(child.id());
        plan.note(child.id(), report);
        Some(out_of_turn)
    });
    noted.flatten()
}

/// What a member does about an order of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It acts by itself, and reports when it is done.
    ByItself,
    /// It is a supervisor, and the plan for its own children comes next.
    ByPlan,
    /// There is nothing to do, and this is its report.
    AtOnce(Report),
}

/// Has a supervisor bring its children down, youngest first, to rest until [`start`]: its parent restarts it.
pub(crate) fn halt(supervisor: &Node) -> Progress {
    match supervisor.with_supervision(|guardian| guardian.regroup.as_ref().and_then(|plan| plan.rests())) {
        Some(true) => return Progress::AtOnce(Report::Halted),
        Some(false) => return Progress::ByItself,
        None => {}
    }
    let children = supervisor.children().into_iter().map(|member| (member.node().id(), member));
    let planned = supervisor.replan(|before| RestartPlan::new(children, before).ordered_from_above()).map(drop);
    // One that is ending leaves, and that is an answer as well.
    if planned.is_ok() { Progress::ByPlan } else { Progress::ByItself }
}

/// Has a supervisor that rests start its children, oldest first, with nothing counted against it.
pub(crate) fn start(supervisor: &Node) -> Progress {
    let (planned, refill) = supervisor.with_supervision(|guardian| {
        guardian.forget_restarts();
        let planned = guardian.regroup.as_mut().map(|plan| plan.start()).is_some();
        // Else at the end of the plan.
        (planned, if planned { None } else { guardian.take_refill() })
    });
    refill.into_iter().for_each(|refill| refill());
    supervisor.forget_given_up();
    if planned { Progress::ByPlan } else { Progress::AtOnce(Report::Started) }
}

/// A hook of `child` was cut off by the grace period. Members above that end or halt their children one after the other do so at the same
/// time from now on: the order is kept for hooks that return, and hooks that do not cost one grace period and not one each.
pub(crate) fn hurry_above(child: &Node) {
    for parent in child.upwards().filter_map(Node::parent) {
        parent.node().hurry_wind_down();
        let planned = parent.node().known_supervision(|guardian| guardian.regroup.as_mut().map(|plan| plan.hurry()));
        if planned.flatten().is_some() {
            advance(parent);
        }
    }
}

/// Restarts a supervisor alone, not before `wait` has passed: its children go down and up by a plan of its own, so that supervisors
/// beside it are not held up.
pub(crate) fn restart_supervisor(supervisor: &Arc<dyn Member>, wait: Duration) {
    let node = supervisor.node();
    let rests = node.with_supervision(|guardian| {
        guardian.forget_restarts();
        guardian.is_halted_from_above()
    });
    node.forget_given_up();
    // Whoever has it rest starts it again.
    if !rests {
        regroup(supervisor, node.children(), None, wait);
    }
}

/// Takes the steps that can be taken in the plan of `parent`, in the plans of supervisors below that it brings down or up, and in those
/// above that wait for it: a loop, because supervisors may be nested deeply.
pub(crate) fn advance(parent: &Arc<dyn Member>) {
    let mut at = Arc::clone(parent);
    // Each has told the next one, at last `at`, to halt or to start.
    let mut above: Vec<Arc<dyn Member>> = Vec::new();
    loop {
        match take_step(&at) {
            Taken::Done => continue,
            Taken::Below(child) => {
                above.push(core::mem::replace(&mut at, child));
                continue;
            }
            Taken::Nothing => {}
            Taken::Report(report) => {
                let Some(parent) = at.node().parent().cloned() else { return };
                let planned = note(&parent, at.node(), report).is_some();
                if above.is_empty() && planned {
                    at = parent;
                    continue;
                }
            }
        }
        let Some(back) = above.pop() else { return };
        at = back;
        stepped(at.node());
    }
}

/// What came of one step of a plan.
enum Taken {
    /// It was carried out, and the next may follow.
    Done,
    /// The plan of this supervisor comes next; the step is carried out when that goes no further.
    Below(Arc<dyn Member>),
    /// Whoever ordered the plan hears this.
    Report(Report),
    /// There is none for now.
    Nothing,
}

fn take_step(parent: &Arc<dyn Member>) -> Taken {
    let node = parent.node();
    let step = node.known_supervision(|guardian| {
        let step = guardian.regroup.as_mut()?.step();
        let is_done = matches!(step, Step::Done(_));
        let over = if is_done { guardian.regroup.take() } else { None };
        Some((step, over, if is_done { guardian.take_refill() } else { None }))
    });
    let Some((step, over, refill)) = step.flatten() else { return Taken::Nothing };
    drop(over);
    // Runs recipes of workers, which are user code.
    refill.into_iter().for_each(|refill| refill());
    let (child, obeyed) = match step {
        Step::Halt(child) => {
            let obeyed = Arc::clone(&child).halt();
            // The children of a supervisor have their turn one by one, and are looked at then.
            if obeyed == Progress::ByItself {
                waits::break_cycles_of(vec![Arc::clone(&child)]);
            }
            (child, obeyed)
        }
        Step::Await(child) => {
            waits::break_cycles_of(vec![Arc::clone(&child)]);
            (child, Progress::ByItself)
        }
        Step::Start(child) => (Arc::clone(&child), child.start_again()),
        Step::Rested => return Taken::Report(Report::Halted),
        Step::Done(true) => return Taken::Report(Report::Started),
        Step::Done(false) | Step::Wait => return Taken::Nothing,
    };
    match obeyed {
        Progress::ByPlan => return Taken::Below(child),
        Progress::AtOnce(report) => drop(note(parent, child.node(), report)),
        Progress::ByItself => {}
    }
    stepped(node);
    Taken::Done
}

fn stepped(node: &Node) {
    node.known_supervision(|guardian| guardian.regroup.iter_mut().for_each(|plan| plan.stepped()));
}
