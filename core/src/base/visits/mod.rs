//! Counts how many entries the loops over members, links, workers and subscribers visit.
//!
//! Unit tests use the count to check how the cost of an operation grows. Outside of unit tests
//! `visit` compiles to nothing.

#[cfg(all(test, feature = "std"))]
std::thread_local! {
    static VISITED: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

/// Adds `entries` to the count of this thread.
#[inline(always)]
pub(crate) fn visit(entries: usize) {
    #[cfg(all(test, feature = "std"))]
    VISITED.with(|visited| visited.set(visited.get() + entries as u64));
    #[cfg(not(all(test, feature = "std")))]
    let _ = entries;
}

/// Returns the count of this thread and resets it to zero.
#[cfg(all(test, feature = "std", not(loom)))]
pub(crate) fn take_visited() -> u64 {
    VISITED.with(|visited| visited.replace(0))
}

#[cfg(all(test, feature = "std", not(loom)))]
mod tests;
