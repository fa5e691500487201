//! Common uses of a group in one call: map all items, race, drain.

use crate::base::sorted::sort_by_key;
use crate::group::builder::GroupBuilder;
use crate::group::error::{GroupError, TaskError};
use crate::group::handle::Group;
use crate::group::task::TaskOutput;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;

/// All results of a group; returned by [`Group::drain`].
#[derive(Clone, Debug)]
pub struct Drained<T> {
    /// The values of the successful tasks, in completion order.
    pub values: Vec<T>,
    /// The errors of the other tasks, in completion order, including cancelled tasks.
    pub errors: Vec<TaskError>,
}

/// The reason why not all items were mapped.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum MapError {
    /// The group could not be built.
    Group(GroupError),
    /// The first task that failed, or the cancel of the group.
    Task(TaskError),
}

/// The reason why a race has no winner.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RaceError {
    /// The group could not be built.
    Group(GroupError),
    /// Every task failed or was cancelled. The errors are in completion order; empty if no task was
    /// given.
    NoWinner(Vec<TaskError>),
}

impl<T: Send + 'static> Group<T> {
    /// Closes the group and reads all results, values and errors.
    ///
    /// Not cancel safe: dropping this future loses the results read so far.
    pub async fn drain(&self) -> Drained<T> {
        self.close();
        let mut all = Drained { values: Vec::new(), errors: Vec::new() };
        while let Some(result) = self.next().await {
            match result {
                Ok(value) => all.values.push(value),
                Err(error) => all.errors.push(error),
            }
        }
        all
    }
}

impl<T: Send + 'static> GroupBuilder<T> {
    /// Runs `f` on every item with at most `limit` tasks at once. Returns the values in completion
    /// order.
    ///
    /// The first failure cancels the remaining tasks. No task runs any more when this returns.
    ///
    /// # Errors
    /// [`MapError::Group`] if the group cannot be built; [`MapError::Task`] with the first failure,
    /// or with the cause if the group was cancelled.
    ///
    /// ```
    /// # use pleach::CancelToken;
    /// # use pleach::group::GroupBuilder;
    /// # use pleach::runtime::Dispatcher;
    /// # let sim = Dispatcher::seeded(1);
    /// # let token = CancelToken::root(sim.runtime());
    /// # sim.simulate(async {
    /// let group = GroupBuilder::<usize>::under(&token);
    /// let lengths = group.try_map_all(["abc", "bcd"], 2, async |word| word.len()).await;
    /// assert_eq!(lengths, Ok(vec![3, 3]));
    /// # }).unwrap();
    /// ```
    pub async fn try_map_all<I, F>(
        self,
        items: impl IntoIterator<Item = I>,
        limit: usize,
        mut f: impl FnMut(I) -> F,
    ) -> Result<Vec<T>, MapError>
    where
        F: Future<Output: TaskOutput<T>> + Send + 'static,
    {
        let group = self.limit(limit).fail_fast(true).build().map_err(MapError::Group)?;
        for item in items {
            // The group rejects a task only after a cancel; `wait` returns the reason.
            if group.go(f(item)).await.is_err() {
                break;
            }
        }
        group.wait().await.map_err(MapError::Task)?;
        Ok(group.drain().await.values)
    }

    /// Runs `f` on every item like [`try_map_all`](Self::try_map_all). Returns the values in the
    /// order of the items.
    ///
    /// ```
    /// # use pleach::CancelToken;
    /// # use pleach::group::GroupBuilder;
    /// # use pleach::runtime::Dispatcher;
    /// # let sim = Dispatcher::seeded(1);
    /// # let token = CancelToken::root(sim.runtime());
    /// # sim.simulate(async {
    /// let group = GroupBuilder::<usize>::under(&token);
    /// let lengths = group.try_map_all_in_order(["a", "bcd"], 2, async |word| word.len()).await;
    /// assert_eq!(lengths, Ok(vec![1, 3]));
    /// # }).unwrap();
    /// ```
    pub async fn try_map_all_in_order<I, F>(
        self,
        items: impl IntoIterator<Item = I>,
        limit: usize,
        mut f: impl FnMut(I) -> F,
    ) -> Result<Vec<T>, MapError>
    where
        F: Future<Output: TaskOutput<T>> + Send + 'static,
    {
        let numbered = move |(at, item)| {
            let task = f(item);
            async move { task.await.into_result().map(|value| (at, value)) }
        };
        let mut values: Vec<(usize, T)> = self.of().try_map_all(items.into_iter().enumerate(), limit, numbered).await?;
        sort_by_key(&mut values, |(at, _)| *at);
        Ok(values.into_iter().map(|(_, value)| value).collect())
    }

    /// Runs all tasks and returns the first value. Cancels the other tasks without waiting for
    /// them.
    ///
    /// # Errors
    /// [`RaceError::Group`] if the group cannot be built; [`RaceError::NoWinner`] if no task
    /// returns a value.
    pub async fn race<F>(self, tasks: impl IntoIterator<Item = F>) -> Result<T, RaceError>
    where
        F: Future<Output: TaskOutput<T>> + Send + 'static,
    {
        let group = self.fail_fast(false).build().map_err(RaceError::Group)?;
        for task in tasks {
            if group.go(task).await.is_err() {
                break;
            }
        }
        group.close();
        let mut errors = Vec::new();
        while let Some(result) = group.next().await {
            match result {
                Ok(value) => return Ok(value),
                Err(error) => errors.push(error),
            }
        }
        Err(RaceError::NoWinner(errors))
    }
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(error) => write!(f, "{error}"),
            Self::Task(error) => write!(f, "cannot map all items: {error}"),
        }
    }
}

impl core::error::Error for MapError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Group(error) => Some(error),
            Self::Task(error) => Some(error),
        }
    }
}

impl fmt::Display for RaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(error) => write!(f, "{error}"),
            Self::NoWinner(errors) => match errors.first() {
                Some(first) => write!(f, "none of {} tasks returned a value; first error: {first}", errors.len()),
                None => f.write_str("cannot race without a task; pass at least one"),
            },
        }
    }
}

impl core::error::Error for RaceError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Group(error) => Some(error),
            Self::NoWinner(errors) => errors.first().map(|error| error as _),
        }
    }
}
