//! The rules of a full group: which result is dropped, and when waiting tasks are deadlocked.
//!
//! Both are pure and owned by the group state.

use crate::base::sorted::sort_by_key;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// What happens when the number of unread results reaches the buffer size.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Overflow {
    /// A task is admitted only if its result will have room.
    Wait,
    DropNewest,
    DropOldest,
}

impl Overflow {
    /// Removes the result that exceeds the buffer. The oldest result is at the front.
    #[inline]
    pub(super) fn trim<R>(self, unread: &mut VecDeque<R>, buffer: usize) -> Option<R> {
        match self {
            Self::DropNewest if unread.len() > buffer => unread.pop_back(),
            Self::DropOldest if unread.len() > buffer => unread.pop_front(),
            _ => None,
        }
    }
}

/// The tasks of a group that wait for a slot of the same group, as pairs of ticket and task.
///
/// Entries of tasks that stopped waiting are removed lazily, when the list is as long as the number
/// of tasks in flight.
#[derive(Default)]
pub(super) struct SelfWaits(Vec<(u64, usize)>);

impl SelfWaits {
    /// Records that a task waits with a ticket. Returns whether all `in_flight` tasks wait now. One
    /// task may hold several tickets.
    pub(super) fn note(&mut self, ticket: u64, task: usize, in_flight: usize, is_waiting: impl Fn(u64) -> bool) -> bool {
        let Self(waits) = self;
        waits.push((ticket, task));
        if waits.len() < in_flight {
            return false;
        }
        waits.retain(|(ticket, _)| is_waiting(*ticket));
        sort_by_key(waits, |(ticket, task)| (*task, *ticket));
        waits.dedup();
        waits.chunk_by(|(_, one), (_, other)| one == other).count() >= in_flight
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn g9_full_buffer_drops_the_newest_or_the_oldest_result() {
        let trimmed = |overflow: Overflow, results: [u32; 3]| {
            let mut unread = VecDeque::from(results);
            (overflow.trim(&mut unread, 2), unread.make_contiguous().to_vec())
        };
        assert_eq!(trimmed(Overflow::Wait, [1, 2, 3]), (None, [1, 2, 3].to_vec()));
        assert_eq!(trimmed(Overflow::DropNewest, [1, 2, 3]), (Some(3), [1, 2].to_vec()));
        assert_eq!(trimmed(Overflow::DropOldest, [1, 2, 3]), (Some(1), [2, 3].to_vec()));
    }

    #[test]
    fn g9_deadlock_counts_each_waiting_task_once() {
        let mut waits = SelfWaits::default();
        // Task 7 waits with two tickets, and polls one of them twice.
        assert!(!waits.note(1, 7, 2, |_| true));
        assert!(!waits.note(2, 7, 2, |_| true));
        assert!(!waits.note(2, 7, 2, |_| true));
        // Task 8 waits, but task 7 has left both queue positions.
        assert!(!waits.note(3, 8, 2, |ticket| ticket > 2));
        assert!(waits.note(4, 7, 2, |ticket| ticket > 2));
    }
}
