//! The functions that users write: nodes and routers. Each is boxed once, when it is added.
//!
//! A node takes the state, or a context and the state. So does a router. Because of the two forms,
//! a closure must name the type of its parameter: `|essay: Essay| async move { .. }`.

use crate::context::NodeContext;
use crate::define::shape::Target;
use crate::util::future::ErrInto;
use pleach_core::{BoxError, BoxFuture};
use std::future::Future;

/// A step on its way: the only box that running a node costs.
pub(crate) type NodeFuture<S> = BoxFuture<'static, Result<S, BoxError>>;

/// The code of a node.
pub(crate) enum NodeFn<S> {
    State(Box<dyn Fn(S) -> NodeFuture<S> + Send + Sync>),
    Context(Box<dyn Fn(NodeContext, S) -> NodeFuture<S> + Send + Sync>),
}

/// Whatever can be a node: an `async fn(S) -> Result<S, E>`, or an `async fn(NodeContext, S) -> Result<S, E>`.
///
/// `Shape` tells the two apart and is never named.
#[diagnostic::on_unimplemented(
    message = "this is no node for a state of type `{S}`",
    note = "a node is an async function or closure from `{S}`, or from `NodeContext` and `{S}`, to `Result<{S}, impl Into<BoxError>>`; a closure must name the type of its parameter"
)]
pub trait IntoNode<S, Shape> {
    #[doc(hidden)]
    fn into_node(self) -> Node<S>;
}

/// A node ready to be added.
#[doc(hidden)]
pub struct Node<S>(pub(crate) NodeFn<S>);

impl<S, F, Fut, E> IntoNode<S, fn(S)> for F
where
    S: 'static,
    F: Fn(S) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<S, E>> + Send + 'static,
    E: Into<BoxError>,
{
    fn into_node(self) -> Node<S> {
        Node(NodeFn::State(Box::new(move |state| boxed(|| self(state)))))
    }
}

impl<S, F, Fut, E> IntoNode<S, fn(NodeContext, S)> for F
where
    S: 'static,
    F: Fn(NodeContext, S) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<S, E>> + Send + 'static,
    E: Into<BoxError>,
{
    fn into_node(self) -> Node<S> {
        Node(NodeFn::Context(Box::new(move |cx, state| boxed(|| self(cx, state)))))
    }
}

/// The future of a node in its box. The box is made first, so that the future can be written where it will lie.
#[inline]
fn boxed<S, E, Fut>(start: impl FnOnce() -> Fut) -> NodeFuture<S>
where
    Fut: Future<Output = Result<S, E>> + Send + 'static,
    E: Into<BoxError>,
{
    let place = Box::<ErrInto<Fut>>::new_uninit();
    let future = Box::write(place, ErrInto { future: start() });
    Box::into_pin(future)
}

/// A target that a conditional edge declares.
pub(crate) struct DeclaredTarget {
    pub(crate) name: Box<str>,
    pub(crate) to: Target,
}

/// The target that was answered, or the answer, if it was not declared.
pub(crate) type Routed = Result<Target, String>;

type RouteByState<S> = dyn Fn(&S, &[DeclaredTarget]) -> Routed + Send + Sync;
type RouteByContext<S> = dyn Fn(&NodeContext, &S, &[DeclaredTarget]) -> Routed + Send + Sync;

/// The code of a conditional edge.
pub(crate) enum RouterFn<S> {
    State(Box<RouteByState<S>>),
    Context(Box<RouteByContext<S>>),
}

/// Whatever can be a router: a function from `&S`, or from `&NodeContext` and `&S`, to the id of the next node.
///
/// `Shape` tells the two apart and is never named.
#[diagnostic::on_unimplemented(
    message = "this is no router for a state of type `{S}`",
    note = "a router is a function or closure from `&{S}`, or from `&NodeContext` and `&{S}`, to a text; a closure must name the type of its parameter"
)]
pub trait IntoRouter<S, Shape> {
    #[doc(hidden)]
    fn into_router(self) -> Router<S>;
}

/// A router ready to be added.
#[doc(hidden)]
pub struct Router<S>(pub(crate) RouterFn<S>);

impl<S, F, A> IntoRouter<S, fn(&S)> for F
where
    F: Fn(&S) -> A + Send + Sync + 'static,
    A: AsRef<str>,
{
    fn into_router(self) -> Router<S> {
        Router(RouterFn::State(Box::new(move |state, declared| look_up(self(state).as_ref(), declared))))
    }
}

impl<S, F, A> IntoRouter<S, fn(&NodeContext, &S)> for F
where
    F: Fn(&NodeContext, &S) -> A + Send + Sync + 'static,
    A: AsRef<str>,
{
    fn into_router(self) -> Router<S> {
        Router(RouterFn::Context(Box::new(move |cx, state, declared| look_up(self(cx, state).as_ref(), declared))))
    }
}

fn look_up(answer: &str, declared: &[DeclaredTarget]) -> Routed {
    declared.iter().find(|one| *one.name == *answer).map(|one| one.to).ok_or_else(|| answer.to_string())
}
