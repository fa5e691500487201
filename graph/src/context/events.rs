//! `RunEvent` and `Hooks`: the events of a run, reported as they happen.
//!
//! 1. Hooks run in the task of the run, in the order in which they were added.
//! 2. Without a listener no event is built.
//! 3. A panic of a hook is caught and does not affect the run.

use crate::error::{During, PanicError, RunError};
use crate::token::BranchPath;
use pleach_core::{Reason, catch_panic};
use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The most panics of hooks that are recorded.
const HOOK_PANICS_KEPT_MAX: usize = 16;

/// Identifies one attempt of one visit of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Visit {
    /// The id of the run; `None` for an in-memory run without an id.
    pub run: Option<Arc<str>>,
    /// The id of the node. For a node inside a subgraph: `subgraph/node`.
    pub node: Arc<str>,
    /// The number of the attempt, starting at 1.
    pub attempt: u32,
    /// The number of consecutive visits that led here, including this one. See
    /// [`NodeContext::iteration`](crate::NodeContext::iteration).
    pub iteration: u64,
    /// The branches of the fan-outs in which the node runs.
    pub branch: BranchPath,
}

/// An event of a run.
///
/// Hooks get `RunEvent<&S>`, with the state by reference. A stream yields `RunEvent<S>`, with a
/// clone of the state.
///
/// # Examples
///
/// ```
/// use pleach::prelude::*;
/// use pleach::graph::RunEvent;
/// use std::sync::{Arc, Mutex};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = Graph::<u32>::new("doubling")
///     .add_node("double", |n: u32| async move { Ok::<_, String>(n * 2) })
///     .add_edge("double", END)
///     .set_entry("double")
///     .compile()?;
///
/// let lines = Arc::new(Mutex::new(Vec::new()));
/// let log = Arc::clone(&lines);
/// let hooks = Hooks::new(move |event: &RunEvent<&u32>| match event {
///     RunEvent::NodeStarted { visit, state } => {
///         log.lock().unwrap().push(format!("{} gets {state}", visit.node));
///     }
///     RunEvent::NodeFinished { visit, outcome: Ok(state) } => {
///         log.lock().unwrap().push(format!("{} returns {state}", visit.node));
///     }
///     _ => {} // new variants may be added
/// });
///
/// graph.run(21).hooks(hooks).await?;
/// assert_eq!(*lines.lock().unwrap(), ["double gets 21", "double returns 42"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RunEvent<T> {
    /// An attempt of a node starts.
    NodeStarted {
        /// The node and the attempt that start.
        visit: Visit,
        /// The state that the node gets.
        state: T,
    },
    /// An attempt of a node has ended.
    NodeFinished {
        /// The node and the attempt that ended.
        visit: Visit,
        /// The new state, or the reason of the failure.
        outcome: Result<T, Arc<Reason>>,
    },
    /// An attempt failed and the node will be retried.
    NodeRetried {
        /// The node and the attempt that failed.
        visit: Visit,
        /// The wait before the next attempt.
        wait: Duration,
    },
    /// A fan-out starts all its branches.
    Forked {
        /// The id of the run; `None` for an in-memory run without an id.
        run: Option<Arc<str>>,
        /// The node from which the fan-out starts.
        node: Arc<str>,
        /// The number of branches of this fan-out.
        branches: usize,
        /// The state from which the states of the branches are made.
        state: T,
    },
    /// A branch of a fan-out has failed.
    BranchFailed {
        /// The id of the run; `None` for an in-memory run without an id.
        run: Option<Arc<str>>,
        /// The node from which the fan-out starts.
        node: Arc<str>,
        /// The index of the branch, starting at 0.
        branch: usize,
        /// The error of the branch, as text.
        error: Arc<str>,
        /// The last state of the branch, if the engine still has it.
        state: Option<T>,
    },
    /// All branches of a fan-out have been merged.
    Joined {
        /// The id of the run; `None` for an in-memory run without an id.
        run: Option<Arc<str>>,
        /// The node from which the fan-out started.
        node: Arc<str>,
        /// The merged state.
        state: T,
    },
    /// A node called [`emit`](crate::NodeContext::emit) with a value.
    Emitted {
        /// The node and the attempt that emitted the value.
        visit: Visit,
        /// The emitted value, of any type.
        value: Emission,
    },
    /// An attempt of a node inside a subgraph starts. The subgraph has another state type, so the
    /// event has no state.
    InnerStarted {
        /// The node and the attempt that start.
        visit: Visit,
    },
    /// An attempt of a node inside a subgraph has ended.
    InnerFinished {
        /// The node and the attempt that ended.
        visit: Visit,
        /// The reason of the failure, or `None` after success.
        failed: Option<Arc<Reason>>,
    },
    /// A record of a stored run is durable: it survives a crash of the process.
    Checkpointed {
        /// The id of the run; `None` for an in-memory run without an id.
        run: Option<Arc<str>>,
        /// The sequence number of the record.
        sequence: u64,
    },
    /// A message to the run was rejected and is removed from the inbox with the next commit.
    ///
    /// Either the waiting node cannot decode the message and keeps waiting, or the message was
    /// damaged in the store.
    MessageRejected {
        /// The id of the run; `None` for an in-memory run without an id.
        run: Option<Arc<str>>,
        /// The name of the message: `answer/KEY`, `signal/NAME` or the name of a command.
        name: Arc<str>,
        /// The reason of the rejection, as text.
        reason: Arc<str>,
    },
    /// The run waits for the lease of another driver to expire, for more than a second.
    ///
    /// If that driver is dead, [`take_over`](crate::Resume::take_over) claims the run immediately.
    LeaseAwaited {
        /// The id of the run; `None` for an in-memory run without an id.
        run: Option<Arc<str>>,
        /// The name of the driver that holds the lease.
        holder: Arc<str>,
        /// The time until the lease expires without a renewal.
        left: Duration,
    },
    /// The store is unavailable. The failed call is repeated while the lease of the run lasts.
    StoreUnavailable {
        /// The id of the run; `None` for an in-memory run without an id.
        run: Option<Arc<str>>,
        /// The error of the first failed call, as text.
        error: Arc<str>,
    },
    /// The store answers again after an outage.
    StoreRecovered {
        /// The id of the run; `None` for an in-memory run without an id.
        run: Option<Arc<str>>,
    },
    /// The store failed. The run continues without it, because it is
    /// [best-effort](crate::RunOptions::best_effort).
    CheckpointsLost {
        /// The id of the run; `None` for an in-memory run without an id.
        run: Option<Arc<str>>,
        /// The error of the store, as text.
        error: Arc<str>,
    },
}

/// A value of any type that a node [emitted](crate::NodeContext::emit).
#[derive(Clone)]
pub struct Emission(Arc<dyn Any + Send + Sync>);

impl Emission {
    pub(crate) fn new(value: impl Any + Send + Sync) -> Self {
        Self(Arc::new(value))
    }

    /// Returns the value if it has type `T`.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }

    /// Returns the value if it is a `String` or a `&'static str`.
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

/// Functions that the run calls for each of its events.
///
/// They run in the task of the run, in the order in which they were added, so they must not block.
/// Clones share the functions and their recorded panics; one value can serve many runs.
///
/// A panic of a hook is caught and recorded in [`panics`](Self::panics). It does not affect the
/// run.
///
/// # Examples
///
/// ```
/// use pleach::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = Graph::<u32>::new("doubling")
///     .add_node("double", |n: u32| async move { Ok::<_, String>(n * 2) })
///     .add_edge("double", END)
///     .set_entry("double")
///     .compile()?;
///
/// let hooks = Hooks::around_nodes(
///     |visit, state| println!("{} starts with {state}", visit.node),
///     |visit, outcome| println!("{} ends with {outcome:?}", visit.node),
/// );
/// graph.run(21).hooks(hooks.clone()).await?;
/// assert!(hooks.panics().is_empty());
/// # Ok(())
/// # }
/// ```
pub struct Hooks<S>(Arc<HookList<S>>);

struct HookList<S> {
    hooks: Vec<Hook<S>>,
    panics: Mutex<Vec<PanicError>>,
}

impl<S: 'static> Hooks<S> {
    /// Creates hooks that call `hook` for every event.
    pub fn new(hook: impl Fn(&RunEvent<&S>) + Send + Sync + 'static) -> Self {
        Self::of(vec![Box::new(hook)])
    }

    /// Creates hooks that call `started` before and `finished` after each attempt of a node.
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

    /// Returns hooks that call the functions of `self`, then the functions of `other`.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::of(vec![Box::new(move |event| self.call(event)), Box::new(move |event| other.call(event))])
    }

    /// Returns the first panics of these hooks, at most 16.
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

/// Reports the failure of a branch to the hooks.
pub(crate) fn branch_failed<S: 'static>(
    hooks: &Hooks<S>,
    run: Option<Arc<str>>,
    node: &Arc<str>,
    branch: usize,
    error: &mut RunError<S>,
) {
    let text = error.to_string().into();
    hooks.call(&RunEvent::BranchFailed { run, node: Arc::clone(node), branch, error: text, state: error.state() });
}

/// Returns a listener that forwards events without a typed state to the hooks.
pub(crate) fn listener<S: 'static>(hooks: Hooks<S>) -> Listener {
    Box::new(move |visit, event| {
        hooks.call(&match event {
            InnerEvent::Emitted(value) => RunEvent::Emitted { visit, value },
            InnerEvent::Started => RunEvent::InnerStarted { visit },
            InnerEvent::Finished(failed) => RunEvent::InnerFinished { visit, failed },
        });
    })
}

/// Receives events from code that does not know the state type of the run: subgraphs and `emit`.
pub(crate) type Listener = Box<dyn Fn(Visit, InnerEvent) + Send + Sync>;

/// An event without a typed state.
pub(crate) enum InnerEvent {
    Emitted(Emission),
    Started,
    Finished(Option<Arc<Reason>>),
}
