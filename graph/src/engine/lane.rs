//! `Lane`: moves one token. It has the position, the state and the current attempt.

use crate::define::node::NodeFuture;
use crate::define::shape::Target;
use crate::engine::spawned::Spawned;
use crate::error::RunError;
use crate::log::visit::VisitRecords;
use crate::token::{BranchPath, TokenId};
use pleach_core::{BoxFuture, CancelToken, Elapsed, Reason, catch_panic};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// One line of control. Kept small, since a wide fan-out has many: what few lanes have lies in boxes.
pub(super) struct Lane<S> {
    pub(super) phase: Phase<S>,
    /// The node it is at.
    pub(super) at: u32,
    /// The state, while no node has it.
    pub(super) state: Option<S>,
    /// The state before the node, where somebody wants it kept.
    pub(super) kept: Option<Box<S>>,
    pub(super) attempt: u32,
    /// How many visits led here, one after the other, this one included: through subgraphs, and through the longest branch of a fan-out.
    pub(super) iteration: u64,
    pub(super) token: TokenId,
    pub(super) path: BranchPath,
    /// Where it ends: the join of its fan-out.
    pub(super) join: Target,
    /// Its fan-out among the open ones, counted from 1; its branch there is in its token.
    pub(super) home: Option<NonZeroU32>,
    /// Its nodes run as tasks of their own.
    pub(super) spawned: bool,
    /// What was written down during this visit, where somebody may want to know.
    pub(super) visit: Option<Box<LaneVisit>>,
}

/// What a lane knows of the visit that it is at.
#[derive(Default)]
pub(super) struct LaneVisit {
    pub(super) records: Arc<VisitRecords>,
    /// The state before the node, as it is stored.
    pub(super) before: Option<Vec<u8>>,
}

pub(super) enum Phase<S> {
    /// Before a node.
    Start,
    /// Before an attempt at it.
    Attempt,
    Running(RunningAttempt<S>),
    /// Until the next attempt.
    Waiting(BoxFuture<'static, ()>),
    /// After a node that was committed so, before the fan-out that follows it.
    Forking(u64),
    /// Until its fan-out is joined.
    Forked(usize),
    /// Until what it wrote down is durable.
    Committing(Box<Committing<S>>),
    /// After a node that is done, before its router: so a run is resumed whose router had failed.
    Leaving,
    /// It had arrived before the run was resumed.
    Ended,
    /// Its node had failed for good before the run was resumed, so.
    Failed(RunError<S>),
}

/// What was written down, and what follows.
pub(super) struct Committing<S> {
    pub(super) sequence: u64,
    pub(super) then: AfterCommit<S>,
}

pub(super) enum AfterCommit<S> {
    /// On to the next node, or to the end.
    Place(Target),
    /// Branches begin, those of a `map` with these states.
    Fork(Option<Vec<S>>),
    /// Another attempt, when the record of the last says so.
    TryAgain,
    Fail(RunError<S>),
}

/// An attempt that has not ended at once.
pub(super) struct RunningAttempt<S> {
    pub(super) work: AttemptWork<S>,
    /// What few attempts have.
    pub(super) limits: Option<Box<AttemptLimits>>,
}

/// When an attempt is cut off.
#[derive(Default)]
pub(super) struct AttemptLimits {
    pub(super) timer: Option<Timer>,
    /// The timer has cut the attempt off. A node may also return [`Elapsed`] itself.
    pub(super) is_timed_out: bool,
    pub(super) grace: Option<CancelGrace>,
}

/// How long an attempt may run on after a cancel.
pub(super) struct CancelGrace {
    pub(super) length: Duration,
    /// The node's own token: its branch may be cut off alone.
    pub(super) token: CancelToken,
}

/// When an attempt is cut off, and after how long.
pub(super) type Timer = (BoxFuture<'static, ()>, Duration);

pub(super) enum AttemptWork<S> {
    Here(NodeFuture<S>),
    Elsewhere(Box<Spawned<S>>),
}

/// How an attempt ended.
pub(super) type AttemptResult<S> = Result<S, Reason>;

impl<S: Send + 'static> Lane<S> {
    #[inline]
    pub(super) fn new(at: u32, state: Option<S>, token: TokenId, path: BranchPath, join: Target) -> Self {
        Self {
            phase: Phase::Start,
            at,
            state,
            kept: None,
            attempt: 1,
            iteration: 0,
            token,
            path,
            join,
            home: None,
            spawned: false,
            visit: None,
        }
    }

    /// Goes on at `to`, where `sequence` placed it. Whether it has arrived.
    pub(super) fn place(&mut self, to: Target, sequence: u64) -> bool {
        self.token.sequence = sequence;
        self.phase = Phase::Start;
        match to {
            Target::Node(node) if to != self.join => {
                self.at = node;
                false
            }
            _ => true,
        }
    }

    /// The visits inside a subgraph belong to the line of control that it is on.
    pub(super) fn count_inside(&mut self) {
        if let Some(visit) = &self.visit {
            self.iteration = self.iteration.max(visit.records.lock().iteration_inside);
        }
    }

    /// The state before the node, if it was kept.
    pub(super) fn take_kept(&mut self) -> Option<S> {
        self.kept.take().map(|kept| *kept)
    }

    /// Whether it does nothing but wait: its node for an answer, a signal or a time, or itself until the next attempt.
    pub(super) fn is_parked(&self) -> bool {
        match self.phase {
            Phase::Running(_) => self.visit.as_ref().is_some_and(|visit| visit.records.is_parked()),
            Phase::Waiting(_) => true,
            _ => false,
        }
    }

    /// Whether it may be held: before a node, or before another attempt at it.
    pub(super) fn is_before_attempt(&self) -> bool {
        matches!(self.phase, Phase::Start | Phase::Attempt)
    }

    pub(super) fn is_executing(&self) -> bool {
        matches!(self.phase, Phase::Running(_))
    }

    /// Whether the attempt that it is at was cut off by its timer.
    pub(super) fn is_timed_out(&self) -> bool {
        matches!(&self.phase, Phase::Running(RunningAttempt { limits: Some(limits), .. }) if limits.is_timed_out)
    }

    /// The grace of the attempt that it is at, if it has one.
    pub(super) fn grace(&self) -> Option<&CancelGrace> {
        match &self.phase {
            Phase::Running(RunningAttempt { limits: Some(limits), .. }) => limits.grace.as_ref(),
            _ => None,
        }
    }

    /// Drops what is left of an attempt, as a part of it: a panic in that drop is a panic of the node.
    pub(super) fn put_down(&mut self) -> Result<(), Reason> {
        match std::mem::replace(&mut self.phase, Phase::Start) {
            Phase::Running(running) => catch_panic(|| drop(running)),
            _ => Ok(()),
        }
    }
}

impl<S: Send + 'static> RunningAttempt<S> {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<AttemptResult<S>> {
        let polled = match &mut self.work {
            AttemptWork::Here(work) => match catch_panic(|| work.as_mut().poll(cx)) {
                Ok(polled) => polled.map_err(Reason::Error),
                Err(reason) => Poll::Ready(Err(reason)),
            },
            AttemptWork::Elsewhere(spawned) => spawned.poll(cx),
        };
        if let (Poll::Pending, Some(limits)) = (&polled, &mut self.limits)
            && let Some((timer, timeout)) = &mut limits.timer
            && timer.as_mut().poll(cx).is_ready()
        {
            limits.is_timed_out = true;
            return Poll::Ready(Err(Reason::Error(Elapsed(*timeout).into())));
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_small() {
        assert!(size_of::<Lane<[u64; 2]>>() <= 136, "{}", size_of::<Lane<[u64; 2]>>());
        assert_eq!(size_of::<Option<Lane<[u64; 2]>>>(), size_of::<Lane<[u64; 2]>>());
    }
}
