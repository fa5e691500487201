//! Supervised actors, structured scopes and tasks in one tree: cancellation goes down it, failures come up it.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod actor_system;
mod error;
pub mod sim;
#[cfg(feature = "tokio")]
mod tokio_runtime;

pub use actor_system::{ActorSystem, ActorSystemBuilder};
pub use error::Error;
pub use pleach_core::*;
#[cfg(feature = "tokio")]
pub use tokio_runtime::{NoRuntime, TokioRuntime};

/// A token with nothing above it, on the Tokio runtime this code runs in.
#[cfg(feature = "tokio")]
pub fn token() -> Result<CancelToken, NoRuntime> {
    Ok(CancelToken::root(TokioRuntime::current()?))
}

/// A scope that stands alone, with no system, on the Tokio runtime this code runs in.
#[cfg(feature = "tokio")]
pub fn scope() -> Result<Scope, NoRuntime> {
    Ok(Scope::under(&token()?))
}

/// What most programs need: `use pleach::prelude::*;`.
pub mod prelude {
    pub use crate::{
        Actor, ActorPath, ActorRef, ActorSystem, AskError, CancelToken, Cause, Context, Counts, Event, Exit, FailureInfo,
        Mailbox, OneForOne, Priority, PriorityEnvelope, Props, Reply, RootContext, Scope, SendError, Signal, Supervisor,
        SupervisorDirective, SystemMessage, Terminated,
    };
    pub use std::time::Duration;
}
