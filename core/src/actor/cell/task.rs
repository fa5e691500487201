//! `ActorTask`: the data that an actor's task owns, and how it applies the control word.
//!
//! A task has one part that depends on the actor's type, [`ActorPart`], as its last field. Code
//! that needs it rarely, or not at all, works on [`AnyTask`], where that part is a trait object:
//! the whole lifecycle is compiled once. Only the handling of messages is compiled for each actor.

use crate::actor::Actor;
use crate::actor::cell::actor_part::{ActorPart, AnyActorPart};
use crate::actor::cell::feed_and_copy::AnyFeedAndCopy;
use crate::actor::cell::lifecycle::{ExitKind, Stage, StageEnd};
use crate::actor::cell::restart_wait::RestartWait;
use crate::actor::cell::turns::Turns;
use crate::actor::cell::{AnyCell, Cell};
use crate::actor::props::ActorOptions;
use crate::actor::stash::StashedIn;
use crate::base::reason::Reason;
use crate::base::sync::Arc;
use crate::events::cause::Exit;
use crate::events::event::Event;
use crate::events::failure::FailureInfo;
use crate::mailbox::control;
use crate::tree::waits::ask_error::AskError;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// While sends wait for room, they are admitted after at most this many messages.
const ADMIT_EVERY: u32 = 32;

/// The data that the actor's task owns. Every idle actor has one, so rarely used fields are in a
/// box.
pub(super) struct TaskOf<P: ?Sized> {
    pub(super) details: Option<Box<TaskDetails>>,
    /// How many more messages and incarnations this poll may begin, whether the actor is suspended,
    /// and whether a message has left the batch and is not settled.
    pub(super) turns: Turns,
    pub(super) stage: Stage,
    /// Set once the exit has begun.
    pub(super) exit_kind: Option<ExitKind>,
    pub(super) has_timers: bool,
    /// Whether `details.feed_and_copy` is set.
    pub(super) has_feed_or_copy: bool,
    pub(super) phase: Phase,
    /// The length of the current row of signals. A full row ends with one other message.
    pub(super) signals_in_a_row: u8,
    pub(super) part: P,
}

/// The task of an actor `A`.
pub(super) type ActorTask<A> = TaskOf<ActorPart<A>>;

/// The task of an actor, whatever its type.
pub(super) type AnyTask = TaskOf<dyn AnyActorPart>;

/// How far the incarnation is, and whether it parks early: when it takes a single message, and not
/// after it. That saves a second check of the mailbox, and costs a wake-up if another message
/// arrives meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// There is no state.
    NoState,
    /// `started` has not returned.
    Starting,
    /// Messages arrived while the last one was handled.
    Busy,
    /// The mailbox was empty after the last message: the actor parks early with the next one.
    Quiet,
    /// The actor is parked, and handles its current message.
    Parked,
}

/// State that only some actors need: those with copies or descriptions of their messages, or after
/// a failure.
#[derive(Default)]
pub(crate) struct TaskDetails {
    /// The options of the actor, kept here if each message needs them.
    pub(super) options: Option<Arc<ActorOptions>>,
    /// How often the current message was tried before.
    pub(super) attempts: u32,
    /// The retried messages of the batch. The batch is a stack, and so is this.
    pub(super) retries: Vec<Retry>,
    pub(super) description: Option<Cow<'static, str>>,
    /// The failure that the next `restarting` hook gets.
    pub(super) failure: Option<FailureInfo>,
    /// The box of an earlier reason, for the next one.
    pub(super) unused_reason: Option<Box<Reason>>,
    /// The exit that `stopped` gets, unless the exit kind implies it.
    pub(super) exit: Option<Exit>,
    pub(super) restart_wait: Option<RestartWait>,
    pub(super) feed_and_copy: Option<Box<dyn AnyFeedAndCopy>>,
}

/// A retried message: how many messages are below it in the batch, and how often it was tried.
pub(super) struct Retry {
    pub(super) below: usize,
    pub(super) attempts: u32,
}

impl TaskDetails {
    /// Allocates all that a failure needs, for an actor of a sealed system.
    pub(crate) fn reserved() -> Box<Self> {
        Box::new(Self { unused_reason: Some(Box::new(Reason::none())), ..Self::default() })
    }

    /// Takes the feed of an actor that has one, and what copies its messages. `None` without both.
    #[cold]
    fn begin(cell: &AnyCell) -> Option<Box<Self>> {
        let options = cell.options()?;
        let begun = options.for_messages.as_ref()?.begin_feed_and_copy()?;
        Some(Box::new(Self { feed_and_copy: Some(begun), ..Self::default() }))
    }
}

impl<A: Actor> ActorTask<A> {
    #[inline]
    fn new(cell: Arc<Cell<A::Msg>>) -> Self {
        let details = if cell.mailbox.owner_bits == 0 { None } else { TaskDetails::begin(cell.any()) };
        Self {
            has_feed_or_copy: details.is_some(),
            details,
            turns: Turns::new(),
            stage: Stage::Run,
            exit_kind: None,
            has_timers: false,
            phase: Phase::NoState,
            signals_in_a_row: 0,
            part: ActorPart::new(cell),
        }
    }

    /// Returns this task without the actor's type, for code that is compiled once.
    #[inline]
    pub(super) fn any(&mut self) -> &mut AnyTask {
        self
    }
}

/// A task that leaves the tree if it is dropped before its end.
pub(super) struct OwnedTask<A: Actor>(pub(super) ActorTask<A>);

impl<A: Actor> OwnedTask<A> {
    #[inline]
    pub(super) fn new(cell: Arc<Cell<A::Msg>>) -> Self {
        Self(ActorTask::new(cell))
    }
}

impl<A: Actor> Drop for OwnedTask<A> {
    #[inline]
    fn drop(&mut self) {
        if self.0.stage != Stage::Gone {
            self.0.any().leave_unfinished();
        }
    }
}

impl AnyTask {
    /// Suspends or resumes the actor, and reports the change.
    fn set_suspended(&mut self, cell: &AnyCell, suspended: bool) {
        if !self.turns.set_suspended(suspended) {
            return;
        }
        let node = cell.node();
        node.report_lifecycle(|| match suspended {
            true => Event::Suspended { path: node.path() },
            false => Event::Resumed { path: node.path() },
        });
    }

    /// Applies the control word. Returns the end of the stage if a bit orders it.
    #[cold]
    pub(super) fn apply_control(&mut self, cell: &AnyCell, word: u32) -> Option<StageEnd> {
        self.phase = Phase::Busy;
        // Hooks settle their own changes, so these are the last message's.
        if word & control::STASH_CHANGED != 0 {
            self.settle_stash(cell, StashedIn::Finished);
        }
        if word & control::DRAINED != 0 {
            cell.report_drained();
        }
        if word & control::STUCK != 0 {
            cell.report_unstuck();
        }
        if word & control::TIME_HANDLERS != 0 {
            let handles_next = !self.part.batch_is_empty() && self.turns.may_begin();
            cell.time_next_handler(handles_next && word & control::SIGNALS == 0);
        }
        if word & control::CANCEL != 0 {
            return Some(StageEnd::Cancelled);
        }
        if word & control::UNANSWERED != 0 {
            cell.answer_all(&AskError::Dropped);
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
        if word & control::WAITING_SENDS != 0 && self.turns.left().is_multiple_of(ADMIT_EVERY) {
            cell.mailbox.admit();
        }
        None
    }

    /// Returns the details, allocated on first use, or reserved.
    pub(super) fn details(&mut self) -> &mut TaskDetails {
        let Self { details, part, .. } = self;
        details.get_or_insert_with(|| {
            let reserved = part.cell().with_reserved(|reserved| reserved.task_details.take());
            reserved.flatten().unwrap_or_default()
        })
    }

    /// Settles changes of the stash, if there are any.
    pub(super) fn settle_stash(&mut self, cell: &AnyCell, at: StashedIn) {
        if cell.mailbox.control_word() & control::STASH_CHANGED != 0 && cell.settle_stash(self.part.batch(), at) {
            self.turns.end_message();
        }
    }
}

impl<P: ?Sized> TaskOf<P> {
    /// Returns the feed and the copy, of an actor that has either.
    pub(super) fn feed_and_copy(&mut self) -> Option<&mut Box<dyn AnyFeedAndCopy>> {
        self.details.as_mut()?.feed_and_copy.as_mut()
    }

    #[inline]
    pub(super) fn has_state(&self) -> bool {
        self.phase != Phase::NoState
    }
}
