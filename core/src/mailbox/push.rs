//! The slow path of a push: every case without credits. It is compiled once for all message types.

use crate::base::wakers;
use crate::events::event::DeadLetterReason;
use crate::events::instrument::SendContext;
use crate::mailbox::Priority;
use crate::mailbox::high_water::HighWater;
use crate::mailbox::queue::AnyQueue;
use crate::mailbox::queue_state::{Admission, AnyQueueState};
use crate::mailbox::send_error::SendError;
use crate::mailbox::slot::Slot;
use alloc::vec::Vec;
use core::task::Waker;

/// What a slow push does if there is no room.
pub(crate) enum WhenFull {
    /// It fails and returns the message.
    Fail,
    /// It applies the overflow rule of the mailbox, which may drop a message.
    Drop,
    /// It waits for room. Contains the waker of the sender, until the wait begins.
    Wait(Option<Waker>),
}

/// A push that was not rejected.
pub(crate) struct Pushed {
    /// The key of a send that waits for room, or `None` if its message was accepted.
    pub(crate) waiting: Option<u64>,
    /// Set if the push passed the high-water mark.
    pub(crate) high_water: Option<HighWater>,
    /// Set if a message was dropped to make room, or the pushed one itself. It is in the slot.
    pub(crate) dropped: Option<DeadLetterReason>,
}

impl WhenFull {
    fn take_waker(&mut self) -> Option<Waker> {
        if let Self::Wait(waker) = self { waker.take() } else { None }
    }

    /// Drops the waker if it was not needed.
    fn discard(self) {
        if let Self::Wait(waker) = self {
            wakers::discard(waker);
        }
    }
}

impl<U: Default, H> AnyQueue<U, H> {
    /// Pushes the message in `slot`. Waiting sends go first. If the push is rejected, the message
    /// stays in the slot.
    #[cold]
    pub(crate) fn push_slow(
        &self,
        slot: &mut dyn Slot,
        priority: Priority,
        mut when_full: WhenFull,
        mut context: Option<SendContext>,
    ) -> Result<Pushed, SendError<()>> {
        let (mut to_wake, mut receiver, mut old_context) = (Vec::new(), None, None);
        let pushed = self.state.with(|state| {
            let (mut waiting, mut dropped) = (None, None);
            match self.begin_push(state, priority, &mut when_full, &mut to_wake)? {
                Some(Admission::Enqueue) => {
                    let at = state.position(priority);
                    state.messages.enqueue_slot(slot, at);
                    context = state.push_context(priority, context.take());
                }
                Some(Admission::ReplaceOldest(reason)) => {
                    let at = state.position(priority);
                    dropped = state.messages.replace_oldest(slot, at).then_some(reason);
                    old_context = state.pop_oldest_context();
                    context = state.push_context(priority, context.take());
                }
                Some(Admission::DropIncoming(reason)) => dropped = Some(reason),
                None => {
                    let (message, waker) = (slot.take_boxed(), when_full.take_waker());
                    waiting = Some(self.add_waiting(state, message, priority, waker, context.take()));
                }
            }
            let high_water = self.finish_push(state, &mut receiver);
            Ok(Pushed { waiting, high_water, dropped })
        });
        drop((context, old_context));
        when_full.discard();
        wakers::wake_each(to_wake);
        wakers::wake_each(receiver);
        pushed
    }

    /// Before a message is pushed: admits waiting sends, then decides about the message. Returns
    /// `None` if it must wait for room.
    fn begin_push(
        &self,
        state: &mut AnyQueueState<U>,
        priority: Priority,
        when_full: &mut WhenFull,
        to_wake: &mut Vec<Waker>,
    ) -> Result<Option<Admission>, SendError<()>> {
        let room = self.admit_first(state, to_wake);
        let may_drop = matches!(when_full, WhenFull::Drop);
        match (state.admit_message(room, priority, may_drop), when_full) {
            (Err(SendError::Full(())), WhenFull::Wait(_)) => Ok(None),
            (admitted, _) => admitted.map(Some),
        }
    }

    /// Admits waiting sends. Returns the room that is left: if a send still waits, there is none.
    pub(super) fn admit_first(&self, state: &mut AnyQueueState<U>, to_wake: &mut Vec<Waker>) -> u32 {
        loop {
            to_wake.extend(self.admit_locked(state));
            // The receiver may have taken a message since. Its room belongs to a waiting send.
            let room = state.room(&self.taken);
            if room == 0 || state.closed || state.no_send_waits() {
                return room;
            }
        }
    }

    /// After a message was pushed. Stores the waker of an idle receiver in `receiver`.
    fn finish_push(&self, state: &mut AnyQueueState<U>, receiver: &mut Option<Waker>) -> Option<HighWater> {
        state.refresh_credits(&self.taken, &self.control_word);
        *receiver = state.unpark_if_idle();
        state.check_high_water(&self.taken, &self.control_word)
    }
}
