//! The graph workloads, one file per peer. They are fields of [`Peer`](crate::peers::Peer), like
//! those of actors. The floor is a program without a graph: a `Vec` of boxed async fns, and
//! `join_all`.
//!
//! The state is two numbers, and a node adds one to the first. One operation is a node; for
//! `fanout8` a run, for `sleeps20k` a branch, and for `compile1000` a compilation.

pub mod boxed;
pub mod dagrs;
pub mod graph_flow;
pub mod langgraph;
pub mod owned;
pub mod plain;
pub mod pleach;

/// The state that goes through every graph.
pub type State = [u64; 2];

/// The work of every node.
pub fn step([n, rest]: State) -> State {
    [std::hint::black_box(n + 1), rest]
}

/// How long a branch of [`Shape::Sleeps`] sleeps.
pub const NAP: std::time::Duration = std::time::Duration::from_millis(1);

/// The shapes of graphs that are run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// This many nodes in a line.
    Line(usize),
    /// The same with nodes that take a context.
    LineWithContext(usize),
    /// One node that a conditional edge returns to this many times.
    Loop(u64),
    /// One node, eight parallel nodes, one node.
    FanOut8,
    /// One node, and this many branches that sleep on Tokio's clock for a millisecond.
    Sleeps(usize),
}
