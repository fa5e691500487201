//! [`Turns`]: how many messages a poll may still begin, whether the actor is suspended, and whether
//! it has a current message.
//!
//! The loop over messages asks and changes these for every message. They share one word, so that
//! each message costs one check and two additions:
//!
//! ```text
//!  bit 31: suspended    bit 30: has a current message    bits 0 to 29: messages left
//! ```
//!
//! The word is above zero exactly if a message may begin, because none is current between two
//! messages.

use crate::actor::cell::MESSAGES_PER_POLL_MAX;

const SUSPENDED: i32 = i32::MIN;
const CURRENT: i32 = 1 << 30;

/// The budget of a poll, with the flags `suspended` and `current`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turns(i32);

impl Turns {
    /// A full budget, not suspended, without a current message.
    pub(super) const fn new() -> Self {
        Self(MESSAGES_PER_POLL_MAX as i32)
    }

    /// Returns true if a message may begin now. There must be no current message.
    #[inline]
    pub(super) fn may_begin(self) -> bool {
        self.0 > 0
    }

    /// A message begins: it is the current one, and uses up a part of the budget, which must be
    /// left.
    #[inline]
    pub(super) fn begin_message(&mut self) {
        debug_assert!(!self.is_spent() && !self.has_current());
        self.0 = self.0.wrapping_add(CURRENT - 1);
    }

    /// The current message, which must be there, is no longer current.
    #[inline]
    pub(super) fn end_message(&mut self) {
        debug_assert!(self.has_current());
        self.0 = self.0.wrapping_sub(CURRENT);
    }

    /// As [`end_message`](Self::end_message), if there is one. Returns whether there was.
    #[inline]
    pub(super) fn take_current(&mut self) -> bool {
        let had = self.has_current();
        self.0 &= !CURRENT;
        had
    }

    #[inline]
    pub(super) fn has_current(self) -> bool {
        self.0 & CURRENT != 0
    }

    /// Uses up a part of the budget, which must be left, for something other than a message.
    #[inline]
    pub(super) fn spend(&mut self) {
        debug_assert!(!self.is_spent());
        self.0 = self.0.wrapping_sub(1);
    }

    /// Returns how many more messages the poll may begin.
    #[inline]
    pub(super) fn left(self) -> u32 {
        (self.0 & (CURRENT - 1)) as u32
    }

    #[inline]
    pub(super) fn is_spent(self) -> bool {
        self.left() == 0
    }

    /// Makes the budget full again.
    #[inline]
    pub(super) fn renew(&mut self) {
        self.0 = (self.0 & (SUSPENDED | CURRENT)) | MESSAGES_PER_POLL_MAX as i32;
    }

    #[inline]
    pub(super) fn is_suspended(self) -> bool {
        self.0 < 0
    }

    /// Suspends or resumes. Returns true if that is a change.
    #[inline]
    pub(super) fn set_suspended(&mut self, suspended: bool) -> bool {
        let before = self.is_suspended();
        self.0 = if suspended { self.0 | SUSPENDED } else { self.0 & !SUSPENDED };
        before != suspended
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The plain model: three fields.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Model {
        left: u32,
        suspended: bool,
        current: bool,
    }

    fn check(turns: Turns, model: Model) {
        assert_eq!((turns.left(), turns.is_suspended(), turns.has_current()), (model.left, model.suspended, model.current));
        assert_eq!(turns.is_spent(), model.left == 0);
        if !model.current {
            assert_eq!(turns.may_begin(), model.left > 0 && !model.suspended);
        }
    }

    /// All sequences of seven operations, from a budget that is nearly used up.
    #[test]
    fn a9_turns_are_as_three_separate_fields() {
        let mut nearly_spent = Turns::new();
        (2..MESSAGES_PER_POLL_MAX).for_each(|_| nearly_spent.spend());
        for sequence in 0..7u32.pow(7) {
            let mut turns = nearly_spent;
            let mut model = Model { left: 2, suspended: false, current: false };
            let mut rest = sequence;
            for _ in 0..7 {
                match rest % 7 {
                    0 if model.left > 0 && !model.current => {
                        turns.begin_message();
                        (model.left, model.current) = (model.left - 1, true);
                    }
                    1 if model.current => {
                        turns.end_message();
                        model.current = false;
                    }
                    2 => assert_eq!(turns.take_current(), core::mem::take(&mut model.current)),
                    3 if model.left > 0 => {
                        turns.spend();
                        model.left -= 1;
                    }
                    4 => {
                        turns.renew();
                        model.left = MESSAGES_PER_POLL_MAX;
                    }
                    5 => assert_eq!(turns.set_suspended(true), !core::mem::replace(&mut model.suspended, true)),
                    6 => assert_eq!(turns.set_suspended(false), core::mem::replace(&mut model.suspended, false)),
                    _ => {}
                }
                check(turns, model);
                rest /= 7;
            }
        }
    }
}
