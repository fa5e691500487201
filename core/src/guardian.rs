//! `Guardian`: the supervision state beside a parent. A child that fails gets its verdict here at once, in its own task, whatever the
//! parent's own code is doing; the parent merely hears of it as a signal.

use crate::node::Node;
use crate::supervise::{self, OneForOne};
use crate::{FailureInfo, Instant, Signal, SupervisorDirective};
use alloc::collections::VecDeque;

/// The strategy of one parent and the restarts it has counted.
#[derive(Default)]
pub(crate) struct Guardian {
    pub(crate) strategy: OneForOne,
    recent: VecDeque<Instant>,
}

/// What a failed child does next.
pub(crate) use crate::SupervisorDirective as Verdict;

/// Judges a failure of `child` by its parent's strategy. The record comes back with the figures it was judged by.
pub(crate) fn judge(child: &Node, failure: FailureInfo) -> (Verdict, FailureInfo) {
    let Some(parent) = child.parent() else { return (SupervisorDirective::Stop, failure) };
    let now = child.runtime().now();
    let decision = parent.node().with_guardian(|guardian| supervise::decide(&guardian.strategy, &mut guardian.recent, now));
    let failure = failure.with_restarts(decision.restarts, decision.window);
    parent.hear(Signal::Failure(failure.clone()));
    (decision.directive, failure)
}
