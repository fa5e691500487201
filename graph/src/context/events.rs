//! `RunEvent` and `Hooks`: the events of a run, reported as they happen. Without a listener no
//! event is built.

use crate::error::{During, PanicError, RunError};
use crate::token::BranchPath;
use pleach_core::{Reason, catch_panic};
use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How many panics of hooks are kept.
const HOOK_PANICS_KEPT_MAX: usize = 16;

/// One visit of a node, and one attempt at it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Visit {
    /// The node; those of a subgraph are `subgraph/node`.
    pub node: Arc<str>,
    /// Which attempt, from 1 on.
    pub attempt: u32,
    /// How many visits led here, one after the other, this one included: see [`NodeContext::iteration`](crate::NodeContext::iteration).
    pub iteration: u64,
    /// In which branch of which fan-out.
    pub branch: BranchPath,
}

/// Something that happened in a run. Hooks see the state by reference, `RunEvent<&S>`; a stream gives it away, `RunEvent<S>`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RunEvent<T> {
    /// An attempt at a node begins.
    NodeStarted {
        /// Which.
        visit: Visit,
        /// What the node is given.
        state: T,
    },
    /// An attempt at a node has ended.
    NodeFinished {
        /// Which.
        visit: Visit,
        /// The new state, or why there is none.
        outcome: Result<T, Arc<Reason>>,
    },
    /// A failed attempt will be repeated.
    NodeRetried {
        /// The attempt that failed.
        visit: Visit,
        /// How long until the next one.
        wait: Duration,
    },
    /// A fan-out begins.
    Forked {
        /// The node it starts from.
        node: Arc<str>,
        /// How many branches it has.
        branches: usize,
        /// The state that the branches begin with, or were made from.
        state: T,
    },
    /// A branch has failed.
    BranchFailed {
        /// The node the fan-out starts from.
        node: Arc<str>,
        /// Which branch.
        branch: usize,
        /// Why, in words.
        error: Arc<str>,
        /// Its last state, if the engine holds it.
        state: Option<T>,
    },
    /// The branches are one again.
    Joined {
        /// The node the fan-out started from.
        node: Arc<str>,
        /// The merged state.
        state: T,
    },
    /// A node said something: progress, a word of an answer.
    Emitted {
        /// The node.
        visit: Visit,
        /// What it said.
        value: Emission,
    },
    /// An attempt at a node of a subgraph begins. Its state is of another type.
    InnerStarted {
        /// Which.
        visit: Visit,
    },
    /// An attempt at a node of a subgraph has ended.
    InnerFinished {
        /// Which.
        visit: Visit,
        /// Why it failed, if it did.
        failed: Option<Arc<Reason>>,
    },
    /// A record of a stored run is durable: it survives whatever happens now.
    Checkpointed {
        /// Its sequence.
        sequence: u64,
    },
    /// A message that was posted to the run was refused, and is taken out of its inbox: the node that waits for it cannot read it and keeps
    /// waiting, or the message was damaged in the store.
    LetterRefused {
        /// `answer/KEY`, `signal/NAME`, or the name of a command.
        name: Arc<str>,
        /// Why.
        why: Arc<str>,
    },
    /// The run waits for the lease of another driver to end, for more than a second. If that driver is dead,
    /// [`take_over`](crate::Resume::take_over) claims the run at once.
    LeaseAwaited {
        /// The driver that holds the run.
        holder: Arc<str>,
        /// How long its lease lasts if it is not renewed.
        left: Duration,
    },
    /// The store is unavailable. What failed is repeated while the lease of the run lasts.
    StoreUnavailable {
        /// The first failure, in words.
        error: Arc<str>,
    },
    /// The store answers again.
    StoreAnswers,
    /// The store failed, and a run that was told to do its best goes on without it.
    CheckpointsLost {
        /// Why, in words.
        error: Arc<str>,
    },
}

impl<S> RunEvent<&S> {
    /// The same event with a state of its own.
    pub fn cloned(&self) -> RunEvent<S>
    where
        S: Clone,
    {
        match self {
            Self::NodeStarted { visit, state } => RunEvent::NodeStarted { visit: visit.clone(), state: S::clone(state) },
            Self::NodeFinished { visit, outcome } => {
                RunEvent::NodeFinished { visit: visit.clone(), outcome: outcome.clone().cloned() }
            }
            Self::NodeRetried { visit, wait } => RunEvent::NodeRetried { visit: visit.clone(), wait: *wait },
            Self::Forked { node, branches, state } => {
                RunEvent::Forked { node: Arc::clone(node), branches: *branches, state: S::clone(state) }
            }
            Self::BranchFailed { node, branch, error, state } => RunEvent::BranchFailed {
                node: Arc::clone(node),
                branch: *branch,
                error: Arc::clone(error),
                state: state.map(S::clone),
            },
            Self::Joined { node, state } => RunEvent::Joined { node: Arc::clone(node), state: S::clone(state) },
            Self::Emitted { visit, value } => RunEvent::Emitted { visit: visit.clone(), value: value.clone() },
            Self::InnerStarted { visit } => RunEvent::InnerStarted { visit: visit.clone() },
            Self::InnerFinished { visit, failed } => RunEvent::InnerFinished { visit: visit.clone(), failed: failed.clone() },
            Self::Checkpointed { sequence } => RunEvent::Checkpointed { sequence: *sequence },
            Self::LetterRefused { name, why } => RunEvent::LetterRefused { name: Arc::clone(name), why: Arc::clone(why) },
            Self::LeaseAwaited { holder, left } => RunEvent::LeaseAwaited { holder: Arc::clone(holder), left: *left },
            Self::StoreUnavailable { error } => RunEvent::StoreUnavailable { error: Arc::clone(error) },
            Self::StoreAnswers => RunEvent::StoreAnswers,
            Self::CheckpointsLost { error } => RunEvent::CheckpointsLost { error: Arc::clone(error) },
        }
    }
}

impl<T> RunEvent<T> {
    fn node(&self) -> &str {
        match self {
            Self::NodeStarted { visit, .. }
            | Self::NodeFinished { visit, .. }
            | Self::NodeRetried { visit, .. }
            | Self::Emitted { visit, .. }
            | Self::InnerStarted { visit }
            | Self::InnerFinished { visit, .. } => &visit.node,
            Self::Forked { node, .. } | Self::BranchFailed { node, .. } | Self::Joined { node, .. } => node,
            Self::Checkpointed { .. }
            | Self::LeaseAwaited { .. }
            | Self::StoreUnavailable { .. }
            | Self::StoreAnswers
            | Self::CheckpointsLost { .. }
            | Self::LetterRefused { .. } => "",
        }
    }
}

/// What a node [emitted](crate::NodeContext::emit): a value of any type.
#[derive(Clone)]
pub struct Emission(Arc<dyn Any + Send + Sync>);

impl Emission {
    pub(crate) fn new(value: impl Any + Send + Sync) -> Self {
        Self(Arc::new(value))
    }

    /// The value, if it is a `T`.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }

    /// The value, if it is a text: a `String` or a `&'static str`.
    pub fn text(&self) -> Option<&str> {
        self.get::<String>().map(String::as_str).or_else(|| self.get::<&'static str>().copied())
    }
}

impl fmt::Debug for Emission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Some(text) => write!(f, "Emission({text:?})"),
            None => f.write_str("Emission(..)"),
        }
    }
}

type Hook<S> = Box<dyn Fn(&RunEvent<&S>) + Send + Sync>;

/// Functions that are called as a run goes on, in its own task, in order. Cheap to clone, and good for many runs.
///
/// A hook that panics is recorded in [`panics`](Self::panics), and changes nothing.
pub struct Hooks<S>(Arc<HookList<S>>);

struct HookList<S> {
    hooks: Vec<Hook<S>>,
    panics: Mutex<Vec<PanicError>>,
}

impl<S: 'static> Hooks<S> {
    /// Calls `hook` at everything that happens.
    pub fn new(hook: impl Fn(&RunEvent<&S>) + Send + Sync + 'static) -> Self {
        Self::of(vec![Box::new(hook)])
    }

    /// Calls `started` before each attempt at a node and `finished` after it.
    pub fn around_nodes(
        started: impl Fn(&Visit, &S) + Send + Sync + 'static,
        finished: impl Fn(&Visit, Result<&S, &Reason>) + Send + Sync + 'static,
    ) -> Self {
        Self::new(move |event| match event {
            RunEvent::NodeStarted { visit, state } => started(visit, state),
            RunEvent::NodeFinished { visit, outcome: Ok(state) } => finished(visit, Ok(state)),
            RunEvent::NodeFinished { visit, outcome: Err(reason) } => finished(visit, Err(reason)),
            _ => {}
        })
    }

    fn of(hooks: Vec<Hook<S>>) -> Self {
        Self(Arc::new(HookList { hooks, panics: Mutex::default() }))
    }

    /// Calls those of `self`, then those of `other`.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::of(vec![Box::new(move |event| self.call(event)), Box::new(move |event| other.call(event))])
    }

    /// The first panics of these hooks, 16 at most.
    pub fn panics(&self) -> Vec<PanicError> {
        self.0.panics.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn call(&self, event: &RunEvent<&S>) {
        for hook in &self.0.hooks {
            if let Err(reason) = catch_panic(|| hook(event)) {
                let panic = PanicError::new(event.node().to_string(), During::Hook, &reason);
                let mut panics = self.0.panics.lock().unwrap_or_else(PoisonError::into_inner);
                if panics.len() < HOOK_PANICS_KEPT_MAX {
                    panics.push(panic);
                }
            }
        }
    }
}

impl<S> Clone for Hooks<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> fmt::Debug for Hooks<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hooks({})", self.0.hooks.len())
    }
}

/// How a branch failed, for whoever listens.
pub(crate) fn branch_failed<S: 'static>(hooks: &Hooks<S>, node: &Arc<str>, branch: usize, error: &mut RunError<S>) {
    let text = error.to_string().into();
    hooks.call(&RunEvent::BranchFailed { node: Arc::clone(node), branch, error: text, state: error.state() });
}

/// Brings to the hooks what happens where the state is of another type.
pub(crate) fn listener<S: 'static>(hooks: Hooks<S>) -> Listener {
    Box::new(move |visit, aside| {
        hooks.call(&match aside {
            InnerEvent::Emitted(value) => RunEvent::Emitted { visit, value },
            InnerEvent::Started => RunEvent::InnerStarted { visit },
            InnerEvent::Finished(failed) => RunEvent::InnerFinished { visit, failed },
        });
    })
}

/// Hears what happens where the state is of another type, or there is none.
pub(crate) type Listener = Box<dyn Fn(Visit, InnerEvent) + Send + Sync>;

pub(crate) enum InnerEvent {
    Emitted(Emission),
    Started,
    Finished(Option<Arc<Reason>>),
}
