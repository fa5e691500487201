//! [`Dice`]: random numbers from a seed, so that one seed gives one plan.

/// The splitmix64 generator.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `max`.
    pub fn below(&mut self, max: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mixed(self.0) % max.max(1)
    }

    /// True with this chance in percent.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// A hash: all bits of the result depend on all bits of the number.
pub fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
