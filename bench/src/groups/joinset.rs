//! The floor: Tokio's `JoinSet`, with a limit and fail-fast as users write them by hand. In place:
//! `FuturesUnordered`.

use std::hint::black_box;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::task::{JoinError, JoinSet};

use super::{Failed, Shape};
use crate::ground::{Place, timed};

/// A `JoinSet` cannot be filled and read at once: both need it mutably. Its loops run one after the
/// other in every shape.
pub fn run(place: Place, shape: Shape, ops: u64) -> Option<Duration> {
    Some(place.run(timed(async move {
        for _ in 0..ops / shape.tasks {
            group(shape).await;
        }
    })))
}

type Joined = Result<Result<u64, Failed>, JoinError>;

async fn group(shape: Shape) {
    let mut set = JoinSet::new();
    for n in 0..shape.tasks {
        if shape.limit.is_some_and(|limit| set.len() >= limit)
            && let Some(joined) = set.join_next().await
            && !read(joined)
        {
            set.abort_all();
            break;
        }
        set.spawn(shape.task(n));
    }
    while let Some(joined) = set.join_next().await {
        if !read(joined) {
            set.abort_all();
        }
    }
}

/// Returns false for a failed task.
fn read(joined: Joined) -> bool {
    !matches!(black_box(joined), Ok(Err(_)))
}

pub fn in_place(place: Place, shape: Shape, ops: u64) -> Duration {
    place.run(timed(async move {
        for _ in 0..ops / shape.tasks {
            let mut tasks: FuturesUnordered<_> = (0..shape.tasks).map(|n| shape.task(n)).collect();
            while let Some(result) = tasks.next().await {
                black_box(result).ok();
            }
        }
    }))
}
