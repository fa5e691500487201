//! `ActorTask`: the data that an actor's task owns, and how it applies the control word.

use crate::actor::Actor;
use crate::actor::cell::lifecycle::{ExitKind, Stage, StageEnd};
use crate::actor::cell::restart_wait::RestartWait;
use crate::actor::cell::{Cell, MESSAGES_PER_POLL_MAX};
use crate::actor::context::Context;
use crate::actor::props::{ActorOptions, BoxStream};
use crate::actor::stash::StashedIn;
use crate::events::cause::Exit;
use crate::events::event::Event;
use crate::events::failure::FailureInfo;
use crate::mailbox::control;
use crate::tree::waits::ask_error::AskError;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// While sends wait for room, they are admitted after at most this many messages.
const ADMIT_EVERY: u16 = 32;

/// The data that the actor's task owns. Every idle actor has one, so rarely used fields are in a
/// box.
pub(super) struct ActorTask<A: Actor> {
    /// The state of this incarnation, present from the factory to the end of `stopped`.
    pub(super) actor: Option<A>,
    pub(super) cx: Context<A>,
    /// Messages taken from the mailbox, oldest last.
    pub(super) batch: Vec<A::Msg>,
    pub(super) details: Option<Box<TaskDetails<A::Msg>>>,
    /// How many more messages and incarnations this poll may begin.
    pub(super) budget: u16,
    pub(super) stage: Stage,
    /// Set once the exit has begun.
    pub(super) exit_kind: Option<ExitKind>,
    /// Whether a message has left the batch and is not settled.
    pub(super) has_current: bool,
    pub(super) suspended: bool,
    pub(super) has_timers: bool,
    pub(super) early_park: EarlyPark,
}

/// Whether the actor parks when it takes a single message, and not after it. That saves a second
/// check of the mailbox, and costs a wake-up if another message arrives meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EarlyPark {
    /// `started` has not returned.
    NotStarted,
    /// Messages arrived while the last one was handled.
    Unlikely,
    /// The mailbox was empty after the last message.
    Likely,
    /// The actor is parked, and handles its current message.
    Parked,
}

/// State that only some actors need: those with a feed, with copies of their messages, or after a
/// failure.
pub(super) struct TaskDetails<M> {
    pub(super) feed: Option<BoxStream<M>>,
    /// The copy of the current message, for a retry or a dead letter.
    pub(super) retry_copy: Option<M>,
    /// How often the current message was tried before.
    pub(super) attempts: u32,
    /// The retried messages of the batch. The batch is a stack, and so is this.
    pub(super) retries: Vec<Retry>,
    pub(super) description: Option<Cow<'static, str>>,
    /// The failure that the next `restarting` hook gets.
    pub(super) failure: Option<FailureInfo>,
    /// The exit that `stopped` gets, unless the exit kind implies it.
    pub(super) exit: Option<Exit>,
    pub(super) restart_wait: Option<RestartWait>,
}

/// A retried message: how many messages are below it in the batch, and how often it was tried.
pub(super) struct Retry {
    pub(super) below: usize,
    pub(super) attempts: u32,
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

    /// Suspends or resumes the actor, and reports the change.
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

    /// Applies the control word. Returns the end of the stage if a bit orders it.
    #[cold]
    pub(super) fn apply_control(&mut self, cell: &Cell<A::Msg>, word: u32) -> Option<StageEnd> {
        self.early_park = EarlyPark::Unlikely;
        // Hooks settle their own changes, so these are the last message's.
        if word & control::STASH_CHANGED != 0 {
            self.settle_stash(cell, StashedIn::Finished);
        }
        if word & control::TIME_HANDLERS != 0 {
            let handles_next = !self.batch.is_empty() && !self.suspended && self.budget > 0;
            cell.time_next_handler(handles_next && word & control::SIGNALS == 0);
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
            // The word counts as it was when the bits were cleared: a resume may have arrived since
            // it was read.
            let word = cell.mailbox.clear_bits(control::SUSPEND | control::RESUME);
            if word & (control::SUSPEND | control::RESUME) != 0 {
                self.set_suspended(cell, word & control::RESUME == 0);
            }
        }
        if word & control::START != 0 {
            // A restart plan that was abandoned has commanded the start of an actor that already
            // runs.
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

    /// Returns the details, allocated on first use.
    pub(super) fn details(&mut self) -> &mut TaskDetails<A::Msg> {
        self.details.get_or_insert_default()
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
    /// Returns the details of an actor with a feed.
    #[cold]
    fn fed_by(options: &ActorOptions<M>) -> Option<Box<Self>> {
        let feed = options.feed.with(Option::take)?;
        Some(Box::new(Self { feed: Some(feed), ..Self::default() }))
    }
}
