//! `Task`: a future that is a child of a scope.
//!
//! The future lies in the node until its first poll, so that a cancel before then drops it at once; afterwards its own task owns it,
//! polls it, and drops it. A task with a cancel grace is polled on after a cancel, until it returns or the grace is over.

use crate::base::catch;
use crate::base::lock::Lock;
use crate::base::reason::{BoxError, Reason};
use crate::base::runtime::BoxFuture;
use crate::base::sync::{AtomicBool, Ordering};
use crate::events::cause::{Cause, Exit};
use crate::events::failure::FailureInfo;
use crate::ids::path::ActorPath;
use crate::tree::adopt;
use crate::tree::adopt::Refusal;
use crate::tree::any_ref::{AnyRef, Exited};
use crate::tree::cancel_grace::CancelGrace;
use crate::tree::member::{Member, StopMode};
use crate::tree::node::Node;
use crate::tree::waits::edges::KeptEdges;
use crate::tree::{current, node, supervision};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

/// What a task may return: nothing, or a result whose error is a failure.
pub trait Outcome {
    /// The error, if it is one.
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

/// A launched task. Dropping this handle does nothing to it.
#[derive(Clone)]
pub struct Task {
    pub(crate) member: Arc<dyn Member>,
}

impl Task {
    /// Drops it at its next await, or after its [cancel grace](crate::Launch::cancel_grace); before its first poll it is dropped at once.
    pub fn cancel(&self, cause: impl Into<Cause>) {
        self.any().cancel(cause);
    }

    /// Waits for its end and gives the exit: `Closed` when it returned.
    pub fn exited(&self) -> Exited {
        self.any().exited()
    }

    /// Runs `f` with the exit, once.
    pub fn on_done(&self, f: impl FnOnce(&Exit) + Send + 'static) {
        self.member.node().on_done(Box::new(f));
    }

    /// Where it stands in the tree.
    pub fn path(&self) -> ActorPath {
        self.member.node().path()
    }

    /// The task as something in the tree.
    pub fn any(&self) -> AnyRef {
        AnyRef { member: Arc::clone(&self.member) }
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task({})", self.path())
    }
}

/// A future that was not launched. It comes back, unpolled: [`into_future`](Self::into_future).
pub struct LaunchError<F> {
    /// Why.
    pub why: Refusal,
    // Behind the lock, so that the error can be shared between threads although a future need not be.
    future: Lock<F>,
}

impl<F> LaunchError<F> {
    pub(crate) fn new(why: Refusal, future: F) -> Self {
        Self { why, future: Lock::new(future) }
    }

    /// The future, unpolled.
    pub fn into_future(self) -> F {
        self.future.into_inner()
    }
}

impl<F> fmt::Display for LaunchError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the task was not launched: {}", self.why)
    }
}

impl<F> fmt::Debug for LaunchError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaunchError").field("why", &self.why).finish_non_exhaustive()
    }
}

impl<F> core::error::Error for LaunchError<F> {}

/// What a task has to do with what is beside and above it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskKind {
    /// Its failure is that of its scope.
    Sibling,
    /// Its failure is its own.
    Isolated,
    /// It works for its parent alone: its failure is its own, and it does not outlast the parent's input.
    Pipe,
}

type Ended = Option<BoxError>;

pub(crate) struct TaskMember {
    node: Node,
    kind: TaskKind,
    polling: AtomicBool,
    grace: Option<Box<CancelGrace>>,
    edges: KeptEdges,
    state: Lock<State>,
}

struct State {
    unstarted: Option<BoxFuture<'static, Ended>>,
    waker: Option<Waker>,
    cancelled: bool,
}

impl Member for TaskMember {
    fn node(&self) -> &Node {
        &self.node
    }

    /// A task knows no orderly end but its own: closing waits for it, stopping cancels it.
    fn stop_by(self: Arc<Self>, how: StopMode) {
        if how == StopMode::Stop || self.kind == TaskKind::Pipe {
            node::cancel(&(self as Arc<dyn Member>), &Cause::Cancelled);
        }
    }

    fn on_cancel(self: Arc<Self>) {
        let (unstarted, waker) = self.state.with(|state| {
            state.cancelled = true;
            (state.unstarted.take(), state.waker.take())
        });
        if let Some(waker) = waker {
            self.node.runtime().wake_for_control(waker);
        }
        if let Some(future) = unstarted {
            let reason = catch::catch(|| drop(future)).err();
            self.end(reason, false);
        }
    }

    fn exit_when_childless(&self) -> Option<Exit> {
        None
    }

    fn in_poll(&self) -> bool {
        self.polling.load(Ordering::Relaxed)
    }

    fn kept_edges(&self) -> Option<&KeptEdges> {
        Some(&self.edges)
    }
}

impl TaskMember {
    /// Leaves the tree: cancelled if it was, failed for `reason`, else of its own accord. `returned`: it was not dropped.
    fn end(self: Arc<Self>, reason: Option<Reason>, returned: bool) {
        let exit = match (reason, self.node.cause()) {
            (None, None) => Exit::Closed,
            (None, Some(cause)) if returned && self.grace.is_some() => Exit::TidiedUp(cause),
            (None, Some(cause)) => Exit::Cancelled(cause),
            (Some(reason), _) => Exit::Failed(self.fail(reason)),
        };
        node::leave(&(self as Arc<dyn Member>), &exit);
    }

    /// Whether it may run on although it was cancelled.
    fn runs_on(&self, cx: &mut Context<'_>) -> bool {
        self.grace.as_ref().is_some_and(|grace| grace.lasts(self.node.runtime(), cx))
    }

    fn fail(&self, reason: Reason) -> FailureInfo {
        let failure = self.node.failure(0, reason);
        self.node.events().failure(&failure);
        if let Some(parent) = self.node.parent().filter(|_| self.kind == TaskKind::Sibling) {
            supervision::propagate(Arc::clone(parent), failure.clone());
        }
        failure
    }
}

/// Starts `future` as a child of `parent`, or hands it back.
pub(crate) fn launch<F>(parent: &Arc<dyn Member>, name: Option<&str>, kind: TaskKind, future: F) -> Result<Task, LaunchError<F>>
where
    F: Future<Output: Outcome> + Send + 'static,
{
    launch_with_grace(parent, name, kind, None, future)
}

/// As [`launch`], with a time to run on in after a cancel.
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
        Err(why) => return Err(LaunchError::new(why, future)),
    };
    let state = State { unstarted: None, waker: None, cancelled: false };
    let (polling, grace) = (AtomicBool::new(false), grace.map(|grace| Box::new(CancelGrace::new(grace))));
    let member = Arc::new(TaskMember { node, kind, polling, grace, edges: KeptEdges::new(), state: Lock::new(state) });
    if let Err(why) = adopt::adopt(parent, Arc::clone(&member) as Arc<dyn Member>) {
        return Err(LaunchError::new(why, future));
    }
    let boxed: BoxFuture<'static, Ended> = Box::pin(async move { future.await.into_error() });
    let too_late = member.state.with(|state| {
        if state.cancelled {
            return Some(boxed);
        }
        state.unstarted = Some(boxed);
        None
    });
    if let Some(boxed) = too_late {
        // The scope was cancelled between the adoption and here: the task was accepted, and ends before its first poll.
        let reason = catch::catch(|| drop(boxed)).err();
        Arc::clone(&member).end(reason, false);
        return Ok(Task { member });
    }
    let current = Some(Arc::clone(&member) as Arc<dyn Member>);
    let run = Run { member: Some(Arc::clone(&member)), future: None, current };
    parent.node().runtime().spawn(Box::pin(run));
    Ok(Task { member })
}

/// The task's own future on the runtime.
struct Run {
    member: Option<Arc<TaskMember>>,
    future: Option<BoxFuture<'static, Ended>>,
    current: Option<Arc<dyn Member>>,
}

impl Run {
    /// Drops what is left of the future, as a part of it, and leaves the tree.
    fn finish(&mut self, cx: &Context<'_>, ended: Result<Ended, Reason>, returned: bool) {
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
        member.end(reason, returned);
    }
}

impl Future for Run {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let Some(member) = this.member.clone() else { return Poll::Ready(()) };
        let (cancelled, unstarted) = member.state.with(|state| (state.cancelled, state.unstarted.take()));
        if unstarted.is_some() {
            this.future = unstarted;
        }
        if cancelled && !(this.future.is_some() && member.runs_on(cx)) {
            if this.future.is_some() {
                this.finish(cx, Ok(None), false);
            }
            // Else it was cut off before its first poll: whoever took the future drops it, and then the task has ended.
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
                let (cancelled, replaced) = member.state.with(|state| (state.cancelled, state.remember(cx.waker())));
                drop(replaced);
                if !cancelled || member.runs_on(cx) {
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

impl State {
    fn remember(&mut self, waker: &Waker) -> Option<Waker> {
        match &self.waker {
            Some(known) if known.will_wake(waker) => None,
            _ => self.waker.replace(waker.clone()),
        }
    }
}

/// The runtime dropped the task before its end: it leaves the tree all the same.
impl Drop for Run {
    fn drop(&mut self) {
        let Some(member) = self.member.take() else { return };
        node::cancel(&(Arc::clone(&member) as Arc<dyn Member>), &Cause::Dropped);
        // Without a future it never began, and the cancel has seen to it.
        let Some(future) = self.future.take() else { return };
        let reason = catch::catch(|| drop(future)).err();
        member.end(reason, false);
    }
}
