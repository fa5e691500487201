//! `Member`: whatever stands in the tree, and what the tree asks of it.

use crate::events::cause::Exit;
use crate::events::counts::Counts;
use crate::events::failure::FailureInfo;
use crate::events::signal::Signal;
use crate::tree::node::Node;
use crate::tree::supervision::restart_together::Progress;
use crate::tree::supervision::{ChildAction, FailureStep};
use crate::tree::waits::edges::{Awaited, KeptEdges};
use crate::tree::waits::{Edge, Unanswered};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;

/// Something that stands in the tree.
pub(crate) trait Member: Any + Send + Sync {
    fn node(&self) -> &Node;

    /// End in an orderly way: an actor after the message in hand (stop) or after all it has (close).
    fn stop_by(self: Arc<Self>, how: StopMode);

    /// The first half of `stop_by` of a member with no task of its own: its children end next, then comes `finish_stop`. False if the member
    /// sees to all of it by itself.
    fn begin_stop(self: Arc<Self>, how: StopMode) -> bool {
        self.stop_by(how);
        false
    }

    /// Its children have ended, or were told to.
    fn finish_stop(self: Arc<Self>) {}

    /// A cause has been recorded on the node; end at the next await.
    fn on_cancel(self: Arc<Self>);

    /// The last child is gone while the node refuses new ones. A member with no task of its own answers with its exit.
    fn exit_when_childless(&self) -> Option<Exit>;

    /// A failure that a child's supervision did not settle, as this member sees it.
    fn child_failed(self: Arc<Self>, _failure: FailureInfo) -> FailureStep {
        FailureStep::default()
    }

    /// What was decided about this member after a failure below became its own.
    fn carry_out(self: Arc<Self>, _verdict: ChildAction, _failure: FailureInfo) {}

    /// Somebody who is not its supervisor wants it to end. A permanent child starts again after that.
    fn request_stop(self: Arc<Self>, how: StopMode) {
        self.stop_by(how);
    }

    /// End the incarnation, say so to the guardian above, and wait for `start_again`. What cannot start again ends for good.
    fn halt(self: Arc<Self>) -> Progress {
        self.stop_by(StopMode::Stop);
        Progress::ByItself
    }

    /// Begin the next incarnation, and say so to the guardian above.
    fn start_again(self: Arc<Self>) -> Progress {
        Progress::ByItself
    }

    /// Whether its children start again when it does.
    fn restarts_children(&self) -> bool {
        false
    }

    /// Whether nobody but the child ends when a child has failed for good.
    fn survives_child_failures(&self) -> bool {
        false
    }

    /// Start afresh because somebody asked for it. False if this cannot.
    fn restart(self: Arc<Self>) -> bool {
        false
    }

    /// Whether this member listens to signals.
    fn wants_signals(&self) -> bool {
        false
    }

    /// Something happened around this member: a child failed, something it watches ended. Only actors listen.
    fn notify(&self, _signal: Signal) {}

    /// What became of the messages of this member; zero for what has none.
    fn counts(&self) -> Counts {
        Counts::default()
    }

    /// Whether it is inside a poll at this moment.
    fn in_poll(&self) -> bool {
        false
    }

    /// A reply was dropped unanswered inside a poll of this member: hold it until the outcome is known, if there will be one.
    fn hold_unanswered(&self, unanswered: Arc<dyn Unanswered>) -> Result<(), Arc<dyn Unanswered>> {
        Err(unanswered)
    }

    /// Where a member keeps its edges in whose polls many futures may wait independently of each other.
    fn kept_edges(&self) -> Option<&KeptEdges> {
        None
    }

    /// The asks, the sends without room, and the ends that this member awaits in its own task; the oldest first. One with many tasks may
    /// give a single edge that is open for each target.
    fn edges(&self) -> Vec<Edge> {
        self.kept_edges().map_or_else(Vec::new, KeptEdges::open)
    }

    /// Whom this member waits for before it can answer anybody: children that end, a group that goes down.
    fn waits_for(&self) -> Vec<Arc<dyn Member>> {
        Vec::new()
    }

    /// Whether all its children are among those.
    fn waits_for_children(&self) -> bool {
        false
    }

    fn begin_wait(&self, edge: Edge) {
        if let Some(edges) = self.kept_edges() {
            edges.begin(edge);
        }
    }

    fn end_wait(&self, edge: &Edge) {
        if let Some(edges) = self.kept_edges() {
            edges.end(edge);
        }
    }

    /// Whether somebody who awaits this of it, as a group, has to wait.
    fn holds_up(&self, _awaited: Awaited) -> bool {
        false
    }

    /// Whether the send with this key waits for room in the member's mailbox.
    fn has_waiting_send(&self, _key: u64) -> bool {
        false
    }

    /// Admits the send with this key if it still waits. True if that took the mailbox beyond its capacity.
    fn admit_send(&self, _key: u64) -> bool {
        false
    }
}

/// The two orderly ways to end; the third way, cancel, is [`cancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopMode {
    Stop,
    Close,
}

impl StopMode {
    pub(crate) fn exit(self) -> Exit {
        match self {
            Self::Stop => Exit::Stopped,
            Self::Close => Exit::Closed,
        }
    }
}
