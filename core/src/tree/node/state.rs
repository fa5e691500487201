//! `NodeState`: what lies behind the lock of a node. Small, since one is kept for every idle actor: what few nodes have lies in boxes.

use crate::base::time::Instant;
use crate::base::wakers::Wakers;
use crate::events::cause::{Cause, Exit};
use crate::events::failure::FailureInfo;
use crate::tree::node::OnDone;
use crate::tree::node::children::ChildTable;
use crate::tree::node::watchers::WatchRegistry;
use crate::tree::token::CancelToken;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// One of these is kept for every idle actor: two words. An exit takes a byte here, and its details lie where they were recorded.
pub(super) enum NodeState {
    /// As most are, from their start to their end.
    Plain(State),
    /// A cancel reached it, and that is all there is to know. What is known of the cancel is shared by all members that it reached, so a cancel
    /// of many allocates nothing for each of them.
    Cancelled(State, Arc<Cancel>),
    With(State, Box<NodeExtras>),
}

/// Where a node is in its life.
#[derive(Clone, Copy)]
pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) exit: Option<ExitKind>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    Closing,
    Exited,
    Gone,
}

#[derive(Clone, Copy)]
pub(super) enum ExitKind {
    Stopped,
    Closed,
    Cancelled,
    TidiedUp,
    Failed,
}

/// What a node has that somebody waits for, or that has children. Small, since awaiting an exit is common.
#[derive(Default)]
pub(super) struct NodeExtras {
    pub(super) exit_waiters: Wakers,
    pub(super) table: Option<Box<ChildTable>>,
    pub(super) rare: Option<Box<Rare>>,
    pub(super) cancel: Option<Arc<Cancel>>,
}

/// What only nodes need that failed, or that have others around them.
#[derive(Default)]
pub(super) struct Rare {
    pub(super) failure: Option<FailureInfo>,
    pub(super) on_done: Vec<OnDone>,
    pub(super) watchers: Option<Box<WatchRegistry>>,
    pub(super) watching: Option<Box<WatchRegistry>>,
    pub(super) token: Option<CancelToken>,
    /// The token of the last hook, and of which incarnation.
    pub(super) last_token: Option<(u32, CancelToken)>,
    /// Cancelled when the node begins to end, in whatever way.
    pub(super) closing: Option<CancelToken>,
    pub(super) above: Option<(CancelToken, usize)>,
    /// Metadata for every failure of this incarnation, and which incarnation that is.
    pub(super) annotations: Option<(u32, BTreeMap<String, String>)>,
}

pub(super) struct Cancel {
    pub(super) cause: Cause,
    pub(super) at: Instant,
}

/// Once in the life of a node at most, so it is kept out of the way.
#[cold]
#[inline(never)]
fn boxed<T: Default>() -> Box<T> {
    Box::default()
}

impl NodeState {
    pub(super) fn new() -> Self {
        Self::Plain(State { phase: Phase::Open, exit: None })
    }

    #[inline]
    pub(super) fn state(&self) -> &State {
        let (Self::Plain(state) | Self::Cancelled(state, _) | Self::With(state, _)) = self;
        state
    }

    #[inline]
    pub(super) fn state_mut(&mut self) -> &mut State {
        let (Self::Plain(state) | Self::Cancelled(state, _) | Self::With(state, _)) = self;
        state
    }

    #[inline]
    pub(super) fn around(&mut self) -> &mut NodeExtras {
        if !matches!(self, Self::With(..)) {
            self.make_extras();
        }
        match self {
            Self::With(_, around) => around,
            Self::Plain(_) | Self::Cancelled(..) => unreachable!("it was made just now"),
        }
    }

    /// Once in the life of a node at most, so it is kept out of the way.
    #[cold]
    #[inline(never)]
    fn make_extras(&mut self) {
        let state = *self.state();
        let cancel = match core::mem::replace(self, Self::Plain(state)) {
            Self::Cancelled(_, cancel) => Some(cancel),
            Self::Plain(_) | Self::With(..) => None,
        };
        *self = Self::With(state, Box::new(NodeExtras { cancel, ..NodeExtras::default() }));
    }

    #[inline]
    pub(super) fn known_extras(&self) -> Option<&NodeExtras> {
        match self {
            Self::With(_, around) => Some(around),
            Self::Plain(_) | Self::Cancelled(..) => None,
        }
    }

    #[inline]
    pub(super) fn known_extras_mut(&mut self) -> Option<&mut NodeExtras> {
        match self {
            Self::With(_, around) => Some(around),
            Self::Plain(_) | Self::Cancelled(..) => None,
        }
    }

    #[inline]
    pub(super) fn cancel(&self) -> Option<&Arc<Cancel>> {
        match self {
            Self::Plain(_) => None,
            Self::Cancelled(_, cancel) => Some(cancel),
            Self::With(_, around) => around.cancel.as_ref(),
        }
    }

    /// Notes that a cancel has reached it. The first one stays.
    pub(super) fn set_cancel(&mut self, cancel: &Arc<Cancel>) {
        match self {
            Self::Plain(state) => *self = Self::Cancelled(*state, Arc::clone(cancel)),
            Self::Cancelled(..) => {}
            Self::With(_, around) => drop(around.cancel.get_or_insert_with(|| Arc::clone(cancel))),
        }
    }

    #[inline]
    pub(super) fn child_table(&mut self) -> &mut ChildTable {
        self.around().table.get_or_insert_with(boxed)
    }

    pub(super) fn rare(&mut self) -> &mut Rare {
        self.around().rare.get_or_insert_with(boxed)
    }

    pub(super) fn known_rare(&self) -> Option<&Rare> {
        self.known_extras()?.rare.as_deref()
    }

    pub(super) fn known_rare_mut(&mut self) -> Option<&mut Rare> {
        self.known_extras_mut()?.rare.as_deref_mut()
    }

    pub(super) fn known_children(&self) -> Option<&ChildTable> {
        self.known_extras()?.table.as_deref()
    }

    pub(super) fn known_children_mut(&mut self) -> Option<&mut ChildTable> {
        self.known_extras_mut()?.table.as_deref_mut()
    }

    #[inline]
    pub(super) fn set_exit(&mut self, exit: &Exit, now: impl FnOnce() -> Instant) {
        let kind = match exit {
            Exit::Stopped => ExitKind::Stopped,
            Exit::Closed => ExitKind::Closed,
            Exit::Cancelled(cause) => self.keep_cause(cause, now, ExitKind::Cancelled),
            Exit::TidiedUp(cause) => self.keep_cause(cause, now, ExitKind::TidiedUp),
            Exit::Failed(failure) => self.keep_failure(failure),
        };
        self.state_mut().exit = Some(kind);
    }

    #[cold]
    pub(super) fn keep_cause(&mut self, cause: &Cause, now: impl FnOnce() -> Instant, kind: ExitKind) -> ExitKind {
        if self.cancel().is_none() {
            self.set_cancel(&Arc::new(Cancel { cause: cause.clone(), at: now() }));
        }
        kind
    }

    #[cold]
    pub(super) fn keep_failure(&mut self, failure: &FailureInfo) -> ExitKind {
        self.rare().failure = Some(failure.clone());
        ExitKind::Failed
    }

    pub(super) fn exit(&self) -> Option<Exit> {
        Some(match self.state().exit? {
            ExitKind::Stopped => Exit::Stopped,
            ExitKind::Closed => Exit::Closed,
            ExitKind::Cancelled => Exit::Cancelled(self.cancel()?.cause.clone()),
            ExitKind::TidiedUp => Exit::TidiedUp(self.cancel()?.cause.clone()),
            ExitKind::Failed => Exit::Failed(self.known_rare()?.failure.clone()?),
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a14_life_of_an_idle_actor_takes_two_words() {
        assert_eq!(size_of::<NodeState>(), 2 * size_of::<usize>());
    }
}
