//! Which member is being polled on this thread or core.
//!
//! This is the only ambient state of pleach. It is set for the duration of one poll, moved in and
//! out without touching a reference count, and restored when polls nest. Uses:
//! - A task that waits for its own group gets an error.
//! - An ask that closes a wait cycle gets an error.
//! - Waiting for a scope from inside of it is an error.
//! - A reply that is lost in a failing handler is answered with that failure.
//! - A member that is started without a runtime uses the one of the current member.
//!
//! With `std` it is stored per thread, in this file. Without `std` it is stored per core, in
//! `per_core`.

#[cfg(any(not(feature = "std"), all(test, not(loom))))]
pub(crate) mod per_core;

#[cfg(not(feature = "std"))]
use crate::tree::current::per_core as storage;

use crate::base::runtime::Runtime;
use crate::base::sync::Arc;
use crate::tree::member::Member;
use core::task::Waker;

/// Returns the data pointer of a waker as an identity; it is never dereferenced. Never 0, which
/// means no waker: some wakers have a null data pointer.
fn identity(waker: &Waker) -> usize {
    waker.data().addr().wrapping_add(1)
}

/// Makes `member` the current one until the guard is dropped, which moves it back.
#[inline]
pub(crate) fn enter<'a>(member: &'a mut Option<Arc<dyn Member>>, waker: &Waker) -> CurrentGuard<'a> {
    let previous = storage::enter(member.take(), identity(waker));
    CurrentGuard { owner: member, previous }
}

/// Restores the previous member on drop.
pub(crate) struct CurrentGuard<'a> {
    owner: &'a mut Option<Arc<dyn Member>>,
    previous: storage::Previous,
}

impl Drop for CurrentGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        let member = storage::leave(&mut self.previous);
        // The owner's slot is empty since `enter`, so there is nothing to drop.
        core::mem::forget(core::mem::replace(self.owner, member));
    }
}

/// Returns the current member.
pub(crate) fn member() -> Option<Arc<dyn Member>> {
    storage::member()
}

/// Returns the runtime of the member that is being polled here: an actor, or a task of a scope.
/// `None` outside of a tree.
pub fn runtime() -> Option<Arc<dyn Runtime>> {
    member().map(|member| Arc::clone(&member.node().tree().runtime))
}

/// Sets how to identify the cores and interrupts of this machine, for a build without `std`.
///
/// `current` returns a number for the calling core, thread or interrupt handler: a handler that can
/// interrupt another one needs a number of its own. Call this once, before anything runs. With
/// `std` it does nothing, because threads are known.
///
/// Without it everything still runs and ends correctly. But code may be mistaken for an actor of
/// another core, or for the one that it interrupted: an ask that closes a wait cycle may go
/// undetected, a wait may be rejected as one from inside, and the drop of a `Reply` may be counted
/// for that actor.
pub fn identify_cores(current: fn() -> usize) {
    #[cfg(feature = "std")]
    let _ = current;
    #[cfg(not(feature = "std"))]
    per_core::identify_cores(current);
}

/// Reserves room for the polls that may be nested.
pub(crate) fn reserve() {
    #[cfg(not(feature = "std"))]
    per_core::reserve();
}

/// Returns the current member if `waker` is the one that it is polled with, or the one of its task
/// if it is a group. Returns `None` inside combinators that use their own wakers.
#[inline]
pub(crate) fn polled_with(waker: &Waker) -> Option<Arc<dyn Member>> {
    match storage::waker() {
        // Outside of any member.
        0 => None,
        known if known == identity(waker) => storage::member(),
        _ => polled_as_task(identity(waker)),
    }
}

/// Returns the current group, if `waker` is the one that its task is polled with.
#[inline(never)]
fn polled_as_task(waker: usize) -> Option<Arc<dyn Member>> {
    let (group, task) = storage::task();
    if task == waker { storage::member().filter(|member| Arc::as_ptr(member).addr() == group) } else { None }
}

/// A polled task of a group: the address of the group and the identity of the task's waker. Neither
/// is dereferenced.
pub(crate) type PolledTask = (usize, usize);

/// Makes the task with this waker the current one of the group at address `group`. Returns the
/// previous one, for [`leave_task`].
#[inline]
pub(crate) fn enter_task(group: usize, waker: &Waker) -> PolledTask {
    storage::swap_task((group, identity(waker)))
}

#[inline]
pub(crate) fn leave_task(previous: PolledTask) {
    storage::swap_task(previous);
}

/// Returns the waker identity of the polled task, if it belongs to the group at address `group`.
/// Always `None` without `std`.
pub(crate) fn task_of(group: usize) -> Option<usize> {
    let (of, task) = storage::task();
    (of == group).then_some(task)
}

#[cfg(feature = "std")]
mod storage {
    use super::{Member, PolledTask};
    use crate::base::sync::Arc;
    use core::cell::Cell;
    use core::mem::ManuallyDrop;

    /// Not dropped with its thread, which saves each access a check. A member is stored only during
    /// a poll, and a thread does not end during one.
    type CurrentMember = ManuallyDrop<Option<Arc<dyn Member>>>;

    #[cfg(loom)]
    loom::thread_local! {
        static TASK: Cell<PolledTask> = Cell::new((0, 0));
        static MEMBER: Cell<CurrentMember> = Cell::new(CurrentMember::new(None));
        static WAKER: Cell<usize> = Cell::new(0);
    }
    #[cfg(not(loom))]
    std::thread_local! {
        static TASK: Cell<PolledTask> = const { Cell::new((0, 0)) };
        static MEMBER: Cell<CurrentMember> = const { Cell::new(CurrentMember::new(None)) };
        static WAKER: Cell<usize> = const { Cell::new(0) };
    }

    /// The member and the waker of the surrounding poll.
    pub(super) type Previous = (Option<Arc<dyn Member>>, usize);

    #[inline]
    pub(super) fn enter(member: Option<Arc<dyn Member>>, waker: usize) -> Previous {
        let previous = MEMBER.with(|cell| cell.replace(CurrentMember::new(member)));
        (CurrentMember::into_inner(previous), WAKER.with(|cell| cell.replace(waker)))
    }

    #[inline]
    pub(super) fn leave(previous: &mut Previous) -> Option<Arc<dyn Member>> {
        enter(previous.0.take(), previous.1).0
    }

    #[inline]
    pub(super) fn swap_task(task: PolledTask) -> PolledTask {
        TASK.with(|cell| cell.replace(task))
    }

    pub(super) fn task() -> PolledTask {
        TASK.with(Cell::get)
    }

    pub(super) fn member() -> Option<Arc<dyn Member>> {
        MEMBER.with(|cell| {
            let member = cell.replace(CurrentMember::new(None));
            cell.set(member.clone());
            CurrentMember::into_inner(member)
        })
    }

    #[inline]
    pub(super) fn waker() -> usize {
        WAKER.with(Cell::get)
    }
}
