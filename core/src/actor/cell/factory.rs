//! `Recipe`: how an actor is made, and later the task that runs it, in one allocation.
//!
//! A recipe is boxed when its `Props` are made, because only then is the type of its factory known. That box has room for the task: once
//! the actor has its cell the runtime is given the box as it is, and the first poll turns the one into the other in place.

use crate::actor::Actor;
use crate::actor::cell::Cell;
use crate::actor::cell::task::Body;
use crate::base::runtime::BoxFuture;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use pin_project_lite::pin_project;

/// A factory in a box in which its actor can run.
pub(crate) trait Recipe<A: Actor>: Future<Output = ()> + Send {
    /// From now on this is the task of the actor in `cell`.
    fn is_for(self: Pin<&mut Self>, cell: Arc<Cell<A::Msg>>);
}

/// A recipe of an actor `A`, whatever its factory is.
pub(crate) type BoxRecipe<A> = Pin<Box<dyn Recipe<A>>>;

/// The recipe of an actor that `factory` makes.
#[inline]
pub(crate) fn recipe<A: Actor>(factory: impl FnMut() -> A + Send + 'static) -> BoxRecipe<A> {
    // In two steps, because most of it is room that needs no copying.
    let task =
        Box::write(Box::new_uninit(), Task::Recipe { parts: Some((factory, crate::actor::cell::live)), unborn: Unborn(None) });
    Box::into_pin(task)
}

/// The task of the actor in `cell`, for a runtime to run.
#[inline]
pub(crate) fn task<A: Actor>(mut recipe: BoxRecipe<A>, cell: Arc<Cell<A::Msg>>) -> BoxFuture<'static, ()> {
    recipe.as_mut().is_for(cell);
    recipe
}

pin_project! {
    /// The two things that the box holds, one after the other. `S` makes the life `L` of an actor out of its cell and its factory.
    #[project = Now]
    enum Task<A: Actor, F, S, L> {
        Recipe { parts: Option<(F, S)>, unborn: Unborn<A> },
        NodeState { #[pin] life: L },
    }
}

/// The cell of an actor whose task has not been polled. If it never is, it leaves the tree like any other.
struct Unborn<A: Actor>(Option<Arc<Cell<A::Msg>>>);

impl<A: Actor> Drop for Unborn<A> {
    #[inline]
    fn drop(&mut self) {
        if let Some(cell) = self.0.take() {
            drop(Body::<A>::new(cell));
        }
    }
}

impl<A: Actor, F: Send, S: Send, L> Recipe<A> for Task<A, F, S, L>
where
    Self: Future<Output = ()> + Send,
{
    fn is_for(self: Pin<&mut Self>, cell: Arc<Cell<A::Msg>>) {
        if let Now::Recipe { unborn, .. } = self.project() {
            unborn.0 = Some(cell);
        }
    }
}

impl<A, F, S, L> Future for Task<A, F, S, L>
where
    A: Actor,
    S: FnOnce(Arc<Cell<A::Msg>>, F) -> L,
    L: Future<Output = ()>,
{
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Now::Recipe { parts, unborn } = self.as_mut().project() {
            let (Some((factory, live)), Some(cell)) = (parts.take(), unborn.0.take()) else { return Poll::Ready(()) };
            self.set(Self::NodeState { life: live(cell, factory) });
        }
        match self.project() {
            Now::NodeState { life } => life.poll(cx),
            Now::Recipe { .. } => Poll::Ready(()),
        }
    }
}

#[cfg(all(test, feature = "std", not(loom)))]
mod tests {
    use super::*;
    use crate::actor::props::Props;
    use crate::base::reason::BoxError;
    use crate::base::runtime::Runtime;
    use crate::base::time::Instant;
    use crate::events::cause::{Cause, Exit};
    use crate::scope::Scope;
    use crate::tree::token::CancelToken;

    /// A runtime that has shut down.
    struct Down;

    impl Runtime for Down {
        fn spawn(&self, task: BoxFuture<'static, ()>) {
            drop(task);
        }

        fn now(&self) -> Instant {
            Instant::ZERO
        }

        fn sleep_until(&self, _at: Instant) -> BoxFuture<'static, ()> {
            Box::pin(core::future::pending())
        }

        fn random(&self) -> u64 {
            0
        }
    }

    #[test]
    fn t4_an_actor_whose_task_is_never_polled_leaves_the_tree() {
        let scope = Scope::under(&CancelToken::root(Arc::new(Down)));
        let made = Arc::new(());
        let held = Arc::clone(&made);
        let state = move || drop(Arc::clone(&held));
        let actor = scope.actor("a", Props::from_fn(state, |(), ()| Ok::<(), BoxError>(()))).unwrap();
        assert_eq!(actor.exit(), Some(Exit::Cancelled(Cause::Dropped)));
        assert!(scope.try_wait_all().is_ok(), "it is out of its parent's table");
        assert_eq!(Arc::strong_count(&made), 1, "its recipe is gone");
    }
}
