//! pleach's `Group`, on the runtime and in place.

use std::hint::black_box;
use std::time::Duration;

use pleach::group::GroupBuilder;
use pleach::{CancelToken, token};

use super::Shape;
use crate::ground::{Place, timed};

pub fn run(place: Place, shape: Shape, ops: u64) -> Duration {
    place.run(async move {
        let token = token().expect("the current thread has a runtime");
        timed(async move {
            for _ in 0..ops / shape.tasks {
                group(&token, shape).await;
            }
        })
        .await
    })
}

fn builder(token: &CancelToken, shape: Shape) -> GroupBuilder<u64> {
    GroupBuilder::under(token).fail_fast(shape.fail_fast).limit(shape.limit.unwrap_or(usize::MAX))
}

async fn group(token: &CancelToken, shape: Shape) {
    let group = builder(token, shape).build().expect("the limit is not 0");
    for n in 0..shape.tasks {
        // A group that failed takes no more tasks.
        if group.go(shape.task(n)).await.is_err() {
            break;
        }
    }
    group.close();
    while let Some(result) = group.next().await {
        black_box(result).ok();
    }
}

pub fn in_place(place: Place, shape: Shape, ops: u64) -> Duration {
    place.run(async move {
        let token = token().expect("the current thread has a runtime");
        timed(async move {
            for _ in 0..ops / shape.tasks {
                let group = builder(&token, shape).in_place().expect("the limit is not 0");
                for n in 0..shape.tasks {
                    group.try_go(shape.task(n)).expect("the group has no limit");
                }
                group.close();
                while let Some(result) = group.next().await {
                    black_box(result).ok();
                }
            }
        })
        .await
    })
}
