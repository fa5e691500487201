//! `Body`: what an actor's task owns, and the single steps of its loop.

use crate::actor::Actor;
use crate::actor::cell::restart_wait::RestartWait;
use crate::actor::cell::{Cell, MESSAGES_PER_POLL_MAX};
use crate::actor::context::Context;
use crate::actor::props::{ActorOptions, BoxStream};
use crate::actor::stash::StashedIn;
use crate::base::reason::{BoxError, Reason};
use crate::events::cause::Exit;
use crate::events::event::Event;
use crate::events::failure::FailureInfo;
use crate::mailbox::control;
use crate::mailbox::queue::Refill;
use crate::tree::waits::ask_error::AskError;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use core::task::Poll;

/// While senders wait for room, they are let in at least after this many messages.
const ADMIT_EVERY: u16 = 32;
/// An actor that has worked through this many messages in one poll looks for more once before it goes idle: the sender is still at it.
const BUSY: u16 = 32;

/// What the actor's task owns. One of these is kept for every idle actor, so what is rare lies in a box.
pub(super) struct ActorTask<A: Actor> {
    pub(super) actor: Option<A>,
    pub(super) cx: Context<A>,
    pub(super) batch: Vec<A::Msg>,
    pub(super) details: Option<Box<TaskDetails<A::Msg>>>,
    /// How many more messages and incarnations this poll may take on.
    pub(super) budget: u16,
    pub(super) stage: Stage,
    pub(super) exit_kind: Option<ExitKind>,
    pub(super) has_current: bool,
    pub(super) suspended: bool,
    pub(super) has_timers: bool,
    pub(super) early_park: EarlyPark,
}

/// Whether the actor parks as it takes a lone message, rather than after it: that spares it a second look into its mailbox, and costs
/// a wake-up if another message comes meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EarlyPark {
    /// The state has not started.
    NotStarted,
    /// Others came while the last message was handled.
    Unlikely,
    /// The mailbox was empty after the last message.
    Likely,
    /// It has parked, and the message is in hand.
    Parked,
}

/// What only some actors need: those that are fed, keep copies of their messages, or have failed.
pub(super) struct TaskDetails<M> {
    pub(super) feed: Option<BoxStream<M>>,
    pub(super) retry_copy: Option<M>,
    /// How often the message in hand has been tried before.
    pub(super) attempts: u32,
    /// Messages of the batch that are to be tried again. The batch is a stack, and so is this.
    pub(super) retries: Vec<Retry>,
    pub(super) description: Option<Cow<'static, str>>,
    pub(super) failure: Option<FailureInfo>,
    pub(super) exit: Option<Exit>,
    pub(super) restart_wait: Option<RestartWait>,
}

/// A message that is tried again: how many lie below it in the batch, and how often it was tried.
pub(super) struct Retry {
    pub(super) below: usize,
    pub(super) attempts: u32,
}

/// What the task is at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Run,
    RestartingHook,
    StopChildren,
    StoppedHook,
    WaitToRestart,
    DeadLetters,
    Gone,
}

/// Why the actor ends for good.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ExitKind {
    Stop,
    Close,
    Cancel,
    Fail,
}

/// How a stage ended. Two words, whatever it carries: it is handed on after every stage.
pub(super) enum StageEnd {
    Done,
    Stopped,
    Closed,
    /// Between two messages.
    Cancelled,
    /// Cancelled while it was at work, or idle. With what a panic said in the drop of what was cut off.
    CancelledAtAwait(Option<Box<Reason>>),
    /// By an error or a panic.
    Failed(Box<Reason>),
    ChildFailed,
    Halt,
    Restart,
    /// The stage that follows is set.
    StageSet,
}

impl StageEnd {
    #[cold]
    pub(super) fn failed(error: impl Into<BoxError>) -> Self {
        Self::Failed(Box::new(Reason::Error(error.into())))
    }
}

impl From<()> for StageEnd {
    fn from((): ()) -> Self {
        Self::Done
    }
}

impl<A: Actor> ActorTask<A> {
    #[inline]
    pub(super) fn new(cell: Arc<Cell<A::Msg>>) -> Self {
        let details = cell.options.as_deref().and_then(TaskDetails::fed_by);
        Self {
            actor: None,
            cx: Context::new(cell),
            batch: Vec::new(),
            details,
            budget: MESSAGES_PER_POLL_MAX as u16,
            stage: Stage::Run,
            exit_kind: None,
            has_current: false,
            suspended: false,
            has_timers: false,
            early_park: EarlyPark::NotStarted,
        }
    }

    /// Begins the next message of the batch, which is not empty.
    #[inline]
    pub(super) fn handle_next(&mut self, cell: &Cell<A::Msg>) -> impl Future<Output = Result<(), A::Error>> + Send {
        let message = self.batch.pop().expect("the caller has seen a message");
        cell.mailbox.count_taken();
        self.handle_message(cell, message)
    }

    /// Hands a message that has begun to the actor, which there is. (Not inlined into the loop, so that the future of the handler is
    /// all that the loop keeps while it waits.)
    #[inline]
    pub(super) fn handle_message(
        &mut self,
        cell: &Cell<A::Msg>,
        message: A::Msg,
    ) -> impl Future<Output = Result<(), A::Error>> + Send {
        self.handle_message_with(cell, message, A::handle)
    }

    #[inline]
    pub(super) fn handle_message_with<'a, F>(
        &'a mut self,
        cell: &Cell<A::Msg>,
        message: A::Msg,
        handle: impl FnOnce(&'a mut A, A::Msg, &'a mut Context<A>) -> F,
    ) -> F {
        let actor = self.actor.as_mut().expect("an incarnation has an actor from its start");
        self.has_current = true;
        self.budget -= 1;
        if let Some(options) = cell.options.as_deref() {
            options.note_message(cell, &mut self.details, &message, self.batch.len());
        }
        handle(actor, message, &mut self.cx)
    }

    /// The message in hand has been handled.
    #[inline]
    pub(super) fn finish_current(&mut self, cell: &Cell<A::Msg>) {
        cell.mailbox.count_handled();
        self.has_current = false;
    }

    /// Settles what was put aside or brought back, if anything was.
    pub(super) fn settle_stash(&mut self, cell: &Cell<A::Msg>, at: StashedIn) {
        if cell.mailbox.control_word() & control::STASH_CHANGED != 0 && cell.settle_stash(&mut self.batch, at) {
            self.has_current = false;
        }
    }

    pub(super) fn report_started(&self, cell: &Cell<A::Msg>) {
        let (node, incarnation) = (&cell.node, self.cx.incarnation());
        node.report_lifecycle(|| match incarnation {
            0 => Event::Started { path: node.path() },
            _ => Event::Restarted { path: node.path(), incarnation },
        });
    }

    fn set_suspended(&mut self, cell: &Cell<A::Msg>, suspended: bool) {
        if core::mem::replace(&mut self.suspended, suspended) == suspended {
            return;
        }
        let node = &cell.node;
        node.report_lifecycle(|| match suspended {
            true => Event::Suspended { path: node.path() },
            false => Event::Resumed { path: node.path() },
        });
    }

    /// Does what the control word says; the end it orders, if it does.
    #[cold]
    pub(super) fn apply_control(&mut self, cell: &Cell<A::Msg>, word: u32) -> Option<StageEnd> {
        self.early_park = EarlyPark::Unlikely;
        // Hooks settle their own, so this is the last message's.
        if word & control::STASH_CHANGED != 0 {
            self.settle_stash(cell, StashedIn::Finished);
        }
        if word & control::TIME_HANDLERS != 0 {
            let serves = !self.batch.is_empty() && !self.suspended && self.budget > 0;
            cell.time_next_handler(serves && word & control::SIGNALS == 0);
        }
        if word & control::CANCEL != 0 {
            return Some(StageEnd::Cancelled);
        }
        if word & control::UNANSWERED != 0 {
            cell.take_unanswered().into_iter().for_each(|reply| reply.answer(AskError::Dropped));
        }
        if word & control::STOP != 0 {
            return Some(StageEnd::Stopped);
        }
        if word & control::CHILD_FAILED != 0 {
            cell.mailbox.clear_bits(control::CHILD_FAILED);
            return Some(StageEnd::ChildFailed);
        }
        if word & control::HALT != 0 {
            return Some(StageEnd::Halt);
        }
        if word & control::RESTART != 0 {
            cell.mailbox.clear_bits(control::RESTART);
            return Some(StageEnd::Restart);
        }
        if word & (control::SUSPEND | control::RESUME) != 0 {
            // What counts is the word as it was when the bits were cleared: a resume may have come since it was read.
            let word = cell.mailbox.clear_bits(control::SUSPEND | control::RESUME);
            if word & (control::SUSPEND | control::RESUME) != 0 {
                self.set_suspended(cell, word & control::RESUME == 0);
            }
        }
        if word & control::START != 0 {
            // It was told to start by a plan that has been given up, after it had started to hand in what it has.
            cell.mailbox.clear_bits(control::START);
        }
        if word & control::TIMERS != 0 {
            cell.mailbox.clear_bits(control::TIMERS);
            self.has_timers = true;
        }
        if word & control::WAITING_SENDS != 0 && self.budget.is_multiple_of(ADMIT_EVERY) {
            cell.mailbox.admit();
        }
        None
    }

    /// Lets others run first if nothing is left of this poll's share.
    pub(super) fn yield_if_spent(&mut self, cx: &mut core::task::Context<'_>) -> Poll<()> {
        if self.budget > 0 {
            return Poll::Ready(());
        }
        self.budget = MESSAGES_PER_POLL_MAX as u16;
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// More messages, from wherever they come; else parks. An actor that parked early and was left alone has nothing to look for.
    #[inline]
    pub(super) fn poll_work(&mut self, cell: &Cell<A::Msg>, cx: &mut core::task::Context<'_>) -> Poll<Refill<A::Msg>> {
        if self.early_park == EarlyPark::Parked && cell.mailbox.is_still_parked() && self.waits_for_messages_only() {
            self.early_park = EarlyPark::Likely;
            return Poll::Pending;
        }
        self.poll_work_slow(cell, cx)
    }

    /// Whether nothing but its mailbox and its control word has anything for this actor.
    #[inline]
    fn waits_for_messages_only(&self) -> bool {
        !self.has_timers && self.details.as_ref().is_none_or(|details| details.feed.is_none() && details.retry_copy.is_none())
    }

    /// The lone message of an actor that parks early, else what there is. Out of line, so that resting early stays short.
    #[inline(never)]
    fn poll_work_slow(&mut self, cell: &Cell<A::Msg>, cx: &mut core::task::Context<'_>) -> Poll<Refill<A::Msg>> {
        if self.early_park == EarlyPark::Likely
            && let Some(message) = cell.take_single(cx.waker())
        {
            self.early_park = EarlyPark::Parked;
            return Poll::Ready(Refill::Single(message));
        }
        let found = self.poll_all_sources(cell, cx);
        let idle = found.is_pending() && self.batch.is_empty() && !self.suspended && self.waits_for_messages_only();
        self.early_park = if idle { EarlyPark::Likely } else { EarlyPark::Unlikely };
        found
    }

    /// More messages from the mailbox, else from timers or the stream that feeds this actor; else parks.
    #[inline(never)]
    fn poll_all_sources(&mut self, cell: &Cell<A::Msg>, cx: &mut core::task::Context<'_>) -> Poll<Refill<A::Msg>> {
        if self.yield_if_spent(cx).is_pending() {
            return Poll::Pending;
        }
        // The end of input resumes a suspended actor: what is queued is to be handled.
        if self.suspended && cell.mailbox.is_closed() {
            self.suspended = false;
        }
        if self.suspended {
            return cell.mailbox.poll_control(cx.waker()).map(|()| Refill::Control);
        }
        if !self.batch.is_empty() {
            return Poll::Ready(Refill::Messages);
        }
        // The copy of a message that was handled is not kept while waiting for the next.
        if let Some(retry_copy) = self.details.as_mut().and_then(|details| details.retry_copy.take()) {
            cell.discard(retry_copy);
        }
        // Whoever sent that much is probably still at it: look once more before parking, which spares it a wake-up.
        let may_park = MESSAGES_PER_POLL_MAX as u16 - self.budget < BUSY;
        let found = cell.mailbox.refill(&mut self.batch, may_park, cx.waker());
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
        let Some(details) = self.details.as_mut().filter(|details| details.feed.is_some()) else { return Poll::Pending };
        match details.poll_feed(cell, &mut self.batch, cx) {
            // The feed is user code and may have dropped a reply, after the mailbox was looked at.
            Poll::Pending if cell.mailbox.control_word() & control::UNANSWERED != 0 => Poll::Ready(Refill::Control),
            polled => polled,
        }
    }
}

impl<A: Actor> ActorTask<A> {
    /// Delivers what timers have become due: each message is accepted here and taken next.
    fn poll_timers(&mut self, cell: &Cell<A::Msg>, quiet: bool, cx: &mut core::task::Context<'_>) -> Poll<Refill<A::Msg>> {
        let queued = self.batch.len();
        let (polled, none_left) = cell.with_timers(|timers| {
            let polled = timers.poll(cell.node.runtime(), cell.mailbox.taken(), quiet, &mut self.batch, cx);
            (polled, timers.is_empty())
        });
        self.has_timers = !none_left;
        (queued..self.batch.len()).for_each(|_| cell.mailbox.count_accepted());
        polled.map(|()| Refill::Messages)
    }
}

impl<M> Default for TaskDetails<M> {
    fn default() -> Self {
        Self {
            feed: None,
            retry_copy: None,
            attempts: 0,
            retries: Vec::new(),
            description: None,
            failure: None,
            exit: None,
            restart_wait: None,
        }
    }
}

impl<M: Send + 'static> TaskDetails<M> {
    /// What there is for an actor with a feed.
    #[cold]
    fn fed_by(options: &ActorOptions<M>) -> Option<Box<Self>> {
        let feed = options.feed.with(Option::take)?;
        Some(Box::new(Self { feed: Some(feed), ..Self::default() }))
    }

    pub(super) fn poll_feed(
        &mut self,
        cell: &Cell<M>,
        batch: &mut Vec<M>,
        cx: &mut core::task::Context<'_>,
    ) -> Poll<Refill<M>> {
        let Some(feed) = &mut self.feed else { return Poll::Pending };
        match feed.as_mut().poll_next(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(item)) => {
                cell.mailbox.count_accepted();
                batch.push(item);
                Poll::Ready(Refill::Messages)
            }
            Poll::Ready(None) => {
                self.feed = None;
                cell.close();
                cell.mailbox.refill(batch, true, cx.waker())
            }
        }
    }
}
