//! The system: a tree of actors and scopes, and its owner.
//!
//! [`ActorSystem`] is a [`System`] on Tokio. Dropping it cancels everything in
//! it; [`shutdown`](System::shutdown) lets actors handle what is queued first. [`RootContext`] is a
//! handle that owns nothing, for code outside of any actor.
//!
//! ```
//! use pleach::prelude::*;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), pleach::Error> {
//! let system = ActorSystem::builder("shop").grace(Duration::from_secs(2)).build()?;
//! let root = system.root();
//! assert!(root.lookup::<u32>(&"/user/nothing-here".parse()?).is_err());
//! system.shutdown(Duration::from_secs(5)).await?;
//! # Ok(())
//! # }
//! ```

pub use crate::actor_system::{ActorSystem, ActorSystemBuilder};
pub use pleach_core::{
    BuildError, BuildSystem, DispatchError, GRACE_DEFAULT, LookupError, MountError, Mounted, REFUSALS_KEPT_MAX, Refused,
    RootContext, SealError, ShutdownError, System, SystemBuilder,
};
