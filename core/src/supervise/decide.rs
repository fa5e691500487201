//! The decision about one failure: a pure function of rules, recent restarts, directive and time.
//!
//! A [`SupervisorStrategy`](crate::SupervisorStrategy) chooses a directive for a failure.
//! [`decide`] applies the [`RestartPolicy`] of the child and the restart limit to it.
//! [`RestartPlan`](crate::supervise::restart_plan::RestartPlan) orders the steps if several
//! children are affected. `tree::supervision` acts on the result.

pub use crate::supervise::backoff::ExponentialBackoff;

use crate::base::time::Instant;
use alloc::collections::VecDeque;
use core::time::Duration;

/// What a supervisor does with a child that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SupervisorDirective {
    /// Keeps the child's state and continues with the next message. The failed message is not
    /// handled again. A child that has no state yet restarts instead.
    Resume,
    /// Replaces the child's state by a new one from its `Props`. Its address and its mailbox stay.
    Restart,
    /// Ends the child with its failure as exit.
    Stop,
    /// Passes the failure to the parent of the supervisor. The child ends, unless an ancestor
    /// restarts this supervisor with its children.
    Escalate,
}

/// Which exits of a child lead to a restart. Set it with [`Props`](crate::Props). Default:
/// [`Transient`](Self::Transient).
///
/// # Examples
///
/// ```
/// use pleach::Props;
/// use pleach::supervise::RestartPolicy;
///
/// let props = Props::from_fn(|| 0, |sum: &mut u32, n: u32| {
///     *sum += n;
///     Ok::<(), std::convert::Infallible>(())
/// })
/// .restart(RestartPolicy::Permanent);
/// # let _ = props;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestartPolicy {
    /// Every exit restarts the child, except one ordered by its supervisor or by a cancel. The
    /// supervisor treats a stop or close from elsewhere as a failure.
    Permanent,
    /// Only a failure restarts the child.
    #[default]
    Transient,
    /// No exit restarts the child. It also ends when its siblings restart together.
    Temporary,
}

/// Which children a restart affects besides the failed one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reach {
    /// Only the child that has failed.
    #[default]
    One,
    /// All children of the same supervisor.
    All,
    /// The child that failed, and all children that were started after it.
    Rest,
}

/// The default restart limit: 3 restarts within 5 s. The fourth failure within 5 s exceeds it.
pub const RESTART_LIMIT_DEFAULT: (u32, Duration) = (3, Duration::from_secs(5));

/// The largest restart limit that is enforced. A higher limit means no limit.
pub const RESTART_LIMIT_MAX: u32 = 65_536;

/// Whose restarts count towards the restart limit of a supervisor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestartLimitScope {
    /// The restarts of all children count together. One restart too many stops all children, and
    /// the failure escalates.
    #[default]
    Shared,
    /// The restarts of each child count separately. One restart too many stops that child; its
    /// siblings continue. When the last child is stopped this way, the supervisor stops too and the
    /// failure escalates.
    ///
    /// This is the default for the workers of a pool and for the children of `/user` and `/system`.
    PerChild,
}

/// The restart rules of a supervisor: which children, how often, and after what wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RestartRules {
    /// Which children a restart affects. Default: [`Reach::One`].
    pub reach: Reach,
    /// How many restarts are allowed within any `window`. Default: 3. A value above
    /// [`RESTART_LIMIT_MAX`] means no limit.
    pub restarts_max: u32,
    /// The sliding window in which restarts are counted, including both of its ends. Default: 5 s.
    pub window: Duration,
    /// Whose restarts count together. Default: [`RestartLimitScope::Shared`].
    pub limit_scope: RestartLimitScope,
    /// The wait before a restart. Default: `None`, which restarts at once.
    pub backoff: Option<ExponentialBackoff>,
}

impl Default for RestartRules {
    /// Restarts the failed child at once, at most 3 times within 5 s.
    fn default() -> Self {
        let (restarts_max, window) = RESTART_LIMIT_DEFAULT;
        Self { reach: Reach::One, restarts_max, window, limit_scope: RestartLimitScope::Shared, backoff: None }
    }
}

/// The result of [`decide`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) directive: SupervisorDirective,
    /// The restart limit was exceeded: the supervisor itself has failed.
    pub(crate) exceeded: bool,
    /// The restarts in the current window, including this one.
    pub(crate) restarts: u32,
}

/// Returns how many restarts are within the window at `now`, and removes the older ones.
pub(crate) fn count_recent(rules: &RestartRules, recent: &mut VecDeque<Instant>, now: Instant) -> u32 {
    while recent.front().is_some_and(|at| now.since(*at) > rules.window) {
        recent.pop_front();
    }
    recent.len() as u32
}

/// Decides about one failure at `now`, for which the strategy chose `directive`. `recent` holds the
/// restarts within the window, never more than the limit.
pub(crate) fn decide(
    directive: SupervisorDirective,
    policy: RestartPolicy,
    rules: &RestartRules,
    recent: &mut VecDeque<Instant>,
    now: Instant,
) -> Decision {
    let decision = decide_at(directive, policy, rules, count_recent(rules, recent, now));
    if decision.directive == SupervisorDirective::Restart && rules.restarts_max <= RESTART_LIMIT_MAX {
        recent.push_back(now);
    }
    decision
}

/// Returns the decision with `restarts` within the window, and records no restart.
pub(crate) fn decide_at(
    directive: SupervisorDirective,
    policy: RestartPolicy,
    rules: &RestartRules,
    restarts: u32,
) -> Decision {
    match (directive, policy) {
        (SupervisorDirective::Restart, RestartPolicy::Temporary) => {
            Decision { directive: SupervisorDirective::Stop, exceeded: false, restarts }
        }
        (SupervisorDirective::Restart, _) if rules.restarts_max <= RESTART_LIMIT_MAX && restarts >= rules.restarts_max => {
            Decision { directive: SupervisorDirective::Escalate, exceeded: true, restarts }
        }
        (SupervisorDirective::Restart, _) => Decision { directive, exceeded: false, restarts: restarts.saturating_add(1) },
        _ => Decision { directive, exceeded: false, restarts },
    }
}

/// Returns the directive for a child that has exceeded its restart limit. `left`: how many siblings
/// continue. `survives`: siblings of the supervisor's children survive their failures.
pub(crate) fn after_limit(limit_scope: RestartLimitScope, left: usize, survives: bool) -> SupervisorDirective {
    // At the top the failure goes to the root in any case, and only the child ends.
    let stops_alone = limit_scope == RestartLimitScope::PerChild && left > 0 && !survives;
    if stops_alone { SupervisorDirective::Stop } else { SupervisorDirective::Escalate }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::runtime::Random;
    use SupervisorDirective::{Escalate, Restart, Resume, Stop};
    use alloc::vec::Vec;

    fn at(ms: u64) -> Instant {
        Instant::after_start(Duration::from_millis(ms))
    }

    fn rules(restarts_max: u32, window_ms: u64) -> RestartRules {
        RestartRules { restarts_max, window: Duration::from_millis(window_ms), ..RestartRules::default() }
    }

    fn directives(rules: &RestartRules, ordered: SupervisorDirective, failures: &[u64]) -> Vec<SupervisorDirective> {
        let mut recent = VecDeque::new();
        let decide = |ms: &u64| decide(ordered, RestartPolicy::Transient, rules, &mut recent, at(*ms)).directive;
        failures.iter().map(decide).collect()
    }

    #[test]
    fn s3_fourth_failure_in_the_window_exceeds_the_limit() {
        let rules = RestartRules::default();
        assert_eq!(directives(&rules, Restart, &[0, 1_000, 2_000, 5_000]), [Restart, Restart, Restart, Escalate]);
        assert_eq!(directives(&rules, Restart, &[0, 1_000, 2_000, 5_001]), [Restart; 4]);
    }

    #[test]
    fn s3_window_slides_and_accepts_extreme_values() {
        assert_eq!(directives(&rules(1, 10), Restart, &[0, 11, 22, 30]), [Restart, Restart, Restart, Escalate]);
        assert_eq!(directives(&rules(0, u64::MAX), Restart, &[0]), [Escalate]);
        // Within a window of zero length only failures of the same instant count together.
        assert_eq!(directives(&rules(1, 0), Restart, &[0, 0, 1]), [Restart, Escalate, Restart]);
        // A limit above `RESTART_LIMIT_MAX` is no limit, and no restart is stored for it.
        let mut recent = VecDeque::new();
        for ms in 0..1_000 {
            let unlimited = rules(u32::MAX, u64::MAX);
            assert_eq!(decide(Restart, RestartPolicy::Transient, &unlimited, &mut recent, at(ms)).directive, Restart);
        }
        assert!(recent.is_empty());
    }

    #[test]
    fn s1_only_restarts_are_counted() {
        for directive in [Resume, Stop, Escalate] {
            assert_eq!(directives(&rules(0, 1), directive, &[0; 10]), [directive; 10]);
        }
    }

    #[test]
    fn s2_temporary_child_stops_and_counts_no_restart() {
        let mut recent = VecDeque::new();
        for _ in 0..10 {
            let decision = decide(Restart, RestartPolicy::Temporary, &rules(1, 10), &mut recent, at(0));
            assert_eq!((decision.directive, decision.exceeded), (Stop, false));
        }
        assert!(recent.is_empty());
    }

    #[test]
    fn s4_decide_matches_the_reference_model() {
        // The model keeps all restarts and counts those in the window.
        let mut random = Random::seeded(3);
        for _ in 0..1_000 {
            let (max, window) = (random.below(4) as u32, random.below(20) as u64);
            let (mut recent, mut restarts, mut now) = (VecDeque::new(), Vec::new(), 0);
            for _ in 0..50 {
                now += random.below(8) as u64;
                let counted = restarts.iter().filter(|then| now - **then <= window).count() as u32;
                let expected = if counted < max { Restart } else { Escalate };
                if expected == Restart {
                    restarts.push(now);
                }
                let decision = decide(Restart, RestartPolicy::Permanent, &rules(max, window), &mut recent, at(now));
                assert_eq!((decision.directive, decision.exceeded), (expected, expected == Escalate));
                assert!(recent.len() <= max as usize);
            }
        }
    }
}
