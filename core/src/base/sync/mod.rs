//! Atomics, shared pointers and wakers: the only file that chooses between implementations.
//!
//! | build | atomics | [`Arc`], [`Weak`] |
//! |---|---|---|
//! | the target can compare and swap (`with_cas`) | `core` | `alloc` |
//! | it cannot, or `--cfg pleach_portable` (`without_cas`) | `portable-atomic` | `portable-atomic-util` |
//! | the loom models | loom | `alloc` |
//!
//! The pointer of `alloc` has three abilities that no other pointer can have on stable Rust. Code of
//! this crate therefore does without them:
//! 1. It converts to a pointer to a trait object. Code writes [`unsize!`].
//! 2. It is a receiver of methods. Code passes `this: &Arc<Self>`.
//! 3. It converts to a [`Waker`](core::task::Waker). Code implements [`WakeArc`] with
//!    [`impl_wake!`] and calls [`waker_of`].
//!
//! `--cfg pleach_portable` builds `without_cas` on any target, so that the tests of a desktop cover
//! it.

#[cfg(all(target_has_atomic = "ptr", not(pleach_portable)))]
#[path = "with_cas.rs"]
mod platform;
#[cfg(any(not(target_has_atomic = "ptr"), pleach_portable))]
#[path = "without_cas.rs"]
mod platform;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
pub use platform::{Arc, Weak};
#[cfg(not(loom))]
pub(crate) use platform::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
pub(crate) use platform::{CoreAtomicUsize, impl_wake, unsize, waker_of};

/// A value that wakes a task, as the target of a [`Waker`](core::task::Waker).
pub(crate) trait WakeArc: Send + Sync + 'static {
    /// Wakes the task.
    fn wake(this: Arc<Self>);

    /// Wakes the task and keeps the pointer. Default: clones it and calls [`wake`](Self::wake).
    fn wake_by_ref(this: &Arc<Self>) {
        Self::wake(Arc::clone(this));
    }
}
