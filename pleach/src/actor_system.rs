//! `ActorSystem`: a tree of actors on the current Tokio runtime, or on any other.

use crate::Error;
#[cfg(feature = "tokio")]
use crate::TokioRuntime;
use pleach_core::{Runtime, System};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// A tree of actors and scopes, and its owner: dropping it cancels everything in it, [`shutdown`](System::shutdown) is the kind way.
///
/// All that a system can do is on [`System`]; this type adds how one is made.
#[derive(Debug)]
pub struct ActorSystem(System);

impl ActorSystem {
    /// A system called `name` on the Tokio runtime this code runs in.
    #[cfg(feature = "tokio")]
    pub fn new(name: &str) -> Result<Self, Error> {
        Self::builder(name).build()
    }

    /// A system to be set up further.
    pub fn builder(name: &str) -> ActorSystemBuilder {
        ActorSystemBuilder { name: name.into(), runtime: None, grace: pleach_core::GRACE_DEFAULT }
    }
}

impl Deref for ActorSystem {
    type Target = System;

    fn deref(&self) -> &System {
        &self.0
    }
}

/// How a system is set up; from [`ActorSystem::builder`].
#[must_use = "a system is made by `build`"]
pub struct ActorSystemBuilder {
    name: String,
    runtime: Option<Arc<dyn Runtime>>,
    grace: Duration,
}

impl ActorSystemBuilder {
    /// Runs on this runtime in place of the current Tokio runtime.
    pub fn runtime(mut self, runtime: Arc<dyn Runtime>) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// How long a `stopped` hook may take. Five seconds unless given.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Makes the system.
    pub fn build(self) -> Result<ActorSystem, Error> {
        let runtime = match self.runtime {
            Some(runtime) => runtime,
            None => default_runtime()?,
        };
        Ok(ActorSystem(System::builder(&self.name, runtime).grace(self.grace).build()?))
    }
}

#[cfg(feature = "tokio")]
fn default_runtime() -> Result<Arc<dyn Runtime>, Error> {
    Ok(TokioRuntime::current()?)
}

#[cfg(not(feature = "tokio"))]
fn default_runtime() -> Result<Arc<dyn Runtime>, Error> {
    Err(Error::NoRuntime)
}
