//! [`Task`]: a future that runs as a member of the tree.
//!
//! Before the first poll the future is stored in the member, so a cancel drops it at once. From the
//! first poll on its `TaskFuture` owns, polls and drops it. A task with a cancel grace is still
//! polled after a cancel, until it returns or the grace is over.
//!
//! | flag of `TaskState` | set by | cleared by |
//! |---|---|---|
//! | `unstarted` | `launch` | the first poll, or `on_cancel` |
//! | `waker` | each pending poll | `on_cancel`, which wakes it |
//! | `cancelled` | `on_cancel` | never |

use crate::base::catch;
use crate::base::lock::Lock;
use crate::base::reason::{BoxError, Reason};
use crate::base::runtime::BoxFuture;
use crate::base::sync::{Arc, AtomicBool, Ordering, unsize};
use crate::events::cause::{Cause, Exit};
use crate::events::failure::FailureInfo;
use crate::ids::path::ActorPath;
use crate::tree::adopt;
use crate::tree::adopt::Refusal;
use crate::tree::any_ref::{AnyRef, Exited};
use crate::tree::cancel_grace::CancelGrace;
use crate::tree::facts::{EDGES_OBSERVED_MAX, MemberFacts, MemberKind, Work};
use crate::tree::member::{Member, ObservedMember, StopMode, SupervisedMember, WaitingMember};
use crate::tree::node::Node;
use crate::tree::waits::edges::WaitEdges;
use crate::tree::{current, node, supervision};
use alloc::boxed::Box;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

/// What a task may return: `()`, or a `Result` whose error becomes a failure.
pub trait Outcome {
    /// Returns the error, or `None` for success.
    fn into_error(self) -> Option<BoxError>;
}

impl Outcome for () {
    fn into_error(self) -> Option<BoxError> {
        None
    }
}

impl<E: Into<BoxError>> Outcome for Result<(), E> {
    fn into_error(self) -> Option<BoxError> {
        self.err().map(Into::into)
    }
}

/// A handle to a launched task. Dropping the handle does not affect the task.
///
/// # Examples
/// ```
/// use pleach::prelude::*;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), pleach::Error> {
/// let scope = pleach::scope()?;
/// let sleeper = scope.launch(std::future::pending::<()>())?;
/// sleeper.cancel("not needed any more");
/// assert!(matches!(sleeper.exited().await, Exit::Cancelled(_)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Task {
    pub(crate) member: Arc<dyn Member>,
}

impl Task {
    /// Cancels the task: it is dropped at its next await, or after its [cancel
    /// grace](crate::Launch::cancel_grace). Before its first poll it is dropped immediately.
    pub fn cancel(&self, cause: impl Into<Cause>) {
        self.any().cancel(cause);
    }

    /// Waits until the task has ended and returns the exit: `Closed` if it returned.
    pub fn exited(&self) -> Exited {
        self.any().exited()
    }

    /// Calls `f` with the exit, exactly once.
    pub fn on_done(&self, f: impl FnOnce(&Exit) + Send + 'static) {
        self.member.node().on_done(Box::new(f));
    }

    /// Returns the path of the task.
    pub fn path(&self) -> ActorPath {
        self.member.node().path()
    }

    /// Returns the task as an untyped member of the tree.
    pub fn any(&self) -> AnyRef {
        AnyRef { member: Arc::clone(&self.member) }
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task({})", self.path())
    }
}

/// The error of a future that was not launched. [`into_future`](Self::into_future) returns it,
/// unpolled.
pub struct LaunchError<F> {
    /// Why the future was not launched.
    pub reason: Refusal,
    // Behind a lock, so that the error is `Sync` although the future may not be.
    future: Lock<F>,
}

impl<F> LaunchError<F> {
    pub(crate) fn new(reason: Refusal, future: F) -> Self {
        Self { reason, future: Lock::new(future) }
    }

    /// Returns the future, which was not polled.
    pub fn into_future(self) -> F {
        self.future.into_inner()
    }
}

impl<F> fmt::Display for LaunchError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task was not launched: {}", self.reason)
    }
}

impl<F> fmt::Debug for LaunchError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaunchError").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<F> core::error::Error for LaunchError<F> {}

/// How the failure of a task affects its scope.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskKind {
    /// Its failure cancels the scope.
    Sibling,
    /// Its failure affects nothing else.
    Isolated,
    /// It serves its parent only: its failure affects nothing else, and it is cancelled when the
    /// parent closes.
    Pipe,
}

/// The error of a finished task, if any.
type TaskOutcome = Option<BoxError>;

pub(crate) struct TaskMember {
    node: Node,
    kind: TaskKind,
    polling: AtomicBool,
    grace: Option<Box<CancelGrace>>,
    edges: WaitEdges,
    state: Lock<TaskState>,
}

struct TaskState {
    unstarted: Option<BoxFuture<'static, TaskOutcome>>,
    waker: Option<Waker>,
    cancelled: bool,
}

impl Member for TaskMember {
    fn node(&self) -> &Node {
        &self.node
    }

    /// Closing waits for the task to return; stopping cancels it.
    fn stop_with(&self, this: &Arc<dyn Member>, mode: StopMode) {
        if mode == StopMode::Stop || self.kind == TaskKind::Pipe {
            node::cancel(this, &Cause::Cancelled);
        }
    }

    fn on_cancel(&self, this: &Arc<dyn Member>) {
        let (unstarted, waker) = self.state.with(|state| {
            state.cancelled = true;
            (state.unstarted.take(), state.waker.take())
        });
        if let Some(waker) = waker {
            self.node.runtime().wake_for_control(waker);
        }
        if let Some(future) = unstarted {
            let reason = catch::catch(|| drop(future)).err();
            self.end(this, reason, false);
        }
    }

    fn exit_when_childless(&self) -> Option<Exit> {
        None
    }

    fn in_poll(&self) -> bool {
        self.polling.load(Ordering::Relaxed)
    }
}

impl ObservedMember for TaskMember {
    fn facts(&self) -> MemberFacts {
        let is_unstarted = self.state.with(|state| state.unstarted.is_some());
        let work = match self.in_poll() {
            true => Work::Running,
            false if is_unstarted => Work::Ready,
            false => Work::Waiting,
        };
        let (edges, count) = self.edges.first(EDGES_OBSERVED_MAX);
        MemberFacts::new(MemberKind::Task, work).with_edges(edges, count)
    }
}

impl SupervisedMember for TaskMember {
    fn passes_failures_up(&self) -> bool {
        self.kind == TaskKind::Sibling
    }
}

impl WaitingMember for TaskMember {
    fn wait_edges(&self) -> Option<&WaitEdges> {
        Some(&self.edges)
    }
}

impl TaskMember {
    /// Leaves the tree with the exit that fits: failed for `reason`, else cancelled if it was, else
    /// closed. `returned`: the future returned and was not dropped.
    fn end(&self, this: &Arc<dyn Member>, reason: Option<Reason>, returned: bool) {
        let exit = match (reason, self.node.cause()) {
            (None, None) => Exit::Closed,
            (None, Some(cause)) if returned && self.grace.is_some() => Exit::TidiedUp(cause),
            (None, Some(cause)) => Exit::Cancelled(cause),
            (Some(reason), _) => Exit::Failed(self.fail(reason)),
        };
        node::leave(this, &exit);
    }

    /// Returns whether a cancelled task may continue, because it has a grace that is not over.
    fn continues_in_grace(&self, cx: &mut Context<'_>) -> bool {
        self.grace.as_ref().is_some_and(|grace| grace.is_running(self.node.runtime(), cx))
    }

    fn fail(&self, reason: Reason) -> FailureInfo {
        let failure = self.node.failure(0, reason);
        self.node.events().record_failure(&failure);
        if let Some(parent) = self.node.parent().filter(|_| self.passes_failures_up()) {
            supervision::propagate(Arc::clone(parent), failure.clone());
        }
        failure
    }
}

/// Starts `future` as a child of `parent`, or returns it in the error.
pub(crate) fn launch<F>(parent: &Arc<dyn Member>, name: Option<&str>, kind: TaskKind, future: F) -> Result<Task, LaunchError<F>>
where
    F: Future<Output: Outcome> + Send + 'static,
{
    launch_with_grace(parent, name, kind, None, future)
}

/// Like [`launch`], with a cancel grace.
pub(crate) fn launch_with_grace<F>(
    parent: &Arc<dyn Member>,
    name: Option<&str>,
    kind: TaskKind,
    grace: Option<Duration>,
    future: F,
) -> Result<Task, LaunchError<F>>
where
    F: Future<Output: Outcome> + Send + 'static,
{
    let node = match adopt::new_node(parent.node().tree(), parent, name) {
        Ok(node) => node,
        Err(reason) => return Err(LaunchError::new(reason, future)),
    };
    let state = TaskState { unstarted: None, waker: None, cancelled: false };
    let (polling, grace) = (AtomicBool::new(false), grace.map(|grace| Box::new(CancelGrace::new(grace))));
    let member = Arc::new(TaskMember { node, kind, polling, grace, edges: WaitEdges::new(), state: Lock::new(state) });
    let pointer = unsize!(Arc::clone(&member) => dyn Member);
    if let Err(reason) = adopt::adopt(parent, Arc::clone(&pointer)) {
        return Err(LaunchError::new(reason, future));
    }
    let boxed: BoxFuture<'static, TaskOutcome> = Box::pin(async move { future.await.into_error() });
    let too_late = member.state.with(|state| {
        if state.cancelled {
            return Some(boxed);
        }
        state.unstarted = Some(boxed);
        None
    });
    if let Some(boxed) = too_late {
        // The scope was cancelled after the adoption: the task was accepted and ends before its
        // first poll.
        let reason = catch::catch(|| drop(boxed)).err();
        member.end(&pointer, reason, false);
        return Ok(Task { member: pointer });
    }
    let run = TaskFuture { member: Some(member), future: None, current: Some(Arc::clone(&pointer)) };
    parent.node().runtime().spawn(Box::pin(run));
    Ok(Task { member: pointer })
}

/// The future that runs on the runtime and polls the user's future.
struct TaskFuture {
    member: Option<Arc<TaskMember>>,
    future: Option<BoxFuture<'static, TaskOutcome>>,
    current: Option<Arc<dyn Member>>,
}

impl TaskFuture {
    /// Drops the user's future, inside of the task's context, and leaves the tree.
    fn finish(&mut self, cx: &Context<'_>, ended: Result<TaskOutcome, Reason>, returned: bool) {
        let Some(member) = self.member.take() else { return };
        let dropped = {
            let _inside = current::enter(&mut self.current, cx.waker());
            let future = self.future.take();
            catch::catch(|| drop(future))
        };
        member.polling.store(false, Ordering::Relaxed);
        let reason = match (ended, dropped) {
            (Err(reason), _) | (Ok(None), Err(reason)) => Some(reason),
            (Ok(Some(error)), _) => Some(Reason::Error(error)),
            (Ok(None), Ok(())) => None,
        };
        member.end(&unsize!(Arc::clone(&member) => dyn Member), reason, returned);
    }
}

impl Future for TaskFuture {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let Some(member) = this.member.clone() else { return Poll::Ready(()) };
        let (cancelled, unstarted) = member.state.with(|state| (state.cancelled, state.unstarted.take()));
        if unstarted.is_some() {
            this.future = unstarted;
        }
        if cancelled && !(this.future.is_some() && member.continues_in_grace(cx)) {
            if this.future.is_some() {
                this.finish(cx, Ok(None), false);
            }
            // Otherwise it was cancelled before its first poll: the thread that took the future
            // drops it and then ends the task.
            this.member = None;
            return Poll::Ready(());
        }
        member.polling.store(true, Ordering::Relaxed);
        let polled = {
            let _inside = current::enter(&mut this.current, cx.waker());
            let future = &mut this.future;
            catch::catch(|| future.as_mut().map_or(Poll::Ready(None), |future| future.as_mut().poll(cx)))
        };
        let (ended, returned) = match polled {
            Ok(Poll::Ready(ended)) => (Ok(ended), true),
            Err(reason) => (Err(reason), true),
            Ok(Poll::Pending) => {
                let (cancelled, replaced) = member.state.with(|state| (state.cancelled, state.set_waker(cx.waker())));
                drop(replaced);
                if !cancelled || member.continues_in_grace(cx) {
                    member.polling.store(false, Ordering::Relaxed);
                    return Poll::Pending;
                }
                (Ok(None), false)
            }
        };
        this.finish(cx, ended, returned);
        Poll::Ready(())
    }
}

impl TaskState {
    fn set_waker(&mut self, waker: &Waker) -> Option<Waker> {
        match &self.waker {
            Some(known) if known.will_wake(waker) => None,
            _ => self.waker.replace(waker.clone()),
        }
    }
}

/// The runtime dropped the task before its end: it leaves the tree all the same.
impl Drop for TaskFuture {
    fn drop(&mut self) {
        let Some(member) = self.member.take() else { return };
        let pointer = unsize!(Arc::clone(&member) => dyn Member);
        node::cancel(&pointer, &Cause::Dropped);
        // Without a future it was never polled, and the cancel has ended it.
        let Some(future) = self.future.take() else { return };
        let reason = catch::catch(|| drop(future)).err();
        member.end(&pointer, reason, false);
    }
}
