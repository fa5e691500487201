//! [`Lock`]: a short lock. This file contains the only `unsafe` code of pleach.
//!
//! A lock protects a few words for a few dozen instructions. Rules for every caller:
//! 1. While a lock is held, nothing is awaited, woken, allocated in bulk or dropped that belongs to
//!    a user.
//! 2. A thread never holds two locks at once.
//!
//! These rules keep the critical sections short, so spinning is the right way to wait:
//! - With `std` a waiter spins 64 times and then yields its thread, in case the holder lost its
//!   core.
//! - Without `std` the lock is a critical section. A spin lock would deadlock between an interrupt
//!   and the thread that it interrupted.
//! - Under loom it is loom's mutex, so that the models explore the code that the lock protects. The
//!   spin lock itself has its own model at the end of this file.
//!
//! `with` takes a closure and returns no guard. The reader sees where the lock ends, and the
//! compiler rejects a lock that is held across an await.
#![allow(unsafe_code)]

#[cfg(all(not(loom), not(feature = "std")))]
pub(crate) use critical::Lock;
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

    /// How often a waiter checks the lock before it yields its thread.
    #[cfg(not(loom))]
    const SPINS_MAX: u32 = 64;

    pub(crate) struct Lock<T> {
        locked: AtomicBool,
        value: ValueCell<T>,
    }

    // SAFETY: `value` is accessed only between `acquire` and the drop of the returned `LockGuard`,
    // by one thread at a time. Sharing the lock therefore moves the value between threads, which
    // `T: Send` allows.
    unsafe impl<T: Send> Sync for Lock<T> {}

    impl<T> Lock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self { locked: AtomicBool::new(false), value: ValueCell::new(value) }
        }

        #[cfg(not(loom))]
        pub(crate) fn into_inner(self) -> T {
            self.value.into_inner()
        }

        /// Runs `f` with exclusive access to the value. If `f` panics, the lock is released and the
        /// value keeps the state in which `f` left it.
        #[inline]
        pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
            let _guard = self.acquire();
            self.value.with_mut(|value| {
                // SAFETY: `_guard` proves that only this thread is between acquire and release. No
                // reference outlives it: `R` cannot borrow from the closure's argument.
                f(unsafe { &mut *value })
            })
        }

        #[inline]
        fn acquire(&self) -> LockGuard<'_> {
            if self.locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
                self.acquire_slow();
            }
            LockGuard(&self.locked)
        }

        #[cold]
        fn acquire_slow(&self) {
            loop {
                self.wait_until_free();
                if self.locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return;
                }
            }
        }

        #[cfg(not(loom))]
        fn wait_until_free(&self) {
            let mut spins = 0;
            while self.locked.load(Ordering::Relaxed) {
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

    /// Releases the lock on drop, so a panic inside `with` does not leave it locked.
    struct LockGuard<'a>(&'a AtomicBool);

    impl Drop for LockGuard<'_> {
        #[inline]
        fn drop(&mut self) {
            self.0.store(false, Ordering::Release);
        }
    }

    #[cfg(loom)]
    use loom::cell::UnsafeCell as ValueCell;

    #[cfg(not(loom))]
    struct ValueCell<T>(core::cell::UnsafeCell<T>);

    #[cfg(not(loom))]
    impl<T> ValueCell<T> {
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
mod critical {
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
