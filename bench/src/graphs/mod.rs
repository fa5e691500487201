//! The graph workloads, one file a peer. They are part of [`Peer`](crate::peers::Peer), like those of actors; the floor's are
//! here, as it is what a program without a graph does: a `Vec` of boxed async fns, and `join_all`.
//!
//! The state is two numbers. A node adds one to the first. An operation is a node, for `fanout8` a run, for `sleeps20k` a branch,
//! for `compile1000` a compilation.

pub mod boxed;
pub mod dagrs;
pub mod graph_flow;
pub mod langgraph;
pub mod plain;
pub mod pleach;

/// The state that goes through every graph.
pub type State = [u64; 2];

/// What every node does.
pub fn step([n, rest]: State) -> State {
    [std::hint::black_box(n + 1), rest]
}

/// How long a branch of [`Shape::Sleeps`] sleeps.
pub const NAP: std::time::Duration = std::time::Duration::from_millis(1);

/// Which shape of graph is run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// So many nodes in a line.
    Line(usize),
    /// The same, of nodes that take a context.
    LineWithContext(usize),
    /// One node that a conditional edge leads back to, so many times.
    Loop(u64),
    /// One node, eight side by side, one node.
    FanOut8,
    /// One node, and so many branches side by side that sleep on Tokio's clock for a millisecond.
    Sleeps(usize),
}
