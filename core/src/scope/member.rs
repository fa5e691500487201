//! `ScopeMember`: the member behind scopes, supervisors and guardians. It has children and no task.
//!
//! What a failure of a child does depends on the role:
//!
//! | role | own action | passed up |
//! |---|---|---|
//! | `Scope`, `Run` | cancels all children | yes |
//! | `IsolatedScope` | records the failure | no |
//! | `Supervisor` | applies its strategy; stops all children if it gives up | on escalation |
//! | `Top` | records the failure as unhandled | no |
//!
//! How the member exits, when its last child has ended: `Failed` if a failure is recorded (not for
//! `Top`), else `Cancelled` if it was cancelled, else by its stop mode.

use crate::base::sync::{Arc, unsize};
use crate::base::time::Instant;
use crate::events::cause::{Cause, Exit};
use crate::events::failure::FailureInfo;
use crate::ids::name::Name;
use crate::tree::adopt;
use crate::tree::adopt::Refusal;
use crate::tree::facts::{MemberFacts, MemberKind, Work};
use crate::tree::member::{Member, ObservedMember, StopMode, SupervisedMember, WaitingMember};
use crate::tree::node::{Node, NodeParent};
use crate::tree::supervision::restart_together::Progress;
use crate::tree::supervision::{ChildAction, FailedMemberKind, FailureStep};
use crate::tree::{Tree, node, supervision, waits};
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

/// A member with children and without a task: a scope, a supervisor or a guardian.
pub(crate) struct ScopeMember {
    pub(super) node: Node,
    pub(super) role: ScopeRole,
    /// For observers only.
    pub(super) started: Instant,
}

/// What a failure of a child does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScopeRole {
    /// Cancels all children and passes the failure up.
    Scope,
    /// As `Scope`, for the members of one run of a graph.
    Run,
    /// Records the failure. The other children continue.
    IsolatedScope,
    /// Applies the strategy; after giving up, stops all children and passes the failure up.
    Supervisor,
    /// Reports the failure as unhandled. The other children continue.
    Top,
}

impl ScopeMember {
    /// Refuses new children and plans the stop of the present ones. Returns false if there are
    /// none, or if they are stopping in this mode already: planning again on every call would cost
    /// a pass over all children.
    fn plan_stop(&self, how: StopMode) -> bool {
        let begins = !self.node.is_stopping_with(how) && self.node.set_stop_mode(how);
        if begins {
            self.node.announce_closing();
            self.node.plan_stop(how);
        }
        begins
    }

    pub(crate) fn top(tree: &Arc<Tree>) -> Arc<Self> {
        let node = Node::new(NodeParent::Root(Arc::clone(tree)), tree.next_id(), Name::root());
        Arc::new(Self { node, role: ScopeRole::Top, started: tree.runtime.now() })
    }

    pub(crate) fn below(parent: &Arc<dyn Member>, name: Option<&str>, role: ScopeRole) -> Result<Arc<Self>, Refusal> {
        let (node, started) = (adopt::new_node(parent.node().tree(), parent, name)?, parent.node().runtime().now());
        let member = Arc::new(Self { node, role, started });
        adopt::adopt(parent, unsize!(Arc::clone(&member) => dyn Member))?;
        Ok(member)
    }

    pub(super) fn as_member(this: &Arc<Self>) -> Arc<dyn Member> {
        unsize!(Arc::clone(this) => dyn Member)
    }

    /// Leaves the tree if no child is left to wait for.
    fn exit_if_childless(&self, this: &Arc<dyn Member>) {
        if !self.node.has_children()
            && let Some(exit) = self.exit_when_childless()
        {
            node::leave(this, &exit);
        }
    }
}

impl Member for ScopeMember {
    fn node(&self) -> &Node {
        &self.node
    }

    fn stop_with(&self, this: &Arc<dyn Member>, how: StopMode) {
        if self.plan_stop(how) {
            self.node.stop_next_child();
        }
        self.finish_stop(this);
    }

    fn begin_stop(&self, this: &Arc<dyn Member>, how: StopMode) -> bool {
        let begins = self.plan_stop(how);
        if !begins && self.node.has_children() {
            // The children are stopping already. Siblings that stop after this one wait for it from
            // now on.
            waits::break_cycles_of(vec![Arc::clone(this)]);
        }
        begins
    }

    fn finish_stop(&self, this: &Arc<dyn Member>) {
        self.exit_if_childless(this);
    }

    fn on_cancel(&self, this: &Arc<dyn Member>) {
        self.node.refuse_children();
        self.exit_if_childless(this);
    }

    fn exit_when_childless(&self) -> Option<Exit> {
        if let Some(failure) = self.node.first_failure().filter(|_| self.role != ScopeRole::Top) {
            return Some(Exit::Failed(failure));
        }
        if let Some(cause) = self.node.cause() {
            return Some(Exit::Cancelled(cause));
        }
        self.node.stop_mode().map(StopMode::exit)
    }

    fn halt(&self, this: &Arc<dyn Member>) -> Progress {
        if self.role == ScopeRole::Supervisor {
            return supervision::halt(&self.node);
        }
        self.stop_with(this, StopMode::Stop);
        Progress::Pending
    }
}

impl ObservedMember for ScopeMember {
    fn facts(&self) -> MemberFacts {
        let is_pool = || self.node.existing_supervision(|supervision| supervision.pool_size.is_some()) == Some(true);
        let kind = match self.role {
            ScopeRole::Top if self.node.name.is_root() => MemberKind::Root,
            ScopeRole::Top => MemberKind::Guardian,
            ScopeRole::Supervisor if is_pool() => MemberKind::Pool,
            ScopeRole::Supervisor => MemberKind::Supervisor,
            ScopeRole::Scope | ScopeRole::IsolatedScope => MemberKind::Scope,
            ScopeRole::Run => MemberKind::Run,
        };
        MemberFacts { started: Some(self.started), ..MemberFacts::new(kind, Work::Open) }
    }
}

impl SupervisedMember for ScopeMember {
    fn child_failed(&self, this: &Arc<dyn Member>, failure: FailureInfo) -> FailureStep {
        match self.role {
            ScopeRole::Top => {
                self.node.keep_first_failure(&failure);
                self.node.tree().handle_at_root(failure);
                FailureStep::default()
            }
            // A supervisor that has failed and is stopping ignores further failures of its
            // children.
            ScopeRole::Supervisor if self.node.is_failing() => FailureStep::default(),
            ScopeRole::Supervisor => supervision::judge_and_apply(this, FailedMemberKind::Supervisor, failure),
            ScopeRole::Scope | ScopeRole::Run | ScopeRole::IsolatedScope => {
                self.apply_action(this, ChildAction::Stop, failure.clone());
                // A member above cannot restart a failed scope, so the failure goes up as it is.
                let above = self.node.parent().filter(|_| self.passes_failures_up());
                let next = above.map(|above| (Arc::clone(above), failure.escalated_to(above)));
                FailureStep { next, escalated: None }
            }
        }
    }

    fn apply_action(&self, this: &Arc<dyn Member>, action: ChildAction, failure: FailureInfo) {
        match action {
            ChildAction::Stop | ChildAction::Escalate { .. } => {}
            ChildAction::Restart(wait) => {
                self.node.note_failure(&failure);
                return supervision::restart_supervisor(this, wait);
            }
            ChildAction::Resume | ChildAction::Wait(_) => return,
        }
        self.node.keep_first_failure(&failure);
        self.node.note_failure(&failure);
        match self.role {
            ScopeRole::Top | ScopeRole::IsolatedScope => {}
            ScopeRole::Scope | ScopeRole::Run => node::cancel(this, &Cause::Failed(failure)),
            ScopeRole::Supervisor => self.stop_with(this, StopMode::Stop),
        }
    }

    fn start_again(&self) -> Progress {
        supervision::start(&self.node)
    }

    fn restarts_children(&self) -> bool {
        self.role == ScopeRole::Supervisor
    }

    fn survives_child_failures(&self) -> bool {
        matches!(self.role, ScopeRole::Top | ScopeRole::IsolatedScope)
    }

    fn passes_failures_up(&self) -> bool {
        self.role != ScopeRole::IsolatedScope
    }

    fn request_restart(&self, this: &Arc<dyn Member>) -> bool {
        let restarts = self.role == ScopeRole::Supervisor;
        if restarts {
            supervision::restart_supervisor(this, Duration::ZERO);
        }
        restarts
    }
}

impl WaitingMember for ScopeMember {
    fn waits_for(&self) -> Vec<Arc<dyn Member>> {
        if self.waits_for_children() { self.node.children() } else { supervision::waits_for(&self.node).into_iter().collect() }
    }

    fn waits_for_children(&self) -> bool {
        // A supervisor that has halted its children waits for the member that halted it, not for
        // them.
        self.node.existing_supervision(|supervision| supervision.has_halted()) != Some(true)
    }
}
