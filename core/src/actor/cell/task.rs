//! `Body`: what an actor's task owns, and the single steps of its loop.

use crate::actor::Actor;
use crate::actor::cell::restart_wait::Pause;
use crate::actor::cell::{Cell, MESSAGES_PER_POLL_MAX};
use crate::actor::context::Context;
use crate::actor::props::{BoxStream, Extra};
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
pub(super) struct Body<A: Actor> {
    pub(super) actor: Option<A>,
    pub(super) cx: Context<A>,
    pub(super) batch: Vec<A::Msg>,
    pub(super) rare: Option<Box<Rare<A::Msg>>>,
    /// How many more messages and incarnations this poll may take on.
    pub(super) left: u16,
    pub(super) stage: Stage,
    pub(super) leaving: Option<Leaving>,
    pub(super) in_hand: bool,
    pub(super) suspended: bool,
    pub(super) has_timers: bool,
    pub(super) early: Early,
}

/// Whether the actor parks as it takes a lone message, rather than after it: that spares it a second look into its mailbox, and costs
/// a wake-up if another message comes meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Early {
    /// The state has not started.
    NotUp,
    /// Others came while the last message was handled.
    Unlikely,
    /// The mailbox was empty after the last message.
    Likely,
    /// It has parked, and the message is in hand.
    Parked,
}

/// What only some actors need: those that are fed, keep copies of their messages, or have failed.
pub(super) struct Rare<M> {
    pub(super) feed: Option<BoxStream<M>>,
    pub(super) kept: Option<M>,
    /// How often the message in hand has been tried before.
    pub(super) attempts: u32,
    /// Messages of the batch that are to be tried again. The batch is a stack, and so is this.
    pub(super) retries: Vec<Retry>,
    pub(super) description: Option<Cow<'static, str>>,
    pub(super) failure: Option<FailureInfo>,
    pub(super) exit: Option<Exit>,
    pub(super) pause: Option<Pause>,
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
    Restarting,
    EndChildren,
    Stopped,
    Waiting,
    Bury,
    Gone,
}

/// Why the actor ends for good.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    Stop,
    Close,
    Cancel,
    Fail,
}

/// How a stage ended. Two words, whatever it carries: it is handed on after every stage.
pub(super) enum End {
    Done,
    Stopped,
    Closed,
    /// Between two messages.
    Cancelled,
    /// Cancelled while it was at work, or idle. With what a panic said in the drop of what was cut off.
    CutOff(Option<Box<Reason>>),
    /// By an error or a panic.
    Failed(Box<Reason>),
    ChildFailed,
    Halt,
    Restart,
    /// The stage that follows is set.
    Left,
}

impl End {
    #[cold]
    pub(super) fn failed(error: impl Into<BoxError>) -> Self {
        Self::Failed(Box::new(Reason::Error(error.into())))
    }
}

impl From<()> for End {
    fn from((): ()) -> Self {
        Self::Done
    }
}

impl<A: Actor> Body<A> {
    #[inline]
    pub(super) fn new(cell: Arc<Cell<A::Msg>>) -> Self {
        let rare = cell.extra.as_deref().and_then(Rare::fed_by);
        Self {
            actor: None,
            cx: Context::new(cell),
            batch: Vec::new(),
            rare,
            left: MESSAGES_PER_POLL_MAX as u16,
            stage: Stage::Run,
            leaving: None,
            in_hand: false,
            suspended: false,
            has_timers: false,
            early: Early::NotUp,
        }
    }

    /// Begins the next message of the batch, which is not empty.
    #[inline]
    pub(super) fn take_next(&mut self, cell: &Cell<A::Msg>) -> impl Future<Output = Result<(), A::Error>> + Send {
        let message = self.batch.pop().expect("the caller has seen a message");
        cell.mailbox.begin();
        self.take_up(cell, message)
    }

    /// Hands a message that has begun to the actor, which there is. (Not inlined into the loop, so that the future of the handler is
    /// all that the loop keeps while it waits.)
    #[inline]
    pub(super) fn take_up(
        &mut self,
        cell: &Cell<A::Msg>,
        message: A::Msg,
    ) -> impl Future<Output = Result<(), A::Error>> + Send {
        self.take_up_with(cell, message, A::handle)
    }

    #[inline]
    pub(super) fn take_up_with<'a, F>(
        &'a mut self,
        cell: &Cell<A::Msg>,
        message: A::Msg,
        handle: impl FnOnce(&'a mut A, A::Msg, &'a mut Context<A>) -> F,
    ) -> F {
        let actor = self.actor.as_mut().expect("an incarnation has an actor from its start");
        self.in_hand = true;
        self.left -= 1;
        if let Some(extra) = cell.extra.as_deref() {
            extra.note(cell, &mut self.rare, &message, self.batch.len());
        }
        handle(actor, message, &mut self.cx)
    }

    /// The message in hand has been handled.
    #[inline]
    pub(super) fn put_down(&mut self, cell: &Cell<A::Msg>) {
        cell.mailbox.finish();
        self.in_hand = false;
    }

    /// Settles what was put aside or brought back, if anything was.
    pub(super) fn settle_stash(&mut self, cell: &Cell<A::Msg>, at: StashedIn) {
        if cell.mailbox.word() & control::STASH != 0 && cell.settle_stash(&mut self.batch, at) {
            self.in_hand = false;
        }
    }

    pub(super) fn say_started(&self, cell: &Cell<A::Msg>) {
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
    pub(super) fn carry_out(&mut self, cell: &Cell<A::Msg>, word: u32) -> Option<End> {
        self.early = Early::Unlikely;
        // Hooks settle their own, so this is the last message's.
        if word & control::STASH != 0 {
            self.settle_stash(cell, StashedIn::Finished);
        }
        if word & control::TIMED != 0 {
            let serves = !self.batch.is_empty() && !self.suspended && self.left > 0;
            cell.time_next(serves && word & control::SIGNALS == 0);
        }
        if word & control::CANCEL != 0 {
            return Some(End::Cancelled);
        }
        if word & control::UNANSWERED != 0 {
            cell.take_unanswered().into_iter().for_each(|reply| reply.answer(AskError::Dropped));
        }
        if word & control::STOP != 0 {
            return Some(End::Stopped);
        }
        if word & control::CHILD_FAILED != 0 {
            cell.mailbox.lower(control::CHILD_FAILED);
            return Some(End::ChildFailed);
        }
        if word & control::HALT != 0 {
            return Some(End::Halt);
        }
        if word & control::RESTART != 0 {
            cell.mailbox.lower(control::RESTART);
            return Some(End::Restart);
        }
        if word & (control::SUSPEND | control::RESUME) != 0 {
            // What counts is the word as it was when the bits were cleared: a resume may have come since it was read.
            let word = cell.mailbox.lower(control::SUSPEND | control::RESUME);
            if word & (control::SUSPEND | control::RESUME) != 0 {
                self.set_suspended(cell, word & control::RESUME == 0);
            }
        }
        if word & control::GO != 0 {
            // It was told to start by a plan that has been given up, after it had started to hand in what it has.
            cell.mailbox.lower(control::GO);
        }
        if word & control::TIMERS != 0 {
            cell.mailbox.lower(control::TIMERS);
            self.has_timers = true;
        }
        if word & control::SENDERS != 0 && self.left.is_multiple_of(ADMIT_EVERY) {
            cell.mailbox.admit();
        }
        None
    }

    /// Lets others run first if nothing is left of this poll's share.
    pub(super) fn step_aside(&mut self, cx: &mut core::task::Context<'_>) -> Poll<()> {
        if self.left > 0 {
            return Poll::Ready(());
        }
        self.left = MESSAGES_PER_POLL_MAX as u16;
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// More messages, from wherever they come; else parks. An actor that parked early and was left alone has nothing to look for.
    #[inline]
    pub(super) fn find_work(&mut self, cell: &Cell<A::Msg>, cx: &mut core::task::Context<'_>) -> Poll<Refill<A::Msg>> {
        if self.early == Early::Parked && cell.mailbox.is_undisturbed() && self.waits_for_messages_only() {
            self.early = Early::Likely;
            return Poll::Pending;
        }
        self.look_for_work(cell, cx)
    }

    /// Whether nothing but its mailbox and its control word has anything for this actor.
    #[inline]
    fn waits_for_messages_only(&self) -> bool {
        !self.has_timers && self.rare.as_ref().is_none_or(|rare| rare.feed.is_none() && rare.kept.is_none())
    }

    /// The lone message of an actor that parks early, else what there is. Out of line, so that resting early stays short.
    #[inline(never)]
    fn look_for_work(&mut self, cell: &Cell<A::Msg>, cx: &mut core::task::Context<'_>) -> Poll<Refill<A::Msg>> {
        if self.early == Early::Likely
            && let Some(message) = cell.take_alone(cx.waker())
        {
            self.early = Early::Parked;
            return Poll::Ready(Refill::Alone(message));
        }
        let found = self.look_everywhere(cell, cx);
        let idle = found.is_pending() && self.batch.is_empty() && !self.suspended && self.waits_for_messages_only();
        self.early = if idle { Early::Likely } else { Early::Unlikely };
        found
    }

    /// More messages from the mailbox, else from timers or the stream that feeds this actor; else parks.
    #[inline(never)]
    fn look_everywhere(&mut self, cell: &Cell<A::Msg>, cx: &mut core::task::Context<'_>) -> Poll<Refill<A::Msg>> {
        if self.step_aside(cx).is_pending() {
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
        if let Some(kept) = self.rare.as_mut().and_then(|rare| rare.kept.take()) {
            cell.discard(kept);
        }
        // Whoever sent that much is probably still at it: look once more before parking, which spares it a wake-up.
        let may_park = MESSAGES_PER_POLL_MAX as u16 - self.left < BUSY;
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
        let Some(rare) = self.rare.as_mut().filter(|rare| rare.feed.is_some()) else { return Poll::Pending };
        match rare.poll_feed(cell, &mut self.batch, cx) {
            // The feed is user code and may have dropped a reply, after the mailbox was looked at.
            Poll::Pending if cell.mailbox.word() & control::UNANSWERED != 0 => Poll::Ready(Refill::Control),
            polled => polled,
        }
    }
}

impl<A: Actor> Body<A> {
    /// Delivers what timers have become due: each message is accepted here and taken next.
    fn poll_timers(&mut self, cell: &Cell<A::Msg>, quiet: bool, cx: &mut core::task::Context<'_>) -> Poll<Refill<A::Msg>> {
        let queued = self.batch.len();
        let (polled, none_left) = cell.with_timers(|timers| {
            let polled = timers.poll(cell.node.runtime(), cell.mailbox.taken(), quiet, &mut self.batch, cx);
            (polled, timers.is_empty())
        });
        self.has_timers = !none_left;
        (queued..self.batch.len()).for_each(|_| cell.mailbox.accept_from_feed());
        polled.map(|()| Refill::Messages)
    }
}

impl<M> Default for Rare<M> {
    fn default() -> Self {
        Self {
            feed: None,
            kept: None,
            attempts: 0,
            retries: Vec::new(),
            description: None,
            failure: None,
            exit: None,
            pause: None,
        }
    }
}

impl<M: Send + 'static> Rare<M> {
    /// What there is for an actor with a feed.
    #[cold]
    fn fed_by(extra: &Extra<M>) -> Option<Box<Self>> {
        let feed = extra.feed.with(Option::take)?;
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
                cell.mailbox.accept_from_feed();
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
