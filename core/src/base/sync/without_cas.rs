//! Atomics and shared pointers for targets that cannot compare and swap, such as `thumbv6m` and
//! `riscv32imc`.
//!
//! `portable-atomic` implements them with the critical section of the platform, or by disabling
//! interrupts where the program says that it has one core. The program selects that with a feature
//! of `portable-atomic`; without one, its build fails with a text that names the features.
//!
//! Two cores (decision 66): with the feature `critical-section`, every operation of an atomic is
//! one section, including plain loads and stores. So no store of one core comes between the two
//! halves of an update of the other, and a count reaches 0 once. A section orders memory too: what
//! was written before a count went down is seen by the core that frees the value. This holds if the
//! implementation of `critical-section` excludes the other cores; `models/critical_section.rs`
//! shows both cases. `unsafe-assume-single-core` is sound on one core only.

use crate::base::sync::WakeArc;
use core::task::Waker;
pub(crate) use portable_atomic::AtomicUsize as CoreAtomicUsize;
#[cfg(not(loom))]
pub(crate) use portable_atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use portable_atomic_util::task::Wake;
pub use portable_atomic_util::{Arc, Weak};

/// Converts a pointer to a pointer to a trait object: `unsize!(pointer => dyn Trait)`.
macro_rules! unsize {
    ($pointer:expr => $object:ty) => {{
        let thin = $crate::base::sync::Arc::into_raw($pointer);
        // The compiler converts it, so it has the same address and the metadata of the same value.
        let object: *const $object = thin;
        #[allow(unsafe_code)]
        // SAFETY: `object` is the pointer that `into_raw` returned, after an unsized coercion. The
        // count is not touched in between, so another core or an interrupt may clone or drop other
        // pointers meanwhile: this one is still counted.
        let pointer = unsafe { $crate::base::sync::Arc::from_raw(object) };
        pointer
    }};
}

/// Makes a type that implements `WakeArc` usable with `waker_of`: `impl_wake!([generics] Type)`.
macro_rules! impl_wake {
    ([$($generics:tt)*] $target:ty) => {
        impl<$($generics)*> portable_atomic_util::task::Wake for $target {
            fn wake(this: $crate::base::sync::Arc<Self>) {
                $crate::base::sync::WakeArc::wake(this);
            }

            fn wake_by_ref(this: &$crate::base::sync::Arc<Self>) {
                $crate::base::sync::WakeArc::wake_by_ref(this);
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
