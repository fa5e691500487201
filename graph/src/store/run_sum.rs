//! The checksum of a run's own row.
//!
//! A statement that changes some columns of a row does not know the others, and must not vouch for them. So the checksum is what the columns come to by
//! XOR, each for itself: whoever changes a column takes out what it was and puts in what it is. Any change of one column that was not written so is
//! found, for certain, and whatever is written after it leaves it found.
//!
//! Covered are the id, the graph and its version, the origin, the numbers (instance, epoch, head, oldest, posted) and the times by which a run is
//! made, woken, leased and ended. A deadline that is not there counts for nothing, so that rows without one have the sums of the second format. A status needs no cover: no two of the words are a bit apart. Not covered is who holds the run, how often it was taken over, and when it was
//! last committed to: nothing that is driven depends on them.

use super::row::sum_of;
use super::{RunInfo, StoreError, Timestamp};

/// What a time that is not there counts for.
pub(super) const NO_TIME: i64 = -1;

impl RunInfo {
    /// What the columns come to.
    pub(super) fn sum(&self) -> i64 {
        let time = |time: Option<Timestamp>| time.map_or(NO_TIME, Timestamp::as_millis);
        let from = self.from.as_ref();
        let texts = sum_of(&[
            self.id.as_bytes(),
            self.graph.as_bytes(),
            self.version.fingerprint.as_bytes(),
            &self.version.schema.to_le_bytes(),
            from.map_or("", |from| from.run.as_str()).as_bytes(),
            &from.map_or(0, |from| from.sequence).to_le_bytes(),
        ]);
        let numbers = self.instance ^ self.epoch ^ self.head ^ self.oldest ^ self.posted;
        let times = self.created.as_millis()
            ^ time(self.wake_at)
            ^ time(self.lease_until)
            ^ self.deadline.map_or(0, Timestamp::as_millis);
        (i64::from(texts) << 31) ^ numbers as i64 ^ times
    }

    /// The row, if it is as it was written with this checksum.
    pub(super) fn checked(self, sum: i64) -> Result<Self, StoreError> {
        let why =
            "the checksum of its own row differs: its graph, version, origin, numbers or times are not as they were written";
        if self.sum() == sum { Ok(self) } else { Err(StoreError::Damaged { run: self.id, sequence: 0, why }) }
    }
}

#[cfg(test)]
mod tests {
    use crate::store::run_info::RunStatus;

    #[test]
    fn c2_no_flipped_bit_makes_one_status_of_another() {
        for (one, other) in RunStatus::ALL.iter().flat_map(|one| RunStatus::ALL.map(|other| (one.as_str(), other.as_str()))) {
            let apart: u32 = one.bytes().zip(other.bytes()).map(|(one, other)| (one ^ other).count_ones()).sum();
            assert!(one == other || one.len() != other.len() || apart > 1, "{one} and {other}");
        }
    }
}
