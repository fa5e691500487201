//! No graph: plain async fns, called in turn. This is the lowest possible cost.

use std::hint::black_box;
use std::io;
use std::time::Duration;

use super::{Shape, State, step};
use crate::ground::{Place, timed};

#[inline(never)]
async fn node(state: State) -> io::Result<State> {
    Ok(step(state))
}

pub fn run(place: Place, shape: Shape, runs: u64) -> Option<Duration> {
    let visits = match shape {
        Shape::Line(nodes) | Shape::LineWithContext(nodes) => nodes as u64,
        Shape::Loop(turns) => turns,
        Shape::FanOut8 | Shape::Sleeps(_) => return None,
    };
    Some(place.run(timed(async move {
        for _ in 0..runs {
            let mut state = [0, 0];
            for _ in 0..visits {
                state = node(state).await.expect("a node does not fail");
            }
            black_box(state);
        }
    })))
}
