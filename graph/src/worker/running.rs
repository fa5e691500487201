//! [`RunningWorker`]: the handle of a started worker.

use crate::control::RunRef;
use crate::util::future::either;
use crate::worker::core::WorkerCore;
use crate::worker::unserved::UnservedRuns;
use crate::worker::{Worker, claims, leases, watch};
use pleach_core::{Actor, ActorPath, Context, Exit, Mailbox, Props, Refusal, Reply, RestartPolicy, Scope};
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long a closing worker waits for the store to release its runs.
const RELEASE_MAX: Duration = Duration::from_secs(6);

/// A started worker. Dropping it cancels its runs and releases them in the background.
///
/// ```
/// # use pleach::store::MemoryStore;
/// # use pleach::worker::Worker;
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryStore::new();
/// let worker = Worker::new(&store).start()?;
/// assert!(worker.held().is_empty());
///
/// // At shutdown: let current runs finish for up to ten seconds.
/// let unfinished = worker.close(Duration::from_secs(10)).await;
/// assert!(unfinished.is_empty());
/// # Ok(())
/// # }
/// ```
pub struct RunningWorker {
    core: Arc<WorkerCore>,
    scope: Scope,
    /// The root scope, if the worker was started without a parent.
    above: Option<Scope>,
}

/// The messages of a worker's `control` actor.
#[derive(Debug)]
#[non_exhaustive]
pub enum WorkerMessage {
    /// Asks for the ids of the runs that the worker holds.
    Held(Reply<Vec<String>>),
}

/// Starts a worker as a child of `above`.
pub(super) fn start(worker: Worker, above: &Scope) -> Result<RunningWorker, Refusal> {
    let scope = above.scope(&worker.name)?;
    let runtime = Arc::clone(above.token().runtime());
    // Runs that escalate fail this scope only. Other runs continue.
    let core = Arc::new(WorkerCore::new(worker, runtime, scope.any(), scope.isolated_scope("runs")?));
    let task = |name| scope.task().named(name).isolated();
    task("leases").launch(leases::renew_leases(Arc::clone(&core))).map_err(|error| error.reason)?;
    task("pruning").launch(leases::prune_runs(Arc::clone(&core))).map_err(|error| error.reason)?;
    task("watch").launch(watch::watch_runs(Arc::clone(&core))).map_err(|error| error.reason)?;
    task("claims").launch(claims::claim_runs(Arc::clone(&core))).map_err(|error| error.reason)?;
    // Scopes close their youngest child first. This actor then starts the close of the worker.
    let actor = Arc::clone(&core);
    let actor =
        Props::new(move || WorkerActor(Arc::clone(&actor))).mailbox(Mailbox::bounded(16)).restart(RestartPolicy::Temporary);
    scope.spawn("control", actor).map_err(|error| error.reason)?;
    Ok(RunningWorker { core, scope, above: None })
}

impl RunningWorker {
    pub(super) fn owning(mut self, above: Scope) -> Self {
        self.above = Some(above);
        self
    }

    /// Returns the path of the worker's scope in the tree.
    pub fn path(&self) -> ActorPath {
        self.scope.path()
    }

    /// Returns the ids of the runs that the worker holds.
    pub fn held(&self) -> Vec<String> {
        self.core.held().into_iter().map(|(held, _)| held.run).collect()
    }

    /// Returns a reference to a run that this worker drives now, for commands and queries.
    pub fn run(&self, id: &str) -> Option<RunRef> {
        self.core.run(id)
    }

    /// Returns the runs that no worker serves, as the last look at the store found them.
    ///
    /// It is empty until the first look, half of
    /// [`report_unserved_after`](Worker::report_unserved_after) after the start.
    pub fn unserved(&self) -> UnservedRuns {
        self.core.watch.unserved()
    }

    /// Claims no more runs and lets the current ones end, or start to wait, for at most `grace`.
    ///
    /// After `grace` the remaining runs are cancelled and released, so that other workers can
    /// resume them. Their ids are returned. A claim in progress is awaited, and its runs are
    /// released. The release takes at most 6 s.
    ///
    /// # Cancel safety
    /// Dropping this future cancels the worker, as dropping the handle does.
    pub async fn close(self, grace: Duration) -> Vec<String> {
        let core = &self.core;
        core.begin_closing();
        either(Box::pin(core.all_ended()), Box::pin(core.sleep(grace))).await;
        let unfinished = self.held();
        core.cancel_runs();
        either(Box::pin(core.all_ended()), Box::pin(core.sleep(RELEASE_MAX))).await;
        unfinished
    }

    /// Cancels and releases all runs at once: [`close`](Self::close) without grace.
    pub async fn cancel(self) -> Vec<String> {
        self.close(Duration::ZERO).await
    }
}

/// Runs that rest are released at once. Dropping the scope cancels the driven ones.
impl Drop for RunningWorker {
    fn drop(&mut self) {
        self.core.begin_closing();
        self.core.watch.withdraw_health();
        self.core.refusals.withdraw();
    }
}

impl fmt::Debug for RunningWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunningWorker({}, {} held)", self.path(), self.core.held().len())
    }
}

/// The actor of a worker in the tree. Unlike a task, it learns that its scope is closing.
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
