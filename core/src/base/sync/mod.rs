//! Atomics, shared pointers and wakers: the only file that chooses between implementations.
//!
//! | build | atomics | [`Arc`], [`Weak`] |
//! |---|---|---|
//! | the target can compare and swap (`with_cas`) | `core` | `alloc` |
//! | it cannot (`without_cas`) | `portable-atomic` | `portable-atomic-util` |
//! | the loom models | loom | `alloc` |
//!
//! The pointer of `alloc` has three abilities that no other pointer can have on stable Rust. This
//! crate does without them:
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use core::any::Any;

    /// Counts wakes, and holds what a test watches.
    struct Woken {
        times: AtomicUsize,
    }

    impl_wake!([] Woken);

    impl WakeArc for Woken {
        fn wake(this: Arc<Self>) {
            this.times.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn d6_pointer_to_a_trait_object_shares_the_allocation() {
        let typed = Arc::new([7_u64; 3]);
        let weak = Arc::downgrade(&typed);
        let object = unsize!(Arc::clone(&typed) => dyn Any + Send + Sync);
        assert_eq!((Arc::strong_count(&typed), Arc::weak_count(&typed)), (2, 1));
        let back: Arc<[u64; 3]> = Arc::downcast(object).expect("the type is that of the value");
        assert!(Arc::ptr_eq(&typed, &back));
        drop((typed, back));
        assert!(weak.upgrade().is_none());
    }

    #[test]
    fn d6_closure_behind_a_pointer_is_dropped_once() {
        let kept = Arc::new(());
        let captured = Arc::clone(&kept);
        let closures: Vec<Arc<dyn Fn() -> usize>> = {
            let one = Arc::new(move || Arc::strong_count(&captured));
            let object = unsize!(one => dyn Fn() -> usize);
            [Arc::clone(&object), object].into()
        };
        assert_eq!(closures.iter().map(|closure| closure()).collect::<Vec<_>>(), [2, 2]);
        drop(closures);
        assert_eq!(Arc::strong_count(&kept), 1);
    }

    #[test]
    fn d6_waker_wakes_and_releases_its_target() {
        let target = Arc::new(Woken { times: AtomicUsize::new(0) });
        let waker = waker_of(Arc::clone(&target));
        waker.wake_by_ref();
        let other = waker.clone();
        assert!(other.will_wake(&waker));
        other.wake();
        assert_eq!((target.times.load(Ordering::Relaxed), Arc::strong_count(&target)), (2, 2));
        drop(waker);
        assert_eq!(Arc::strong_count(&target), 1);
    }
}
