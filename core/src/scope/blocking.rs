//! Blocking jobs: closures on their own threads, as members of the tree.
//!
//! A running job cannot be interrupted. A cancel only cancels its token, which the job should
//! check. The member stays in the tree until the closure has returned: its parent waits for it, and
//! a shutdown reports it.
//!
//! ```text
//!  New ──launch──► Unstarted ──run──► Taken: runs ──closure returns or panics──► exited
//!   │                  │
//!   └──── cancel, or dropped by the runtime: exits without running ─────────────────┘
//! ```
//!
//! The job is taken out of its lock before it runs or is dropped.

use crate::actor::Actor;
use crate::actor::context::Context as ActorContext;
use crate::base::catch;
use crate::base::lock::Lock;
use crate::base::reason::{BoxError, Reason};
use crate::base::sync::{Arc, AtomicBool, Ordering, unsize};
use crate::events::cause::{Cause, Exit};
use crate::scope::Scope;
use crate::tree::adopt;
use crate::tree::adopt::Refusal;
use crate::tree::any_ref::Exited;
use crate::tree::facts::{MemberFacts, MemberKind, Work};
use crate::tree::member::{Member, ObservedMember, StopMode, SupervisedMember, WaitingMember};
use crate::tree::node::Node;
use crate::tree::task::{LaunchError, Outcome, Task, TaskKind};
use crate::tree::token::CancelToken;
use crate::tree::{current, node, supervision};
use alloc::boxed::Box;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

type BoxedJob = Box<dyn FnOnce(&CancelToken) -> Option<BoxError> + Send>;

struct BlockingMember {
    node: Node,
    kind: TaskKind,
    running: AtomicBool,
    state: Lock<JobState>,
}

enum JobState {
    /// The member is in the tree; the job is not stored yet.
    New,
    Unstarted(BoxedJob),
    /// The job runs, has run, or will never run.
    Taken,
}

impl Member for BlockingMember {
    fn node(&self) -> &Node {
        &self.node
    }

    fn stop_with(&self, this: &Arc<dyn Member>, how: StopMode) {
        if how == StopMode::Stop {
            node::cancel(this, &Cause::Cancelled);
        }
    }

    /// The token is cancelled already. Only a job that has not started ends at once.
    fn on_cancel(&self, this: &Arc<dyn Member>) {
        if let JobState::Unstarted(work) = self.take() {
            let reason = catch::catch(|| drop(work)).err();
            self.end(this, reason);
        }
    }

    fn exit_when_childless(&self) -> Option<Exit> {
        None
    }

    fn in_poll(&self) -> bool {
        self.running.load(Ordering::Relaxed)
    }
}

impl ObservedMember for BlockingMember {
    fn facts(&self) -> MemberFacts {
        let work = if self.in_poll() { Work::Running } else { Work::Ready };
        MemberFacts::new(MemberKind::BlockingJob, work)
    }
}

impl SupervisedMember for BlockingMember {
    fn passes_failures_up(&self) -> bool {
        self.kind == TaskKind::Sibling
    }
}

impl WaitingMember for BlockingMember {}

impl BlockingMember {
    fn take(&self) -> JobState {
        self.state.with(|state| core::mem::replace(state, JobState::Taken))
    }

    /// Runs the job on the current thread.
    fn run(&self, this: &Arc<dyn Member>) {
        let JobState::Unstarted(work) = self.take() else { return };
        self.running.store(true, Ordering::Relaxed);
        let token = node::token(this);
        let ended = {
            let mut current = Some(Arc::clone(this));
            let _inside = current::enter(&mut current, Waker::noop());
            catch::catch(|| work(&token))
        };
        self.running.store(false, Ordering::Relaxed);
        let reason = match ended {
            Ok(error) => error.map(Reason::Error),
            Err(reason) => Some(reason),
        };
        self.end(this, reason);
    }

    /// Leaves the tree: failed if there is a reason, else cancelled if it was cancelled, else
    /// closed.
    fn end(&self, this: &Arc<dyn Member>, reason: Option<Reason>) {
        let exit = match (reason, self.node.cause()) {
            (None, None) => Exit::Closed,
            (None, Some(cause)) => Exit::Cancelled(cause),
            (Some(reason), _) => {
                let failure = self.node.failure(0, reason);
                self.node.events().record_failure(&failure);
                if let Some(parent) = self.node.parent().filter(|_| self.passes_failures_up()) {
                    supervision::propagate::propagate(Arc::clone(parent), failure.clone());
                }
                Exit::Failed(failure)
            }
        };
        node::leave(this, &exit);
    }
}

/// Holds the member while the runtime holds the job. If the runtime drops the job without running
/// it, the member is cancelled and leaves the tree.
struct JobGuard(Option<Arc<BlockingMember>>);

impl Drop for JobGuard {
    fn drop(&mut self) {
        if let Some(member) = self.0.take() {
            node::cancel(&unsize!(member => dyn Member), &Cause::Dropped);
        }
    }
}

/// Runs `work` on a thread for blocking jobs, as a child of `parent`.
pub(crate) fn launch<F, O>(parent: &Arc<dyn Member>, name: &str, kind: TaskKind, work: F) -> Result<Task, LaunchError<F>>
where
    F: FnOnce(&CancelToken) -> O + Send + 'static,
    O: Outcome,
{
    let node = match adopt::new_node(parent.node().tree(), parent, Some(name)) {
        Ok(node) => node,
        Err(reason) => return Err(LaunchError::new(reason, work)),
    };
    let member = Arc::new(BlockingMember { node, kind, running: AtomicBool::new(false), state: Lock::new(JobState::New) });
    let pointer = unsize!(Arc::clone(&member) => dyn Member);
    if let Err(reason) = adopt::adopt(parent, Arc::clone(&pointer)) {
        return Err(LaunchError::new(reason, work));
    }
    let boxed: BoxedJob = Box::new(move |token| work(token).into_error());
    let too_late = member.state.with(|state| match state {
        JobState::New => {
            *state = JobState::Unstarted(boxed);
            None
        }
        _ => Some(boxed),
    });
    let task = Task { member: Arc::clone(&pointer) };
    if let Some(boxed) = too_late {
        // It was cancelled after it entered the tree. It exits without running.
        let reason = catch::catch(|| drop(boxed)).err();
        member.end(&pointer, reason);
        return Ok(task);
    }
    let mut guard = JobGuard(Some(member));
    parent.node().runtime().spawn_blocking(Box::new(move || {
        if let Some(member) = guard.0.take() {
            member.run(&pointer);
        }
    }));
    Ok(task)
}

impl<A: Actor> ActorContext<A> {
    /// Runs a blocking closure on its own thread and returns its output. The job is a child called
    /// `name`.
    ///
    /// A running closure cannot be interrupted. If the actor is cancelled or this future is
    /// dropped, the token passed to the closure is cancelled, and the actor exits or restarts only
    /// after the closure has returned.
    ///
    /// # Errors
    /// - [`BlockingError::Refused`]: the job was not started.
    /// - [`BlockingError::Ended`]: it panicked, or was cancelled before it started. A panic is also
    ///   reported as a failure.
    ///
    /// ```
    /// use pleach::{Actor, BoxError, Context};
    ///
    /// struct Files;
    ///
    /// impl Actor for Files {
    ///     type Msg = std::path::PathBuf;
    ///     type Error = BoxError;
    ///
    ///     async fn handle(
    ///         &mut self,
    ///         path: Self::Msg,
    ///         cx: &mut Context<Self>,
    ///     ) -> Result<(), BoxError> {
    ///         let bytes = cx.blocking("read", move |_token| std::fs::read(path)).await??;
    ///         drop(bytes);
    ///         Ok(())
    ///     }
    /// }
    /// # drop(Files);
    /// ```
    pub fn blocking<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(&CancelToken) -> T + Send + 'static,
    ) -> Blocking<T> {
        Blocking::new(&self.member(), name, work)
    }
}

impl Scope {
    /// Runs a blocking closure on its own thread, as a child called `name`.
    ///
    /// The closure returns `()` or a `Result`. An `Err` or a panic is a failure and cancels the
    /// scope. A running closure cannot be interrupted: a cancel only cancels its token, and the
    /// scope waits until the closure returns.
    ///
    /// # Errors
    /// Returns the closure in [`LaunchError`] if the scope is closing, or the name is invalid or in
    /// use.
    ///
    /// ```
    /// use pleach::{CancelToken, Scope};
    /// use pleach::runtime::Dispatcher;
    ///
    /// let sim = Dispatcher::seeded(1);
    /// let scope = Scope::under(&CancelToken::root(sim.runtime()));
    /// let sum = scope.launch_blocking("sum", |token| {
    ///     let mut sum = 0u64;
    ///     for n in 0..1_000 {
    ///         if token.is_cancelled() {
    ///             return;
    ///         }
    ///         sum += n;
    ///     }
    /// }).unwrap();
    /// assert!(sim.simulate(sum.exited()).unwrap().is_clean());
    /// ```
    pub fn launch_blocking<F, O>(&self, name: &str, work: F) -> Result<Task, LaunchError<F>>
    where
        F: FnOnce(&CancelToken) -> O + Send + 'static,
        O: Outcome,
    {
        launch(&self.any().member, name, TaskKind::Sibling, work)
    }
}

/// The output of a blocking job that an actor awaits; from
/// [`Context::blocking`](crate::Context::blocking).
///
/// Dropping it cancels the token of the job. See [`Context::blocking`](crate::Context::blocking)
/// for an example.
#[must_use = "futures do nothing unless job"]
pub struct Blocking<T> {
    work: Result<StartedJob<T>, Refusal>,
}

struct StartedJob<T> {
    task: Task,
    exited: Exited,
    output: Arc<Lock<Option<T>>>,
}

impl<T: Send + 'static> Blocking<T> {
    pub(crate) fn new(parent: &Arc<dyn Member>, name: &str, work: impl FnOnce(&CancelToken) -> T + Send + 'static) -> Self {
        let output = Arc::new(Lock::new(None));
        let store = Arc::clone(&output);
        let keep = move |token: &CancelToken| {
            let value = work(token);
            store.with(|slot| *slot = Some(value));
        };
        let task = launch(parent, name, TaskKind::Isolated, keep);
        let work = task.map(|task| StartedJob { exited: task.exited(), task, output }).map_err(|refused| refused.reason);
        Self { work }
    }
}

impl<T> Future for Blocking<T> {
    type Output = Result<T, BlockingError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let job = match &mut self.work {
            Ok(job) => job,
            Err(reason) => return Poll::Ready(Err(BlockingError::Refused(reason.clone()))),
        };
        let exit = core::task::ready!(Pin::new(&mut job.exited).poll(cx));
        Poll::Ready(job.output.with(Option::take).ok_or(BlockingError::Ended(exit)))
    }
}

// The output is moved and never pinned.
impl<T> Unpin for Blocking<T> {}

impl<T> Drop for Blocking<T> {
    fn drop(&mut self) {
        if let Ok(job) = &self.work {
            // Has no effect on a job that has ended.
            node::cancel(&job.task.member, &Cause::Dropped);
        }
    }
}

/// The reason why a blocking job has no output.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BlockingError {
    /// The parent did not start the job.
    Refused(Refusal),
    /// The job panicked, or was cancelled before it started.
    Ended(Exit),
}

impl fmt::Display for BlockingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(reason) => write!(f, "the blocking work was not started: {reason}"),
            Self::Ended(exit) => write!(f, "the blocking work returned no output: {exit}"),
        }
    }
}

impl core::error::Error for BlockingError {}
