//! What an actor tells an observer: read from its mailbox and its control word, without any effect
//! on its task and without any work of the task.
//!
//! The task notes nothing for observers. What it is doing follows from state that exists anyway:
//!
//! | found | meaning |
//! |---|---|
//! | `ENDING` and a closed mailbox | stopping |
//! | `ENDING` and an open mailbox | ending an incarnation before a restart |
//! | `WAITING_TO_RESTART` | between two incarnations |
//! | a taken message that is not settled | handling |
//! | parked for control only | suspended |
//! | parked in code, no taken message | in a hook, or starting if no message was taken yet |
//! | parked for messages | idle |
//! | not parked | running if in a poll, else ready |

use crate::actor::cell::AnyCell;
use crate::mailbox::control;
use crate::mailbox::observe::QueueFacts;
use crate::tree::facts::{ActorFacts, EDGES_OBSERVED_MAX, MemberFacts, MemberKind, Progress, Work};
use alloc::vec::Vec;

impl AnyCell {
    /// Returns the facts of this actor.
    pub(super) fn facts(&self) -> MemberFacts {
        let queue = self.mailbox.observe();
        let optional = self.observe_optional(EDGES_OBSERVED_MAX);
        let (incarnation, taken_before) =
            optional.as_ref().map_or((0, 0), |optional| (optional.incarnation, optional.taken_before));
        let (restart_at, since) =
            optional.as_ref().map_or((None, None), |optional| (optional.restart_at, optional.handling_since));
        let stuck_since = optional.as_ref().and_then(|optional| optional.stuck_since);
        let word = queue.control_word;
        let is_new = queue.taken == taken_before;
        let work = match () {
            () if word & control::ENDING != 0 && queue.closed => Work::Stopping,
            () if word & control::ENDING != 0 => Work::Restarting,
            () if word & control::WAITING_TO_RESTART != 0 => Work::WaitingToRestart(restart_at),
            () if is_handling(&queue) => {
                Work::Handling(Progress { taken: queue.taken, handled: queue.counts.handled, incarnation, since, stuck_since })
            }
            () if queue.is_suspended => Work::Suspended,
            () if queue.is_idle => Work::Idle,
            () if is_new => Work::Starting,
            () if queue.is_in_handler => Work::InHook,
            () if queue.in_poll => Work::Running,
            () => Work::Ready,
        };
        let QueueFacts { message_type, counts, queued, capacity, is_conflated, waiting_sends, sizes, .. } = queue;
        let (stashed, timers, label) = (sizes.stashed, sizes.timers, self.label());
        let actor = ActorFacts {
            message_type,
            label,
            queued,
            capacity,
            is_conflated,
            waiting_sends,
            stashed,
            timers,
            counts,
            incarnation,
        };
        let (edges, count) = optional.map_or_else(|| (Vec::new(), 0), |optional| optional.edges);
        let mut facts = MemberFacts::new(MemberKind::Actor, work).with_edges(edges, count);
        facts.actor = Some(actor);
        facts
    }
}

/// Returns true if the actor works on a message. A message that its own handler has just stashed
/// counts as current until the handler returns.
fn is_handling(queue: &QueueFacts) -> bool {
    let stashed_now = queue.control_word & control::STASH_CHANGED != 0 && (queue.in_poll || queue.is_in_handler);
    queue.has_current() || stashed_now
}
