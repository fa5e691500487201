//! Behaviours: handlers that replace `Actor::handle` while an incarnation runs.
//!
//! The behaviour of an actor is in the cold part of its mailbox. The control bit `BEHAVIOUR` is set
//! while it has one, so an actor without behaviours pays nothing.

use crate::actor::Actor;
use crate::actor::context::Context;
use crate::base::runtime::BoxFuture;
use crate::base::sync::{Arc, unsize};
use alloc::boxed::Box;
use core::any::Any;

impl<A: Actor> Context<A> {
    /// Replaces [`Actor::handle`] by `behaviour`, from the next message on.
    ///
    /// It lasts until [`unbecome`](Self::unbecome), until another call of this method, or until
    /// this incarnation ends. Together with [`stash`](Self::stash) it lets an actor wait for an
    /// event before it handles other messages.
    ///
    /// Each message costs one allocation meanwhile. A `match` on the state is cheaper if there are
    /// few behaviours and many messages; an actor from [`Props::from_fn`](crate::Props::from_fn)
    /// does that.
    ///
    /// # Examples
    /// ```
    /// use pleach::{Actor, BoxError, Context};
    ///
    /// enum Msg { Opened, Line(String) }
    ///
    /// #[derive(Default)]
    /// struct File { written: Vec<String> }
    ///
    /// impl Actor for File {
    ///     type Msg = Msg;
    ///     type Error = BoxError;
    ///
    ///     async fn handle(&mut self, msg: Msg, cx: &mut Context<Self>) -> Result<(), BoxError> {
    ///         match msg {
    ///             Msg::Opened => {
    ///                 cx.become_with(|file, msg, cx| Box::pin(file.open(msg, cx)));
    ///                 cx.unstash_all();
    ///             }
    ///             line => cx.stash(line)?,
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// impl File {
    ///     async fn open(&mut self, msg: Msg, _cx: &mut Context<Self>) -> Result<(), BoxError> {
    ///         if let Msg::Line(line) = msg {
    ///             self.written.push(line);
    ///         }
    ///         Ok(())
    ///     }
    /// }
    /// # drop((Msg::Line(String::new()), File::default()));
    /// ```
    #[doc(alias = "become")]
    pub fn become_with<F>(&self, behaviour: F)
    where
        F: for<'a> Fn(&'a mut A, A::Msg, &'a mut Self) -> BoxFuture<'a, Result<(), A::Error>> + Send + Sync + 'static,
    {
        drop(
            self.cell()
                .any()
                .set_behaviour(Some(unsize!(Arc::new(Behaviour::<A>(Box::new(behaviour))) => dyn Any + Send + Sync))),
        );
    }

    /// Returns to the first behaviour, [`Actor::handle`], from the next message on.
    pub fn unbecome(&self) {
        drop(self.cell().any().set_behaviour(None));
    }

    /// Returns the behaviour that replaces [`Actor::handle`], if one does.
    pub(crate) fn behaviour(&self) -> Option<Arc<Behaviour<A>>> {
        self.cell().any().behaviour().and_then(|behaviour| behaviour.downcast().ok())
    }
}

/// A handler as a value, which replaces `Actor::handle`.
pub(crate) struct Behaviour<A: Actor>(Box<Handle<A>>);

type Handle<A> = dyn for<'a> Fn(&'a mut A, <A as Actor>::Msg, &'a mut Context<A>) -> BoxFuture<'a, Result<(), <A as Actor>::Error>>
    + Send
    + Sync;

impl<A: Actor> Behaviour<A> {
    pub(crate) fn handle<'a>(
        &self,
        actor: &'a mut A,
        message: A::Msg,
        cx: &'a mut Context<A>,
    ) -> BoxFuture<'a, Result<(), A::Error>> {
        (self.0)(actor, message, cx)
    }
}
