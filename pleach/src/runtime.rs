//! What pleach runs on: the [`Runtime`] trait, Tokio, and the built-in [`Dispatcher`].
//!
//! [`ActorSystem::new`](crate::ActorSystem::new) uses the current Tokio runtime. Any other runtime
//! implements [`Runtime`]: spawn a task, tell the time, sleep, give a random number.
//!
//! ```
//! use pleach::prelude::*;
//! use pleach::runtime::Dispatcher;
//!
//! // A system on the built-in dispatcher, without Tokio.
//! let dispatcher = Dispatcher::seeded(1);
//! let system = ActorSystem::builder("shop").runtime(dispatcher.runtime()).build()?;
//! let printer = system.spawn("printer", Props::from_fn(|| (), |_, line: &str| {
//!     println!("{line}");
//!     Ok::<(), pleach::BoxError>(())
//! }))?;
//! printer.tell("hello")?;
//! dispatcher.drain_ready();
//! assert_eq!(printer.counts().handled, 1);
//! # Ok::<(), pleach::Error>(())
//! ```

pub use pleach_core::{
    BoxFuture, Clock, Dispatcher, HandlerFault, HandlerFaults, Instant, Random, Runtime, SleepSlot, Stalled, StdClock, Step,
    block_on, catch_panic, current_runtime, identify_cores, install_panic_hook,
};
#[cfg(feature = "tokio")]
pub use pleach_core::{NoRuntime, TokioRuntime};
