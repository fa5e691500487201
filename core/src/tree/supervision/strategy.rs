//! [`SupervisorStrategy`] and the built-in strategies.

use crate::base::sync::{Arc, unsize};
use crate::events::failure::FailureInfo;
use crate::supervise::backoff::ExponentialBackoff;
use crate::supervise::decide::{Reach, RestartLimitScope, RestartRules, SupervisorDirective};
use crate::tree::any_ref::AnyRef;
use crate::tree::supervision::sink::EscalationSink;
use core::fmt;
use core::time::Duration;

/// Decides what a supervisor does about failures of its children.
///
/// A closure is a strategy: `|failure: &FailureInfo| SupervisorDirective::Stop`. Built-in
/// strategies: [`OneForOne`], [`OneForAll`], [`RestForOne`], [`AlwaysRestart`] and
/// [`ExponentialBackoff`].
///
/// Every method is called outside of locks, in the task of the child, and possibly for several
/// children at once. A panic in a method is reported as a failure. In `decide` or `restarts` it
/// also counts as [`Escalate`](SupervisorDirective::Escalate).
///
/// # Examples
///
/// ```
/// use pleach::prelude::*;
/// use pleach::FailureInfo;
/// use pleach::runtime::Dispatcher;
/// use pleach::system::System;
///
/// let sim = Dispatcher::seeded(1);
/// let system = System::builder("shop", sim.runtime()).build().unwrap();
/// let stop = |_: &FailureInfo| SupervisorDirective::Stop;
/// let supervisor = system.supervisor("tills", stop).unwrap();
/// let props = Props::from_fn(|| (), |_, _: u32| Err::<(), _>("out of change"));
/// let till = supervisor.spawn("till", props).unwrap();
/// till.tell(1).unwrap();
/// let exit = sim.simulate(till.exited()).unwrap();
/// assert!(exit.failure().is_some());
/// ```
pub trait SupervisorStrategy: Send + Sync + 'static {
    /// Chooses the directive for this failure.
    fn decide(&self, failure: &FailureInfo) -> SupervisorDirective;

    /// Returns the restart rules. Default: the failed child only, at most 3 times within 5 s, at
    /// once.
    fn restarts(&self) -> RestartRules {
        RestartRules::default()
    }

    /// Called before a child starts for the first time. Default: does nothing.
    fn before_start(&self, child: &AnyRef) {
        let _ = child;
    }

    /// Called after a child has restarted, before its next message. Default: does nothing.
    fn after_restart(&self, child: &AnyRef) {
        let _ = child;
    }

    /// Returns the sink for this supervisor's escalations. Default: `None`, which means the
    /// inherited sink.
    fn escalation_target(&self) -> Option<Arc<dyn EscalationSink>> {
        None
    }

    /// Returns what observers show of this strategy. Default: the name of its type, and that it may
    /// decide differently for each failure.
    fn info(&self) -> StrategyInfo {
        StrategyInfo::new(core::any::type_name::<Self>())
    }
}

/// What observers show of a [`SupervisorStrategy`]: in events and in the inspection protocol.
///
/// # Examples
///
/// ```
/// use pleach::supervise::{OneForAll, SupervisorDirective, SupervisorStrategy};
///
/// let info = OneForAll::new().info();
/// assert_eq!((info.name, info.always), ("one_for_all", Some(SupervisorDirective::Restart)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StrategyInfo {
    /// A short name. The strategies of this crate are called `one_for_one`, `one_for_all`,
    /// `rest_for_one`, `always_restart`, `exponential_backoff` and, for closures, `closure`.
    pub name: &'static str,
    /// The directive for every failure. `None` if it depends on the failure.
    pub always: Option<SupervisorDirective>,
}

impl StrategyInfo {
    /// Describes a strategy that may decide differently for each failure.
    pub const fn new(name: &'static str) -> Self {
        Self { name, always: None }
    }

    /// Describes a strategy that uses `directive` for every failure.
    pub const fn always(name: &'static str, directive: SupervisorDirective) -> Self {
        Self { name, always: Some(directive) }
    }
}

impl<F> SupervisorStrategy for F
where
    F: Fn(&FailureInfo) -> SupervisorDirective + Send + Sync + 'static,
{
    fn decide(&self, failure: &FailureInfo) -> SupervisorDirective {
        self(failure)
    }

    fn info(&self) -> StrategyInfo {
        StrategyInfo::new("closure")
    }
}

/// Declares a strategy that restarts children. The three differ only in which children they
/// restart.
macro_rules! restart_strategy {
    ($(#[$doc:meta])* $name:ident, $word:literal, $reach:expr) => {
        $(#[$doc])*
        ///
        /// If the restart limit is exceeded (by default more than 3 restarts within 5 s), the
        /// supervisor stops its children and the failure escalates.
        #[derive(Clone)]
        pub struct $name(StrategyOptions);

        impl $name {
            /// Creates a strategy that restarts at once, at most 3 times within 5 s.
            pub fn new() -> Self {
                Self(StrategyOptions::new($reach))
            }

            /// Sets the restart limit: at most `restarts` within any `window`. Default: 3 within 5
            /// s.
            ///
            /// With 0 the first failure exceeds the limit. More than
            /// [`RESTART_LIMIT_MAX`](crate::RESTART_LIMIT_MAX) means no limit.
            #[must_use]
            pub fn restart_limit(mut self, restarts: u32, window: Duration) -> Self {
                self.0.rules.restarts_max = restarts;
                self.0.rules.window = window;
                self
            }

            /// Sets whose restarts count together. Default: [`RestartLimitScope::Shared`].
            #[must_use]
            pub fn limit_scope(mut self, limit_scope: RestartLimitScope) -> Self {
                self.0.rules.limit_scope = limit_scope;
                self
            }

            /// Sets a wait before each restart. Default: none.
            #[must_use]
            pub fn backoff(mut self, backoff: ExponentialBackoff) -> Self {
                self.0.rules.backoff = Some(backoff);
                self
            }

            /// Uses `directive` for every failure instead of a restart.
            #[must_use]
            pub fn always(mut self, directive: SupervisorDirective) -> Self {
                self.0.decider = Decider::Always(directive);
                self
            }

            /// Calls `decide` for every failure instead of always restarting.
            #[must_use]
            pub fn deciding(mut self, decide: impl Fn(&FailureInfo) -> SupervisorDirective + Send + Sync + 'static) -> Self {
                self.0.decider = Decider::By(unsize!(Arc::new(decide) => dyn Fn(&FailureInfo) -> SupervisorDirective + Send + Sync));
                self
            }

            /// Sends escalations to `sink` instead of the inherited sink.
            #[must_use]
            pub fn escalate_to(mut self, sink: impl EscalationSink) -> Self {
                self.0.sink = Some(unsize!(Arc::new(sink) => dyn EscalationSink));
                self
            }
        }

        impl SupervisorStrategy for $name {
            fn decide(&self, failure: &FailureInfo) -> SupervisorDirective {
                self.0.decide(failure)
            }

            fn restarts(&self) -> RestartRules {
                self.0.rules
            }

            fn escalation_target(&self) -> Option<Arc<dyn EscalationSink>> {
                self.0.sink.clone()
            }

            fn info(&self) -> StrategyInfo {
                StrategyInfo { name: $word, always: self.0.always() }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write(f, stringify!($name))
            }
        }
    };
}

restart_strategy! {
    /// Restarts the failed child; its siblings are not affected.
    ///
    /// # Examples
    ///
    /// ```
    /// use pleach::supervise::{ExponentialBackoff, OneForOne};
    /// use std::time::Duration;
    ///
    /// let strategy = OneForOne::new()
    ///     .restart_limit(10, Duration::from_secs(60))
    ///     .backoff(ExponentialBackoff::new(Duration::from_millis(100), Duration::from_secs(5)));
    /// # drop(strategy);
    /// ```
    OneForOne, "one_for_one", Reach::One
}

restart_strategy! {
    /// Restarts all children when one fails: they stop in reverse start order and start again in
    /// start order.
    ///
    /// # Examples
    ///
    /// ```
    /// use pleach::prelude::*;
    /// use pleach::runtime::Dispatcher;
    /// use pleach::system::System;
    ///
    /// let sim = Dispatcher::seeded(1);
    /// let system = System::builder("shop", sim.runtime()).build().unwrap();
    /// let pair = system.supervisor("pair", OneForAll::new()).unwrap();
    /// let counter = || {
    ///     Props::from_fn(|| 0, |sum: &mut u32, n: u32| {
    ///         *sum += n;
    ///         if n > 0 { Ok(()) } else { Err("zero") }
    ///     })
    /// };
    /// let first = pair.spawn("first", counter()).unwrap();
    /// let second = pair.spawn("second", counter()).unwrap();
    /// first.tell(0).unwrap();
    /// sim.drain_ready();
    /// // Both were restarted, and both are alive.
    /// assert!(first.exit().is_none() && second.exit().is_none());
    /// ```
    OneForAll, "one_for_all", Reach::All
}

restart_strategy! {
    /// Restarts the failed child and all children that were started after it: they stop in reverse
    /// start order and start again in start order.
    ///
    /// # Examples
    ///
    /// ```
    /// use pleach::supervise::RestForOne;
    ///
    /// // "writer" depends on "connection": a failure of "connection" restarts both.
    /// // supervisor.spawn("connection", ..), then supervisor.spawn("writer", ..)
    /// let strategy = RestForOne::new();
    /// # drop(strategy);
    /// ```
    RestForOne, "rest_for_one", Reach::Rest
}

/// The options that the three strategies have in common.
#[derive(Clone)]
struct StrategyOptions {
    decider: Decider,
    rules: RestartRules,
    sink: Option<Arc<dyn EscalationSink>>,
}

#[derive(Clone)]
enum Decider {
    Always(SupervisorDirective),
    By(Arc<dyn Fn(&FailureInfo) -> SupervisorDirective + Send + Sync>),
}

impl StrategyOptions {
    fn new(reach: Reach) -> Self {
        let rules = RestartRules { reach, ..RestartRules::default() };
        Self { decider: Decider::Always(SupervisorDirective::Restart), rules, sink: None }
    }

    fn decide(&self, failure: &FailureInfo) -> SupervisorDirective {
        match &self.decider {
            Decider::Always(directive) => *directive,
            Decider::By(decide) => decide(failure),
        }
    }

    fn always(&self) -> Option<SupervisorDirective> {
        match &self.decider {
            Decider::Always(directive) => Some(*directive),
            Decider::By(_) => None,
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
        f.debug_struct(name).field("always", &self.always()).field("restarts", &self.rules).finish_non_exhaustive()
    }
}

/// Restarts the failed child at once and without a limit.
///
/// A child that fails immediately after each start keeps a core busy; prefer [`ExponentialBackoff`]
/// for such children.
///
/// # Examples
///
/// ```
/// use pleach::FailureInfo;
/// use pleach::supervise::{AlwaysRestart, Reason, SupervisorDirective, SupervisorStrategy};
///
/// let failure = FailureInfo::of("/user/till".parse().unwrap(), Reason::Error("no change".into()));
/// assert_eq!(AlwaysRestart.decide(&failure), SupervisorDirective::Restart);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlwaysRestart;

impl SupervisorStrategy for AlwaysRestart {
    fn decide(&self, _failure: &FailureInfo) -> SupervisorDirective {
        SupervisorDirective::Restart
    }

    fn restarts(&self) -> RestartRules {
        RestartRules { restarts_max: u32::MAX, window: Duration::ZERO, ..RestartRules::default() }
    }

    fn info(&self) -> StrategyInfo {
        StrategyInfo::always("always_restart", SupervisorDirective::Restart)
    }
}

impl SupervisorStrategy for ExponentialBackoff {
    fn decide(&self, _failure: &FailureInfo) -> SupervisorDirective {
        SupervisorDirective::Restart
    }

    fn restarts(&self) -> RestartRules {
        RestartRules { restarts_max: u32::MAX, window: Duration::ZERO, backoff: Some(*self), ..RestartRules::default() }
    }

    fn info(&self) -> StrategyInfo {
        StrategyInfo::always("exponential_backoff", SupervisorDirective::Restart)
    }
}
