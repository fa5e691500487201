//! [`Lock`]: a short lock. The only `unsafe` code of pleach on targets that can compare and swap.
//!
//! A lock protects a few words for a few dozen instructions. Rules for every caller:
//! 1. While a lock is held, nothing is awaited, woken, allocated in bulk or dropped that belongs to
//!    a user.
//! 2. A thread never holds two locks at once.
//!
//! These rules keep the critical sections short, so spinning is the right way to wait:
//! - With `std` a waiter backs off: it looks at the lock after 4 pauses, then after 8, and so on to
//!   64. A look takes the cache line away from the holder, so a holder that uses the lock again and
//!   again would get slower by every look. After that, the waiter yields its thread before each
//!   look, in case the holder lost its core.
//! - Without `std` the lock is a critical section. A spin lock would deadlock between an interrupt
//!   and the thread that it interrupted.
//! - Under loom it is loom's mutex, so that the models explore the code that the lock protects. The
//!   spin lock itself has its own model at the end of this file.
//!
//! The value may be unsized, so that code which needs only a part of it is compiled once.
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
    use core::cell::UnsafeCell;
    #[cfg(not(loom))]
    use core::sync::atomic::{AtomicBool, Ordering};
    #[cfg(loom)]
    use loom::sync::atomic::{AtomicBool, Ordering};

    /// How many pauses of the processor a waiter makes before its first look at the lock, and the
    /// most between two looks before it yields its thread. They double from look to look.
    #[cfg(not(loom))]
    const PAUSES_MIN: u32 = 4;
    #[cfg(not(loom))]
    const PAUSES_MAX: u32 = 64;

    pub(crate) struct Lock<T: ?Sized> {
        locked: AtomicBool,
        value: UnsafeCell<T>,
    }

    // SAFETY: `value` is accessed only between `acquire` and the drop of the returned `LockGuard`,
    // by one thread at a time. Sharing the lock therefore moves the value between threads, which
    // `T: Send` allows.
    unsafe impl<T: Send + ?Sized> Sync for Lock<T> {}

    impl<T> Lock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self { locked: AtomicBool::new(false), value: UnsafeCell::new(value) }
        }

        #[cfg(not(loom))]
        pub(crate) fn into_inner(self) -> T {
            self.value.into_inner()
        }
    }

    impl<T: ?Sized> Lock<T> {
        /// Runs `f` with exclusive access to the value. If `f` panics, the lock is released and the
        /// value keeps the state in which `f` left it.
        #[inline]
        pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
            let _guard = acquire(&self.locked);
            // SAFETY: `_guard` proves that only this thread is between acquire and release. No
            // reference outlives it: `R` cannot borrow from the closure's argument.
            f(unsafe { &mut *self.value.get() })
        }
    }

    #[inline]
    fn acquire(locked: &AtomicBool) -> LockGuard<'_> {
        if locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            acquire_slow(locked);
        }
        LockGuard(locked)
    }

    #[cold]
    fn acquire_slow(locked: &AtomicBool) {
        let mut backoff = Backoff::new();
        loop {
            backoff.wait();
            // The plain load first: an exchange that fails takes the cache line from the holder.
            let is_free = !locked.load(Ordering::Relaxed);
            if is_free && locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }

    /// The waits between the looks of one waiter.
    #[cfg(not(loom))]
    struct Backoff {
        pauses: u32,
    }

    #[cfg(not(loom))]
    impl Backoff {
        fn new() -> Self {
            Self { pauses: PAUSES_MIN }
        }

        fn wait(&mut self) {
            if self.pauses > PAUSES_MAX {
                return std::thread::yield_now();
            }
            (0..self.pauses).for_each(|_| core::hint::spin_loop());
            self.pauses *= 2;
        }
    }

    #[cfg(loom)]
    struct Backoff;

    #[cfg(loom)]
    impl Backoff {
        fn new() -> Self {
            Self
        }

        fn wait(&mut self) {
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
}

#[cfg(all(not(loom), not(feature = "std")))]
mod critical {
    use core::cell::RefCell;

    pub(crate) struct Lock<T: ?Sized>(RefCell<T>);

    // SAFETY: the value is borrowed only inside a critical section, so by one thread, core or
    // interrupt at a time: an implementation must exclude the other cores too (decision 66). A
    // section nests on its own core, and there a borrow inside a borrow panics. Sharing the lock
    // therefore moves the value between threads, which `T: Send` allows.
    unsafe impl<T: Send + ?Sized> Sync for Lock<T> {}

    impl<T> Lock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(RefCell::new(value))
        }

        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner()
        }
    }

    impl<T: ?Sized> Lock<T> {
        pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
            critical_section::with(|_| f(&mut self.0.borrow_mut()))
        }
    }
}

#[cfg(loom)]
mod under_loom {
    use core::cell::UnsafeCell;

    pub(crate) struct Lock<T: ?Sized> {
        mutex: loom::sync::Mutex<()>,
        value: UnsafeCell<T>,
    }

    // SAFETY: `value` is accessed only while `mutex` is held, so by one thread at a time.
    unsafe impl<T: Send + ?Sized> Sync for Lock<T> {}

    impl<T> Lock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self { mutex: loom::sync::Mutex::new(()), value: UnsafeCell::new(value) }
        }

        pub(crate) fn into_inner(self) -> T {
            self.value.into_inner()
        }
    }

    impl<T: ?Sized> Lock<T> {
        pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
            let _guard = self.mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            // SAFETY: the mutex is held until the end of this call, and no reference outlives it:
            // `R` cannot borrow from the closure's argument.
            f(unsafe { &mut *self.value.get() })
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
    use crate::base::sync::Arc;

    #[test]
    fn loom_spin_lock_excludes() {
        loom::model(|| {
            // The value is a cell of loom, which reports two accesses at once.
            let lock = Arc::new(spin::Lock::new(loom::cell::UnsafeCell::new(0)));
            let increment = |lock: &spin::Lock<loom::cell::UnsafeCell<u32>>| {
                lock.with(|n| n.with_mut(|n| *unsafe { n.as_mut() }.expect("a cell has an address") += 1));
            };
            let other = Arc::clone(&lock);
            let thread = loom::thread::spawn(move || increment(&other));
            increment(&lock);
            thread.join().unwrap();
            assert_eq!(lock.with(|n| n.with(|n| *unsafe { n.as_ref() }.expect("a cell has an address"))), 2);
        });
    }
}
