//! Supervision: a failed actor restarts with a new state. Its mailbox and address stay.
//!
//! Run it with `cargo run --package pleach --example 02_supervised`.

use pleach::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Fails when it sees an odd number for the first time.
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
    let system = ActorSystem::new("numbers")?;
    system.on_event(|event| {
        if let Event::Failed(failure) = event {
            println!("failure: {failure}");
        }
    });

    // At most five restarts a minute. The failed message is skipped and counted as failed.
    let workers = system.supervisor("workers", OneForOne::new().restart_limit(5, Duration::from_secs(60)))?;
    let skips = workers.spawn("skips", picky())?;
    (1..=4).try_for_each(|number| skips.tell(number))?;
    skips.close();
    assert_eq!(skips.exited().await, Exit::Closed);
    assert_eq!(skips.counts(), Counts { accepted: 4, handled: 2, failed: 2, dead_lettered: 0 });

    // A message that is `Clone` can be retried. The next incarnation handles it first.
    let retries = workers.spawn("retries", picky().retry(1))?;
    (1..=4).try_for_each(|number| retries.tell(number))?;
    retries.close();
    assert_eq!(retries.exited().await, Exit::Closed);
    assert_eq!(retries.counts(), Counts { accepted: 4, handled: 4, failed: 0, dead_lettered: 0 });

    // More failures than allowed: the supervisor gives up. Queued messages become dead letters.
    let strict = system.supervisor("strict", OneForOne::new().restart_limit(1, Duration::from_secs(60)))?;
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
