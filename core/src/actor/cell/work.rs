//! Where the next message comes from: the batch, then the mailbox and due timers, then the feed.
//!
//! If none of them has a message, the actor parks. `budget` limits how many messages one poll
//! handles; when it is used up, the task yields.

use crate::actor::Actor;
use crate::actor::cell::actor_part::{ActorPart, FeedAndCopy};
use crate::actor::cell::task::{ActorTask, Phase};
use crate::actor::cell::{Cell, MESSAGES_PER_POLL_MAX};
use crate::mailbox::control;
use crate::mailbox::queue::Refill;
use alloc::vec::Vec;
use core::task::Poll;

/// An actor that has handled this many messages in one poll checks once more before it goes idle,
/// because the sender is probably still sending.
const BUSY: u16 = 32;

impl<A: Actor> ActorTask<A> {
    /// Yields to other tasks if the budget of this poll is used up.
    pub(super) fn yield_if_spent(&mut self, cx: &mut core::task::Context<'_>) -> Poll<()> {
        if self.budget > 0 {
            return Poll::Ready(());
        }
        self.budget = MESSAGES_PER_POLL_MAX as u16;
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// As [`poll_work`](Self::poll_work). Before the poll ends, renews the budget: a batch, and
    /// even an incarnation, may be a single message, so neither renews it.
    #[inline]
    pub(super) fn poll_work_or_park(&mut self, cell: &Cell<A::Msg>, cx: &mut core::task::Context<'_>) -> Poll<Refill<A::Msg>> {
        let found = self.poll_work(cell, cx);
        if found.is_pending() {
            self.budget = MESSAGES_PER_POLL_MAX as u16;
        }
        cell.mark_parked(found)
    }

    /// Finds the next message, or parks. An actor that parked early, and got no message since,
    /// returns at once.
    #[inline]
    fn poll_work(&mut self, cell: &Cell<A::Msg>, cx: &mut core::task::Context<'_>) -> Poll<Refill<A::Msg>> {
        if self.phase == Phase::Parked && cell.mailbox.is_still_parked() && self.waits_for_messages_only() {
            self.phase = Phase::Quiet;
            return Poll::Pending;
        }
        self.poll_work_slow(cell, cx)
    }

    /// Returns true if only the mailbox and the control word can bring work to this actor.
    #[inline]
    fn waits_for_messages_only(&self) -> bool {
        !self.has_timers && self.part.extra.as_ref().is_none_or(|extra| extra.feed.is_none() && extra.retry_copy.is_none())
    }

    /// Takes the single message of an actor that parks early, else checks all sources. Not inlined,
    /// to keep the early return short.
    #[inline(never)]
    fn poll_work_slow(&mut self, cell: &Cell<A::Msg>, cx: &mut core::task::Context<'_>) -> Poll<Refill<A::Msg>> {
        if self.phase == Phase::Quiet
            && let Some(message) = cell.take_single(cx.waker())
        {
            self.phase = Phase::Parked;
            return Poll::Ready(Refill::Single(message));
        }
        let found = self.poll_all_sources(cell, cx);
        let idle = found.is_pending() && self.part.batch.is_empty() && !self.suspended && self.waits_for_messages_only();
        self.phase = if idle { Phase::Quiet } else { Phase::Busy };
        found
    }

    /// Takes messages from the mailbox and from due timers, else from the feed; else parks.
    #[inline(never)]
    fn poll_all_sources(&mut self, cell: &Cell<A::Msg>, cx: &mut core::task::Context<'_>) -> Poll<Refill<A::Msg>> {
        if self.yield_if_spent(cx).is_pending() {
            return Poll::Pending;
        }
        // A close resumes a suspended actor: its queued messages must be handled.
        if self.suspended && cell.any().mailbox.is_closed() {
            self.suspended = false;
        }
        if self.suspended {
            return cell.any().mailbox.poll_control(cx.waker()).map(|()| Refill::Control);
        }
        if !self.part.batch.is_empty() {
            return Poll::Ready(Refill::Messages);
        }
        // The copy of the last message is not kept while the actor waits for the next.
        if let Some(retry_copy) = self.part.extra.as_mut().and_then(|extra| extra.retry_copy.take()) {
            cell.discard(retry_copy);
        }
        // After that many messages the sender is probably still sending: checking once more before
        // parking saves it a wake-up.
        let may_park = MESSAGES_PER_POLL_MAX as u16 - self.budget < BUSY;
        let found = cell.mailbox.refill(&mut self.part.batch, may_park, cx.waker());
        if self.has_timers
            && let Poll::Ready(fired) = self.poll_timers(cell, found.is_pending(), cx)
        {
            return Poll::Ready(fired);
        }
        if found.is_ready() {
            return found;
        }
        if !may_park {
            cx.waker().wake_by_ref();
        }
        let ActorPart { extra, batch, .. } = &mut self.part;
        let Some(extra) = extra.as_mut().filter(|extra| extra.feed.is_some()) else { return Poll::Pending };
        match extra.poll_feed(cell, batch, cx) {
            // The feed is user code and may have dropped a reply, after the mailbox was checked.
            Poll::Pending if cell.mailbox.control_word() & control::UNANSWERED != 0 => Poll::Ready(Refill::Control),
            polled => polled,
        }
    }

    /// Delivers the messages of due timers: each is accepted here and taken next.
    fn poll_timers(&mut self, cell: &Cell<A::Msg>, quiet: bool, cx: &mut core::task::Context<'_>) -> Poll<Refill<A::Msg>> {
        let queued = self.part.batch.len();
        let (polled, any_left) = cell.poll_timers(quiet, &mut self.part.batch, cx);
        self.has_timers = any_left;
        (queued..self.part.batch.len()).for_each(|_| cell.any().mailbox.count_accepted());
        polled.map(|()| Refill::Messages)
    }
}

impl<M: Send + 'static> FeedAndCopy<M> {
    /// Takes the next item of the feed. The end of the feed closes the actor.
    fn poll_feed(&mut self, cell: &Cell<M>, batch: &mut Vec<M>, cx: &mut core::task::Context<'_>) -> Poll<Refill<M>> {
        let Some(feed) = &mut self.feed else { return Poll::Pending };
        match feed.as_mut().poll_next(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(item)) => {
                cell.any().mailbox.count_accepted();
                batch.push(item);
                Poll::Ready(Refill::Messages)
            }
            Poll::Ready(None) => {
                self.feed = None;
                cell.any().close();
                cell.mailbox.refill(batch, true, cx.waker())
            }
        }
    }
}
