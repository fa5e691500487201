//! [`EscalationSink`]: the receiver of escalated failures.
//!
//! A supervisor uses its own sink (from `Props`), else the target of its strategy, else the sink of
//! its nearest ancestor, else the default of the system. Without any sink the failure becomes the
//! supervisor's own, and the strategy of its parent decides.
//!
//! A sink runs outside of locks, in the task in which the failure came up, or in the retry task
//! (see `retry`).

use crate::base::catch;
use crate::base::lock::Lock;
use crate::base::sync::{Arc, unsize};
use crate::events::failure::FailureInfo;
use crate::tree::node::Node;
use crate::tree::supervision;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// How often a failure is offered to a sink before it goes to the root as undeliverable.
pub const SINK_ATTEMPTS_MAX: u32 = 8;
/// How many refused failures wait for a retry, per system. Further ones go to the root.
pub const REFUSED_KEPT_MAX: usize = 1_024;
/// How many partly delivered failures a composite remembers.
const PARTIAL_MAX: usize = 256;

/// A receiver of escalated failures.
///
/// The failure has the id and path of the supervisor that escalated it; its origin is the member
/// that failed first.
///
/// # Examples
///
/// ```
/// use pleach::prelude::*;
/// use pleach::FailureInfo;
/// use pleach::supervise::{EscalationSink, Reason};
///
/// /// Accepts failures of one part of the tree and refuses all others.
/// struct Billing;
///
/// impl EscalationSink for Billing {
///     fn handle(&self, failure: FailureInfo) -> Result<(), FailureInfo> {
///         let is_billing = failure.origin().to_string().starts_with("/user/billing");
///         if is_billing { Ok(()) } else { Err(failure) }
///     }
/// }
///
/// let failure = |path: &str| FailureInfo::of(path.parse().unwrap(), Reason::Error("no".into()));
/// assert!(Billing.handle(failure("/user/billing/7")).is_ok());
/// assert!(Billing.handle(failure("/user/till")).is_err());
///
/// // A strategy that sends its escalations there.
/// let strategy = OneForOne::new().escalate_to(Billing);
/// # drop(strategy);
/// ```
pub trait EscalationSink: Send + Sync + 'static {
    /// Accepts the failure, or returns it in `Err` to be offered again later.
    ///
    /// Return quickly: a task of the tree waits for the result. A panic counts as a refusal.
    fn handle(&self, failure: FailureInfo) -> Result<(), FailureInfo>;

    /// Returns whether the supervisor's parent also gets the failure and decides about the
    /// supervisor. Default: false.
    ///
    /// If false, a supervisor that exceeded its restart limit stops.
    fn leads_to_parent(&self) -> bool {
        false
    }
}

/// Passes the failure to the supervisor's parent, whose strategy decides.
///
/// This is what happens without a sink. Set it explicitly to override an inherited sink, or as one
/// of several in a [`CompositeEscalationSink`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ParentSink;

impl EscalationSink for ParentSink {
    fn handle(&self, failure: FailureInfo) -> Result<(), FailureInfo> {
        let Some(supervisor) = failure.supervisor() else { return Err(failure) };
        supervision::propagate(supervisor, failure);
        Ok(())
    }

    fn leads_to_parent(&self) -> bool {
        true
    }
}

/// Passes the failure directly to the root, past all supervisors in between. There it is counted,
/// reported on the hub and passed to the root's sink and handler.
#[derive(Clone, Copy, Debug, Default)]
pub struct RootEscalationSink;

impl EscalationSink for RootEscalationSink {
    fn handle(&self, failure: FailureInfo) -> Result<(), FailureInfo> {
        let Some(supervisor) = failure.supervisor() else { return Err(failure) };
        supervisor.node().tree().handle_at_root(failure);
        Ok(())
    }
}

/// A sink that calls a closure.
#[derive(Clone, Copy, Debug)]
pub struct CustomEscalationSink<F>(F);

impl<F: Fn(FailureInfo) -> Result<(), FailureInfo> + Send + Sync + 'static> CustomEscalationSink<F> {
    /// Creates a sink from `handle`, which returns a refused failure in `Err`.
    pub fn new(handle: F) -> Self {
        Self(handle)
    }
}

impl<F: Fn(FailureInfo) -> Result<(), FailureInfo> + Send + Sync + 'static> EscalationSink for CustomEscalationSink<F> {
    fn handle(&self, failure: FailureInfo) -> Result<(), FailureInfo> {
        (self.0)(failure)
    }
}

/// Passes the failure to several sinks. A sink that refuses is retried alone; the others do not get
/// the failure twice.
pub struct CompositeEscalationSink {
    sinks: Vec<Arc<dyn EscalationSink>>,
    /// Failures that some sinks have accepted, and the indexes of the other sinks.
    partial: Lock<VecDeque<(FailureInfo, Vec<usize>)>>,
}

impl CompositeEscalationSink {
    /// Creates a composite without sinks, which accepts every failure.
    pub fn new() -> Self {
        Self { sinks: Vec::new(), partial: Lock::new(VecDeque::new()) }
    }

    /// Adds a sink to the composite.
    #[must_use]
    pub fn and(mut self, sink: impl EscalationSink) -> Self {
        self.sinks.push(unsize!(Arc::new(sink) => dyn EscalationSink));
        self
    }
}

impl Default for CompositeEscalationSink {
    fn default() -> Self {
        Self::new()
    }
}

impl EscalationSink for CompositeEscalationSink {
    fn handle(&self, failure: FailureInfo) -> Result<(), FailureInfo> {
        let known = self.partial.with(|partial| {
            let at = partial.iter().position(|(other, _)| other.is_same_as(&failure) && other.stage() == failure.stage())?;
            partial.remove(at)
        });
        let to = known.map_or_else(|| (0..self.sinks.len()).collect(), |(_, to)| to);
        let refused: Vec<usize> = to.into_iter().filter(|at| try_sink(&*self.sinks[*at], failure.clone()).is_err()).collect();
        if refused.is_empty() {
            return Ok(());
        }
        let forgotten = self.partial.with(|partial| {
            partial.push_back((failure.clone(), refused));
            if partial.len() > PARTIAL_MAX { partial.pop_front() } else { None }
        });
        drop(forgotten);
        Err(failure)
    }

    fn leads_to_parent(&self) -> bool {
        self.sinks.iter().any(|sink| sink.leads_to_parent())
    }
}

/// Offers `failure` to `sink`. A panic counts as a refusal and is reported as another failure.
pub(crate) fn try_sink(sink: &dyn EscalationSink, failure: FailureInfo) -> Result<(), FailureInfo> {
    let kept = failure.clone();
    match catch::catch(|| sink.handle(failure)) {
        Ok(answer) => answer,
        Err(reason) => {
            if let Some(supervisor) = kept.supervisor() {
                supervisor.node().report_failure(reason);
            }
            Err(kept)
        }
    }
}

/// Returns the sink of the supervisor at `node`, or `None` if its parent decides.
pub(crate) fn sink_of(node: &Node) -> Option<Arc<dyn EscalationSink>> {
    for node in node.upwards() {
        let (own, strategy) = node
            .existing_supervision(|supervision| (supervision.sink.clone(), supervision.strategy.clone()))
            .unwrap_or_default();
        let target = || {
            let asked = strategy.map(|strategy| catch::catch(|| strategy.escalation_target()));
            asked.and_then(|target| {
                target.unwrap_or_else(|reason| {
                    node.report_failure(reason);
                    None
                })
            })
        };
        if let Some(sink) = own.or_else(target) {
            return Some(sink);
        }
    }
    node.tree().sink()
}
