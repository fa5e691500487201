//! A scope owns tasks: it waits for all of them, and one failure cancels the rest.
//!
//! Run it with `cargo run --package pleach --example 03_scope`.

use pleach::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[tokio::main]
async fn main() -> Result<(), pleach::Error> {
    wait_for_all_tasks().await?;
    cancel_siblings_after_a_failure().await?;
    read_from_a_producer().await?;
    Ok(())
}

async fn wait_for_all_tasks() -> Result<(), pleach::Error> {
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
    println!("all ten tasks are done");
    Ok(())
}

async fn cancel_siblings_after_a_failure() -> Result<(), pleach::Error> {
    let scope = pleach::scope()?;
    let patient = scope.task().named("patient").launch(std::future::pending::<()>())?;
    let hasty = scope.task().named("hasty").launch(async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        Err("file not found")
    })?;

    let error = scope.wait_all().await.unwrap_err();
    println!("{error}");
    // The sibling was cancelled at its await. Its exit names the failure.
    let Exit::Cancelled(Cause::Failed(failure)) = patient.exited().await else { panic!("it should have been cancelled") };
    assert_eq!(failure.origin(), &hasty.path());
    // The scope now rejects launches and returns the future.
    assert!(scope.launch(async {}).is_err());
    Ok(())
}

async fn read_from_a_producer() -> Result<(), pleach::Error> {
    let scope = pleach::scope()?;
    // The channel holds two numbers. It closes when the producer ends.
    let mut squares = scope.produce(2, |mut out| async move {
        for n in 1..=5_u32 {
            out.send(n * n).await?;
        }
        Ok::<(), pleach::scope::Unreceived<u32>>(())
    })?;
    let mut sum = 0;
    while let Some(square) = squares.next().await {
        sum += square;
    }
    println!("sum of the squares: {sum}");
    assert_eq!(sum, 55);
    scope.wait_all().await?;
    Ok(())
}
