//! The atomics of `core` and the shared pointers of `alloc`.

use crate::base::sync::WakeArc;
pub use alloc::sync::{Arc, Weak};
use alloc::task::Wake;
pub(crate) use core::sync::atomic::AtomicUsize as CoreAtomicUsize;
#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use core::task::Waker;

/// Converts a pointer to a pointer to a trait object: `unsize!(pointer => dyn Trait)`.
macro_rules! unsize {
    ($pointer:expr => $object:ty) => {{
        let pointer = $pointer;
        let object: $crate::base::sync::Arc<$object> = pointer;
        object
    }};
}

/// Makes a type that implements `WakeArc` usable with `waker_of`: `impl_wake!([generics] Type)`.
macro_rules! impl_wake {
    ([$($generics:tt)*] $target:ty) => {
        impl<$($generics)*> alloc::task::Wake for $target {
            fn wake(self: $crate::base::sync::Arc<Self>) {
                $crate::base::sync::WakeArc::wake(self);
            }

            fn wake_by_ref(self: &$crate::base::sync::Arc<Self>) {
                $crate::base::sync::WakeArc::wake_by_ref(self);
            }
        }
    };
}

pub(crate) use {impl_wake, unsize};

/// Returns the waker that wakes `target`.
#[inline]
pub(crate) fn waker_of<W: WakeArc + Wake>(target: Arc<W>) -> Waker {
    Waker::from(target)
}
