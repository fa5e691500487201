//! `Dice`: chance from a seed, so that one seed gives one plan.

/// Splitmix64.
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

    /// Whether it comes true, with a chance of so many in a hundred.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// A number whose bits all depend on all bits of another.
pub fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
