//! [`Reply`]: the one-shot channel on which an ask is answered.
//!
//! The slot of the answer is one allocation, shared by the `Reply` in the message and the `Ask`
//! that waits.
//!
//! Invariants:
//! 1. A slot is settled once. Later answers are dropped.
//! 2. A `Reply` that is dropped inside a poll of an actor is kept by that actor until the outcome
//!    of its handler is known. So the asker gets the failure as its error, and not only "dropped".
//! 3. Answers and wakers are dropped and woken outside the slot's lock.

use crate::base::lock::Lock;
use crate::base::sync::{Arc, unsize};
use crate::base::wakers;
use crate::tree::current;
use crate::tree::waits;
use crate::tree::waits::Unanswered;
use crate::tree::waits::ask_error::AskError;
use core::fmt;
use core::task::{Poll, Waker};

/// The one-shot channel on which an ask is answered. It is part of the message.
///
/// Answer with [`send`](Self::send). If it is dropped without an answer, the ask fails: with the
/// failure if the handler failed, else with [`AskError::Dropped`].
///
/// A handler can keep a reply and answer later, from another handler or task.
///
/// # Examples
/// ```
/// use pleach::BoxError;
/// use pleach::prelude::*;
///
/// enum Msg {
///     Double(u32, Reply<u32>),
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), pleach::Error> {
/// let system = ActorSystem::new("app")?;
/// let props = Props::from_fn(|| (), |(), msg: Msg| {
///     let Msg::Double(n, reply) = msg;
///     reply.send(n * 2);
///     Ok::<(), BoxError>(())
/// });
/// let doubler = system.spawn("doubler", props)?;
/// assert_eq!(doubler.ask(|reply| Msg::Double(21, reply)).await?, 42);
/// # system.shutdown(Duration::from_secs(5)).await?;
/// # Ok(())
/// # }
/// ```
pub struct Reply<T: Send + 'static> {
    slot: Option<Arc<ReplySlot<T>>>,
}

/// The place of one answer, shared by its `Reply` and the waiting ask.
pub(crate) struct ReplySlot<T> {
    state: Lock<AnswerState<T>>,
    /// A list of reserved slots refers to it too; see `reserve`.
    is_reserved: bool,
}

/// The state of an ask. It is settled once, from `Waiting`; then the ask takes the answer out.
enum AnswerState<T> {
    Waiting(Waker),
    Answered(T),
    Failed(AskError),
}

impl<T: Send + 'static> Reply<T> {
    #[inline]
    pub(super) fn to(slot: &Arc<ReplySlot<T>>) -> Self {
        Self { slot: Some(Arc::clone(slot)) }
    }

    /// Sends the answer. If the asker no longer waits, the answer is dropped.
    #[inline]
    pub fn send(mut self, answer: T) {
        let slot = self.slot.take();
        // `self` no longer has a slot, so its drop would do nothing.
        core::mem::forget(self);
        if let Some(slot) = slot {
            let asker = slot.settle(AnswerState::Answered(answer));
            // A reserved slot must be free before the asker runs and asks again.
            drop(slot);
            wakers::wake_each(asker);
        }
    }

    /// Returns true if the asker no longer waits for the answer.
    pub fn is_closed(&self) -> bool {
        // The list of reserved slots ends with the actor, which may be before the reply.
        self.slot.as_ref().is_none_or(|slot| Arc::strong_count(slot) <= 1 + usize::from(slot.is_reserved))
    }
}

impl<T: Send + 'static> Drop for Reply<T> {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        let slot = unsize!(slot => dyn Unanswered);
        let member = current::member();
        let not_kept = match member {
            Some(member) => member.keep_unanswered(slot).err(),
            None => Some(slot),
        };
        if let Some(slot) = not_kept {
            waits::end_ask(slot, AskError::Dropped);
        }
    }
}

impl<T: Send + 'static> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply(..)")
    }
}

impl<T: Send + 'static> Unanswered for ReplySlot<T> {
    fn answer(&self, why: AskError) -> Option<Waker> {
        self.settle(AnswerState::Failed(why))
    }

    fn is_open(&self) -> bool {
        self.state.with(|state| matches!(state, AnswerState::Waiting(_)))
    }
}

impl<T> AnswerState<T> {
    #[inline]
    fn into_poll(self) -> Poll<Result<T, AskError>> {
        match self {
            Self::Waiting(_) => Poll::Pending,
            Self::Answered(answer) => Poll::Ready(Ok(answer)),
            Self::Failed(why) => Poll::Ready(Err(why)),
        }
    }
}

impl<T> ReplySlot<T> {
    /// Creates a slot whose answer wakes `waker`.
    #[inline]
    pub(super) fn new(waker: &Waker) -> Arc<Self> {
        Arc::new(Self { state: Lock::new(AnswerState::Waiting(waker.clone())), is_reserved: false })
    }

    /// Creates a slot for several answers, one after the other.
    pub(super) fn reserved() -> Arc<Self> {
        Arc::new(Self { state: Lock::new(AnswerState::Failed(AskError::Dropped)), is_reserved: true })
    }

    /// Begins to wait for an answer, in a reserved slot that is not in use.
    pub(super) fn begin(&self, waker: &Waker) {
        let waker = waker.clone();
        let before = self.state.with(|state| core::mem::replace(state, AnswerState::Waiting(waker)));
        drop(before);
    }

    /// The ask has ended. A reserved slot drops an answer that was not taken, and any later one;
    /// any other slot is dropped with it.
    #[inline]
    pub(super) fn end(&self) {
        if self.is_reserved {
            self.discard();
        }
    }

    #[cold]
    fn discard(&self) {
        let unused = self.state.with(|state| core::mem::replace(state, AnswerState::Failed(AskError::Dropped)));
        drop(unused);
    }

    /// Returns the waker of the asker, to be woken.
    #[inline]
    fn settle(&self, answer: AnswerState<T>) -> Option<Waker> {
        let before = self.state.with(|state| match state {
            AnswerState::Waiting(_) => core::mem::replace(state, answer),
            _ => answer,
        });
        if let AnswerState::Waiting(waker) = before { Some(waker) } else { None }
    }

    #[inline]
    pub(super) fn poll(&self, waker: &Waker) -> Poll<Result<T, AskError>> {
        // The value taken out is dropped or used outside the lock.
        let taken = self.state.with(|state| match state {
            AnswerState::Waiting(known) => Err(known.will_wake(waker)),
            _ => Ok(core::mem::replace(state, AnswerState::Failed(AskError::Dropped))),
        });
        match taken {
            Ok(answer) => answer.into_poll(),
            Err(true) => Poll::Pending,
            Err(false) => self.replace_waker(waker.clone()),
        }
    }

    /// Replaces the waker, or takes the answer if it has arrived meanwhile.
    #[cold]
    fn replace_waker(&self, waker: Waker) -> Poll<Result<T, AskError>> {
        let (taken, unused) = self.state.with(|state| match state {
            AnswerState::Waiting(known) => (None, core::mem::replace(known, waker)),
            _ => (Some(core::mem::replace(state, AnswerState::Failed(AskError::Dropped))), waker),
        });
        wakers::discard([unused]);
        taken.map_or(Poll::Pending, AnswerState::into_poll)
    }
}
