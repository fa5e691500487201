//! `Lock`: a short mutual exclusion, and the only file of pleach with `unsafe` in it.
//!
//! A lock guards a few words for a few dozen instructions: nothing is awaited, woken, allocated in bulk or dropped that belongs
//! to a user while one is held, and no two are ever held at once. That is what makes spinning right:
//!
//! * with `std` it spins, and yields its thread when the holder seems to have lost its core;
//! * without `std` it is a critical section, since a spin lock deadlocks between an interrupt and the thread it interrupted;
//! * under loom it is loom's mutex, so that the models explore what the lock protects. The spin lock has a model of its own below.
//!
//! `with` takes a closure rather than giving out a guard, so that a reader sees where the lock ends and the compiler sees that
//! nothing is carried across an await.
#![allow(unsafe_code)]

#[cfg(all(not(loom), not(feature = "std")))]
pub(crate) use section::Lock;
#[cfg(all(not(loom), feature = "std"))]
pub(crate) use spin::Lock;
#[cfg(loom)]
pub(crate) use under_loom::Lock;

#[cfg(any(all(not(loom), feature = "std"), all(loom, test)))]
mod spin {
    #[cfg(not(loom))]
    use core::sync::atomic::{AtomicBool, Ordering};
    #[cfg(loom)]
    use loom::sync::atomic::{AtomicBool, Ordering};

    /// How often a waiter looks again before it gives its core away.
    #[cfg(not(loom))]
    const SPINS_MAX: u32 = 64;

    pub(crate) struct Lock<T> {
        held: AtomicBool,
        value: Slot<T>,
    }

    // SAFETY: `value` is reached only between `acquire` and the release of the same `Held`, one thread at a time, so sharing the
    // lock hands the value from thread to thread; that is what `T: Send` allows.
    unsafe impl<T: Send> Sync for Lock<T> {}

    impl<T> Lock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self { held: AtomicBool::new(false), value: Slot::new(value) }
        }

        #[cfg(not(loom))]
        pub(crate) fn into_inner(self) -> T {
            self.value.into_inner()
        }

        /// Runs `f` alone. If `f` panics the lock is released and the value stays as `f` left it.
        #[inline]
        pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
            let _held = self.acquire();
            self.value.with_mut(|value| {
                // SAFETY: `_held` proves that this thread alone is between acquire and release, and `with` gives out no
                // reference that outlives it: `R` cannot borrow from the closure's argument.
                f(unsafe { &mut *value })
            })
        }

        #[inline]
        fn acquire(&self) -> Held<'_> {
            if self.held.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
                self.acquire_slowly();
            }
            Held(&self.held)
        }

        #[cold]
        fn acquire_slowly(&self) {
            loop {
                self.wait_until_free();
                if self.held.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return;
                }
            }
        }

        #[cfg(not(loom))]
        fn wait_until_free(&self) {
            let mut spins = 0;
            while self.held.load(Ordering::Relaxed) {
                if spins < SPINS_MAX {
                    spins += 1;
                    core::hint::spin_loop();
                } else {
                    std::thread::yield_now();
                }
            }
        }

        #[cfg(loom)]
        fn wait_until_free(&self) {
            loom::thread::yield_now();
        }
    }

    /// Releases on drop, so that a panic inside `with` does not leave the lock held.
    struct Held<'a>(&'a AtomicBool);

    impl Drop for Held<'_> {
        #[inline]
        fn drop(&mut self) {
            self.0.store(false, Ordering::Release);
        }
    }

    #[cfg(loom)]
    use loom::cell::UnsafeCell as Slot;

    #[cfg(not(loom))]
    struct Slot<T>(core::cell::UnsafeCell<T>);

    #[cfg(not(loom))]
    impl<T> Slot<T> {
        fn new(value: T) -> Self {
            Self(core::cell::UnsafeCell::new(value))
        }

        fn into_inner(self) -> T {
            self.0.into_inner()
        }

        #[inline]
        fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

#[cfg(all(not(loom), not(feature = "std")))]
mod section {
    use core::cell::RefCell;
    use critical_section::Mutex;

    pub(crate) struct Lock<T>(Mutex<RefCell<T>>);

    impl<T> Lock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(Mutex::new(RefCell::new(value)))
        }

        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner().into_inner()
        }

        pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
            critical_section::with(|section| f(&mut self.0.borrow_ref_mut(section)))
        }
    }
}

#[cfg(loom)]
mod under_loom {
    pub(crate) struct Lock<T>(loom::sync::Mutex<T>);

    impl<T> Lock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
        }

        pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
            f(&mut self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
        }
    }
}

#[cfg(all(test, not(loom), feature = "std"))]
mod tests {
    use super::Lock;

    #[test]
    fn no_increment_is_lost_between_threads() {
        let total = Lock::new(0u64);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| (0..50_000).for_each(|_| total.with(|n| *n += 1)));
            }
        });
        assert_eq!(total.with(|n| *n), 200_000);
    }

    #[test]
    fn a_panic_inside_releases_the_lock() {
        let lock = Lock::new(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lock.with(|_| panic!("inside"))));
        assert!(panicked.is_err());
        assert_eq!(lock.with(|n| *n), 1);
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::spin;
    use alloc::sync::Arc;

    #[test]
    fn loom_spin_lock_excludes() {
        loom::model(|| {
            let lock = Arc::new(spin::Lock::new(0));
            let other = Arc::clone(&lock);
            let thread = loom::thread::spawn(move || other.with(|n| *n += 1));
            lock.with(|n| *n += 1);
            thread.join().unwrap();
            assert_eq!(lock.with(|n| *n), 2);
        });
    }
}
