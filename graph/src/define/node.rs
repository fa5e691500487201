//! The functions that users write: nodes and routers. Each is boxed once, when it is added.
//!
//! A node takes the state, or a context and the state. So does a router. Because of the two forms,
//! a closure must name the type of its parameter: `|essay: Essay| async move { .. }`.

use crate::context::NodeContext;
use crate::define::shape::Target;
use pin_project_lite::pin_project;
use pleach_core::{BoxError, BoxFuture};
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

/// One call of a node. This box is the only allocation that an attempt costs.
pub(crate) type NodeFuture<S> = BoxFuture<'static, Result<S, BoxError>>;

/// The code of a node.
pub(crate) enum NodeFn<S> {
    State(Box<dyn Fn(S) -> NodeFuture<S> + Send + Sync>),
    Context(Box<dyn Fn(NodeContext, S) -> NodeFuture<S> + Send + Sync>),
}

/// A function that can be a node of a graph over the state `S`.
///
/// Implemented for async functions and closures of four forms:
///
/// - `async fn(S) -> S` and `async fn(NodeContext, S) -> S`, if the node cannot fail,
/// - `async fn(S) -> Result<S, E>` and `async fn(NodeContext, S) -> Result<S, E>` otherwise.
///
/// `E` is any error that converts into [`BoxError`]. The parameter `Shape` tells the two parameter
/// lists apart; the compiler infers it.
#[diagnostic::on_unimplemented(
    message = "this cannot be a node of a graph over the state `{S}`",
    label = "not a node over `{S}`",
    note = "write `async fn node(state: {S}) -> {S}`, or `async fn node(cx: NodeContext, state: {S}) -> Result<{S}, E>` where `E: Into<BoxError>`",
    note = "a closure must name the type of its parameter and return a `Send` future: `|state: {S}| async move {{ state }}`"
)]
pub trait IntoNode<S, Shape> {
    #[doc(hidden)]
    fn into_node(self) -> Node<S>;
}

/// The output of a node over the state `S`: the new state, or a `Result` with it.
///
/// Implemented for `S` and for `Result<S, E>` with any error that converts into [`BoxError`]. Users
/// do not implement it.
#[diagnostic::on_unimplemented(
    message = "a node over the state `{S}` cannot return `{Self}`",
    label = "returns `{Self}`",
    note = "a node returns the new state `{S}`, or `Result<{S}, E>` where `E: Into<BoxError>`"
)]
pub trait NodeOutput<S> {
    #[doc(hidden)]
    fn into_result(self) -> Result<S, BoxError>;
}

impl<S> NodeOutput<S> for S {
    #[inline]
    fn into_result(self) -> Result<S, BoxError> {
        Ok(self)
    }
}

impl<S, E: Into<BoxError>> NodeOutput<S> for Result<S, E> {
    #[inline]
    fn into_result(self) -> Result<S, BoxError> {
        self.map_err(Into::into)
    }
}

/// A boxed node, ready to be added to a graph.
#[doc(hidden)]
pub struct Node<S>(pub(crate) NodeFn<S>);

impl<S, F, Fut> IntoNode<S, fn(S)> for F
where
    S: 'static,
    F: Fn(S) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: NodeOutput<S>> + Send + 'static,
{
    fn into_node(self) -> Node<S> {
        Node(NodeFn::State(Box::new(move |state| boxed(|| self(state)))))
    }
}

impl<S, F, Fut> IntoNode<S, fn(NodeContext, S)> for F
where
    S: 'static,
    F: Fn(NodeContext, S) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: NodeOutput<S>> + Send + 'static,
{
    fn into_node(self) -> Node<S> {
        Node(NodeFn::Context(Box::new(move |cx, state| boxed(|| self(cx, state)))))
    }
}

pin_project! {
    /// A user's future with the output that the engine expects. An async block would hold it twice.
    struct NodeCall<F, S> {
        #[pin]
        future: F,
        state: PhantomData<fn() -> S>,
    }
}

impl<S, F: Future<Output: NodeOutput<S>>> Future for NodeCall<F, S> {
    type Output = Result<S, BoxError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().future.poll(cx).map(NodeOutput::into_result)
    }
}

/// Boxes one call of a node. The box is allocated first, so that the future is built in place.
#[inline]
fn boxed<S: 'static, Fut>(start: impl FnOnce() -> Fut) -> NodeFuture<S>
where
    Fut: Future<Output: NodeOutput<S>> + Send + 'static,
{
    let place = Box::<NodeCall<Fut, S>>::new_uninit();
    let future = Box::write(place, NodeCall { future: start(), state: PhantomData });
    Box::into_pin(future)
}

/// A target that a conditional edge declares.
pub(crate) struct DeclaredTarget {
    pub(crate) name: Box<str>,
    pub(crate) to: Target,
}

/// The chosen target, or the router's answer if no declared target has that name.
pub(crate) type Routed = Result<Target, String>;

type RouteByState<S> = dyn Fn(&S, &[DeclaredTarget]) -> Routed + Send + Sync;
type RouteByContext<S> = dyn Fn(&NodeContext, &S, &[DeclaredTarget]) -> Routed + Send + Sync;

/// The code of a conditional edge.
pub(crate) enum RouterFn<S> {
    State(Box<RouteByState<S>>),
    Context(Box<RouteByContext<S>>),
}

/// A function that can be the router of a conditional edge over the state `S`.
///
/// Implemented for functions and closures from `&S`, or from `&NodeContext` and `&S`, to the id of
/// the next node, as any type that implements `AsRef<str>`. The parameter `Shape` tells the two
/// apart; the compiler infers it.
#[diagnostic::on_unimplemented(
    message = "this cannot be a router of a graph over the state `{S}`",
    label = "not a router over `{S}`",
    note = "write `fn router(state: &{S}) -> &'static str`, or `fn router(cx: &NodeContext, state: &{S}) -> String`; a router is not async",
    note = "a closure must name the type of its parameter: `|state: &{S}| END`"
)]
pub trait IntoRouter<S, Shape> {
    #[doc(hidden)]
    fn into_router(self) -> Router<S>;
}

/// A boxed router, ready to be added to a graph.
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

#[inline]
fn look_up(answer: &str, declared: &[DeclaredTarget]) -> Routed {
    let found = declared.iter().find(|one| is_same_name(&one.name, answer));
    found.map(|one| one.to).ok_or_else(|| answer.to_string())
}

/// Compares two names. Most have 4 to 16 bytes, which are two words that may overlap. Comparing the
/// words takes a third of the time of a call that compares any number of bytes.
#[inline]
fn is_same_name(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    a.len() == b.len()
        && match a.len() {
            4..=8 => have_same_ends::<4>(a, b),
            9..=16 => have_same_ends::<8>(a, b),
            _ => a == b,
        }
}

#[inline]
fn have_same_ends<const N: usize>(a: &[u8], b: &[u8]) -> bool {
    a.first_chunk::<N>() == b.first_chunk() && a.last_chunk::<N>() == b.last_chunk()
}

#[cfg(test)]
mod tests {
    use super::is_same_name;

    #[test]
    fn names_are_the_same_only_if_all_bytes_are() {
        for length in 0..40 {
            let name = "node-".repeat(8)[..length].to_string();
            assert!(is_same_name(&name, &name.clone()));
            assert!(!is_same_name(&name, &format!("{name}x")), "{length}: one byte more");
            for at in 0..length {
                let mut other = name.clone();
                other.replace_range(at..=at, "x");
                assert!(!is_same_name(&name, &other), "{length}: another byte at {at}");
            }
        }
    }
}
