//! Durable runs: graphs whose every step is stored before the next begins.
//!
//! [`RunOptions::checkpoint`](crate::graph::RunOptions::checkpoint) stores a run in a
//! [store](crate::store). After a crash, [`resume`](crate::graph::CompiledGraph::resume) continues
//! it in any process; a [worker](crate::worker) does so on its own. Completed nodes and
//! [effects](crate::graph::NodeContext::effect) do not run again. A run can wait for signals,
//! answers and times across restarts, and can be paused, rewound, replayed and forked.
//!
//! [`RunRemote`] sends to a run through its store, from any process. [`RunRef`] does so inside the
//! tree.
//!
//! ```
//! use pleach::prelude::*;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), pleach::Error> {
//! let graph = Graph::<u32>::new("double")
//!     .add_node("double", |n: u32| async move { Ok::<_, NodeError>(n * 2) })
//!     .add_edge("double", END)
//!     .set_entry("double")
//!     .compile()?;
//!
//! let store = MemoryStore::new();
//! let doubled = graph.run(21).checkpoint(&store).id("order-7").await?;
//! assert_eq!(doubled, 42);
//!
//! // A second run with this id would be refused; the stored one can be read.
//! assert_eq!(graph.resume("order-7").checkpoint(&store).await?, 42);
//! # Ok(())
//! # }
//! ```

pub use pleach_graph::{
    Checkpoint, CheckpointError, DEPLOY_GROUPS_MAX, DEPLOY_SAMPLES_MAX, Delivery, DeployCheck, DeployError, DeployGroup,
    DeployReport, EXPORT_FORMAT, Effect, EffectError, EffectPreview, GraphExport, History, HistoryPage, JsonPatch, Migrations,
    MismatchError, OutcomeOf, PREVIEW_MAX, PatchError, PatchOperation, Resume, ResumeError, RewindPreview, RewindTo,
    RunControlError, RunFit, RunMessage, RunProblem, RunRef, RunRemote, RunView, TokenView, UndoPreview, UnknownEffect,
    WaitPreview, WaitView,
};
