//! [`PlaceIndex`]: how many children are in each block of places of a child table, so that the n-th
//! child is found without a walk over those before it.
//!
//! A table has an index only while an observer asks for windows of its children. The observer
//! counts the blocks, one for each look at the table. After that every child that is added or
//! removed changes one sum for each power of two of the blocks.
//!
//! Invariants, all under the lock of the node:
//! 1. The counted blocks are the first ones, and their sums are exact at every moment.
//! 2. An index that no observer has used during as many changes as it has places is dropped with
//!    the next change. So the work that it causes is at most in proportion to the work of counting.

use alloc::vec::Vec;

/// The places of one block: as many as one look examines.
pub(super) const BLOCK_LEN: usize = 256;

/// The sums of the counted blocks, as a Fenwick tree.
#[derive(Default)]
pub(super) struct PlaceIndex {
    /// The element with the number `i`, from 1 on, is the sum of the `i & -i` blocks up to `i`.
    sums: Vec<u32>,
    /// How many changes there were since an observer used it.
    unused_for: usize,
}

impl PlaceIndex {
    /// Returns how many places are counted.
    pub(super) fn places(&self) -> usize {
        self.sums.len() * BLOCK_LEN
    }

    /// Adds the next block, with this many children.
    pub(super) fn add_block(&mut self, children: u32) {
        let number = self.sums.len() + 1;
        let (mut sum, mut below) = (children, number - 1);
        while below > number - lowest_bit(number) {
            sum += self.sums[below - 1];
            below -= lowest_bit(below);
        }
        self.sums.push(sum);
    }

    /// Notes that a child took this place, or left it. Returns false if the index is to be dropped.
    pub(super) fn note(&mut self, place: usize, is_added: bool) -> bool {
        self.unused_for += 1;
        let mut number = place / BLOCK_LEN + 1;
        while let Some(sum) = self.sums.get_mut(number - 1) {
            *sum = if is_added { *sum + 1 } else { sum.saturating_sub(1) };
            number += lowest_bit(number);
        }
        self.unused_for <= self.places().max(BLOCK_LEN)
    }

    /// Notes that an observer uses it.
    pub(super) fn use_it(&mut self) {
        self.unused_for = 0;
    }

    /// Returns the block with the child number `index`, and how many children are before that
    /// block. `None` if there are fewer children in the counted blocks.
    pub(super) fn block_of(&self, index: u64) -> Option<(usize, u64)> {
        let (mut passed, mut before) = (0, 0);
        let mut step = self.sums.len().checked_ilog2().map_or(0, |bits| 1 << bits);
        while step > 0 {
            let sum = self.sums.get(passed + step - 1).map(|sum| before + u64::from(*sum));
            if let Some(sum) = sum.filter(|sum| *sum <= index) {
                (passed, before) = (passed + step, sum);
            }
            step /= 2;
        }
        (passed < self.sums.len()).then_some((passed, before))
    }

    /// Returns how many children are in the blocks before this one.
    pub(super) fn before(&self, block: usize) -> u64 {
        let (mut number, mut sum) = (block.min(self.sums.len()), 0);
        while number > 0 {
            sum += u64::from(self.sums[number - 1]);
            number -= lowest_bit(number);
        }
        sum
    }
}

fn lowest_bit(number: usize) -> usize {
    number & number.wrapping_neg()
}

#[cfg(all(test, feature = "std", not(loom)))]
mod tests {
    use super::*;

    /// Compares the index with a list of counts, after each of some hundred changes.
    #[test]
    fn k2_place_index_agrees_with_a_walk() {
        let mut counts: Vec<u32> = (0..37).map(|block| (block * 7) % 11).collect();
        let mut index = PlaceIndex::default();
        counts.iter().for_each(|count| index.add_block(*count));
        for round in 0..400_usize {
            let block = (round * 13) % counts.len();
            let is_added = round % 3 != 0 || counts[block] == 0;
            counts[block] = if is_added { counts[block] + 1 } else { counts[block] - 1 };
            index.note(block * BLOCK_LEN + round % BLOCK_LEN, is_added);
            let total: u32 = counts.iter().sum();
            for wanted in (0..u64::from(total) + 2).step_by(5) {
                let (mut block, mut before) = (0, 0);
                while block < counts.len() && before + u64::from(counts[block]) <= wanted {
                    before += u64::from(counts[block]);
                    block += 1;
                }
                let walked = (block < counts.len()).then_some((block, before));
                assert_eq!(index.block_of(wanted), walked, "child {wanted} of {total}");
                assert_eq!(index.before(block), before);
            }
        }
    }

    #[test]
    fn k2_unused_place_index_is_dropped_after_as_many_changes_as_places() {
        let mut index = PlaceIndex::default();
        index.add_block(0);
        let kept = |index: &mut PlaceIndex| (0..2 * BLOCK_LEN).take_while(|_| index.note(3, true)).count();
        assert_eq!(kept(&mut index), BLOCK_LEN);
        index.use_it();
        assert_eq!(kept(&mut index), BLOCK_LEN, "using it counts from the beginning");
    }
}
