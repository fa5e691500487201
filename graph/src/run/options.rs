//! [`RunOptions`]: the options of a run before it starts. `start` turns them into a running one.

use crate::compile::compiled::CompiledGraph;
use crate::context::events::Hooks;
use crate::context::run_context::RunDetails;
#[cfg(feature = "spans")]
use crate::context::spans::{SpanLink, TRACEPARENT_TAG};
use crate::durable::options::{DurableOptions, StorageOptions};
use crate::engine::{STEPS_PER_POLL_MAX, VisitLimits};
use crate::run::stream::RunStream;
use pleach_core::{CancelToken, Runtime, Scope};
use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

/// The default limit of consecutive visits on one token: 1,000.
pub const MAX_ITERATIONS_DEFAULT: u64 = 1_000;

/// The default limit of visits in a whole run: 10,000,000.
pub const MAX_VISITS_DEFAULT: u64 = 10_000_000;

/// A run that has not started, with its options. Returned by [`CompiledGraph::run`].
///
/// Await it, or read its [`stream`](Self::stream). It implements `IntoFuture`, not `Future`, so
/// functions that take a future need `.into_future()`:
///
/// ```
/// use pleach::prelude::*;
/// use std::future::IntoFuture;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = Graph::<u32>::new("doubling")
///     .add_node("double", |n: u32| async move { n * 2 })
///     .add_edge("double", END)
///     .set_entry("double")
///     .compile()?;
///
/// // Runs in this task.
/// assert_eq!(graph.run(21).max_iterations(8).await?, 42);
///
/// // Runs in a task of Tokio.
/// let run = tokio::spawn(graph.run(4).timeout(Duration::from_secs(5)).into_future());
/// assert_eq!(run.await??, 8);
/// # Ok(())
/// # }
/// ```
#[must_use = "a run starts when it is awaited"]
pub struct RunOptions<'a, S> {
    pub(super) graph: CompiledGraph<S>,
    /// The first state; `None` for a resumed run, whose state is in the store.
    pub(super) state: Option<S>,
    pub(super) stored: Option<Box<DurableOptions<S>>>,
    /// The storage options that were set before the store was named.
    pub(super) storage: Option<Box<StorageOptions>>,
    pub(super) iterations_max: u64,
    /// `None`: [`limits`](Self::limits) chooses the default.
    pub(super) visits_max: Option<u64>,
    pub(super) steps_per_poll: u32,
    pub(super) clone_state: Option<fn(&S) -> S>,
    pub(super) hooks: Option<Hooks<S>>,
    pub(super) start_options: Option<Box<StartOptions<'a>>>,
    pub(super) details: Option<Box<RunDetails>>,
}

/// The start node of a run, and its links to a scope, a token and a clock.
#[derive(Default)]
pub(super) struct StartOptions<'a> {
    pub(super) start_at: Option<String>,
    pub(super) timeout: Option<Duration>,
    pub(super) token: Option<CancelToken>,
    pub(super) scope: Option<&'a Scope>,
    /// The name of the run in the scope. Default: its id.
    pub(super) name: Option<String>,
}

impl<'a, S: Send + 'static> RunOptions<'a, S> {
    pub(crate) fn new(graph: CompiledGraph<S>, state: Option<S>) -> Self {
        let (iterations_max, visits_max, steps_per_poll) = (MAX_ITERATIONS_DEFAULT, None, STEPS_PER_POLL_MAX);
        let (stored, storage, clone_state, hooks, start_options, details) = (None, None, None, None, None, None);
        Self {
            graph,
            state,
            stored,
            storage,
            iterations_max,
            visits_max,
            steps_per_poll,
            clone_state,
            hooks,
            start_options,
            details,
        }
    }

    /// Sets the store, and moves the storage options that were set before into it.
    pub(crate) fn stored(mut self, mut stored: DurableOptions<S>) -> Self {
        stored.storage = std::mem::take(self.storage());
        (self.stored, self.storage) = (Some(Box::new(stored)), None);
        self
    }

    pub(crate) fn stored_mut(&mut self) -> Option<&mut DurableOptions<S>> {
        self.stored.as_deref_mut()
    }

    /// Returns the storage options, whether or not the store is already named.
    pub(crate) fn storage(&mut self) -> &mut StorageOptions {
        match &mut self.stored {
            Some(stored) => &mut stored.storage,
            None => self.storage.get_or_insert_default(),
        }
    }

    fn start_options(&mut self) -> &mut StartOptions<'a> {
        self.start_options.get_or_insert_default()
    }

    pub(super) fn details(&mut self) -> &mut RunDetails {
        self.details.get_or_insert_default()
    }

    /// Sets the id of the run. Default: a random id.
    pub fn id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.details().id = OnceLock::from(id.into());
        self
    }

    /// Limits how many visits may follow one another on one token. Default: 1,000.
    ///
    /// This ends endless loops.
    /// - Branches do not add up: each continues from the count at its fan-out, and after the join
    ///   the largest count applies.
    /// - Visits inside a subgraph count for the token that entered it. Retries do not count.
    /// - The count continues when a stored run is resumed.
    ///
    /// # Errors
    /// The run ends with [`RunFault::MaxIterations`](crate::RunFault::MaxIterations).
    pub fn max_iterations(mut self, visits: u64) -> Self {
        self.iterations_max = visits;
        self
    }

    /// Limits the visits of the whole run, all branches and subgraphs together.
    ///
    /// Default: 10,000,000, or [`max_iterations`](Self::max_iterations) if that is more. Retries do
    /// not count.
    ///
    /// # Errors
    /// The run ends with [`RunFault::MaxVisits`](crate::RunFault::MaxVisits).
    pub fn max_visits(mut self, visits: u64) -> Self {
        self.visits_max = Some(visits);
        self
    }

    pub(super) fn limits(&self) -> VisitLimits {
        let iterations_max = self.iterations_max;
        let visits_max = self.visits_max.unwrap_or_else(|| MAX_VISITS_DEFAULT.max(iterations_max));
        VisitLimits { iterations_max, visits_max }
    }

    /// Sets a deadline: `timeout` after its start the run is cancelled with
    /// `Cause::DeadlineExceeded`.
    ///
    /// Default: no deadline. With a zero timeout no node starts.
    ///
    /// The deadline of a [stored](Self::checkpoint) run is stored with it, as an absolute time of
    /// the store's clock:
    /// - It applies to all drivers. The driver at that time ends the run permanently, as
    ///   [`RunStatus::Cancelled`](crate::store::RunStatus), without undo. A run that only waits
    ///   becomes due at its deadline at the latest, so that a worker ends it.
    /// - The first deadline wins. A timeout from a resume or from
    ///   [`Worker::graph_with`](crate::Worker::graph_with) applies only if the run has none. It
    ///   starts with that driver and is stored with its first commit.
    /// - A run that is rewound, replayed, forked or gets another state has the deadline given with
    ///   that call, or none.
    ///
    /// A deadline or cancel of a scope or token above the run ends only this driver. The run can be
    /// resumed.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.start_options().timeout = Some(timeout);
        self
    }

    /// Cancels the run when `token` is cancelled. A stored run can then be resumed.
    pub fn token(mut self, token: &CancelToken) -> Self {
        self.start_options().token = Some(token.clone());
        self
    }

    /// Sets the runtime: the clock, the task spawner and the source of random numbers.
    ///
    /// Default: the runtime of the scope or token, else of the actor or task that awaits the run,
    /// else the current Tokio runtime.
    pub fn runtime(mut self, runtime: Arc<dyn Runtime>) -> Self {
        self.details().runtime = OnceLock::from(runtime);
        self
    }

    /// Runs as a child of `scope`, named by the id of the run.
    ///
    /// The run appears in the tree, and the scope waits for it and cancels it. It executes in a
    /// separate task. Dropping the run cancels that task. A run that fails does not fail the scope,
    /// unless a policy chooses `Escalate`.
    ///
    /// # Errors
    /// The run ends with [`Refused`](crate::RunFault::Refused) if the scope accepts no child or
    /// has one with this name.
    pub fn in_scope<'b>(self, scope: &'b Scope) -> RunOptions<'b, S>
    where
        'a: 'b,
    {
        let mut run: RunOptions<'b, S> = self;
        run.start_options().scope = Some(scope);
        run
    }

    /// Like [`in_scope`](Self::in_scope), with another name than the id.
    pub(crate) fn in_scope_as<'b>(self, scope: &'b Scope, name: String) -> RunOptions<'b, S>
    where
        'a: 'b,
    {
        let mut run = self.in_scope(scope);
        run.start_options().name = Some(name);
        run
    }

    /// Starts at `node` instead of the entry. The node must not be inside a fan-out.
    ///
    /// A [resumed](CompiledGraph::resume) run continues at `node` with its current state, or with
    /// the state from [`with_state`](crate::Resume::with_state). As with a rewind, this position is
    /// committed first, and later nodes get new idempotency keys. Undos recorded before stay valid.
    /// A worker ignores this option.
    ///
    /// # Errors
    /// - [`Start`](crate::RunFault::Start): the node does not exist, cannot be reached, or is
    ///   inside a fan-out.
    /// - [`Branched`](crate::ResumeError::Branched): a fan-out or a subgraph of the resumed run is
    ///   open.
    pub fn start_at(mut self, node: impl Into<String>) -> Self {
        self.start_options().start_at = Some(node.into());
        self
    }

    /// Calls `hooks` for every event of the run. Several calls add up.
    pub fn hooks(mut self, hooks: Hooks<S>) -> Self {
        self.hooks = Some(match self.hooks.take() {
            None => hooks,
            Some(first) => first.and(hooks),
        });
        self
    }

    /// Adds a value that nodes can find by its type with
    /// [`NodeContext::extension`](crate::NodeContext::extension).
    pub fn extension(mut self, value: impl Any + Send + Sync) -> Self {
        self.details().extensions.push(Arc::new(value));
        self
    }

    /// Sets a tag of a new run, by which it can be listed; see
    /// [`Filter::tag`](crate::store::Filter).
    ///
    /// A run has up to 16 tags. The run itself can change them with
    /// [`NodeContext::set_tag`](crate::NodeContext::set_tag). A fork starts with the tags of its
    /// original; tags that are given with the fork are added, and replace equal keys. A resumed
    /// run, and a run that a worker claims, keeps its stored tags and ignores the ones that are
    /// given here.
    ///
    /// # Errors
    /// The run ends with [`RunFault::Tag`](crate::RunFault::Tag) before anything is stored, if a
    /// tag is not valid: an empty or too long key (64 bytes), a too long value (256 bytes), or a
    /// 17th tag.
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        let details = self.details();
        let tags = details.tags.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = tags.set(key, value) {
            details.tag_error.get_or_insert(error);
        }
        self
    }

    /// Stores the W3C `traceparent` with a new run, as its tag
    /// [`TRACEPARENT_TAG`](crate::TRACEPARENT_TAG): each process that drives the run continues the
    /// same trace, if it [links](Self::link_span) the run's span.
    #[cfg(feature = "spans")]
    pub fn traceparent(self, traceparent: impl Into<String>) -> Self {
        self.tag(TRACEPARENT_TAG, traceparent)
    }

    /// Calls `link` with the span of a stored run and its stored
    /// [`traceparent`](Self::traceparent), before the first node runs. `link` makes that trace
    /// context the parent of the span; for a worker, set it in
    /// [`graph_with`](crate::Worker::graph_with).
    #[cfg(feature = "spans")]
    pub fn link_span(self, link: impl Fn(&tracing::Span, &str) + Send + Sync + 'static) -> Self {
        self.extension(SpanLink(Arc::new(link)))
    }

    /// Clones the state before every node, so that the error of a failed node contains it.
    ///
    /// Default: off. A node takes the state by value, so without this option a failure loses it.
    pub fn keep_state(mut self) -> Self
    where
        S: Clone,
    {
        self.clone_state = Some(S::clone);
        self
    }

    /// Returns the run as a stream of its events; the last item is the outcome.
    ///
    /// The run advances only while the stream is read.
    pub fn stream(mut self) -> RunStream<S>
    where
        S: Clone + Sync,
    {
        // One step per poll: each event is read before the next step.
        self.steps_per_poll = 1;
        RunStream::of(self)
    }
}

impl<S> fmt::Debug for RunOptions<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { graph, iterations_max, .. } = self;
        f.debug_struct("RunOptions").field("graph", graph).field("max_iterations", iterations_max).finish_non_exhaustive()
    }
}
