//! `Life`: what lies behind the lock of a node. Small, since one is kept for every idle actor: what few nodes have lies in boxes.

use super::OnDone;
use super::family::Family;
use super::watchers::WatchRegistry;
use crate::wakers::Wakers;
use crate::{CancelToken, Cause, Exit, FailureInfo, Instant};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// One of these is kept for every idle actor, so an exit takes a byte here and its details lie where they were recorded.
pub(super) struct Life {
    pub(super) phase: Phase,
    pub(super) exit: Option<ExitKind>,
    pub(super) around: Option<Box<Around>>,
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
pub(super) struct Around {
    pub(super) exit_waiters: Wakers,
    pub(super) family: Option<Box<Family>>,
    pub(super) rare: Option<Box<Rare>>,
}

/// What only nodes need that were cancelled or failed, or that have others around them.
#[derive(Default)]
pub(super) struct Rare {
    pub(super) cancel: Option<Cancel>,
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

impl Life {
    #[inline]
    pub(super) fn around(&mut self) -> &mut Around {
        self.around.get_or_insert_with(boxed)
    }

    #[inline]
    pub(super) fn family(&mut self) -> &mut Family {
        self.around().family.get_or_insert_with(boxed)
    }

    pub(super) fn rare(&mut self) -> &mut Rare {
        self.around().rare.get_or_insert_with(boxed)
    }

    pub(super) fn known_rare(&self) -> Option<&Rare> {
        self.around.as_ref()?.rare.as_deref()
    }

    pub(super) fn known_rare_mut(&mut self) -> Option<&mut Rare> {
        self.around.as_mut()?.rare.as_deref_mut()
    }

    pub(super) fn known_family(&self) -> Option<&Family> {
        self.around.as_ref()?.family.as_deref()
    }

    pub(super) fn known_family_mut(&mut self) -> Option<&mut Family> {
        self.around.as_mut()?.family.as_deref_mut()
    }

    pub(super) fn cancel(&self) -> Option<&Cancel> {
        self.known_rare()?.cancel.as_ref()
    }

    #[inline]
    pub(super) fn set_exit(&mut self, exit: &Exit, now: impl FnOnce() -> Instant) {
        self.exit = Some(match exit {
            Exit::Stopped => ExitKind::Stopped,
            Exit::Closed => ExitKind::Closed,
            Exit::Cancelled(cause) => self.keep_cause(cause, now, ExitKind::Cancelled),
            Exit::TidiedUp(cause) => self.keep_cause(cause, now, ExitKind::TidiedUp),
            Exit::Failed(failure) => self.keep_failure(failure),
        });
    }

    #[cold]
    pub(super) fn keep_cause(&mut self, cause: &Cause, now: impl FnOnce() -> Instant, kind: ExitKind) -> ExitKind {
        self.rare().cancel.get_or_insert_with(|| Cancel { cause: cause.clone(), at: now() });
        kind
    }

    #[cold]
    pub(super) fn keep_failure(&mut self, failure: &FailureInfo) -> ExitKind {
        self.rare().failure = Some(failure.clone());
        ExitKind::Failed
    }

    pub(super) fn exit(&self) -> Option<Exit> {
        Some(match self.exit? {
            ExitKind::Stopped => Exit::Stopped,
            ExitKind::Closed => Exit::Closed,
            ExitKind::Cancelled => Exit::Cancelled(self.cancel()?.cause.clone()),
            ExitKind::TidiedUp => Exit::TidiedUp(self.cancel()?.cause.clone()),
            ExitKind::Failed => Exit::Failed(self.known_rare()?.failure.clone()?),
        })
    }
}
