//! DOC

use crate::events::cause::{Cause, Exit};
use crate::events::failure::FailureInfo;
use crate::ids::name::Name;
use crate::tree::adopt;
use crate::tree::adopt::Refusal;
use crate::tree::member::{Member, StopMode};
use crate::tree::node::{Node, NodeParent};
use crate::tree::supervision::restart_together::Progress;
use crate::tree::supervision::{ChildAction, FailedChild, FailureStep};
use crate::tree::{Tree, node, supervision, waits};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

/// What stands in the tree for a scope, a supervisor or a guardian: a node with children and no task.
pub(crate) struct ScopeMember {
    pub(super) node: Node,
    pub(super) role: ScopeRole,
}

/// What a failure of a child means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScopeRole {
    /// Everything in it is cancelled.
    Scope,
    /// Nothing else happens.
    IsolatedScope,
    /// Its children are stopped, and the failure goes up.
    Supervisor,
    /// The failure ends here: it is on record, and everything else goes on.
    Top,
}

impl ScopeMember {
    /// Takes no more children and plans the end of those there are. False if there are none, or if they end like this already: making the
    /// plan again for every call would cost as much as all children.
    fn plan_stop(&self, how: StopMode) -> bool {
        let begins = !self.node.is_stopping_by(how) && self.node.note_stop(how);
        if begins {
            self.node.announce_closing();
            self.node.plan_stop(how);
        }
        begins
    }

    pub(crate) fn top(tree: &Arc<Tree>) -> Arc<Self> {
        let node = Node::new(NodeParent::Root(Arc::clone(tree)), tree.next_id(), Name::root());
        Arc::new(Self { node, role: ScopeRole::Top })
    }

    pub(crate) fn below(parent: &Arc<dyn Member>, name: Option<&str>, role: ScopeRole) -> Result<Arc<Self>, Refusal> {
        let member = Arc::new(Self { node: adopt::new_node(parent.node().tree(), parent, name)?, role });
        adopt::adopt(parent, Arc::clone(&member) as Arc<dyn Member>)?;
        Ok(member)
    }

    pub(super) fn as_member(self: &Arc<Self>) -> Arc<dyn Member> {
        Arc::clone(self) as Arc<dyn Member>
    }

    /// Leaves the tree if nothing is left to wait for.
    fn exit_if_childless(self: &Arc<Self>) {
        if !self.node.has_children()
            && let Some(exit) = self.exit_when_childless()
        {
            node::leave(&self.as_member(), &exit);
        }
    }
}

impl Member for ScopeMember {
    fn node(&self) -> &Node {
        &self.node
    }

    fn stop_by(self: Arc<Self>, how: StopMode) {
        if self.plan_stop(how) {
            self.node.stop_next_child();
        }
        self.finish_stop();
    }

    fn begin_stop(self: Arc<Self>, how: StopMode) -> bool {
        let begins = self.plan_stop(how);
        if !begins && self.node.has_children() {
            // Its children are ending already. Siblings that end after it wait for that from now on.
            waits::break_cycles_of(vec![self]);
        }
        begins
    }

    fn finish_stop(self: Arc<Self>) {
        self.exit_if_childless();
    }

    fn on_cancel(self: Arc<Self>) {
        self.node.refuse_children();
        self.exit_if_childless();
    }

    fn exit_when_childless(&self) -> Option<Exit> {
        if let Some(failure) = self.node.first_failure().filter(|_| self.role != ScopeRole::Top) {
            return Some(Exit::Failed(failure));
        }
        if let Some(cause) = self.node.cause() {
            return Some(Exit::Cancelled(cause));
        }
        self.node.noted_stop().map(StopMode::exit)
    }

    fn child_failed(self: Arc<Self>, failure: FailureInfo) -> FailureStep {
        match self.role {
            ScopeRole::Top => {
                self.node.record_failure(&failure);
                self.node.tree().unhandled(failure);
                FailureStep::default()
            }
            // One that has failed and is stopping needs no second verdict, however many of its children fail meanwhile.
            ScopeRole::Supervisor if self.node.is_failing() => FailureStep::default(),
            ScopeRole::Supervisor => supervision::settle(self, FailedChild::Supervisor, failure),
            ScopeRole::Scope | ScopeRole::IsolatedScope => {
                Arc::clone(&self).carry_out(ChildAction::Stop, failure.clone());
                // What failed in a scope cannot be started again by whoever is above: it is theirs to fail.
                let above = self.node.parent().filter(|_| self.role == ScopeRole::Scope);
                let next = above.map(|above| (Arc::clone(above), failure.handed_to(above)));
                FailureStep { next, handed_up: None }
            }
        }
    }

    fn carry_out(self: Arc<Self>, action: ChildAction, failure: FailureInfo) {
        match action {
            ChildAction::Stop | ChildAction::Escalate { .. } => {}
            ChildAction::Restart(wait) => return supervision::restart_supervisor(&self.as_member(), wait),
            ChildAction::Resume | ChildAction::Wait(_) => return,
        }
        self.node.record_failure(&failure);
        match self.role {
            ScopeRole::Top | ScopeRole::IsolatedScope => {}
            ScopeRole::Scope => node::cancel(&self.as_member(), &Cause::Failed(failure)),
            ScopeRole::Supervisor => self.stop_by(StopMode::Stop),
        }
    }

    fn halt(self: Arc<Self>) -> Progress {
        if self.role == ScopeRole::Supervisor {
            return supervision::halt(&self.node);
        }
        self.stop_by(StopMode::Stop);
        Progress::ByItself
    }

    fn start_again(self: Arc<Self>) -> Progress {
        supervision::start(&self.node)
    }

    fn waits_for(&self) -> Vec<Arc<dyn Member>> {
        if self.waits_for_children() { self.node.children() } else { supervision::waits_for(&self.node).into_iter().collect() }
    }

    fn waits_for_children(&self) -> bool {
        // One that has brought its children down waits for whoever has it rest.
        self.node.known_supervision(|supervision| supervision.rests()) != Some(true)
    }

    fn restarts_children(&self) -> bool {
        self.role == ScopeRole::Supervisor
    }

    fn survives_child_failures(&self) -> bool {
        matches!(self.role, ScopeRole::Top | ScopeRole::IsolatedScope)
    }

    fn restart(self: Arc<Self>) -> bool {
        let restarts = self.role == ScopeRole::Supervisor;
        if restarts {
            supervision::restart_supervisor(&self.as_member(), Duration::ZERO);
        }
        restarts
    }
}
