//! [`NodeState`]: the data behind the lock of a node.
//!
//! It is small, because every idle actor has one. Data that few nodes need is boxed:
//!
//! ```text
//! Plain ──cancel──► Cancelled ──details──► Detailed
//!   └────────────────details────────────────▲
//! ```
//!
//! | level | holds | created by |
//! |---|---|---|
//! | [`NodeStatus`] | phase and kind of exit | always |
//! | [`CancelRecord`] | cause and time of a cancel; one for all members it reached | `set_cancel` |
//! | [`NodeDetails`] | exit waiters, child table | `details` |
//! | [`RareDetails`] | failure, callbacks, watchers, tokens, annotations | `rare_details` |
//!
//! The methods `existing_…` return a level only if it exists; the others create it.

use crate::base::sync::Arc;
use crate::base::time::Instant;
use crate::base::wakers::Wakers;
use crate::events::cause::{Cause, Exit};
use crate::events::failure::FailureInfo;
use crate::ids::path::ActorPath;
use crate::tree::node::OnDone;
use crate::tree::node::children::ChildTable;
use crate::tree::node::watchers::WatchRegistry;
use crate::tree::token::CancelToken;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// The state of a node: two words. An exit takes one byte; its cause or failure is stored where it
/// was recorded.
pub(super) enum NodeState {
    /// No further data, as most nodes for their whole life.
    Plain(NodeStatus),
    /// Cancelled, with no further data. The record is shared by all members that the cancel
    /// reached, so cancelling many members allocates only once.
    Cancelled(NodeStatus, Arc<CancelRecord>),
    /// With boxed data.
    Detailed(NodeStatus, Box<NodeDetails>),
}

/// The phase of a node, and the kind of its exit.
#[derive(Clone, Copy)]
pub(super) struct NodeStatus {
    pub(super) phase: NodePhase,
    pub(super) exit: Option<ExitKind>,
}

/// The phase of a node; see the drawing in the module `node`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NodePhase {
    Open,
    Closing,
    Exited,
    Gone,
}

/// An [`Exit`] without its cause or failure.
#[derive(Clone, Copy)]
pub(super) enum ExitKind {
    Stopped,
    Closed,
    Cancelled,
    TidiedUp,
    Failed,
}

/// The data of a node with children or waiters. Small, because awaiting an exit is common.
#[derive(Default)]
pub(super) struct NodeDetails {
    pub(super) exit_waiters: Wakers,
    pub(super) table: Option<Box<ChildTable>>,
    pub(super) rare: Option<Box<RareDetails>>,
    pub(super) cancel: Option<Arc<CancelRecord>>,
}

/// The data of a node that failed or has callbacks, watchers, tokens or annotations.
#[derive(Default)]
pub(super) struct RareDetails {
    pub(super) failure: Option<FailureInfo>,
    /// The last failure of the member, for observers.
    pub(super) last_failure: Option<FailureInfo>,
    /// Records for the next failures. Only in a sealed system.
    pub(super) unused_failures: Vec<FailureInfo>,
    /// Set when the system is sealed.
    pub(super) reserved_path: Option<ActorPath>,
    pub(super) on_done: Vec<OnDone>,
    pub(super) watchers: Option<Box<WatchRegistry>>,
    pub(super) watching: Option<Box<WatchRegistry>>,
    pub(super) token: Option<CancelToken>,
    /// The token of the last hook, and its incarnation.
    pub(super) last_token: Option<(u32, CancelToken)>,
    /// Cancelled when the node starts to end, in any way.
    pub(super) closing: Option<CancelToken>,
    /// The token above this node, and the key of its registration there.
    pub(super) token_above: Option<(CancelToken, usize)>,
    /// Metadata for every failure of one incarnation, and that incarnation.
    pub(super) annotations: Option<(u32, BTreeMap<String, String>)>,
}

/// The cause and the time of a cancel.
pub(super) struct CancelRecord {
    pub(super) cause: Cause,
    pub(super) at: Instant,
}

/// At most once per node, so it is kept out of the hot path.
#[cold]
#[inline(never)]
fn boxed_default<T: Default>() -> Box<T> {
    Box::default()
}

impl NodeState {
    pub(super) fn new() -> Self {
        Self::Plain(NodeStatus { phase: NodePhase::Open, exit: None })
    }

    #[inline]
    pub(super) fn status(&self) -> &NodeStatus {
        let (Self::Plain(status) | Self::Cancelled(status, _) | Self::Detailed(status, _)) = self;
        status
    }

    #[inline]
    pub(super) fn status_mut(&mut self) -> &mut NodeStatus {
        let (Self::Plain(status) | Self::Cancelled(status, _) | Self::Detailed(status, _)) = self;
        status
    }

    #[inline]
    pub(super) fn details(&mut self) -> &mut NodeDetails {
        if !matches!(self, Self::Detailed(..)) {
            self.make_details();
        }
        match self {
            Self::Detailed(_, details) => details,
            Self::Plain(_) | Self::Cancelled(..) => unreachable!("make_details has created the details"),
        }
    }

    /// At most once per node, so it is kept out of the hot path.
    #[cold]
    #[inline(never)]
    fn make_details(&mut self) {
        let status = *self.status();
        let cancel = match core::mem::replace(self, Self::Plain(status)) {
            Self::Cancelled(_, cancel) => Some(cancel),
            Self::Plain(_) | Self::Detailed(..) => None,
        };
        *self = Self::Detailed(status, Box::new(NodeDetails { cancel, ..NodeDetails::default() }));
    }

    #[inline]
    pub(super) fn existing_details(&self) -> Option<&NodeDetails> {
        match self {
            Self::Detailed(_, details) => Some(details),
            Self::Plain(_) | Self::Cancelled(..) => None,
        }
    }

    #[inline]
    pub(super) fn existing_details_mut(&mut self) -> Option<&mut NodeDetails> {
        match self {
            Self::Detailed(_, details) => Some(details),
            Self::Plain(_) | Self::Cancelled(..) => None,
        }
    }

    #[inline]
    pub(super) fn cancel(&self) -> Option<&Arc<CancelRecord>> {
        match self {
            Self::Plain(_) => None,
            Self::Cancelled(_, cancel) => Some(cancel),
            Self::Detailed(_, details) => details.cancel.as_ref(),
        }
    }

    /// Records that a cancel reached this node. The first one stays.
    pub(super) fn set_cancel(&mut self, cancel: &Arc<CancelRecord>) {
        match self {
            Self::Plain(status) => *self = Self::Cancelled(*status, Arc::clone(cancel)),
            Self::Cancelled(..) => {}
            Self::Detailed(_, details) => drop(details.cancel.get_or_insert_with(|| Arc::clone(cancel))),
        }
    }

    #[inline]
    pub(super) fn child_table(&mut self) -> &mut ChildTable {
        self.details().table.get_or_insert_with(boxed_default)
    }

    pub(super) fn rare_details(&mut self) -> &mut RareDetails {
        self.details().rare.get_or_insert_with(boxed_default)
    }

    pub(super) fn existing_rare(&self) -> Option<&RareDetails> {
        self.existing_details()?.rare.as_deref()
    }

    pub(super) fn existing_rare_mut(&mut self) -> Option<&mut RareDetails> {
        self.existing_details_mut()?.rare.as_deref_mut()
    }

    pub(super) fn existing_children(&self) -> Option<&ChildTable> {
        self.existing_details()?.table.as_deref()
    }

    pub(super) fn existing_children_mut(&mut self) -> Option<&mut ChildTable> {
        self.existing_details_mut()?.table.as_deref_mut()
    }

    #[inline]
    pub(super) fn set_exit(&mut self, exit: &Exit, now: impl FnOnce() -> Instant) {
        let kind = match exit {
            Exit::Stopped => ExitKind::Stopped,
            Exit::Closed => ExitKind::Closed,
            Exit::Cancelled(cause) => self.store_cause(cause, now, ExitKind::Cancelled),
            Exit::TidiedUp(cause) => self.store_cause(cause, now, ExitKind::TidiedUp),
            Exit::Failed(failure) => self.store_failure(failure),
        };
        self.status_mut().exit = Some(kind);
    }

    #[cold]
    pub(super) fn store_cause(&mut self, cause: &Cause, now: impl FnOnce() -> Instant, kind: ExitKind) -> ExitKind {
        if self.cancel().is_none() {
            self.set_cancel(&Arc::new(CancelRecord { cause: cause.clone(), at: now() }));
        }
        kind
    }

    #[cold]
    pub(super) fn store_failure(&mut self, failure: &FailureInfo) -> ExitKind {
        self.rare_details().failure = Some(failure.clone());
        ExitKind::Failed
    }

    pub(super) fn exit(&self) -> Option<Exit> {
        Some(match self.status().exit? {
            ExitKind::Stopped => Exit::Stopped,
            ExitKind::Closed => Exit::Closed,
            ExitKind::Cancelled => Exit::Cancelled(self.cancel()?.cause.clone()),
            ExitKind::TidiedUp => Exit::TidiedUp(self.cancel()?.cause.clone()),
            ExitKind::Failed => Exit::Failed(self.existing_rare()?.failure.clone()?),
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a14_node_state_takes_two_words() {
        assert_eq!(size_of::<NodeState>(), 2 * size_of::<usize>());
    }
}
