//! `Recipe`: how an actor is made, and later the task that runs it, in one allocation.
//!
//! A recipe is boxed when its `Props` are made, because only then is the type of its factory known. That box has room for the task: once
//! the actor has its cell, [`begin`](Recipe::begin) turns the one into the other in place, and the runtime is given the box as it is.

use super::Cell;
use crate::{Actor, BoxFuture, BoxStream};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::Future;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};
use pin_project_lite::pin_project;

/// A factory in a box in which its actor can run.
pub(crate) trait Recipe<A: Actor>: Future<Output = ()> + Send {
    /// From now on this is the task of the actor in `cell`.
    fn begin(self: Pin<&mut Self>, cell: Arc<Cell<A::Msg>>, feed: Option<BoxStream<A::Msg>>);
}

/// A recipe of an actor `A`, whatever its factory is.
pub(crate) type BoxRecipe<A> = Pin<Box<dyn Recipe<A>>>;

/// The recipe of an actor that `factory` makes.
pub(crate) fn recipe<A: Actor>(factory: impl FnMut() -> A + Send + 'static) -> BoxRecipe<A> {
    Box::pin(Task::Recipe { parts: Some((factory, super::live)), actor: PhantomData })
}

/// The task of the actor in `cell`, for a runtime to run.
pub(crate) fn begin<A: Actor>(
    mut recipe: BoxRecipe<A>,
    cell: Arc<Cell<A::Msg>>,
    feed: Option<BoxStream<A::Msg>>,
) -> BoxFuture<'static, ()> {
    recipe.as_mut().begin(cell, feed);
    recipe
}

pin_project! {
    /// The two things that the box holds, one after the other. `S` makes the life `L` of an actor out of its cell and its factory.
    #[project = Now]
    enum Task<A, F, S, L> {
        Recipe { parts: Option<(F, S)>, actor: PhantomData<fn() -> A> },
        Life { #[pin] life: L },
    }
}

impl<A, F, S, L> Recipe<A> for Task<A, F, S, L>
where
    A: Actor,
    F: Send,
    S: FnOnce(Arc<Cell<A::Msg>>, F, Option<BoxStream<A::Msg>>) -> L + Send,
    L: Future<Output = ()> + Send,
{
    fn begin(mut self: Pin<&mut Self>, cell: Arc<Cell<A::Msg>>, feed: Option<BoxStream<A::Msg>>) {
        if let Now::Recipe { parts, .. } = self.as_mut().project()
            && let Some((factory, live)) = parts.take()
        {
            self.set(Self::Life { life: live(cell, factory, feed) });
        }
    }
}

impl<A, F, S, L: Future<Output = ()>> Future for Task<A, F, S, L> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.project() {
            Now::Life { life } => life.poll(cx),
            Now::Recipe { .. } => Poll::Ready(()),
        }
    }
}
