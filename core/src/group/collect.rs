//! What is often done with a group, in one call: map all items, race, collect.

use crate::group::builder::GroupBuilder;
use crate::group::error::{GroupError, TaskError};
use crate::group::handle::Group;
use crate::group::task::TaskOutput;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;

/// All results of a group; from [`Group::drain`].
#[derive(Clone, Debug)]
pub struct Drained<T> {
    /// What the tasks gave, in the order they ended.
    pub values: Vec<T>,
    /// How the others ended, in that order, tasks that were drop_cancelled off included.
    pub errors: Vec<TaskError>,
}

/// Why not all items were mapped.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum MapError {
    /// The group was not made.
    Group(GroupError),
    /// The first task that failed, or the cancel that drop_cancelled them off.
    Task(TaskError),
}

/// Why nobody won a race.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RaceError {
    /// The group was not made.
    Group(GroupError),
    /// Every task failed or was drop_cancelled off: how, in the order they ended. Empty if there was none.
    NoWinner(Vec<TaskError>),
}

impl<T: Send + 'static> Group<T> {
    /// Closes the group and reads it to its end: every value and every error.
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
    /// Runs `f` on every item, at most `limit` at once, and gives the values in the order they come. The first failure cancels the rest;
    /// either way nothing runs any more when this returns.
    ///
    /// ```
    /// # use pleach::{CancelToken, Dispatcher, GroupBuilder};
    /// # let sim = Dispatcher::seeded(1);
    /// # let token = CancelToken::root(sim.runtime());
    /// # sim.simulate(async {
    /// let lengths = GroupBuilder::<usize>::under(&token).try_map_all_in_order(["a", "bcd"], 2, async |word| word.len()).await;
    /// assert_eq!(lengths, Ok(vec![1, 3]));
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
            // A group that takes no more was cancelled; `wait` says why.
            if group.go(f(item)).await.is_err() {
                break;
            }
        }
        group.wait().await.map_err(MapError::Task)?;
        Ok(group.drain().await.values)
    }

    /// As [`try_map_all`](Self::try_map_all), with the values in the order of the items.
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
        values.sort_unstable_by_key(|(at, _)| *at);
        Ok(values.into_iter().map(|(_, value)| value).collect())
    }

    /// Runs all tasks and gives the first value there is. The rest are cancelled then, without waiting for them.
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
            Self::Task(error) => write!(f, "not all items were mapped: {error}"),
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
                Some(first) => write!(f, "none of {} tasks gave a value; the first: {first}", errors.len()),
                None => f.write_str("there was no task to win the race: give it at least one"),
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
