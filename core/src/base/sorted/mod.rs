//! [`SortedMap`] and [`SortedSet`]: tables in the order of their keys; and sorting.
//!
//! | build | implementation | why |
//! |---|---|---|
//! | with `std` | the B-trees of `alloc` | logarithmic, whatever the size |
//! | without `std` | `vectors`: sorted vectors | a tenth of the code per type, less memory |
//!
//! [`sort_by_key`] is the sort of `core` with `std`, and a heap sort without.
//!
//! A sorted vector moves the entries behind an insertion or a removal. Keys are mostly given out in
//! ascending order, so insertions are mostly at the end, and the tables of a device are short.

#[cfg(any(not(feature = "std"), test))]
mod vectors;

#[cfg(feature = "std")]
pub(crate) use alloc::collections::{BTreeMap as SortedMap, BTreeSet as SortedSet};
#[cfg(not(feature = "std"))]
pub(crate) use vectors::{SortedMap, SortedSet, reserve, sort_by_key};

/// Reserves room for `len` entries altogether. A tree cannot.
#[cfg(feature = "std")]
pub(crate) fn reserve<K, V>(_map: &mut SortedMap<K, V>, _len: usize) {}

/// Sorts `items`. Items with equal keys may change their order.
#[cfg(feature = "std")]
#[inline]
pub(crate) fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl FnMut(&T) -> K) {
    items.sort_unstable_by_key(key);
}
