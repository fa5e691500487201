//! `RunningWorker`: a started worker, to be closed or cancelled.

use crate::control::RunRef;
use crate::util::future::either;
use crate::worker::core::WorkerCore;
use crate::worker::{Worker, claims, leases};
use pleach_core::{Actor, ActorPath, Context, Exit, Mailbox, Props, Refusal, Reply, RestartPolicy, Scope};
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long a worker that ends waits for the store to let its runs go.
const RELEASE_MAX: Duration = Duration::from_secs(6);

/// A worker at work. Dropping it cancels it: its runs are cut off and given up, without waiting.
pub struct RunningWorker {
    core: Arc<WorkerCore>,
    scope: Scope,
    /// The top of its tree, if it was started alone.
    above: Option<Scope>,
}

/// What the actor at `desk` of a worker is told.
#[derive(Debug)]
#[non_exhaustive]
pub enum WorkerMessage {
    /// Which runs does it hold?
    Held(Reply<Vec<String>>),
}

/// Starts a worker as a child of `scope`.
pub(super) fn start(worker: Worker, above: &Scope) -> Result<RunningWorker, Refusal> {
    let scope = above.scope(&worker.name)?;
    let runtime = Arc::clone(above.token().runtime());
    // Runs that escalate end there: the others go on.
    let core = Arc::new(WorkerCore::new(worker, runtime, scope.isolated_scope("runs")?));
    let task = |name| scope.task().named(name).isolated();
    task("leases").launch(leases::renew_leases(Arc::clone(&core))).map_err(|error| error.why)?;
    task("pruning").launch(leases::prune_runs(Arc::clone(&core))).map_err(|error| error.why)?;
    task("claims").launch(claims::claim_runs(Arc::clone(&core))).map_err(|error| error.why)?;
    // The youngest is closed first: it lets the others come to their end.
    let actor = Arc::clone(&core);
    let actor =
        Props::new(move || WorkerActor(Arc::clone(&actor))).mailbox(Mailbox::bounded(16)).restart(RestartPolicy::Temporary);
    scope.actor("desk", actor).map_err(|error| error.why)?;
    Ok(RunningWorker { core, scope, above: None })
}

impl RunningWorker {
    pub(super) fn owning(mut self, above: Scope) -> Self {
        self.above = Some(above);
        self
    }

    /// Where it stands in the tree.
    pub fn path(&self) -> ActorPath {
        self.scope.path()
    }

    /// The ids of the runs that it holds.
    pub fn held(&self) -> Vec<String> {
        self.core.held().into_iter().map(|(held, _)| held.run).collect()
    }

    /// A run that it drives now, to be told things.
    pub fn run(&self, id: &str) -> Option<RunRef> {
        self.core.run(id)
    }

    /// Takes no more runs, and lets those it has come to their end, or to a wait, for `grace` at most. Then the rest is cut off and given up, for others to
    /// go on with: their ids are returned. A claim under way is waited for, and its runs are given up. Giving up takes 6 seconds at most.
    pub async fn close(self, grace: Duration) -> Vec<String> {
        let core = &self.core;
        core.begin_closing();
        either(Box::pin(core.all_ended()), Box::pin(core.sleep(grace))).await;
        let unfinished = self.held();
        core.cut_off();
        either(Box::pin(core.all_ended()), Box::pin(core.sleep(RELEASE_MAX))).await;
        unfinished
    }

    /// Gives up all it has at once: [`close`](Self::close) without grace.
    pub async fn cancel(self) -> Vec<String> {
        self.close(Duration::ZERO).await
    }
}

/// What rests is given up at once; the scope cuts off what runs.
impl Drop for RunningWorker {
    fn drop(&mut self) {
        self.core.begin_closing();
    }
}

impl fmt::Debug for RunningWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunningWorker({}, {} held)", self.path(), self.core.held().len())
    }
}

/// The actor that stands for a worker in the tree. A task does not hear that its scope is being closed; this one does, and tells.
struct WorkerActor(Arc<WorkerCore>);

impl Actor for WorkerActor {
    type Msg = WorkerMessage;
    type Error = Infallible;

    async fn handle(&mut self, message: WorkerMessage, _cx: &mut Context<Self>) -> Result<(), Infallible> {
        match message {
            WorkerMessage::Held(reply) => reply.send(self.0.held().into_iter().map(|(held, _)| held.run).collect()),
        }
        Ok(())
    }

    async fn stopped(&mut self, _exit: &Exit, _cx: &mut Context<Self>) -> Result<(), Infallible> {
        self.0.begin_closing();
        Ok(())
    }
}
