//! Supervision decided: pure functions of (strategy, window, failure, now), with no runtime, no lock and no clock of their own.

use crate::Instant;
use alloc::collections::VecDeque;
use core::time::Duration;

/// What a supervisor orders for a child that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SupervisorDirective {
    /// Go on with the state as it is; the message is lost to its failure.
    Resume,
    /// Start afresh from the `Props`; address and mailbox stay.
    Restart,
    /// End it.
    Stop,
    /// End it and hand the failure up.
    Escalate,
}

/// How often children may restart unless a supervisor says otherwise: the fourth failure within 5 s is one too many.
pub const INTENSITY_DEFAULT: (u32, Duration) = (3, Duration::from_secs(5));

/// Restarts the child that failed and leaves its siblings alone.
///
/// More than `restarts` failures within any `window` exceed the intensity: the supervisor stops its children and hands the failure up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneForOne {
    directive: SupervisorDirective,
    restarts_max: u32,
    window: Duration,
}

impl OneForOne {
    /// Restarts, three times in five seconds.
    pub fn new() -> Self {
        let (restarts_max, window) = INTENSITY_DEFAULT;
        Self { directive: SupervisorDirective::Restart, restarts_max, window }
    }

    /// Allows this many restarts within any `window`. Zero restarts means that the first failure is one too many.
    #[must_use]
    pub fn intensity(mut self, restarts: u32, window: Duration) -> Self {
        self.restarts_max = restarts;
        self.window = window;
        self
    }

    /// Orders `directive` for every failure in place of a restart.
    #[must_use]
    pub fn always(mut self, directive: SupervisorDirective) -> Self {
        self.directive = directive;
        self
    }
}

impl Default for OneForOne {
    fn default() -> Self {
        Self::new()
    }
}

/// What was decided, and the figures it was decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) directive: SupervisorDirective,
    /// The intensity was exceeded: the supervisor itself has failed.
    pub(crate) exceeded: bool,
    pub(crate) restarts: u32,
    pub(crate) window: Duration,
}

/// Decides about one failure at `now`. `recent` holds the restarts still within the window and never more than are allowed.
pub(crate) fn decide(strategy: &OneForOne, recent: &mut VecDeque<Instant>, now: Instant) -> Decision {
    let OneForOne { directive, restarts_max, window } = *strategy;
    while recent.front().is_some_and(|at| now.since(*at) > window) {
        recent.pop_front();
    }
    let restarts = recent.len() as u32;
    if directive != SupervisorDirective::Restart {
        return Decision { directive, exceeded: false, restarts, window };
    }
    if restarts >= restarts_max {
        return Decision { directive: SupervisorDirective::Escalate, exceeded: true, restarts, window };
    }
    recent.push_back(now);
    Decision { directive, exceeded: false, restarts: restarts + 1, window }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use alloc::vec::Vec;

    fn at(ms: u64) -> Instant {
        Instant::after_start(Duration::from_millis(ms))
    }

    fn directives(strategy: &OneForOne, failures: &[u64]) -> Vec<SupervisorDirective> {
        let mut recent = VecDeque::new();
        failures.iter().map(|ms| decide(strategy, &mut recent, at(*ms)).directive).collect()
    }

    use SupervisorDirective::{Escalate, Restart, Stop};

    #[test]
    fn s3_the_fourth_failure_within_the_window_exceeds_it() {
        let strategy = OneForOne::new();
        assert_eq!(directives(&strategy, &[0, 1_000, 2_000, 5_000]), [Restart, Restart, Restart, Escalate]);
        assert_eq!(directives(&strategy, &[0, 1_000, 2_000, 5_001]), [Restart; 4]);
    }

    #[test]
    fn s3_the_window_slides() {
        let strategy = OneForOne::new().intensity(1, Duration::from_millis(10));
        assert_eq!(directives(&strategy, &[0, 11, 22, 30]), [Restart, Restart, Restart, Escalate]);
        assert_eq!(directives(&strategy.intensity(0, Duration::MAX), &[0]), [Escalate]);
    }

    #[test]
    fn s1_a_directive_other_than_restart_counts_nothing() {
        let strategy = OneForOne::new().always(Stop);
        assert_eq!(directives(&strategy, &[0; 10]), [Stop; 10]);
    }

    #[test]
    fn s4_deciding_agrees_with_a_plain_model() {
        // The model keeps every restart there ever was and counts those in the window.
        let mut random = Random::seeded(3);
        for _ in 0..1_000 {
            let (max, window) = (random.below(4) as u32, random.below(20) as u64);
            let strategy = OneForOne::new().intensity(max, Duration::from_millis(window));
            let (mut recent, mut restarts, mut now) = (VecDeque::new(), Vec::new(), 0);
            for _ in 0..50 {
                now += random.below(8) as u64;
                let counted = restarts.iter().filter(|then| now - **then <= window).count() as u32;
                let expected = if counted < max { Restart } else { Escalate };
                if expected == Restart {
                    restarts.push(now);
                }
                assert_eq!(decide(&strategy, &mut recent, at(now)).directive, expected);
                assert!(recent.len() <= max as usize);
            }
        }
    }
}
