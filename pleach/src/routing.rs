//! Routing: several actors behind one address.
//!
//! - A [`Pool`] gives each message to one of its workers: in turn, at random, to the least loaded,
//!   or by key.
//! - A [`Topic`] gives each message to all of its subscribers.
//!
//! Both send from the task of the caller. There is no router actor, and no second mailbox.
//!
//! ```
//! use pleach::prelude::*;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), pleach::Error> {
//! let system = ActorSystem::new("shop")?;
//! let workers = system.pool("workers", 4, |_| Props::from_fn(|| (), |_, n: u32| {
//!     let _ = n * n;
//!     Ok::<(), pleach::BoxError>(())
//! })).build()?;
//! for n in 0..100 {
//!     workers.send(n).await?;
//! }
//! system.shutdown(Duration::from_secs(5)).await?;
//! assert_eq!(system.counts().handled, 100);
//! # Ok(())
//! # }
//! ```

pub use pleach_core::{POOL_SIZE_MAX, Pool, PoolBuilder, PoolError, PoolSend, Published, SlowSubscriber, Subscription, Topic};
