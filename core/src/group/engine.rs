//! `Engine`: what runs the tasks of a group, and what every engine does alike: one poll, the end of a task, its failure.
//!
//! User code (polling a task, dropping it, dropping what it left) runs inside `catch` and under no lock.

use super::books::{Admission, Books, Ended, Entry, Settings};
use super::error::TaskError;
use super::job::Work;
use super::line::Wakes;
use crate::catch::{self, Payload};
use crate::node::{self, Member};
use crate::wakers::Key;
use crate::{ActorId, BoxError, Cause, FailureInfo, Name, Reason};
use alloc::sync::Arc;
use core::task::{Context, Poll};

/// Polls that one task of the runtime gives to tasks of a group before it lets others run.
pub(super) const POLLS_IN_A_ROW_MAX: u32 = 64;

/// What runs the tasks of a group.
pub(super) trait Engine {
    /// What its tasks give.
    type Value;

    /// Its tasks: those of a group that polls them in place may borrow.
    type Work;

    fn member(&self) -> Arc<dyn Member>;

    fn settings(&self) -> Settings;

    /// Runs `f` on the books, under the lock; then wakes whom it says, and leaves the tree if the group has ended.
    fn with_books<R>(&self, f: impl FnOnce(&mut Books<Self::Value>, &mut Wakes) -> R) -> R;

    /// Takes the task if the books let it in, and sees to it that it runs.
    fn admit(&self, entry: Entry<'_>, work: impl FnOnce() -> Self::Work) -> Admission;

    /// Whether tasks are polled by [`drive`](Self::drive) alone.
    const DRIVES: bool = false;

    /// Called by whoever waits for something of this group: polls tasks until one has ended, true then. Else it has left the waker, under
    /// `key`. `left` is how many polls it may yet give before it lets others run.
    fn drive(&self, _cx: &mut Context<'_>, _left: &mut u32, _key: &mut Key) -> bool {
        false
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
pub(super) fn poll_task<'env, T>(
    engine: &impl Engine<Value = T>,
    mut work: Work<'env, T>,
    number: u64,
    cx: &mut Context<'_>,
) -> Result<Ended<T>, Work<'env, T>> {
    let ended = match catch::catch_whole(|| work.as_mut().poll(cx)) {
        Ok(Poll::Pending) => return Err(work),
        Ok(Poll::Ready(result)) => result.map_err(Fault::Error),
        Err((reason, payload)) => Err(Fault::Panic(reason, payload)),
    };
    let name = work.name().cloned();
    let ended = match (ended, catch::catch_whole(|| drop(work))) {
        (Ok(value), Ok(())) => return Ok(Ok(value)),
        (Err(fault), _) => fault,
        // Its value is not to be trusted: something it owned did not come to its end.
        (Ok(value), Err((reason, payload))) => {
            drop(catch::catch(|| drop(value)));
            Fault::Panic(reason, payload)
        }
    };
    Ok(Err(fail(engine, name, number, ended)))
}

/// Drops a task that was cut off.
pub(super) fn cut<'env, T>(engine: &impl Engine<Value = T>, work: Work<'env, T>, number: u64, cause: Cause) -> Ended<T> {
    let name = work.name().cloned();
    Err(match catch::catch_whole(|| drop(work)) {
        Ok(()) => TaskError::Cancelled(cause),
        Err((reason, payload)) => fail(engine, name, number, Fault::Panic(reason, payload)),
    })
}

/// Puts a failure on record. With fail-fast the group is cancelled here, before the result can be seen.
#[cold]
fn fail<T>(engine: &impl Engine<Value = T>, name: Option<Name>, number: u64, fault: Fault) -> TaskError {
    let (settings, member) = (engine.settings(), engine.member());
    let (error, payload) = match fault {
        Fault::Error(error) => (TaskError::Failed(failure(&*member, name, number, Reason::Error(error))), None),
        Fault::Panic(reason, payload) => (TaskError::Panicked(failure(&*member, name, number, reason)), Some(payload)),
    };
    let (kept, unwanted) = if settings.resume_panics { (payload, None) } else { (None, payload) };
    // What a panic carried is a user's value as well.
    drop(catch::catch(|| drop(unwanted)));
    let first = engine.with_books(|books, _| books.note_error(&error, kept));
    if let Some(failure) = first.failure().filter(|_| settings.fail_fast) {
        node::cancel(&member, &Cause::Failed(failure.clone()));
    }
    error
}

fn failure(member: &dyn Member, name: Option<Name>, number: u64, reason: Reason) -> FailureInfo {
    let node = member.node();
    let path = node.path().push_child(name.unwrap_or(Name::made(ActorId(number))));
    let failure = FailureInfo::new(node.id, path, 0, reason, node.runtime().now());
    node.events().failure(&failure);
    failure
}

/// Hands on a result, unless it is a panic that is to go on here.
pub(super) fn resume_if_asked<V>(engine: &impl Engine, result: Result<V, TaskError>) -> Result<V, TaskError> {
    if let Err(error @ TaskError::Panicked(failure)) = &result
        && engine.settings().resume_panics
    {
        let payload = engine.with_books(|books, _| books.take_payload(error));
        // Whoever comes second gets the text alone.
        if let Some(payload) = payload.or_else(|| Payload::of(failure.reason())) {
            catch::resume(payload);
        }
    }
    result
}
