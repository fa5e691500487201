//! `Engine`: what runs the tasks of a group, and what every engine does alike: one poll, the end of a task, its failure.
//!
//! User code (polling a task, dropping it, dropping what it left) runs inside `catch` and under no lock.

use crate::base::catch;
use crate::base::catch::Payload;
use crate::base::reason::{BoxError, Reason};
use crate::base::wakers::{Key, Spare};
use crate::events::cause::Cause;
use crate::events::failure::FailureInfo;
use crate::group::error::TaskError;
use crate::group::state::{Admission, Books, Ended, Entry, Settings, Unwanted};
use crate::group::task::Work;
use crate::group::wait_queue::Wakes;
use crate::ids::name::Name;
use crate::tree::member::Member;
use crate::tree::node;
use alloc::sync::Arc;
use core::task::{Context, Poll};

/// Polls that one task of the runtime gives to tasks of a group before it lets others run.
pub(super) const POLLS_IN_A_ROW_MAX: u32 = 64;

/// A question to the books, with the waker of whoever asks if it is to join a line.
pub(super) trait Ask<T, R>: FnMut(&mut Books<T>, Option<&mut Spare>, &mut Wakes) -> Poll<R> {}

impl<T, R, F: FnMut(&mut Books<T>, Option<&mut Spare>, &mut Wakes) -> Poll<R>> Ask<T, R> for F {}

/// What runs the tasks of a group.
pub(super) trait Engine {
    /// What its tasks give.
    type Value;

    /// Its tasks: those of a group that polls them in place may borrow.
    type Work;

    fn member(&self) -> Arc<dyn Member>;

    fn settings(&self) -> Settings;

    /// Where it lies, by which its tasks know it again.
    fn address(&self) -> usize;

    /// Runs `f` on the books, under the lock; then wakes whom it says, and leaves the tree if the group has ended.
    fn with_books<R>(&self, f: impl FnOnce(&mut Books<Self::Value>, &mut Wakes) -> R) -> R;

    /// Takes the task if the books let it in, and sees to it that it runs.
    fn admit(&self, entry: Entry<'_>, work: impl FnOnce() -> Self::Work) -> Admission;

    /// Whether tasks are polled by whoever waits for something of the group, in [`attempt`](Self::attempt).
    const DRIVES: bool = false;

    /// Asks `ask` of the books until it has an answer. An engine that drives polls tasks in between, and gives `ask` a waker to join a line
    /// with only when there is nothing left to poll; its own waker is left under `key`.
    #[inline]
    fn attempt<R>(&self, cx: &mut Context<'_>, _key: &mut Key, mut ask: impl Ask<Self::Value, R>) -> Poll<R> {
        let polled = self.with_books(|books, wakes| ask(books, None, wakes));
        if polled.is_ready() {
            return polled;
        }
        self.join_line(cx, ask)
    }

    /// Slow path of [`attempt`](Self::attempt): the caller queues up. Not inlined, to keep the fast path small.
    #[cold]
    #[inline(never)]
    fn join_line<R>(&self, cx: &mut Context<'_>, mut ask: impl Ask<Self::Value, R>) -> Poll<R> {
        let mut waker = Spare::of(cx.waker());
        self.with_books(|books, wakes| ask(books, Some(&mut waker), wakes))
    }

    /// A result that can be had without waiting in line and without entering the books twice. An engine that drives may have one.
    #[inline]
    fn read_quickly(&self) -> Option<Ended<Self::Value>> {
        None
    }

    /// Whoever waited waits no more.
    fn stop_driving(&self, _key: &mut Key) {}
}

/// Why a task gave no value.
enum Fault {
    Error(BoxError),
    Panic(Reason, Payload),
}

/// Polls a task once. If it has ended it is dropped, and its failure is on record; else it comes back.
#[inline]
pub(super) fn poll_task<'env, T>(
    engine: &impl Engine<Value = T>,
    work: Work<'env, T>,
    number: u64,
    cx: &mut Context<'_>,
) -> Result<Ended<T>, Work<'env, T>> {
    let (mut work, mut value) = (Some(work), None);
    // What is ready is dropped inside the same `catch`; whatever else happens, the task is still there afterwards.
    let polled = catch::catch_whole(|| {
        let polled = work.as_mut().map_or(Poll::Pending, |work| work.as_mut().poll(cx));
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(ready)) => {
                value = Some(ready);
                drop(work.take());
                Poll::Ready(Ok(()))
            }
        }
    });
    let fault = match polled {
        Ok(Poll::Ready(Ok(()))) => return Ok(Ok(value.expect("a task that is done has given its value"))),
        Ok(Poll::Pending) => return Err(work.expect("a task that waits is still there")),
        Ok(Poll::Ready(Err(error))) => Fault::Error(error),
        Err((reason, payload)) => Fault::Panic(reason, payload),
    };
    Ok(Err(end_badly(engine, number, fault, value, work)))
}

/// The error of a task that did not end well, after all that is left of it was dropped.
#[cold]
fn end_badly<T>(
    engine: &impl Engine<Value = T>,
    number: u64,
    fault: Fault,
    value: Option<T>,
    work: Option<Work<'_, T>>,
) -> TaskError {
    let name = work.as_ref().and_then(|work| work.name().cloned());
    // With a value there was a panic in the drop of the task: the value is not to be trusted, since something that the task owned did not
    // come to its end.
    drop(catch::catch(|| drop(value)));
    drop(catch::catch(|| drop(work)));
    fail(engine, name, number, fault)
}

/// Drops a task that was cut off.
pub(super) fn cut<'env, T>(engine: &impl Engine<Value = T>, work: Work<'env, T>, number: u64, cause: Cause) -> Ended<T> {
    let name = work.name().cloned();
    Err(match catch::catch_whole(|| drop(work)) {
        Ok(()) => TaskError::Cancelled(cause),
        Err((reason, payload)) => fail(engine, name, number, Fault::Panic(reason, payload)),
    })
}

/// Polls a task whose group is cancelled while its grace lasts; then it is dropped. A value that it gives is dropped: it was to tidy up.
pub(super) fn poll_cancelled<'env, T>(
    engine: &impl Engine<Value = T>,
    mut work: Work<'env, T>,
    number: u64,
    cause: Cause,
    cx: &mut Context<'_>,
) -> Result<Ended<T>, Work<'env, T>> {
    let grace = work.as_mut().grace(engine.settings().cancel_grace);
    if !grace.is_some_and(|grace| grace.lasts(engine.member().node().runtime(), cx)) {
        return Ok(cut(engine, work, number, cause));
    }
    let name = work.name().cloned();
    let value = match poll_task(engine, work, number, cx) {
        Ok(Ok(value)) => value,
        other => return other,
    };
    Ok(Err(match catch::catch_whole(|| drop(value)) {
        Ok(()) => TaskError::TidiedUp(cause),
        Err((reason, payload)) => fail(engine, name, number, Fault::Panic(reason, payload)),
    }))
}

/// Drops a result that found no room in the buffer.
#[inline]
pub(super) fn discard<T>(unwanted: Unwanted<T>) {
    if let Some(ended) = unwanted {
        drop(catch::catch(|| drop(ended)));
    }
}

/// Puts a failure on record. With fail-fast the group is cancelled here, before the result can be seen.
#[cold]
fn fail<T>(engine: &impl Engine<Value = T>, name: Option<Name>, number: u64, fault: Fault) -> TaskError {
    let (settings, member) = (engine.settings(), engine.member());
    let (error, payload) = match fault {
        Fault::Error(error) => (TaskError::Failed(failure(&member, name, number, Reason::Error(error))), None),
        Fault::Panic(reason, payload) => (TaskError::Panicked(failure(&member, name, number, reason)), Some(payload)),
    };
    let (kept, unwanted) = if settings.resume_panics { (payload, None) } else { (None, payload) };
    unwanted.into_iter().for_each(Payload::discard);
    let first = engine.with_books(|books, _| books.note_error(&error, kept));
    if let Some(failure) = first.failure().filter(|_| settings.fail_fast) {
        node::cancel(&member, &Cause::Failed(failure.clone()));
        // Somebody else may have cancelled it first, and not have come to the books yet.
        if member.node().cause().is_some() && engine.with_books(|books, _| books.cause().is_none()) {
            member.on_cancel();
        }
    }
    error
}

fn failure(member: &Arc<dyn Member>, name: Option<Name>, number: u64, reason: Reason) -> FailureInfo {
    let node = member.node();
    let path = node.path().push_child(name.unwrap_or(Name::numbered(number)));
    let failure = FailureInfo::new(node.id(), path, 0, reason, node.runtime().now()).below(Some(member));
    node.events().failure(&failure);
    failure
}

/// Hands on a result, unless it is a panic that is to go on here.
#[inline]
pub(super) fn resume_if_asked<V>(engine: &impl Engine, result: Result<V, TaskError>) -> Result<V, TaskError> {
    if let Err(error) = &result {
        resume_panic(engine, error);
    }
    result
}

#[cold]
fn resume_panic(engine: &impl Engine, error: &TaskError) {
    if let TaskError::Panicked(failure) = error
        && engine.settings().resume_panics
    {
        let payload = engine.with_books(|books, _| books.take_payload(error));
        // Whoever comes second gets the text alone.
        if let Some(payload) = payload.or_else(|| Payload::of(failure.reason())) {
            catch::resume(payload);
        }
    }
}
