//! [`RunDriver`]: creates or opens a stored run, then polls its engine.
//!
//! | state | meaning | next |
//! |---|---|---|
//! | `Opening` | creates, claims, reads or migrates the run | `Running`, or the end |
//! | `Running` | polls the engine | the end |
//!
//! [`enqueue`] creates a run and leaves it to a worker.

use crate::compile::plan::Plan;
use crate::context::events::{Hooks, RunEvent};
use crate::context::run_context::GraphContext;
use crate::control::RunRemote;
use crate::durable::options::{DurableOptions, QueuedRun, RunSource, StorageOptions};
use crate::durable::refusals;
use crate::durable::reopen::Opener;
use crate::engine::records::StepWriter;
use crate::engine::{Engine, EngineSetup};
use crate::error::{CheckpointError, Outcome, RunError, RunFault, StoredFault, cut, fault_of};
use crate::lease::owner;
use crate::log::codec::{Codec, encode};
use crate::log::committer::Committer;
use crate::log::deadline::opened_until;
use crate::log::message::Message;
use crate::log::open::OpenedRun;
use crate::log::retrying_store::{NoticeListener, StoreNotice};
use crate::log::{LogOptions, NewRecord, RunLog, open};
use crate::store::message_kind::ANSWER;
use crate::store::{GraphVersion, Kind, Place, Prune, RunInfo, StoreError};
use pleach_core::{BoxFuture, CancelToken, Cancelled, Cause, Instant, Runtime};
use std::future::Future as _;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

/// Pruning by chance: one of 64 new runs removes up to 128 ended runs. No coordination between
/// drivers is needed, and about twice as many runs are removed as created.
const PRUNE_CHANCE: (u64, usize) = (64, 128);

/// A run that is opened and then driven.
pub(crate) enum RunDriver<S> {
    Opening {
        opening: BoxFuture<'static, Result<OpenedEngine<S>, RunError<S>>>,
        cancelled: Option<Cancelled>,
        state: FirstState<S>,
    },
    Running(Box<Engine<S>>),
}

/// The first state of a new run. A cancel before the store has it returns it to the caller.
type FirstState<S> = Arc<Mutex<Option<S>>>;

fn take_first<S>(state: &FirstState<S>) -> Option<S> {
    state.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// The result of opening a run.
pub(crate) enum OpenedEngine<S> {
    Engine(Box<Engine<S>>),
    /// The run needs no further step.
    Over(Outcome<S>),
}

impl<S: Send + 'static> RunDriver<S> {
    pub(crate) fn opening(
        plan: Arc<Plan<S>>,
        graph_cx: GraphContext,
        setup: EngineSetup<S>,
        state: Option<S>,
        stored: Option<Box<DurableOptions<S>>>,
    ) -> Self {
        let cancelled = graph_cx.run().details().above.get().map(|token| token.cancelled());
        let started = graph_cx.run().runtime().map_or(Instant::ZERO, |runtime| runtime.now());
        let state = Arc::new(Mutex::new(state));
        let first = Arc::clone(&state);
        let opening = async move {
            match stored {
                Some(stored) => open(plan, graph_cx, setup, &first, *stored, started).await,
                None => Err(RunError::new(RunFault::NoRuntime, take_first(&first))),
            }
        };
        Self::Opening { opening: Box::pin(opening), cancelled, state }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome<S>> {
        loop {
            match self {
                Self::Running(engine) => return Pin::new(&mut **engine).poll(cx),
                Self::Opening { opening, cancelled, .. } => {
                    if let Some(cancelled) = cancelled
                        && let Poll::Ready(cause) = Pin::new(cancelled).poll(cx)
                    {
                        return Poll::Ready(Err(self.cancel(cause)));
                    }
                    match std::task::ready!(opening.as_mut().poll(cx)) {
                        Ok(OpenedEngine::Engine(engine)) => *self = Self::Running(engine),
                        Ok(OpenedEngine::Over(outcome)) => return Poll::Ready(outcome),
                        Err(error) => return Poll::Ready(Err(error)),
                    }
                }
            }
        }
    }

    pub(crate) fn cancel(&mut self, cause: Cause) -> RunError<S> {
        match self {
            Self::Running(engine) => engine.cancel_now(cause),
            Self::Opening { state, .. } => {
                let fault = RunFault::Cancelled { node: String::new(), cause, was_executing: false, grace: None };
                RunError::new(fault, take_first(state))
            }
        }
    }
}

async fn open<S: Send + 'static>(
    plan: Arc<Plan<S>>,
    graph_cx: GraphContext,
    setup: EngineSetup<S>,
    state: &FirstState<S>,
    stored: DurableOptions<S>,
    started: Instant,
) -> Result<OpenedEngine<S>, RunError<S>> {
    let runtime = match graph_cx.run().runtime() {
        Ok(runtime) => Arc::clone(runtime),
        Err(fault) => return Err(RunError::new(fault, take_first(state))),
    };
    let run: Arc<str> = graph_cx.run().id().into();
    let log_options = stored.log_options(started).with_retries(
        &runtime,
        Arc::clone(&run),
        setup.hooks.clone().map(|hooks| notify_hooks(hooks, Arc::clone(&run))),
    );
    let DurableOptions { storage, codec, origin, changes, answers, holder, .. } = stored;
    let codec = codec.comparing(plan.equal);
    let StorageOptions { schema, migrations, ended_kept, attaches, .. } = storage;
    let version = GraphVersion { fingerprint: plan.fingerprint.clone(), schema };
    if let (Some(first_state), RunSource::New) = (take_first(state), &origin) {
        let (first, first_state) = first_record(&run, &plan, setup.start, &codec, first_state)?;
        *state.lock().unwrap_or_else(PoisonError::into_inner) = Some(first_state);
        let (graph, owner) = ((plan.name.clone(), version.clone()), Some(owner(&runtime)));
        let tags = graph_cx.run().given_tags().map_err(|fault| RunError::new(fault, take_first(state)))?;
        let creating = open::create(log_options.clone(), Arc::clone(&runtime), Arc::clone(&run), graph, first, owner, tags);
        let until = log_options.timeout.open_until(log_options.lease);
        let created = opened_until(&runtime, until, async { Ok::<_, RunFault>(creating.await) }).await;
        match created.map_err(|fault| RunError::new(fault, take_first(state)))? {
            Ok(opened) => {
                prune_by_chance(&log_options, &runtime, ended_kept);
                return Ok(OpenedEngine::Engine(Box::new(start_engine(
                    plan,
                    graph_cx,
                    setup,
                    codec,
                    opened,
                    take_first(state),
                ))));
            }
            Err(StoreError::Exists { .. }) if attaches => {}
            Err(error) => return Err(RunError::new(fault_of(&*run, "", "create", error), take_first(state))),
        }
    }
    for (name, answer) in answers.iter() {
        if let Err(error) = answer {
            let key = cut(name.strip_prefix(ANSWER).unwrap_or(name).to_string());
            let (run, reason) = (run.to_string(), error.to_string());
            return Err(RunError::new(RunFault::AnswerRejected { run, key, reason }, None));
        }
    }
    let claimed = holder.map(|(claim, asked_at, _)| (claim, asked_at));
    let opener = Opener { log_options, runtime, version, migrations, claimed };
    let opened = match origin {
        RunSource::New => opener.reopen(&plan, codec, changes, &run, false).await,
        RunSource::Stored { takes_over } => opener.reopen(&plan, codec, changes, &run, takes_over).await,
        RunSource::Forked { from } => match graph_cx.run().given_tags() {
            Ok(tags) => opener.fork(&plan, codec, changes, &from, (run, tags)).await,
            Err(fault) => Err(fault),
        },
    };
    let mut opened = opened.map_err(|fault| RunError::new(fault, None))?;
    let (info, failed_at) = (opened.info.clone(), opened.failed_at);
    let undone = std::mem::take(&mut opened.undone);
    let answers = answers.into_iter().filter_map(|(name, payload)| Some(Message { number: 0, name, payload: payload.ok()? }));
    graph_cx.run().details().inbox.get_or_init(Arc::default).add(answers);
    if let Some(refusals) = graph_cx.run().refusals() {
        refusals::restore(&*opened.log.options.store, &opened, refusals).await;
    }
    let messages = std::mem::take(&mut opened.messages);
    let mut engine = start_engine(plan, graph_cx, setup, codec, opened, None);
    // Before the messages: commands that arrive during an undo must change nothing.
    let is_undoing = continue_undo(&mut engine, &info, failed_at, undone);
    engine.deliver(messages)?;
    if is_undoing { Ok(OpenedEngine::Engine(Box::new(engine))) } else { resume(engine) }
}

/// Creates a run that a worker will claim.
pub(crate) async fn enqueue<S: Send + 'static>(first: QueuedRun<S>) -> Result<RunRemote, RunError<S>> {
    let QueuedRun { plan, run, start, state, stored } = first;
    let (stored, state) = match (stored, state) {
        (Some(stored), Some(state)) => (stored, state),
        (_, state) => {
            let reason = "the run has no store, so no worker could claim it; call `checkpoint` before `enqueue`";
            return Err(RunError::new(RunFault::Checkpoint(CheckpointError::new(run.id(), "", "create", reason)), state));
        }
    };
    let runtime = match run.runtime() {
        Ok(runtime) => Arc::clone(runtime),
        Err(fault) => return Err(RunError::new(fault, Some(state))),
    };
    let (record, state) = first_record(run.id(), &plan, start, &stored.codec.comparing(plan.equal), state)?;
    let (id, store): (Arc<str>, _) = (run.id().into(), stored.store());
    let graph = (plan.name.clone(), GraphVersion { fingerprint: plan.fingerprint.clone(), schema: stored.storage.schema });
    let tags = match run.given_tags() {
        Ok(tags) => tags,
        Err(fault) => return Err(RunError::new(fault, Some(state))),
    };
    match open::create(stored.log_options(runtime.now()), runtime, Arc::clone(&id), graph, record, None, tags).await {
        Ok(_) => Ok(RunRemote::of(store, id)),
        Err(StoreError::Exists { .. }) if stored.storage.attaches => Ok(RunRemote::of(store, id)),
        Err(error) => Err(RunError::new(fault_of(&*id, "", "create", error), Some(state))),
    }
}

/// Encodes the first record of a run.
fn first_record<S: Send + 'static>(
    run: &str,
    plan: &Plan<S>,
    start: u32,
    codec: &Codec<S>,
    state: S,
) -> Result<(NewRecord, S), RunError<S>> {
    match encode(codec, &state, None, run, "") {
        Ok(body) => {
            let next = Some(Place::Node(plan.shape.id(start)));
            Ok((NewRecord { next, body, ..NewRecord::new(Kind::Start, Vec::new(), "") }, state))
        }
        Err(fault) => Err(RunError::new(fault, Some(state))),
    }
}

/// Removes ended runs in the background, for a random part of new runs. Errors are ignored: a later
/// run tries again.
fn prune_by_chance(log_options: &LogOptions, runtime: &Arc<dyn Runtime>, ended_kept: Duration) {
    let (one_of, count) = PRUNE_CHANCE;
    if runtime.random().is_multiple_of(one_of) {
        let store = Arc::clone(&log_options.store);
        let prune = Prune::Ended { unchanged_for: ended_kept, count };
        runtime.spawn(Box::pin(async move { drop(store.prune(prune).await) }));
    }
}

/// Creates an engine that writes to this log.
fn start_engine<S: Send + 'static>(
    plan: Arc<Plan<S>>,
    graph_cx: GraphContext,
    setup: EngineSetup<S>,
    codec: Codec<S>,
    opened: OpenedRun,
    state: Option<S>,
) -> Engine<S> {
    let OpenedRun { log, info, .. } = opened;
    #[cfg(feature = "spans")]
    crate::context::spans::link_run(graph_cx.run(), &info.tags);
    drop(graph_cx.run().details().log.set(Arc::clone(&log)));
    graph_cx.run().details().inbox.get_or_init(Arc::default);
    graph_cx.run().details().run_control.get_or_init(Arc::default).open();
    graph_cx.run().visits.store(log.visits(), Relaxed);
    let token = token(&graph_cx, &log);
    let step_writer = Some(Arc::new(StepWriter { log: Arc::clone(&log), codec }));
    let mut committer = Committer::new(log, info.last_message);
    if let Some(token) = token {
        committer.cancel_at_deadline(&token);
        drop(graph_cx.run().token.set(token));
    }
    Engine::stored(plan, graph_cx, EngineSetup { step_writer, ..setup }, state, committer)
}

/// Continues the compensation of a failed run. Returns whether one was in progress.
fn continue_undo<S: Send + 'static>(
    engine: &mut Engine<S>,
    info: &RunInfo,
    failed_at: Option<u64>,
    undone: Vec<String>,
) -> bool {
    let failed_at = failed_at.filter(|_| open::continues_undo(info.status));
    let Some(record) = failed_at.and_then(|at| engine.restored_record(at)) else { return false };
    let mut all_undone = Vec::new();
    let fault = serde_json::from_slice(&record.body).map(|mut fault: StoredFault| {
        all_undone.append(&mut fault.undone);
        fault.into_fault()
    });
    let fault = fault.unwrap_or_else(|error| RunFault::Checkpoint(CheckpointError::new(&*info.id, "", "decode", error)));
    all_undone.extend(undone);
    engine.continue_undo(fault, all_undone);
    true
}

/// Creates the token of a stored run from the token above and the deadline. The committer adjusts
/// the deadline when the store's clock is corrected.
fn token(graph_cx: &GraphContext, log: &RunLog) -> Option<CancelToken> {
    let above = graph_cx.run().details().above.get();
    match (above, log.deadline()) {
        (above, None) => above.map(CancelToken::child),
        (Some(above), Some(deadline)) => Some(above.child_until(deadline)),
        (None, Some(deadline)) => Some(CancelToken::root(Arc::clone(log.runtime())).child_until(deadline)),
    }
}

/// Restores the engine of a resumed run to the stored position.
fn resume<S: Send + 'static>(mut engine: Engine<S>) -> Result<OpenedEngine<S>, RunError<S>> {
    match engine.restore() {
        Ok(None) => Ok(OpenedEngine::Engine(Box::new(engine))),
        Ok(Some(outcome)) => match engine.end_restored(outcome) {
            Some(outcome) => Ok(OpenedEngine::Over(outcome)),
            None => Ok(OpenedEngine::Engine(Box::new(engine))),
        },
        Err(fault) => Err(RunError::new(fault, None)),
    }
}

/// Forwards notices about the store and the lease to the hooks of a run.
fn notify_hooks<S: 'static>(hooks: Hooks<S>, run: Arc<str>) -> NoticeListener {
    Box::new(move |notice| {
        let run = Some(Arc::clone(&run));
        hooks.call(&match notice {
            StoreNotice::StoreUnavailable(error) => RunEvent::StoreUnavailable { run, error: error.to_string().into() },
            StoreNotice::StoreRecovered => RunEvent::StoreRecovered { run },
            StoreNotice::LeaseAwaited { holder, left } => RunEvent::LeaseAwaited { run, holder: (*holder).into(), left: *left },
        });
    })
}
