//! `GraphContext` and `RunContext`: what all nodes of one graph, and of one run, share.
//!
//! A run has one `RunContext`: id, counts, cancel token, runtime, extensions, undo list. The graph
//! of the run and each running subgraph have a `GraphContext`, which leads to it.
//!
//! Counts use plain loads and stores, unless nodes of the graph run on several threads. Everything
//! else is polled by one task.

use crate::context::cancelled_tasks::{CancelledTask, CancelledTasks};
use crate::context::events::Listener;
use crate::context::undo::Undo;
use crate::control::{Inbox, RunControl};
use crate::error::RunFault;
use crate::log::RunLog;
use crate::log::undo_payload::UndoPayload;
use crate::token::{KeyMaker, TokenId};
use crate::util::{runtime, work_count};
use pleach_core::{BoxError, CancelToken, Cause, Instant, Runtime, Scope};
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Waker;

/// What is the same for every node that one engine runs.
pub(crate) struct GraphContext {
    /// The ids of the graph's nodes.
    names: Arc<[Arc<str>]>,
    /// For a subgraph: the graph around it, and the node that it runs as. Names are put together when they are asked for: kept at every
    /// level, they would take memory quadratic in the depth.
    outer: Option<(Arc<GraphContext>, u32)>,
    /// The token of that node, if it has a cancel grace.
    token: Option<CancelToken>,
    run: RunContext,
}

/// What belongs to the whole run. In a subgraph it is left empty.
#[derive(Default)]
pub(crate) struct RunContext {
    /// How many visits may follow one another on one line of control.
    pub(crate) iterations_max: u64,
    /// How many nodes the whole run may visit.
    pub(crate) visits_max: u64,
    pub(crate) many_threads: bool,
    pub(crate) visits: AtomicU64,
    pub(crate) sequence: AtomicU64,
    pub(crate) has_broken: AtomicBool,
    pub(crate) token: OnceLock<CancelToken>,
    pub(crate) details: OnceLock<Box<RunDetails>>,
}

/// What many runs have nothing of.
#[derive(Default)]
pub(crate) struct RunDetails {
    pub(crate) id: OnceLock<Arc<str>>,
    pub(crate) extensions: Vec<Arc<dyn Any + Send + Sync>>,
    pub(crate) listener: Option<Listener>,
    pub(crate) runtime: OnceLock<Arc<dyn Runtime>>,
    pub(crate) scope: OnceLock<Arc<Scope>>,
    /// What cancels a stored run from above. Its own token is made once its deadline is known.
    pub(crate) above: OnceLock<CancelToken>,
    /// What was posted to the run; there if it is stored, or stands in a scope.
    pub(crate) inbox: OnceLock<Arc<Inbox>>,
    /// Where it is told things as a whole; there if it is stored, or stands in a scope.
    pub(crate) run_control: OnceLock<Arc<RunControl>>,
    /// Nodes that asked for something impossible, and why they fail.
    broken: Mutex<Vec<(TokenId, BoxError)>>,
    /// The log of a run that is stored.
    pub(crate) log: OnceLock<Arc<RunLog>>,
    undos: Mutex<Vec<UndoableVisit>>,
    cancelled_tasks: Arc<CancelledTasks>,
}

/// A committed node that can be undone.
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

    /// For the subgraph that runs as `node` of `outer`, with the token of that node if it has its own.
    pub(crate) fn of_subgraph(names: Arc<[Arc<str>]>, outer: &Arc<Self>, node: u32, token: Option<CancelToken>) -> Self {
        Self { names, outer: Some((Arc::clone(outer), node)), token, run: RunContext::default() }
    }

    /// The token that cancels this graph: of the innermost node around it that has its own, else of the run.
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

    /// Why this graph is cancelled, if it is: with the whole run, or with the node that it runs as.
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

    /// What the names of its nodes begin with, as the whole run knows them; nothing outside of a subgraph.
    pub(crate) fn prefix(&self) -> String {
        let mut around = Vec::new();
        let mut at = self;
        while let Some((outer, node)) = &at.outer {
            around.push(&*outer.names[*node as usize]);
            at = outer;
        }
        around.iter().rev().flat_map(|name| [name, "/"]).collect()
    }

    /// The id of a node as the whole run knows it.
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

    pub(crate) fn run_control(&self) -> Option<&Arc<RunControl>> {
        self.details.get()?.run_control.get()
    }

    /// Whether no further node may start for now.
    pub(crate) fn is_held(&self) -> bool {
        self.run_control().is_some_and(|run_control| run_control.is_held())
    }

    /// Lets a node fail that stays pending.
    pub(crate) fn break_node(&self, token: TokenId, why: BoxError) {
        self.details().broken.lock().unwrap_or_else(PoisonError::into_inner).push((token, why));
        self.has_broken.store(true, Release);
    }

    /// Why a node that is pending fails, if it does.
    #[inline]
    pub(crate) fn why_broken(&self, token: TokenId) -> Option<BoxError> {
        if !self.has_broken.load(Acquire) {
            return None;
        }
        let mut broken = self.details().broken.lock().unwrap_or_else(PoisonError::into_inner);
        let at = broken.iter().position(|(broken, _)| *broken == token)?;
        Some(broken.swap_remove(at).1)
    }

    /// An attempt has ended: what it asked for in vain fails nobody any more.
    pub(crate) fn forget_broken(&self, token: TokenId) {
        while self.why_broken(token).is_some() {}
    }

    pub(crate) fn log(&self) -> Option<&Arc<RunLog>> {
        self.details.get()?.log.get()
    }

    #[inline]
    pub(crate) fn listener(&self) -> Option<&Listener> {
        self.details.get()?.listener.as_ref()
    }

    pub(crate) fn extension<T: Any>(&self) -> Option<&T> {
        self.details.get()?.extensions.iter().rev().find_map(|one| one.downcast_ref())
    }

    pub(crate) fn id(&self) -> &str {
        self.details().id.get_or_init(|| {
            let random = match self.runtime() {
                Ok(runtime) => runtime.random(),
                // With no runtime there is nothing to replay either.
                Err(_) => std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0),
            };
            format!("run-{random:016x}").into()
        })
    }

    /// What idempotency keys of this run are made from.
    pub(crate) fn keys(&self, is_undo: bool) -> KeyMaker<'_> {
        KeyMaker { run: self.id(), instance: self.log().map(|log| log.instance), is_undo }
    }

    /// The token by which a visit is known outside: one that a migration wrote anew goes on under the keys that it had. What undoes a visit is
    /// known by the record that placed it.
    pub(crate) fn key_token(&self, token: TokenId, is_undo: bool) -> TokenId {
        match self.log().filter(|_| !is_undo) {
            Some(log) => TokenId { sequence: log.keys_of(token.sequence), ..token },
            None => token,
        }
    }

    /// Whether no further node may be visited.
    #[inline]
    pub(crate) fn is_spent(&self) -> bool {
        self.visits.load(Relaxed) >= self.visits_max
    }

    /// Counts one more visit of the whole run; false if the limit is reached.
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

    /// The sequence of one more commit.
    #[inline]
    pub(crate) fn next_sequence(&self) -> u64 {
        if self.many_threads {
            return self.sequence.fetch_add(1, Relaxed) + 1;
        }
        let sequence = self.sequence.load(Relaxed) + 1;
        self.sequence.store(sequence, Relaxed);
        sequence
    }

    /// Whether the run is cancelled.
    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.token.get().is_some() && self.cause().is_some()
    }

    /// Why the run is cancelled, if it is. A deadline counts once it has passed, even if no timer could fire yet.
    pub(crate) fn cause(&self) -> Option<Cause> {
        let token = self.token.get()?;
        if let Some(deadline) = token.deadline()
            && token.runtime().now() >= deadline
        {
            token.cancel(Cause::DeadlineExceeded);
        }
        token.cause()
    }

    /// The runtime that was given, else the one that is found here.
    pub(crate) fn runtime(&self) -> Result<&Arc<dyn Runtime>, RunFault> {
        let place = &self.details().runtime;
        if let Some(runtime) = place.get() {
            return Ok(runtime);
        }
        let found = runtime::find().ok_or(RunFault::NoRuntime)?;
        Ok(place.get_or_init(|| found))
    }

    /// The token of the run; made now if nobody gave or needed one before.
    pub(crate) fn token(&self) -> Result<&CancelToken, RunFault> {
        if let Some(token) = self.token.get() {
            return Ok(token);
        }
        let runtime = Arc::clone(self.runtime()?);
        Ok(self.token.get_or_init(|| CancelToken::root(runtime)))
    }

    /// The scope in which tasks of this run are.
    pub(crate) fn scope(&self) -> Result<&Arc<Scope>, RunFault> {
        let place = &self.details().scope;
        if let Some(scope) = place.get() {
            return Ok(scope);
        }
        let token = self.token()?;
        Ok(place.get_or_init(|| Arc::new(Scope::under(token))))
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.token.get().and_then(CancelToken::deadline)
    }

    /// A task was cancelled: see [`are_tasks_gone`](Self::are_tasks_gone).
    pub(crate) fn cancelled_task(&self) -> CancelledTask {
        work_count::visit(1);
        self.details().cancelled_tasks.add()
    }

    /// Whether all cancelled tasks have ended. If not, the waker is woken when the last one does.
    pub(crate) fn are_tasks_gone(&self, waker: Option<&Waker>) -> bool {
        work_count::visit(1);
        self.details.get().is_none_or(|details| details.cancelled_tasks.is_empty(waker))
    }

    pub(crate) fn remember_undo(&self, undoable: UndoableVisit) {
        self.details().undos.lock().unwrap_or_else(PoisonError::into_inner).push(undoable);
    }

    /// All that can be undone, in the order in which it was committed.
    pub(crate) fn take_undos(&self) -> Vec<UndoableVisit> {
        let Some(details) = self.details.get() else { return Vec::new() };
        std::mem::take(&mut details.undos.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
