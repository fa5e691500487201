//! Events of a system on a Tokio broadcast channel: `tokio::spawn(forward(hub.subscribe(),
//! sender))`.
//!
//! An ordinary [`EventSubscription`] feeds the channel, with its own capacity and its own kinds.
//! What it had to drop is forwarded as [`Event::Missed`]. What a receiver of the channel misses,
//! Tokio reports as `RecvError::Lagged`. So every gap has a count.

use crate::events::{Event, EventSubscription};
use tokio::sync::broadcast::Sender;

/// Events forwarded before the task yields, so that a full subscription does not occupy a worker.
const EVENTS_IN_A_ROW_MAX: u32 = 64;

/// Forwards every event of `events` to `sender`, counts of missed events included, until the system
/// has ended. Dropping this future unsubscribes.
///
/// Events sent while the channel has no receiver are lost, as with any broadcast channel.
///
/// ```
/// use pleach::prelude::*;
/// use pleach::events::SubscriptionOptions;
/// use tokio::sync::broadcast;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), pleach::Error> {
/// let system = ActorSystem::new("shop")?;
/// let (sender, mut receiver) = broadcast::channel(64);
/// let lifecycle = SubscriptionOptions::new().kinds(EventKinds::LIFECYCLE);
/// tokio::spawn(pleach::broadcast::forward(system.hub().subscribe_with(lifecycle), sender));
///
/// system.spawn("counter", Props::from_fn(|| (), |_, _: u32| Ok::<(), pleach::BoxError>(())))?;
/// let event = receiver.recv().await.expect("the system runs");
/// assert!(matches!(event, Event::Started { path } if path.to_string() == "/user/counter"));
/// # Ok(())
/// # }
/// ```
pub async fn forward(mut events: EventSubscription, sender: Sender<Event>) {
    let mut in_a_row = 0;
    while let Some(event) = events.next().await {
        // An error means that the channel has no receiver now. The next event may have one.
        drop(sender.send(event));
        in_a_row += 1;
        if in_a_row == EVENTS_IN_A_ROW_MAX {
            in_a_row = 0;
            tokio::task::yield_now().await;
        }
    }
}
