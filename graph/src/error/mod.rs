//! The errors of runs.
//!
//! - [`RunError`] is the error of a run that a caller gets: a [`RunFault`], and the state if the
//!   engine still has it.
//! - [`EffectError`] fails a node whose effect or wait is not possible.
//! - [`StoredFault`] is the form in which a durable run stores its failure.
//!
//! `text` has the texts of all errors except those of `checkpoint`, `effect` and `resume`.

mod checkpoint;
mod effect;
mod fault;
mod resume;
mod run_error;
mod stored_fault;
mod text;

pub use checkpoint::{CheckpointError, MismatchError};
pub(crate) use checkpoint::{cut, fault_of};
pub use effect::{EffectError, UnknownEffect};
pub use fault::{During, FanOutTimeout, GraceEnd, MergeError, NodeError, PanicError, RouterError, RunFault, StartError};
pub use resume::ResumeError;
pub(crate) use run_error::Outcome;
pub use run_error::{Compensation, RunError};
pub(crate) use stored_fault::{StoredFault, cut_fault};
