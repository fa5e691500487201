//! The events of a system on a Tokio broadcast channel, for code that has one already: `tokio::spawn(forward(hub.subscribe(), sender))`.
//!
//! Between the hub and the channel stands an ordinary [`EventSubscription`], with its own bound and its own choice of kinds. What it missed is
//! forwarded as [`Event::Missed`]; what a receiver of the channel misses later, Tokio tells it as `RecvError::Lagged`. So nobody
//! downstream sees a gap without a number.

use crate::{Event, EventSubscription};
use tokio::sync::broadcast::Sender;

/// Events forwarded before others may run: a subscription that is never empty must not hold a worker.
const EVENTS_IN_A_ROW_MAX: u32 = 64;

/// Forwards every event of `events` to `sender`, the counts of missed ones included, until the system has ended. Dropping this future
/// ends it too, and unsubscribes.
///
/// An event that comes while the channel has no receiver is gone, as is anything sent to such a channel: later receivers see what comes
/// after them.
///
/// ```
/// use pleach::prelude::*;
/// use pleach::{EventKinds, SubscriptionOptions};
/// use tokio::sync::broadcast;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), pleach::Error> {
/// let system = ActorSystem::new("shop")?;
/// let (sender, mut receiver) = broadcast::channel(64);
/// let lifecycle = SubscriptionOptions::new().kinds(EventKinds::LIFECYCLE);
/// tokio::spawn(pleach::broadcast::forward(system.hub().subscribe_with(lifecycle), sender));
///
/// system.spawn("till", Props::from_fn(|| (), |_, _: u32| Ok::<(), pleach::BoxError>(())))?;
/// let event = receiver.recv().await.expect("the system runs");
/// assert!(matches!(event, Event::Started { path } if path.to_string() == "/user/till"));
/// # Ok(())
/// # }
/// ```
pub async fn forward(mut events: EventSubscription, sender: Sender<Event>) {
    let mut in_a_row = 0;
    while let Some(event) = events.next().await {
        // An error means that there is no receiver at this moment; there may be one for the next.
        drop(sender.send(event));
        in_a_row += 1;
        if in_a_row == EVENTS_IN_A_ROW_MAX {
            in_a_row = 0;
            tokio::task::yield_now().await;
        }
    }
}
