//! `Inbox`: the queue of one actor, with its control word. Many senders, one receiver.
//!
//! One short lock guards the chunk that senders fill. The receiver swaps the whole chunk for an empty one, turns it round so that it can
//! pop from the end, and works through it without the lock; beyond [`CHUNK_MAX`] messages a full chunk goes to a backlog, so that no
//! push ever copies more than one. Mailboxes that drop the oldest, conflate or have priorities keep their messages in lanes instead,
//! and the receiver takes one at a time. Nothing is woken or dropped under the lock.
//!
//! ```text
//!  parked:   Running ──refill finds nothing──► Idle ──push or control──► Running
//!               ├───────handler is pending───► InHandler ──cancel──────► Running   (a push does not wake it)
//!               └───────suspended────────────► Suspended ──any control─► Running   (a push does not wake it)
//! ```
//!
//! Invariants:
//! 1. `accepted - removed - taken` messages are queued; it never exceeds the capacity. `quick` is how many more can be pushed without
//!    looking closer: within the capacity, within the chunk's memory, and 0 where a push is anything but that.
//! 2. The waker is present exactly while parked. Whoever needs the receiver takes it and wakes it outside the lock.
//! 3. Control bits are set before the lock is taken to look at `parked`, and the receiver looks at them again under the lock before
//!    it parks: a bit is never missed.
//! 4. A waiting send keeps its message in the waiting list. Only the receiver moves it to the queue, in order, so a `tell` never
//!    overtakes it and dropping the send leaks no slot.
//! 5. What only some mailboxes need lies in one box that is allocated when first needed.

use super::signals::Signals;
use super::{Mailbox, Overflow, Priority, SendError};
use crate::ask::Unanswered;
use crate::lock::Lock;
use crate::node::Member;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use crate::{ActorId, Counts, DeadLetterReason, Signal};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::{Poll, Waker};

/// The bits of the control word; the receiver loads it before every message.
pub(crate) mod control {
    /// Cut off at the next await.
    pub(crate) const CANCEL: u32 = 1;
    /// End after the message in hand.
    pub(crate) const STOP: u32 = 1 << 1;
    /// Start afresh from the factory.
    pub(crate) const RESTART: u32 = 1 << 3;
    /// Serve control only, until resumed.
    pub(crate) const SUSPEND: u32 = 1 << 4;
    /// Serve messages again.
    pub(crate) const RESUME: u32 = 1 << 5;
    /// Signals are waiting.
    pub(crate) const SIGNALS: u32 = 1 << 6;
    /// Senders are waiting for room.
    pub(crate) const SENDERS: u32 = 1 << 7;
    /// Replies were dropped unanswered.
    pub(crate) const UNANSWERED: u32 = 1 << 8;
    /// A child's failure has become this actor's own.
    pub(crate) const CHILD_FAILED: u32 = 1 << 9;
    /// Set by the actor itself while it ends: a cancel no longer cuts it off.
    pub(crate) const ENDING: u32 = 1 << 10;
}

/// Most messages in one chunk, and most bytes: what a push may have to allocate or copy at once.
const CHUNK_MAX: usize = 1024;
const CHUNK_BYTES_MAX: usize = 64 * 1024;
/// Most bytes of an empty chunk that an idle actor keeps, so that a lone message now and then allocates nothing.
const KEEP_BYTES: usize = 32;

const fn chunk<M>() -> usize {
    let fitting = CHUNK_BYTES_MAX / (size_of::<M>() + 1);
    if fitting < 16 {
        16
    } else if fitting < CHUNK_MAX {
        fitting
    } else {
        CHUNK_MAX
    }
}

pub(crate) struct Inbox<M> {
    word: AtomicU32,
    posture: AtomicU32,
    taken: AtomicUsize,
    handled: AtomicUsize,
    state: Lock<State<M>>,
}

/// Where the receiver's task is.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Posture {
    Outside,
    Polling,
    Resting,
}

struct State<M> {
    chunk: Vec<M>,
    waker: Option<Waker>,
    accepted: usize,
    quick: u32,
    capacity: u32,
    usual: u32,
    parked: Parked,
    closed: bool,
    overflow: Overflow,
    one_by_one: bool,
    cold: Option<Box<Cold<M>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Parked {
    Running,
    Idle,
    InHandler,
    Suspended,
}

struct Cold<M> {
    backlog: VecDeque<Vec<M>>,
    lanes: Vec<VecDeque<M>>,
    waiting: BTreeMap<u64, Waiting<M>>,
    next_key: u64,
    removed: usize,
    failed: u64,
    dead_lettered: u64,
    signals: Signals,
    unanswered: Vec<Arc<dyn Unanswered>>,
    asking: Option<Arc<dyn Member>>,
}

struct Waiting<M> {
    message: M,
    priority: Priority,
    waker: Waker,
}

/// What the receiver found.
pub(crate) enum Refill {
    /// The batch has messages.
    Messages,
    /// Control has something to say.
    Control,
    /// The end of input, and nothing is left.
    Ended,
}

/// What there was under the lock.
enum Found {
    Some(Refill),
    Senders,
    Nothing,
}

/// How a push went: who to wake, and what was dropped for it.
type PushResult<M> = Result<(Option<Waker>, Option<(M, DeadLetterReason)>), SendError<M>>;

impl<M> Inbox<M> {
    pub(crate) fn new(kind: Mailbox) -> Self {
        let one_by_one = kind.prioritised || matches!(kind.overflow, Overflow::DropOldest | Overflow::Conflate);
        let capacity = u32::try_from(kind.capacity).unwrap_or(u32::MAX);
        let mut state = State {
            chunk: Vec::new(),
            waker: None,
            accepted: 0,
            quick: 0,
            capacity,
            usual: 0,
            parked: Parked::Running,
            closed: false,
            overflow: kind.overflow,
            one_by_one,
            cold: None,
        };
        if one_by_one {
            let lanes = if kind.prioritised { Priority::COUNT } else { 1 };
            state.cold().lanes.resize_with(lanes, VecDeque::new);
        }
        Self {
            word: AtomicU32::new(0),
            posture: AtomicU32::new(Posture::Outside as u32),
            taken: AtomicUsize::new(0),
            handled: AtomicUsize::new(0),
            state: Lock::new(state),
        }
    }

    /// Puts a message in, without waiting. A message dropped to make room is handed to `bury`, outside the lock.
    #[inline]
    pub(crate) fn push(&self, message: M, bury: impl FnOnce(M, DeadLetterReason)) -> Result<(), SendError<M>> {
        match self.push_quickly(message) {
            Ok(()) => Ok(()),
            Err(message) => self.push_slowly(message, Priority::NORMAL, true, bury),
        }
    }

    /// Puts a message in if there is room, whatever the overflow policy says.
    #[inline]
    pub(crate) fn try_push(&self, message: M) -> Result<(), SendError<M>> {
        match self.push_quickly(message) {
            Ok(()) => Ok(()),
            Err(message) => self.push_slowly(message, Priority::NORMAL, false, |_, _| {}),
        }
    }

    /// The push of nearly every message: there is room, in a chunk that has place. Gives the message back where it is not so simple.
    #[inline]
    fn push_quickly(&self, message: M) -> Result<(), M> {
        let mut message = Some(message);
        let waker = self.state.with(|state| {
            if state.quick > 0
                && let Some(message) = message.take()
            {
                state.quick -= 1;
                state.accepted = state.accepted.wrapping_add(1);
                state.chunk.push(message);
                return state.unpark_if_idle();
            }
            None
        });
        if let Some(waker) = waker {
            waker.wake();
        }
        message.map_or(Ok(()), Err)
    }

    /// Any other push.
    #[cold]
    pub(crate) fn push_slowly(
        &self,
        message: M,
        priority: Priority,
        may_drop: bool,
        bury: impl FnOnce(M, DeadLetterReason),
    ) -> Result<(), SendError<M>> {
        let (pushed, admitted) = self.state.with(|state| {
            // Whoever waits goes first.
            let admitted = self.admit_locked(state);
            (self.push_locked(state, message, priority, may_drop), admitted)
        });
        admitted.into_iter().for_each(Waker::wake);
        let (waker, dropped) = pushed?;
        waker.into_iter().for_each(Waker::wake);
        if let Some((message, reason)) = dropped {
            bury(message, reason);
        }
        Ok(())
    }

    fn push_locked(&self, state: &mut State<M>, message: M, priority: Priority, may_drop: bool) -> PushResult<M> {
        if state.closed {
            return Err(SendError::Closed(message));
        }
        if priority != Priority::NORMAL && !state.has_priorities() {
            return Err(SendError::NoPriorities(message));
        }
        if state.room(&self.taken) > 0 {
            state.put(message, priority);
            state.measure(&self.taken);
            return Ok((state.unpark_if_idle(), None));
        }
        let overflow = if may_drop { state.overflow } else { Overflow::Fail };
        let (reason, victim) = match overflow {
            Overflow::Fail => return Err(SendError::Full(message)),
            Overflow::DropNewest => {
                state.accepted = state.accepted.wrapping_add(1);
                state.count_removed();
                return Ok((None, Some((message, DeadLetterReason::Newest))));
            }
            Overflow::DropOldest => (DeadLetterReason::Oldest, state.pop_oldest()),
            Overflow::Conflate => (DeadLetterReason::Conflated, state.pop_oldest()),
        };
        if victim.is_some() {
            state.count_removed();
        }
        state.put(message, priority);
        Ok((state.unpark_if_idle(), victim.map(|victim| (victim, reason))))
    }

    /// One more item from a source beside the queue: it is accepted and taken at once.
    pub(crate) fn accept_from_feed(&self) {
        self.state.with(|state| state.accepted = state.accepted.wrapping_add(1));
    }

    /// Puts a message into the queue, or into the waiting list if there is no room; the key there.
    #[inline]
    pub(crate) fn push_now_or_wait(&self, message: M, priority: Priority, waker: &Waker) -> Result<Option<u64>, SendError<M>> {
        if priority != Priority::NORMAL {
            return self.push_or_wait(message, priority, waker);
        }
        match self.push_quickly(message) {
            Ok(()) => Ok(None),
            Err(message) => self.push_or_wait(message, priority, waker),
        }
    }

    #[cold]
    fn push_or_wait(&self, message: M, priority: Priority, waker: &Waker) -> Result<Option<u64>, SendError<M>> {
        let (key, to_wake, admitted) = self.state.with(|state| {
            if state.closed {
                return Err(SendError::Closed(message));
            }
            if priority != Priority::NORMAL && !state.has_priorities() {
                return Err(SendError::NoPriorities(message));
            }
            let admitted = self.admit_locked(state);
            if state.nobody_waits() && state.room(&self.taken) > 0 {
                state.put(message, priority);
                state.measure(&self.taken);
                return Ok((None, state.unpark_if_idle(), admitted));
            }
            state.quick = 0;
            let cold = state.cold();
            cold.next_key += 1;
            let key = cold.next_key;
            cold.waiting.insert(key, Waiting { message, priority, waker: waker.clone() });
            // The receiver need not be woken: while it is parked it takes nothing, so no room appears, and before it parks it lets
            // in whoever waits.
            self.word.fetch_or(control::SENDERS, Ordering::Relaxed);
            Ok((Some(key), None, admitted))
        })?;
        to_wake.into_iter().chain(admitted).for_each(Waker::wake);
        Ok(key)
    }

    /// Looks after a waiting send: `Ready(Ok)` once its message is in the queue.
    pub(crate) fn poll_waiting(&self, key: u64, waker: &Waker) -> Poll<Result<(), SendError<M>>> {
        let (polled, replaced) = self.state.with(|state| {
            let closed = state.closed;
            let Some(cold) = state.cold.as_mut() else { return (Poll::Ready(Ok(())), None) };
            if closed {
                let given_back = cold.waiting.remove(&key).map(|waiting| waiting.message);
                return (Poll::Ready(given_back.map_or(Ok(()), |message| Err(SendError::Closed(message)))), None);
            }
            match cold.waiting.get_mut(&key) {
                None => (Poll::Ready(Ok(())), None),
                Some(waiting) if waiting.waker.will_wake(waker) => (Poll::Pending, None),
                Some(waiting) => (Poll::Pending, Some(core::mem::replace(&mut waiting.waker, waker.clone()))),
            }
        });
        drop(replaced);
        polled
    }

    /// Takes a message back out of the waiting list; `None` if it is in the queue by now.
    pub(crate) fn withdraw(&self, key: u64) -> Option<M> {
        let withdrawn = self.state.with(|state| {
            let withdrawn = state.cold.as_mut()?.waiting.remove(&key);
            if state.nobody_waits() {
                self.word.fetch_and(!control::SENDERS, Ordering::Relaxed);
                state.measure(&self.taken);
            }
            withdrawn
        });
        withdrawn.map(|waiting| waiting.message)
    }

    /// Moves waiting sends into the queue as far as there is room.
    pub(crate) fn admit(&self) {
        let admitted = self.state.with(|state| self.admit_locked(state));
        admitted.into_iter().for_each(Waker::wake);
    }

    fn admit_locked(&self, state: &mut State<M>) -> Vec<Waker> {
        let mut admitted = Vec::new();
        // After the end of input the senders take theirs back: what got in now might find nobody left to handle or bury it.
        if state.closed || state.nobody_waits() {
            return admitted;
        }
        let mut room = state.room(&self.taken);
        while room > 0
            && let Some((_, next)) = state.cold().waiting.pop_first()
        {
            room -= 1;
            state.put(next.message, next.priority);
            admitted.push(next.waker);
        }
        state.measure(&self.taken);
        if state.nobody_waits() {
            self.word.fetch_and(!control::SENDERS, Ordering::Relaxed);
        }
        admitted
    }

    /// Fills `batch`, or parks the receiver if it may. `batch` must be empty.
    pub(crate) fn refill(&self, batch: &mut Vec<M>, may_park: bool, waker: &Waker) -> Poll<Refill> {
        let mut replaced = None;
        let found = self.state.with(|state| {
            if state.take_some(batch) {
                state.measure(&self.taken);
                return Found::Some(Refill::Messages);
            }
            if self.word() & !control::SENDERS != 0 {
                return Found::Some(Refill::Control);
            }
            if state.closed {
                return Found::Some(Refill::Ended);
            }
            // The list is looked at under the lock and not the bit before it: a send that has just come to wait may not have seen
            // the room that the receiver has made, and would be left waiting beside an empty queue.
            if state.cold.is_some() && !state.nobody_waits() {
                return Found::Senders;
            }
            if may_park {
                state.parked = Parked::Idle;
                state.keep_one_small_chunk(batch);
                state.measure(&self.taken);
                replaced = state.remember(waker);
            }
            Found::Nothing
        });
        drop(replaced);
        match found {
            Found::Some(refill) => {
                // The oldest comes last, where it is popped.
                if batch.len() > 1 {
                    batch.reverse();
                }
                Poll::Ready(refill)
            }
            Found::Senders => {
                self.admit();
                self.refill(batch, may_park, waker)
            }
            Found::Nothing => {
                if may_park && batch.capacity() > 0 {
                    *batch = Vec::new();
                }
                Poll::Pending
            }
        }
    }

    /// Leaves the waker for a handler that is pending, so that a cancel reaches it. False if a cancel came first.
    pub(crate) fn park_in_handler(&self, waker: &Waker) -> bool {
        let mut old = None;
        let admitted = self.state.with(|state| {
            state.parked = Parked::InHandler;
            old = state.remember(waker);
            if self.word() & control::SENDERS == 0 { Vec::new() } else { self.admit_locked(state) }
        });
        drop(old);
        admitted.into_iter().for_each(Waker::wake);
        !self.is_cut_off()
    }

    /// Parks a suspended receiver until control says something.
    pub(crate) fn poll_control(&self, waker: &Waker) -> Poll<()> {
        let mut old = None;
        let mut admitted = Vec::new();
        let polled = self.state.with(|state| {
            if self.word() & !control::SENDERS != 0 {
                return Poll::Ready(());
            }
            admitted = self.admit_locked(state);
            state.parked = Parked::Suspended;
            old = state.remember(waker);
            Poll::Pending
        });
        drop(old);
        admitted.into_iter().for_each(Waker::wake);
        polled
    }

    #[inline]
    pub(crate) fn word(&self) -> u32 {
        self.word.load(Ordering::Acquire)
    }

    /// Whether a cancel came that must cut off what runs.
    #[inline]
    pub(crate) fn is_cut_off(&self) -> bool {
        self.word() & (control::CANCEL | control::ENDING) == control::CANCEL
    }

    /// Clears control bits, and gives the word as it was.
    pub(crate) fn lower(&self, bits: u32) -> u32 {
        self.word.fetch_and(!bits, Ordering::AcqRel)
    }

    #[inline]
    pub(crate) fn posture(&self) -> Posture {
        match self.posture.load(Ordering::Relaxed) {
            0 => Posture::Outside,
            1 => Posture::Polling,
            _ => Posture::Resting,
        }
    }

    #[inline]
    pub(crate) fn set_posture(&self, posture: Posture) {
        self.posture.store(posture as u32, Ordering::Relaxed);
    }

    /// Sets control bits and gives back the waker of a receiver that must look at them now.
    pub(crate) fn raise(&self, bits: u32) -> Option<Waker> {
        self.word.fetch_or(bits, Ordering::AcqRel);
        self.state.with(|state| match state.parked {
            Parked::InHandler if bits & control::CANCEL == 0 => None,
            _ => state.unpark(),
        })
    }

    /// Sets bits that the receiver itself will come upon, without waking it.
    pub(crate) fn mark(&self, bits: u32) {
        self.word.fetch_or(bits, Ordering::AcqRel);
    }

    /// Takes no more messages. Waiting sends get theirs back. Gives the waker of a parked receiver.
    pub(crate) fn close(&self) -> Option<Waker> {
        let (receiver, senders) = self.state.with(|state| {
            state.closed = true;
            state.quick = 0;
            let senders: Option<Vec<Waker>> =
                state.cold.as_ref().map(|cold| cold.waiting.values().map(|waiting| waiting.waker.clone()).collect());
            (state.unpark_if_idle(), senders)
        });
        if let Some(senders) = senders {
            senders.into_iter().for_each(Waker::wake);
        }
        receiver
    }

    /// The next part of what is left over after the end, the oldest last.
    pub(crate) fn take_left_over(&self) -> Option<Vec<M>> {
        let (chunk, lane) = self.state.with(State::take_oldest)?;
        let mut left = if lane.is_empty() { chunk } else { lane.into() };
        left.reverse();
        Some(left)
    }

    /// The handling of one message begins. Only the receiver calls this, so a plain store is enough.
    #[inline]
    pub(crate) fn begin(&self) {
        self.taken.store(self.taken.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }

    /// The handling of one message ended well.
    #[inline]
    pub(crate) fn finish(&self) {
        self.handled.store(self.handled.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }

    /// Takes back one [`begin`](Self::begin): the message goes back to the front of the batch for another try.
    pub(crate) fn begin_again(&self) {
        self.taken.store(self.taken.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Release);
    }

    pub(crate) fn count_failed(&self) {
        self.state.with(|state| state.cold().failed += 1);
    }

    pub(crate) fn count_dead_lettered(&self) {
        self.state.with(|state| state.cold().dead_lettered += 1);
    }

    /// One message that was queued or in the receiver's batch becomes a dead letter untaken.
    pub(crate) fn count_removed(&self) {
        self.state.with(|state| state.count_removed());
    }

    /// The receiver is gone: whatever it held and nobody settled has become a dead letter.
    pub(crate) fn settle_rest(&self) {
        let open = self.counts().open();
        self.state.with(|state| {
            let queued = state.queued(&self.taken);
            let cold = state.cold();
            cold.dead_lettered += open;
            cold.removed = cold.removed.wrapping_add(queued);
        });
    }

    pub(crate) fn counts(&self) -> Counts {
        // Handled is read first: it never runs ahead of accepted.
        let handled = self.handled.load(Ordering::Acquire) as u64;
        self.state.with(|state| {
            let (failed, dead_lettered) = state.cold.as_ref().map_or((0, 0), |cold| (cold.failed, cold.dead_lettered));
            Counts { accepted: state.accepted as u64, handled, failed, dead_lettered }
        })
    }

    /// Messages accepted whose handling has not begun.
    pub(crate) fn len(&self) -> usize {
        self.state.with(|state| state.queued(&self.taken))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state.with(|state| state.chunk.is_empty() && state.cold.as_ref().is_none_or(|cold| cold.is_empty()))
    }

    pub(crate) fn push_signal(&self, signal: Signal) -> Option<Waker> {
        let replaced = self.state.with(|state| state.cold().signals.push(signal));
        drop(replaced);
        self.raise(control::SIGNALS)
    }

    pub(crate) fn pop_signal(&self) -> Option<Signal> {
        self.state.with(|state| {
            let signals = &mut state.cold.as_mut()?.signals;
            let signal = signals.pop();
            if signals.is_empty() {
                self.word.fetch_and(!control::SIGNALS, Ordering::AcqRel);
            }
            signal
        })
    }

    /// Takes back the news that `id` has ended, if nobody has heard it yet.
    pub(crate) fn forget_end_of(&self, id: ActorId) {
        let forgotten = self.state.with(|state| state.cold.as_mut().and_then(|cold| cold.signals.forget_end_of(id)));
        drop(forgotten);
    }

    pub(crate) fn hold_unanswered(&self, reply: Arc<dyn Unanswered>) {
        self.state.with(|state| state.cold().unanswered.push(reply));
        self.mark(control::UNANSWERED);
    }

    pub(crate) fn take_unanswered(&self) -> Vec<Arc<dyn Unanswered>> {
        self.lower(control::UNANSWERED);
        self.state.with(|state| state.cold.as_mut().map(|cold| core::mem::take(&mut cold.unanswered)).unwrap_or_default())
    }

    pub(crate) fn asking(&self) -> Option<Arc<dyn Member>> {
        self.state.with(|state| state.cold.as_ref().and_then(|cold| cold.asking.clone()))
    }

    pub(crate) fn set_asking(&self, target: Option<Arc<dyn Member>>) {
        let replaced = self.state.with(|state| core::mem::replace(&mut state.cold().asking, target));
        drop(replaced);
    }
}

impl<M> Cold<M> {
    fn is_empty(&self) -> bool {
        self.backlog.is_empty() && self.lanes.iter().all(VecDeque::is_empty)
    }
}

impl<M> State<M> {
    fn cold(&mut self) -> &mut Cold<M> {
        self.cold.get_or_insert_with(|| {
            Box::new(Cold {
                backlog: VecDeque::new(),
                lanes: Vec::new(),
                waiting: BTreeMap::new(),
                next_key: 0,
                removed: 0,
                failed: 0,
                dead_lettered: 0,
                signals: Signals::default(),
                unanswered: Vec::new(),
                asking: None,
            })
        })
    }

    /// Messages accepted whose handling has not begun.
    fn queued(&self, taken: &AtomicUsize) -> usize {
        let removed = self.cold.as_ref().map_or(0, |cold| cold.removed);
        self.accepted.wrapping_sub(removed).wrapping_sub(taken.load(Ordering::Acquire))
    }

    /// How many more messages the capacity allows.
    fn room(&self, taken: &AtomicUsize) -> u32 {
        if self.capacity == u32::MAX {
            return u32::MAX;
        }
        self.capacity.saturating_sub(u32::try_from(self.queued(taken)).unwrap_or(u32::MAX))
    }

    /// Sets `quick` anew. What the receiver frees is counted only here, when `quick` is used up or the chunk has changed, so that the
    /// line with its counter does not travel between cores for every message. While senders wait nobody else gets in.
    #[inline]
    fn measure(&mut self, taken: &AtomicUsize) {
        let place = self.chunk.capacity().min(chunk::<M>()).saturating_sub(self.chunk.len()) as u32;
        let simple = place > 0 && !self.one_by_one && !self.closed && self.nobody_waits();
        self.quick = if simple { place.min(self.room(taken)) } else { 0 };
    }

    fn nobody_waits(&self) -> bool {
        self.cold.as_ref().is_none_or(|cold| cold.waiting.is_empty())
    }

    fn has_priorities(&self) -> bool {
        self.cold.as_ref().is_some_and(|cold| cold.lanes.len() > 1)
    }

    fn unpark_if_idle(&mut self) -> Option<Waker> {
        if self.parked == Parked::Idle { self.unpark() } else { None }
    }

    fn put(&mut self, message: M, priority: Priority) {
        self.accepted = self.accepted.wrapping_add(1);
        if self.one_by_one {
            let lanes = &mut self.cold().lanes;
            let lane = usize::from(priority.get()).min(lanes.len() - 1);
            lanes[lane].push_back(message);
            return;
        }
        if self.chunk.len() >= chunk::<M>() {
            let full = core::mem::replace(&mut self.chunk, Vec::with_capacity(chunk::<M>()));
            self.cold().backlog.push_back(full);
        } else if self.chunk.len() == self.chunk.capacity() {
            // Room for one at first: that is all that most actors ever need at a time, and what an idle one keeps. Then for as
            // many as came the last time.
            let more = if self.chunk.is_empty() { 1 } else { (self.chunk.len() * 3).max(self.usual as usize) };
            self.chunk.reserve_exact(more.min(chunk::<M>() - self.chunk.len()));
        }
        self.chunk.push(message);
    }

    fn unpark(&mut self) -> Option<Waker> {
        self.parked = Parked::Running;
        self.waker.take()
    }

    /// Keeps the waker of a receiver that parks; the one it replaces is dropped outside the lock.
    fn remember(&mut self, waker: &Waker) -> Option<Waker> {
        match &self.waker {
            Some(known) if known.will_wake(waker) => None,
            _ => self.waker.replace(waker.clone()),
        }
    }

    /// One message leaves the queue untaken, as a dead letter.
    fn count_removed(&mut self) {
        let cold = self.cold();
        cold.removed = cold.removed.wrapping_add(1);
        cold.dead_lettered += 1;
    }

    #[inline]
    fn take_some(&mut self, batch: &mut Vec<M>) -> bool {
        if self.cold.is_some() && self.take_some_cold(batch) {
            return true;
        }
        if self.chunk.is_empty() {
            return false;
        }
        self.usual = self.chunk.len() as u32;
        core::mem::swap(&mut self.chunk, batch);
        true
    }

    /// From the lanes, or from the backlog, which is older than the chunk.
    fn take_some_cold(&mut self, batch: &mut Vec<M>) -> bool {
        let cold = self.cold();
        match cold.backlog.pop_front() {
            Some(full) => *batch = full,
            None => batch.extend(cold.lanes.iter_mut().rev().find_map(VecDeque::pop_front)),
        }
        !batch.is_empty()
    }

    /// The oldest message not yet taken: with priorities, the oldest of the lowest.
    fn pop_oldest(&mut self) -> Option<M> {
        self.cold().lanes.iter_mut().find_map(VecDeque::pop_front)
    }

    /// The oldest part of what is queued: a chunk or a lane.
    fn take_oldest(&mut self) -> Option<(Vec<M>, VecDeque<M>)> {
        if let Some(cold) = self.cold.as_mut() {
            if let Some(full) = cold.backlog.pop_front() {
                return Some((full, VecDeque::new()));
            }
            if let Some(lane) = cold.lanes.iter_mut().rev().find(|lane| !lane.is_empty()) {
                return Some((Vec::new(), core::mem::take(lane)));
            }
        }
        if self.chunk.is_empty() { None } else { Some((core::mem::take(&mut self.chunk), VecDeque::new())) }
    }

    /// On going idle one small chunk stays, so that a lone message allocates nothing. What is left in `batch` is for the caller to
    /// drop outside the lock.
    fn keep_one_small_chunk(&mut self, batch: &mut Vec<M>) {
        if self.chunk.capacity() * size_of::<M>() > KEEP_BYTES || self.chunk.capacity() == 0 {
            core::mem::swap(&mut self.chunk, batch);
        }
        if self.chunk.capacity() * size_of::<M>() > KEEP_BYTES {
            // Both were large. One is dropped here under the lock, which is a free of an empty buffer and no user's value.
            self.chunk = Vec::new();
        }
    }
}
