//! `SystemBuilder`: the options of a system and their defaults.

use crate::base::runtime::Runtime;
use crate::base::sync::{Arc, unsize};
use crate::events::event::{Event, EventKinds};
use crate::events::failure::FailureInfo;
use crate::events::hub::Callback;
use crate::events::instrument::Instrument;
use crate::ids::name::{Name, NameError};
use crate::scope::member::{ScopeMember, ScopeRole};
use crate::system::System;
use crate::system::root_context::RootContext;
use crate::tree::member::Member;
use crate::tree::observed::HealthLimits;
use crate::tree::supervision::sink::EscalationSink;
use crate::tree::supervision::strategy::SupervisorStrategy;
use crate::tree::{Tree, TreeSettings};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

/// Builds a [`System`]; from [`System::builder`].
///
/// ```
/// use pleach::runtime::Dispatcher;
/// use pleach::supervise::OneForOne;
/// use pleach::system::System;
/// use std::time::Duration;
///
/// let sim = Dispatcher::seeded(1);
/// let system = System::builder("shop", sim.runtime())
///     .grace(Duration::from_secs(2))
///     .strategy(OneForOne::new().restart_limit(5, Duration::from_secs(10)))
///     .build()?;
/// assert_eq!(system.name(), "shop");
/// # Ok::<(), pleach::system::BuildError>(())
/// ```
#[must_use = "a system is created by `build`"]
pub struct SystemBuilder<S: BuildSystem = System> {
    name: String,
    runtime: Option<Arc<dyn Runtime>>,
    settings: TreeSettings,
    root_sink: Option<Arc<dyn EscalationSink>>,
    on_root_failure: Option<SetRootHandler>,
    listeners: Vec<Callback>,
    parts: Vec<Part<S>>,
    built: PhantomData<fn() -> S>,
}

/// A type that a [`SystemBuilder`] can build: [`System`], or a wrapper of it.
pub trait BuildSystem: Sized {
    /// The error of [`SystemBuilder::build`] for this type.
    type Error: From<BuildError>;

    /// Returns the runtime of a builder that was given none.
    ///
    /// # Errors
    /// Whatever this type reports if it finds no runtime.
    fn default_runtime() -> Result<Arc<dyn Runtime>, Self::Error>;

    /// Wraps the system once it has been built.
    fn from_system(system: System) -> Self;
}

impl BuildSystem for System {
    type Error = BuildError;

    fn default_runtime() -> Result<Arc<dyn Runtime>, BuildError> {
        Err(BuildError::NoRuntime)
    }

    fn from_system(system: System) -> Self {
        system
    }
}

/// Why a system was not built by its builder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The name is not a valid path segment.
    Name(NameError),
    /// The builder was given no runtime and found none.
    NoRuntime,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => write!(f, "cannot build the system: {error}"),
            Self::NoRuntime => f.write_str("cannot build the system: no runtime was set; call `runtime` on its builder"),
        }
    }
}

impl core::error::Error for BuildError {}

impl From<NameError> for BuildError {
    fn from(error: NameError) -> Self {
        Self::Name(error)
    }
}

/// Adds a part of the program to a system that was just built.
type Part<S> = Box<dyn FnOnce(&System) -> Result<(), <S as BuildSystem>::Error> + Send + Sync>;

/// Installs the root handler once the root exists.
type SetRootHandler = Box<dyn FnOnce(&RootContext) + Send + Sync>;

impl<S: BuildSystem> SystemBuilder<S> {
    /// Starts a builder of a system called `name`, with the default runtime of `S`.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_string(),
            runtime: None,
            settings: TreeSettings::default(),
            root_sink: None,
            on_root_failure: None,
            listeners: Vec::new(),
            parts: Vec::new(),
            built: PhantomData,
        }
    }

    /// Sets the runtime. Default: the one that the built type finds, such as the current Tokio
    /// runtime.
    pub fn runtime(mut self, runtime: Arc<dyn Runtime>) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Sets how long a `restarting` or `stopped` hook may take. Default: 5 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// Sets how long a handler may process one message before
    /// [`Lint::LongHandler`](crate::Lint::LongHandler) is reported. Default: 1 s.
    pub fn long_handler(mut self, threshold: Duration) -> Self {
        self.settings.long_handler = threshold;
        self
    }

    /// Sets from when on a full mailbox or a long handler is a problem in
    /// [`health`](crate::System::health). Default: 10 s and 30 s.
    pub fn health_limits(mut self, limits: HealthLimits) -> Self {
        self.settings.health_limits = limits;
        self
    }

    /// Sets code that runs around the messages of [instrumented](crate::Props::instrumented)
    /// actors, for spans and timing. Default: none.
    pub fn instrument(mut self, instrument: impl Instrument) -> Self {
        self.settings.instrument = Some(unsize!(Arc::new(instrument) => dyn Instrument));
        self
    }

    /// Instruments all actors of the system, as if each had
    /// [`Props::instrumented`](crate::Props::instrumented). Default: only actors that ask for it.
    pub fn instrument_all(mut self) -> Self {
        self.settings.instruments_all = true;
        self
    }

    /// Sets the strategy for members without their own, including `/user` and `/system`.
    ///
    /// Default: one-for-one restart, at most three restarts in five seconds.
    pub fn strategy(mut self, strategy: impl SupervisorStrategy) -> Self {
        self.settings.strategy = Some(unsize!(Arc::new(strategy) => dyn SupervisorStrategy));
        self
    }

    /// Sets the sink for failures of supervisors without an own or inherited sink. Default: the
    /// parent decides.
    pub fn escalate_to(mut self, sink: impl EscalationSink) -> Self {
        self.settings.sink = Some(unsize!(Arc::new(sink) => dyn EscalationSink));
        self
    }

    /// Sets the sink for failures that reach the root, before the root handler.
    ///
    /// If it refuses a failure or panics, the failure goes to the root handler, or is kept for
    /// [`take_escalations`](System::take_escalations). Default: none.
    pub fn root_sink(mut self, sink: impl EscalationSink) -> Self {
        self.root_sink = Some(unsize!(Arc::new(sink) => dyn EscalationSink));
        self
    }

    /// Adds a listener for every event from the first one on; see [`RootContext::on_event`]. May be
    /// called several times.
    pub fn on_event(mut self, listener: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.listeners.push(unsize!(Arc::new(listener) => dyn Fn(&Event) + Send + Sync));
        self
    }

    /// Sets the handler for failures that reach the root unhandled. Default: none.
    ///
    /// It runs in the task where the failure arrives and must return quickly. It may begin a
    /// shutdown ([`RootContext::begin_shutdown`], [`RootContext::cancel`]). A failure passed to it
    /// counts as handled and is not kept for [`take_escalations`](System::take_escalations), unless
    /// the handler panics, which is reported as a failure.
    pub fn on_root_failure(mut self, handler: impl Fn(&FailureInfo, &RootContext) + Send + Sync + 'static) -> Self {
        self.on_root_failure = Some(Box::new(move |root| root.set_on_root_failure(handler)));
        self
    }

    /// Adds a part that is started with the system, such as a server below `/system`. May be called
    /// several times; parts start in this order.
    ///
    /// If `start` returns an error, the system is cancelled and [`build`](Self::build) returns the
    /// error.
    pub fn with_part(mut self, start: impl FnOnce(&System) -> Result<(), S::Error> + Send + Sync + 'static) -> Self {
        self.parts.push(Box::new(start));
        self
    }

    /// Builds the system.
    ///
    /// # Errors
    /// [`BuildError`], or what the built type makes of it: the name is not a valid path segment, or
    /// no runtime was found. An error of a [part](Self::with_part).
    pub fn build(self) -> Result<S, S::Error> {
        Name::new(&self.name).map_err(BuildError::from)?;
        let runtime = self.runtime.map_or_else(S::default_runtime, Ok)?;
        let tree = Tree::with_settings(runtime, self.settings);
        for listener in self.listeners {
            tree.events.listen(EventKinds::ALL, listener);
        }
        let root = ScopeMember::top(&tree);
        let top: Arc<dyn Member> = unsize!(Arc::clone(&root) => dyn Member);
        let below = |name| ScopeMember::below(&top, Some(name), ScopeRole::Top);
        // `/system` is started first and so ends last. A new root refuses neither of them.
        let guardians = below("system").and_then(|system| Ok((system, below("user")?)));
        let (system, user) = guardians.expect("a new root accepts two children with different names");
        if let Some(sink) = self.root_sink {
            tree.unhandled.set_sink(sink);
        }
        if let Some(set_handler) = self.on_root_failure {
            set_handler(&RootContext::new(Arc::clone(&root), Arc::clone(&user)));
        }
        let built = System { name: self.name, root, user, system };
        // An error drops the system, which cancels it.
        self.parts.into_iter().try_for_each(|start| start(&built))?;
        Ok(S::from_system(built))
    }
}
