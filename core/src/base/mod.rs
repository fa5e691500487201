//! Foundations: locks, wakers, time, the runtime interface and panics as values.
//!
//! Nothing in this room knows about the tree. Every other room may import from it.
//!
//! | module | owns |
//! |---|---|
//! | `block_on` | waiting for a future on a plain thread (`std`) |
//! | `catch` | turning a panic of user code into a [`Reason`](crate::Reason) |
//! | `handler_faults` | which messages of actors fail, in tests (`std`) |
//! | `hash` | how names and keys are hashed |
//! | `lock` | the only lock of this crate, with `unsafe` code |
//! | `reason` | why user code failed |
//! | `runtime` | the [`Runtime`](crate::Runtime) trait and seeded random numbers |
//! | `sleep` | a sleep that is part of its owner |
//! | `snapshot` | a value that is read and replaced as a whole |
//! | `sorted` | maps and sets in order of their keys: trees, or vectors without `std` |
//! | `sync` | atomics and shared pointers, for targets with and without compare-and-swap |
//! | `time`, `timeout` | instants of a runtime's clock; a future with a time limit |
//! | `work_count` | counts loop iterations for the tests of complexity |
//! | `wakers` | registered wakers, and waking them outside of locks |

#[cfg(feature = "std")]
pub(crate) mod block_on;
#[cfg(feature = "std")]
#[path = "catch/on.rs"]
pub(crate) mod catch;
#[cfg(not(feature = "std"))]
#[path = "catch/off.rs"]
pub(crate) mod catch;
#[cfg(feature = "std")]
pub(crate) mod handler_faults;
pub(crate) mod hash;
pub(crate) mod lock;
pub(crate) mod reason;
pub(crate) mod runtime;
pub(crate) mod sleep;
pub(crate) mod snapshot;
pub(crate) mod sorted;
pub(crate) mod sync;
pub(crate) mod time;
pub(crate) mod timeout;
pub(crate) mod wakers;
pub(crate) mod work_count;
