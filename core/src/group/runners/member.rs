//! A group on the runtime as a member of the tree: how it ends, and what it waits for.

use crate::base::sync::Arc;
use crate::events::cause::{Cause, Exit};
use crate::group::executor;
use crate::group::executor::Executor;
use crate::group::runners::RunnerExecutor;
use crate::group::runners::scheduler::Ready;
use crate::group::state::GroupState;
use crate::tree::facts::{EDGES_OBSERVED_MAX, MemberFacts, MemberKind, Work};
use crate::tree::member::{Member, ObservedMember, StopMode, SupervisedMember, WaitingMember};
use crate::tree::node;
use crate::tree::node::Node;
use crate::tree::waits::edges::{Awaited, WaitEdges};
use alloc::collections::VecDeque;

impl<T: Send + 'static> Member for RunnerExecutor<T> {
    fn node(&self) -> &Node {
        &self.node
    }

    /// Close waits for the tasks. Stop cancels them, because a task has no other orderly end.
    fn stop_with(&self, this: &Arc<dyn Member>, how: StopMode) {
        match how {
            StopMode::Close => Self::pointed_by(this).with_state(GroupState::close),
            StopMode::Stop => node::cancel(this, &Cause::Cancelled),
        }
    }

    fn on_cancel(&self, this: &Arc<dyn Member>) {
        let executor = Self::pointed_by(this);
        let cause = self.node.cause().unwrap_or(Cause::Cancelled);
        let unstarted = Self::with(&executor, false, |scheduler, wakes| {
            // After the first cancel, only tasks in grace are ready.
            let is_first = scheduler.group.cause().is_none();
            scheduler.group.cancel(&cause, wakes);
            if is_first { core::mem::take(&mut scheduler.ready) } else { VecDeque::new() }
        });
        for ready in unstarted {
            let Ready::New(future, number) = ready else { continue };
            let result = executor::drop_cancelled(&executor, future, number, cause.clone());
            executor::discard(Self::with(&executor, false, |scheduler, wakes| scheduler.group.complete(result, wakes)));
        }
    }

    fn exit_when_childless(&self) -> Option<Exit> {
        None
    }

    fn in_poll(&self) -> bool {
        self.scheduler.with(|scheduler| scheduler.polling > 0)
    }
}

impl<T: Send + 'static> ObservedMember for RunnerExecutor<T> {
    fn facts(&self) -> MemberFacts {
        let work = if self.in_poll() { Work::Running } else { Work::Waiting };
        let (edges, count) = self.edges.first(EDGES_OBSERVED_MAX);
        MemberFacts::new(MemberKind::Group, work).with_edges(edges, count)
    }
}

impl<T: Send + 'static> SupervisedMember for RunnerExecutor<T> {
    /// Failures of its tasks are read from the group.
    fn passes_failures_up(&self) -> bool {
        false
    }
}

impl<T: Send + 'static> WaitingMember for RunnerExecutor<T> {
    /// A group waits for everything that its tasks wait for.
    fn wait_edges(&self) -> Option<&WaitEdges> {
        Some(&self.edges)
    }

    fn is_wait_pending(&self, awaited: Awaited) -> bool {
        self.scheduler.with(|scheduler| scheduler.group.is_wait_pending(awaited))
    }
}
