//! `Books`: the coordination state of one group, and the only place that changes it. No task runs here and nobody is woken here.
//!
//! ```text
//!            admit                     complete                    read
//!   (caller) ─────► in flight, counted ────────► unread result ────────► (reader)
//!                                                  │   ▲ a reader that leaves gives back what it was served
//!                                                  └───┘
//! ```
//!
//! Invariants, asserted in debug builds:
//! 1. `in_flight` is raised once for a task, in `admit`, before it runs, and lowered once, in `complete`; it is never negative.
//! 2. `accepted == completed + in_flight`.
//! 3. Results are read in the order of completion: while somebody waits for one, none is queued.
//! 4. The first error never changes, nor does the cause, nor that the group is closed. Tasks that were cut off are no errors.
//! 5. The group is drained exactly when it is closed, nothing is in flight, and nothing is unread or served and not yet fetched.

use crate::base::catch::Payload;
use crate::base::wakers::Spare;
use crate::events::cause::{Cause, Exit};
use crate::group::error::{Errors, TaskError};
use crate::group::overflow::{Overflow, OwnWaits};
use crate::group::wait_queue::{Line, Place, Wakes};
use crate::tree::waits::edges::Awaited;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::task::{Poll, Waker};
use core::time::Duration;
use slab::Slab;

/// Queues that grew beyond this are given back when the group has nothing in flight.
const KEPT_CAPACITY: usize = 1_024;

/// What a group is told when it is made.
#[derive(Clone, Copy)]
pub(super) struct Settings {
    pub(super) limit: usize,
    pub(super) buffer: usize,
    pub(super) overflow: Overflow,
    pub(super) errors_kept: usize,
    pub(super) fail_fast: bool,
    pub(super) resume_panics: bool,
    /// How long its tasks may run on after a cancel.
    pub(super) cancel_grace: Option<Duration>,
}

/// A task's result.
pub(super) type Ended<T> = Result<T, TaskError>;

/// A result that is dropped for want of room. Boxed, because it is rare and every result would make way for it.
pub(super) type Unwanted<T> = Option<Box<Ended<T>>>;

/// A result, as the n-th of the group. What is given back finds its place by it.
type Numbered<T> = (u64, Ended<T>);

pub(super) struct Books<T> {
    pub(super) settings: Settings,
    closed: bool,
    cause: Option<Cause>,
    in_flight: usize,
    accepted: u64,
    completed: u64,
    left: bool,
    unread: VecDeque<Numbered<T>>,
    readers: Line<Numbered<T>>,
    entrants: Line<()>,
    waiters: Slab<Waiter>,
    /// How many of the waiters have no answer yet.
    unanswered: usize,
    errors: Errors,
    first_error: Option<TaskError>,
    payloads: Vec<(TaskError, Payload)>,
    /// How many results were dropped unread.
    dropped: u64,
    waits_for_own: OwnWaits,
}

/// Somebody in `wait`, and the answer once there is one.
struct Waiter {
    /// `None` once it was used.
    waker: Option<Waker>,
    answer: Option<Result<(), TaskError>>,
}

/// How a task asks to be taken.
pub(super) enum Entry<'a> {
    /// Now or not at all.
    Now,
    /// In line; with a waker it joins.
    Waiting(&'a mut Place, Option<&'a mut Spare>),
}

/// What becomes of it.
pub(super) enum Admission {
    /// It is in flight, as the n-th task of the group.
    In(u64),
    Full,
    /// It stands in line.
    Waiting,
    Closed(Option<Cause>),
}

impl<T> Books<T> {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            closed: false,
            cause: None,
            in_flight: 0,
            accepted: 0,
            completed: 0,
            left: false,
            unread: VecDeque::new(),
            readers: Line::new(),
            entrants: Line::new(),
            waiters: Slab::new(),
            unanswered: 0,
            errors: Errors::default(),
            first_error: None,
            payloads: Vec::new(),
            dropped: 0,
            waits_for_own: OwnWaits::default(),
        }
    }

    pub(super) fn cause(&self) -> Option<&Cause> {
        self.cause.as_ref()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) fn unread(&self) -> usize {
        self.unread.len() + self.readers.served()
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether it takes nothing more and all that it took has ended.
    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        self.closed && self.in_flight == 0
    }

    /// Whether it is time to leave the tree.
    #[inline]
    pub(super) fn is_leaving(&self) -> bool {
        self.closed && self.in_flight == 0 && !self.left
    }

    /// The exit, for whoever sees to it that the group leaves the tree.
    pub(super) fn leave(&mut self) -> Exit {
        debug_assert!(self.is_leaving());
        self.left = true;
        self.cause.clone().map_or(Exit::Closed, Exit::Cancelled)
    }

    fn is_drained(&self) -> bool {
        self.has_ended() && self.unread() == 0
    }

    /// Whether there is a slot that is promised to nobody. Somebody in `wait` reads nothing, so the bound on unread results is off then.
    fn has_room(&self) -> bool {
        let taken = self.in_flight + self.entrants.served();
        taken < self.settings.limit
            && (self.settings.overflow != Overflow::Wait
                || self.settings.buffer == usize::MAX
                || taken + self.unread() < self.settings.buffer
                || self.unanswered > 0)
    }

    /// Fast path: admits a task that is not queued, if a slot is free and the queue is empty.
    #[inline]
    pub(super) fn admit_at_once(&mut self, entry: &Entry<'_>) -> Option<u64> {
        let stands_in_line = matches!(entry, Entry::Waiting(Some(_), _));
        if stands_in_line || self.closed || !self.entrants.is_empty() || !self.has_room() {
            return None;
        }
        Some(self.enter())
    }

    /// Takes a task, or says why not.
    #[inline]
    pub(super) fn admit(&mut self, entry: Entry<'_>, wakes: &mut Wakes) -> Admission {
        match self.admit_at_once(&entry) {
            Some(number) => Admission::In(number),
            None => self.admit_in_line(entry, wakes),
        }
    }

    /// Slow path: the group is closed or full, or the task is queued.
    fn admit_in_line(&mut self, entry: Entry<'_>, wakes: &mut Wakes) -> Admission {
        if self.closed {
            if let Entry::Waiting(place, _) = entry {
                self.entrants.leave(place, wakes);
            }
            return Admission::Closed(self.cause.clone());
        }
        match entry {
            Entry::Waiting(place @ Some(_), waker) => {
                if self.entrants.take(place).is_some() {
                    return Admission::In(self.enter());
                }
                self.entrants.join(place, waker);
                Admission::Waiting
            }
            Entry::Waiting(place, waker) => {
                self.entrants.join(place, waker);
                Admission::Waiting
            }
            Entry::Now => Admission::Full,
        }
    }

    #[inline]
    fn enter(&mut self) -> u64 {
        self.in_flight += 1;
        self.accepted += 1;
        debug_assert!(self.in_flight <= self.settings.limit);
        self.accepted
    }

    /// Whether a task that stands at `place`, or in no line yet, would be let in or refused now; with a waker it joins the line.
    pub(super) fn poll_entry(&mut self, place: &mut Place, waker: Option<&mut Spare>) -> Poll<()> {
        let is_promised = self.entrants.is_served(*place);
        if self.closed || is_promised || (place.is_none() && self.entrants.is_empty() && self.has_room()) {
            return Poll::Ready(());
        }
        self.entrants.join(place, waker);
        Poll::Pending
    }

    /// Somebody no longer waits for a slot.
    pub(super) fn stop_entering(&mut self, place: &mut Place, wakes: &mut Wakes) {
        self.entrants.leave(place, wakes);
        self.let_in(wakes);
    }

    /// Promises free slots to those who wait for one.
    #[inline]
    fn let_in(&mut self, wakes: &mut Wakes) {
        if !self.entrants.is_empty() {
            self.promise_slots(wakes);
        }
    }

    fn promise_slots(&mut self, wakes: &mut Wakes) {
        while !self.entrants.is_empty() && self.has_room() {
            if let Ok(waker) = self.entrants.serve(()) {
                wakes.push(waker);
            }
        }
    }

    /// Notes an error before its result can be seen, and gives the first error there was. A panic's payload is kept if it is to be
    /// resumed.
    pub(super) fn note_error(&mut self, error: &TaskError, payload: Option<Payload>) -> TaskError {
        if self.errors.errors.len() < self.settings.errors_kept {
            self.errors.errors.push(error.clone());
        } else {
            self.errors.dropped += 1;
        }
        if let Some(payload) = payload {
            self.payloads.push((error.clone(), payload));
        }
        self.first_error.get_or_insert_with(|| error.clone()).clone()
    }

    /// A task of this group waits at `place` for a slot of it. True if all slots are held by tasks that do so: none of them will ever be free.
    pub(super) fn is_deadlocked(&mut self, place: Place, task: usize) -> bool {
        let Some(place) = place else { return false };
        let Self { waits_for_own, entrants, in_flight, .. } = self;
        let all_wait = waits_for_own.note(place, task, *in_flight, |place| entrants.is_waiting(place));
        // While results fill the buffer a reader makes room; a slot that is promised makes its task go on.
        all_wait && !self.closed && self.in_flight >= self.settings.limit && self.entrants.served() == 0
    }

    /// Puts a result where it can be read. With a buffer that is full, one is dropped if the group is to do so: it is given to the caller, to
    /// drop it outside of the lock.
    #[inline]
    fn keep_unread(&mut self, numbered: Numbered<T>) -> Unwanted<T> {
        self.unread.push_back(numbered);
        if self.settings.overflow == Overflow::Wait { None } else { self.drop_unread() }
    }

    fn drop_unread(&mut self) -> Unwanted<T> {
        let (_, unwanted) = self.settings.overflow.trim(&mut self.unread, self.settings.buffer)?;
        self.dropped += 1;
        Some(Box::new(unwanted))
    }

    /// Enters the result of a task: for the first reader in line, else for whoever reads next. A result that is dropped for want of room is
    /// given to the caller.
    #[inline]
    #[must_use = "a result is a user's value, and is dropped outside of the lock"]
    pub(super) fn complete(&mut self, ended: Ended<T>, wakes: &mut Wakes) -> Unwanted<T> {
        debug_assert!(self.in_flight > 0, "a task completes once, after it was taken");
        self.in_flight -= 1;
        self.completed += 1;
        debug_assert_eq!(self.accepted, self.completed + self.in_flight as u64);
        let unwanted = if self.readers.is_empty() {
            self.keep_unread((self.completed, ended))
        } else {
            self.serve_reader((self.completed, ended), wakes)
        };
        // A wait that is over lifts no bound.
        if self.in_flight == 0 {
            self.answer_waiters(wakes);
        }
        self.let_in(wakes);
        unwanted
    }

    /// Gives a result to the first waiting reader. Without one, the result is queued.
    fn serve_reader(&mut self, numbered: Numbered<T>, wakes: &mut Wakes) -> Unwanted<T> {
        match self.readers.serve(numbered) {
            Ok(waker) => {
                wakes.push(waker);
                None
            }
            Err(numbered) => self.keep_unread(numbered),
        }
    }

    /// Whether there are no waiting readers, entrants or waiters.
    #[inline]
    pub(super) fn is_awaited_by_nobody(&self) -> bool {
        self.readers.is_empty() && self.entrants.is_empty() && self.waiters.is_empty()
    }

    /// Whether nobody waits for anything and nothing is unread.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        self.unread.is_empty() && self.is_awaited_by_nobody()
    }

    /// Completes a task whose result goes straight to the one who reads, if nobody else is concerned and it is not the last in flight.
    #[inline]
    pub(super) fn complete_quietly(&mut self) -> bool {
        let can = self.in_flight > 1 && self.is_quiet();
        if can {
            self.in_flight -= 1;
            self.completed += 1;
        }
        can
    }

    /// A queued result; else the end; else, with a waker, a place in line.
    #[inline]
    pub(super) fn read(&mut self, place: &mut Place, waker: Option<&mut Spare>, wakes: &mut Wakes) -> Poll<Option<Ended<T>>> {
        let item = match place {
            Some(_) => self.readers.take(place),
            None => self.unread.pop_front(),
        };
        debug_assert!(self.readers.is_empty() || self.unread.is_empty());
        if let Some((_, ended)) = item {
            self.let_in(wakes);
            if self.is_drained() {
                self.readers.dismiss(wakes);
            }
            if self.unread.is_empty() && self.unread.capacity() > KEPT_CAPACITY {
                self.unread = VecDeque::new();
            }
            return Poll::Ready(Some(ended));
        }
        if self.is_drained() {
            *place = None;
            return Poll::Ready(None);
        }
        self.readers.join(place, waker);
        Poll::Pending
    }

    /// A reader leaves: what it was served is for the next, else it goes back to where it was in the queue.
    pub(super) fn stop_reading(&mut self, place: &mut Place, wakes: &mut Wakes) -> Unwanted<T> {
        let item = self.readers.leave(place, wakes)?;
        match self.readers.serve(item) {
            Ok(next) => {
                wakes.push(next);
                None
            }
            Err(item) => {
                self.unread.insert(self.unread.partition_point(|(number, _)| *number < item.0), item);
                self.drop_unread()
            }
        }
    }

    /// The answer for `wait` once nothing is in flight.
    pub(super) fn poll_wait(
        &mut self,
        key: &mut Option<usize>,
        waker: Option<&mut Spare>,
        wakes: &mut Wakes,
    ) -> Poll<Result<(), TaskError>> {
        if let Some(at) = *key {
            if self.waiters[at].answer.is_some()
                && let Some(answer) = self.stop_waiting(key, wakes)
            {
                return Poll::Ready(answer);
            }
            if let Some(waker) = waker {
                waker.put(&mut self.waiters[at].waker);
            }
            return Poll::Pending;
        }
        if self.in_flight == 0 {
            return Poll::Ready(self.answer());
        }
        if let Some(waker) = waker {
            let mut waiter = Waiter { waker: None, answer: None };
            waker.put(&mut waiter.waker);
            *key = Some(self.waiters.insert(waiter));
            self.unanswered += 1;
            self.let_in(wakes);
        }
        Poll::Pending
    }

    /// Whether somebody who awaits this has to wait.
    pub(super) fn holds_up(&self, awaited: Awaited) -> bool {
        match awaited {
            Awaited::Result => self.unread() == 0 && !self.is_drained(),
            Awaited::Slot => !self.closed && self.entrants.served() == 0,
            Awaited::Tasks | Awaited::Children | Awaited::Exit => self.in_flight > 0,
        }
    }

    /// Somebody waits no more; the answer if there is one.
    pub(super) fn stop_waiting(&mut self, key: &mut Option<usize>, wakes: &mut Wakes) -> Option<Result<(), TaskError>> {
        let Waiter { waker, answer } = self.waiters.remove(key.take()?);
        waker.into_iter().for_each(|waker| wakes.discard(waker));
        self.unanswered -= usize::from(answer.is_none());
        answer
    }

    fn answer(&self) -> Result<(), TaskError> {
        let cancelled = || self.cause.clone().map(TaskError::Cancelled);
        self.first_error.clone().or_else(cancelled).map_or(Ok(()), Err)
    }

    /// All who wait now get one answer, whatever happens before they come for it.
    fn answer_waiters(&mut self, wakes: &mut Wakes) {
        if self.unanswered == 0 {
            return;
        }
        self.unanswered = 0;
        let answer = self.answer();
        for (_, waiter) in self.waiters.iter_mut().filter(|(_, waiter)| waiter.answer.is_none()) {
            waiter.answer = Some(answer.clone());
            wakes.push(waiter.waker.take());
        }
    }

    /// Wakes all who wait for anything, because there is something new to poll and they are the ones to do it.
    #[inline]
    pub(super) fn wake_everybody(&mut self, wakes: &mut Wakes) {
        if !self.is_awaited_by_nobody() {
            self.wake_all_lines(wakes);
        }
    }

    fn wake_all_lines(&mut self, wakes: &mut Wakes) {
        self.readers.wake_waiting(wakes);
        self.entrants.wake_waiting(wakes);
        self.waiters.iter_mut().for_each(|(_, waiter)| wakes.push(waiter.waker.take()));
    }

    /// Takes nothing more.
    pub(super) fn close(&mut self, wakes: &mut Wakes) {
        self.closed = true;
        self.entrants.dismiss(wakes);
        if self.is_drained() {
            self.readers.dismiss(wakes);
        }
    }

    /// Closes for a cause; the first one stays.
    pub(super) fn cancel(&mut self, cause: &Cause, wakes: &mut Wakes) {
        self.cause.get_or_insert_with(|| cause.clone());
        self.close(wakes);
    }

    pub(super) fn errors(&self) -> Errors {
        self.errors.clone()
    }

    /// The payload of a panic that is to be resumed, for the first who asks.
    pub(super) fn take_payload(&mut self, error: &TaskError) -> Option<Payload> {
        let at = self.payloads.iter().position(|(known, _)| known == error)?;
        Some(self.payloads.swap_remove(at).1)
    }

    /// Everything of the user's that is left, for the caller to drop.
    pub(super) fn take_leftovers(&mut self) -> (VecDeque<Numbered<T>>, Vec<(TaskError, Payload)>) {
        (core::mem::take(&mut self.unread), core::mem::take(&mut self.payloads))
    }
}
