//! `Events`: what happens in a tree, for whoever listens. With no listener an event site costs one relaxed load.

use crate::lock::Lock;
use crate::sync::{AtomicBool, AtomicUsize, Ordering};
use crate::{ActorPath, Exit, FailureInfo, catch};
use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// Something that happened in the tree.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// An actor is up, before its first message.
    Started {
        /// Who.
        path: ActorPath,
        /// Which incarnation: 0 is the first.
        incarnation: u32,
    },
    /// Something ended.
    Ended {
        /// Who.
        path: ActorPath,
        /// How.
        exit: Exit,
    },
    /// Something failed. There is one for every failure, whatever becomes of it.
    Failed(FailureInfo),
    /// A failure that came up to the top of the tree, where nobody supervises.
    Unhandled(FailureInfo),
    /// A message was accepted and will not be handled.
    DeadLetter(DeadLetter),
    /// Something that is not wrong yet and probably will be.
    Lint(Lint),
}

/// A message that was accepted and not handled.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// Whose message it was.
    pub to: ActorPath,
    /// The message as `Props::describe` words it, else the name of its type.
    pub message: Cow<'static, str>,
    /// Why it was not handled.
    pub reason: DeadLetterReason,
}

/// Why a message was not handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeadLetterReason {
    /// The actor stopped before its turn came.
    Stopped,
    /// The actor was cancelled before its turn came.
    Cancelled,
    /// The actor failed for good before its turn came.
    Failed,
    /// The mailbox was full and drops the newest.
    Newest,
    /// The mailbox was full and drops the oldest.
    Oldest,
    /// A newer message took its place in a conflated mailbox.
    Conflated,
    /// Its handler failed, and `Props` says that a message that failed is a dead letter.
    HandlerFailed,
}

/// Something that is not wrong yet and probably will be.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Lint {
    /// An ask with a timeout closes a cycle of asks: it can only time out.
    AskCycle(Vec<ActorPath>),
}

impl fmt::Display for DeadLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dead letter to {}: {} ({:?})", self.to, self.message, self.reason)
    }
}

type Listener = Arc<dyn Fn(&Event) + Send + Sync>;

/// The listeners of one tree.
#[derive(Default)]
pub(crate) struct Events {
    listening: AtomicBool,
    failures: AtomicUsize,
    listeners: Lock<Vec<Listener>>,
}

impl Default for Lock<Vec<Listener>> {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Events {
    pub(crate) fn listen(&self, listener: Listener) {
        self.listeners.with(|listeners| listeners.push(listener));
        self.listening.store(true, Ordering::Release);
    }

    /// Makes the event only if somebody listens. A listener that panics harms nobody: the panic is swallowed here, because telling
    /// of it would be one more event.
    #[inline]
    pub(crate) fn emit(&self, make: impl FnOnce() -> Event) {
        if self.listening.load(Ordering::Relaxed) {
            self.tell(&make());
        }
    }

    /// Puts a failure on record.
    pub(crate) fn failure(&self, failure: &FailureInfo) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.emit(|| Event::Failed(failure.clone()));
    }

    /// How many failures there were so far.
    pub(crate) fn failures(&self) -> usize {
        self.failures.load(Ordering::Relaxed)
    }

    #[cold]
    fn tell(&self, event: &Event) {
        let listeners = self.listeners.with(|listeners| listeners.clone());
        for listener in listeners {
            drop(catch::catch(|| listener(event)));
        }
    }
}
