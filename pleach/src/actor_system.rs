//! `ActorSystem`: a tree of actors on the current Tokio runtime, or on any other.

use crate::Error;
#[cfg(feature = "tokio")]
use crate::TokioRuntime;
use pleach_core::{
    EscalationSink, Event, EventKinds, FailureInfo, GaveUp, MountError, Mounted, RootContext, Runtime, Scope,
    SupervisorStrategy, System, SystemBuilder,
};
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
        ActorSystemBuilder { name: name.into(), runtime: None, settings: Vec::new() }
    }

    /// Makes this system a child of a scope of another one. See [`System::mount`].
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

/// How a system is set up; from [`ActorSystem::builder`].
#[must_use = "a system is made by `build`"]
pub struct ActorSystemBuilder {
    name: String,
    runtime: Option<Arc<dyn Runtime>>,
    settings: Vec<Setting>,
}

/// Something to be done to core's builder, which needs the runtime and so is made last.
type Setting = Box<dyn FnOnce(SystemBuilder) -> SystemBuilder>;

impl ActorSystemBuilder {
    /// Runs on this runtime in place of the current Tokio runtime.
    pub fn runtime(mut self, runtime: Arc<dyn Runtime>) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// How long a `stopped` hook may take. Five seconds unless given.
    pub fn grace(self, grace: Duration) -> Self {
        self.set(move |builder| builder.grace(grace))
    }

    /// How long a handler may be at one message before a lint tells of it. A second unless given.
    pub fn long_handler(self, threshold: Duration) -> Self {
        self.set(move |builder| builder.long_handler(threshold))
    }

    /// Supervises the children of everything that has no strategy of its own. See [`SystemBuilder::strategy`].
    pub fn strategy(self, strategy: impl SupervisorStrategy) -> Self {
        self.set(move |builder| builder.strategy(strategy))
    }

    /// Takes what supervisors hand up that neither have nor inherit a sink. See [`SystemBuilder::escalate_to`].
    pub fn escalate_to(self, sink: impl EscalationSink) -> Self {
        self.set(move |builder| builder.escalate_to(sink))
    }

    /// Takes every failure that came up to the root. See [`SystemBuilder::root_sink`].
    pub fn root_sink(self, sink: impl EscalationSink) -> Self {
        self.set(move |builder| builder.root_sink(sink))
    }

    /// Hears every event from the very first one on. Several may be given. See [`RootContext::on_event`].
    pub fn on_event(self, listener: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.set(move |builder| builder.on_event(listener))
    }

    /// Given every failure that came up to the root unhandled, with a handle by which it may ask for a shutdown. See
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
    /// let till = system.spawn("till", Props::from_fn(|| (), |_, (): ()| Err("no change left")))?;
    /// till.tell(())?;
    /// system.ended().await?; // the failure of the till ended everything, in an orderly way
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

    /// Makes the system. From here on a supervisor that gives up, and a failure that nobody handles, are errors in the log, by `tracing`.
    pub fn build(self) -> Result<ActorSystem, Error> {
        let runtime = match self.runtime {
            Some(runtime) => runtime,
            None => default_runtime()?,
        };
        let builder = System::builder(&self.name, runtime);
        let system = self.settings.into_iter().fold(builder, |builder, set| set(builder)).build()?;
        system.hub().listen_to(EventKinds::UNHANDLED | EventKinds::GAVE_UP, log_end_for_good);
        Ok(ActorSystem(system))
    }
}

/// Whatever ends for good is an error in the log that says what no longer runs.
fn log_end_for_good(event: &Event) {
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
                "{origin} failed and nobody above handled it; nothing starts it again, and the rest of {path} goes on"
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
