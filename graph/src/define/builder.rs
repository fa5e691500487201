//! [`Graph`]: the builder of a state graph.
//!
//! The builder only collects nodes and edges. [`Graph::compile`] checks them and reports all faults
//! at once.

use crate::context::NodeContext;
use crate::context::undo::Undo;
use crate::define::fan_out::{FanOut, MapItems};
use crate::define::node::{IntoNode, IntoRouter, NodeFn, RouterFn};
use crate::define::policy::Policy;
use crate::define::subgraph::SubgraphInfo;
use pleach_core::BoxError;
use serde::de::DeserializeOwned;
use std::fmt;
use std::future::Future;

/// A builder for a graph over the state `S`: nodes change the state, edges choose the next node.
///
/// Add nodes and edges in any order, set the entry, then call [`compile`](Graph::compile). No
/// method of the builder fails; `compile` reports every fault. A `Graph` cannot run:
/// [`CompiledGraph::run`](crate::CompiledGraph::run) does that.
///
/// ```
/// use pleach::{END, Graph};
///
/// #[derive(Default)]
/// struct Essay { text: String, score: u32 }
///
/// async fn write(mut essay: Essay) -> Result<Essay, String> {
///     essay.text += "words ";
///     Ok(essay)
/// }
///
/// let graph = Graph::<Essay>::new("essay")
///     .add_node("write", write)
///     // A node that cannot fail returns the state alone.
///     .add_node("judge", |mut essay: Essay| async move {
///         essay.score = essay.text.len() as u32 * 10;
///         essay
///     })
///     .add_edge("write", "judge")
///     .add_conditional_edge("judge", ["write", END], |essay: &Essay| {
///         if essay.score >= 80 { END } else { "write" }
///     })
///     .set_entry("write")
///     .compile()?;
/// # Ok::<(), pleach::graph::CompileError>(())
/// ```
///
/// Running a graph before `compile` is a compiler error that says so:
///
/// ```compile_fail
/// # use pleach::Graph;
/// let run = Graph::<u32>::new("raw").run(1);
/// ```
#[must_use = "a graph does nothing before `compile`"]
pub struct Graph<S> {
    pub(crate) name: String,
    pub(crate) nodes: Vec<DraftNode<S>>,
    pub(crate) edges: Vec<Edge<S>>,
    pub(crate) policies: Vec<(String, Policy<S>)>,
    pub(crate) undos: Vec<(String, Undo)>,
    pub(crate) entry: Option<String>,
    pub(crate) deny_warnings: bool,
    /// Compares a state with its copy that was read back from JSON.
    pub(crate) equal: Option<fn(&S, &S) -> bool>,
}

/// A node as the user added it.
pub(crate) struct DraftNode<S> {
    pub(crate) id: String,
    pub(crate) call: NodeFn<S>,
    pub(crate) subgraph: Option<SubgraphInfo>,
}

/// An edge as the user added it.
pub(crate) struct Edge<S> {
    pub(crate) from: String,
    pub(crate) kind: EdgeKind<S>,
}

pub(crate) enum EdgeKind<S> {
    Plain(String),
    Choice { targets: Vec<String>, route: RouterFn<S> },
    Parallel { heads: Vec<String>, join: String, clone: fn(&S) -> S, options: FanOut<S> },
    Map { head: String, join: String, items: MapItems<S>, options: FanOut<S> },
}

impl<S: Send + 'static> Graph<S> {
    /// Creates an empty graph. Errors, events and stored runs contain its name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            nodes: Vec::new(),
            edges: Vec::new(),
            policies: Vec::new(),
            undos: Vec::new(),
            entry: None,
            deny_warnings: false,
            equal: None,
        }
    }

    /// Adds a node: an async function from the state to the new state.
    ///
    /// - The function takes `S`, or a [`NodeContext`] and `S`.
    /// - It returns `S` if it cannot fail, otherwise `Result<S, E>` with any error that converts
    ///   into [`BoxError`]. A failure ends the run unless a [`policy`](Self::policy) handles it.
    /// - A closure must name the type of its state parameter: `|n: u32| async move { n + 1 }`.
    ///
    /// `compile` rejects duplicate and blank ids, [`END`](crate::END) and ids that contain a `/`.
    pub fn add_node<Shape>(mut self, id: impl Into<String>, node: impl IntoNode<S, Shape>) -> Self {
        self.nodes.push(DraftNode { id: id.into(), call: node.into_node().0, subgraph: None });
        self
    }

    /// Adds an edge: after `from` the run continues at `to`, or ends if `to` is
    /// [`END`](crate::END).
    pub fn add_edge(self, from: impl Into<String>, to: impl Into<String>) -> Self {
        self.edge(from, EdgeKind::Plain(to.into()))
    }

    /// Adds an edge whose target a router chooses after `from` has finished.
    ///
    /// The router takes the new state by reference, or a [`NodeContext`] and the state, and returns
    /// the id of the next node. It must return one of `targets`; otherwise the run ends with
    /// [`RunFault::Router`](crate::RunFault::Router).
    pub fn add_conditional_edge<Shape, T: Into<String>>(
        self,
        from: impl Into<String>,
        targets: impl IntoIterator<Item = T>,
        router: impl IntoRouter<S, Shape>,
    ) -> Self {
        let targets = targets.into_iter().map(Into::into).collect();
        self.edge(from, EdgeKind::Choice { targets, route: router.into_router().0 })
    }

    /// Adds a fan-out: after `from` one branch starts at each of `heads`, all at the same time.
    ///
    /// Each branch gets a clone of the state. All branches must lead to `join`, where `fan_out`
    /// merges their states into one. A plain merge function works as `fan_out`; see [`FanOut`] for
    /// limits and timeouts.
    pub fn add_parallel_edge<T: Into<String>>(
        self,
        from: impl Into<String>,
        heads: impl IntoIterator<Item = T>,
        join: impl Into<String>,
        fan_out: impl Into<FanOut<S>>,
    ) -> Self
    where
        S: Clone,
    {
        let heads = heads.into_iter().map(Into::into).collect();
        let (join, options) = (join.into(), fan_out.into());
        self.edge(from, EdgeKind::Parallel { heads, join, clone: S::clone, options })
    }

    /// Adds a fan-out over data: after `from` one branch starts at `head` for each state that
    /// `items` returns.
    ///
    /// Otherwise it works like [`add_parallel_edge`](Self::add_parallel_edge). If `items` returns
    /// no state, the merge function gets an empty list.
    pub fn map(
        self,
        from: impl Into<String>,
        items: impl Fn(&S) -> Vec<S> + Send + Sync + 'static,
        head: impl Into<String>,
        join: impl Into<String>,
        fan_out: impl Into<FanOut<S>>,
    ) -> Self {
        let (head, join, options) = (head.into(), join.into(), fan_out.into());
        self.edge(from, EdgeKind::Map { head, join, items: Box::new(items), options })
    }

    fn edge(mut self, from: impl Into<String>, kind: EdgeKind<S>) -> Self {
        self.edges.push(Edge { from: from.into(), kind });
        self
    }

    /// Sets the node where a run starts.
    pub fn set_entry(mut self, node: impl Into<String>) -> Self {
        self.entry = Some(node.into());
        self
    }

    /// Sets the failure policy of `node`: retry, timeout, fallback. The last call for a node wins.
    pub fn policy(mut self, node: impl Into<String>, policy: Policy<S>) -> Self {
        self.policies.push((node.into(), policy));
        self
    }

    /// Sets the undo of `node`, which runs if the run fails after the node has completed.
    ///
    /// `undo` gets the payload that the node [recorded](NodeContext::record_undo). It runs on its
    /// own token. The last call for a node wins.
    ///
    /// If a visit recorded no payload:
    /// - The undo runs only if its payload type accepts `null` (`()` or an `Option`).
    /// - Otherwise a visit without effects needs no undo, and for a visit with effects the
    ///   compensation fails.
    pub fn compensate<P, F, Fut, E>(mut self, node: impl Into<String>, undo: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        F: Fn(NodeContext, P) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.undos.push((node.into(), Undo::new(undo)));
        self
    }

    /// Compares every state of a stored run with the copy read back from its JSON, by `PartialEq`,
    /// before the commit.
    ///
    /// By default the two are compared by their serialized form. That finds everything that JSON
    /// cannot represent, except fields that are not serialized (`#[serde(skip)]`). A state that
    /// differs is rejected, and the error contains it. The check costs one comparison per step.
    /// States inside a subgraph are compared only if the subgraph also calls this method.
    pub fn compare_states(mut self) -> Self
    where
        S: PartialEq,
    {
        self.equal = Some(|state, back| state == back);
        self
    }

    /// Makes `compile` treat warnings as faults. Unreachable nodes are the only warnings.
    pub fn deny_warnings(mut self) -> Self {
        self.deny_warnings = true;
        self
    }
}

/// A marker for graphs that can run. No [`Graph`] has it: the bound of [`Graph::run`] is there for
/// its compiler error.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `Graph` cannot run before it is compiled",
    label = "call `.compile()?` first",
    note = "`Graph::compile` checks the graph and returns a `CompiledGraph`, which has `run` and `resume`"
)]
pub trait Runnable {}

impl<S> Graph<S> {
    /// Never compiles: explains that `compile` must come first.
    #[doc(hidden)]
    pub fn run(&self, _state: S) -> std::future::Pending<Result<S, BoxError>>
    where
        Self: Runnable,
    {
        std::future::pending()
    }
}

impl<S> fmt::Debug for Graph<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, nodes, edges, .. } = self;
        write!(f, "Graph({name:?}, {} nodes, {} edges)", nodes.len(), edges.len())
    }
}
