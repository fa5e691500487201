//! Supervision: a worker that fails starts afresh, its mailbox and address stay, and no message is lost without a record.
//!
//! Run it with `cargo run --package pleach --example 02_supervised`.

use pleach::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Cannot stand an odd number the first time it sees one.
struct Picky {
    seen: Arc<AtomicU32>,
}

impl Actor for Picky {
    type Msg = u32;
    type Error = String;

    async fn handle(&mut self, number: u32, cx: &mut Context<Self>) -> Result<(), String> {
        let first_time = self.seen.fetch_max(number, Ordering::Relaxed) < number;
        match number % 2 {
            1 if first_time => Err(format!("{number} is odd, and this is incarnation {}", cx.incarnation())),
            _ => Ok(()),
        }
    }
}

fn picky() -> Props<Picky> {
    let seen = Arc::new(AtomicU32::new(0));
    Props::new(move || Picky { seen: Arc::clone(&seen) })
}

#[tokio::main]
async fn main() -> Result<(), pleach::Error> {
    let system = ActorSystem::new("crew")?;
    system.on_event(|event| {
        if let Event::Failed(failure) = event {
            println!("on record: {failure}");
        }
    });

    // One-for-one, five restarts a minute. The message that failed is skipped, and counted as failed.
    let crew = system.supervisor("crew", OneForOne::new().intensity(5, Duration::from_secs(60)))?;
    let skips = crew.spawn("skips", picky())?;
    (1..=4).try_for_each(|number| skips.tell(number))?;
    skips.close();
    assert_eq!(skips.exited().await, Exit::Closed);
    assert_eq!(skips.counts(), Counts { accepted: 4, handled: 2, failed: 2, dead_lettered: 0 });

    // Where the message is `Clone`, it may be tried again, by the next incarnation and before anything else.
    let retries = crew.spawn("retries", picky().retry(1))?;
    (1..=4).try_for_each(|number| retries.tell(number))?;
    retries.close();
    assert_eq!(retries.exited().await, Exit::Closed);
    assert_eq!(retries.counts(), Counts { accepted: 4, handled: 4, failed: 0, dead_lettered: 0 });

    // More failures than the supervisor allows: it gives up, the rest are dead letters, and the exit says why.
    let strict = system.supervisor("strict", OneForOne::new().intensity(1, Duration::from_secs(60)))?;
    let doomed = strict.spawn("doomed", picky())?;
    (1..=6).try_for_each(|number| doomed.tell(number))?;
    let exit = doomed.exited().await;
    println!("doomed {exit}; {}", doomed.counts());
    assert!(exit.failure().is_some_and(|failure| failure.restarts() == 1));
    assert_eq!(doomed.counts(), Counts { accepted: 6, handled: 1, failed: 2, dead_lettered: 3 });

    system.shutdown(Duration::from_secs(5)).await?;
    assert!(system.counts().is_settled());
    assert_eq!(system.failures(), 6);
    Ok(())
}
