//! [`ActorSystem`]: a [`System`] on the current Tokio runtime, or on any other.

use crate::Error;
#[cfg(feature = "tokio")]
use crate::runtime::TokioRuntime;
use crate::telemetry::SystemLog;
use pleach_core::{BuildSystem, MountError, Mounted, Runtime, Scope, System, SystemBuilder};
use std::ops::Deref;
use std::sync::Arc;

/// Owns a tree of actors and scopes.
///
/// Dropping it cancels everything in it; [`shutdown`](System::shutdown) lets actors handle queued
/// messages first. It derefs to [`System`], which has all other methods.
///
/// What an operator must know is logged through `tracing`, without any set-up: restarts,
/// supervisors that give up, full mailboxes, long handlers, dead letters. `docs/telemetry.md` lists
/// the targets.
///
/// ```
/// use pleach::prelude::*;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), pleach::Error> {
/// let system = ActorSystem::new("shop")?;
/// let props = Props::from_fn(|| 0, |sum: &mut u32, n: u32| {
///     *sum += n;
///     Ok::<(), pleach::BoxError>(())
/// });
/// let till = system.spawn("till", props)?; // its path is /user/till
/// till.tell(5)?;
/// system.shutdown(Duration::from_secs(5)).await?; // the message is handled first
/// assert_eq!(system.counts().handled, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ActorSystem {
    system: System,
    log: Arc<SystemLog>,
}

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

    /// Asks the `tracing` subscriber again which lines it wants.
    ///
    /// Starts and ends (`DEBUG`), the time of handlers and dead letters (`WARN`) cost a program
    /// something only while a subscriber wants these lines. A system asks when it is built and
    /// whenever it writes another line. Call this after you have changed the level at run time, or
    /// installed the subscriber after the system was built.
    pub fn refresh_log_levels(&self) {
        self.log.refresh();
    }

    /// Makes this system a child of a scope of another system. See [`System::mount`].
    pub fn mount(self, scope: &Scope) -> Result<Mounted, MountError> {
        self.system.mount(scope)
    }
}

impl Deref for ActorSystem {
    type Target = System;

    fn deref(&self) -> &System {
        &self.system
    }
}

/// Builds an [`ActorSystem`]; from [`ActorSystem::builder`].
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
        let log = SystemLog::start(&system);
        Self { system, log }
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
