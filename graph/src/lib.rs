//! State graphs: steps over a state of your own type, checked once when compiled, run step by step in the task that awaits them.
//!
//! [`Graph`] is where one is written down, [`CompiledGraph`] what was proved sound, [`RunOptions`] a run of it. Applications add
//! `pleach`, which has all of this under its roof.
//!
//! ```
//! use pleach::{END, Graph};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let graph = Graph::<u32>::new("halving")
//!     .add_node("halve", |n: u32| async move { if n == 0 { Err("nothing to halve") } else { Ok(n / 2) } })
//!     .add_conditional_edge("halve", ["halve", END], |n: &u32| if *n > 1 { "halve" } else { END })
//!     .set_entry("halve")
//!     .compile()?;
//!
//! assert_eq!(pleach::block_on(async { graph.run(40).await })?, 1);
//! # Ok(())
//! # }
//! ```
//!
//! Read in this order: `builder`, `compile` (with `shape`), `engine::step` (one step of a run), `engine::forks`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod builder;
mod checkpoint_error;
mod compile;
mod compiled;
mod context;
mod control;
mod counted;
mod drive;
mod driven;
mod effect;
mod effect_error;
mod engine;
mod error;
mod error_text;
mod events;
mod fan_out;
mod fault;
mod history;
mod inspect;
mod journal;
mod letters;
mod migrate;
mod node;
mod outcome;
mod plan;
mod policy;
mod reopen;
mod resume;
mod run;
mod runtime;
mod shape;
mod shared;
pub mod store;
mod stored_run;
mod stream;
mod token;
mod wait;
pub mod worker;

pub use builder::Graph;
pub use checkpoint_error::{CheckpointError, MismatchError};
pub use compiled::CompiledGraph;
pub use context::NodeContext;
pub use control::{RunMessage, RunRef, RunRemote, RunView, TellError, TokenView, WaitView};
pub use effect::Effect;
pub use effect_error::{EffectError, UnknownEffect};
pub use engine::STEPS_PER_POLL_MAX;
pub use error::{
    Compensation, During, FanOutTimeout, GraceEnd, MergeError, NodeError, PanicError, RouterError, RunError, RunFault,
    StartError,
};
pub use events::{Emission, Hooks, RunEvent, Visit};
pub use fan_out::FanOut;
pub use fault::{CompileError, GraphFault, NamedBy};
pub use history::{Checkpoint, History, HistoryPage};
pub use inspect::{Inspection, LeadsTo, NodeInfo};
pub use migrate::Migrations;
pub use node::{IntoNode, IntoRouter};
pub use outcome::OutcomeOf;
pub use policy::{FailedAttempt, Policy, Retry};
pub use resume::{Resume, ResumeError};
pub use run::{MAX_ITERATIONS_DEFAULT, MAX_VISITS_DEFAULT, RunFuture, RunOptions};
pub use shape::END;
pub use stream::{RunStream, RunUpdate, STREAM_CAPACITY};
pub use token::BranchPath;
pub use worker::{RunEnd, RunningWorker, WORKER_LIMIT_DEFAULT, Worker, WorkerEvent, WorkerMessage};
