//! Events: what happens in a system, for any number of listeners.
//!
//! [`System::hub`](crate::system::System::hub) returns the [`EventHub`]. A listener is a
//! callback, or an [`EventSubscription`] with a bounded queue that counts what it had to drop. An
//! event is made only if a listener wants its [kind](EventKinds).
//!
//! ```
//! use pleach::events::{EventKinds, SubscriptionOptions};
//! use pleach::prelude::*;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), pleach::Error> {
//! let system = ActorSystem::new("shop")?;
//! let mut failures = system.hub().subscribe_with(SubscriptionOptions::new().kinds(EventKinds::FAILURES));
//! let counter = system.spawn("counter", Props::from_fn(|| (), |_, n: u32| if n > 0 { Ok(()) } else { Err("zero") }))?;
//! counter.tell(0)?;
//! match failures.next().await {
//!     Some(Event::Failed(failure)) => assert_eq!(failure.origin().to_string(), "/user/counter"),
//!     other => panic!("{other:?}"),
//! }
//! # Ok(())
//! # }
//! ```

pub use pleach_core::{
    DeadLetter, DeadLetterReason, DecisionScope, Event, EventHub, EventKinds, EventSubscription, GaveUp, LONG_HANDLER_DEFAULT,
    Limit, LimitReached, Lint, ListenerHandle, Recovery, SIBLINGS_LISTED_MAX, SUBSCRIPTION_CAPACITY_DEFAULT,
    SubscriptionOptions,
};
