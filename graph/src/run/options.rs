//! `RunOptions`: a run before it starts. Awaiting it runs it, in the awaiting task or within a
//! scope.

use crate::compile::compiled::CompiledGraph;
use crate::compile::plan::Plan;
use crate::context::events::{Hooks, listener};
use crate::context::run_context::{GraphContext, RunContext, RunDetails};
use crate::control::{MessageTarget, RunControl, RunRemote};
use crate::durable::drive::RunDriver;
use crate::durable::options::{DurableOptions, QueuedRun, StorageOptions};
use crate::engine::{Engine, EngineSetup, STEPS_PER_POLL_MAX, VisitLimits};
use crate::error::{Outcome, RunError, RunFault};
use crate::run::future::{RunFuture, RunPlace};
use crate::run::in_scope;
use crate::run::stream::RunStream;
use pleach_core::{CancelToken, Runtime, Scope};
use std::any::Any;
use std::fmt;
use std::future::IntoFuture;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How many visits may follow one another on one line of control, by default.
pub const MAX_ITERATIONS_DEFAULT: u64 = 1_000;

/// How many nodes a whole run may visit, by default.
pub const MAX_VISITS_DEFAULT: u64 = 10_000_000;

/// A run that has not started, and how it is to be: from [`CompiledGraph::run`]. Await it, or take its [`stream`](Self::stream).
#[must_use = "a run starts when it is awaited"]
pub struct RunOptions<'a, S> {
    graph: CompiledGraph<S>,
    /// What it begins with; a run that is resumed has it in its store.
    state: Option<S>,
    stored: Option<Box<DurableOptions<S>>>,
    /// How it is to be kept, as said before the store was named.
    storage: Option<Box<StorageOptions>>,
    iterations_max: u64,
    /// As told; if not, see [`limits`](Self::limits).
    visits_max: Option<u64>,
    steps_per_poll: u32,
    keep: Option<fn(&S) -> S>,
    hooks: Option<Hooks<S>>,
    start_options: Option<Box<StartOptions<'a>>>,
    details: Option<Box<RunDetails>>,
}

/// Where a run begins, and where it hangs: what gives it time, and what cancels it.
#[derive(Default)]
struct StartOptions<'a> {
    from: Option<String>,
    timeout: Option<Duration>,
    token: Option<CancelToken>,
    scope: Option<&'a Scope>,
    /// What it is called there, if not by its id.
    name: Option<String>,
}

impl<'a, S: Send + 'static> RunOptions<'a, S> {
    pub(crate) fn new(graph: CompiledGraph<S>, state: Option<S>) -> Self {
        let (iterations_max, visits_max, steps_per_poll) = (MAX_ITERATIONS_DEFAULT, None, STEPS_PER_POLL_MAX);
        let (stored, storage, keep, hooks, start_options, details) = (None, None, None, None, None, None);
        Self { graph, state, stored, storage, iterations_max, visits_max, steps_per_poll, keep, hooks, start_options, details }
    }

    /// Keeps it in another store, or in one at all, as was said so far.
    pub(crate) fn stored(mut self, mut stored: DurableOptions<S>) -> Self {
        stored.storage = std::mem::take(self.storage());
        (self.stored, self.storage) = (Some(Box::new(stored)), None);
        self
    }

    pub(crate) fn stored_mut(&mut self) -> Option<&mut DurableOptions<S>> {
        self.stored.as_deref_mut()
    }

    /// How it is to be kept, once there is a store.
    pub(crate) fn storage(&mut self) -> &mut StorageOptions {
        match &mut self.stored {
            Some(stored) => &mut stored.storage,
            None => self.storage.get_or_insert_default(),
        }
    }

    fn start_options(&mut self) -> &mut StartOptions<'a> {
        self.start_options.get_or_insert_default()
    }

    fn details(&mut self) -> &mut RunDetails {
        self.details.get_or_insert_default()
    }

    /// The id of the run. Without one it gets a random one.
    pub fn id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.details().id = OnceLock::from(id.into());
        self
    }

    /// Limits how many visits of nodes may follow one another on a line of control. It stops endless loops. The default is 1,000.
    ///
    /// - Branches do not add up: each goes on from the count at its fan-out, and after the join the longest of them counts.
    /// - Visits inside a subgraph count for the line of control that it is on. Retries do not count.
    /// - The count goes on when a stored run is resumed.
    ///
    /// # Errors
    /// The run ends with [`RunFault::MaxIterations`].
    pub fn max_iterations(mut self, visits: u64) -> Self {
        self.iterations_max = visits;
        self
    }

    /// Limits how many nodes the whole run may visit, all branches and subgraphs added up. Retries do not count. The default is
    /// 10,000,000, or [`max_iterations`](Self::max_iterations) if that is more.
    ///
    /// # Errors
    /// The run ends with [`RunFault::MaxVisits`].
    pub fn max_visits(mut self, visits: u64) -> Self {
        self.visits_max = Some(visits);
        self
    }

    fn limits(&self) -> VisitLimits {
        let iterations_max = self.iterations_max;
        let visits_max = self.visits_max.unwrap_or_else(|| MAX_VISITS_DEFAULT.max(iterations_max));
        VisitLimits { iterations_max, visits_max }
    }

    /// Cancels the run with `Cause::DeadlineExceeded` so long after its start. With a timeout of zero no node starts.
    ///
    /// The deadline of a [stored](Self::checkpoint) run is kept with the run, as an absolute time by the store's clock:
    /// - It counts across drivers. Whoever drives the run when it passes ends the run for good, as [`RunStatus::Cancelled`](crate::store::RunStatus);
    ///   nothing is undone. While all of the run waits, it is due at its deadline at the latest, so that a worker ends it.
    /// - The first deadline counts. A timeout that is given to a resume, or by a [`Worker`](crate::Worker::graph_with), counts only if the run has
    ///   none; it begins with that driver, and is stored with its first commit.
    /// - A run that is rewound, replayed, forked or given another state has the deadline that is given with that, or none.
    ///
    /// The deadline or the cancel of a scope or token above the run ends only this driver: the run can be resumed.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.start_options().timeout = Some(timeout);
        self
    }

    /// Cancels the run when `token` is cancelled.
    pub fn token(mut self, token: &CancelToken) -> Self {
        self.start_options().token = Some(token.clone());
        self
    }

    /// Takes clock, tasks and chance from this runtime. Without it, from the scope or token, else from the actor or task that
    /// awaits the run, else from the current Tokio runtime.
    pub fn on(mut self, runtime: Arc<dyn Runtime>) -> Self {
        self.details().runtime = OnceLock::from(runtime);
        self
    }

    /// Runs as a child of `scope`, under its id: seen in the tree, waited for and cancelled with it. It runs in a task of its
    /// own, which dropping the run cancels. A run that fails does not fail the scope, unless a policy says Escalate.
    pub fn within<'b>(self, scope: &'b Scope) -> RunOptions<'b, S>
    where
        'a: 'b,
    {
        let mut run: RunOptions<'b, S> = self;
        run.start_options().scope = Some(scope);
        run
    }

    /// As [`within`](Self::within), under another name than its id.
    pub(crate) fn within_as<'b>(self, scope: &'b Scope, name: String) -> RunOptions<'b, S>
    where
        'a: 'b,
    {
        let mut run = self.within(scope);
        run.start_options().name = Some(name);
        run
    }

    /// Starts at this node in place of the entry. It must not be inside a fan-out.
    ///
    /// A run that is [resumed](CompiledGraph::resume) goes on at this node, with the state that it has, or is given by
    /// [`with_state`](crate::Resume::with_state). That is written down first, as a rewind is: what follows has new idempotency keys. It takes a run
    /// with one line of control: while a fan-out or a subgraph is open it is [`Branched`](crate::ResumeError::Branched). What could be undone before
    /// can still be undone. A worker does not look at it.
    ///
    /// # Errors
    /// The run ends with [`RunFault::Start`] if there is no such node, no way leads to it, or it is inside a fan-out.
    pub fn from(mut self, node: impl Into<String>) -> Self {
        self.start_options().from = Some(node.into());
        self
    }

    /// Calls `hooks` as the run goes on; given twice, both.
    pub fn hooks(mut self, hooks: Hooks<S>) -> Self {
        self.hooks = Some(match self.hooks.take() {
            None => hooks,
            Some(first) => first.and(hooks),
        });
        self
    }

    /// Lets nodes find `value` by its type: [`NodeContext::extension`](crate::NodeContext::extension).
    pub fn extension(mut self, value: impl Any + Send + Sync) -> Self {
        self.details().extensions.push(Arc::new(value));
        self
    }

    /// Keeps a clone of the state before every node, so that the error of a failing node has it.
    pub fn keep_state(mut self) -> Self
    where
        S: Clone,
    {
        self.keep = Some(S::clone);
        self
    }

    /// Runs as a stream of what happens, whose last item is how the run ended. The run goes on as far as the stream is read.
    pub fn stream(mut self) -> RunStream<S>
    where
        S: Clone + Sync,
    {
        // So that what happened is read before more happens.
        self.steps_per_poll = 1;
        RunStream::of(self)
    }

    /// What a run that is left to others begins with, and where; with how it is stored, if it is.
    pub(crate) fn into_first(self) -> Result<QueuedRun<S>, RunError<S>> {
        let run = RunContext { details: self.details.map_or_else(OnceLock::new, OnceLock::from), ..RunContext::default() };
        let StartOptions { from, timeout, .. } = *self.start_options.unwrap_or_default();
        let start_options = StartOptions { from, ..StartOptions::default() };
        let mut stored = self.stored;
        stored.iter_mut().for_each(|stored| stored.timeout = timeout);
        match attach_to_tree(&self.graph.plan, &run, start_options, true) {
            Ok((start, _)) => Ok(QueuedRun { plan: self.graph.plan, run, start, state: self.state, stored }),
            Err(fault) => Err(RunError::new(fault, self.state)),
        }
    }

    #[inline]
    fn start(self) -> RunFuture<S> {
        let limits = self.limits();
        let is_attached = self.start_options.is_some() || self.details.is_some() || self.graph.plan.needs.runtime;
        match self {
            // Most runs: they need nothing but a place. Kept apart from the others, so that it is built where it will lie.
            Self { graph, state: Some(state), stored: None, hooks: None, keep, steps_per_poll, .. } if !is_attached => {
                RunFuture(RunPlace::Here(Engine::plain(graph.plan, limits, keep, steps_per_poll, state)))
            }
            run => run.start_attached(),
        }
    }

    /// As [`start`](Self::start), for a run that somebody listens to, or that hangs somewhere, or is stored.
    #[inline(never)]
    fn start_attached(mut self) -> RunFuture<S> {
        let VisitLimits { iterations_max, visits_max } = self.limits();
        let plan = &self.graph.plan;
        if let Some(hooks) = &self.hooks {
            let hooks = hooks.clone();
            self.details.get_or_insert_default().listener = Some(listener(hooks));
        }
        let run = RunContext {
            iterations_max,
            visits_max,
            many_threads: plan.needs.threads,
            details: self.details.map_or_else(OnceLock::new, OnceLock::from),
            ..RunContext::default()
        };
        let (mut start, mut scope) = (plan.shape.entry, None);
        if let (Some(stored), Some(start_options)) = (&mut self.stored, &self.start_options) {
            stored.go_on_at(start_options.from.as_ref());
        }
        if self.start_options.is_some() || plan.needs.runtime || self.stored.is_some() {
            let mut start_options = *self.start_options.unwrap_or_default();
            if let Some(stored) = &mut self.stored {
                // It counts from when the run was made, whoever drives it.
                stored.timeout = start_options.timeout.take();
            }
            match attach_to_tree(plan, &run, start_options, self.stored.is_some()) {
                Ok((at, within)) => (start, scope) = (at, within),
                Err(fault) => return RunFuture(RunPlace::NotStarted(Some(RunError::new(fault, self.state)))),
            }
        }
        let scope = scope.map(|scope| (scope, message_target(&run, self.stored.as_deref())));
        // What a node leaves behind in its grace is still to be stored.
        let to_store = self.stored.as_ref().map_or(Duration::ZERO, |stored| stored.storage.lease);
        let grace = plan.needs.grace.map(|grace| grace.saturating_add(to_store));
        let graph_cx = GraphContext::of_run(Arc::clone(&plan.names), run);
        let setup =
            EngineSetup { start, hooks: self.hooks, keep: self.keep, steps_per_poll: self.steps_per_poll, step_writer: None };
        let state = match (self.stored, self.state) {
            (None, Some(state)) => state,
            (stored, state) => {
                let drive = RunDriver::opening(self.graph.plan, graph_cx, setup, state, stored);
                return RunFuture(match scope {
                    Some((scope, told)) => RunPlace::Elsewhere(in_scope::launch(scope, told, grace, drive)),
                    None => RunPlace::Stored(Box::new(drive)),
                });
            }
        };
        let engine = Engine::new(self.graph.plan, graph_cx, setup, state);
        RunFuture(match scope {
            Some((scope, told)) => {
                RunPlace::Elsewhere(in_scope::launch(scope, told, grace, RunDriver::Running(Box::new(engine))))
            }
            None => RunPlace::Here(engine),
        })
    }
}

/// Finds the node a run starts at, gives the run its runtime and its token, as far as it needs them, and its scope, if it is to
/// run in one.
fn attach_to_tree<S>(
    plan: &Plan<S>,
    run: &RunContext,
    start_options: StartOptions<'_>,
    is_stored: bool,
) -> Result<(u32, Option<Arc<Scope>>), RunFault> {
    let StartOptions { from, timeout, token, scope, name } = start_options;
    let start = match from {
        None => plan.shape.entry,
        Some(from) => plan.start_at(from).map_err(RunFault::Start)?,
    };
    let scope = match scope.map(|scope| (scope, scope.token())) {
        None => None,
        Some((scope, token)) => {
            run.details().runtime.get_or_init(|| Arc::clone(token.runtime()));
            Some(Arc::new(scope.scope(name.as_deref().unwrap_or(run.id())).map_err(RunFault::Refused)?))
        }
    };
    let above = token.or_else(|| scope.as_ref().map(|scope| scope.token()));
    if let Some(above) = &above {
        run.details().runtime.get_or_init(|| Arc::clone(above.runtime()));
    }
    if plan.needs.runtime || timeout.is_some() || is_stored {
        run.runtime()?;
    }
    let token = match (above, timeout) {
        (above, _) if is_stored => {
            above.into_iter().for_each(|above| drop(run.details().above.set(above)));
            None
        }
        (None, None) => None,
        (Some(above), None) => Some(above.child()),
        (above, Some(timeout)) => {
            let runtime = run.runtime()?;
            let above = above.unwrap_or_else(|| CancelToken::root(Arc::clone(runtime)));
            Some(above.child_for(timeout))
        }
    };
    token.into_iter().for_each(|token| drop(run.token.set(token)));
    scope.iter().for_each(|scope| drop(run.details().scope.set(Arc::clone(scope))));
    Ok((start, scope))
}

/// Where a run that stands in the tree is told things.
fn message_target<S>(run: &RunContext, stored: Option<&DurableOptions<S>>) -> (Arc<RunControl>, MessageTarget) {
    let (run_control, inbox) =
        (run.details().run_control.get_or_init(Arc::default), run.details().inbox.get_or_init(Arc::default));
    let inbox = match stored {
        Some(stored) => MessageTarget::Stored(RunRemote::of(stored.store(), run.id().into())),
        None => MessageTarget::InMemory(Arc::clone(inbox)),
    };
    (Arc::clone(run_control), inbox)
}

impl<S: Send + 'static> IntoFuture for RunOptions<'_, S> {
    type Output = Outcome<S>;
    type IntoFuture = RunFuture<S>;

    fn into_future(self) -> RunFuture<S> {
        self.start()
    }
}

impl<S> fmt::Debug for RunOptions<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { graph, iterations_max, .. } = self;
        f.debug_struct("RunOptions").field("graph", graph).field("max_iterations", iterations_max).finish_non_exhaustive()
    }
}
