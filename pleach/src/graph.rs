//! State graphs: steps over a state of your own type.
//!
//! A [`Graph`] lists nodes and edges. [`compile`](Graph::compile) checks it once and reports every
//! fault at the same time. A [run](CompiledGraph::run) executes in the task that awaits it, and can
//! be cancelled inside a node. Graphs have branches, loops, fan-outs, subgraphs, retries and undos;
//! with [`checkpoint`](RunOptions::checkpoint) a run is [durable](crate::durable).
//!
//! ```
//! use pleach::prelude::*;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), pleach::Error> {
//! let graph = Graph::<Vec<u32>>::new("collatz")
//!     .add_node("step", |mut seen: Vec<u32>| async move {
//!         let n = seen.last().copied().ok_or("nothing to begin with")?;
//!         seen.push(if n % 2 == 0 { n / 2 } else { 3 * n + 1 });
//!         Ok::<_, pleach::BoxError>(seen)
//!     })
//!     .add_conditional_edge("step", ["step", END], |seen: &Vec<u32>| if seen.last() == Some(&1) { END } else { "step" })
//!     .set_entry("step")
//!     .compile()?;
//!
//! assert_eq!(graph.run(vec![6]).max_iterations(100).await?, [6, 3, 10, 5, 16, 8, 4, 2, 1]);
//! # Ok(())
//! # }
//! ```

pub use pleach_graph::{
    BranchPath, Compensation, CompileError, CompiledGraph, Drawing, During, END, EdgeKind, EdgeLine, Emission, FailedAttempt,
    FanOut, FanOutTimeout, GraceEnd, Graph, GraphFault, GraphLayout, Hooks, Inspection, IntoNode, IntoRouter, LeadsTo,
    MAX_ITERATIONS_DEFAULT, MAX_VISITS_DEFAULT, MergeError, NamedBy, NodeBox, NodeContext, NodeError, NodeInfo, NodeMark,
    NodeOutput, PanicError, Policy, Retry, RouterError, RunError, RunEvent, RunFault, RunFuture, RunOptions, RunStream,
    RunUpdate, START, STEPS_PER_POLL_MAX, STREAM_CAPACITY, StartError, Visit,
};
