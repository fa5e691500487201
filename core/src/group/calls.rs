//! The calls that wait: `go`, `next`, `next_or`, `wait`, the same for every engine.
//!
//! Each is a future that stands in a line of the books while it waits, and leaves it when it is dropped: a slot it was promised or a
//! result it was served goes to the next in line.

use crate::base::wakers::{Key, Spare};
use crate::events::cause::Cause;
use crate::group::error::{NotTaken, TaskError};
use crate::group::executor::{Engine, discard, resume_if_asked};
use crate::group::state::{Admission, Entry};
use crate::group::task::Task;
use crate::group::wait_queue::Place;
use crate::ids::path::ActorPath;
use crate::tree::token::{CancelToken, Cancelled};
use crate::tree::waits::edges::{Awaited, EndEdge};
use crate::tree::{current, wait_all};
use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use futures_core::Stream;

/// What `next_or` gives.
#[derive(Clone, Debug, PartialEq)]
pub enum NextOr<T> {
    /// The next result.
    Item(Result<T, TaskError>),
    /// The group is drained: closed, with nothing in flight and nothing unread.
    End,
    /// The token was cancelled, and there was neither a result nor the end.
    Cancelled(Cause),
}

/// How an engine takes a task in, and how a task that it does not take is given back.
pub(super) struct Terms<E: Engine, F, R> {
    pub(super) into_work: fn(Box<Task<F>>) -> E::Work,
    pub(super) refuse: fn(ActorPath, NotTaken, F) -> R,
}

/// Puts a task into a free slot, or gives it back.
pub(super) fn try_go<E: Engine, F, R>(engine: &E, task: Box<Task<F>>, terms: &Terms<E, F, R>) -> Result<(), R> {
    let mut task = Some(task);
    let why = match admit(engine, Entry::Now, &mut task, terms.into_work) {
        Admission::In(_) => return Ok(()),
        Admission::Closed(cause) => NotTaken::Closed(cause),
        Admission::Full | Admission::Waiting => NotTaken::Full,
    };
    refuse(engine, task, why, terms.refuse)
}

#[inline]
fn admit<E: Engine, F>(
    engine: &E,
    entry: Entry<'_>,
    task: &mut Option<Box<Task<F>>>,
    into_work: fn(Box<Task<F>>) -> E::Work,
) -> Admission {
    engine.admit(entry, || into_work(task.take().expect("a task is taken once")))
}

/// As [`admit`], for a task that found no slot: it joins the line. Out of line, so that a task which finds one pays nothing for it.
#[cold]
#[inline(never)]
fn join_line<E: Engine, F>(
    engine: &E,
    place: &mut Place,
    waker: &Waker,
    task: &mut Option<Box<Task<F>>>,
    into_work: fn(Box<Task<F>>) -> E::Work,
) -> Admission {
    let mut waker = Spare::of(waker);
    admit(engine, Entry::Waiting(place, Some(&mut waker)), task, into_work)
}

fn refuse<E: Engine, F, R>(
    engine: &E,
    task: Option<Box<Task<F>>>,
    why: NotTaken,
    refuse: fn(ActorPath, NotTaken, F) -> R,
) -> Result<(), R> {
    match task {
        Some(task) => Err(refuse(engine.member().node().path(), why, task.into_future())),
        None => Ok(()),
    }
}

/// Waits for a slot and puts a task in it. Until then it holds the task.
pub(super) struct Go<'a, E: Engine, F, R> {
    engine: &'a E,
    task: Option<Box<Task<F>>>,
    terms: Terms<E, F, R>,
    place: Place,
    key: Key,
    token: Option<Cancelled>,
    edge: GroupEdge,
}

impl<'a, E: Engine, F, R> Go<'a, E, F, R> {
    pub(super) fn new(engine: &'a E, task: Box<Task<F>>, token: Option<&CancelToken>, terms: Terms<E, F, R>) -> Self {
        let token = token.map(CancelToken::cancelled);
        Self { engine, task: Some(task), terms, place: None, key: None, token, edge: None }
    }

    /// Leaves the line, and passes on a slot that it was promised. One that never had to wait has nothing to leave.
    #[inline]
    fn leave(&mut self) {
        if self.place.is_some() || self.key.is_some() || self.edge.is_some() {
            self.leave_line();
        }
    }

    fn leave_line(&mut self) {
        let Self { engine, place, key, edge, .. } = self;
        *edge = None;
        if place.is_some() {
            engine.with_books(|books, wakes| books.stop_entering(place, wakes));
        }
        engine.stop_driving(key);
    }
}

// The task is in a box, and is pinned only once it is taken.
impl<E: Engine, F, R> Unpin for Go<'_, E, F, R> {}

impl<E: Engine, F, R> Future for Go<'_, E, F, R> {
    type Output = Result<(), R>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Self { engine, task, terms, place, key, token, edge } = this;
        if task.is_none() {
            return Poll::Ready(Ok(()));
        }
        let why = loop {
            let admission = match admit(*engine, Entry::Waiting(place, None), task, terms.into_work) {
                Admission::Waiting if !E::DRIVES => join_line(*engine, place, cx.waker(), task, terms.into_work),
                admission => admission,
            };
            match admission {
                Admission::In(_) => {
                    *edge = None;
                    return Poll::Ready(Ok(()));
                }
                Admission::Closed(cause) => break NotTaken::Closed(cause),
                Admission::Waiting | Admission::Full => {}
            }
            if E::DRIVES && engine.attempt(cx, key, |books, waker, _| books.poll_entry(place, waker)).is_ready() {
                continue;
            }
            if waits_for_own_slot(*engine, *place) {
                break NotTaken::OwnTasks;
            }
            // A slot is preferred to the token, as `next_or` prefers an item.
            match poll_token(token, cx) {
                Poll::Ready(cause) => break NotTaken::Cancelled(cause),
                Poll::Pending => {
                    leave_edge(*engine, edge, Awaited::Slot);
                    return Poll::Pending;
                }
            }
        };
        this.leave();
        Poll::Ready(refuse(this.engine, this.task.take(), why, this.terms.refuse))
    }
}

/// The edge of a call that waits inside some member.
type GroupEdge = Option<Box<EndEdge>>;

/// A call waits. Where tasks are polled by whoever waits, they wait as a part of it, and there is no edge.
#[inline]
fn leave_edge<E: Engine>(engine: &E, edge: &mut GroupEdge, awaited: Awaited) {
    if !E::DRIVES && edge.is_none() {
        *edge = EndEdge::begin(engine.member(), awaited);
    }
}

/// Whether a task waits for a slot of its own group that can never be free, because every task of the group does so.
fn waits_for_own_slot(engine: &impl Engine, place: Place) -> bool {
    match current::task_of(engine.address()) {
        Some(task) => engine.with_books(|books, _| books.is_deadlocked(place, task)),
        None => false,
    }
}

impl<E: Engine, F, R> Drop for Go<'_, E, F, R> {
    #[inline]
    fn drop(&mut self) {
        self.leave();
    }
}

fn poll_token(token: &mut Option<Cancelled>, cx: &mut Context<'_>) -> Poll<Cause> {
    token.as_mut().map_or(Poll::Pending, |token| Pin::new(token).poll(cx))
}

/// Somebody who reads, and where it stands in line.
#[derive(Default)]
pub(super) struct Reader {
    place: Place,
    key: Key,
    edge: GroupEdge,
}

impl Reader {
    #[inline]
    pub(super) fn poll<E: Engine>(&mut self, engine: &E, cx: &mut Context<'_>) -> Poll<Option<Result<E::Value, TaskError>>> {
        let Self { place, key, edge } = self;
        if place.is_none()
            && let Some(item) = engine.read_quickly()
        {
            return Poll::Ready(Some(resume_if_asked(engine, item)));
        }
        let polled = engine.attempt(cx, key, |books, waker, wakes| books.read(place, waker, wakes));
        if polled.is_pending() {
            leave_edge(engine, edge, Awaited::Result);
        } else if edge.is_some() {
            *edge = None;
        }
        polled.map(|item| item.map(|item| resume_if_asked(engine, item)))
    }

    /// Leaves the line, and passes on a result that it was served. One that never had to wait has nothing to leave.
    #[inline]
    pub(super) fn leave<E: Engine>(&mut self, engine: &E) {
        if self.place.is_some() || self.key.is_some() || self.edge.is_some() {
            self.leave_line(engine);
        }
    }

    fn leave_line<E: Engine>(&mut self, engine: &E) {
        let Self { place, key, edge } = self;
        *edge = None;
        if place.is_some() {
            discard(engine.with_books(|books, wakes| books.stop_reading(place, wakes)));
        }
        engine.stop_driving(key);
    }
}

/// Waits for the next result, or the end.
pub(super) struct Reading<'a, E: Engine> {
    engine: &'a E,
    reader: Reader,
}

impl<'a, E: Engine> Reading<'a, E> {
    pub(super) fn new(engine: &'a E) -> Self {
        Self { engine, reader: Reader::default() }
    }
}

impl<E: Engine> Future for Reading<'_, E> {
    type Output = Option<Result<E::Value, TaskError>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { engine, reader } = self.get_mut();
        reader.poll(*engine, cx)
    }
}

impl<E: Engine> Stream for Reading<'_, E> {
    type Item = Result<E::Value, TaskError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(cx)
    }
}

impl<E: Engine> Drop for Reading<'_, E> {
    #[inline]
    fn drop(&mut self) {
        self.reader.leave(self.engine);
    }
}

/// Waits for the next result, or the end, or the token, in this order.
pub(super) struct ReadingOr<'a, E: Engine> {
    reading: Reading<'a, E>,
    token: Option<Cancelled>,
}

impl<'a, E: Engine> ReadingOr<'a, E> {
    pub(super) fn new(engine: &'a E, token: &CancelToken) -> Self {
        Self { reading: Reading::new(engine), token: Some(token.cancelled()) }
    }
}

impl<E: Engine> Future for ReadingOr<'_, E> {
    type Output = NextOr<E::Value>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { reading, token } = self.get_mut();
        match Pin::new(reading).poll(cx) {
            Poll::Ready(Some(item)) => Poll::Ready(NextOr::Item(item)),
            Poll::Ready(None) => Poll::Ready(NextOr::End),
            Poll::Pending => poll_token(token, cx).map(NextOr::Cancelled),
        }
    }
}

/// Waits until nothing is in flight.
pub(super) struct Waiting<'a, E: Engine> {
    engine: &'a E,
    waiter: Option<usize>,
    key: Key,
    edge: GroupEdge,
}

impl<'a, E: Engine> Waiting<'a, E> {
    pub(super) fn new(engine: &'a E) -> Self {
        Self { engine, waiter: None, key: None, edge: None }
    }
}

impl<E: Engine> Future for Waiting<'_, E> {
    type Output = Result<(), TaskError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { engine, waiter, key, edge } = self.get_mut();
        let polled = engine.attempt(cx, key, |books, waker, wakes| books.poll_wait(waiter, waker, wakes));
        if polled.is_pending() {
            fail_if_own(*engine);
            leave_edge(*engine, edge, Awaited::Tasks);
        } else {
            *edge = None;
        }
        polled.map(|answer| resume_if_asked(*engine, answer))
    }
}

/// A task that waits for its own group could only hang, which is a bug in the program: as a panic it is a failure of that task, with its
/// place.
fn fail_if_own(engine: &impl Engine) {
    let member = engine.member();
    if current::task_of(engine.address()).is_some() || wait_all::inside(member.node()).is_some() {
        let group = member.node().path();
        panic!("a task of {group} waits for all tasks of it, and so for itself: wait from outside");
    }
}

impl<E: Engine> Drop for Waiting<'_, E> {
    fn drop(&mut self) {
        let Self { engine, waiter, key, edge } = self;
        *edge = None;
        if waiter.is_some() {
            drop(engine.with_books(|books, wakes| books.stop_waiting(waiter, wakes)));
        }
        engine.stop_driving(key);
    }
}
