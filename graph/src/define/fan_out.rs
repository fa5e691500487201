//! [`FanOut`]: how branches run in parallel, and how their states are merged.

use crate::error::RunError;
use pleach_core::BoxError;
use std::fmt;
use std::time::Duration;

/// The options of a fan-out: how its branches run and how their states are merged into one.
///
/// The merge function gets the state before the fan-out and the states of the branches, in the
/// order in which the branches were declared. It must be a pure function: after a crash it may run
/// again.
///
/// Defaults: no limit, no timeout, fail fast, all branches in the task of the run.
///
/// ```
/// use pleach::graph::FanOut;
///
/// let sum = FanOut::merge(|_before: u32, branches: Vec<u32>| branches.into_iter().sum()).limit(4);
/// // A plain merge function is a fan-out with default options.
/// let add: FanOut<u32> = (|before: u32, branches: Vec<u32>| before + branches[0]).into();
/// ```
pub struct FanOut<S> {
    pub(crate) merge: Merge<S>,
    pub(crate) limit: Option<usize>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) fail_fast: bool,
    pub(crate) spawned: bool,
}

/// Merges the states of the branches into one.
pub(crate) enum Merge<S> {
    /// Requires that every branch succeeded.
    States(Box<dyn Fn(S, Vec<S>) -> Result<S, BoxError> + Send + Sync>),
    /// Gets the result of each branch.
    Results(MergeResults<S>),
}

pub(crate) type MergeResults<S> = Box<dyn Fn(S, Vec<Result<S, RunError<S>>>) -> Result<S, BoxError> + Send + Sync>;

impl<S> FanOut<S> {
    /// Creates a fan-out with a merge function that cannot fail. A branch that fails ends the run.
    pub fn merge(merge: impl Fn(S, Vec<S>) -> S + Send + Sync + 'static) -> Self {
        Self::new(Merge::States(Box::new(move |before, branches| Ok(merge(before, branches)))))
    }

    /// Creates a fan-out with a merge function that can fail. Otherwise like
    /// [`merge`](Self::merge).
    ///
    /// # Errors
    /// If the function fails, the run ends with [`RunFault::Merge`](crate::RunFault::Merge).
    pub fn try_merge<E: Into<BoxError>>(merge: impl Fn(S, Vec<S>) -> Result<S, E> + Send + Sync + 'static) -> Self {
        Self::new(Merge::States(Box::new(move |before, branches| merge(before, branches).map_err(Into::into))))
    }

    /// Creates a fan-out whose merge function gets the result of each branch.
    ///
    /// A branch that fails does not cancel the others. Faults of the whole run, such as a cancel or
    /// the iteration limit, still end the run without a merge.
    pub fn collect<E: Into<BoxError>>(
        merge: impl Fn(S, Vec<Result<S, RunError<S>>>) -> Result<S, E> + Send + Sync + 'static,
    ) -> Self {
        Self::new(Merge::Results(Box::new(move |before, branches| merge(before, branches).map_err(Into::into))))
    }

    fn new(merge: Merge<S>) -> Self {
        Self { merge, limit: None, timeout: None, fail_fast: true, spawned: false }
    }

    /// Limits how many branches run at the same time. Default: no limit.
    ///
    /// The other branches wait and start in order. `compile` rejects a limit of 0.
    #[must_use]
    pub fn limit(mut self, branches: usize) -> Self {
        self.limit = Some(branches);
        self
    }

    /// Limits the time of the whole fan-out. Default: no limit.
    ///
    /// At the timeout the branches that are still running are cancelled. The run ends with
    /// [`RunFault::FanOutTimeout`](crate::RunFault::FanOutTimeout); with [`collect`](Self::collect)
    /// the merge function gets that fault as their result.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets whether the first branch that fails cancels the others. Default: `true`.
    ///
    /// With `false` the other branches run to their end; then the run ends with the first failure.
    #[must_use]
    pub fn fail_fast(mut self, fail_fast: bool) -> Self {
        self.fail_fast = fail_fast;
        self
    }

    /// Runs the nodes of the branches as tasks on the runtime, so that they use several threads.
    ///
    /// Use it for branches that compute. By default all branches take turns in the task of the run,
    /// which suits branches that wait for I/O.
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

/// Returns the first state of each branch of a `map`.
pub(crate) type MapItems<S> = Box<dyn Fn(&S) -> Vec<S> + Send + Sync>;
