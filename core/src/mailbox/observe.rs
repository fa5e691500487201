//! What an observer reads of a queue: one short look under the lock, without any effect.

use crate::base::sync::Ordering;
use crate::events::counts::Counts;
use crate::mailbox::Overflow;
use crate::mailbox::control::PollState;
use crate::mailbox::queue::AnyQueue;
use crate::mailbox::queue_state::ReceiverState;

/// A queue and its receiver at one moment.
pub(crate) struct QueueFacts {
    pub(crate) message_type: &'static str,
    pub(crate) counts: Counts,
    pub(crate) taken: usize,
    pub(crate) queued: usize,
    /// `None` for an unbounded queue.
    pub(crate) capacity: Option<usize>,
    pub(crate) is_conflated: bool,
    pub(crate) waiting_sends: usize,
    pub(crate) closed: bool,
    pub(crate) sizes: OwnerSizes,
    pub(crate) control_word: u32,
    pub(crate) in_poll: bool,
    /// The receiver waits for a message.
    pub(crate) is_idle: bool,
    /// The receiver waits in a handler or a hook.
    pub(crate) is_in_handler: bool,
    /// The receiver is parked and looks only at control.
    pub(crate) is_suspended: bool,
}

/// Data of a queue's owner, as an observer sees it.
pub(crate) trait OwnerData: Default {
    /// Returns how many messages it keeps.
    fn sizes(&self) -> OwnerSizes;
}

/// How many messages the owner of a queue keeps beside it.
#[derive(Clone, Copy, Default)]
pub(crate) struct OwnerSizes {
    pub(crate) stashed: usize,
    pub(crate) timers: usize,
}

impl QueueFacts {
    /// Returns true if a message has been taken and is neither settled nor stashed.
    pub(crate) fn has_current(&self) -> bool {
        self.counts.open() > (self.queued + self.sizes.stashed) as u64
    }
}

impl<U: OwnerData, H> AnyQueue<U, H> {
    /// Looks at the queue. The receiver may continue meanwhile: the counters that only it writes
    /// are read one after the other.
    pub(crate) fn observe(&self) -> QueueFacts {
        let (control_word, in_poll) = (self.control_word(), self.poll_state() != PollState::Outside);
        self.state.with(|state| {
            // Under the lock, every message that the receiver has counted is also accepted.
            let handled = self.handled.load(Ordering::Acquire) as u64;
            let (failed, dead_lettered) = state.cold.as_ref().map_or((0, 0), |cold| (cold.failed, cold.dead_lettered));
            QueueFacts {
                message_type: state.messages.message_type(),
                counts: Counts { accepted: state.accepted as u64, handled, failed, dead_lettered },
                taken: self.taken(),
                queued: state.queued(&self.taken),
                capacity: (state.capacity != u32::MAX).then_some(state.capacity as usize),
                is_conflated: state.overflow == Overflow::Conflate,
                waiting_sends: state.cold.as_ref().map_or(0, |cold| cold.waiting.len()),
                closed: state.closed,
                sizes: state.cold.as_ref().map_or_else(OwnerSizes::default, |cold| cold.attached.sizes()),
                control_word,
                in_poll,
                is_idle: state.receiver == ReceiverState::Idle,
                is_in_handler: state.receiver == ReceiverState::InHandler,
                is_suspended: state.receiver == ReceiverState::Suspended,
            }
        })
    }
}
