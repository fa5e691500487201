//! `Policy`: what happens when a node fails. The decision is a pure function of policy, attempt and
//! reason.

use pleach_core::{Reason, SupervisorDirective};
use std::fmt;
use std::time::Duration;

/// What a node is allowed, and what follows when it fails: `graph.policy("search", Policy::new().retry(Retry::times(3)))`.
///
/// A node without a policy has no timeout, and its first failure fails the run.
pub struct Policy<S> {
    pub(crate) retry: Option<Retry>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) cancel_grace: Option<Duration>,
    pub(crate) fallback: Option<String>,
    pub(crate) decide: Option<Decide>,
    /// How to keep the state that a failing node takes with it.
    pub(crate) keep: Option<fn(&S) -> S>,
}

pub(crate) type Decide = Box<dyn Fn(&FailedAttempt<'_>) -> SupervisorDirective + Send + Sync>;

/// An attempt that failed, as a decision sees it.
#[derive(Debug)]
#[non_exhaustive]
pub struct FailedAttempt<'a> {
    /// The node.
    pub node: &'a str,
    /// Which attempt, from 1 on.
    pub attempt: u32,
    /// Why: an error of the node, [`Elapsed`](pleach::scope::Elapsed) at its timeout, or a panic.
    pub reason: &'a Reason,
}

impl<S> Policy<S> {
    /// No retry, no timeout, no cancel grace, no fallback.
    pub fn new() -> Self {
        Self { retry: None, timeout: None, cancel_grace: None, fallback: None, decide: None, keep: None }
    }

    /// An attempt that takes longer is cut off and fails with [`Elapsed`](pleach::scope::Elapsed), which may be retried. With a timeout of zero
    /// every attempt fails so, and the node is not called.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Lets the node run on for `grace` after a cancel, to tidy up; then it is dropped. Without it a cancel drops the node at its next
    /// await.
    ///
    /// - The node learns of the cancel by [`NodeContext::token`](crate::NodeContext::token).
    /// - The grace begins when the run is cancelled: by its token, its scope, its deadline or a command. It also begins when the branch is
    ///   cut off, because another branch failed or the time of the fan-out is up. It does not begin when the run is dropped.
    /// - No other node starts meanwhile, and nothing follows the node. The run ends as
    ///   [`RunFault::Cancelled`](crate::RunFault::Cancelled), whose [`grace`](crate::GraceEnd) says how the node ended.
    /// - A node that returns in time is done. A stored run commits its result and resumes behind it. A node that fails in its grace is
    ///   not tried again.
    /// - A node that is a subgraph has the longest grace of the nodes inside, unless it is given one of its own.
    ///
    /// ```
    /// use pleach::{END, Graph};
    /// use pleach::graph::{NodeContext, Policy};
    /// use std::time::Duration;
    ///
    /// let graph = Graph::new("worker")
    ///     .add_node("work", |cx: NodeContext, n: u32| async move {
    ///         cx.token().cancelled().await;
    ///         // Here it gives back what it holds outside.
    ///         Ok::<_, String>(n)
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
    /// Tries again, with the state as it was before the node.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self.keeping()
    }

    /// Goes on at `node` when the retries are used up or the reason is permanent, with the state as it was before the failing
    /// node.
    #[must_use]
    pub fn fallback(mut self, node: impl Into<String>) -> Self {
        self.fallback = Some(node.into());
        self.keeping()
    }

    /// Decides about each failed attempt. *Resume* skips the node: the state stays as it was before, and the edges of the node
    /// are followed. *Restart* tries again, as often as [`retry`](Self::retry) allows, twice if it was not given. *Stop* fails
    /// the run. *Escalate* fails it and, if it runs [within a scope](crate::RunOptions::within), fails that as well.
    ///
    /// It runs in the run's own task; a panic in it stops the run.
    #[must_use]
    pub fn on_error(mut self, decide: impl Fn(&FailedAttempt<'_>) -> SupervisorDirective + Send + Sync + 'static) -> Self {
        self.decide = Some(Box::new(decide));
        self.keeping()
    }

    fn keeping(mut self) -> Self {
        self.keep = Some(S::clone);
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

/// How often, and after which wait, a node is tried again.
pub struct Retry {
    attempts_max: u32,
    first_wait: Duration,
    wait_max: Duration,
    jitter: bool,
    is_transient: Option<Classifier>,
}

impl Retry {
    /// At most this many attempts in all, the first included, with no wait between them. Zero is taken for one.
    pub fn times(attempts: u32) -> Self {
        let zero = Duration::ZERO;
        Self { attempts_max: attempts.max(1), first_wait: zero, wait_max: zero, jitter: false, is_transient: None }
    }

    /// Waits `first` before the second attempt, twice as long before each further one, and never longer than `max`.
    #[must_use]
    pub fn backoff(mut self, first: Duration, max: Duration) -> Self {
        (self.first_wait, self.wait_max) = (first, max);
        self
    }

    /// Takes a random part, between half and all, of each wait, so that those who failed together do not come back together.
    #[must_use]
    pub fn jitter(mut self) -> Self {
        self.jitter = true;
        self
    }

    /// Tries again only for reasons that may pass: where this answers `false`, the node fails at once.
    #[must_use]
    pub fn only_if(mut self, is_transient: impl Fn(&Reason) -> bool + Send + Sync + 'static) -> Self {
        self.is_transient = Some(Box::new(is_transient));
        self
    }

    pub(crate) fn waits(&self) -> bool {
        self.wait_max > Duration::ZERO && self.first_wait > Duration::ZERO
    }

    fn allows(&self, attempt: u32, reason: &Reason) -> bool {
        attempt < self.attempts_max && self.is_transient.as_ref().is_none_or(|is_transient| is_transient(reason))
    }

    /// How long to wait after `attempt` failed.
    fn wait(&self, attempt: u32, random: impl FnOnce() -> u64) -> Duration {
        if !self.waits() {
            return Duration::ZERO;
        }
        let doubled = 2u32.saturating_pow(attempt.saturating_sub(1));
        let wait = self.first_wait.saturating_mul(doubled).min(self.wait_max);
        if !self.jitter {
            return wait;
        }
        // The upper half of a random number in 0..1, in steps of 2^-32.
        let part = 0.5 + (random() >> 32) as f64 / (1u64 << 33) as f64;
        wait.mul_f64(part)
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attempts_max, first_wait, wait_max, jitter, .. } = self;
        let waits = (first_wait, wait_max, jitter);
        f.debug_struct("Retry").field("attempts_max", attempts_max).field("waits", &waits).finish_non_exhaustive()
    }
}

/// What follows a failed attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PolicyDecision {
    TryAgain(Duration),
    /// Goes on as if the node had left the state as it was.
    Skip,
    FallBack,
    Fail {
        escalate: bool,
    },
}

impl<S> Policy<S> {
    /// Decides about one failed attempt. User code within it may panic.
    pub(crate) fn verdict(&self, failed: &FailedAttempt<'_>, random: impl FnOnce() -> u64) -> PolicyDecision {
        let given_up =
            if self.fallback.is_some() { PolicyDecision::FallBack } else { PolicyDecision::Fail { escalate: false } };
        let directive = match (&self.decide, &self.retry) {
            (Some(decide), _) => decide(failed),
            (None, Some(_)) => SupervisorDirective::Restart,
            (None, None) => return given_up,
        };
        match directive {
            SupervisorDirective::Resume => PolicyDecision::Skip,
            SupervisorDirective::Restart => {
                let unasked = Retry::times(3);
                let retry = self.retry.as_ref().unwrap_or(&unasked);
                if retry.allows(failed.attempt, failed.reason) {
                    PolicyDecision::TryAgain(retry.wait(failed.attempt, random))
                } else {
                    given_up
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
    fn f11_waits_double_up_to_their_bound_and_jitter_takes_a_part() {
        let ms = Duration::from_millis;
        let retry = Retry::times(99).backoff(ms(10), ms(65));
        let waits: Vec<Duration> = (1..=5).map(|attempt| retry.wait(attempt, || 0)).collect();
        assert_eq!(waits, [ms(10), ms(20), ms(40), ms(65), ms(65)]);
        assert_eq!(retry.wait(u32::MAX, || 0), ms(65));
        let jittered = retry.jitter();
        assert_eq!(jittered.wait(2, || 0), ms(10));
        assert!(jittered.wait(2, || u64::MAX) > ms(19) && jittered.wait(2, || u64::MAX) <= ms(20));
    }

    #[test]
    fn f11_a_verdict_is_a_pure_function_of_policy_attempt_and_reason() {
        let reason = Reason::Error("no".into());
        let verdict = |policy: &Policy<u8>, attempt| policy.verdict(&failed(attempt, &reason), || 0);
        let fail = PolicyDecision::Fail { escalate: false };
        assert_eq!(verdict(&Policy::new(), 1), fail);
        let retried = Policy::new().retry(Retry::times(3));
        assert_eq!(verdict(&retried, 2), PolicyDecision::TryAgain(Duration::ZERO));
        assert_eq!(verdict(&retried, 3), fail);
        let permanent = Policy::new().retry(Retry::times(3).only_if(|_| false)).fallback("other");
        assert_eq!(verdict(&permanent, 1), PolicyDecision::FallBack);
        let ordered = |directive| Policy::new().fallback("other").on_error(move |_| directive);
        assert_eq!(verdict(&ordered(SupervisorDirective::Resume), 1), PolicyDecision::Skip);
        assert_eq!(verdict(&ordered(SupervisorDirective::Restart), 2), PolicyDecision::TryAgain(Duration::ZERO));
        assert_eq!(verdict(&ordered(SupervisorDirective::Restart), 3), PolicyDecision::FallBack);
        assert_eq!(verdict(&ordered(SupervisorDirective::Stop), 1), fail);
        assert_eq!(verdict(&ordered(SupervisorDirective::Escalate), 1), PolicyDecision::Fail { escalate: true });
    }
}
