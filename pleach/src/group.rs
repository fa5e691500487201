//! Groups: tasks whose results are read in the order in which they finish.
//!
//! [`go`](Group::go) adds a task and waits while the limit is reached, `close` ends the input,
//! [`next`](Group::next) yields results until all are read. The first task that fails cancels the
//! others, unless the [`GroupBuilder`] says otherwise. A group belongs to a system
//! ([`System::group`](crate::system::System::group)), a scope or an actor, or stands alone
//! ([`pleach::group()`](crate::group())).
//!
//! ```
//! use pleach::prelude::*;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), pleach::Error> {
//! # let system = ActorSystem::new("shop")?;
//! let lengths = system.group::<usize>("lengths").limit(8).build()?;
//! for word in ["actors", "scopes", "graphs"] {
//!     lengths.go(async move { word.len() }).await?;
//! }
//! lengths.close();
//! let mut sum = 0;
//! while let Some(length) = lengths.next().await {
//!     sum += length?;
//! }
//! assert_eq!(sum, 18);
//! # Ok(())
//! # }
//! ```

pub use pleach_core::{
    Drained, ERRORS_KEPT_DEFAULT, Errors, GoError, GoRejection, Group, GroupBuilder, GroupClosed, GroupError, InPlace,
    MapError, NewTask, NextOr, PanicPolicy, RaceError, TaskError, TaskOutput,
};
