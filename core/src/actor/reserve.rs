//! What an actor of a sealed system has reserved: its ask slots, its timers and their limits.
//!
//! It is in the optional state of the cell. A flag of the mailbox says whether there is any, so an
//! actor of any other system pays for one look at that flag.
//!
//! A slot of an answer is free while only the list refers to it. So no code has to return it.

use crate::actor::Actor;
use crate::actor::ask::AskDetails;
use crate::actor::cell::task::TaskDetails;
use crate::actor::cell::{AnyCell, Cell};
use crate::actor::context::Context;
use crate::actor::props::Props;
use crate::actor::reply::ReplySlot;
use crate::actor::timer_schedule::TimerKey;
use crate::actor::timers::Timers;
use crate::base::sync::Arc;
use crate::events::event::DeadLetterReason;
use crate::events::limit::{Limit, LimitReached};
use crate::tree::waits::ask_error::AskError;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::task::Waker;
use core::time::Duration;

/// The flag of a cell with reserved memory.
pub(crate) const RESERVED: u8 = 4;

/// How many waits of one actor for others a sealed system has room for.
const WAITS_RESERVED: usize = 8;

/// What is reserved for an actor.
pub(crate) struct Reserved {
    timers_max: usize,
    pub(crate) task_details: Option<Box<TaskDetails>>,
    /// Boxed, because an ask takes the box.
    #[allow(clippy::vec_box, reason = "the boxes are taken and given back")]
    ask_details: Vec<Box<AskDetails>>,
    /// Slots for answers, a list for each type: `ReplySlots<T>`.
    replies: Vec<Box<dyn Any + Send>>,
    /// What an ask gets whose answer type has no slots, and what one gets that would wait for room.
    no_slots: Arc<LimitReached>,
    no_wait: Arc<LimitReached>,
}

/// The slots for answers of type `T`, and what an ask gets while none is free.
struct ReplySlots<T> {
    slots: Vec<Arc<ReplySlot<T>>>,
    none_free: Arc<LimitReached>,
}

impl<T: Send + 'static> ReplySlots<T> {
    fn boxed(slots: usize, none_free: Arc<LimitReached>) -> Box<dyn Any + Send> {
        Box::new(Self { slots: core::iter::repeat_with(ReplySlot::reserved).take(slots).collect(), none_free })
    }

    /// Returns a slot that is not in use.
    fn free(&self) -> Result<Arc<ReplySlot<T>>, Arc<LimitReached>> {
        let free = self.slots.iter().find(|slot| Arc::strong_count(slot) == 1);
        free.cloned().ok_or_else(|| Arc::clone(&self.none_free))
    }
}

/// Asks that an actor shall have room for: how many, and what makes their slots.
pub(crate) struct AskReserve {
    asks: usize,
    make: fn(usize, Arc<LimitReached>) -> Box<dyn Any + Send>,
}

impl<A: Actor> Props<A> {
    /// Reserves room for `timers` timers of the actor in a [sealed](crate::System::seal) system.
    /// Default: as many as it has when the system is sealed.
    #[must_use]
    pub fn reserve_timers(mut self, timers: usize) -> Self {
        self.settings.options().timers_reserved = timers;
        self
    }

    /// Reserves room for `asks` asks with an answer of type `T` that the actor has not answered, in
    /// a [sealed](crate::System::seal) system. Call it for each such type. Default: none.
    ///
    /// # Examples
    /// ```
    /// use pleach::runtime::Dispatcher;
    /// use pleach::system::System;
    /// use pleach::{BoxError, Mailbox, Props, Reply};
    ///
    /// let sim = Dispatcher::seeded(1);
    /// let system = System::builder("board", sim.runtime()).build()?;
    /// let props = Props::from_fn(|| 7u32, |n: &mut u32, reply: Reply<u32>| {
    ///     reply.send(*n);
    ///     Ok::<(), BoxError>(())
    /// });
    /// let seven = system.spawn("seven", props.mailbox(Mailbox::bounded(4)).reserve_asks::<u32>(1)).unwrap();
    /// sim.drain_ready();
    /// system.seal()?;
    /// assert_eq!(sim.simulate(seven.ask(|reply| reply))??, 7);
    /// # Ok::<(), BoxError>(())
    /// ```
    #[must_use]
    pub fn reserve_asks<T: Send + 'static>(mut self, asks: usize) -> Self {
        self.settings.options().asks_reserved.push(AskReserve { asks, make: ReplySlots::<T>::boxed });
        self
    }
}

impl<M: Send + 'static> Cell<M> {
    /// Allocates all that is reserved for this actor.
    pub(crate) fn reserve_all(&self) {
        let node = self.any().node();
        let reached = |limit, reserved| Arc::new(node.limit_reached(limit, reserved));
        let (timers_reserved, asks, replies) = self.any().options().map_or_else(Default::default, |options| {
            let asks = options.asks_reserved.iter().map(|reserve| reserve.asks).sum();
            let slots = |reserve: &AskReserve| (reserve.make)(reserve.asks, reached(Limit::Asks, reserve.asks));
            (options.timers_reserved, asks, options.asks_reserved.iter().map(slots).collect())
        });
        let timers_max = timers_reserved.max(self.any().timers_set());
        self.any().mailbox.reserve_memory(timers_max);
        let reserved = Box::new(Reserved {
            timers_max,
            task_details: Some(TaskDetails::reserved()),
            ask_details: core::iter::repeat_with(Box::default).take(asks).collect(),
            replies,
            no_slots: reached(Limit::Asks, 0),
            no_wait: reached(Limit::WaitingSends, 0),
        });
        self.any().set_reserved(reserved, WAITS_RESERVED);
        if timers_max > 0 {
            self.with_timers(|timers: &mut Timers<M>| timers.reserve(timers_max));
        }
    }
}

impl AnyCell {
    #[inline]
    pub(crate) fn is_reserved(&self) -> bool {
        self.mailbox.owner_flag(RESERVED)
    }

    /// Returns a free slot for an answer.
    #[cold]
    pub(crate) fn reserved_reply<T: Send + 'static>(&self, waker: &Waker) -> Result<Arc<ReplySlot<T>>, AskError> {
        let slot = self.with_reserved(|reserved| {
            match reserved.replies.iter().find_map(|slots| slots.downcast_ref::<ReplySlots<T>>()) {
                Some(slots) => slots.free(),
                None => Err(Arc::clone(&reserved.no_slots)),
            }
        });
        match slot {
            Some(Ok(slot)) => {
                slot.begin(waker);
                Ok(slot)
            }
            Some(Err(reached)) => {
                self.node().report_refusal(&reached);
                Err(AskError::LimitReached(reached))
            }
            None => Err(self.closed_to_asks()),
        }
    }

    /// Returns the error of an ask that would wait for room. The mailbox has counted the refusal.
    #[cold]
    pub(crate) fn ask_cannot_wait(&self) -> AskError {
        let reached = self.with_reserved(|reserved| Arc::clone(&reserved.no_wait));
        reached.map_or_else(|| self.closed_to_asks(), AskError::LimitReached)
    }

    /// Returns the details of an ask, for [`give_back`](Self::give_back). `None` if nothing is
    /// reserved.
    #[cold]
    pub(crate) fn reserved_ask_details(&self) -> Option<Box<AskDetails>> {
        self.with_reserved(|reserved| reserved.ask_details.pop()).flatten()
    }

    /// Keeps the details of an ask that has ended for the next one.
    #[cold]
    pub(crate) fn give_back(&self, details: Box<AskDetails>) {
        let mut details = Some(details);
        self.with_reserved(|reserved| {
            if reserved.ask_details.len() < reserved.ask_details.capacity() {
                reserved.ask_details.extend(details.take());
            }
        });
        drop(details);
    }

    /// Returns how many timers the actor may have, if that is limited.
    fn timers_max(&self) -> Option<usize> {
        if self.is_reserved() { self.with_reserved(|reserved| reserved.timers_max) } else { None }
    }

    /// Refuses a further timer if there is no room.
    fn check_timers(&self) -> Result<(), LimitReached> {
        match self.timers_max() {
            Some(max) if self.timers_set() >= max => Err(self.node().refuse(Limit::Timers, max)),
            _ => Ok(()),
        }
    }
}

/// The error of a timer that was not set; it returns the message.
///
/// See [`Context::try_send_after`].
pub struct TimerError<M> {
    /// The message that the timer would have sent.
    pub message: M,
    /// The member and the limit that it reached.
    pub limit: LimitReached,
}

impl<M> fmt::Display for TimerError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the timer was not set: {}", self.limit)
    }
}

/// Leaves out the message, which need not implement `Debug`.
impl<M> fmt::Debug for TimerError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerError").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl<M> core::error::Error for TimerError<M> {}

impl<A: Actor> Context<A> {
    /// Like [`send_after`](Self::send_after), but returns the message if there is no room for the
    /// timer.
    ///
    /// # Errors
    /// [`TimerError`] in a [sealed](crate::System::seal) system, if the actor already has as many
    /// timers as were reserved.
    pub fn try_send_after(&self, wait: Duration, message: A::Msg) -> Result<TimerKey, TimerError<A::Msg>> {
        match self.cell().any().check_timers() {
            Ok(()) => Ok(self.set_timer(wait, message)),
            Err(limit) => Err(TimerError { message, limit }),
        }
    }

    /// Like [`send_every`](Self::send_every), but fails if there is no room for the timer.
    ///
    /// # Errors
    /// [`LimitReached`] in a [sealed](crate::System::seal) system, if the actor already has as many
    /// timers as were reserved.
    pub fn try_send_every(
        &self,
        period: Duration,
        message: impl FnMut() -> A::Msg + Send + 'static,
    ) -> Result<TimerKey, LimitReached> {
        self.cell().any().check_timers()?;
        Ok(self.set_repeated_timer(period, message))
    }

    /// Makes a dead letter of the message of a timer that was refused.
    #[cold]
    pub(super) fn lose_timer(&self, refused: TimerError<A::Msg>) -> TimerKey {
        let cell = self.cell().any();
        cell.mailbox().count_accepted();
        cell.mailbox().count_removed();
        cell.dead_letter(&mut Some(refused.message), DeadLetterReason::NoTimer);
        TimerKey::NEVER
    }
}
