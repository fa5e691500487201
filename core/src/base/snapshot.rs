//! [`Snapshot`]: a value that is read as a whole and replaced as a whole, without holding a lock in
//! between.
//!
//! - A reader clones an `Arc` under the lock and then reads without it. It keeps seeing the value
//!   of that moment.
//! - A writer builds the next value outside of the lock. It stores the value only if no other
//!   writer was faster; otherwise it builds the value again from the current one.
//! - A replaced value is dropped outside of the lock.

use crate::base::lock::Lock;
use crate::base::sync::Arc;

pub(crate) struct Snapshot<T>(Lock<Arc<T>>);

impl<T> Snapshot<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Lock::new(Arc::new(value)))
    }

    /// Returns the current value.
    pub(crate) fn get(&self) -> Arc<T> {
        self.0.with(|current| Arc::clone(current))
    }

    /// Replaces the value with the one that `next` returns. If `next` returns `None`, the value
    /// stays. `next` must be pure: it runs again if another writer was faster.
    pub(crate) fn update<R>(&self, mut next: impl FnMut(&T) -> Option<(T, R)>) -> Option<R> {
        loop {
            let seen = self.get();
            let (value, result) = next(&seen)?;
            let mut value = Arc::new(value);
            // `seen` keeps the old value alive, so an equal address means the same value.
            let replaced = self.0.with(|current| {
                let unchanged = Arc::ptr_eq(current, &seen);
                if unchanged {
                    core::mem::swap(current, &mut value);
                }
                unchanged
            });
            if replaced {
                return Some(result);
            }
        }
    }
}

#[cfg(all(test, not(loom), feature = "std"))]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    #[test]
    fn no_update_is_lost_between_threads() {
        let list = Snapshot::new(Vec::new());
        let add = |n: usize| list.update(|old: &Vec<usize>| Some((old.iter().copied().chain([n]).collect(), ())));
        std::thread::scope(|threads| {
            for from in [0, 1_000] {
                threads.spawn(move || (from..from + 500).for_each(|n| add(n).unwrap()));
            }
        });
        let seen = list.get();
        assert_eq!(seen.len(), 1_000);
        assert!(seen.iter().filter(|n| **n < 1_000).is_sorted() && seen.iter().filter(|n| **n >= 1_000).is_sorted());
    }

    #[test]
    fn a_reader_keeps_what_it_saw_and_none_changes_nothing() {
        let list = Snapshot::new(vec![1]);
        let before = list.get();
        assert_eq!(list.update(|_| Some((vec![2, 3], "done"))), Some("done"));
        assert_eq!((before.len(), list.get().len()), (1, 2));
        assert_eq!(list.update(|_| None::<(Vec<i32>, ())>), None);
        assert_eq!(*list.get(), [2, 3]);
    }
}
