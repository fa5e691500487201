//! [`Injector`]: decides which operations of one simulation get a fault, and records them.
//!
//! Below its bounds (`at_most`, and the largest number of faults), whether an operation gets a
//! fault depends only on the seed, the rules, the site and the number of the operation at its
//! site. So a fault does not move when others are left out, and the random numbers of the schedule
//! are not used up.
//!
//! A *replay* has a list of faults. It injects exactly those, whatever the rates say.

use crate::runtime::{Instant, Random};
use crate::sim::faults::fault::{DELAY_MAX_DEFAULT, When};
use crate::sim::faults::injected::FaultId;
use crate::sim::faults::kind::SiteKind;
use crate::sim::faults::{Fault, FaultKind, Faults, InjectedFault};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many faults one simulation gets at most.
pub const INJECTED_MAX: usize = 4_096;

/// A fault that the caller must apply now.
pub(in crate::sim) struct Decision {
    pub(in crate::sim) kind: FaultKind,
    /// A delay for kinds that have one: at least 1 ns.
    pub(in crate::sim) delay: Duration,
    /// A choice for kinds that have two outcomes.
    pub(in crate::sim) coin: bool,
    /// Names the fault in errors.
    pub(in crate::sim) text: String,
}

/// Decides and records the faults of one simulation.
pub(in crate::sim) struct Injector {
    seed: u64,
    /// The faults of a replay.
    replayed: Option<Vec<FaultId>>,
    state: Mutex<Injected>,
}

#[derive(Default)]
struct Injected {
    rules: Vec<Rule>,
    /// The operations so far at each site.
    numbers: HashMap<(SiteKind, String), u64>,
    injected: Vec<InjectedFault>,
    /// Actors that get no fault: probes.
    exempt: Vec<String>,
    /// A tree was made without faults of handlers.
    has_plain_tree: bool,
}

struct Rule {
    fault: Fault,
    /// The operations so far in its scope.
    operations: u64,
    count: u32,
}

impl Injector {
    pub(in crate::sim) fn new(seed: u64, replayed: Option<Vec<FaultId>>) -> Self {
        Self { seed, replayed, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, Injected> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds rules. Returns false if a tree exists that cannot get their faults.
    pub(in crate::sim) fn add(&self, faults: Faults) -> bool {
        let mut state = self.state();
        let is_late = state.has_plain_tree && faults.0.iter().any(|fault| fault.kind.site_kind() == SiteKind::Handler);
        state.rules.extend(faults.0.into_iter().map(|fault| Rule { fault, operations: 0, count: 0 }));
        !is_late
    }

    /// Returns whether faults at sites of this kind are possible.
    pub(in crate::sim) fn may_hit(&self, at: SiteKind) -> bool {
        let replays = self.replayed.iter().flatten().any(|id| id.kind.site_kind() == at);
        replays || self.state().rules.iter().any(|rule| rule.fault.kind.site_kind() == at)
    }

    /// As [`may_hit`](Self::may_hit) for the handlers of a tree that is being made.
    pub(in crate::sim) fn hits_new_tree(&self) -> bool {
        let hits = self.may_hit(SiteKind::Handler);
        self.state().has_plain_tree |= !hits;
        hits
    }

    /// Exempts an actor from all faults.
    pub(in crate::sim) fn exempt(&self, actor: String) {
        self.state().exempt.push(actor);
    }

    /// Returns the faults so far, in the order in which they happened.
    pub(in crate::sim) fn injected(&self) -> Vec<InjectedFault> {
        self.state().injected.clone()
    }

    /// Counts one operation and decides whether it gets a fault. `is_internal`: only a rule with a
    /// scope hits it.
    pub(in crate::sim) fn decide(&self, at: SiteKind, site: &str, is_internal: bool, now: Instant) -> Option<Decision> {
        let mut state = self.state();
        if at == SiteKind::Handler && state.exempt.iter().any(|actor| actor == site) {
            return None;
        }
        let number = state.numbers.entry((at, site.to_string())).or_default();
        *number += 1;
        let number = *number;
        let is_full = state.injected.len() >= INJECTED_MAX;
        let (kind, delay_max) = match &self.replayed {
            Some(replayed) => self.replay(replayed, &state, at, site, number)?,
            None => self.first_rule(&mut state.rules, at, site, number, is_internal, !is_full)?,
        };
        state.injected.push(InjectedFault { kind, site: site.to_string(), number, at: now });
        let mut random = self.random(kind, site, number);
        // The first number was used for the rate.
        let (_, of_delay, of_coin) = (random.next_u64(), random.next_u64(), random.next_u64());
        let nanos = u64::try_from(delay_max.as_nanos()).unwrap_or(u64::MAX).max(1);
        let text = format!("injected fault {kind} at {site}, operation {number}");
        Some(Decision { kind, delay: Duration::from_nanos(1 + of_delay % nanos), coin: of_coin & 1 == 1, text })
    }

    /// Returns the fault that the replay has for this operation.
    fn replay(
        &self,
        replayed: &[FaultId],
        state: &Injected,
        at: SiteKind,
        site: &str,
        number: u64,
    ) -> Option<(FaultKind, Duration)> {
        let id = replayed.iter().find(|id| id.kind.site_kind() == at && id.number == number && id.site == site)?;
        let rule = state.rules.iter().find(|rule| rule.fault.kind == id.kind && rule.fault.contains(site));
        Some((id.kind, rule.map_or(DELAY_MAX_DEFAULT, |rule| rule.fault.delay_max)))
    }

    /// Counts the operation for each rule, and returns the fault of the first rule that hits it.
    fn first_rule(
        &self,
        rules: &mut [Rule],
        at: SiteKind,
        site: &str,
        number: u64,
        is_internal: bool,
        may_inject: bool,
    ) -> Option<(FaultKind, Duration)> {
        let mut hit = None;
        for rule in rules {
            let fault = &rule.fault;
            let is_in_scope = fault.contains(site) && (fault.scope.is_some() || !is_internal);
            if fault.kind.site_kind() != at || !is_in_scope {
                continue;
            }
            rule.operations += 1;
            let is_due = match fault.when {
                When::Nth(nth) => rule.operations == nth,
                When::Rate(rate) => fraction(self.random(fault.kind, site, number).next_u64()) < rate,
            };
            if hit.is_none() && is_due && may_inject && rule.count < fault.count_max {
                rule.count += 1;
                hit = Some((fault.kind, fault.delay_max));
            }
        }
        hit
    }

    /// Returns the random numbers of one operation.
    fn random(&self, kind: FaultKind, site: &str, number: u64) -> Random {
        // FNV-1a: the same in every process and on every machine.
        let bytes = kind.as_str().bytes().chain([0]).chain(site.bytes()).chain(number.to_le_bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Random::seeded(hash ^ Random::seeded(self.seed).next_u64())
    }
}

/// Returns a number from 0 to below 1.
fn fraction(number: u64) -> f64 {
    (number >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds_of(injector: &Injector, site: &str, operations: u64) -> Vec<u64> {
        let hits = |_: &u64| injector.decide(SiteKind::Store, site, false, Instant::ZERO).is_some();
        (1..=operations).filter(hits).collect()
    }

    #[test]
    fn d5_rate_bound_and_nth_choose_the_operations() {
        let injector = Injector::new(1, None);
        assert!(injector.add(FaultKind::StoreFails.rate(0.1).on("commit").at_most(1_000).into()));
        let hits = kinds_of(&injector, "commit", 10_000);
        assert!((800..1_000).contains(&hits.len()) || hits.len() == 1_000, "{}", hits.len());
        assert_eq!(kinds_of(&injector, "claim", 1_000), Vec::<u64>::new());

        let injector = Injector::new(1, None);
        injector.add([FaultKind::StoreFails.nth(3).on("commit"), FaultKind::AnswerLost.rate(1.0).at_most(2)].into());
        assert_eq!(kinds_of(&injector, "commit", 10), [1, 2, 3]);
        let injected: Vec<_> = injector.injected().iter().map(ToString::to_string).collect();
        assert_eq!(injected, ["answer-lost:commit#1", "answer-lost:commit#2", "store-fails:commit#3"]);
    }

    #[test]
    fn d5_fault_stays_when_others_are_left_out() {
        let sampled = Injector::new(9, None);
        sampled.add(FaultKind::StoreFails.rate(0.2).at_most(50).into());
        kinds_of(&sampled, "commit", 50);
        let all = sampled.injected();
        assert!(all.len() > 3);
        let one = all[2].id();
        let replay = Injector::new(9, Some([one.clone()].into()));
        assert_eq!(kinds_of(&replay, "commit", 50), [one.number]);
        assert_eq!(replay.injected()[0].id(), one);
    }
}
