//! [`set_waker`]: stores the waker of a task behind a lock.

use std::borrow::Borrow;
use std::task::Waker;

/// Stores `waker` in the slot, unless the slot already wakes the same task.
///
/// Cloning or dropping a waker can run foreign code. So the new waker is cloned before `lock` is
/// called, and the replaced waker is dropped after the lock is released.
pub(crate) fn set_waker<G, W: From<Waker> + Borrow<Waker>>(
    lock: impl Fn() -> G,
    slot: impl Fn(&mut G) -> &mut Option<W>,
    waker: &Waker,
) {
    if slot(&mut lock()).as_ref().is_some_and(|known| known.borrow().will_wake(waker)) {
        return;
    }
    let new = Some(W::from(waker.clone()));
    let _replaced = std::mem::replace(slot(&mut lock()), new);
}
