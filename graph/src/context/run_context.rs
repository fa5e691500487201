//! `GraphContext` and `RunContext`: data shared by all nodes of one graph, and of one run.
//!
//! A run has one `RunContext`: id, counts, cancel token, runtime, extensions, undo list. The graph
//! of the run and each running subgraph have a `GraphContext`, which leads to it.
//!
//! Counts use plain loads and stores, unless nodes of the graph run on several threads. Everything
//! else is polled by one task.

use crate::context::cancelled_tasks::{CancelledTask, CancelledTasks};
use crate::context::events::Listener;
use crate::context::undo::Undo;
use crate::control::{Inbox, RunControl, RunRefusals};
use crate::error::RunFault;
use crate::log::RunLog;
use crate::log::undo_payload::UndoPayload;
use crate::store::{TagError, Tags};
use crate::token::{KeyMaker, TokenId};
use crate::util::{runtime, work_count};
use pleach_core::{BoxError, CancelToken, Cause, Instant, Runtime, Scope};
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Waker;

/// The data shared by all nodes that one engine runs.
pub(crate) struct GraphContext {
    /// The ids of the graph's nodes.
    names: Arc<[Arc<str>]>,
    /// For a subgraph: the outer graph and the node that runs it. Names are joined on demand:
    /// stored at every level, they would need memory quadratic in the depth.
    outer: Option<(Arc<GraphContext>, u32)>,
    /// The token of that node, if it has a cancel grace.
    token: Option<CancelToken>,
    run: RunContext,
}

/// The data of the whole run. Empty in the context of a subgraph.
#[derive(Default)]
pub(crate) struct RunContext {
    /// The limit for consecutive visits of one token.
    pub(crate) iterations_max: u64,
    /// The limit for all visits of the run.
    pub(crate) visits_max: u64,
    pub(crate) many_threads: bool,
    pub(crate) visits: AtomicU64,
    pub(crate) sequence: AtomicU64,
    /// True if `RunDetails::broken` may have entries.
    pub(crate) has_broken: AtomicBool,
    pub(crate) token: OnceLock<CancelToken>,
    pub(crate) details: OnceLock<Box<RunDetails>>,
}

/// The rarely used parts of a [`RunContext`].
#[derive(Default)]
pub(crate) struct RunDetails {
    pub(crate) id: OnceLock<Arc<str>>,
    pub(crate) extensions: Vec<Arc<dyn Any + Send + Sync>>,
    /// The tags given at the start; for an in-memory run, its current tags.
    pub(crate) tags: Mutex<Tags>,
    /// The first given tag that is not valid.
    pub(crate) tag_error: Option<TagError>,
    pub(crate) listener: Option<Listener>,
    /// The span of the run, if a subscriber wants it.
    #[cfg(feature = "spans")]
    pub(crate) span: OnceLock<tracing::Span>,
    pub(crate) runtime: OnceLock<Arc<dyn Runtime>>,
    pub(crate) scope: OnceLock<Arc<Scope>>,
    /// For a stored run: the token of its parent. The run's own token is created when its deadline
    /// is known.
    pub(crate) above: OnceLock<CancelToken>,
    /// The inbox of the run. Set for stored runs and for runs in a scope.
    pub(crate) inbox: OnceLock<Arc<Inbox>>,
    /// The health reports about messages that the run refused. Set by a worker, or at the first
    /// refusal of a run in a scope.
    pub(crate) refusals: OnceLock<Arc<RunRefusals>>,
    /// The commands to the run. Set for stored runs and for runs in a scope.
    pub(crate) run_control: OnceLock<Arc<RunControl>>,
    /// Nodes that must fail, with the errors. Their futures stay pending until the engine drops
    /// them.
    broken: Mutex<Vec<(TokenId, BoxError)>>,
    /// The log of a stored run.
    pub(crate) log: OnceLock<Arc<RunLog>>,
    undos: Mutex<Vec<UndoableVisit>>,
    cancelled_tasks: Arc<CancelledTasks>,
}

/// A committed visit of a node that has an undo.
pub(crate) struct UndoableVisit {
    pub(crate) name: Arc<str>,
    pub(crate) undo: Arc<Undo>,
    pub(crate) payload: UndoPayload,
    pub(crate) token: TokenId,
    pub(crate) iteration: u64,
}

impl GraphContext {
    pub(crate) fn of_run(names: Arc<[Arc<str>]>, run: RunContext) -> Self {
        Self { names, outer: None, token: None, run }
    }

    /// Creates the context of the subgraph that runs as `node` of `outer`. `token` is the token of
    /// that node, if it has its own.
    pub(crate) fn of_subgraph(names: Arc<[Arc<str>]>, outer: &Arc<Self>, node: u32, token: Option<CancelToken>) -> Self {
        Self { names, outer: Some((Arc::clone(outer), node)), token, run: RunContext::default() }
    }

    /// Returns the cancel token of this graph: that of the innermost enclosing node that has its
    /// own, else that of the run.
    pub(crate) fn token(&self) -> Result<&CancelToken, RunFault> {
        let mut at = self;
        loop {
            match (&at.token, &at.outer) {
                (Some(token), _) => return Ok(token),
                (None, Some((outer, _))) => at = outer,
                (None, None) => return at.run.token(),
            }
        }
    }

    /// Returns why this graph was cancelled: with the whole run, or with the node that runs it.
    pub(crate) fn cause(&self) -> Option<Cause> {
        self.run().cause().or_else(|| self.token.as_ref()?.cause())
    }

    pub(crate) fn run(&self) -> &RunContext {
        let mut at = self;
        while let Some((outer, _)) = &at.outer {
            at = outer;
        }
        &at.run
    }

    pub(crate) fn is_subgraph(&self) -> bool {
        self.outer.is_some()
    }

    /// Returns the prefix of node names in this graph, as the whole run uses them. Empty outside
    /// subgraphs.
    pub(crate) fn prefix(&self) -> String {
        let mut around = Vec::new();
        let mut at = self;
        while let Some((outer, node)) = &at.outer {
            around.push(&*outer.names[*node as usize]);
            at = outer;
        }
        around.iter().rev().flat_map(|name| [name, "/"]).collect()
    }

    /// Returns the id of a node, as the whole run uses it.
    pub(crate) fn name(&self, node: u32) -> Arc<str> {
        let name = &self.names[node as usize];
        match &self.outer {
            None => Arc::clone(name),
            Some(_) => (self.prefix() + name).into(),
        }
    }
}

impl RunContext {
    pub(crate) fn details(&self) -> &RunDetails {
        self.details.get_or_init(Box::default)
    }

    pub(crate) fn inbox(&self) -> Option<&Inbox> {
        self.details.get()?.inbox.get().map(|inbox| &**inbox)
    }

    /// Returns the reports about refused messages, if there may be one.
    pub(crate) fn known_refusals(&self) -> Option<&Arc<RunRefusals>> {
        self.details.get()?.refusals.get()
    }

    /// Returns the reports about refused messages. Returns `None` for a run outside of a tree,
    /// whose caller alone observes it.
    pub(crate) fn refusals(&self) -> Option<&Arc<RunRefusals>> {
        let details = self.details.get()?;
        let (Some(id), Some(scope)) = (details.id.get(), details.scope.get()) else { return details.refusals.get() };
        Some(details.refusals.get_or_init(|| Arc::new(RunRefusals::new(Arc::clone(id), scope.any(), None))))
    }

    pub(crate) fn run_control(&self) -> Option<&Arc<RunControl>> {
        self.details.get()?.run_control.get()
    }

    /// Returns true while the run is paused: no further node may start.
    pub(crate) fn is_paused(&self) -> bool {
        self.run_control().is_some_and(|run_control| run_control.is_paused())
    }

    /// Makes the node of this token fail. Its future stays pending.
    pub(crate) fn break_node(&self, token: TokenId, reason: BoxError) {
        self.details().broken.lock().unwrap_or_else(PoisonError::into_inner).push((token, reason));
        self.has_broken.store(true, Release);
    }

    /// Takes the error that makes a pending node fail, if one was set.
    #[inline]
    pub(crate) fn why_broken(&self, token: TokenId) -> Option<BoxError> {
        if !self.has_broken.load(Acquire) {
            return None;
        }
        let mut broken = self.details().broken.lock().unwrap_or_else(PoisonError::into_inner);
        let at = broken.iter().position(|(broken, _)| *broken == token)?;
        Some(broken.swap_remove(at).1)
    }

    /// Drops the errors of an attempt that has ended.
    pub(crate) fn forget_broken(&self, token: TokenId) {
        while self.why_broken(token).is_some() {}
    }

    pub(crate) fn log(&self) -> Option<&Arc<RunLog>> {
        self.details.get()?.log.get()
    }

    /// Returns the span of the run, if a subscriber wants it.
    #[cfg(feature = "spans")]
    pub(crate) fn span(&self) -> Option<&tracing::Span> {
        self.details.get()?.span.get()
    }

    /// Returns whether the run has a span, so that each of its nodes needs one.
    pub(crate) fn has_span(&self) -> bool {
        #[cfg(feature = "spans")]
        return self.span().is_some();
        #[cfg(not(feature = "spans"))]
        false
    }

    #[inline]
    pub(crate) fn listener(&self) -> Option<&Listener> {
        self.details.get()?.listener.as_ref()
    }

    pub(crate) fn extension<T: Any>(&self) -> Option<&T> {
        self.details.get()?.extensions.iter().rev().find_map(|one| one.downcast_ref())
    }

    /// Returns the id of the run for an event. `None` for an in-memory run without an id.
    pub(crate) fn known_id(&self) -> Option<Arc<str>> {
        self.details.get()?.id.get().cloned()
    }

    /// Returns the tags that were given at the start of the run, or the error of one of them.
    pub(crate) fn given_tags(&self) -> Result<Tags, RunFault> {
        let Some(details) = self.details.get() else { return Ok(Tags::default()) };
        match &details.tag_error {
            Some(error) => Err(RunFault::Tag(error.clone())),
            None => Ok(details.tags.lock().unwrap_or_else(PoisonError::into_inner).clone()),
        }
    }

    pub(crate) fn id(&self) -> &str {
        self.details().id.get_or_init(|| {
            let random = match self.runtime() {
                Ok(runtime) => runtime.random(),
                // Without a runtime no simulation replays the run, so any random id will do.
                Err(_) => std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0),
            };
            format!("run-{random:016x}").into()
        })
    }

    /// Returns the maker of idempotency keys for this run.
    pub(crate) fn keys(&self, is_undo: bool) -> KeyMaker<'_> {
        KeyMaker { run: self.id(), instance: self.log().map(|log| log.instance), is_undo }
    }

    /// Returns the token that idempotency keys are made from. A visit that a migration rewrote
    /// keeps its keys. An undo uses the record that it undoes.
    pub(crate) fn key_token(&self, token: TokenId, is_undo: bool) -> TokenId {
        match self.log().filter(|_| !is_undo) {
            Some(log) => TokenId { sequence: log.keys_of(token.sequence), ..token },
            None => token,
        }
    }

    /// Returns true if the visit limit of the run is reached.
    #[inline]
    pub(crate) fn is_spent(&self) -> bool {
        self.visits.load(Relaxed) >= self.visits_max
    }

    /// Counts a visit. Returns false if the limit is reached.
    #[inline]
    pub(crate) fn count_visit(&self) -> bool {
        if self.many_threads {
            let within = |visits: u64| (visits < self.visits_max).then(|| visits + 1);
            return self.visits.fetch_update(Relaxed, Relaxed, within).is_ok();
        }
        let visits = self.visits.load(Relaxed);
        if visits >= self.visits_max {
            return false;
        }
        self.visits.store(visits + 1, Relaxed);
        true
    }

    /// Returns the next commit number of an in-memory run.
    #[inline]
    pub(crate) fn next_sequence(&self) -> u64 {
        if self.many_threads {
            return self.sequence.fetch_add(1, Relaxed) + 1;
        }
        let sequence = self.sequence.load(Relaxed) + 1;
        self.sequence.store(sequence, Relaxed);
        sequence
    }

    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.token.get().is_some() && self.cause().is_some()
    }

    /// Returns why the run was cancelled. A deadline counts once it has passed, even if no timer
    /// has fired yet.
    pub(crate) fn cause(&self) -> Option<Cause> {
        let token = self.token.get()?;
        if let Some(deadline) = token.deadline()
            && token.runtime().now() >= deadline
        {
            token.cancel(Cause::DeadlineExceeded);
        }
        token.cause()
    }

    /// Returns the runtime of the run. Default: the current runtime, looked up on first use.
    pub(crate) fn runtime(&self) -> Result<&Arc<dyn Runtime>, RunFault> {
        let cell = &self.details().runtime;
        if let Some(runtime) = cell.get() {
            return Ok(runtime);
        }
        let found = runtime::find().ok_or(RunFault::NoRuntime)?;
        Ok(cell.get_or_init(|| found))
    }

    /// Returns the runtime of the run, if it was given one or has looked it up.
    pub(crate) fn known_runtime(&self) -> Option<&Arc<dyn Runtime>> {
        self.details.get()?.runtime.get()
    }

    /// Returns the cancel token of the run. Created on first use if the options set none.
    pub(crate) fn token(&self) -> Result<&CancelToken, RunFault> {
        if let Some(token) = self.token.get() {
            return Ok(token);
        }
        let runtime = Arc::clone(self.runtime()?);
        Ok(self.token.get_or_init(|| CancelToken::root(runtime)))
    }

    /// Returns the scope of the tasks of this run. Created on first use.
    pub(crate) fn scope(&self) -> Result<&Arc<Scope>, RunFault> {
        let cell = &self.details().scope;
        if let Some(scope) = cell.get() {
            return Ok(scope);
        }
        let token = self.token()?;
        Ok(cell.get_or_init(|| Arc::new(Scope::under(token))))
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.token.get().and_then(CancelToken::deadline)
    }

    /// Counts a cancelled task until the returned value is dropped; see
    /// [`are_tasks_gone`](Self::are_tasks_gone).
    pub(crate) fn cancelled_task(&self) -> CancelledTask {
        work_count::count(1);
        self.details().cancelled_tasks.add()
    }

    /// Returns true if all cancelled tasks have ended. If not, wakes `waker` when the last one
    /// ends.
    pub(crate) fn are_tasks_gone(&self, waker: Option<&Waker>) -> bool {
        work_count::count(1);
        self.details.get().is_none_or(|details| details.cancelled_tasks.is_empty(waker))
    }

    pub(crate) fn remember_undo(&self, undoable: UndoableVisit) {
        self.details().undos.lock().unwrap_or_else(PoisonError::into_inner).push(undoable);
    }

    /// Takes all visits that can be undone, in commit order.
    pub(crate) fn take_undos(&self) -> Vec<UndoableVisit> {
        let Some(details) = self.details.get() else { return Vec::new() };
        std::mem::take(&mut details.undos.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
