//! Counts the entries that loops over tokens, lanes and wakers visit, so that tests can tell whether a step costs more in a wide run. Outside of
//! unit tests it does nothing.

#[cfg(test)]
thread_local! {
    static VISITED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// So many more entries were visited.
#[inline(always)]
pub(crate) fn visit(entries: u64) {
    #[cfg(test)]
    VISITED.with(|visited| visited.set(visited.get() + entries));
    #[cfg(not(test))]
    let _ = entries;
}

/// How many entries this thread has visited since this was asked last.
#[cfg(test)]
pub(crate) fn take_visited() -> u64 {
    VISITED.with(|visited| visited.replace(0))
}
