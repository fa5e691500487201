//! `TaskFactory`: the factory of an actor, and later the task that runs it, in one allocation.
//!
//! A factory is boxed when its `Props` are created, because its type is known only there. The box
//! also has room for the task: once the actor has its cell, the runtime gets the box unchanged, and
//! the first poll replaces the factory by the task in place.

use crate::actor::Actor;
use crate::actor::cell::Cell;
use crate::actor::cell::task::OwnedTask;
use crate::base::runtime::BoxFuture;
use crate::base::sync::Arc;
use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use pin_project_lite::pin_project;

/// A boxed factory that becomes the task of its actor.
pub(crate) trait TaskFactory<A: Actor>: Future<Output = ()> + Send {
    /// Binds this factory to `cell`: from now on it is the task of that actor.
    fn bind(self: Pin<&mut Self>, cell: Arc<Cell<A::Msg>>);
}

/// The boxed factory of an actor `A`, whatever its type.
pub(crate) type BoxTaskFactory<A> = Pin<Box<dyn TaskFactory<A>>>;

/// Boxes the factory of an actor.
#[inline]
pub(crate) fn task_factory<A: Actor>(factory: impl FnMut() -> A + Send + 'static) -> BoxTaskFactory<A> {
    // Two steps, because most of the box is room for the task that needs no copying.
    let task = Box::write(
        Box::new_uninit(),
        FactoryOrTask::Factory { parts: Some((factory, crate::actor::cell::run_actor)), unpolled: UnpolledCell(None) },
    );
    Box::into_pin(task)
}

/// Turns a factory into the task of the actor in `cell`, for a runtime to run.
#[inline]
pub(crate) fn into_task<A: Actor>(mut factory: BoxTaskFactory<A>, cell: Arc<Cell<A::Msg>>) -> BoxFuture<'static, ()> {
    factory.as_mut().bind(cell);
    factory
}

pin_project! {
    /// The content of the box: first the factory, then the task. `S` makes the task `L` from the
    /// cell and the factory.
    #[project = Projected]
    enum FactoryOrTask<A: Actor, F, S, L> {
        Factory { parts: Option<(F, S)>, unpolled: UnpolledCell<A> },
        Task { #[pin] future: L },
    }
}

/// The cell of an actor whose task was not polled yet. If it is dropped unpolled, the actor leaves
/// the tree like any other.
struct UnpolledCell<A: Actor>(Option<Arc<Cell<A::Msg>>>);

impl<A: Actor> Drop for UnpolledCell<A> {
    #[inline]
    fn drop(&mut self) {
        if let Some(cell) = self.0.take() {
            drop(OwnedTask::<A>::new(cell));
        }
    }
}

impl<A: Actor, F: Send, S: Send, L> TaskFactory<A> for FactoryOrTask<A, F, S, L>
where
    Self: Future<Output = ()> + Send,
{
    fn bind(self: Pin<&mut Self>, cell: Arc<Cell<A::Msg>>) {
        if let Projected::Factory { unpolled, .. } = self.project() {
            unpolled.0 = Some(cell);
        }
    }
}

impl<A, F, S, L> Future for FactoryOrTask<A, F, S, L>
where
    A: Actor,
    S: FnOnce(Arc<Cell<A::Msg>>, F) -> L,
    L: Future<Output = ()>,
{
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Projected::Factory { parts, unpolled } = self.as_mut().project() {
            let (Some((factory, run)), Some(cell)) = (parts.take(), unpolled.0.take()) else { return Poll::Ready(()) };
            self.set(Self::Task { future: run(cell, factory) });
        }
        match self.project() {
            Projected::Task { future } => future.poll(cx),
            Projected::Factory { .. } => Poll::Ready(()),
        }
    }
}

#[cfg(all(test, feature = "std", not(loom)))]
mod tests {
    use super::*;
    use crate::actor::props::Props;
    use crate::base::reason::BoxError;
    use crate::base::runtime::Runtime;
    use crate::base::sync::unsize;
    use crate::base::time::Instant;
    use crate::events::cause::{Cause, Exit};
    use crate::scope::Scope;
    use crate::tree::token::CancelToken;

    /// A runtime that has shut down.
    struct ShutDown;

    impl Runtime for ShutDown {
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
    fn t4_actor_with_an_unpolled_task_leaves_the_tree() {
        let scope = Scope::under(&CancelToken::root(unsize!(Arc::new(ShutDown) => dyn Runtime)));
        let made = Arc::new(());
        let owned = Arc::clone(&made);
        let state = move || drop(Arc::clone(&owned));
        let actor = scope.spawn("a", Props::from_fn(state, |(), ()| Ok::<(), BoxError>(()))).unwrap();
        assert_eq!(actor.exit(), Some(Exit::Cancelled(Cause::Dropped)));
        assert!(scope.try_wait_all().is_ok(), "the parent no longer has it");
        assert_eq!(Arc::strong_count(&made), 1, "its factory is dropped");
    }
}
