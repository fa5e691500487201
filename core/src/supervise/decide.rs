//! Supervision decided: pure functions of (rules, window, directive, now), with no runtime, no lock and no clock of their own.
//!
//! A [`SupervisorStrategy`] says what a failure means; [`decide`] weighs that against the child's [`RestartPolicy`] and the restarts
//! already counted; [`RestartPlan`](regroup::RestartPlan) keeps the order when more than one child is concerned. `guardian` acts on all of it.

pub use crate::supervise::backoff::ExponentialBackoff;

use crate::base::time::Instant;
use alloc::collections::VecDeque;
use core::time::Duration;

/// What a supervisor orders for a child that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SupervisorDirective {
    /// Go on with the state as it is; the message is lost to its failure. Where there is no state yet, a restart.
    Resume,
    /// Start afresh from the `Props`; address and mailbox stay.
    Restart,
    /// End it.
    Stop,
    /// Hand the failure up. The child ends, unless whoever decides above has it start again with its supervisor.
    Escalate,
}

/// Which ends of a child call for another start. Given on [`Props`](crate::Props); transient unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestartPolicy {
    /// Every end but one that its supervisor or a cancel ordered: a stop or close from elsewhere is a failure in the supervisor's eyes.
    Permanent,
    /// A failure only.
    #[default]
    Transient,
    /// None: once it has ended, or its group restarts, it is gone.
    Temporary,
}

/// Which children a restart concerns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reach {
    /// The one that failed.
    #[default]
    One,
    /// All of them.
    All,
    /// The one that failed and all that were started after it.
    Rest,
}

/// How often children may restart unless a supervisor says otherwise: the fourth failure within 5 s is one too many.
pub const INTENSITY_DEFAULT: (u32, Duration) = (3, Duration::from_secs(5));

/// More restarts than this in one window are not counted: a limit above it is no limit.
pub const INTENSITY_MAX: u32 = 65_536;

/// Whose restarts count towards the limit of a supervisor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestartBudget {
    /// Those of all children together. One more than allowed stops all of them, and the failure goes up.
    #[default]
    Shared,
    /// Those of each child by itself. One more than allowed stops that child, and its siblings go on; the last child takes the
    /// supervisor with it, and the failure goes up. This is the default for the workers of a pool, and for what stands directly below
    /// `/user` and `/system`.
    PerChild,
}

/// The rules by which a supervisor restarts: which children, how often, how soon.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Restarts {
    /// Which children a restart concerns.
    pub reach: Reach,
    /// This many restarts within any `window`; one more exceeds the intensity. NodeParent [`INTENSITY_MAX`] there is no limit.
    pub restarts_max: u32,
    /// The sliding window in which restarts are counted. Two failures a full window apart count in it together.
    pub window: Duration,
    /// Whose restarts count: those of all children together, unless given.
    pub budget: RestartBudget,
    /// How long to wait before a restart; at once unless given.
    pub backoff: Option<ExponentialBackoff>,
}

impl Default for Restarts {
    /// The one that failed, three times in five seconds, at once.
    fn default() -> Self {
        let (restarts_max, window) = INTENSITY_DEFAULT;
        Self { reach: Reach::One, restarts_max, window, budget: RestartBudget::Shared, backoff: None }
    }
}

/// What was decided, and the figures it was decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) directive: SupervisorDirective,
    /// The intensity was exceeded: the supervisor itself has failed.
    pub(crate) exceeded: bool,
    pub(crate) restarts: u32,
}

/// How many restarts at `now` are still within the window; the older ones are forgotten.
pub(crate) fn count_recent(rules: &Restarts, recent: &mut VecDeque<Instant>, now: Instant) -> u32 {
    while recent.front().is_some_and(|at| now.since(*at) > rules.window) {
        recent.pop_front();
    }
    recent.len() as u32
}

/// Decides about one failure at `now`, for which the strategy orders `directive`. `recent` holds the restarts still within the window
/// and never more than are allowed.
pub(crate) fn decide(
    directive: SupervisorDirective,
    policy: RestartPolicy,
    rules: &Restarts,
    recent: &mut VecDeque<Instant>,
    now: Instant,
) -> Decision {
    let restarts = count_recent(rules, recent, now);
    match (directive, policy) {
        (SupervisorDirective::Restart, RestartPolicy::Temporary) => {
            Decision { directive: SupervisorDirective::Stop, exceeded: false, restarts }
        }
        (SupervisorDirective::Restart, _) if rules.restarts_max > INTENSITY_MAX => {
            Decision { directive, exceeded: false, restarts: restarts.saturating_add(1) }
        }
        (SupervisorDirective::Restart, _) if restarts >= rules.restarts_max => {
            Decision { directive: SupervisorDirective::Escalate, exceeded: true, restarts }
        }
        (SupervisorDirective::Restart, _) => {
            recent.push_back(now);
            Decision { directive, exceeded: false, restarts: restarts + 1 }
        }
        _ => Decision { directive, exceeded: false, restarts },
    }
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

    fn rules(restarts_max: u32, window_ms: u64) -> Restarts {
        Restarts { restarts_max, window: Duration::from_millis(window_ms), ..Restarts::default() }
    }

    fn directives(rules: &Restarts, ordered: SupervisorDirective, failures: &[u64]) -> Vec<SupervisorDirective> {
        let mut recent = VecDeque::new();
        let decide = |ms: &u64| decide(ordered, RestartPolicy::Transient, rules, &mut recent, at(*ms)).directive;
        failures.iter().map(decide).collect()
    }

    #[test]
    fn s3_the_fourth_failure_within_the_window_exceeds_it() {
        let rules = Restarts::default();
        assert_eq!(directives(&rules, Restart, &[0, 1_000, 2_000, 5_000]), [Restart, Restart, Restart, Escalate]);
        assert_eq!(directives(&rules, Restart, &[0, 1_000, 2_000, 5_001]), [Restart; 4]);
    }

    #[test]
    fn s3_the_window_slides_and_absurd_ones_have_an_answer() {
        assert_eq!(directives(&rules(1, 10), Restart, &[0, 11, 22, 30]), [Restart, Restart, Restart, Escalate]);
        assert_eq!(directives(&rules(0, u64::MAX), Restart, &[0]), [Escalate]);
        // Within a window of no length only failures of the same instant count together.
        assert_eq!(directives(&rules(1, 0), Restart, &[0, 0, 1]), [Restart, Escalate, Restart]);
        // A limit above what is counted is none, and nothing is kept for it.
        let mut recent = VecDeque::new();
        for ms in 0..1_000 {
            let unlimited = rules(u32::MAX, u64::MAX);
            assert_eq!(decide(Restart, RestartPolicy::Transient, &unlimited, &mut recent, at(ms)).directive, Restart);
        }
        assert!(recent.is_empty());
    }

    #[test]
    fn s1_a_directive_other_than_restart_counts_nothing() {
        for directive in [Resume, Stop, Escalate] {
            assert_eq!(directives(&rules(0, 1), directive, &[0; 10]), [directive; 10]);
        }
    }

    #[test]
    fn s2_a_temporary_child_is_stopped_where_others_restart_and_counts_nothing() {
        let mut recent = VecDeque::new();
        for _ in 0..10 {
            let decision = decide(Restart, RestartPolicy::Temporary, &rules(1, 10), &mut recent, at(0));
            assert_eq!((decision.directive, decision.exceeded), (Stop, false));
        }
        assert!(recent.is_empty());
    }

    #[test]
    fn s4_deciding_agrees_with_a_plain_model() {
        // The model keeps every restart there ever was and counts those in the window.
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
