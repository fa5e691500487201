//! [`CancelToken`]: cancellation that travels down a tree of tokens, with its cause.
//!
//! A token owns its cause, which is set once, and the listeners below it: child tokens, members of
//! the tree, and waiting tasks.
//!
//! Invariants:
//! 1. The cause of a token is set at most once, under its lock, and never changes.
//! 2. Each listener is notified exactly once: the thread that sets the cause takes all listeners,
//!    and a later listener finds the cause.
//! 3. A dropped child token or future removes its entry, so the size of a token depends only on its
//!    current listeners.
//! 4. No two locks are held at once, and nothing is woken, cancelled or dropped under a lock.

use crate::base::lock::Lock;
use crate::base::runtime::{BoxFuture, Runtime};
use crate::base::sync::{Arc, Weak};
use crate::base::time::Instant;
use crate::base::wakers::{ClonedWaker, WakerKey, Wakers, discard, wake_all, wake_each};
use crate::events::cause::Cause;
use crate::tree::member::Member;
use crate::tree::{Tree, node};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use slab::Slab;

/// A cancellation token. Clones refer to the same token; [`child`](Self::child) creates a token
/// below it.
///
/// A cancel reaches all tokens and members below, never the ones above. Dropping a token does not
/// cancel it.
///
/// # Examples
///
/// ```
/// use pleach::prelude::*;
/// use pleach::runtime::Dispatcher;
/// use std::time::Duration;
///
/// let sim = Dispatcher::seeded(1);
/// let root = CancelToken::root(sim.runtime());
/// let request = root.child_for(Duration::from_secs(30));
///
/// request.cancel("client went away");
/// assert!(request.is_cancelled() && !root.is_cancelled());
/// assert_eq!(sim.simulate(request.cancelled()), Ok(Cause::from("client went away")));
/// ```
#[derive(Clone)]
pub struct CancelToken(Arc<TokenNode>);

/// The shared part of all clones of a token.
struct TokenNode {
    tree: Arc<Tree>,
    parent: Option<(CancelToken, usize)>,
    deadline: Option<Instant>,
    state: Lock<TokenState>,
}

#[derive(Default)]
struct TokenState {
    cause: Option<Cause>,
    listeners: Slab<TokenListener>,
    wakers: Wakers,
    timer: Option<Waker>,
}

/// A listener below a token.
enum TokenListener {
    Token(Weak<TokenNode>),
    Member(Weak<dyn Member>),
}

impl CancelToken {
    /// Creates a token without a parent. Its deadlines use `runtime`.
    pub fn root(runtime: Arc<dyn Runtime>) -> Self {
        Self::new_root(Tree::new(runtime))
    }

    pub(crate) fn new_root(tree: Arc<Tree>) -> Self {
        Self::of_member(tree, None)
    }

    /// Creates the token of a member, which is cancelled with it. The member's `deadline` is
    /// enforced elsewhere.
    pub(crate) fn of_member(tree: Arc<Tree>, deadline: Option<Instant>) -> Self {
        Self(Arc::new(TokenNode { tree, parent: None, deadline, state: Lock::new(TokenState::default()) }))
    }

    /// Creates a token below this one. It is cancelled with this one, but not the other way round.
    #[must_use]
    pub fn child(&self) -> Self {
        self.new_child(None)
    }

    /// Creates a token below this one that is cancelled with [`Cause::DeadlineExceeded`] at `at`,
    /// or earlier if an ancestor has an earlier deadline.
    ///
    /// A deadline in the past cancels it immediately.
    #[must_use]
    pub fn child_until(&self, at: Instant) -> Self {
        if self.0.deadline.is_some_and(|deadline| deadline <= at) {
            return self.new_child(None);
        }
        let child = self.new_child(Some(at));
        if !child.is_cancelled() {
            let runtime = &self.0.tree.runtime;
            if at <= runtime.now() {
                child.cancel(Cause::DeadlineExceeded);
            } else if at != Instant::NEVER {
                let timer = DeadlineTimer { sleep: runtime.sleep_until(at), token: Arc::downgrade(&child.0) };
                runtime.spawn(alloc::boxed::Box::pin(timer));
            }
        }
        child
    }

    /// Creates a token below this one that is cancelled with [`Cause::DeadlineExceeded`] after
    /// `wait`.
    #[must_use]
    pub fn child_for(&self, wait: Duration) -> Self {
        self.child_until(self.0.tree.runtime.now() + wait)
    }

    fn new_child(&self, deadline: Option<Instant>) -> Self {
        let deadline = deadline.or(self.0.deadline);
        let mut cause = None;
        let token = Arc::new_cyclic(|weak| {
            let key = self.0.state.with(|state| match &state.cause {
                Some(known) => {
                    cause = Some(known.clone());
                    None
                }
                None => Some(state.listeners.insert(TokenListener::Token(weak.clone()))),
            });
            let parent = key.map(|key| (self.clone(), key));
            TokenNode { tree: Arc::clone(&self.0.tree), parent, deadline, state: Lock::new(TokenState::default()) }
        });
        let token = Self(token);
        // Until `new_cyclic` returns, the weak reference in the parent cannot be upgraded. A cancel
        // in that moment skips this child, which therefore checks for a cause here.
        if let Some(cause) = cause.or_else(|| self.cause()) {
            token.cancel(cause);
        }
        token
    }

    /// Adds a member of the tree below this token. Returns the key for [`forget`](Self::forget), or
    /// the cause if the token is already cancelled.
    pub(crate) fn attach(&self, member: &Arc<dyn Member>) -> Result<usize, Cause> {
        self.0.state.with(|state| match &state.cause {
            Some(cause) => Err(cause.clone()),
            None => Ok(state.listeners.insert(TokenListener::Member(Arc::downgrade(member)))),
        })
    }

    pub(crate) fn forget(&self, key: usize) {
        let listener = self.0.state.with(|state| state.listeners.try_remove(key));
        drop(listener);
    }

    /// Cancels this token and everything below it. The first cause wins; later calls have no
    /// effect.
    ///
    /// `()` means [`Cause::Cancelled`]; a `&str` or `String` means [`Cause::Because`].
    pub fn cancel(&self, cause: impl Into<Cause>) {
        let cause = cause.into();
        let mut tokens = vec![self.clone()];
        while let Some(token) = tokens.pop() {
            token.cancel_one(&cause, &mut tokens);
        }
    }

    fn cancel_one(&self, cause: &Cause, descendants: &mut Vec<Self>) {
        let taken = self.0.state.with(|state| {
            if state.cause.is_some() {
                return None;
            }
            state.cause = Some(cause.clone());
            Some((core::mem::take(&mut state.listeners), state.wakers.take(), state.timer.take()))
        });
        let Some((listeners, wakers, timer)) = taken else { return };
        for (_, listener) in listeners {
            match listener {
                TokenListener::Token(token) => descendants.extend(token.upgrade().map(Self)),
                TokenListener::Member(member) => {
                    if let Some(member) = member.upgrade() {
                        node::cancel(&member, cause);
                    }
                }
            }
        }
        wake_all(wakers);
        wake_each(timer);
    }

    /// Returns whether this token is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.state.with(|state| state.cause.is_some())
    }

    /// Returns why this token was cancelled, or `None` while it is not.
    pub fn cause(&self) -> Option<Cause> {
        self.0.state.with(|state| state.cause.clone())
    }

    /// Returns the earliest deadline of this token and its ancestors.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.deadline
    }

    /// Waits until this token is cancelled and returns the cause. Any number of tasks may wait.
    ///
    /// Cancel safe.
    pub fn cancelled(&self) -> Cancelled {
        Cancelled { token: self.clone(), key: None }
    }

    /// Returns the runtime that its deadlines use.
    pub fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.0.tree.runtime
    }

    pub(crate) fn tree(&self) -> &Arc<Tree> {
        &self.0.tree
    }

    /// Returns how many tasks wait, and how many tokens and members listen.
    #[cfg(test)]
    pub(crate) fn listener_counts(&self) -> (usize, usize) {
        self.0.state.with(|state| (state.wakers.len(), state.listeners.len()))
    }

    fn poll_cause(&self, key: &mut WakerKey, waker: &Waker) -> Poll<Cause> {
        let mut waker = ClonedWaker::of(waker);
        self.0.state.with(|state| match &state.cause {
            Some(cause) => Poll::Ready(cause.clone()),
            None => {
                state.wakers.register(key, &mut waker);
                Poll::Pending
            }
        })
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken").field("cause", &self.cause()).field("deadline", &self.0.deadline).finish()
    }
}

impl Drop for TokenNode {
    fn drop(&mut self) {
        // A loop, not recursion: a chain of tokens may be long, and this may be the last owner of
        // all of it.
        let mut ancestor = self.parent.take();
        while let Some((parent, key)) = ancestor {
            parent.forget(key);
            ancestor = Arc::into_inner(parent.0).and_then(|mut token| token.parent.take());
        }
        // The timer is woken, finds that its token is gone, and ends.
        wake_each(self.state.with(|state| state.timer.take()));
    }
}

/// A future that completes with the cause once the token is cancelled; returned by
/// [`CancelToken::cancelled`].
#[must_use = "futures do nothing unless awaited"]
pub struct Cancelled {
    token: CancelToken,
    key: WakerKey,
}

impl Future for Cancelled {
    type Output = Cause;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Cause> {
        let this = &mut *self;
        this.token.poll_cause(&mut this.key, cx.waker())
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        if self.key.is_some() {
            let waker = self.token.0.state.with(|state| state.wakers.remove(&mut self.key));
            discard(waker);
        }
    }
}

/// Cancels a token at its deadline. Ends early when the token is dropped or cancelled.
struct DeadlineTimer {
    sleep: BoxFuture<'static, ()>,
    token: Weak<TokenNode>,
}

impl Future for DeadlineTimer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(token) = self.token.upgrade().map(CancelToken) else { return Poll::Ready(()) };
        if self.sleep.as_mut().poll(cx).is_ready() {
            token.cancel(Cause::DeadlineExceeded);
            return Poll::Ready(());
        }
        let mut waker = ClonedWaker::of(cx.waker());
        let done = token.0.state.with(|state| {
            if state.cause.is_none() {
                waker.put(&mut state.timer);
            }
            state.cause.is_some()
        });
        drop(waker);
        // This may be the last strong reference: dropping it here must not leave this task waiting.
        drop(token);
        if done || self.token.strong_count() == 0 { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
