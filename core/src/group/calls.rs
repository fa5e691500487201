//! The waiting calls of a group: `go`, `next`, `next_or` and `wait`, for both executors.
//!
//! Each call is a future with a [`Registration`]. While it waits it is queued in the group state.
//! When it is dropped it leaves the queue, and a slot it was promised or a result it was served
//! goes to the next caller. All calls are therefore cancel safe.

use crate::base::wakers::{ClonedWaker, WakerKey};
use crate::events::cause::Cause;
use crate::group::error::{GoRejection, TaskError};
use crate::group::executor::{Executor, discard, resume_if_configured};
use crate::group::state::{Admission, Entry, GroupState};
use crate::group::task::GroupTask;
use crate::group::wait_queue::{Ticket, WakeList};
use crate::ids::path::ActorPath;
use crate::tree::token::{CancelToken, Cancelled};
use crate::tree::waits::edges::{Awaited, EndEdge};
use crate::tree::{current, wait_all};
use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use futures_core::Stream;

/// The outcome of `next_or`: a result, the end of the group, or a cancelled token.
#[derive(Clone, Debug, PartialEq)]
pub enum NextOr<T> {
    /// The next result, in the order in which tasks end.
    Item(Result<T, TaskError>),
    /// The group is drained: closed, with nothing in flight and nothing unread.
    End,
    /// The token was cancelled while neither a result nor the end was available.
    Cancelled(Cause),
}

/// Converts a task for an executor, and a rejected task into the error of the call.
pub(super) struct TaskAdapter<E: Executor, F, R> {
    pub(super) erase: fn(Box<GroupTask<F>>) -> E::Task,
    pub(super) reject: fn(ActorPath, GoRejection, F) -> R,
}

/// Starts a task if a slot is free, otherwise returns it.
pub(super) fn try_go<E: Executor, F, R>(
    executor: &E,
    task: Box<GroupTask<F>>,
    adapter: &TaskAdapter<E, F, R>,
) -> Result<(), R> {
    let mut task = Some(task);
    let reason = match admit(executor, Entry::Now, &mut task, adapter.erase) {
        Admission::Admitted(_) => return Ok(()),
        Admission::Closed(cause) => GoRejection::Closed(cause),
        Admission::Full | Admission::Queued => GoRejection::Full,
    };
    reject(executor, task, reason, adapter.reject)
}

#[inline]
fn admit<E: Executor, F>(
    executor: &E,
    entry: Entry<'_>,
    task: &mut Option<Box<GroupTask<F>>>,
    erase: fn(Box<GroupTask<F>>) -> E::Task,
) -> Admission {
    executor.admit(entry, || erase(task.take().expect("a task is admitted once")))
}

/// Slow path of [`admit`]: queues the caller. Not inlined, to keep the fast path small.
#[cold]
#[inline(never)]
fn join_queue<E: Executor, F>(
    executor: &E,
    ticket: &mut Ticket,
    waker: &Waker,
    task: &mut Option<Box<GroupTask<F>>>,
    erase: fn(Box<GroupTask<F>>) -> E::Task,
) -> Admission {
    let mut waker = ClonedWaker::of(waker);
    admit(executor, Entry::Wait(ticket, Some(&mut waker)), task, erase)
}

fn reject<E: Executor, F, R>(
    executor: &E,
    task: Option<Box<GroupTask<F>>>,
    reason: GoRejection,
    reject: fn(ActorPath, GoRejection, F) -> R,
) -> Result<(), R> {
    match task {
        Some(task) => Err(reject(executor.member().node().path(), reason, task.into_future())),
        None => Ok(()),
    }
}

/// Everything that a waiting `go` or `next` has registered elsewhere.
#[derive(Default)]
struct Registration {
    /// Its position in a queue of the group state.
    ticket: Ticket,
    /// Its waker as a poller, for a group in place.
    key: WakerKey,
    edge: GroupEdge,
}

/// The edge of a waiting call in the wait-for graph.
type GroupEdge = Option<Box<EndEdge>>;

impl Registration {
    /// Removes the registration; `leave_queue` runs if the call is queued. A call that never waited
    /// has nothing to remove.
    #[inline]
    fn remove<E: Executor, R>(
        &mut self,
        executor: &E,
        leave_queue: impl FnOnce(&mut GroupState<E::Value>, &mut Ticket, &mut WakeList) -> R,
    ) -> Option<R> {
        let Self { ticket, key, edge } = self;
        if ticket.is_none() && key.is_none() && edge.is_none() {
            return None;
        }
        *edge = None;
        let left = ticket.is_some().then(|| executor.with_state(|state, wakes| leave_queue(state, ticket, wakes)));
        executor.unregister_poller(key);
        left
    }
}

/// Waits for a slot and starts a task in it. Owns the task until then.
pub(super) struct GoFuture<'a, E: Executor, F, R> {
    executor: &'a E,
    task: Option<Box<GroupTask<F>>>,
    adapter: TaskAdapter<E, F, R>,
    registration: Registration,
    token: Option<Cancelled>,
}

impl<'a, E: Executor, F, R> GoFuture<'a, E, F, R> {
    pub(super) fn new(
        executor: &'a E,
        task: Box<GroupTask<F>>,
        token: Option<&CancelToken>,
        adapter: TaskAdapter<E, F, R>,
    ) -> Self {
        let token = token.map(CancelToken::cancelled);
        Self { executor, task: Some(task), adapter, registration: Registration::default(), token }
    }

    /// Leaves the queue. A promised slot goes to the next caller.
    #[inline]
    fn leave(&mut self) {
        let _ = self.registration.remove(self.executor, GroupState::stop_waiting_for_slot);
    }
}

// The task is boxed, and is pinned only once it is admitted.
impl<E: Executor, F, R> Unpin for GoFuture<'_, E, F, R> {}

impl<E: Executor, F, R> Future for GoFuture<'_, E, F, R> {
    type Output = Result<(), R>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Self { executor, task, adapter, registration: Registration { ticket, key, edge }, token } = this;
        if task.is_none() {
            return Poll::Ready(Ok(()));
        }
        let reason = loop {
            let admission = match admit(*executor, Entry::Wait(ticket, None), task, adapter.erase) {
                Admission::Queued if !E::POLLS_IN_PLACE => join_queue(*executor, ticket, cx.waker(), task, adapter.erase),
                admission => admission,
            };
            match admission {
                Admission::Admitted(_) => {
                    *edge = None;
                    return Poll::Ready(Ok(()));
                }
                Admission::Closed(cause) => break GoRejection::Closed(cause),
                Admission::Queued | Admission::Full => {}
            }
            if E::POLLS_IN_PLACE && executor.poll_call(cx, key, |state, waker, _| state.poll_slot(ticket, waker)).is_ready() {
                continue;
            }
            if is_self_deadlocked(*executor, *ticket) {
                break GoRejection::SlotDeadlock;
            }
            // A free slot takes precedence over a cancelled token, as a result does in `next_or`.
            match poll_token(token, cx) {
                Poll::Ready(cause) => break GoRejection::Cancelled(cause),
                Poll::Pending => {
                    record_wait(*executor, edge, Awaited::Slot);
                    return Poll::Pending;
                }
            }
        };
        this.leave();
        Poll::Ready(reject(this.executor, this.task.take(), reason, this.adapter.reject))
    }
}

/// Records in the wait-for graph that the current member waits.
///
/// Not for a group in place: its tasks are part of the member that waits, so there is no edge.
#[inline]
fn record_wait<E: Executor>(executor: &E, edge: &mut GroupEdge, awaited: Awaited) {
    if !E::POLLS_IN_PLACE && edge.is_none() {
        *edge = EndEdge::begin(executor.member(), awaited);
    }
}

/// Returns whether a task waits for a slot of its own group that cannot become free, because every
/// task of the group does the same.
fn is_self_deadlocked(executor: &impl Executor, ticket: Ticket) -> bool {
    match current::task_of(executor.address()) {
        Some(task) => executor.with_state(|state, _| state.is_deadlocked(ticket, task)),
        None => false,
    }
}

impl<E: Executor, F, R> Drop for GoFuture<'_, E, F, R> {
    #[inline]
    fn drop(&mut self) {
        self.leave();
    }
}

fn poll_token(token: &mut Option<Cancelled>, cx: &mut Context<'_>) -> Poll<Cause> {
    token.as_mut().map_or(Poll::Pending, |token| Pin::new(token).poll(cx))
}

/// One reader of results: the state of `next`, and of a group that is used as a stream.
#[derive(Default)]
pub(super) struct Reader {
    registration: Registration,
}

impl Reader {
    #[inline]
    pub(super) fn poll<E: Executor>(
        &mut self,
        executor: &E,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<E::Value, TaskError>>> {
        let Registration { ticket, key, edge } = &mut self.registration;
        if ticket.is_none()
            && let Some(item) = executor.read_fast()
        {
            return Poll::Ready(Some(resume_if_configured(executor, item)));
        }
        let polled = executor.poll_call(cx, key, |state, waker, wakes| state.read(ticket, waker, wakes));
        if polled.is_pending() {
            record_wait(executor, edge, Awaited::Result);
        } else if edge.is_some() {
            *edge = None;
        }
        polled.map(|item| item.map(|item| resume_if_configured(executor, item)))
    }

    /// Leaves the queue. A served result goes to the next reader, or back to the queue.
    #[inline]
    pub(super) fn leave<E: Executor>(&mut self, executor: &E) {
        if let Some(discarded) = self.registration.remove(executor, GroupState::stop_reading) {
            discard(discarded);
        }
    }
}

/// Waits for the next result or the end. Also the stream of results.
pub(super) struct NextFuture<'a, E: Executor> {
    executor: &'a E,
    reader: Reader,
}

impl<'a, E: Executor> NextFuture<'a, E> {
    pub(super) fn new(executor: &'a E) -> Self {
        Self { executor, reader: Reader::default() }
    }
}

impl<E: Executor> Future for NextFuture<'_, E> {
    type Output = Option<Result<E::Value, TaskError>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { executor, reader } = self.get_mut();
        reader.poll(*executor, cx)
    }
}

impl<E: Executor> Stream for NextFuture<'_, E> {
    type Item = Result<E::Value, TaskError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(cx)
    }
}

impl<E: Executor> Drop for NextFuture<'_, E> {
    #[inline]
    fn drop(&mut self) {
        self.reader.leave(self.executor);
    }
}

/// Waits for the next result, the end or the token, with this precedence.
pub(super) struct NextOrFuture<'a, E: Executor> {
    next: NextFuture<'a, E>,
    token: Option<Cancelled>,
}

impl<'a, E: Executor> NextOrFuture<'a, E> {
    pub(super) fn new(executor: &'a E, token: &CancelToken) -> Self {
        Self { next: NextFuture::new(executor), token: Some(token.cancelled()) }
    }
}

impl<E: Executor> Future for NextOrFuture<'_, E> {
    type Output = NextOr<E::Value>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { next, token } = self.get_mut();
        match Pin::new(next).poll(cx) {
            Poll::Ready(Some(item)) => Poll::Ready(NextOr::Item(item)),
            Poll::Ready(None) => Poll::Ready(NextOr::End),
            Poll::Pending => poll_token(token, cx).map(NextOr::Cancelled),
        }
    }
}

/// Waits until nothing is in flight.
pub(super) struct WaitFuture<'a, E: Executor> {
    executor: &'a E,
    waiter: Option<usize>,
    key: WakerKey,
    edge: GroupEdge,
}

impl<'a, E: Executor> WaitFuture<'a, E> {
    pub(super) fn new(executor: &'a E) -> Self {
        Self { executor, waiter: None, key: None, edge: None }
    }
}

impl<E: Executor> Future for WaitFuture<'_, E> {
    type Output = Result<(), TaskError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { executor, waiter, key, edge } = self.get_mut();
        let polled = executor.poll_call(cx, key, |state, waker, wakes| state.poll_wait(waiter, waker, wakes));
        if polled.is_pending() {
            panic_if_own_task(*executor);
            record_wait(*executor, edge, Awaited::Tasks);
        } else {
            *edge = None;
        }
        polled.map(|answer| resume_if_configured(*executor, answer))
    }
}

/// Panics if the caller is a task of the group, which would wait for itself forever. The panic is a
/// failure of that task, with the place of the call.
fn panic_if_own_task(executor: &impl Executor) {
    let member = executor.member();
    if current::task_of(executor.address()).is_some() || wait_all::current_member_within(member.node()).is_some() {
        let group = member.node().path();
        panic!("deadlock: a task of {group} waits for all tasks of it, including itself; call `wait` outside its tasks");
    }
}

impl<E: Executor> Drop for WaitFuture<'_, E> {
    fn drop(&mut self) {
        let Self { executor, waiter, key, edge } = self;
        *edge = None;
        if waiter.is_some() {
            drop(executor.with_state(|state, wakes| state.stop_waiting(waiter, wakes)));
        }
        executor.unregister_poller(key);
    }
}
