//! The send contexts of an instrumented actor: one for each queued message, in lanes like those of
//! the messages.
//!
//! Invariants:
//! 1. Each lane has as many contexts as messages, in the same order. So the rules that choose a
//!    message (the highest lane for the receiver, the lowest for an overflow) find its context.
//! 2. A context is a user's value: it leaves the lock before it is dropped.
//! 3. The receiver takes one message at a time, because an instrumented mailbox has lanes. Its
//!    context is `taken` until the handler of that message begins.

use crate::events::instrument::SendContext;
use crate::mailbox::queue::AnyQueue;
use crate::mailbox::queue_state::QueueState;
use crate::mailbox::{Priority, control};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The contexts of the queued messages, and of the one that was taken last.
#[derive(Default)]
pub(super) struct Contexts {
    lanes: Vec<VecDeque<Option<SendContext>>>,
    taken: Option<SendContext>,
}

impl<S: ?Sized, U: Default> QueueState<S, U> {
    fn contexts(&mut self) -> Option<&mut Contexts> {
        self.cold.as_mut()?.contexts.as_deref_mut()
    }

    /// After a message was added to the queue.
    pub(super) fn push_context(&mut self, priority: Priority, context: Option<SendContext>) -> Option<SendContext> {
        let Some(contexts) = self.contexts() else { return context };
        let lane = usize::from(priority.get()).min(contexts.lanes.len() - 1);
        contexts.lanes[lane].push_back(context);
        None
    }

    /// After the oldest message was removed. Returns its context.
    pub(super) fn pop_oldest_context(&mut self) -> Option<SendContext> {
        self.contexts()?.lanes.iter_mut().find_map(VecDeque::pop_front).flatten()
    }

    /// After the receiver has taken a message of a lane. Returns the context that it replaces.
    pub(super) fn take_context(&mut self) -> Option<SendContext> {
        let contexts = self.contexts()?;
        let next = contexts.lanes.iter_mut().rev().find_map(VecDeque::pop_front).flatten();
        core::mem::replace(&mut contexts.taken, next)
    }
}

impl<U: Default, H> AnyQueue<U, H> {
    /// Makes this the queue of an instrumented actor. Called before the first push.
    pub(crate) fn carry_contexts(&self) {
        self.raise_silently(control::INSTRUMENTED);
        self.state.with(|state| {
            state.lanes = state.lanes.max(1);
            let lanes = core::iter::repeat_with(VecDeque::new).take(usize::from(state.lanes)).collect();
            state.cold().contexts = Some(Box::new(Contexts { lanes, taken: None }));
        });
    }

    /// Returns the context of the message that was taken last, once.
    pub(crate) fn taken_context(&self) -> Option<SendContext> {
        self.state.with(|state| state.contexts()?.taken.take())
    }
}
