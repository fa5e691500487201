//! How [`RunOptions`] become a started run.
//!
//! `start` chooses one of two ways. A run without options that need a tree, a runtime or a store
//! becomes a plain run in the awaiting task. All others go through `start_attached`.

use crate::compile::plan::Plan;
use crate::context::events::listener;
use crate::context::run_context::{GraphContext, RunContext};
#[cfg(feature = "spans")]
use crate::context::spans;
use crate::control::{MessageTarget, RunControl, RunRemote};
use crate::durable::drive::RunDriver;
use crate::durable::options::{DurableOptions, QueuedRun};
use crate::engine::{Engine, EngineSetup, PlainRun, VisitLimits};
use crate::error::{Outcome, RunError, RunFault};
use crate::run::future::{RunFuture, RunPlace};
use crate::run::in_scope;
use crate::run::options::{RunOptions, StartOptions};
use pleach_core::{CancelToken, Scope};
use std::future::IntoFuture;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

impl<S: Send + 'static> RunOptions<'_, S> {
    /// Converts the options into a run that a worker will execute.
    pub(crate) fn into_queued(self) -> Result<QueuedRun<S>, RunError<S>> {
        let run = RunContext { details: self.details.map_or_else(OnceLock::new, OnceLock::from), ..RunContext::default() };
        let StartOptions { start_at, timeout, .. } = *self.start_options.unwrap_or_default();
        let start_options = StartOptions { start_at, ..StartOptions::default() };
        if let Err(fault) = run.given_tags() {
            return Err(RunError::new(fault, self.state));
        }
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
        #[cfg(feature = "spans")]
        let is_attached = is_attached || spans::are_wanted();
        match self {
            // The common case, kept separate so that the engine is built in place.
            Self { graph, state: Some(state), stored: None, hooks: None, clone_state: None, steps_per_poll, .. }
                if !is_attached =>
            {
                let run = PlainRun::new(graph.plan, limits, steps_per_poll, state);
                RunFuture(if run.needs_engine() { RunPlace::Here(run.into_engine()) } else { RunPlace::Plain(run) })
            }
            run => run.start_attached(),
        }
    }

    /// Starts a run with hooks, a scope, a token, a deadline, a runtime or a store.
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
        if let Err(fault) = run.given_tags() {
            return RunFuture(RunPlace::NotStarted(Some(RunError::new(fault, self.state))));
        }
        let (mut start, mut scope) = (plan.shape.entry, None);
        if let (Some(stored), Some(start_options)) = (&mut self.stored, &self.start_options) {
            stored.continue_at(start_options.start_at.as_ref());
        }
        if self.start_options.is_some() || plan.needs.runtime || self.stored.is_some() {
            let mut start_options = *self.start_options.unwrap_or_default();
            if let Some(stored) = &mut self.stored {
                // The deadline of a stored run counts from its creation, across drivers.
                stored.timeout = start_options.timeout.take();
            }
            match attach_to_tree(plan, &run, start_options, self.stored.is_some()) {
                Ok((at, within)) => (start, scope) = (at, within),
                Err(fault) => return RunFuture(RunPlace::NotStarted(Some(RunError::new(fault, self.state)))),
            }
        }
        if self.stored.is_some() {
            // A stored run always has an id. It is made here, so that everything below names it.
            run.id();
        }
        #[cfg(feature = "spans")]
        spans::begin_run(&run, &plan.name);
        let scope = scope.map(|scope| (scope, message_target(&run, self.stored.as_deref())));
        // After the grace of a node its result still has to be committed.
        let to_store = self.stored.as_ref().map_or(Duration::ZERO, |stored| stored.storage.lease);
        let grace = plan.needs.grace.map(|grace| grace.saturating_add(to_store));
        let graph_cx = GraphContext::of_run(Arc::clone(&plan.names), run);
        let setup = EngineSetup {
            start,
            hooks: self.hooks,
            clone_state: self.clone_state,
            steps_per_poll: self.steps_per_poll,
            step_writer: None,
        };
        let state = match (self.stored, self.state) {
            (None, Some(state)) => state,
            (stored, state) => {
                let drive = RunDriver::opening(self.graph.plan, graph_cx, setup, state, stored);
                return RunFuture(match scope {
                    Some((scope, messages)) => RunPlace::Scoped(in_scope::launch(scope, messages, grace, drive)),
                    None => RunPlace::Stored(Box::new(drive)),
                });
            }
        };
        let engine = Engine::new(self.graph.plan, graph_cx, setup, state);
        RunFuture(match scope {
            Some((scope, messages)) => {
                RunPlace::Scoped(in_scope::launch(scope, messages, grace, RunDriver::Running(Box::new(engine))))
            }
            None => RunPlace::Here(engine),
        })
    }
}

/// Finds the start node, and gives the run the runtime, token and scope that it needs.
fn attach_to_tree<S>(
    plan: &Plan<S>,
    run: &RunContext,
    start_options: StartOptions<'_>,
    is_stored: bool,
) -> Result<(u32, Option<Arc<Scope>>), RunFault> {
    let StartOptions { start_at, timeout, token, scope, name } = start_options;
    let start = match start_at {
        None => plan.shape.entry,
        Some(start_at) => plan.start_at(start_at).map_err(RunFault::Start)?,
    };
    let scope = match scope.map(|scope| (scope, scope.token())) {
        None => None,
        Some((scope, token)) => {
            run.details().runtime.get_or_init(|| Arc::clone(token.runtime()));
            Some(Arc::new(scope.run_scope(name.as_deref().unwrap_or(run.id())).map_err(RunFault::Refused)?))
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

/// Returns the control state of a run in a scope, and the target of its messages.
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
