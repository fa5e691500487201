//! What becomes of a failure that nobody handled: it is counted, told on the hub, given to the root's sink, else to its handler, else
//! to the system around this one if it is mounted, else kept to be taken.
//!
//! Invariants:
//! 1. Every failure that comes up to a top of the tree passes here once, in the task in which it came up and under no lock.
//! 2. With no root sink or handler, or if the sink refuses and the handler panics, the failure is kept, up to [`ESCALATIONS_KEPT_MAX`]; past that it is counted. So
//!    kept, dropped and handled add up to the count.
//! 3. The handler is held by the tree and holds no part of the tree: it is given a `RootContext` that is made for the call.

use crate::base::lock::Lock;
use crate::base::sync::{AtomicUsize, Ordering};
use crate::events::event::{Event, EventKinds};
use crate::events::failure::FailureInfo;
use crate::tree::Tree;
use crate::tree::supervision::escalate;
use crate::tree::supervision::escalate::EscalationSink;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

/// How many failures that nobody handled are kept until somebody takes them. The first are kept, since they led to the others.
pub const ESCALATIONS_KEPT_MAX: usize = 256;

/// Failures that came up to the root and that nobody handled; from `System::take_escalations`.
#[derive(Clone, Debug, Default)]
#[must_use = "what was taken is kept nowhere else"]
pub struct Escalations {
    /// The first of them, oldest first, at most [`ESCALATIONS_KEPT_MAX`].
    pub failures: Vec<FailureInfo>,
    /// How many more there were.
    pub dropped: u64,
}

/// The root handler. Returns whether it took the failure.
pub(crate) type RootHandler = Arc<dyn Fn(&FailureInfo) -> bool + Send + Sync>;

/// The end of the road for failures, one a tree.
pub(crate) struct Unhandled {
    count: AtomicUsize,
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    kept: Escalations,
    sink: Option<Arc<dyn EscalationSink>>,
    handler: Option<RootHandler>,
    /// Of the system that this one is mounted in.
    outside: Option<Arc<dyn EscalationSink>>,
}

impl Unhandled {
    pub(crate) fn new() -> Self {
        Self { count: AtomicUsize::new(0), state: Lock::new(State::default()) }
    }

    /// Sets the root handler.
    pub(crate) fn handle_with(&self, handler: RootHandler) {
        let replaced = self.state.with(|state| state.handler.replace(handler));
        drop(replaced);
    }

    /// Sets the root sink, before anything runs.
    pub(crate) fn give_to(&self, sink: Arc<dyn EscalationSink>) {
        let replaced = self.state.with(|state| state.sink.replace(sink));
        drop(replaced);
    }

    /// Sets where failures go that neither the root's sink nor its handler takes: the system around this one.
    pub(crate) fn give_outside(&self, sink: Arc<dyn EscalationSink>) {
        let replaced = self.state.with(|state| state.outside.replace(sink));
        drop(replaced);
    }

    /// How many failures nobody below the root handled.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self) -> Escalations {
        self.state.with(|state| mem::take(&mut state.kept))
    }

    fn keep(&self, failure: FailureInfo) {
        let past_the_bound = self.state.with(|state| {
            if state.kept.failures.len() < ESCALATIONS_KEPT_MAX {
                state.kept.failures.push(failure);
                return None;
            }
            state.kept.dropped += 1;
            Some(failure)
        });
        drop(past_the_bound);
    }
}

impl Tree {
    /// Takes in a failure that came up to the top, where nobody supervises.
    pub(crate) fn unhandled(&self, failure: FailureInfo) {
        self.unhandled.count.fetch_add(1, Ordering::Relaxed);
        self.events.emit(EventKinds::UNHANDLED, || Event::Unhandled(failure.clone()));
        let sink = self.unhandled.state.with(|state| state.sink.clone());
        let refused = match sink {
            Some(sink) => escalate::attempt(&*sink, failure).err(),
            None => Some(failure),
        };
        if let Some(failure) = refused
            && !self.handled(&failure)
        {
            let outside = self.unhandled.state.with(|state| state.outside.clone());
            let left = match outside {
                Some(outside) => escalate::attempt(&*outside, failure).err(),
                None => Some(failure),
            };
            left.into_iter().for_each(|failure| self.unhandled.keep(failure));
        }
    }

    /// Passes it to the root handler. Returns whether there is one and it took the failure.
    fn handled(&self, failure: &FailureInfo) -> bool {
        let handler = self.unhandled.state.with(|state| state.handler.clone());
        handler.is_some_and(|handler| handler(failure))
    }
}
