//! [`AnyRef`]: a handle to a member without its type, and [`Exited`], which waits for its exit.

use crate::base::sync::Arc;
use crate::base::wakers::WakerKey;
use crate::events::cause::{Cause, Exit};
use crate::ids::path::{ActorId, ActorPath};
use crate::tree::member::{Member, StopMode};
use crate::tree::waits::edges::{Awaited, EndEdge};
use crate::tree::{node, wait_all};
use alloc::boxed::Box;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

/// A handle to any member of the tree, without its message type. Use it to watch, await or end the
/// member.
///
/// Cloning copies an `Arc`. The handle does not keep the member running. Two handles are equal if
/// they refer to the same member.
///
/// # Examples
///
/// ```
/// use pleach::prelude::*;
/// use pleach::BoxError;
/// use pleach::runtime::Dispatcher;
/// use pleach::system::System;
///
/// let sim = Dispatcher::seeded(1);
/// let system = System::builder("shop", sim.runtime()).build().unwrap();
/// let props = Props::from_fn(|| (), |_, _: u32| Ok::<(), BoxError>(()));
/// let till = system.spawn("till", props).unwrap().any();
/// assert_eq!(till.path(), "/user/till");
/// till.close();
/// assert_eq!(sim.simulate(till.exited()), Ok(Exit::Closed));
/// ```
#[derive(Clone)]
pub struct AnyRef {
    pub(crate) member: Arc<dyn Member>,
}

impl AnyRef {
    /// Returns the id of the member.
    pub fn id(&self) -> ActorId {
        self.member.node().id()
    }

    /// Returns the path of the member.
    pub fn path(&self) -> ActorPath {
        self.member.node().path()
    }

    /// Returns how the member ended, or `None` while it is running.
    pub fn exit(&self) -> Option<Exit> {
        self.member.node().exit()
    }

    /// Waits until the member has ended and every `on_done` callback has run. Returns the exit.
    ///
    /// Cancel safe.
    pub fn exited(&self) -> Exited {
        Exited { member: Arc::clone(&self.member), key: None, edge: None }
    }

    /// Calls `f` with the exit, exactly once: when the member ends, or immediately if it has ended.
    ///
    /// A panic in `f` is reported as a failure and affects nothing else.
    pub fn on_done(&self, f: impl FnOnce(&Exit) + Send + 'static) {
        self.member.node().on_done(Box::new(f));
    }

    /// Stops the member: an actor after its current message, a scope after its children have
    /// stopped. A task is cancelled.
    pub fn stop(&self) {
        self.member.request_stop(&self.member, StopMode::Stop);
    }

    /// Closes the member's input: it ends after all of its queued work is done.
    pub fn close(&self) {
        self.member.request_stop(&self.member, StopMode::Close);
    }

    /// Cancels the member and everything below it. The first cause wins.
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

/// A future that completes with the exit of a member; returned by `exited()`.
#[must_use = "futures do nothing unless awaited"]
pub struct Exited {
    member: Arc<dyn Member>,
    key: WakerKey,
    /// The edge in the wait-for graph, while it waits inside a member.
    edge: Option<Box<EndEdge>>,
}

impl Future for Exited {
    type Output = Exit;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Exit> {
        let Self { member, key, edge } = &mut *self;
        let polled = member.node().poll_exit(key, cx.waker());
        if polled.is_ready() {
            *edge = None;
        } else if let Some(child) = wait_all::current_member_within(member.node()) {
            // A bug in the program that would otherwise hang. As a panic it is a failure of the
            // waiting member.
            panic!("{child} waits for the exit of {}, which cannot come before its own exit", member.node().path());
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
