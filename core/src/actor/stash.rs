//! The stash: messages that an actor has put aside and takes back later.
//!
//! A stashed message is neither handled nor queued, and uses no mailbox capacity. `unstash` puts
//! all stashed messages before the queued ones, in their original order.
//!
//! Invariants:
//! 1. Only the actor's own task touches the stash.
//! 2. After the handler or hook that changed it, the task settles the counts
//!    (`control::STASH_CHANGED`), before any other user code runs.
//! 3. A hook has no current message: what it stashes, the actor has made itself.

use crate::actor::Actor;
use crate::actor::cell::optional_state::TIMERS_OR_STASH;
use crate::actor::cell::{AnyCell, Cell};
use crate::actor::context::Context;
use crate::mailbox::control;
use crate::mailbox::slot::{self, Batch, Slot};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::fmt;

/// The default limit of a stash, in messages; see
/// [`Props::stash_capacity`](crate::Props::stash_capacity).
pub const STASH_CAPACITY_DEFAULT: usize = 1024;

/// The error of [`Context::stash`]: the stash is full. It returns the message.
///
/// Handle the message, or set a larger [`Props::stash_capacity`](crate::Props::stash_capacity).
pub struct StashFull<M>(pub M);

impl<M> fmt::Display for StashFull<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the stash is full: take messages back with `unstash_all`, or set a larger `Props::stash_capacity`")
    }
}

impl<M> fmt::Debug for StashFull<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StashFull(..)")
    }
}

impl<M> core::error::Error for StashFull<M> {}

impl<A: Actor> Context<A> {
    /// Stashes a message, usually the current one, to handle it later.
    ///
    /// A stashed message counts as not handled, and uses no mailbox capacity.
    /// [`unstash_all`](Self::unstash_all) takes all back. After a restart they come back
    /// automatically.
    ///
    /// # Errors
    /// [`StashFull`] returns the message if the stash is full; see
    /// [`Props::stash_capacity`](crate::Props::stash_capacity), default 1,024.
    ///
    /// # Examples
    /// ```
    /// use pleach::BoxError;
    /// use pleach::prelude::*;
    ///
    /// #[derive(Debug)]
    /// enum Msg {
    ///     Open,
    ///     Work(u32),
    /// }
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), pleach::Error> {
    /// let system = ActorSystem::new("app")?;
    /// let props = Props::from_fn_with(|| false, |is_open: &mut bool, msg: Msg, cx| {
    ///     match msg {
    ///         Msg::Open => {
    ///             *is_open = true;
    ///             cx.unstash_all();
    ///         }
    ///         work if !*is_open => cx.stash(work)?,
    ///         Msg::Work(_) => {}
    ///     }
    ///     Ok::<(), BoxError>(())
    /// });
    /// let actor = system.spawn("gate", props)?;
    /// actor.tell(Msg::Work(1))?;
    /// actor.tell(Msg::Open)?;
    /// actor.close();
    /// actor.exited().await;
    /// assert_eq!(actor.counts().handled, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stash(&self, message: A::Msg) -> Result<(), StashFull<A::Msg>> {
        self.cell().stash(message, self.cell().any().stash_capacity()).map_err(StashFull)
    }

    /// Takes back all stashed messages. They are handled next, in their original order.
    pub fn unstash_all(&self) {
        self.cell().any().unstash();
    }

    /// Returns how many messages are stashed.
    pub fn stashed(&self) -> usize {
        self.cell().any().stashed()
    }
}

/// The stash of an actor, as its task sees it.
pub(crate) trait AnyStash: Send {
    /// Adds the message of a slot. Leaves it there if the stash holds `capacity` messages.
    fn push(&mut self, slot: &mut dyn Slot, capacity: usize);
    fn len(&self) -> usize;
    /// Marks all stashed messages as taken back. Returns true if any message waits to go back.
    fn take_back(&mut self) -> bool;
    /// Moves the messages taken back to the end of `batch`, where they are taken first. Returns how
    /// many were stashed since the last call, and how many went back.
    fn settle(&mut self, batch: &mut dyn Batch) -> (usize, usize);
}

/// The stashed messages, and those taken back that have not reached the actor's batch yet.
struct Stash<M> {
    stashed: VecDeque<M>,
    taken_back: VecDeque<M>,
    /// How many the running handler or hook has stashed.
    stashed_now: usize,
}

impl<M> Stash<M> {
    fn new() -> Self {
        Self { stashed: VecDeque::new(), taken_back: VecDeque::new(), stashed_now: 0 }
    }
}

impl<M: Send + 'static> AnyStash for Stash<M> {
    fn push(&mut self, slot: &mut dyn Slot, capacity: usize) {
        if self.stashed.len() < capacity
            && let Some(message) = slot::typed(slot).and_then(Option::take)
        {
            self.stashed.push_back(message);
            self.stashed_now += 1;
        }
    }

    fn len(&self) -> usize {
        self.stashed.len()
    }

    fn take_back(&mut self) -> bool {
        self.taken_back.append(&mut self.stashed);
        !self.taken_back.is_empty()
    }

    fn settle(&mut self, batch: &mut dyn Batch) -> (usize, usize) {
        let back = core::mem::take(&mut self.taken_back);
        let settled = (core::mem::take(&mut self.stashed_now), back.len());
        back.into_iter().rev().for_each(|message| batch.push(&mut Some(message)));
        settled
    }
}

/// What the actor was doing when it stashed messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StashedIn {
    /// A message handler that has finished; its message is counted as handled.
    Finished,
    /// A message handler that has not finished; its message is still the current one.
    Unfinished,
    /// A hook or a signal; there was no message.
    Hook,
}

impl<M: Send + 'static> Cell<M> {
    /// Stashes a message, or returns it if the stash holds `capacity` messages.
    pub(crate) fn stash(&self, message: M, capacity: usize) -> Result<(), M> {
        self.mailbox.set_owner_flag(TIMERS_OR_STASH, true);
        let mut stash = self.any().take_stash().unwrap_or_else(|| Box::new(Stash::<M>::new()));
        let mut slot = Some(message);
        stash.push(&mut slot, capacity);
        self.any().set_stash(stash);
        if let Some(message) = slot {
            return Err(message);
        }
        self.mailbox.raise_silently(control::STASH_CHANGED);
        Ok(())
    }
}

impl AnyCell {
    /// Takes back all stashed messages.
    pub(crate) fn unstash(&self) {
        if self.with_stash(|stash| stash.take_back()) == Some(true) {
            self.mailbox.raise_silently(control::STASH_CHANGED);
        }
    }

    pub(crate) fn stashed(&self) -> usize {
        self.with_stash(|stash| stash.len()).unwrap_or(0)
    }

    /// Settles the changes that the last handler or hook made to the stash. Messages taken back go
    /// to the end of `batch`, where they are taken first. Returns true if the current message was
    /// stashed.
    pub(crate) fn settle_stash(&self, batch: &mut dyn Batch, at: StashedIn) -> bool {
        self.mailbox.clear_bits(control::STASH_CHANGED);
        let Some((stashed, back)) = self.with_stash(|stash| stash.settle(batch)) else { return false };
        self.count_stash_changes(stashed, back, at);
        stashed > 0 && at == StashedIn::Unfinished
    }

    fn count_stash_changes(&self, stashed: usize, back: usize, at: StashedIn) {
        // At most one of them is the current message. The actor made the others itself.
        self.mailbox.count_made_by_receiver(stashed.saturating_sub(usize::from(at != StashedIn::Hook)));
        if stashed > 0 && at == StashedIn::Finished {
            self.mailbox.uncount_handled();
        }
        self.mailbox.uncount_taken(back);
    }
}
