//! [`Lane`]: moves one token. It owns the position, the state and the current attempt.
//!
//! | phase | meaning | next |
//! |---|---|---|
//! | `Start` | before a node | `Attempt` |
//! | `Attempt` | before an attempt at the node | `Running` |
//! | `Running` | an attempt is pending | `Committing`, `Waiting`, or the next `Start` |
//! | `Waiting` | backoff before the next attempt | `Attempt` |
//! | `Committing` | its last record is not durable yet | `Start`, `Attempt`, a fan-out, failed |
//! | `Forking` | a fan-out follows, but is not open yet | `Forked` |
//! | `Forked` | waits for its fan-out | `Start` at the join |
//! | `NodeDone` | resumed after the node, before its router | as after `Running` |
//! | `Ended`, `Failed` | resumed after its end | arrived or failed at once |

use crate::control::RestoredWaits;
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

/// The execution of one token. It is small, because a wide fan-out has many: rare parts are boxed.
pub(super) struct Lane<S> {
    pub(super) phase: Phase<S>,
    /// The current node.
    pub(super) at: u32,
    /// The state, while no node has it.
    pub(super) state: Option<S>,
    /// A clone of the state before the node, if a policy or `keep_state` needs one.
    pub(super) cloned_state: Option<Box<S>>,
    pub(super) attempt: u32,
    /// The number of visits that led here one after the other, this one included. It counts through
    /// subgraphs and through the longest branch of a fan-out.
    pub(super) iteration: u64,
    pub(super) token: TokenId,
    pub(super) path: BranchPath,
    /// The target where the lane ends: the join of its fan-out.
    pub(super) join: Target,
    /// The open fan-out that it belongs to, as an index from 1. Its token has the branch number.
    pub(super) fan_out: Option<NonZeroU32>,
    /// Its nodes run as separate tasks.
    pub(super) spawned: bool,
    /// The records of the current visit, if the full path needs them.
    pub(super) visit: Option<Box<LaneVisit>>,
}

/// The data of a lane about its current visit.
#[derive(Default)]
pub(super) struct LaneVisit {
    pub(super) records: Arc<VisitRecords>,
    /// The state before the node, encoded as it is stored.
    pub(super) before: Option<Vec<u8>>,
    /// Ends the health reports of its restored waits with the visit.
    pub(super) _restored_waits: Option<RestoredWaits>,
}

pub(super) enum Phase<S> {
    /// Before a node.
    Start,
    /// Before an attempt at the node.
    Attempt,
    Running(RunningAttempt<S>),
    /// Waits for the next attempt.
    Waiting(BoxFuture<'static, ()>),
    /// After a node whose commit has this sequence number, before its fan-out opens.
    Forking(u64),
    /// Waits for the fan-out at this index.
    Forked(usize),
    /// Waits until its last record is durable.
    Committing(Box<Committing<S>>),
    /// After a completed node, before its router. A run whose router failed is resumed here.
    NodeDone,
    /// The lane had arrived before the run was resumed.
    Ended,
    /// The node had failed permanently before the run was resumed.
    Failed(RunError<S>),
}

/// A submitted record, and the step after its commit.
pub(super) struct Committing<S> {
    pub(super) sequence: u64,
    pub(super) then: AfterCommit<S>,
}

pub(super) enum AfterCommit<S> {
    /// Continue at the target, or arrive.
    Place(Target),
    /// Start a fan-out; for a `map` with these states.
    Fork(Option<Vec<S>>),
    /// Start another attempt, at the time that the record of the last one says.
    TryAgain,
    Fail(RunError<S>),
}

/// An attempt that did not end in its first poll.
pub(super) struct RunningAttempt<S> {
    pub(super) work: AttemptWork<S>,
    /// `None` for most attempts.
    pub(super) limits: Option<Box<AttemptLimits>>,
}

/// The time limits of an attempt.
#[derive(Default)]
pub(super) struct AttemptLimits {
    pub(super) timer: Option<Timer>,
    /// The timer ended the attempt. A node may also return [`Elapsed`] itself.
    pub(super) is_timed_out: bool,
    pub(super) grace: Option<AttemptGrace>,
}

/// How long an attempt may continue after a cancel.
pub(super) struct AttemptGrace {
    pub(super) length: Duration,
    /// The token of this attempt, because its branch may be cancelled alone.
    pub(super) token: CancelToken,
}

/// The timer of an attempt, and its length for the error.
pub(super) type Timer = (BoxFuture<'static, ()>, Duration);

pub(super) enum AttemptWork<S> {
    InPlace(NodeFuture<S>),
    Spawned(Box<Spawned<S>>),
}

/// The result of an attempt.
pub(super) type AttemptResult<S> = Result<S, Reason>;

impl<S: Send + 'static> Lane<S> {
    #[inline]
    pub(super) fn new(at: u32, state: Option<S>, token: TokenId, path: BranchPath, join: Target) -> Self {
        Self {
            phase: Phase::Start,
            at,
            state,
            cloned_state: None,
            attempt: 1,
            iteration: 0,
            token,
            path,
            join,
            fan_out: None,
            spawned: false,
            visit: None,
        }
    }

    /// Creates the lane in which a run starts, after the commit with this sequence number.
    #[inline]
    pub(super) fn root(at: u32, sequence: u64, state: Option<S>) -> Self {
        Self::new(at, state, TokenId { sequence, branch: 0 }, BranchPath::default(), Target::End)
    }

    /// Moves to the target of the record `sequence`. Returns whether the lane has arrived.
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

    /// Adds the visits inside a subgraph to the count of this lane.
    pub(super) fn count_inside(&mut self) {
        if let Some(visit) = &self.visit {
            self.iteration = self.iteration.max(visit.records.lock().iteration_inside);
        }
    }

    /// Takes the clone of the state before the node, if any.
    pub(super) fn take_cloned_state(&mut self) -> Option<S> {
        self.cloned_state.take().map(|state| *state)
    }

    /// Returns whether the lane only waits: for an answer, a signal, a time, or its next attempt.
    pub(super) fn is_parked(&self) -> bool {
        match self.phase {
            Phase::Running(_) => self.visit.as_ref().is_some_and(|visit| visit.records.is_parked()),
            Phase::Waiting(_) => true,
            _ => false,
        }
    }

    /// Returns whether a pause may hold the lane here.
    pub(super) fn is_before_attempt(&self) -> bool {
        matches!(self.phase, Phase::Start | Phase::Attempt)
    }

    pub(super) fn is_executing(&self) -> bool {
        matches!(self.phase, Phase::Running(_))
    }

    /// Returns whether the timer ended the current attempt.
    pub(super) fn is_timed_out(&self) -> bool {
        matches!(&self.phase, Phase::Running(RunningAttempt { limits: Some(limits), .. }) if limits.is_timed_out)
    }

    /// Returns the cancel grace of the current attempt, if any.
    pub(super) fn grace(&self) -> Option<&AttemptGrace> {
        match &self.phase {
            Phase::Running(RunningAttempt { limits: Some(limits), .. }) => limits.grace.as_ref(),
            _ => None,
        }
    }

    /// Drops the current attempt. A panic in that drop counts as a panic of the node.
    pub(super) fn drop_attempt(&mut self) -> Result<(), Reason> {
        match std::mem::replace(&mut self.phase, Phase::Start) {
            Phase::Running(running) => catch_panic(|| drop(running)),
            _ => Ok(()),
        }
    }
}

impl<S: Send + 'static> RunningAttempt<S> {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<AttemptResult<S>> {
        let polled = match &mut self.work {
            AttemptWork::InPlace(work) => match catch_panic(|| work.as_mut().poll(cx)) {
                Ok(polled) => polled.map_err(Reason::Error),
                Err(reason) => Poll::Ready(Err(reason)),
            },
            AttemptWork::Spawned(spawned) => spawned.poll(cx),
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
    fn lane_is_small() {
        assert!(size_of::<Lane<[u64; 2]>>() <= 136, "{}", size_of::<Lane<[u64; 2]>>());
        assert_eq!(size_of::<Option<Lane<[u64; 2]>>>(), size_of::<Lane<[u64; 2]>>());
    }
}
