//! How a graph is written: nodes, edges, policies and fan-outs. Nothing is checked here.

pub(crate) mod builder;
pub(crate) mod fan_out;
pub(crate) mod node;
pub(crate) mod policy;
pub(crate) mod shape;
pub(crate) mod subgraph;
