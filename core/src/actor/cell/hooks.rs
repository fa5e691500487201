//! The hooks at the end of an incarnation, `restarting` and `stopped`, each limited by the grace
//! period of the system.

use crate::actor::Actor;
use crate::actor::cell::Cell;
use crate::actor::cell::lifecycle::{ExitKind, StageEnd};
use crate::actor::cell::task::{ActorTask, TaskDetails};
use crate::base::reason::BoxError;
use crate::base::runtime::BoxFuture;
use crate::events::cause::Exit;
use crate::tree::node::Node;
use crate::tree::supervision;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use pin_project_lite::pin_project;

impl<A: Actor> ActorTask<A> {
    /// Runs the `restarting` hook on the failed state, within the grace period.
    pub(super) fn restarting_hook<'a>(
        &'a mut self,
        cell: &'a Cell<A::Msg>,
    ) -> WithinGrace<'a, impl Future<Output = Result<(), A::Error>> + Send + 'a> {
        let Self { details, part, .. } = self;
        let failure = details.as_ref().and_then(|details| details.failure.as_ref());
        let failure = failure.expect("the `restarting` hook follows a failure");
        let actor = part.actor.as_mut().expect("the `restarting` hook runs on a state");
        WithinGrace { hook: actor.restarting(failure, &mut part.cx), node: cell.node(), sleep: None }
    }

    /// Runs the `stopped` hook, within the grace period.
    pub(super) fn stopped_hook<'a>(
        &'a mut self,
        cell: &'a Cell<A::Msg>,
    ) -> WithinGrace<'a, impl Future<Output = Result<(), A::Error>> + Send + 'a> {
        self.part.cx.begin_ending();
        let exit = exit_for_hook(self.exit_kind, self.details.as_deref());
        let actor = self.part.actor.as_mut().expect("the `stopped` hook runs on a state");
        WithinGrace { hook: actor.stopped(exit, &mut self.part.cx), node: cell.node(), sleep: None }
    }
}

/// Returns the exit that the `stopped` hook gets.
fn exit_for_hook(exit_kind: Option<ExitKind>, details: Option<&TaskDetails>) -> &Exit {
    match (exit_kind, details) {
        (Some(ExitKind::Close), _) => &Exit::Closed,
        (Some(ExitKind::Cancel | ExitKind::Fail) | None, Some(details)) => details.exit.as_ref().unwrap_or(&Exit::Stopped),
        _ => &Exit::Stopped,
    }
}

pin_project! {
    /// A hook that is dropped after the grace period. The timer is set only if the hook is pending.
    pub(super) struct WithinGrace<'a, F> {
        #[pin]
        hook: F,
        node: &'a Node,
        sleep: Option<BoxFuture<'static, ()>>,
    }
}

impl<F: Future<Output = Result<(), E>>, E: Into<BoxError>> Future for WithinGrace<'_, F> {
    type Output = StageEnd;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<StageEnd> {
        let this = self.project();
        if let Poll::Ready(ended) = this.hook.poll(cx) {
            return Poll::Ready(ended.map_or_else(StageEnd::failed, |()| StageEnd::Done));
        }
        poll_grace(this.node, this.sleep, cx)
    }
}

/// Polls the grace period of a pending hook.
fn poll_grace(node: &Node, sleep: &mut Option<BoxFuture<'static, ()>>, cx: &mut Context<'_>) -> Poll<StageEnd> {
    let tree = node.tree();
    let sleep = sleep.get_or_insert_with(|| tree.runtime.sleep_until(tree.runtime.now() + tree.grace));
    sleep.as_mut().poll(cx).map(|()| {
        // Further members above may have slow hooks too; from now on their grace periods run at the
        // same time.
        supervision::skip_stop_order(node);
        StageEnd::failed(GraceExceeded(tree.grace))
    })
}

/// A hook did not return within the grace period.
#[derive(Debug)]
struct GraceExceeded(Duration);

impl fmt::Display for GraceExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the hook did not return within the grace period of {:?} and was dropped", self.0)
    }
}

impl core::error::Error for GraceExceeded {}
