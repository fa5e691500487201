//! [`Policy`]: the reaction to a node that fails or takes too long.
//!
//! The decision is a pure function of policy, attempt and reason.

use pleach_core::{ExponentialBackoff, Reason, SupervisorDirective};
use std::fmt;
use std::time::Duration;

/// The failure policy of one node: retry, timeout, fallback, cancel grace.
///
/// A node without a policy has no timeout, and its first failure ends the run.
///
/// ```
/// use pleach::graph::{Policy, Retry};
/// use pleach::{END, Graph};
/// use std::time::Duration;
///
/// let graph = Graph::<u32>::new("search")
///     .add_node("search", |n: u32| async move { if n > 0 { Ok(n) } else { Err("no result") } })
///     .add_node("default", |_: u32| async move { 7 })
///     .policy(
///         "search",
///         Policy::new()
///             .retry(Retry::times(3))
///             .timeout(Duration::from_secs(2))
///             .fallback("default"),
///     )
///     .add_edge("search", END)
///     .add_edge("default", END)
///     .set_entry("search")
///     .compile()?;
/// # Ok::<(), pleach::graph::CompileError>(())
/// ```
pub struct Policy<S> {
    pub(crate) retry: Option<Retry>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) cancel_grace: Option<Duration>,
    pub(crate) fallback: Option<String>,
    pub(crate) decide: Option<Decide>,
    /// Clones the state before an attempt, because a failing node consumes it.
    pub(crate) clone_state: Option<fn(&S) -> S>,
}

pub(crate) type Decide = Box<dyn Fn(&FailedAttempt<'_>) -> SupervisorDirective + Send + Sync>;

/// A failed attempt of a node, as [`Policy::on_error`] sees it.
#[derive(Debug)]
#[non_exhaustive]
pub struct FailedAttempt<'a> {
    /// The id of the node that failed.
    pub node: &'a str,
    /// The number of the attempt, starting at 1.
    pub attempt: u32,
    /// The reason: an error of the node, [`Elapsed`](pleach_core::Elapsed) at its timeout, or a
    /// panic.
    pub reason: &'a Reason,
}

impl<S> Policy<S> {
    /// Creates a policy without retry, timeout, cancel grace and fallback.
    pub fn new() -> Self {
        Self { retry: None, timeout: None, cancel_grace: None, fallback: None, decide: None, clone_state: None }
    }

    /// Limits the time of one attempt. Default: no limit.
    ///
    /// An attempt that takes longer is dropped and fails with [`Elapsed`](pleach_core::Elapsed),
    /// which can be retried. With a zero timeout every attempt fails this way and the node is not
    /// called.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Lets the node keep running for up to `grace` after a cancel, so that it can clean up.
    ///
    /// By default a cancel drops the node at its next await.
    ///
    /// - The node sees the cancel through [`NodeContext::token`](crate::NodeContext::token).
    /// - The grace starts when the run is cancelled by its token, its scope, its deadline or a
    ///   command. It also starts when the branch is cancelled because another branch failed or the
    ///   fan-out timed out. It does not start when the run is dropped.
    /// - During the grace no other node starts. The run ends with
    ///   [`RunFault::Cancelled`](crate::RunFault::Cancelled), whose [`grace`](crate::GraceEnd)
    ///   field says how the node ended.
    /// - A node that returns in time has completed: a stored run commits its result and later
    ///   resumes after it. A node that fails during its grace is not retried.
    /// - For a subgraph the default is the longest grace of the nodes inside.
    ///
    /// ```
    /// use pleach::{END, Graph};
    /// use pleach::graph::{NodeContext, Policy};
    /// use std::time::Duration;
    ///
    /// let graph = Graph::new("worker")
    ///     .add_node("work", |cx: NodeContext, n: u32| async move {
    ///         cx.token().cancelled().await;
    ///         // Release resources outside the process here.
    ///         n
    ///     })
    ///     .policy("work", Policy::new().cancel_grace(Duration::from_secs(5)))
    ///     .add_edge("work", END)
    ///     .set_entry("work")
    ///     .compile()?;
    /// # Ok::<(), pleach::graph::CompileError>(())
    /// ```
    #[must_use]
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.cancel_grace = Some(grace);
        self
    }
}

impl<S: Clone> Policy<S> {
    /// Retries the node after a failure, with the state before the node.
    ///
    /// The state is cloned before every attempt.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self.cloning_state()
    }

    /// Continues at `node` if no retry remains or the reason is permanent, with the state before
    /// the failed node.
    ///
    /// Default: the failure ends the run.
    #[must_use]
    pub fn fallback(mut self, node: impl Into<String>) -> Self {
        self.fallback = Some(node.into());
        self.cloning_state()
    }

    /// Lets `decide` choose what follows each failed attempt.
    ///
    /// | directive | effect |
    /// |---|---|
    /// | `Resume` | skips the node: the state stays as before and the node's edges apply |
    /// | `Restart` | retries as [`retry`](Self::retry) allows; default: 3 attempts, no wait |
    /// | `Stop` | ends the run |
    /// | `Escalate` | ends the run and fails its [scope](crate::RunOptions::in_scope), if any |
    ///
    /// `decide` runs in the task of the run. A panic in it ends the run.
    #[must_use]
    pub fn on_error(mut self, decide: impl Fn(&FailedAttempt<'_>) -> SupervisorDirective + Send + Sync + 'static) -> Self {
        self.decide = Some(Box::new(decide));
        self.cloning_state()
    }

    fn cloning_state(mut self) -> Self {
        self.clone_state = Some(S::clone);
        self
    }
}

impl<S> Default for Policy<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> fmt::Debug for Policy<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { retry, timeout, cancel_grace, fallback, .. } = self;
        f.debug_struct("Policy")
            .field("retry", retry)
            .field("timeout", timeout)
            .field("cancel_grace", cancel_grace)
            .field("fallback", fallback)
            .finish_non_exhaustive()
    }
}

type Classifier = Box<dyn Fn(&Reason) -> bool + Send + Sync>;

/// How often a node is retried, and how long the run waits between two attempts.
///
/// ```
/// use pleach::graph::{Policy, Retry};
/// use std::time::Duration;
///
/// // Five attempts; waits of 100 ms, 200 ms, 400 ms and 800 ms, each shortened by a random part.
/// let (first, max) = (Duration::from_millis(100), Duration::from_secs(2));
/// let retry = Retry::times(5).backoff(first, max).jitter();
/// let policy = Policy::<u32>::new().retry(retry);
/// ```
pub struct Retry {
    attempts_max: u32,
    /// `None`: no wait.
    backoff: Option<ExponentialBackoff>,
    jitter: bool,
    is_transient: Option<Classifier>,
}

/// The part of a wait that [`Retry::jitter`] may subtract.
const JITTER: f32 = 0.5;

impl Retry {
    /// Allows at most `attempts` attempts, the first included, without a wait. Zero counts as one.
    pub fn times(attempts: u32) -> Self {
        Self { attempts_max: attempts.max(1), backoff: None, jitter: false, is_transient: None }
    }

    /// Waits `first` before the second attempt and doubles the wait for each further attempt, up to
    /// `max`.
    ///
    /// Default: no wait.
    #[must_use]
    pub fn backoff(mut self, first: Duration, max: Duration) -> Self {
        let first = first.min(max);
        self.backoff = (!first.is_zero()).then(|| ExponentialBackoff::new(first, max));
        self
    }

    /// Shortens each wait to a random length between half and all of it.
    ///
    /// This spreads the retries of nodes that failed at the same time. Default: off.
    #[must_use]
    pub fn jitter(mut self) -> Self {
        self.jitter = true;
        self
    }

    /// Retries only if `is_transient` returns `true` for the reason. Otherwise the node fails at
    /// once.
    ///
    /// Default: every reason is retried.
    #[must_use]
    pub fn only_if(mut self, is_transient: impl Fn(&Reason) -> bool + Send + Sync + 'static) -> Self {
        self.is_transient = Some(Box::new(is_transient));
        self
    }

    pub(crate) fn waits(&self) -> bool {
        self.backoff.is_some()
    }

    fn allows(&self, attempt: u32, reason: &Reason) -> bool {
        attempt < self.attempts_max && self.is_transient.as_ref().is_none_or(|is_transient| is_transient(reason))
    }

    /// Returns the wait after a failed `attempt`.
    fn wait(&self, attempt: u32, random: impl FnOnce() -> u64) -> Duration {
        match self.backoff {
            Some(backoff) if self.jitter => backoff.jitter(JITTER).delay(attempt, random()),
            Some(backoff) => backoff.jitter(0.0).delay(attempt, 0),
            None => Duration::ZERO,
        }
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attempts_max, backoff, jitter, .. } = self;
        f.debug_struct("Retry")
            .field("attempts_max", attempts_max)
            .field("backoff", backoff)
            .field("jitter", jitter)
            .finish_non_exhaustive()
    }
}

impl<S> Policy<S> {
    /// Returns the limits of the policy as text; `None` if it has none. Closures are not part of
    /// it.
    pub(crate) fn summary(&self) -> Option<String> {
        let retry = self.retry.as_ref().map(|retry| format!("{retry:?}"));
        let timeout = self.timeout.map(|timeout| format!("timeout {timeout:?}"));
        let grace = self.cancel_grace.map(|grace| format!("cancel grace {grace:?}"));
        let decide = self.decide.as_ref().map(|_| "on_error".to_string());
        let parts: Vec<String> = [retry, timeout, grace, decide].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// The reaction to a failed attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PolicyDecision {
    TryAgain(Duration),
    /// Follow the edges of the node with the state before it.
    Skip,
    FallBack,
    Fail {
        escalate: bool,
    },
}

impl<S> Policy<S> {
    /// Decides the reaction to one failed attempt. It calls user code, which may panic.
    pub(crate) fn decide(&self, failed: &FailedAttempt<'_>, random: impl FnOnce() -> u64) -> PolicyDecision {
        let on_give_up =
            if self.fallback.is_some() { PolicyDecision::FallBack } else { PolicyDecision::Fail { escalate: false } };
        let directive = match (&self.decide, &self.retry) {
            (Some(decide), _) => decide(failed),
            (None, Some(_)) => SupervisorDirective::Restart,
            (None, None) => return on_give_up,
        };
        match directive {
            SupervisorDirective::Resume => PolicyDecision::Skip,
            SupervisorDirective::Restart => {
                let default_retry = Retry::times(3);
                let retry = self.retry.as_ref().unwrap_or(&default_retry);
                if retry.allows(failed.attempt, failed.reason) {
                    PolicyDecision::TryAgain(retry.wait(failed.attempt, random))
                } else {
                    on_give_up
                }
            }
            SupervisorDirective::Escalate => PolicyDecision::Fail { escalate: true },
            _ => PolicyDecision::Fail { escalate: false },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(attempt: u32, reason: &Reason) -> FailedAttempt<'_> {
        FailedAttempt { node: "n", attempt, reason }
    }

    #[test]
    fn f11_waits_double_up_to_max_and_jitter_shortens_them() {
        let ms = Duration::from_millis;
        let retry = Retry::times(99).backoff(ms(10), ms(65));
        let waits: Vec<Duration> = (1..=5).map(|attempt| retry.wait(attempt, || 0)).collect();
        assert_eq!(waits, [ms(10), ms(20), ms(40), ms(65), ms(65)]);
        assert_eq!(retry.wait(u32::MAX, || 0), ms(65));
        let jittered = retry.jitter();
        assert_eq!(jittered.wait(2, || 0), ms(20));
        assert!(jittered.wait(2, || u64::MAX) >= ms(10) && jittered.wait(2, || u64::MAX) < ms(11));
        let wait_of = |first, max| Retry::times(9).backoff(first, max).wait(3, || 0);
        assert_eq!(wait_of(ms(10), ms(5)), ms(5));
        assert_eq!([wait_of(ms(0), ms(5)), wait_of(ms(5), ms(0))], [ms(0), ms(0)]);
    }

    #[test]
    fn f11_decision_depends_on_policy_attempt_and_reason() {
        let reason = Reason::Error("no".into());
        let decide = |policy: &Policy<u8>, attempt| policy.decide(&failed(attempt, &reason), || 0);
        let fail = PolicyDecision::Fail { escalate: false };
        assert_eq!(decide(&Policy::new(), 1), fail);
        let retried = Policy::new().retry(Retry::times(3));
        assert_eq!(decide(&retried, 2), PolicyDecision::TryAgain(Duration::ZERO));
        assert_eq!(decide(&retried, 3), fail);
        let permanent = Policy::new().retry(Retry::times(3).only_if(|_| false)).fallback("other");
        assert_eq!(decide(&permanent, 1), PolicyDecision::FallBack);
        let ordered = |directive| Policy::new().fallback("other").on_error(move |_| directive);
        assert_eq!(decide(&ordered(SupervisorDirective::Resume), 1), PolicyDecision::Skip);
        assert_eq!(decide(&ordered(SupervisorDirective::Restart), 2), PolicyDecision::TryAgain(Duration::ZERO));
        assert_eq!(decide(&ordered(SupervisorDirective::Restart), 3), PolicyDecision::FallBack);
        assert_eq!(decide(&ordered(SupervisorDirective::Stop), 1), fail);
        assert_eq!(decide(&ordered(SupervisorDirective::Escalate), 1), PolicyDecision::Fail { escalate: true });
    }
}
