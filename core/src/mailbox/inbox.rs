//! `Inbox`: the queue of one actor, with its control word. Many senders, one receiver.
//!
//! One short lock guards the ring that senders fill. The receiver swaps the whole ring for an empty one and works through it without
//! the lock; beyond [`CHUNK_MAX`] messages a full ring goes to a backlog of rings, so that no push ever copies more than one. Nothing is
//! woken or dropped under the lock.
//!
//! ```text
//!  parked:   Running ──refill finds nothing──► Idle ──push or control──► Running
//!               ├───────handler is pending───► InHandler ──cancel──────► Running   (a push does not wake it)
//!               └───────suspended────────────► Suspended ──any control─► Running   (a push does not wake it)
//! ```
//!
//! Invariants:
//! 1. `accepted - removed - taken` messages are queued; it never exceeds the capacity.
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
use crate::sync::{AtomicUsize, Ordering};
use crate::{ActorId, Counts, DeadLetterReason, Signal};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::{Poll, Waker};

/// The bits of the control word; the receiver loads it before every message.
pub(crate) mod control {
    /// Cut off at the next await.
    pub(crate) const CANCEL: usize = 1;
    /// End after the message in hand.
    pub(crate) const STOP: usize = 1 << 1;
    /// Start afresh from the factory.
    pub(crate) const RESTART: usize = 1 << 3;
    /// Serve control only, until resumed.
    pub(crate) const SUSPEND: usize = 1 << 4;
    /// Serve messages again.
    pub(crate) const RESUME: usize = 1 << 5;
    /// Signals are waiting.
    pub(crate) const SIGNALS: usize = 1 << 6;
    /// Senders are waiting for room.
    pub(crate) const SENDERS: usize = 1 << 7;
    /// Replies were dropped unanswered.
    pub(crate) const UNANSWERED: usize = 1 << 8;
    /// A child's failure has become this actor's own.
    pub(crate) const CHILD_FAILED: usize = 1 << 9;
}

/// Most messages in one ring, and most bytes: what a push may have to allocate or copy at once.
const CHUNK_MAX: usize = 1024;
const CHUNK_BYTES_MAX: usize = 64 * 1024;
/// Most bytes of an empty ring that an idle actor keeps, so that a lone message now and then allocates nothing.
const KEEP_BYTES: usize = 128;

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
    word: AtomicUsize,
    taken: AtomicUsize,
    handled: AtomicUsize,
    state: Lock<State<M>>,
}

struct State<M> {
    ring: VecDeque<M>,
    waker: Option<Waker>,
    accepted: usize,
    room: usize,
    capacity: usize,
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
    backlog: VecDeque<VecDeque<M>>,
    lanes: Option<Box<[VecDeque<M>; Priority::COUNT]>>,
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

/// How a push went: who to wake, and what was dropped for it.
struct Pushed<M> {
    waker: Option<Waker>,
    dropped: Option<(M, DeadLetterReason)>,
}

impl<M> Inbox<M> {
    pub(crate) fn new(kind: Mailbox) -> Self {
        let one_by_one = kind.prioritised || matches!(kind.overflow, Overflow::DropOldest | Overflow::Conflate);
        let mut state = State {
            ring: VecDeque::new(),
            waker: None,
            accepted: 0,
            room: kind.capacity,
            capacity: kind.capacity,
            parked: Parked::Running,
            closed: false,
            overflow: kind.overflow,
            one_by_one,
            cold: None,
        };
        if kind.prioritised {
            state.cold().lanes = Some(Box::default());
        }
        let zero = || AtomicUsize::new(0);
        Self { word: zero(), taken: zero(), handled: zero(), state: Lock::new(state) }
    }

    /// Puts a message in, without waiting. A message dropped to make room is handed to `bury`, outside the lock.
    #[inline]
    pub(crate) fn push(&self, message: M, bury: impl FnOnce(M, DeadLetterReason)) -> Result<(), SendError<M>> {
        let pushed = self.state.with(|state| {
            if state.closed {
                return Err(SendError::Closed(message));
            }
            if state.room == 0 || state.one_by_one || state.ring.len() >= chunk::<M>() {
                return self.push_slowly(state, message, Priority::NORMAL, true);
            }
            state.room -= 1;
            Ok(Pushed { waker: state.enqueue(message), dropped: None })
        })?;
        if let Some(waker) = pushed.waker {
            waker.wake();
        }
        if let Some((message, reason)) = pushed.dropped {
            bury(message, reason);
        }
        Ok(())
    }

    /// Puts a message in if there is room, whatever the overflow policy says.
    #[inline]
    pub(crate) fn try_push(&self, message: M) -> Result<(), SendError<M>> {
        let waker = self.state.with(|state| {
            if state.closed {
                return Err(SendError::Closed(message));
            }
            if state.room == 0 || state.one_by_one || state.ring.len() >= chunk::<M>() {
                return self.push_slowly(state, message, Priority::NORMAL, false).map(|pushed| pushed.waker);
            }
            state.room -= 1;
            Ok(state.enqueue(message))
        })?;
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// As [`push`](Self::push), with a priority.
    pub(crate) fn push_with_priority(
        &self,
        message: M,
        priority: Priority,
        bury: impl FnOnce(M, DeadLetterReason),
    ) -> Result<(), SendError<M>> {
        let pushed = self.state.with(|state| {
            if state.closed {
                return Err(SendError::Closed(message));
            }
            if priority != Priority::NORMAL && !state.has_lanes() {
                return Err(SendError::NoPriorities(message));
            }
            self.push_slowly(state, message, priority, true)
        })?;
        if let Some(waker) = pushed.waker {
            waker.wake();
        }
        if let Some((message, reason)) = pushed.dropped {
            bury(message, reason);
        }
        Ok(())
    }

    #[cold]
    fn push_slowly(
        &self,
        state: &mut State<M>,
        message: M,
        priority: Priority,
        may_drop: bool,
    ) -> Result<Pushed<M>, SendError<M>> {
        if state.find_room(&self.taken) {
            state.room -= 1;
            return Ok(Pushed { waker: state.enqueue_anywhere(message, priority), dropped: None });
        }
        let overflow = if may_drop { state.overflow } else { Overflow::Fail };
        let (reason, victim) = match overflow {
            Overflow::Fail => return Err(SendError::Full(message)),
            Overflow::DropNewest => {
                state.accepted = state.accepted.wrapping_add(1);
                return Ok(Pushed { waker: None, dropped: Some((state.remove(message), DeadLetterReason::Newest)) });
            }
            Overflow::DropOldest => (DeadLetterReason::Oldest, state.pop_oldest()),
            Overflow::Conflate => (DeadLetterReason::Conflated, state.pop_oldest()),
        };
        // The one slot of the victim goes to the newcomer, so `room` stays as it is.
        let dropped = victim.map(|victim| (state.remove(victim), reason));
        let waker = state.enqueue_anywhere(message, priority);
        Ok(Pushed { waker, dropped })
    }

    /// One more item from a source beside the queue: it is accepted and taken at once.
    pub(crate) fn accept_from_feed(&self) {
        self.state.with(|state| state.accepted = state.accepted.wrapping_add(1));
    }

    /// Puts a message into the waiting list, or into the queue if there is room after all.
    pub(crate) fn push_or_wait(&self, message: M, priority: Priority, waker: &Waker) -> Result<Option<u64>, SendError<M>> {
        let (key, to_wake) = self.state.with(|state| {
            if state.closed {
                return Err(SendError::Closed(message));
            }
            if priority != Priority::NORMAL && !state.has_lanes() {
                return Err(SendError::NoPriorities(message));
            }
            if state.nobody_waits() && state.find_room(&self.taken) {
                state.room -= 1;
                return Ok((None, state.enqueue_anywhere(message, priority)));
            }
            let cold = state.cold();
            cold.next_key += 1;
            let key = cold.next_key;
            cold.waiting.insert(key, Waiting { message, priority, waker: waker.clone() });
            // The receiver need not be woken: while it is parked it takes nothing, so no room appears, and before it parks it lets
            // in whoever waits.
            self.word.fetch_or(control::SENDERS, Ordering::Relaxed);
            Ok((Some(key), None))
        })?;
        to_wake.into_iter().for_each(Waker::wake);
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
        self.state.with(|state| state.cold.as_mut().and_then(|cold| cold.waiting.remove(&key))).map(|waiting| waiting.message)
    }

    /// Moves waiting sends into the queue as far as there is room.
    pub(crate) fn admit(&self) {
        let admitted = self.state.with(|state| self.admit_locked(state));
        admitted.into_iter().for_each(Waker::wake);
    }

    fn admit_locked(&self, state: &mut State<M>) -> Vec<Waker> {
        let mut admitted = Vec::new();
        while state.cold.as_ref().is_some_and(|cold| !cold.waiting.is_empty()) && state.find_room(&self.taken) {
            let Some((_, next)) = state.cold().waiting.pop_first() else { break };
            state.room -= 1;
            state.put(next.message, next.priority);
            admitted.push(next.waker);
        }
        if state.nobody_waits() {
            self.word.fetch_and(!control::SENDERS, Ordering::Relaxed);
        }
        admitted
    }

    /// Fills `batch`, or parks the receiver if it may. `batch` must be empty.
    pub(crate) fn refill(&self, batch: &mut VecDeque<M>, may_park: bool, waker: &Waker) -> Poll<Refill> {
        let mut old = None;
        let mut large = VecDeque::new();
        let (polled, admitted) = self.state.with(|state| {
            let admitted = match self.word() & control::SENDERS {
                0 => Vec::new(),
                _ => self.admit_locked(state),
            };
            let polled = if state.take_some(batch) {
                Poll::Ready(Refill::Messages)
            } else if self.word() & !control::SENDERS != 0 {
                Poll::Ready(Refill::Control)
            } else if state.closed {
                Poll::Ready(Refill::Ended)
            } else if !may_park {
                Poll::Pending
            } else {
                state.parked = Parked::Idle;
                state.keep_one_small_ring(batch, &mut large);
                old = state.remember(waker);
                Poll::Pending
            };
            (polled, admitted)
        });
        drop((old, large));
        if polled.is_pending() && may_park {
            *batch = VecDeque::new();
        }
        admitted.into_iter().for_each(Waker::wake);
        polled
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
        self.word() & control::CANCEL == 0
    }

    /// Parks a suspended receiver until control says something.
    pub(crate) fn poll_control(&self, waker: &Waker) -> Poll<()> {
        let mut old = None;
        let polled = self.state.with(|state| {
            if self.word() & !control::SENDERS != 0 {
                return Poll::Ready(());
            }
            state.parked = Parked::Suspended;
            old = state.remember(waker);
            Poll::Pending
        });
        drop(old);
        polled
    }

    #[inline]
    pub(crate) fn word(&self) -> usize {
        self.word.load(Ordering::Acquire)
    }

    /// Clears control bits. True if any was set.
    pub(crate) fn lower(&self, bits: usize) -> bool {
        self.word.fetch_and(!bits, Ordering::AcqRel) & bits != 0
    }

    /// Sets control bits and gives back the waker of a receiver that must look at them now.
    pub(crate) fn raise(&self, bits: usize) -> Option<Waker> {
        self.word.fetch_or(bits, Ordering::AcqRel);
        self.state.with(|state| match state.parked {
            Parked::InHandler if bits & control::CANCEL == 0 => None,
            _ => state.unpark(),
        })
    }

    /// Sets bits that the receiver itself will come upon, without waking it.
    pub(crate) fn mark(&self, bits: usize) {
        self.word.fetch_or(bits, Ordering::AcqRel);
    }

    /// Takes no more messages. Waiting sends get theirs back. Gives the waker of a parked receiver.
    pub(crate) fn close(&self) -> Option<Waker> {
        let (receiver, senders) = self.state.with(|state| {
            state.closed = true;
            let senders: Vec<Waker> = match &state.cold {
                Some(cold) => cold.waiting.values().map(|waiting| waiting.waker.clone()).collect(),
                None => Vec::new(),
            };
            (if state.parked == Parked::Idle { state.unpark() } else { None }, senders)
        });
        senders.into_iter().for_each(Waker::wake);
        receiver
    }

    /// The next ring of what is left over after the end, oldest first.
    pub(crate) fn take_left_over(&self) -> Option<VecDeque<M>> {
        self.state.with(State::oldest_ring)
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
            let cold = state.cold();
            cold.dead_lettered += open;
            cold.removed = cold.removed.wrapping_add(open as usize);
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

impl<M> State<M> {
    fn cold(&mut self) -> &mut Cold<M> {
        self.cold.get_or_insert_with(|| {
            Box::new(Cold {
                backlog: VecDeque::new(),
                lanes: None,
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

    /// Whether there is room. What the receiver has freed is counted only when the last known room is used up, so that the line
    /// with its counter does not travel between cores for every message.
    fn find_room(&mut self, taken: &AtomicUsize) -> bool {
        if self.room == 0 {
            self.room = self.capacity.saturating_sub(self.queued(taken));
        }
        self.room > 0
    }

    fn nobody_waits(&self) -> bool {
        self.cold.as_ref().is_none_or(|cold| cold.waiting.is_empty())
    }

    fn has_lanes(&self) -> bool {
        self.cold.as_ref().is_some_and(|cold| cold.lanes.is_some())
    }

    /// Into the ring, which has place; the waker of an idle receiver.
    #[inline]
    fn enqueue(&mut self, message: M) -> Option<Waker> {
        self.accepted = self.accepted.wrapping_add(1);
        self.ring.push_back(message);
        if self.parked == Parked::Idle { self.unpark() } else { None }
    }

    fn enqueue_anywhere(&mut self, message: M, priority: Priority) -> Option<Waker> {
        self.put(message, priority);
        if self.parked == Parked::Idle { self.unpark() } else { None }
    }

    fn put(&mut self, message: M, priority: Priority) {
        self.accepted = self.accepted.wrapping_add(1);
        if let Some(lanes) = self.cold.as_mut().and_then(|cold| cold.lanes.as_mut()) {
            lanes[usize::from(priority.get())].push_back(message);
            return;
        }
        if self.ring.len() >= chunk::<M>() {
            let full = core::mem::replace(&mut self.ring, VecDeque::with_capacity(chunk::<M>()));
            self.cold().backlog.push_back(full);
        }
        self.ring.push_back(message);
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
    fn remove(&mut self, message: M) -> M {
        self.count_removed();
        message
    }

    fn count_removed(&mut self) {
        let cold = self.cold();
        cold.removed = cold.removed.wrapping_add(1);
        cold.dead_lettered += 1;
    }

    fn take_some(&mut self, batch: &mut VecDeque<M>) -> bool {
        if self.one_by_one {
            batch.extend(self.pop_next());
        } else if let Some(cold) = self.cold.as_mut()
            && let Some(full) = cold.backlog.pop_front()
        {
            *batch = full;
        } else {
            core::mem::swap(&mut self.ring, batch);
        }
        !batch.is_empty()
    }

    /// The message whose turn it is, highest priority first.
    fn pop_next(&mut self) -> Option<M> {
        match self.cold.as_mut().and_then(|cold| cold.lanes.as_mut()) {
            Some(lanes) => lanes.iter_mut().rev().find_map(VecDeque::pop_front),
            None => match self.cold.as_mut().and_then(|cold| cold.backlog.front_mut()) {
                Some(oldest) => {
                    let message = oldest.pop_front();
                    self.drop_empty_ring();
                    message
                }
                None => self.ring.pop_front(),
            },
        }
    }

    /// The oldest message not yet taken: with priorities, the oldest of the lowest.
    fn pop_oldest(&mut self) -> Option<M> {
        match self.cold.as_mut().and_then(|cold| cold.lanes.as_mut()) {
            Some(lanes) => lanes.iter_mut().find_map(VecDeque::pop_front),
            None => self.pop_next(),
        }
    }

    fn drop_empty_ring(&mut self) {
        if let Some(cold) = self.cold.as_mut()
            && cold.backlog.front().is_some_and(VecDeque::is_empty)
        {
            cold.backlog.pop_front();
        }
    }

    fn oldest_ring(&mut self) -> Option<VecDeque<M>> {
        if let Some(cold) = self.cold.as_mut() {
            if let Some(ring) = cold.backlog.pop_front() {
                return Some(ring);
            }
            if let Some(lanes) = cold.lanes.as_mut()
                && let Some(lane) = lanes.iter_mut().rev().find(|lane| !lane.is_empty())
            {
                return Some(core::mem::take(lane));
            }
        }
        if self.ring.is_empty() { None } else { Some(core::mem::take(&mut self.ring)) }
    }

    /// On going idle one small ring stays, so that a lone message allocates nothing. What is left in `batch` is for the caller to
    /// drop outside the lock, and so is `large`.
    fn keep_one_small_ring(&mut self, batch: &mut VecDeque<M>, large: &mut VecDeque<M>) {
        let is_large = |ring: &VecDeque<M>| ring.capacity() * size_of::<M>() > KEEP_BYTES;
        if is_large(&self.ring) {
            core::mem::swap(&mut self.ring, large);
        }
        if self.ring.capacity() == 0 && !is_large(batch) {
            core::mem::swap(&mut self.ring, batch);
        }
    }
}
