//! Scopes: structured tasks, actors and producers, and the cancellation that reaches them.
//!
//! A [`Scope`] owns everything started in it. Dropping or cancelling it cancels all of it; waiting
//! for it waits for all of it. A task that fails cancels its siblings, and
//! [`wait_all`](Scope::wait_all) returns that failure. A scope belongs to a system
//! ([`System::scope`](crate::system::System::scope)) or stands alone
//! ([`pleach::scope()`](crate::scope())).
//!
//! ```
//! use pleach::prelude::*;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), pleach::Error> {
//! let scope = pleach::scope()?;
//! let patient = scope.launch(std::future::pending::<()>())?;
//! scope.launch(async { Err("no time") })?;
//!
//! assert!(scope.wait_all().await.is_err());
//! assert!(matches!(patient.exited().await, Exit::Cancelled(Cause::Failed(_))));
//! # Ok(())
//! # }
//! ```

pub use pleach_core::{
    Blocking, BlockingError, CancelToken, Cancelled, Cause, Elapsed, Exit, Launch, LaunchError, Outcome, Produced, Producer,
    Running, Scope, Task, Timeout, Unreceived, WaitAll, WaitError,
};
