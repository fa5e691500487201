//! Failures that reached the root without being handled.
//!
//! Each one is counted and reported on the hub. It then goes to the first of these that accepts it:
//! the root sink, the root handler, the outer system if this one is mounted, and finally a bounded
//! list that the user can take.
//!
//! Invariants:
//! 1. Every failure that reaches the top of the tree passes here once, in the task in which it came
//!    up, outside of locks.
//! 2. A failure that is not accepted is kept, up to [`ESCALATIONS_KEPT_MAX`]; further ones are only
//!    counted. Kept, dropped and handled failures add up to the count.
//! 3. The handler is held by the tree and must not hold the tree: it gets a `RootContext` that is
//!    created for the call.

use crate::base::lock::Lock;
use crate::base::sync::{Arc, AtomicUsize, Ordering};
use crate::events::event::{Event, EventKinds};
use crate::events::failure::FailureInfo;
use crate::tree::Tree;
use crate::tree::supervision::sink::{self, EscalationSink};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;

/// How many unhandled failures are kept until they are taken. The first ones are kept, because they
/// led to the others.
pub const ESCALATIONS_KEPT_MAX: usize = 256;

/// Failures that reached the root and were not handled; returned by `System::take_escalations`.
#[derive(Clone, Debug, Default)]
#[must_use = "what was taken is kept nowhere else"]
pub struct Escalations {
    /// The first failures, oldest first, at most [`ESCALATIONS_KEPT_MAX`].
    pub failures: Vec<FailureInfo>,
    /// How many further failures were dropped.
    pub dropped: u64,
}

/// The root handler. Returns whether it accepted the failure.
pub(crate) type RootHandler = Arc<dyn Fn(&FailureInfo) -> bool + Send + Sync>;

/// The unhandled failures of one tree, and where they go.
pub(crate) struct Unhandled {
    count: AtomicUsize,
    /// Allocated for the first sink, handler or failure.
    state: Lock<Option<Box<UnhandledState>>>,
}

#[derive(Default)]
struct UnhandledState {
    kept: Escalations,
    sink: Option<Arc<dyn EscalationSink>>,
    handler: Option<RootHandler>,
    /// The system that this one is mounted in.
    outer_sink: Option<Arc<dyn EscalationSink>>,
}

impl Unhandled {
    pub(crate) fn new() -> Self {
        Self { count: AtomicUsize::new(0), state: Lock::new(None) }
    }

    /// Sets the root handler.
    pub(crate) fn set_handler(&self, handler: RootHandler) {
        let replaced = self.state.with(|state| state.get_or_insert_default().handler.replace(handler));
        drop(replaced);
    }

    /// Sets the root sink, before anything runs.
    pub(crate) fn set_sink(&self, sink: Arc<dyn EscalationSink>) {
        let replaced = self.state.with(|state| state.get_or_insert_default().sink.replace(sink));
        drop(replaced);
    }

    /// Sets the sink of the outer system, for failures that neither the root's sink nor its handler
    /// accepts.
    pub(crate) fn set_outer_sink(&self, sink: Arc<dyn EscalationSink>) {
        let replaced = self.state.with(|state| state.get_or_insert_default().outer_sink.replace(sink));
        drop(replaced);
    }

    /// Returns how many failures reached the root.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self) -> Escalations {
        self.state.with(|state| state.as_mut().map(|state| mem::take(&mut state.kept)).unwrap_or_default())
    }

    /// Returns the first kept failure, and how many were kept or dropped since the last `take`.
    pub(crate) fn kept(&self) -> Option<(FailureInfo, u64)> {
        self.state.with(|state| {
            let state = state.as_ref()?;
            let first = state.kept.failures.first()?.clone();
            Some((first, state.kept.failures.len() as u64 + state.kept.dropped))
        })
    }

    fn keep(&self, failure: FailureInfo) {
        let above_limit = self.state.with(|state| {
            let state = state.get_or_insert_default();
            if state.kept.failures.len() < ESCALATIONS_KEPT_MAX {
                state.kept.failures.push(failure);
                return None;
            }
            state.kept.dropped += 1;
            Some(failure)
        });
        drop(above_limit);
    }
}

impl Tree {
    /// Handles a failure that reached the top of the tree.
    pub(crate) fn handle_at_root(&self, failure: FailureInfo) {
        self.unhandled.count.fetch_add(1, Ordering::Relaxed);
        self.events.emit(EventKinds::UNHANDLED, || Event::Unhandled(failure.clone()));
        let sink = self.unhandled.state.with(|state| state.as_ref().and_then(|state| state.sink.clone()));
        let refused = match sink {
            Some(sink) => sink::try_sink(&*sink, failure).err(),
            None => Some(failure),
        };
        if let Some(failure) = refused
            && !self.call_handler(&failure)
        {
            let outer_sink = self.unhandled.state.with(|state| state.as_ref().and_then(|state| state.outer_sink.clone()));
            let left = match outer_sink {
                Some(outer_sink) => sink::try_sink(&*outer_sink, failure).err(),
                None => Some(failure),
            };
            left.into_iter().for_each(|failure| self.unhandled.keep(failure));
        }
    }

    /// Passes a failure to the root handler. Returns whether a handler exists and accepted it.
    fn call_handler(&self, failure: &FailureInfo) -> bool {
        let handler = self.unhandled.state.with(|state| state.as_ref().and_then(|state| state.handler.clone()));
        handler.is_some_and(|handler| handler(failure))
    }
}
