//! tokio-util's `TaskTracker`, with an mpsc channel for the results, a semaphore for the limit and
//! a token for fail-fast.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Failed, Feed, Shape};
use crate::ground::{Place, timed};
use crate::peers::Peer;

pub const PEER: Peer = Peer { group: Some(run), ..Peer::named("tracker") };

fn run(place: Place, shape: Shape, ops: u64) -> Option<Duration> {
    Some(place.run(timed(async move {
        for _ in 0..ops / shape.tasks {
            group(shape).await;
        }
    })))
}

type Answer = Option<Result<u64, Failed>>;

async fn group(shape: Shape) {
    let tracker = TaskTracker::new();
    let (send, results) = mpsc::unbounded_channel();
    match shape.feed {
        Feed::First => {
            fill(tracker.clone(), send, shape).await;
            read(results).await;
        }
        Feed::Joined => drop(tokio::join!(fill(tracker.clone(), send, shape), read(results))),
        Feed::TwoTasks => {
            let filling = tokio::spawn(fill(tracker.clone(), send, shape));
            read(results).await;
            filling.await.expect("the task does not panic");
        }
    }
    tracker.wait().await;
}

async fn fill(tracker: TaskTracker, send: UnboundedSender<Answer>, shape: Shape) {
    let slots = Arc::new(Semaphore::new(shape.limit.unwrap_or(Semaphore::MAX_PERMITS)));
    let token = CancellationToken::new();
    for n in 0..shape.tasks {
        if shape.fail_fast && token.is_cancelled() {
            break;
        }
        let slot = match shape.limit {
            Some(_) => Some(Arc::clone(&slots).acquire_owned().await.expect("the semaphore is open")),
            None => None,
        };
        let (send, token) = (send.clone(), token.clone());
        tracker.spawn(async move {
            let result = if shape.fail_fast {
                tokio::select! {
                    result = shape.task(n) => Some(result),
                    () = token.cancelled() => None,
                }
            } else {
                Some(shape.task(n).await)
            };
            if matches!(result, Some(Err(_))) {
                token.cancel();
            }
            drop(slot);
            // The reader waits until the last sender is dropped.
            drop(send.send(result));
        });
    }
    tracker.close();
}

async fn read(mut results: UnboundedReceiver<Answer>) {
    while let Some(result) = results.recv().await {
        black_box(result);
    }
}
