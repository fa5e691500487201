//! [`Member`]: what the tree needs from everything that has a node.
//!
//! Implementations: actor cells, scopes and supervisors, tasks, blocking jobs, producers, groups. A
//! member without its own task (a scope) does its work inside these calls. A member with a task (an
//! actor) records the order and wakes its task.
//!
//! Four traits, by caller. The last three are supertraits of `Member`, so a `dyn Member` has all
//! methods in one table:
//!
//! | trait | called by | overridden by |
//! |---|---|---|
//! | [`Member`] | `node`, `AnyRef`, restart plans | every member |
//! | [`SupervisedMember`] | `supervision`, `node`, `child` | actors, scopes and supervisors |
//! | [`WaitingMember`] | `waits`, replies | actors, scopes, tasks, groups |
//! | [`ObservedMember`] | snapshots, health, samplers | every member |
//!
//! A method that needs the shared pointer of its member gets it as `this`. A receiver
//! `self: Arc<Self>` would need the pointer of `alloc`, which does not exist on every target.

use crate::base::sync::Arc;
use crate::base::time::Instant;
use crate::events::cause::Exit;
use crate::events::counts::Counts;
use crate::events::failure::FailureInfo;
use crate::events::signal::Signal;
use crate::tree::facts::MemberFacts;
use crate::tree::node::Node;
use crate::tree::reserve::SealError;
use crate::tree::supervision::restart_together::Progress;
use crate::tree::supervision::{ChildAction, FailureStep};
use crate::tree::waits::edges::{Awaited, WaitEdges};
use crate::tree::waits::{Edge, Unanswered};
use crate::tree::watch;
use alloc::vec::Vec;
use core::any::Any;

/// A member of the tree: its node, and the ways to end it.
pub(crate) trait Member: SupervisedMember + WaitingMember + ObservedMember + Any + Send + Sync {
    /// Returns the node of this member.
    fn node(&self) -> &Node;

    /// Ends the member in order, on behalf of its parent: an actor after its current message
    /// (`Stop`) or after all queued messages (`Close`).
    fn stop_with(&self, this: &Arc<dyn Member>, mode: StopMode);

    /// Starts to stop a member that has no task. Returns true if its children must be stopped next,
    /// followed by `finish_stop`. Default: calls `stop_with` and returns false.
    fn begin_stop(&self, this: &Arc<dyn Member>, mode: StopMode) -> bool {
        self.stop_with(this, mode);
        false
    }

    /// Continues after `begin_stop`: the children have ended or have the order to end. Default:
    /// nothing.
    fn finish_stop(&self, _this: &Arc<dyn Member>) {}

    /// Reacts to a cancel, whose cause is already recorded in the node: the member ends at its next
    /// await.
    fn on_cancel(&self, this: &Arc<dyn Member>);

    /// Called when the last child has left while the node accepts no new ones. A member without a
    /// task returns its exit; others return `None`.
    fn exit_when_childless(&self) -> Option<Exit>;

    /// Stops the member on behalf of a user, not of its supervisor. A permanent child starts again
    /// afterwards. Default: `stop_with`.
    fn request_stop(&self, this: &Arc<dyn Member>, mode: StopMode) {
        self.stop_with(this, mode);
    }

    /// Ends the current incarnation, reports it to the parent's restart plan, and waits for
    /// `start_again`. Default: stops the member, because it cannot start again.
    fn halt(&self, this: &Arc<dyn Member>) -> Progress {
        self.stop_with(this, StopMode::Stop);
        Progress::Pending
    }

    /// Checks whether all that the member will need can be allocated. Default: it can.
    fn check_reserve(&self) -> Result<(), SealError> {
        Ok(())
    }

    /// Allocates what the member will need, because its system is being sealed. Default: nothing.
    fn reserve(&self) {}

    /// Returns the message counts of this member. Default: zero, for members without messages.
    fn counts(&self) -> Counts {
        Counts::default()
    }

    /// Returns whether this member is inside of a poll at this moment. Default: false.
    fn in_poll(&self) -> bool {
        false
    }
}

/// How a member reacts to failures, restarts and signals. The defaults fit a member that neither
/// supervises nor restarts.
pub(crate) trait SupervisedMember {
    /// Handles a failure of a child that the child's supervision did not resolve. Default: ignores
    /// it.
    fn child_failed(&self, _this: &Arc<dyn Member>, _failure: FailureInfo) -> FailureStep {
        FailureStep::default()
    }

    /// Applies the decision about this member, after a failure of a child became its own. Default:
    /// nothing.
    fn apply_action(&self, _this: &Arc<dyn Member>, _action: ChildAction, _failure: FailureInfo) {}

    /// Starts the next incarnation and reports it to the parent's restart plan. Default: nothing.
    fn start_again(&self) -> Progress {
        Progress::Pending
    }

    /// Returns whether its children restart when it does. Default: false.
    fn restarts_children(&self) -> bool {
        false
    }

    /// Returns whether siblings continue when a child has failed and is not restarted. Default:
    /// false.
    fn survives_child_failures(&self) -> bool {
        false
    }

    /// Returns whether a failure of this member goes to its parent. Default: true.
    fn passes_failures_up(&self) -> bool {
        true
    }

    /// Restarts the member on behalf of a user. Returns false if it cannot restart, which is the
    /// default.
    fn request_restart(&self, _this: &Arc<dyn Member>) -> bool {
        false
    }

    /// Suspends or resumes the member on behalf of a user. Returns false if it cannot be suspended,
    /// which is the default.
    fn request_suspend(&self, _suspended: bool) -> bool {
        false
    }

    /// Returns whether this member wants signals. Default: false; only actors with a `signal` hook
    /// want them.
    fn wants_signals(&self) -> bool {
        false
    }

    /// Delivers a signal: a child failed or a watched member ended. Default: nothing; only actors
    /// receive signals.
    fn notify(&self, _signal: Signal) {}
}

/// What a member waits for. The defaults fit a member that waits for nothing.
pub(crate) trait WaitingMember {
    /// Keeps a reply that was dropped unanswered inside a poll of this member, until the outcome of
    /// the handler is known. Default: returns it.
    fn keep_unanswered(&self, unanswered: Arc<dyn Unanswered>) -> Result<(), Arc<dyn Unanswered>> {
        Err(unanswered)
    }

    /// Returns the wait edges of a member in whose polls many futures may wait independently.
    /// Default: `None`.
    fn wait_edges(&self) -> Option<&WaitEdges> {
        None
    }

    /// Returns what this member awaits in its task, oldest first: answers, room in a mailbox,
    /// exits. A member with many tasks may return one open edge per target.
    fn edges(&self) -> Vec<Edge> {
        self.wait_edges().map_or_else(Vec::new, WaitEdges::open)
    }

    /// Returns the members that the tree makes this member wait for: stopping children, or members
    /// of its restart plan. Default: empty.
    fn waits_for(&self) -> Vec<Arc<dyn Member>> {
        Vec::new()
    }

    /// Returns whether `waits_for` contains all its children. Default: false.
    fn waits_for_children(&self) -> bool {
        false
    }

    /// Adds an edge, because a future inside this member starts to wait.
    fn begin_wait(&self, edge: Edge) {
        if let Some(edges) = self.wait_edges() {
            edges.begin(edge);
        }
    }

    /// Removes an edge that `begin_wait` added.
    fn end_wait(&self, edge: &Edge) {
        if let Some(edges) = self.wait_edges() {
            edges.end(edge);
        }
    }

    /// Returns whether a wait for `awaited` of this group is still pending. Default: false; only
    /// groups override it.
    fn is_wait_pending(&self, _awaited: Awaited) -> bool {
        false
    }

    /// Returns whether the send with this key still waits for room in this member's mailbox.
    /// Default: false.
    fn has_waiting_send(&self, _key: u64) -> bool {
        false
    }

    /// Accepts the send with this key if it still waits. Returns true if that exceeded the capacity
    /// of the mailbox. Default: false.
    fn admit_send(&self, _key: u64) -> bool {
        false
    }
}

/// What observers read of a member. No call here has an effect that its code could notice.
pub(crate) trait ObservedMember {
    /// Returns what an observer may know: reads the state of this member once.
    fn facts(&self) -> MemberFacts;

    /// Returns where an actor is, if it runs a handler now; see `watch`. Default: `None`.
    fn handler_progress(&self) -> Option<watch::Progress> {
        None
    }

    /// Notes whether an actor is in the list of busy actors. Returns what was noted before.
    fn set_watched(&self, _is_watched: bool) -> bool {
        false
    }

    /// Notes that the running handler, which began at `since`, was reported as stuck.
    fn mark_stuck(&self, _since: Instant) {}
}

/// The two ways to end a member in order. The third way is [`cancel`](crate::tree::node::cancel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopMode {
    /// After the current message.
    Stop,
    /// After all queued messages.
    Close,
}

impl StopMode {
    /// Returns the exit of a member that ended this way.
    pub(crate) fn exit(self) -> Exit {
        match self {
            Self::Stop => Exit::Stopped,
            Self::Close => Exit::Closed,
        }
    }
}
