//! What a full group does: with results for which there is no room, and with tasks that wait for a slot of their own group. Pure; the state
//! own both.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// What becomes of results while as many as the buffer are unread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Overflow {
    /// No task is taken whose result might find no room.
    Wait,
    DropNewest,
    DropOldest,
}

impl Overflow {
    /// Takes out the result for which there is no room in the buffer, the oldest of which is the first.
    #[inline]
    pub(super) fn trim<R>(self, unread: &mut VecDeque<R>, buffer: usize) -> Option<R> {
        match self {
            Self::DropNewest if unread.len() > buffer => unread.pop_back(),
            Self::DropOldest if unread.len() > buffer => unread.pop_front(),
            _ => None,
        }
    }
}

/// The tasks of a group that wait for a slot of it: their places in line, and which task it is. Those that have left since are removed when
/// there may be enough of them to matter.
#[derive(Default)]
pub(super) struct SelfWaits(Vec<(u64, usize)>);

impl SelfWaits {
    /// Notes that a task waits at a ticket. Whether all of the `in_flight` tasks do so now: a task may stand at several places.
    pub(super) fn note(&mut self, ticket: u64, task: usize, in_flight: usize, is_waiting: impl Fn(u64) -> bool) -> bool {
        let Self(waits) = self;
        waits.push((ticket, task));
        if waits.len() < in_flight {
            return false;
        }
        waits.retain(|(ticket, _)| is_waiting(*ticket));
        waits.sort_unstable_by_key(|(ticket, task)| (*task, *ticket));
        waits.dedup();
        waits.chunk_by(|(_, one), (_, other)| one == other).count() >= in_flight
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn g9_a_full_buffer_gives_up_the_newest_or_the_oldest() {
        let trimmed = |overflow: Overflow, results: [u32; 3]| {
            let mut unread = VecDeque::from(results);
            (overflow.trim(&mut unread, 2), unread.make_contiguous().to_vec())
        };
        assert_eq!(trimmed(Overflow::Wait, [1, 2, 3]), (None, [1, 2, 3].to_vec()));
        assert_eq!(trimmed(Overflow::DropNewest, [1, 2, 3]), (Some(3), [1, 2].to_vec()));
        assert_eq!(trimmed(Overflow::DropOldest, [1, 2, 3]), (Some(1), [2, 3].to_vec()));
    }

    #[test]
    fn g9_only_tasks_that_still_wait_count_and_each_once() {
        let mut waits = SelfWaits::default();
        // Task 7 waits at two places, and polls one of them again.
        assert!(!waits.note(1, 7, 2, |_| true));
        assert!(!waits.note(2, 7, 2, |_| true));
        assert!(!waits.note(2, 7, 2, |_| true));
        // Task 8 waits, but 7 has left both places.
        assert!(!waits.note(3, 8, 2, |ticket| ticket > 2));
        assert!(waits.note(4, 7, 2, |ticket| ticket > 2));
    }
}
