//! The checksum of a run's own row.
//!
//! A statement that changes some columns does not read the others, so it must not confirm them. The
//! checksum is therefore the XOR of one value per column. A statement that changes a column removes
//! the old value from the sum and adds the new one. An unexpected change of one column is always
//! detected, and later correct changes do not hide it.
//!
//! - Covered: the id, the graph and its version, the origin, the numbers (instance, epoch, head,
//!   oldest, last message), and the times of creation, wake-up, lease and deadline.
//! - A missing deadline counts as 0, so that rows without one keep the sums of format 2.
//! - Covered: the tags. A run without tags counts 0, so that rows of earlier formats keep their
//!   sums.
//! - Not covered: the status, because no two status texts differ by one bit.
//! - Not covered: the owner, the takeovers, the failure and the time of the last change, because no
//!   execution depends on them.

use super::row::sum_of;
use super::{RunInfo, StoreError, Tags, Timestamp};

/// The value of a missing time in the checksum.
pub(super) const NO_TIME: i64 = -1;

impl RunInfo {
    /// Returns the checksum of the columns.
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
        let numbers = self.instance ^ self.epoch ^ self.head ^ self.oldest ^ self.last_message;
        let times = self.created.as_millis()
            ^ time(self.wake_at)
            ^ time(self.lease_until)
            ^ self.deadline.map_or(0, Timestamp::as_millis);
        (i64::from(texts) << 31) ^ numbers as i64 ^ times ^ self.tags.sum()
    }

    /// Returns the row if its checksum is `sum`.
    pub(super) fn checked(self, sum: i64) -> Result<Self, StoreError> {
        let reason = "the checksum of the run's row differs: its graph, version, origin, tags, numbers or times are not the written ones";
        if self.sum() == sum { Ok(self) } else { Err(StoreError::Damaged { run: self.id, sequence: 0, reason }) }
    }
}

impl Tags {
    /// Returns the part of the tags in the checksum of the run's row.
    pub(super) fn sum(&self) -> i64 {
        self.stored().map_or(0, |stored| i64::from(sum_of(&[stored.as_bytes()])) << 17)
    }
}

#[cfg(test)]
mod tests {
    use crate::store::run_info::RunStatus;

    #[test]
    fn c2_no_single_bit_flip_turns_one_status_into_another() {
        for (one, other) in RunStatus::ALL.iter().flat_map(|one| RunStatus::ALL.map(|other| (one.as_str(), other.as_str()))) {
            let apart: u32 = one.bytes().zip(other.bytes()).map(|(one, other)| (one ^ other).count_ones()).sum();
            assert!(one == other || one.len() != other.len() || apart > 1, "{one} and {other}");
        }
    }
}
