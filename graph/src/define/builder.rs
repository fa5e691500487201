//! `Graph`: the builder of a state graph. Nothing is checked before `compile`, which reports all
//! faults.

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

/// A graph of steps over one state: nodes change the state, edges say what follows.
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
///     .add_node("judge", |mut essay: Essay| async move {
///         essay.score = essay.text.len() as u32 * 10;
///         Ok::<_, String>(essay)
///     })
///     .add_edge("write", "judge")
///     .add_conditional_edge("judge", ["write", END], |essay: &Essay| if essay.score >= 80 { END } else { "write" })
///     .set_entry("write")
///     .compile()?;
/// # Ok::<(), pleach::graph::CompileError>(())
/// ```
#[must_use = "a graph is made by `compile`"]
pub struct Graph<S> {
    pub(crate) name: String,
    pub(crate) nodes: Vec<DraftNode<S>>,
    pub(crate) edges: Vec<Edge<S>>,
    pub(crate) policies: Vec<(String, Policy<S>)>,
    pub(crate) undos: Vec<(String, Undo)>,
    pub(crate) entry: Option<String>,
    pub(crate) deny_warnings: bool,
    /// How states are compared with what comes back from a store.
    pub(crate) equal: Option<fn(&S, &S) -> bool>,
}

/// A node as it was added.
pub(crate) struct DraftNode<S> {
    pub(crate) id: String,
    pub(crate) call: NodeFn<S>,
    pub(crate) subgraph: Option<SubgraphInfo>,
}

/// An edge as it was added.
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
    /// An empty graph. Its name stands in errors, and later in stored runs.
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

    /// Adds a step: an async function from the state, or from a [`NodeContext`] and the state, to a `Result` with the new state.
    pub fn add_node<Shape>(mut self, id: impl Into<String>, node: impl IntoNode<S, Shape>) -> Self {
        self.nodes.push(DraftNode { id: id.into(), call: node.into_node().0, subgraph: None });
        self
    }

    /// After `from` comes `to`, or the end if it is [`END`](crate::END).
    pub fn add_edge(self, from: impl Into<String>, to: impl Into<String>) -> Self {
        self.edge(from, EdgeKind::Plain(to.into()))
    }

    /// After `from` comes what the router answers, which must be one of `targets`. The router sees the state, or a
    /// [`NodeContext`] and the state, as the node left it.
    pub fn add_conditional_edge<Shape, T: Into<String>>(
        self,
        from: impl Into<String>,
        targets: impl IntoIterator<Item = T>,
        router: impl IntoRouter<S, Shape>,
    ) -> Self {
        let targets = targets.into_iter().map(Into::into).collect();
        self.edge(from, EdgeKind::Choice { targets, route: router.into_router().0 })
    }

    /// After `from` come all of `heads` at once, each with a clone of the state. Their branches end at `join`, where `fan_out`
    /// makes one state of theirs.
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

    /// After `from` comes `head` as often as `items` gives states, all at once. Otherwise as
    /// [`add_parallel_edge`](Self::add_parallel_edge); with no items the merge gets an empty list.
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

    /// Where a run starts.
    pub fn set_entry(mut self, node: impl Into<String>) -> Self {
        self.entry = Some(node.into());
        self
    }

    /// What becomes of `node` when it fails or takes long. Given twice, the last counts.
    pub fn policy(mut self, node: impl Into<String>, policy: Policy<S>) -> Self {
        self.policies.push((node.into(), policy));
        self
    }

    /// How `node` is undone if the run fails after it: `undo` is given what the node [recorded](NodeContext::record_undo), on a
    /// token of its own. Of a visit that recorded nothing the undo is called only if its payload can be nothing (`()`, an `Option`); otherwise
    /// nothing is undone if the visit had no effect, and the compensation has failed if it had one. Given twice, the last counts.
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

    /// Compares every state of a stored run with what is read back from its JSON, by `PartialEq`, before it is committed.
    ///
    /// Without it states are compared by what their `Serialize` says, which finds all that JSON cannot hold except fields that are not serialised
    /// (`#[serde(skip)]`). A state that differs is refused and given back. It costs one comparison a step. States inside a subgraph are
    /// compared if the subgraph asks for it.
    pub fn compare_states(mut self) -> Self
    where
        S: PartialEq,
    {
        self.equal = Some(|state, back| state == back);
        self
    }

    /// Makes faults of warnings: of nodes that no way leads to.
    pub fn deny_warnings(mut self) -> Self {
        self.deny_warnings = true;
        self
    }
}

impl<S> fmt::Debug for Graph<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, nodes, edges, .. } = self;
        write!(f, "Graph({name:?}, {} nodes, {} edges)", nodes.len(), edges.len())
    }
}
