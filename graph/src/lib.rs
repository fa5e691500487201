//! State graphs and durable workflows: async nodes over one state type, checked when compiled.
//!
//! 1. [`Graph`] collects nodes and edges.
//! 2. [`Graph::compile`] checks them and returns a [`CompiledGraph`], or all faults at once.
//! 3. [`CompiledGraph::run`] returns [`RunOptions`], which run when they are awaited.
//! 4. With [`RunOptions::checkpoint`] each step is stored, and [`CompiledGraph::resume`] continues
//!    the run after a crash. A [`Worker`] drives the stored runs that other processes created.
//!
//! Applications depend on `pleach`, which re-exports this crate.
//!
//! ```
//! use pleach::{END, Graph};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let graph = Graph::<u32>::new("halving")
//!     .add_node("halve", |n: u32| async move { n / 2 })
//!     .add_conditional_edge("halve", ["halve", END], |n: &u32| if *n > 1 { "halve" } else { END })
//!     .set_entry("halve")
//!     .compile()?;
//!
//! assert_eq!(pleach::runtime::block_on(async { graph.run(40).await })?, 1);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

// The modules are layers: each imports only from modules declared above it, by its path, never
// through the re-exports below. To read a run from the start: `define`, `compile`, `engine::step`.

/// Small shared parts: futures, wakers, the runtime lookup.
mod util;

// Where durable runs live: the `Store` trait and its implementations.
pub mod store;

/// Positions of control: token ids, branch paths, idempotency keys.
mod token;

/// Why a run fails, and how a failure is stored.
mod error;

/// The right to execute a run: claims, leases and the store's clock.
mod lease;

/// The log of a durable run: records, frontier, commits, the state of a visit.
mod log;

/// Signals, answers and commands to a run, and views of it.
mod control;

/// What a node can use while it runs: context, effects, waits, events.
mod context;

/// How a graph is written: nodes, edges, policies, fan-outs.
mod define;

/// From a written graph to a checked plan.
mod compile;

/// Drawings of a graph: a layered layout, and SVG.
mod draw;

/// Executes a run, step by step, as one future.
mod engine;

/// Durable runs: open, resume, migrate, inspect.
mod durable;

/// How a run is started: options, future, stream.
mod run;

// A member of the tree that claims ready runs and drives them.
pub mod worker;

pub use compile::compiled::CompiledGraph;
pub use compile::fault::{CompileError, GraphFault, NamedBy};
pub use compile::inspect::{Inspection, LeadsTo, NodeInfo};
pub use context::NodeContext;
pub use context::effect::Effect;
pub use context::events::{Emission, Hooks, RunEvent, Visit};
#[cfg(feature = "spans")]
pub use context::spans::TRACEPARENT_TAG;
pub use control::{Delivery, RunControlError, RunMessage, RunProblem, RunRef, RunRemote, RunView, TokenView};
pub use define::builder::Graph;
pub use define::fan_out::FanOut;
pub use define::node::{IntoNode, IntoRouter, NodeOutput};
pub use define::policy::{FailedAttempt, Policy, Retry};
pub use define::shape::END;
pub use draw::{Drawing, EdgeKind, EdgeLine, GraphLayout, NodeBox, NodeMark, START};
pub use durable::deploy::{
    DEPLOY_GROUPS_MAX, DEPLOY_SAMPLES_MAX, DeployCheck, DeployError, DeployGroup, DeployReport, EXPORT_FORMAT, GraphExport,
    RunFit,
};
pub use durable::history::{Checkpoint, History, HistoryPage};
pub use durable::migrate::Migrations;
pub use durable::outcome::OutcomeOf;
pub use durable::patch::{JsonPatch, PatchError, PatchOperation};
pub use durable::preview::{EffectPreview, PREVIEW_MAX, RewindPreview, RewindTo, UndoPreview, WaitPreview};
pub use engine::STEPS_PER_POLL_MAX;
pub use error::{
    CheckpointError, Compensation, During, EffectError, FanOutTimeout, GraceEnd, MergeError, MismatchError, NodeError,
    PanicError, ResumeError, RouterError, RunError, RunFault, StartError, UnknownEffect,
};
pub use run::future::RunFuture;
pub use run::options::{MAX_ITERATIONS_DEFAULT, MAX_VISITS_DEFAULT, RunOptions};
pub use run::resume::Resume;
pub use run::stream::{RunStream, RunUpdate, STREAM_CAPACITY};
pub use token::{BranchPath, WaitView};
pub use worker::{
    RunEnd, RunningWorker, StuckRun, UNSERVED_AFTER_DEFAULT, UnservedRuns, UnservedVersion, WORKER_LIMIT_DEFAULT, Worker,
    WorkerEvent, WorkerMessage,
};
