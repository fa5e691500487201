//! `CancelToken`: cancellation that goes down a tree of tokens, with the cause.
//!
//! Owned here: one cause per token, set once; the listeners below it (child tokens, members of the tree, waiting tasks).
//!
//! Invariants:
//! 1. The cause of a token is set at most once, under its lock, and never changes.
//! 2. A listener is told exactly once: whoever sets the cause takes all listeners, and whoever comes later finds the cause.
//! 3. A dropped child token or future takes its entry with it, so a token is as large as what listens to it now.
//! 4. No two locks are held at once, and nothing is woken, cancelled or dropped under one.

use crate::base::lock::Lock;
use crate::base::runtime::Runtime;
use crate::base::time::Instant;
use crate::base::wakers::{Key, Spare, Wakers, discard, wake_all, wake_each};
use crate::events::cause::Cause;
use crate::tree::member::Member;
use crate::tree::{Tree, node};
use alloc::sync::{Arc, Weak};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use slab::Slab;

/// A handle on one point of cancellation. Clones are the same token; [`child`](Self::child) makes one below it.
#[derive(Clone)]
pub struct CancelToken(Arc<Token>);

struct Token {
    tree: Arc<Tree>,
    parent: Option<(CancelToken, usize)>,
    deadline: Option<Instant>,
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    cause: Option<Cause>,
    listeners: Slab<Listener>,
    wakers: Wakers,
    timer: Option<Waker>,
}

/// What stands below a token.
enum Listener {
    Token(Weak<Token>),
    Member(Weak<dyn Member>),
}

impl CancelToken {
    /// A token with nothing above it, whose deadlines run on `runtime`.
    pub fn root(runtime: Arc<dyn Runtime>) -> Self {
        Self::at_top(Tree::new(runtime))
    }

    pub(crate) fn at_top(tree: Arc<Tree>) -> Self {
        Self::of_member(tree, None)
    }

    /// The token of a member of the tree, which is cancelled with it; `deadline` is the member's, and others keep it.
    pub(crate) fn of_member(tree: Arc<Tree>, deadline: Option<Instant>) -> Self {
        Self(Arc::new(Token { tree, parent: None, deadline, state: Lock::new(State::default()) }))
    }

    /// A token below this one: cancelled with it, never the other way round.
    #[must_use]
    pub fn child(&self) -> Self {
        self.below(None)
    }

    /// A token below this one that is cancelled with [`Cause::DeadlineExceeded`] at `at`, or earlier if a deadline above is.
    #[must_use]
    pub fn child_until(&self, at: Instant) -> Self {
        if self.0.deadline.is_some_and(|above| above <= at) {
            return self.below(None);
        }
        let child = self.below(Some(at));
        if !child.is_cancelled() {
            let runtime = &self.0.tree.runtime;
            if at <= runtime.now() {
                child.cancel(Cause::DeadlineExceeded);
            } else if at != Instant::NEVER {
                let timer = Timer { sleep: runtime.sleep_until(at), token: Arc::downgrade(&child.0) };
                runtime.spawn(alloc::boxed::Box::pin(timer));
            }
        }
        child
    }

    /// A token below this one that is cancelled `wait` from now.
    #[must_use]
    pub fn child_for(&self, wait: Duration) -> Self {
        self.child_until(self.0.tree.runtime.now() + wait)
    }

    fn below(&self, deadline: Option<Instant>) -> Self {
        let deadline = deadline.or(self.0.deadline);
        let mut cause = None;
        let token = Arc::new_cyclic(|weak| {
            let place = self.0.state.with(|state| match &state.cause {
                Some(known) => {
                    cause = Some(known.clone());
                    None
                }
                None => Some(state.listeners.insert(Listener::Token(weak.clone()))),
            });
            let parent = place.map(|place| (self.clone(), place));
            Token { tree: Arc::clone(&self.0.tree), parent, deadline, state: Lock::new(State::default()) }
        });
        let token = Self(token);
        // Between the entry in the parent and the end of `new_cyclic` the weak reference does not upgrade, so a cancel in that
        // moment passes the child by; it then finds the cause here.
        if let Some(cause) = cause.or_else(|| self.cause()) {
            token.cancel(cause);
        }
        token
    }

    /// Hangs a member of the tree below this token. Gives the key for [`forget`](Self::forget), or the cause if it is too late.
    pub(crate) fn attach(&self, member: &Arc<dyn Member>) -> Result<usize, Cause> {
        self.0.state.with(|state| match &state.cause {
            Some(cause) => Err(cause.clone()),
            None => Ok(state.listeners.insert(Listener::Member(Arc::downgrade(member)))),
        })
    }

    pub(crate) fn forget(&self, place: usize) {
        let listener = self.0.state.with(|state| state.listeners.try_remove(place));
        drop(listener);
    }

    /// Cancels this token and everything below it. The first cause wins; `()` stands for [`Cause::Cancelled`], and words may be
    /// given as a `&str`.
    pub fn cancel(&self, cause: impl Into<Cause>) {
        let cause = cause.into();
        let mut tokens = vec![self.clone()];
        while let Some(token) = tokens.pop() {
            token.cancel_one(&cause, &mut tokens);
        }
    }

    fn cancel_one(&self, cause: &Cause, below: &mut Vec<Self>) {
        let told = self.0.state.with(|state| {
            if state.cause.is_some() {
                return None;
            }
            state.cause = Some(cause.clone());
            Some((core::mem::take(&mut state.listeners), state.wakers.take(), state.timer.take()))
        });
        let Some((listeners, wakers, timer)) = told else { return };
        for (_, listener) in listeners {
            match listener {
                Listener::Token(token) => below.extend(token.upgrade().map(Self)),
                Listener::Member(member) => {
                    if let Some(member) = member.upgrade() {
                        node::cancel(&member, cause);
                    }
                }
            }
        }
        wake_all(wakers);
        wake_each(timer);
    }

    /// Whether it is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.state.with(|state| state.cause.is_some())
    }

    /// Why it was cancelled, `None` while it is not.
    pub fn cause(&self) -> Option<Cause> {
        self.0.state.with(|state| state.cause.clone())
    }

    /// The earliest deadline on the way up.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.deadline
    }

    /// Waits until it is cancelled, and gives the cause. Any number of tasks may wait, before or after.
    pub fn cancelled(&self) -> Cancelled {
        Cancelled { token: self.clone(), key: None }
    }

    /// The runtime its deadlines run on.
    pub fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.0.tree.runtime
    }

    pub(crate) fn tree(&self) -> &Arc<Tree> {
        &self.0.tree
    }

    /// How many tasks wait for it, and how many tokens and members listen.
    #[cfg(test)]
    pub(crate) fn listening(&self) -> (usize, usize) {
        self.0.state.with(|state| (state.wakers.len(), state.listeners.len()))
    }

    fn poll_cause(&self, key: &mut Key, waker: &Waker) -> Poll<Cause> {
        let mut waker = Spare::of(waker);
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

impl Drop for Token {
    fn drop(&mut self) {
        // A loop and not recursion: a chain of tokens may be long, and this may be the last owner of all of it.
        let mut above = self.parent.take();
        while let Some((parent, place)) = above {
            parent.forget(place);
            above = Arc::into_inner(parent.0).and_then(|mut token| token.parent.take());
        }
        // The timer looks for its token when it is woken, finds it gone, and ends.
        wake_each(self.state.with(|state| state.timer.take()));
    }
}

/// Ready with the cause once the token is cancelled; from [`CancelToken::cancelled`].
#[must_use = "futures do nothing unless awaited"]
pub struct Cancelled {
    token: CancelToken,
    key: Key,
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

/// Cancels a token at its deadline, and ends early when the token is dropped or cancelled.
struct Timer {
    sleep: crate::BoxFuture<'static, ()>,
    token: Weak<Token>,
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(token) = self.token.upgrade().map(CancelToken) else { return Poll::Ready(()) };
        if self.sleep.as_mut().poll(cx).is_ready() {
            token.cancel(Cause::DeadlineExceeded);
            return Poll::Ready(());
        }
        let mut waker = Spare::of(cx.waker());
        let done = token.0.state.with(|state| {
            if state.cause.is_none() {
                waker.put(&mut state.timer);
            }
            state.cause.is_some()
        });
        drop(waker);
        // The upgrade above may have been the last reference: dropping it here must not leave this task asleep.
        drop(token);
        if done || self.token.strong_count() == 0 { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::dispatcher::Dispatcher;

    fn token() -> CancelToken {
        CancelToken::root(Dispatcher::seeded(1).runtime())
    }

    #[test]
    fn t1_cancel_reaches_descendants_and_nobody_else() {
        let root = token();
        let (left, right) = (root.child(), root.child());
        let leaf = left.child();
        left.cancel(());
        assert!(leaf.is_cancelled() && left.is_cancelled());
        assert!(!root.is_cancelled() && !right.is_cancelled());
    }

    #[test]
    fn t2_the_first_cause_wins_everywhere() {
        let root = token();
        let early = root.child();
        let leaf = early.child();
        early.cancel("early");
        root.cancel("late");
        root.cancel(());
        assert_eq!(root.cause(), Some("late".into()));
        assert_eq!(early.cause(), Some("early".into()));
        assert_eq!(leaf.cause(), Some("early".into()));
        assert_eq!(root.child().cause(), Some("late".into()));
        let plain = token();
        plain.cancel(());
        assert_eq!(plain.cause(), Some(Cause::Cancelled));
    }

    #[test]
    fn t3_a_dropped_waiter_leaves_nothing_behind() {
        let root = token();
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..1_000_000 {
            let mut waiting = root.cancelled();
            assert!(Pin::new(&mut waiting).poll(&mut cx).is_pending());
            let _child = root.child();
        }
        assert_eq!(root.listening(), (0, 0));
        assert!(root.0.state.with(|state| state.listeners.capacity()) <= 4);
    }

    #[test]
    fn t3_waiters_before_and_after_are_all_told() {
        let root = token();
        let mut cx = Context::from_waker(Waker::noop());
        let mut before: Vec<_> = (0..3).map(|_| root.cancelled()).collect();
        assert!(before.iter_mut().all(|waiting| Pin::new(waiting).poll(&mut cx).is_pending()));
        root.cancel("now");
        before.push(root.cancelled());
        for mut waiting in before {
            assert_eq!(Pin::new(&mut waiting).poll(&mut cx), Poll::Ready("now".into()));
        }
    }

    #[test]
    fn t1_deep_trees_do_not_overflow_the_stack() {
        let root = token();
        let mut chain = vec![root.child()];
        (0..100_000).for_each(|_| chain.push(chain.last().unwrap().child()));
        root.cancel(());
        assert!(chain.last().unwrap().is_cancelled());
        let leaf = chain.pop();
        drop(chain);
        drop(leaf);
    }

    #[test]
    fn t1_the_earliest_deadline_on_the_way_up_wins() {
        let sim = Dispatcher::seeded(1);
        let root = CancelToken::root(sim.runtime());
        let at = |ms| Instant::after_start(Duration::from_millis(ms));
        let soon = root.child_until(at(10));
        let later = soon.child_until(at(20));
        let sooner = soon.child_until(at(5));
        assert_eq!((later.deadline(), sooner.deadline()), (Some(at(10)), Some(at(5))));
        sim.run_until_time(at(7));
        assert_eq!((sooner.cause(), soon.cause()), (Some(Cause::DeadlineExceeded), None));
        sim.run_until_time(at(10));
        assert_eq!((soon.cause(), later.cause()), (Some(Cause::DeadlineExceeded), Some(Cause::DeadlineExceeded)));
        assert_eq!(root.cause(), None);
        assert!(root.child_until(Instant::ZERO).is_cancelled());
    }

    #[test]
    fn a_dropped_deadline_leaves_no_task_behind() {
        let sim = Dispatcher::seeded(1);
        let root = CancelToken::root(sim.runtime());
        for _ in 0..1_000 {
            drop(root.child_for(Duration::from_secs(3_600)));
        }
        sim.drain_ready();
        assert_eq!(sim.tasks_alive(), 0);
    }
}
