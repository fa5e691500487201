//! Supervision: what happens when an actor fails.
//!
//! An `Err` or a panic in a handler goes to the strategy of the actor's parent, which orders a
//! [`SupervisorDirective`]: resume, restart, stop or escalate. A restart makes a new state from the
//! [`Props`](crate::actor::Props); address and mailbox stay. Restarts are limited, by default to 3
//! in 5 s; the next failure is escalated.
//!
//! The failed message counts as failed. It can be [retried](crate::actor::Props::retry) or made a
//! [dead letter](crate::actor::Props::dead_letter_failed) instead.
//!
//! ```
//! use pleach::prelude::*;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), pleach::Error> {
//! # let system = ActorSystem::new("shop")?;
//! let workers = system.supervisor("workers", OneForOne::new().restart_limit(3, Duration::from_secs(5)))?;
//! let counter = workers.spawn("counter", Props::from_fn(|| 0, |sum: &mut u32, n: u32| {
//!     *sum += n;
//!     if n > 0 { Ok(()) } else { Err("zero") }
//! }))?;
//!
//! for n in [5, 0, 7] {
//!     counter.tell(n)?;
//! }
//! counter.close();
//! assert_eq!(counter.exited().await, Exit::Closed);
//! assert_eq!(counter.counts(), Counts { accepted: 3, handled: 2, failed: 1, dead_lettered: 0 });
//! # Ok(())
//! # }
//! ```

pub use pleach_core::{
    AlwaysRestart, AnnotatedError, ChildError, CompositeEscalationSink, CustomEscalationSink, ESCALATIONS_KEPT_MAX,
    EscalationSink, EscalationStage, Escalations, ExponentialBackoff, FailureInfo, Guardian, METADATA_MAX, OneForAll,
    OneForOne, ParentSink, REFUSED_KEPT_MAX, RESTART_LIMIT_DEFAULT, RESTART_LIMIT_MAX, Reach, Reason, RestForOne,
    RestartLimitScope, RestartPolicy, RestartRules, RootEscalationSink, SINK_ATTEMPTS_MAX, StrategyInfo, Supervisor,
    SupervisorDirective, SupervisorStrategy, UnexpectedExit,
};
