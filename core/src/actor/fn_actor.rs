//! Actors made of a state and a closure: [`FnActor`] and [`ContextFnActor`], with their
//! constructors on [`Props`].

use crate::actor::Actor;
use crate::actor::context::Context;
use crate::actor::props::Props;
use crate::base::reason::BoxError;
use crate::base::sync::{Arc, unsize};
use core::marker::PhantomData;

impl<S, M, E, F> Props<FnActor<S, M, E, F>>
where
    S: Send + 'static,
    M: Send + 'static,
    E: Into<BoxError> + Send + 'static,
    F: FnMut(&mut S, M) -> Result<(), E> + Clone + Send + 'static,
{
    /// Creates an actor from a closure and a state. `state` makes the state of each incarnation.
    ///
    /// # Examples
    /// ```
    /// use pleach::{Props, BoxError};
    ///
    /// let props = Props::from_fn(|| 0u64, |total: &mut u64, n: u64| -> Result<(), BoxError> {
    ///     *total += n;
    ///     Ok(())
    /// });
    /// # drop(props);
    /// ```
    ///
    /// Such an actor changes its behaviour by changing its state, and starts with the first
    /// behaviour again after a restart. The state can be the behaviour itself:
    ///
    /// ```
    /// use pleach::{Props, BoxError};
    ///
    /// struct Light(fn(&mut Light));
    ///
    /// fn red(light: &mut Light) { light.0 = green }
    /// fn green(light: &mut Light) { light.0 = red }
    ///
    /// let props = Props::from_fn(|| Light(red), |light, (): ()| -> Result<(), BoxError> {
    ///     (light.0)(light);
    ///     Ok(())
    /// });
    /// # drop(props);
    /// ```
    pub fn from_fn(mut state: impl FnMut() -> S + Send + 'static, handle: F) -> Self {
        Self::new(move || FnActor { state: state(), handle: handle.clone(), types: PhantomData })
    }
}

impl<S, M, E> Props<ContextFnActor<S, M, E>>
where
    S: Send + 'static,
    M: Send + 'static,
    E: Into<BoxError> + Send + 'static,
{
    /// As [`from_fn`](Props::from_fn), but the closure also gets the actor's context: for timers,
    /// for children, or to stop the actor.
    ///
    /// # Examples
    /// ```
    /// use pleach::{Props, BoxError};
    ///
    /// let props = Props::from_fn_with(|| 3u32, |left: &mut u32, (): (), cx| -> Result<(), BoxError> {
    ///     *left -= 1;
    ///     if *left == 0 {
    ///         cx.stop();
    ///     }
    ///     Ok(())
    /// });
    /// # drop(props);
    /// ```
    pub fn from_fn_with<F>(mut state: impl FnMut() -> S + Send + 'static, handle: F) -> Self
    where
        F: Fn(&mut S, M, &mut Context<ContextFnActor<S, M, E>>) -> Result<(), E> + Send + Sync + 'static,
    {
        let handle = unsize!(Arc::new(handle) => HandleWith<S, M, E>);
        Self::new(move || ContextFnActor { state: state(), handle: Arc::clone(&handle) })
    }
}

type HandleWith<S, M, E> = dyn Fn(&mut S, M, &mut Context<ContextFnActor<S, M, E>>) -> Result<(), E> + Send + Sync;

/// An actor made of a state and a closure that gets the context; see [`Props::from_fn_with`].
pub struct ContextFnActor<S: Send + 'static, M: Send + 'static, E: Into<BoxError> + Send + 'static> {
    state: S,
    handle: Arc<HandleWith<S, M, E>>,
}

impl<S, M, E> Actor for ContextFnActor<S, M, E>
where
    S: Send + 'static,
    M: Send + 'static,
    E: Into<BoxError> + Send + 'static,
{
    type Msg = M;
    type Error = E;

    async fn handle(&mut self, msg: M, cx: &mut Context<Self>) -> Result<(), E> {
        (self.handle)(&mut self.state, msg, cx)
    }
}

/// An actor made of a state and a closure; see [`Props::from_fn`].
pub struct FnActor<S, M, E, F> {
    state: S,
    handle: F,
    types: PhantomData<fn(M) -> E>,
}

impl<S, M, E, F> Actor for FnActor<S, M, E, F>
where
    S: Send + 'static,
    M: Send + 'static,
    E: Into<BoxError> + Send + 'static,
    F: FnMut(&mut S, M) -> Result<(), E> + Send + 'static,
{
    type Msg = M;
    type Error = E;

    async fn handle(&mut self, msg: M, _cx: &mut Context<Self>) -> Result<(), E> {
        (self.handle)(&mut self.state, msg)
    }
}
