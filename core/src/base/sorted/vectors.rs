//! Sorted vectors with the methods of the B-trees that this crate uses.

use alloc::vec;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::ops::Bound;

/// A map as a vector of entries, sorted by key.
#[derive(Clone)]
pub(crate) struct SortedMap<K, V> {
    entries: Vec<(K, V)>,
}

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> SortedMap<K, V> {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn first_key_value(&self) -> Option<(&K, &V)> {
        self.entries.first().map(|(key, value)| (key, value))
    }

    pub(crate) fn pop_first(&mut self) -> Option<(K, V)> {
        if self.entries.is_empty() { None } else { Some(self.entries.remove(0)) }
    }

    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.entries.iter().map(|(_, value)| value)
    }

    pub(crate) fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> {
        self.entries.iter_mut().map(|(_, value)| value)
    }

    pub(crate) fn into_values(self) -> impl DoubleEndedIterator<Item = V> {
        self.entries.into_iter().map(|(_, value)| value)
    }

    pub(crate) fn keys(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.entries.iter().map(|(key, _)| key)
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Returns the entry with the lowest key.
    pub(crate) fn first_entry(&mut self) -> Option<FirstEntry<'_, K, V>> {
        if self.entries.is_empty() { None } else { Some(FirstEntry(&mut self.entries)) }
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.entries.retain_mut(|(key, value)| keep(key, value));
    }
}

/// Reserves room for `len` entries altogether.
#[cfg(not(feature = "std"))]
pub(crate) fn reserve<K, V>(map: &mut SortedMap<K, V>, len: usize) {
    map.entries.reserve_exact(len.saturating_sub(map.entries.len()));
}

impl<K: Ord, V> SortedMap<K, V> {
    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        self.entries.binary_search_by(|(known, _)| known.borrow().cmp(key))
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().map(|at| &self.entries[at].1)
    }

    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().map(|at| &mut self.entries[at].1)
    }

    pub(crate) fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).is_ok()
    }

    /// Inserts an entry. Returns the value that it replaces.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(at) => Some(core::mem::replace(&mut self.entries[at].1, value)),
            Err(at) => {
                self.entries.insert(at, (key, value));
                None
            }
        }
    }

    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().map(|at| self.entries.remove(at).1)
    }

    /// Returns the place of a key, to insert a value if there is none.
    pub(crate) fn entry(&mut self, key: K) -> Entry<'_, K, V> {
        let at = self.find(&key);
        Entry { map: self, key, at }
    }

    /// Returns the entries whose keys are within the bounds, in order.
    pub(crate) fn range(&self, (from, to): (Bound<K>, Bound<K>)) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        let start = self.entries.partition_point(|(key, _)| match &from {
            Bound::Included(from) => key < from,
            Bound::Excluded(from) => key <= from,
            Bound::Unbounded => false,
        });
        let end = self.entries.partition_point(|(key, _)| match &to {
            Bound::Included(to) => key <= to,
            Bound::Excluded(to) => key < to,
            Bound::Unbounded => true,
        });
        self.entries[start..end.max(start)].iter().map(|(key, value)| (key, value))
    }
}

impl<K: Ord, V> Extend<(K, V)> for SortedMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

/// The place of a key in a map.
pub(crate) struct Entry<'a, K, V> {
    map: &'a mut SortedMap<K, V>,
    key: K,
    /// Where the key is, or where it belongs.
    at: Result<usize, usize>,
}

impl<'a, K, V> Entry<'a, K, V> {
    pub(crate) fn or_insert_with(self, make: impl FnOnce() -> V) -> &'a mut V {
        let at = match self.at {
            Ok(at) => at,
            Err(at) => {
                self.map.entries.insert(at, (self.key, make()));
                at
            }
        };
        &mut self.map.entries[at].1
    }

    pub(crate) fn or_insert(self, value: V) -> &'a mut V {
        self.or_insert_with(|| value)
    }

    pub(crate) fn or_default(self) -> &'a mut V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }
}

/// The entry with the lowest key of a map that is not empty.
pub(crate) struct FirstEntry<'a, K, V>(&'a mut Vec<(K, V)>);

impl<K, V> FirstEntry<'_, K, V> {
    pub(crate) fn key(&self) -> &K {
        &self.0[0].0
    }

    pub(crate) fn remove_entry(self) -> (K, V) {
        self.0.remove(0)
    }
}

impl<K, V> IntoIterator for SortedMap<K, V> {
    type Item = (K, V);
    type IntoIter = vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

/// A set as a sorted vector.
#[derive(Clone)]
pub(crate) struct SortedSet<K>(SortedMap<K, ()>);

impl<K> Default for SortedSet<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> SortedSet<K> {
    pub(crate) const fn new() -> Self {
        Self(SortedMap::new())
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl<K: Ord> SortedSet<K> {
    pub(crate) fn contains<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.contains_key(key)
    }

    /// Inserts a key. Returns false if the set has it already.
    pub(crate) fn insert(&mut self, key: K) -> bool {
        self.0.insert(key, ()).is_none()
    }

    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.remove(key).is_some()
    }
}

/// Sorts `items`. Items with equal keys may change their order.
#[cfg_attr(feature = "std", allow(dead_code, reason = "only its tests use it"))]
pub(crate) fn sort_by_key<T, K: Ord>(items: &mut [T], mut key: impl FnMut(&T) -> K) {
    // A heap sort: first the greatest item comes to the front, then each goes to its place.
    let len = items.len();
    for at in (0..len + len / 2).rev() {
        let (mut root, end) = if at >= len { (at - len, len) } else { (0, at) };
        if at < len {
            items.swap(0, at);
        }
        loop {
            let mut child = 2 * root + 1;
            if child + 1 < end && key(&items[child]) < key(&items[child + 1]) {
                child += 1;
            }
            if child >= end || key(&items[child]) <= key(&items[root]) {
                break;
            }
            items.swap(root, child);
            root = child;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::base::runtime::Random;
    use alloc::collections::{BTreeMap, BTreeSet};

    /// Applies the same random operations to a vector and to a tree.
    #[test]
    fn d7_sorted_map_answers_like_a_tree() {
        let mut random = Random::seeded(7);
        let (mut map, mut tree) = (SortedMap::new(), BTreeMap::new());
        for n in 0..5_000_u32 {
            let key = random.below(40);
            match random.below(9) {
                0 | 1 => assert_eq!(map.insert(key, n), tree.insert(key, n)),
                2 => assert_eq!(map.remove(&key), tree.remove(&key)),
                3 if n % 2 == 0 => assert_eq!(map.entry(key).or_default(), tree.entry(key).or_default()),
                3 => assert_eq!(map.entry(key).or_insert(n), tree.entry(key).or_insert(n)),

                4 => assert_eq!(map.pop_first(), tree.pop_first()),
                5 => assert_eq!(
                    map.first_entry().filter(|first| *first.key() < 20).map(FirstEntry::remove_entry),
                    tree.first_entry().filter(|first| *first.key() < 20).map(|first| first.remove_entry())
                ),
                6 => {
                    map.retain(|known, _| known % 3 != key % 3);
                    tree.retain(|known, _| known % 3 != key % 3);
                }
                7 => assert_eq!(map.get_mut(&key), tree.get_mut(&key)),
                _ => {
                    map.extend([(key, n)]);
                    tree.extend([(key, n)]);
                }
            }
            assert!(map.keys().eq(tree.keys()) && map.values().eq(tree.values()));
            assert!(map.values_mut().eq(tree.values_mut()));
            assert_eq!((map.len(), map.is_empty()), (tree.len(), tree.is_empty()));
            assert_eq!((map.get(&key), map.contains_key(&key)), (tree.get(&key), tree.contains_key(&key)));
            assert_eq!(map.first_key_value(), tree.first_key_value());
            for from in [Bound::Unbounded, Bound::Included(key), Bound::Excluded(key)] {
                for to in [Bound::Unbounded, Bound::Included(key + 9), Bound::Excluded(key + 9)] {
                    assert!(map.range((from, to)).eq(tree.range((from, to))), "{from:?} to {to:?}");
                }
            }
        }
        assert!(map.clone().into_values().eq(tree.clone().into_values()) && map.into_iter().eq(tree));
    }

    #[test]
    fn d7_sorted_set_answers_like_a_tree() {
        let mut random = Random::seeded(7);
        let (mut set, mut tree) = (SortedSet::new(), BTreeSet::new());
        for _ in 0..1_000 {
            let key = random.below(40);
            match random.below(5) {
                0 => assert_eq!(set.remove(&key), tree.remove(&key)),
                1 => assert_eq!(set.contains(&key), tree.contains(&key)),
                _ => assert_eq!(set.insert(key), tree.insert(key)),
            }
            assert_eq!((set.len(), set.is_empty()), (tree.len(), tree.is_empty()));
        }
        set.clear();
        assert!(set.is_empty());
    }

    #[test]
    fn d7_sort_orders_every_length() {
        let mut random = Random::seeded(7);
        for len in 0..200 {
            let mut items: Vec<_> = (0..len).map(|n| (random.below(50), n)).collect();
            let mut expected = items.clone();
            sort_by_key(&mut items, |item| item.0);
            assert!(items.is_sorted_by_key(|item| item.0), "{items:?}");
            items.sort_unstable();
            expected.sort_unstable();
            assert_eq!(items, expected);
        }
    }
}
