//! A scope owns what is started in it: it waits for all of it, and one failure cancels the rest. No actor, no system.
//!
//! Run it with `cargo run --package pleach --example 03_scope`.

use pleach::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[tokio::main]
async fn main() -> Result<(), pleach::Error> {
    everything_is_waited_for().await?;
    a_failure_cancels_the_siblings().await?;
    a_producer_fills_a_channel().await?;
    Ok(())
}

async fn everything_is_waited_for() -> Result<(), pleach::Error> {
    let scope = pleach::scope()?;
    let done = Arc::new(AtomicU32::new(0));
    for _ in 0..10 {
        let done = Arc::clone(&done);
        scope.launch(async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            done.fetch_add(1, Ordering::Relaxed);
        })?;
    }
    scope.wait_all().await?;
    assert_eq!(done.load(Ordering::Relaxed), 10);
    println!("all ten are done");
    Ok(())
}

async fn a_failure_cancels_the_siblings() -> Result<(), pleach::Error> {
    let scope = pleach::scope()?;
    let patient = scope.task().named("patient").launch(std::future::pending::<()>())?;
    let hasty = scope.task().named("hasty").launch(async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        Err("there was no time")
    })?;

    let error = scope.wait_all().await.unwrap_err();
    println!("{error}");
    // The sibling was cut off at its await, and its exit names what cut it off.
    let Exit::Cancelled(Cause::Failed(failure)) = patient.exited().await else { panic!("it should have been cancelled") };
    assert_eq!(failure.origin(), &hasty.path());
    // From then on the scope starts nothing, and hands back what it was given.
    assert!(scope.launch(async {}).is_err());
    Ok(())
}

async fn a_producer_fills_a_channel() -> Result<(), pleach::Error> {
    let scope = pleach::scope()?;
    // At most two numbers wait between the producer and whoever reads; the channel closes when the producer is done.
    let mut squares = scope.produce(2, |mut out| async move {
        for n in 1..=5_u32 {
            out.send(n * n).await?;
        }
        Ok::<(), pleach::Unreceived<u32>>(())
    })?;
    let mut sum = 0;
    while let Some(square) = squares.next().await {
        sum += square;
    }
    println!("the squares add up to {sum}");
    assert_eq!(sum, 55);
    scope.wait_all().await?;
    Ok(())
}
