//! Counts how many entries the loops over members, links, workers and subscribers visit.
//!
//! Unit tests use the count to check how the cost of an operation grows. Outside of unit tests
//! `count` compiles to nothing.

#[cfg(all(test, feature = "std"))]
std::thread_local! {
    static COUNT: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

/// Adds `entries` to the count of this thread.
#[inline(always)]
pub(crate) fn count(entries: usize) {
    #[cfg(all(test, feature = "std"))]
    COUNT.with(|count| count.set(count.get() + entries as u64));
    #[cfg(not(all(test, feature = "std")))]
    let _ = entries;
}

/// Returns the count of this thread and resets it to zero.
#[cfg(all(test, feature = "std", not(loom)))]
pub(crate) fn take_count() -> u64 {
    COUNT.with(|count| count.replace(0))
}

#[cfg(all(test, feature = "std", not(loom)))]
mod tests;
