//! `SupervisorStrategy`: what a failure means, and the strategies that come along.

use crate::events::failure::FailureInfo;
use crate::supervise::backoff::ExponentialBackoff;
use crate::supervise::decide::{Reach, RestartBudget, Restarts, SupervisorDirective};
use crate::tree::any_ref::AnyRef;
use crate::tree::supervision::escalate::EscalationSink;
use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

/// What a supervisor does about failures of its children. A closure is one: `|failure: &FailureInfo| SupervisorDirective::Stop`.
///
/// Every method is called under no lock, in the task of the child concerned, and possibly of several children at once. A panic in one
/// is a failure on record; in `decide` or `restarts` it counts as [`Escalate`](SupervisorDirective::Escalate).
pub trait SupervisorStrategy: Send + Sync + 'static {
    /// What to do about this failure.
    fn decide(&self, failure: &FailureInfo) -> SupervisorDirective;

    /// How it restarts: which children, how often, how soon. Unless given: the one that failed, three times in five seconds, at once.
    fn restarts(&self) -> Restarts {
        Restarts::default()
    }

    /// Runs before a child starts for the first time.
    fn before_start(&self, child: &AnyRef) {
        let _ = child;
    }

    /// Runs after a child has started again, before its next message.
    fn after_restart(&self, child: &AnyRef) {
        let _ = child;
    }

    /// Where this supervisor's escalations go, in place of the sink it inherits.
    fn escalation_target(&self) -> Option<Arc<dyn EscalationSink>> {
        None
    }
}

impl<F> SupervisorStrategy for F
where
    F: Fn(&FailureInfo) -> SupervisorDirective + Send + Sync + 'static,
{
    fn decide(&self, failure: &FailureInfo) -> SupervisorDirective {
        self(failure)
    }
}

/// Restarts the child that failed and leaves its siblings alone.
pub type OneForOne = RestartStrategy<One>;
/// Restarts all children when one fails: they are stopped in reverse start order and started again in start order.
pub type OneForAll = RestartStrategy<All>;
/// Restarts the child that failed and those started after it: stopped in reverse start order, started again in start order.
pub type RestForOne = RestartStrategy<Rest>;

/// A strategy that restarts. Written as [`OneForOne`], [`OneForAll`] or [`RestForOne`].
///
/// More than `restarts` failures within any `window` exceed the intensity: the supervisor stops its children and hands the failure up.
pub struct RestartStrategy<R> {
    decider: Decider,
    restarts: Restarts,
    target: Option<Arc<dyn EscalationSink>>,
    reaching: PhantomData<fn() -> R>,
}

/// Which children a [`RestartStrategy`] reaches: [`One`], [`All`], [`Rest`].
pub trait Reaching: 'static {
    /// The value for the type.
    const REACH: Reach;
}

/// The one that failed.
#[derive(Clone, Copy, Debug)]
pub enum One {}
/// All of them.
#[derive(Clone, Copy, Debug)]
pub enum All {}
/// The one that failed and those started after it.
#[derive(Clone, Copy, Debug)]
pub enum Rest {}

impl Reaching for One {
    const REACH: Reach = Reach::One;
}

impl Reaching for All {
    const REACH: Reach = Reach::All;
}

impl Reaching for Rest {
    const REACH: Reach = Reach::Rest;
}

#[derive(Clone)]
enum Decider {
    Always(SupervisorDirective),
    By(Arc<dyn Fn(&FailureInfo) -> SupervisorDirective + Send + Sync>),
}

impl<R: Reaching> RestartStrategy<R> {
    /// Restarts, three times in five seconds.
    pub fn new() -> Self {
        let restarts = Restarts { reach: R::REACH, ..Restarts::default() };
        Self { decider: Decider::Always(SupervisorDirective::Restart), restarts, target: None, reaching: PhantomData }
    }

    /// Allows this many restarts within any `window`. Zero restarts means that the first failure is one too many; more than
    /// [`INTENSITY_MAX`](crate::supervise::decide::INTENSITY_MAX) that there is no limit.
    #[must_use]
    pub fn intensity(mut self, restarts: u32, window: Duration) -> Self {
        self.restarts.restarts_max = restarts;
        self.restarts.window = window;
        self
    }

    /// Says whose restarts count towards the intensity: [`RestartBudget::Shared`] unless given.
    #[must_use]
    pub fn budget(mut self, budget: RestartBudget) -> Self {
        self.restarts.budget = budget;
        self
    }

    /// Waits before each restart.
    #[must_use]
    pub fn backoff(mut self, backoff: ExponentialBackoff) -> Self {
        self.restarts.backoff = Some(backoff);
        self
    }

    /// Orders `directive` for every failure in place of a restart.
    #[must_use]
    pub fn always(mut self, directive: SupervisorDirective) -> Self {
        self.decider = Decider::Always(directive);
        self
    }

    /// Asks `decide` about every failure in place of always restarting.
    #[must_use]
    pub fn deciding(mut self, decide: impl Fn(&FailureInfo) -> SupervisorDirective + Send + Sync + 'static) -> Self {
        self.decider = Decider::By(Arc::new(decide));
        self
    }

    /// Gives escalations to `sink`, in place of the one this supervisor inherits.
    #[must_use]
    pub fn escalate_to(mut self, sink: impl EscalationSink) -> Self {
        self.target = Some(Arc::new(sink));
        self
    }
}

impl<R: Reaching> SupervisorStrategy for RestartStrategy<R> {
    fn decide(&self, failure: &FailureInfo) -> SupervisorDirective {
        match &self.decider {
            Decider::Always(directive) => *directive,
            Decider::By(decide) => decide(failure),
        }
    }

    fn restarts(&self) -> Restarts {
        self.restarts
    }

    fn escalation_target(&self) -> Option<Arc<dyn EscalationSink>> {
        self.target.clone()
    }
}

impl<R: Reaching> Default for RestartStrategy<R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R> Clone for RestartStrategy<R> {
    fn clone(&self) -> Self {
        let Self { decider, restarts, target, reaching } = self;
        Self { decider: decider.clone(), restarts: *restarts, target: target.clone(), reaching: *reaching }
    }
}

impl<R> fmt::Debug for RestartStrategy<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let always = match &self.decider {
            Decider::Always(directive) => Some(directive),
            Decider::By(_) => None,
        };
        f.debug_struct("RestartStrategy").field("always", &always).field("restarts", &self.restarts).finish_non_exhaustive()
    }
}

/// Restarts the child that failed, at once and without any limit. A child that fails as soon as it starts keeps a core busy for good:
/// [`ExponentialBackoff`] is the kinder choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlwaysRestart;

impl SupervisorStrategy for AlwaysRestart {
    fn decide(&self, _failure: &FailureInfo) -> SupervisorDirective {
        SupervisorDirective::Restart
    }

    fn restarts(&self) -> Restarts {
        Restarts { restarts_max: u32::MAX, window: Duration::ZERO, ..Restarts::default() }
    }
}

impl SupervisorStrategy for ExponentialBackoff {
    fn decide(&self, _failure: &FailureInfo) -> SupervisorDirective {
        SupervisorDirective::Restart
    }

    fn restarts(&self) -> Restarts {
        Restarts { restarts_max: u32::MAX, window: Duration::ZERO, backoff: Some(*self), ..Restarts::default() }
    }
}
