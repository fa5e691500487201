//! Where the next message comes from: the batch, then the mailbox and due timers, then the feed.
//!
//! If none of them has a message, the actor parks. `Turns` limits how many messages one poll
//! handles; when it is used up, the task yields.

use crate::actor::Actor;
use crate::actor::cell::feed_and_copy::Fed;
use crate::actor::cell::task::{ActorTask, AnyTask, Phase, TaskOf};
use crate::actor::cell::{AnyCell, Cell, MESSAGES_PER_POLL_MAX};
use crate::mailbox::control;
use crate::mailbox::control::PollState;
use crate::mailbox::receiver::Refill;
use core::task::{Context, Poll};

/// An actor that has handled this many messages in one poll checks once more before it goes idle,
/// because the sender is probably still sending.
const BUSY: u32 = 32;

/// What an actor does next.
pub(super) enum Next<M> {
    /// It handles a single message, which counts as taken. The actor is parked.
    Single(M),
    /// It looks at what the mailbox, the timers and the feed have.
    Found(Refill),
}

impl<A: Actor> ActorTask<A> {
    /// Finds the next message, or parks. An actor that parks early takes its single message here.
    #[inline]
    pub(super) fn poll_next(&mut self, cell: &Cell<A::Msg>, cx: &mut Context<'_>) -> Poll<Next<A::Msg>> {
        if self.stays_parked(cell.any()) {
            return Poll::Pending;
        }
        self.poll_next_slow(cell, cx)
    }

    /// Not inlined, to keep the early return short.
    #[inline(never)]
    fn poll_next_slow(&mut self, cell: &Cell<A::Msg>, cx: &mut Context<'_>) -> Poll<Next<A::Msg>> {
        if self.phase == Phase::Quiet
            && let Some(message) = cell.take_single(cx.waker())
        {
            self.phase = Phase::Parked;
            return Poll::Ready(Next::Single(message));
        }
        self.any().poll_work(cell.any(), cx).map(Next::Found)
    }
}

impl<P: ?Sized> TaskOf<P> {
    /// Yields to other tasks if the budget of this poll is used up.
    pub(super) fn yield_if_spent(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.turns.is_spent() {
            return Poll::Ready(());
        }
        self.turns.renew();
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Stays parked if the actor parked early and got no message since. Returns true if so: its
    /// poll can end at once.
    #[inline]
    fn stays_parked(&mut self, cell: &AnyCell) -> bool {
        let is_parked = self.phase == Phase::Parked && cell.mailbox.is_still_parked() && self.waits_for_messages_only();
        if is_parked {
            self.phase = Phase::Quiet;
            self.turns.renew();
            cell.mailbox.set_poll_state(PollState::Parked);
        }
        is_parked
    }

    /// Returns true if only the mailbox and the control word can bring work to this actor.
    #[inline]
    fn waits_for_messages_only(&self) -> bool {
        !self.has_timers && !self.has_feed_or_copy
    }
}

impl AnyTask {
    /// Checks all sources of messages, or parks.
    ///
    /// Before the poll ends, renews the budget: a batch, and even an incarnation, may be a single
    /// message, so neither renews it.
    fn poll_work(&mut self, cell: &AnyCell, cx: &mut Context<'_>) -> Poll<Refill> {
        let found = self.poll_all_sources(cell, cx);
        if found.is_pending() {
            let idle = self.part.batch_is_empty() && !self.turns.is_suspended() && self.waits_for_messages_only();
            self.phase = if idle { Phase::Quiet } else { Phase::Busy };
            self.turns.renew();
        } else {
            self.phase = Phase::Busy;
        }
        cell.mark_parked(found)
    }

    /// Takes messages from the mailbox and from due timers, else from the feed; else parks.
    fn poll_all_sources(&mut self, cell: &AnyCell, cx: &mut Context<'_>) -> Poll<Refill> {
        if self.yield_if_spent(cx).is_pending() {
            return Poll::Pending;
        }
        // A close resumes a suspended actor: its queued messages must be handled.
        if self.turns.is_suspended() && cell.mailbox.is_closed() {
            self.turns.set_suspended(false);
        }
        if self.turns.is_suspended() {
            return cell.mailbox.poll_control(cx.waker()).map(|()| Refill::Control);
        }
        // The copy of the last message is not kept while the actor waits for the next.
        if self.has_feed_or_copy && self.part.batch_is_empty() {
            self.drop_copy(cell);
        }
        let batch = self.part.batch();
        if batch.len() > 0 {
            return Poll::Ready(Refill::Messages);
        }
        // After that many messages the sender is probably still sending: checking once more before
        // parking saves it a wake-up.
        let may_park = MESSAGES_PER_POLL_MAX - self.turns.left() < BUSY;
        let found = cell.mailbox.refill(batch, may_park, cx.waker());
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
        if !self.has_feed_or_copy {
            return Poll::Pending;
        }
        match self.poll_feed(cell, cx) {
            // The feed is user code and may have dropped a reply, after the mailbox was checked.
            Poll::Pending if cell.mailbox.control_word() & control::UNANSWERED != 0 => Poll::Ready(Refill::Control),
            polled => polled,
        }
    }

    /// Delivers the messages of due timers: each is accepted here and taken next.
    fn poll_timers(&mut self, cell: &AnyCell, quiet: bool, cx: &mut Context<'_>) -> Poll<Refill> {
        let batch = self.part.batch();
        let queued = batch.len();
        let (polled, any_left) = cell.poll_timers(quiet, batch, cx);
        (queued..batch.len()).for_each(|_| cell.mailbox.count_accepted());
        self.has_timers = any_left;
        polled.map(|()| Refill::Messages)
    }

    /// Takes the next item of the feed. The end of the feed closes the actor.
    #[cold]
    fn poll_feed(&mut self, cell: &AnyCell, cx: &mut Context<'_>) -> Poll<Refill> {
        let Self { details, part, .. } = self;
        let extra = details.as_mut().and_then(|details| details.feed_and_copy.as_mut());
        let Some(extra) = extra.filter(|extra| extra.has_feed()) else { return Poll::Pending };
        match extra.poll_feed(part.batch(), cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Fed::Item) => {
                cell.mailbox.count_accepted();
                Poll::Ready(Refill::Messages)
            }
            Poll::Ready(Fed::End) => {
                cell.close();
                cell.mailbox.refill(part.batch(), true, cx.waker())
            }
        }
    }
}
