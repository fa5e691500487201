//! The floor of the graphs: a `Vec` of boxed async fns, awaited in turn.

use std::future::Future;
use std::hint::black_box;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use super::{NAP, Shape, State, step};
use crate::ground::{Place, timed};

type Stepping = Pin<Box<dyn Future<Output = io::Result<State>> + Send>>;
type Step = Box<dyn Fn(State) -> Stepping + Send + Sync>;

fn steps(count: usize) -> Vec<Step> {
    (0..count).map(|_| Box::new(|state| -> Stepping { Box::pin(async move { Ok(step(state)) }) }) as Step).collect()
}

pub fn run(place: Place, shape: Shape, runs: u64) -> Option<Duration> {
    Some(place.run(timed(async move {
        match shape {
            Shape::Line(nodes) | Shape::LineWithContext(nodes) => {
                let steps = steps(nodes);
                for _ in 0..runs {
                    black_box(in_turn(&steps).await.expect("a step does not fail"));
                }
            }
            Shape::Loop(turns) => {
                let steps = steps(1);
                for _ in 0..runs {
                    black_box(around(&steps[0], turns).await.expect("a step does not fail"));
                }
            }
            Shape::Sleeps(branches) => {
                for _ in 0..runs {
                    let sleeps: Vec<_> = (0..branches).map(|_| tokio::spawn(tokio::time::sleep(NAP))).collect();
                    for sleep in sleeps {
                        sleep.await.expect("a sleep does not fail");
                    }
                }
            }
            Shape::FanOut8 => {
                let steps = steps(10);
                for _ in 0..runs {
                    black_box(forked(&steps).await.expect("a step does not fail"));
                }
            }
        }
    })))
}

async fn in_turn(steps: &[Step]) -> io::Result<State> {
    let mut state = [0, 0];
    for step in steps {
        state = step(state).await?;
    }
    Ok(state)
}

async fn around(step: &Step, turns: u64) -> io::Result<State> {
    let mut state = [0, 0];
    while state[0] < turns {
        state = step(state).await?;
    }
    Ok(state)
}

async fn forked(steps: &[Step]) -> io::Result<State> {
    let state = steps[0]([0, 0]).await?;
    let branches = futures::future::join_all(steps[1..9].iter().map(|step| step(state))).await;
    let states = branches.into_iter().collect::<io::Result<Vec<State>>>()?;
    steps[9]([states.into_iter().map(|state| state[0]).sum(), 0]).await
}
