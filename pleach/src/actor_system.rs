//! [`ActorSystem`]: a [`System`] on the current Tokio runtime, or on any other.

use crate::Error;
#[cfg(feature = "tokio")]
use crate::runtime::TokioRuntime;
use pleach_core::{
    EscalationSink, Event, EventKinds, FailureInfo, GaveUp, MountError, Mounted, RootContext, Runtime, Scope,
    SupervisorStrategy, System, SystemBuilder,
};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

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
        ActorSystemBuilder { name: name.into(), runtime: None, settings: Vec::new() }
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

/// Options of a system before it starts; from [`ActorSystem::builder`].
#[must_use = "`build` starts the system"]
pub struct ActorSystemBuilder {
    name: String,
    runtime: Option<Arc<dyn Runtime>>,
    settings: Vec<Setting>,
}

/// A change to the inner builder, which needs the runtime and so is made last.
type Setting = Box<dyn FnOnce(SystemBuilder) -> SystemBuilder>;

impl ActorSystemBuilder {
    /// Sets the runtime. Default: the current Tokio runtime.
    pub fn runtime(mut self, runtime: Arc<dyn Runtime>) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Sets how long a `stopped` hook may take after a cancel. Default: 5 s.
    pub fn grace(self, grace: Duration) -> Self {
        self.set(move |builder| builder.grace(grace))
    }

    /// Sets how long a handler may take for one message before a lint reports it. Default: 1 s.
    pub fn long_handler(self, threshold: Duration) -> Self {
        self.set(move |builder| builder.long_handler(threshold))
    }

    /// Sets the strategy for parents without one of their own. See [`SystemBuilder::strategy`].
    pub fn strategy(self, strategy: impl SupervisorStrategy) -> Self {
        self.set(move |builder| builder.strategy(strategy))
    }

    /// Sets the sink for supervisors that neither have nor inherit one. See
    /// [`SystemBuilder::escalate_to`].
    pub fn escalate_to(self, sink: impl EscalationSink) -> Self {
        self.set(move |builder| builder.escalate_to(sink))
    }

    /// Sets the sink for failures that reach the root. See [`SystemBuilder::root_sink`].
    pub fn root_sink(self, sink: impl EscalationSink) -> Self {
        self.set(move |builder| builder.root_sink(sink))
    }

    /// Adds a listener for every event from the first on. See [`RootContext::on_event`].
    pub fn on_event(self, listener: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.set(move |builder| builder.on_event(listener))
    }

    /// Sets the handler of failures that reach the root unhandled. It may begin a shutdown. See
    /// [`SystemBuilder::on_root_failure`].
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
    pub fn on_root_failure(self, handler: impl Fn(&FailureInfo, &RootContext) + Send + Sync + 'static) -> Self {
        self.set(move |builder| builder.on_root_failure(handler))
    }

    fn set(mut self, setting: impl FnOnce(SystemBuilder) -> SystemBuilder + 'static) -> Self {
        self.settings.push(Box::new(setting));
        self
    }

    /// Starts the system. It logs each supervisor that gives up and each unhandled failure as an
    /// error, with `tracing`.
    ///
    /// # Errors
    /// [`Error::NoRuntime`] without a runtime, [`Error::Refused`] for an invalid name.
    pub fn build(self) -> Result<ActorSystem, Error> {
        let runtime = match self.runtime {
            Some(runtime) => runtime,
            None => default_runtime()?,
        };
        let builder = System::builder(&self.name, runtime);
        let system = self.settings.into_iter().fold(builder, |builder, set| set(builder)).build()?;
        system.hub().listen_to(EventKinds::UNHANDLED | EventKinds::GAVE_UP, log_permanent_stop);
        Ok(ActorSystem(system))
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
