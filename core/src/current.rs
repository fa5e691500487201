//! Which member of the tree is being polled right here, right now.
//!
//! Three promises need it: an ask that closes a cycle is an error, waiting for a scope from inside it is an error, and a reply lost in
//! a failing handler is answered with that failure. It is set for the length of one poll, moved in and out without counting
//! references, and restored when polls nest. Nothing else in pleach is ambient.

use crate::node::Member;
use alloc::sync::Arc;
use core::task::Waker;

/// The member being polled, and which waker it was polled with.
pub(crate) struct Current {
    pub(crate) member: Arc<dyn Member>,
    waker: usize,
}

impl Current {
    pub(crate) fn new(member: Arc<dyn Member>) -> Self {
        Self { member, waker: 0 }
    }

    /// Whether `waker` is the one the member itself was polled with: false inside combinators that bring their own.
    pub(crate) fn polled_with(&self, waker: &Waker) -> bool {
        self.waker == identity(waker)
    }
}

/// A waker's data pointer, used as an identity and never followed.
fn identity(waker: &Waker) -> usize {
    waker.data().addr()
}

/// Makes `current` the one being polled until the guard is dropped, which puts it back.
pub(crate) fn enter<'a>(current: &'a mut Option<Current>, waker: &Waker) -> Inside<'a> {
    if let Some(current) = current.as_mut() {
        current.waker = identity(waker);
    }
    let outer = place::swap(current.take());
    Inside { home: current, outer }
}

pub(crate) struct Inside<'a> {
    home: &'a mut Option<Current>,
    outer: Option<Current>,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        *self.home = place::swap(self.outer.take());
    }
}

/// Asks something of the current member, if there is one. `f` runs no user code and must not poll.
pub(crate) fn with<R>(f: impl FnOnce(&Current) -> R) -> Option<R> {
    place::with(|current| current.as_ref().map(f))
}

#[cfg(feature = "std")]
mod place {
    use super::Current;
    use core::cell::RefCell;

    #[cfg(loom)]
    loom::thread_local! {
        static CURRENT: RefCell<Option<Current>> = RefCell::new(None);
    }
    #[cfg(not(loom))]
    std::thread_local! {
        static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
    }

    #[inline]
    pub(super) fn swap(current: Option<Current>) -> Option<Current> {
        CURRENT.with(|place| place.replace(current))
    }

    pub(super) fn with<R>(f: impl FnOnce(&Option<Current>) -> R) -> R {
        CURRENT.with(|place| f(&place.borrow()))
    }
}

#[cfg(not(feature = "std"))]
mod place {
    use super::Current;
    use core::cell::RefCell;
    use critical_section::Mutex;

    // One place for all cores. A poll that another core sees here by chance was polled with another waker and lies on another
    // branch of the tree, so it answers no question wrongly.
    static CURRENT: Mutex<RefCell<Option<Current>>> = Mutex::new(RefCell::new(None));

    pub(super) fn swap(current: Option<Current>) -> Option<Current> {
        critical_section::with(|section| CURRENT.replace(section, current))
    }

    pub(super) fn with<R>(f: impl FnOnce(&Option<Current>) -> R) -> R {
        critical_section::with(|section| f(&CURRENT.borrow_ref(section)))
    }
}
