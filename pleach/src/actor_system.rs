//! [`ActorSystem`]: a [`System`] on the current Tokio runtime, or on any other.

use crate::Error;
#[cfg(feature = "tokio")]
use crate::runtime::TokioRuntime;
use pleach_core::{BuildSystem, Event, EventKinds, GaveUp, MountError, Mounted, Runtime, Scope, System, SystemBuilder};
use std::ops::Deref;
use std::sync::Arc;

/// Owns a tree of actors and scopes.
///
/// Dropping it cancels everything in it; [`shutdown`](System::shutdown) lets actors handle queued
/// messages first. It derefs to [`System`], which has all other methods.
#[derive(Debug)]
pub struct ActorSystem(System);

impl ActorSystem {
    /// Starts a system called `name` on the current Tokio runtime.
    ///
    /// # Errors
    /// [`Error::NoRuntime`] outside of a Tokio runtime, [`Error::Refused`] for an invalid name.
    #[cfg(feature = "tokio")]
    pub fn new(name: &str) -> Result<Self, Error> {
        Self::builder(name).build()
    }

    /// Returns a builder for a system called `name`.
    pub fn builder(name: &str) -> ActorSystemBuilder {
        SystemBuilder::new(name)
    }

    /// Makes this system a child of a scope of another system. See [`System::mount`].
    pub fn mount(self, scope: &Scope) -> Result<Mounted, MountError> {
        self.0.mount(scope)
    }
}

impl Deref for ActorSystem {
    type Target = System;

    fn deref(&self) -> &System {
        &self.0
    }
}

/// Builds an [`ActorSystem`]; from [`ActorSystem::builder`].
///
/// The system logs each supervisor that gives up and each unhandled failure as an error, with
/// `tracing`.
///
/// ```
/// use pleach::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), pleach::Error> {
/// let system = ActorSystem::builder("shop")
///     .strategy(|_: &FailureInfo| SupervisorDirective::Escalate)
///     .on_root_failure(|_failure, root| root.begin_shutdown())
///     .build()?;
/// let counter = system.spawn("counter", Props::from_fn(|| (), |_, (): ()| Err("out of range")))?;
/// counter.tell(())?;
/// system.ended().await?; // the failure of the counter shut everything down
/// # Ok(())
/// # }
/// ```
pub type ActorSystemBuilder = SystemBuilder<ActorSystem>;

impl BuildSystem for ActorSystem {
    type Error = Error;

    fn default_runtime() -> Result<Arc<dyn Runtime>, Error> {
        default_runtime()
    }

    fn from_system(system: System) -> Self {
        system.hub().listen_to(EventKinds::UNHANDLED | EventKinds::GAVE_UP, log_permanent_stop);
        Self(system)
    }
}

/// Logs what has stopped permanently, with the consequence.
fn log_permanent_stop(event: &Event) {
    match event {
        Event::GaveUp(gave_up) => {
            let GaveUp { supervisor, child, restarts, stopped, left, .. } = gave_up;
            tracing::error!(%supervisor, %child, restarts, stopped, left, "{gave_up}");
        }
        Event::Unhandled(failure) => {
            let (origin, path, incarnation) = (failure.origin(), failure.path(), failure.incarnation());
            let reason = failure.reason();
            tracing::error!(
                %origin, %path, incarnation, %reason,
                "{origin} failed and no supervisor handled it; it is not restarted, and the other children of {path} keep running"
            );
        }
        _ => {}
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
