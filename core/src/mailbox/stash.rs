//! The stash: messages an actor has put aside, to be handled before all others once it says so.
//!
//! A message that is put aside is neither handled nor queued: it has left the mailbox's capacity and is not in its counts yet. Brought
//! back it stands at the front, in the order it came. Only the actor's own task touches the stash, and settles the books after the
//! handler or hook that did (`control::STASH`), before anything else of the user's runs. A hook has no message in hand: what it puts
//! aside is of its own making.

use crate::base::sync::Ordering;
use crate::mailbox::control;
use crate::mailbox::queue::Inbox;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// How many messages an actor can put aside unless its `Props` say otherwise.
pub const STASH_CAPACITY_DEFAULT: usize = 1024;

/// What is put aside, and what was brought back and has not reached the actor's batch yet.
pub(super) struct Stash<M> {
    aside: VecDeque<M>,
    back: VecDeque<M>,
    put_now: usize,
}

impl<M> Default for Stash<M> {
    fn default() -> Self {
        Self { aside: VecDeque::new(), back: VecDeque::new(), put_now: 0 }
    }
}

/// What the actor was at when it put messages aside.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StashedIn {
    /// A message handler that has finished; its message is counted as handled.
    Finished,
    /// A message handler that has not finished: its message is in hand.
    Unfinished,
    /// A hook or a signal: there was no message.
    Hook,
}

impl<M> Inbox<M> {
    /// Puts a message aside, or gives it back if `capacity` are.
    pub(crate) fn stash(&self, message: M, capacity: usize) -> Result<(), M> {
        self.keeps_more.store(true, Ordering::Relaxed);
        self.state.with(|state| {
            let stash = state.cold().stash.get_or_insert_default();
            if stash.aside.len() >= capacity {
                return Err(message);
            }
            stash.aside.push_back(message);
            stash.put_now += 1;
            Ok(())
        })?;
        self.mark(control::STASH);
        Ok(())
    }

    /// Brings back all that was put aside.
    pub(crate) fn unstash(&self) {
        let any = self.state.with(|state| {
            let stash = state.cold.as_mut().and_then(|cold| cold.stash.as_mut());
            stash.is_some_and(|stash| {
                stash.back.append(&mut stash.aside);
                !stash.back.is_empty()
            })
        });
        if any {
            self.mark(control::STASH);
        }
    }

    pub(crate) fn stashed(&self) -> usize {
        self.state.with(|state| state.cold.as_ref().and_then(|cold| cold.stash.as_ref()).map_or(0, |stash| stash.aside.len()))
    }

    /// Settles what the last handler or hook did to the stash: what was brought back goes to the end of `batch`, where it is taken
    /// first. True if the message in hand was put aside, and so is in hand no more.
    pub(crate) fn settle_stash(&self, batch: &mut Vec<M>, at: StashedIn) -> bool {
        self.lower(control::STASH);
        let (put, back) = self.state.with(|state| {
            let Some(stash) = state.cold.as_mut().and_then(|cold| cold.stash.as_mut()) else { return (0, VecDeque::new()) };
            let put = core::mem::take(&mut stash.put_now);
            // One of them is the message that was handled, if there was one. The others are the actor's own, and come in here.
            let made = put.saturating_sub(usize::from(at != StashedIn::Hook));
            state.accepted = state.accepted.wrapping_add(made);
            self.taken.store(self.taken.load(Ordering::Relaxed).wrapping_add(made), Ordering::Release);
            (put, core::mem::take(&mut stash.back))
        });
        if put > 0 && at == StashedIn::Finished {
            self.unfinish();
        }
        self.taken.store(self.taken.load(Ordering::Relaxed).wrapping_sub(back.len()), Ordering::Release);
        batch.extend(back.into_iter().rev());
        put > 0 && at == StashedIn::Unfinished
    }
}
