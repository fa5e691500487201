//! [`RateSampler`]: messages per second, from counts that actors keep anyway.
//!
//! The observer drives it: each pass walks a subtree, a part at a time, and compares the counts
//! with the counts of earlier passes. Between passes it costs nothing, and an actor does no work
//! for it.
//!
//! Bounds: one sum per pass for the last 60 s, at most one per [`SUM_EVERY`], and the counts of the
//! last pass for a limited number of members.

use crate::base::sync::Arc;
use crate::base::time::Instant;
use crate::events::counts::Counts;
use crate::tree::any_ref::AnyRef;
use crate::tree::walk::{Step, Walk};
use alloc::collections::VecDeque;
use core::fmt;
use core::time::Duration;
use hashbrown::HashMap;

/// How many members a [`RateSampler`] keeps the counts of, unless another number is set.
pub const RATES_TRACKED_DEFAULT: usize = 262_144;

/// The shortest time between two kept sums.
const SUM_EVERY: Duration = Duration::from_millis(500);

/// How far the sums go back.
const SUMS_FOR: Duration = Duration::from_secs(60);

/// How many messages per second had which outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct CountRates {
    /// How many messages were accepted per second.
    pub accepted: f64,
    /// How many messages were handled per second.
    pub handled: f64,
    /// How many messages failed per second.
    pub failed: f64,
    /// How many messages became dead letters per second.
    pub dead_lettered: f64,
}

/// The message rates of a member and everything below it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Rates {
    /// Over the last 10 s, or over the time sampled so far if that is shorter. `None` before the
    /// second pass.
    pub last_10s: Option<CountRates>,
    /// The same over the last 60 s.
    pub last_60s: Option<CountRates>,
    /// The time between the first kept pass and the last one.
    #[cfg_attr(feature = "serde", serde(rename = "sampled_for_us", with = "crate::inspect::serde_impls::micros"))]
    pub sampled_for: Duration,
}

/// Computes rates from the counts of a subtree, when its owner calls it.
///
/// Call [`pass`](Self::pass) about once a second, or [`advance`](Self::advance) to visit a large
/// subtree in parts.
///
/// ```
/// use pleach::BoxError;
/// use pleach::inspect::RateSampler;
/// use pleach::prelude::*;
/// use pleach::runtime::Dispatcher;
/// use pleach::system::System;
///
/// let sim = Dispatcher::seeded(1);
/// let system = System::builder("shop", sim.runtime()).build().unwrap();
/// let till = system.spawn("till", Props::from_fn(|| (), |_, _: u32| Ok::<(), BoxError>(()))).unwrap();
/// let mut sampler = RateSampler::new(till.any());
/// sampler.pass();
/// (0..50).for_each(|n| till.tell(n).unwrap());
/// let runtime = sim.runtime();
/// sim.simulate(runtime.sleep_until(runtime.now() + Duration::from_secs(5))).unwrap();
/// sampler.pass();
/// let handled = sampler.rates().last_10s.unwrap().handled;
/// assert!((9.0..=10.0).contains(&handled), "50 messages in 5 s: {handled}");
/// ```
pub struct RateSampler {
    start: AnyRef,
    tracked_max: usize,
    /// The sums of earlier passes, oldest first.
    sums: VecDeque<(Instant, Counts)>,
    last: Pass,
    /// The pass before the last one.
    before: Option<Pass>,
    passes: u64,
    /// The pass that is under way.
    current: Option<(Walk, Pass)>,
}

#[derive(Default)]
struct Pass {
    sum: Counts,
    /// When it ended.
    at: Instant,
    /// Accepted and handled messages by member, of members that have accepted any.
    members: HashMap<u64, (u64, u64)>,
    /// Some members did not fit.
    is_partial: bool,
}

impl Pass {
    fn track(&mut self, number: u64, counts: Counts, tracked_max: usize) {
        if counts.accepted == 0 {
            return;
        }
        if self.members.len() < tracked_max {
            self.members.insert(number, (counts.accepted, counts.handled));
        } else {
            self.is_partial = true;
        }
    }
}

impl RateSampler {
    /// Creates a sampler of `start` and everything below it, which tracks up to 262,144 members.
    pub fn new(start: AnyRef) -> Self {
        Self {
            start,
            tracked_max: RATES_TRACKED_DEFAULT,
            sums: VecDeque::new(),
            last: Pass::default(),
            before: None,
            passes: 0,
            current: None,
        }
    }

    /// Sets how many members have their own rate. 0 keeps only the rates of the whole subtree.
    #[must_use]
    pub fn tracked(mut self, members: usize) -> Self {
        self.tracked_max = members;
        self
    }

    /// Makes a whole pass over the subtree.
    pub fn pass(&mut self) {
        while !self.advance(usize::MAX) {}
    }

    /// Visits up to `members` further members. Returns true if that finished the pass; the next
    /// call begins another one.
    pub fn advance(&mut self, members: usize) -> bool {
        let node = self.start.member.node();
        let start = || (Walk::new(Arc::clone(&self.start.member), usize::MAX), Pass::default());
        let (mut walk, mut pass) = self.current.take().unwrap_or_else(start);
        let mut visited = 0;
        while visited < members.max(1) {
            match walk.step() {
                Step::Visit(member, _) => {
                    visited += 1;
                    let counts = member.counts();
                    pass.sum += counts;
                    pass.sum += member.node().ended_counts();
                    pass.track(member.node().number(), counts, self.tracked_max);
                }
                Step::Nothing => visited += 1,
                Step::End => {
                    pass.at = node.runtime().now();
                    self.finish(pass);
                    return true;
                }
            }
        }
        self.current = Some((walk, pass));
        false
    }

    fn finish(&mut self, pass: Pass) {
        let is_due = self.sums.back().is_none_or(|(at, _)| pass.at.since(*at) >= SUM_EVERY);
        if is_due {
            self.sums.push_back((pass.at, pass.sum));
        }
        // One sum from before the window stays, so that the window is covered whole.
        while self.sums.get(1).is_some_and(|(at, _)| pass.at.since(*at) >= SUMS_FOR) {
            self.sums.pop_front();
        }
        let before = core::mem::replace(&mut self.last, pass);
        self.before = (self.passes > 0).then_some(before);
        self.passes += 1;
    }

    /// Returns the rates of the whole subtree.
    pub fn rates(&self) -> Rates {
        let Some((first, _)) = self.sums.front() else { return Rates::default() };
        let over = |window| self.over(window);
        Rates { last_10s: over(Duration::from_secs(10)), last_60s: over(SUMS_FOR), sampled_for: self.last.at.since(*first) }
    }

    /// Returns the counts of the subtree at the last pass.
    pub fn counts(&self) -> Counts {
        self.last.sum
    }

    /// Returns accepted and handled messages per second of one member, between the last two passes.
    /// `None` if it has accepted no message, or is not tracked.
    pub fn rate_of(&self, id: u64) -> Option<(f64, f64)> {
        let (now, before) = (self.last.members.get(&id)?, self.before.as_ref()?);
        let is_new = || (!before.is_partial).then_some((0, 0));
        let then = before.members.get(&id).copied().or_else(is_new)?;
        let seconds = self.last.at.since(before.at).as_secs_f64();
        let per_second = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        (seconds > 0.0).then(|| (per_second(now.0, then.0), per_second(now.1, then.1)))
    }

    /// Returns the rates since the newest sum that is at least `window` old, else since the oldest.
    fn over(&self, window: Duration) -> Option<CountRates> {
        let is_old = |(at, _): &&(Instant, Counts)| self.last.at.since(*at) >= window;
        let (at, then) = self.sums.iter().rev().find(is_old).or(self.sums.front())?;
        let (seconds, now) = (self.last.at.since(*at).as_secs_f64(), self.last.sum);
        let per_second = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        (seconds > 0.0).then(|| CountRates {
            accepted: per_second(now.accepted, then.accepted),
            handled: per_second(now.handled, then.handled),
            failed: per_second(now.failed, then.failed),
            dead_lettered: per_second(now.dead_lettered, then.dead_lettered),
        })
    }
}

impl fmt::Debug for RateSampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateSampler").field("start", &self.start).field("rates", &self.rates()).finish_non_exhaustive()
    }
}
