//! Foundations: locks, wakers, time, the runtime interface and panics as values. Nothing here knows of the tree.

#[cfg(feature = "std")]
pub(crate) mod block_on;
#[cfg(feature = "std")]
#[path = "catch/on.rs"]
pub(crate) mod catch;
#[cfg(not(feature = "std"))]
#[path = "catch/off.rs"]
pub(crate) mod catch;
pub(crate) mod lock;
pub(crate) mod reason;
pub(crate) mod runtime;
pub(crate) mod snapshot;
pub(crate) mod sync;
pub(crate) mod time;
pub(crate) mod timeout;
pub(crate) mod visits;
pub(crate) mod wakers;
