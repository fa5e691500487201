//! [`WaitAll`]: waits until a member has no children left.

use crate::base::runtime::BoxFuture;
use crate::base::sync::Arc;
use crate::base::wakers::WakerKey;
use crate::events::failure::FailureInfo;
use crate::ids::path::ActorPath;
use crate::tree::current;
use crate::tree::member::Member;
use crate::tree::node::{Node, Running};
use crate::tree::waits::edges::{Awaited, EndEdge};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

/// Why a wait for the children of a scope failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WaitError {
    /// A child failed, which cancelled the scope.
    Failed(FailureInfo),
    /// The time limit passed while these members were still running.
    StillRunning(Vec<Running>),
    /// The wait was started inside a child of the scope, so it would have waited for itself.
    FromInside {
        /// The path of the member that waited.
        child: ActorPath,
        /// The path of the scope it waited for.
        scope: ActorPath,
    },
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(failure) => write!(f, "a child failed: {failure}"),
            Self::StillRunning(running) => write_running(f, running),
            Self::FromInside { child, scope } => {
                write!(f, "{child} cannot wait for {scope}, because it is part of it: wait from outside of {scope}")
            }
        }
    }
}

/// Writes the members that are still running: the first 8, and how many more.
pub(crate) fn write_running(f: &mut fmt::Formatter<'_>, running: &[Running]) -> fmt::Result {
    const SHOWN: usize = 8;
    write!(f, "{} still running: ", running.len())?;
    for (at, one) in running.iter().take(SHOWN).enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        write!(f, "{comma}{one}")?;
    }
    if running.len() > SHOWN { write!(f, " and {} more", running.len() - SHOWN) } else { Ok(()) }
}

impl core::error::Error for WaitError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Failed(failure) => Some(failure),
            _ => None,
        }
    }
}

pub(crate) fn outcome(node: &Node) -> Result<(), WaitError> {
    node.first_failure().map_or(Ok(()), |failure| Err(WaitError::Failed(failure)))
}

/// Returns the path of the current member if it is `node` or below it. Such a member would wait for
/// itself.
pub(crate) fn current_member_within(node: &Node) -> Option<ActorPath> {
    current::member().filter(|member| member.node().is_within(node)).map(|member| member.node().path())
}

/// A future that completes when a scope has no children left; returned by
/// [`Scope::wait_all`](crate::Scope::wait_all).
///
/// Cancel safe.
#[must_use = "futures do nothing unless awaited"]
pub struct WaitAll {
    member: Arc<dyn Member>,
    key: WakerKey,
    wait: Option<Duration>,
    sleep: Option<BoxFuture<'static, ()>>,
    /// The edge in the wait-for graph, while it waits inside a member without a time limit.
    edge: Option<Box<EndEdge>>,
}

impl WaitAll {
    pub(crate) fn new(member: Arc<dyn Member>, wait: Option<Duration>) -> Self {
        Self { member, key: None, wait, sleep: None, edge: None }
    }
}

impl Future for WaitAll {
    type Output = Result<(), WaitError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { member, key, wait, sleep, edge } = self.get_mut();
        let node = member.node();
        if let Some(child) = current_member_within(node) {
            return Poll::Ready(Err(WaitError::FromInside { child, scope: node.path() }));
        }
        if node.poll_childless(key, cx.waker()).is_ready() {
            *edge = None;
            return Poll::Ready(outcome(node));
        }
        let Some(wait) = *wait else {
            if edge.is_none() {
                *edge = EndEdge::begin(Arc::clone(member), Awaited::Children);
            }
            return Poll::Pending;
        };
        let runtime = node.runtime();
        let sleep = sleep.get_or_insert_with(|| runtime.sleep_until(runtime.now() + wait));
        sleep.as_mut().poll(cx).map(|()| Err(WaitError::StillRunning(node.running())))
    }
}

impl Drop for WaitAll {
    fn drop(&mut self) {
        if self.key.is_some() {
            self.member.node().forget_child_waiter(&mut self.key);
        }
    }
}
