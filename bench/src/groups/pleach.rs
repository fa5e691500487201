//! pleach's `Group`, on the runtime and in place.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use pleach::group::{Group, GroupBuilder};
use pleach::{CancelToken, token};

use super::{Feed, Shape};
use crate::ground::{Place, timed};

pub fn run(place: Place, shape: Shape, ops: u64) -> Option<Duration> {
    Some(place.run(async move {
        let token = token().expect("the current thread has a runtime");
        timed(async move {
            for _ in 0..ops / shape.tasks {
                group(&token, shape).await;
            }
        })
        .await
    }))
}

fn builder(token: &CancelToken, shape: Shape) -> GroupBuilder<u64> {
    GroupBuilder::under(token).fail_fast(shape.fail_fast).limit(shape.limit.unwrap_or(usize::MAX))
}

async fn group(token: &CancelToken, shape: Shape) {
    let group = builder(token, shape).build().expect("the limit is not 0");
    match shape.feed {
        Feed::First => {
            fill(&group, shape).await;
            read(&group).await;
        }
        Feed::Joined => drop(tokio::join!(fill(&group, shape), read(&group))),
        Feed::TwoTasks => {
            let group = Arc::new(group);
            let filled = Arc::clone(&group);
            let filling = tokio::spawn(async move { fill(&filled, shape).await });
            read(&group).await;
            filling.await.expect("the task does not panic");
        }
    }
}

async fn fill(group: &Group<u64>, shape: Shape) {
    for n in 0..shape.tasks {
        // A group that failed takes no more tasks.
        if group.go(shape.task(n)).await.is_err() {
            break;
        }
    }
    group.close();
}

async fn read(group: &Group<u64>) {
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
