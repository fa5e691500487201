//! Which member of the tree is being polled right here, right now.
//!
//! Five things need it: a task that waits for its own group is told so, an ask that closes a cycle is an error, waiting for a scope from inside it is an error, a reply lost in
//! a failing handler is answered with that failure, and what is started there with no runtime given runs on its member's. It is set
//! for the length of one poll, moved in and out without counting references, and restored when polls nest. Nothing else in pleach is
//! ambient.
//!
//! With `std` it is kept for each thread, here. Without, for each core, in `shared`.

#[cfg(any(not(feature = "std"), all(test, not(loom))))]
pub(crate) mod shared;

#[cfg(not(feature = "std"))]
use crate::tree::current::shared as place;

use crate::base::runtime::Runtime;
use crate::tree::member::Member;
use alloc::sync::Arc;
use core::task::Waker;

/// A waker's data pointer, used as an identity and never followed. Never 0, which stands for no waker at all: some wakers have no data.
fn identity(waker: &Waker) -> usize {
    waker.data().addr().wrapping_add(1)
}

/// Makes `member` the one being polled until the guard is dropped, which puts it back.
#[inline]
pub(crate) fn enter<'a>(member: &'a mut Option<Arc<dyn Member>>, waker: &Waker) -> Inside<'a> {
    let outer = place::enter(member.take(), identity(waker));
    Inside { home: member, outer }
}

pub(crate) struct Inside<'a> {
    home: &'a mut Option<Arc<dyn Member>>,
    outer: place::Outer,
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        let member = place::leave(&mut self.outer);
        // Home is empty since `enter`, so there is nothing to drop.
        core::mem::forget(core::mem::replace(self.home, member));
    }
}

/// The member being polled.
pub(crate) fn member() -> Option<Arc<dyn Member>> {
    place::member()
}

/// The runtime of the member that is being polled here and now: an actor, or a task of a scope. `None` outside of any tree.
pub fn runtime() -> Option<Arc<dyn Runtime>> {
    member().map(|member| Arc::clone(&member.node().tree().runtime))
}

/// Says how to tell the cores of this machine apart, for a build without `std` on more than one core or with preemptive threads: `current`
/// gives a number of the core or thread that calls it. Call this once, before anything runs. With `std` threads are known, and it does
/// nothing.
///
/// Without it, everything still runs and ends as it should, but a core may take an actor that is polled on another core for its own: an
/// ask that closes a cycle may go unnoticed, and a wait may be refused as one from inside.
pub fn identify_cores(current: fn() -> usize) {
    #[cfg(feature = "std")]
    let _ = current;
    #[cfg(not(feature = "std"))]
    shared::identify_cores(current);
}

/// The member being polled, if `waker` is the very one it was polled with, or that of its task if it is a group on the runtime: `None` inside
/// combinators that bring their own.
#[inline]
pub(crate) fn polled_with(waker: &Waker) -> Option<Arc<dyn Member>> {
    match place::waker() {
        // Outside of every member.
        0 => None,
        known if known == identity(waker) => place::member(),
        _ => polled_as_task(identity(waker)),
    }
}

/// The group being polled, if `waker` is the one that its task is polled with.
#[inline(never)]
fn polled_as_task(waker: usize) -> Option<Arc<dyn Member>> {
    let (group, task) = place::task();
    if task == waker { place::member().filter(|member| Arc::as_ptr(member).addr() == group) } else { None }
}

/// A task of a group: where the group lies, and the identity of the waker that the task is polled with. Neither is ever followed.
pub(crate) type TaskOf = (usize, usize);

/// Makes the task with this waker the one that is being polled, for the group that lies at `group`. Gives the one before, for [`leave_task`].
#[inline]
pub(crate) fn enter_task(group: usize, waker: &Waker) -> TaskOf {
    place::swap_task((group, identity(waker)))
}

#[inline]
pub(crate) fn leave_task(outer: TaskOf) {
    place::swap_task(outer);
}

/// Which task is being polled, if it is one of the group that lies at `group`. Never, where there are no threads to tell tasks apart by.
pub(crate) fn task_of(group: usize) -> Option<usize> {
    let (of, task) = place::task();
    (of == group).then_some(task)
}

#[cfg(feature = "std")]
mod place {
    use super::{Member, TaskOf};
    use alloc::sync::Arc;
    use core::cell::Cell;
    use core::mem::ManuallyDrop;

    /// Not dropped with its thread, which spares every poll the question whether that has happened: a member is here only within a
    /// poll, and a thread does not end within one.
    type Kept = ManuallyDrop<Option<Arc<dyn Member>>>;

    #[cfg(loom)]
    loom::thread_local! {
        static TASK: Cell<TaskOf> = Cell::new((0, 0));
        static MEMBER: Cell<Kept> = Cell::new(Kept::new(None));
        static WAKER: Cell<usize> = Cell::new(0);
    }
    #[cfg(not(loom))]
    std::thread_local! {
        static TASK: Cell<TaskOf> = const { Cell::new((0, 0)) };
        static MEMBER: Cell<Kept> = const { Cell::new(Kept::new(None)) };
        static WAKER: Cell<usize> = const { Cell::new(0) };
    }

    /// Who was being polled before.
    pub(super) type Outer = (Option<Arc<dyn Member>>, usize);

    #[inline]
    pub(super) fn enter(member: Option<Arc<dyn Member>>, waker: usize) -> Outer {
        let outer = MEMBER.with(|place| place.replace(Kept::new(member)));
        (Kept::into_inner(outer), WAKER.with(|place| place.replace(waker)))
    }

    #[inline]
    pub(super) fn leave(outer: &mut Outer) -> Option<Arc<dyn Member>> {
        enter(outer.0.take(), outer.1).0
    }

    #[inline]
    pub(super) fn swap_task(task: TaskOf) -> TaskOf {
        TASK.with(|place| place.replace(task))
    }

    pub(super) fn task() -> TaskOf {
        TASK.with(Cell::get)
    }

    pub(super) fn member() -> Option<Arc<dyn Member>> {
        MEMBER.with(|place| {
            let member = place.replace(Kept::new(None));
            place.set(member.clone());
            Kept::into_inner(member)
        })
    }

    #[inline]
    pub(super) fn waker() -> usize {
        WAKER.with(Cell::get)
    }
}
