//! Hashing: [`Fnv`], and how the names of children are hashed.

use core::hash::Hasher;

/// How a table of names is hashed: with a seed, so that names from outside cannot be chosen to
/// collide. Without `std` it is [`Fnv`], which needs a twentieth of the code.
#[cfg(feature = "std")]
pub(crate) type NameHashBuilder = hashbrown::DefaultHashBuilder;
#[cfg(not(feature = "std"))]
pub(crate) type NameHashBuilder = core::hash::BuildHasherDefault<Fnv>;

/// FNV-1a: hashes any key without a seed or a table.
pub(crate) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
