//! [`AnyRef`]: a member of the tree without its type, and [`Exited`], which waits for its exit.

use crate::base::wakers::Key;
use crate::events::cause::{Cause, Exit};
use crate::ids::path::{ActorId, ActorPath};
use crate::tree::member::{Member, StopMode};
use crate::tree::waits::edges::{Awaited, EndEdge};
use crate::tree::{node, wait_all};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

/// Anything in the tree, without a message type: to watch, to wait for, to end.
#[derive(Clone)]
pub struct AnyRef {
    pub(crate) member: Arc<dyn Member>,
}

impl AnyRef {
    /// Who it is.
    pub fn id(&self) -> ActorId {
        self.member.node().id()
    }

    /// Where it stands in the tree.
    pub fn path(&self) -> ActorPath {
        self.member.node().path()
    }

    /// The exit, `None` while it lives.
    pub fn exit(&self) -> Option<Exit> {
        self.member.node().exit()
    }

    /// Waits for its end and gives the exit, after every `on_done` has run.
    pub fn exited(&self) -> Exited {
        Exited { member: Arc::clone(&self.member), key: None, edge: None }
    }

    /// Runs `f` with the exit, once: when it ends, or at once if it has.
    pub fn on_done(&self, f: impl FnOnce(&Exit) + Send + 'static) {
        self.member.node().on_done(Box::new(f));
    }

    /// Ends it in an orderly way: an actor after the message in hand, a scope after its children.
    pub fn stop(&self) {
        Arc::clone(&self.member).request_stop(StopMode::Stop);
    }

    /// Ends its input: what it has is finished first.
    pub fn close(&self) {
        Arc::clone(&self.member).request_stop(StopMode::Close);
    }

    /// Cuts it off with everything below it.
    pub fn cancel(&self, cause: impl Into<Cause>) {
        node::cancel(&self.member, &cause.into());
    }
}

impl fmt::Debug for AnyRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyRef({} {})", self.id(), self.path())
    }
}

impl PartialEq for AnyRef {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.member.node(), other.member.node())
    }
}

impl Eq for AnyRef {}

/// Ready with the exit; from `exited()`.
///
/// # Panics
/// When polled inside the very thing it waits for, or below it: that exit could never come.
#[must_use = "futures do nothing unless awaited"]
pub struct Exited {
    member: Arc<dyn Member>,
    key: Key,
    /// While it waits inside some member.
    edge: Option<Box<EndEdge>>,
}

impl Future for Exited {
    type Output = Exit;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Exit> {
        let Self { member, key, edge } = &mut *self;
        let polled = member.node().poll_exit(key, cx.waker());
        if polled.is_ready() {
            *edge = None;
        } else if let Some(child) = wait_all::inside(member.node()) {
            // A bug in the program that could only hang; as a panic it is a failure of whoever waits, with its place.
            panic!("{child} waits for the exit of {}, which cannot come before its own", member.node().path());
        } else if edge.is_none() {
            *edge = EndEdge::begin(Arc::clone(member), Awaited::Exit);
        }
        polled
    }
}

impl Drop for Exited {
    fn drop(&mut self) {
        if self.key.is_some() {
            self.member.node().forget_exit_waiter(&mut self.key);
        }
    }
}
