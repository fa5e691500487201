//! `FanOut`: how branches run side by side, and how their states are merged.

use crate::error::RunError;
use pleach_core::BoxError;
use std::fmt;
use std::time::Duration;

/// What a fan-out does with its branches. A plain function from the state before it and those of the branches to one state will
/// do:
///
/// ```
/// # use pleach::graph::FanOut;
/// let sum = FanOut::merge(|_before: u32, branches: Vec<u32>| branches.into_iter().sum()).limit(4);
/// let plain: FanOut<u32> = (|before: u32, branches: Vec<u32>| before + branches.len() as u32).into();
/// ```
///
/// The branches are in the order in which they were declared, whichever ended first. The merge must be a pure function: after a
/// crash it may run again.
pub struct FanOut<S> {
    pub(crate) merge: Merge<S>,
    pub(crate) limit: Option<usize>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) fail_fast: bool,
    pub(crate) spawned: bool,
}

/// How the states of the branches become one.
pub(crate) enum Merge<S> {
    /// All of them ended well.
    States(Box<dyn Fn(S, Vec<S>) -> Result<S, BoxError> + Send + Sync>),
    /// However they ended.
    Results(MergeResults<S>),
}

pub(crate) type MergeResults<S> = Box<dyn Fn(S, Vec<Result<S, RunError<S>>>) -> Result<S, BoxError> + Send + Sync>;

impl<S> FanOut<S> {
    /// Merges the state before the fan-out and those of all branches. A branch that fails fails the run.
    pub fn merge(merge: impl Fn(S, Vec<S>) -> S + Send + Sync + 'static) -> Self {
        Self::new(Merge::States(Box::new(move |before, branches| Ok(merge(before, branches)))))
    }

    /// As [`merge`](Self::merge), by a function that may fail.
    pub fn try_merge<E: Into<BoxError>>(merge: impl Fn(S, Vec<S>) -> Result<S, E> + Send + Sync + 'static) -> Self {
        Self::new(Merge::States(Box::new(move |before, branches| merge(before, branches).map_err(Into::into))))
    }

    /// Merges however the branches ended: each is its state, or why it has none. No branch cuts off another. Only the end of
    /// the whole run (a cancel, the iteration limit) is none of the merge's business.
    pub fn collect<E: Into<BoxError>>(
        merge: impl Fn(S, Vec<Result<S, RunError<S>>>) -> Result<S, E> + Send + Sync + 'static,
    ) -> Self {
        Self::new(Merge::Results(Box::new(move |before, branches| merge(before, branches).map_err(Into::into))))
    }

    fn new(merge: Merge<S>) -> Self {
        Self { merge, limit: None, timeout: None, fail_fast: true, spawned: false }
    }

    /// Runs at most so many branches at a time; the others wait in order.
    #[must_use]
    pub fn limit(mut self, branches: usize) -> Self {
        self.limit = Some(branches);
        self
    }

    /// Cuts off the branches that are not done by then. The run fails with [`RunFault::FanOutTimeout`](crate::RunFault::FanOutTimeout), or
    /// [`collect`](Self::collect) hears of it.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Whether the first branch that fails cuts off the others, which it does unless told. If not, they come to their ends, and
    /// then the first failure fails the run.
    #[must_use]
    pub fn fail_fast(mut self, fail_fast: bool) -> Self {
        self.fail_fast = fail_fast;
        self
    }

    /// Runs the nodes of the branches as tasks on the runtime, and so on several threads: for work that computes rather than
    /// waits. Without it the branches take turns in the task of the run.
    #[must_use]
    pub fn spawned(mut self) -> Self {
        self.spawned = true;
        self
    }
}

impl<S, F> From<F> for FanOut<S>
where
    F: Fn(S, Vec<S>) -> S + Send + Sync + 'static,
{
    fn from(merge: F) -> Self {
        Self::merge(merge)
    }
}

impl<S> fmt::Debug for FanOut<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, timeout, fail_fast, spawned, .. } = self;
        f.debug_struct("FanOut")
            .field("limit", limit)
            .field("timeout", timeout)
            .field("fail_fast", fail_fast)
            .field("spawned", spawned)
            .finish_non_exhaustive()
    }
}

/// Makes the states that the branches of a `map` begin with.
pub(crate) type MapItems<S> = Box<dyn Fn(&S) -> Vec<S> + Send + Sync>;
