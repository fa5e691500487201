//! `Snapshot`: a value that is read whole and replaced whole, so that nobody holds a lock while working with it.
//!
//! A reader takes a counted reference under the lock and goes through the value without it: it sees the value as it was, whatever
//! happens meanwhile. A writer makes the next value outside the lock, and puts it in place only if nobody else has changed it since;
//! otherwise it makes it again from what is there now. What is replaced is dropped outside the lock too.

use crate::base::lock::Lock;
use alloc::sync::Arc;

pub(crate) struct Snapshot<T>(Lock<Arc<T>>);

impl<T> Snapshot<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Lock::new(Arc::new(value)))
    }

    /// The value as it is now.
    pub(crate) fn get(&self) -> Arc<T> {
        self.0.with(|current| Arc::clone(current))
    }

    /// Puts what `next` makes of the value in its place. `None` from `next` leaves it as it is. `next` may be called again when another
    /// writer was faster, so it only computes.
    pub(crate) fn update<R>(&self, mut next: impl FnMut(&T) -> Option<(T, R)>) -> Option<R> {
        loop {
            let seen = self.get();
            let (value, result) = next(&seen)?;
            let mut value = Arc::new(value);
            // `seen` is held, so an address that is the same is the same value.
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
