//! `FuturesUnordered` over the join handles of spawned tasks.

use std::hint::black_box;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::task::{AbortHandle, JoinHandle};

use super::{Failed, Feed, Shape};
use crate::ground::{Place, timed};
use crate::peers::Peer;

pub const PEER: Peer = Peer { group: Some(run), ..Peer::named("futures") };

/// It cannot be filled and read at once: both need it mutably.
fn run(place: Place, shape: Shape, ops: u64) -> Option<Duration> {
    let groups = async move {
        for _ in 0..ops / shape.tasks {
            group(shape).await;
        }
    };
    (shape.feed == Feed::First).then(|| place.run(timed(groups)))
}

type Handles = FuturesUnordered<JoinHandle<Result<u64, Failed>>>;

async fn group(shape: Shape) {
    let mut handles = Handles::new();
    let mut aborts = Vec::new();
    for n in 0..shape.tasks {
        if shape.limit.is_some_and(|limit| handles.len() >= limit) && !read_one(&mut handles, &mut aborts).await {
            break;
        }
        let handle = tokio::spawn(shape.task(n));
        if shape.fail_fast {
            aborts.push(handle.abort_handle());
        }
        handles.push(handle);
    }
    while !handles.is_empty() {
        read_one(&mut handles, &mut aborts).await;
    }
}

/// Reads a result. Returns false for a failure, after which all other tasks are aborted.
async fn read_one(handles: &mut Handles, aborts: &mut Vec<AbortHandle>) -> bool {
    let failed = matches!(black_box(handles.next().await), Some(Ok(Err(_))));
    if failed {
        aborts.drain(..).for_each(|abort| abort.abort());
    }
    !failed
}
