//! Without `std`: one list for all cores of who is being polled.
//!
//! Each poll has an entry of its own, from its beginning to its end, and takes out that entry and no other. So polls may end in any order:
//! two cores that overlap never exchange their members. A question is answered from the youngest entry of the core that asks; polls of one
//! core nest, also those of an interrupt.

use crate::tree::member::Member;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use critical_section::Mutex;

static POLLS: Mutex<RefCell<Polls>> = Mutex::new(RefCell::new(Polls { last: 0, entries: Vec::new() }));
static CORE: Mutex<Cell<fn() -> usize>> = Mutex::new(Cell::new(only_core));

fn only_core() -> usize {
    0
}

struct Polls {
    last: usize,
    entries: Vec<Entry>,
}

/// One poll.
struct Entry {
    key: usize,
    core: usize,
    member: Option<Arc<dyn Member>>,
    waker: usize,
}

/// The key of a poll's own entry.
pub(super) type Outer = usize;

pub(super) fn identify_cores(current: fn() -> usize) {
    critical_section::with(|section| CORE.borrow(section).set(current));
}

/// Runs `f` on all polls, and with the number of this core.
fn with<R>(f: impl FnOnce(&mut Polls, usize) -> R) -> R {
    critical_section::with(|section| {
        let core = CORE.borrow(section).get()();
        f(&mut POLLS.borrow_ref_mut(section), core)
    })
}

pub(super) fn enter(member: Option<Arc<dyn Member>>, waker: usize) -> Outer {
    with(|polls, core| {
        polls.last = polls.last.wrapping_add(1);
        let key = polls.last;
        polls.entries.push(Entry { key, core, member, waker });
        key
    })
}

/// Ends a poll, and gives its member back.
pub(super) fn leave(key: &mut Outer) -> Option<Arc<dyn Member>> {
    // The youngest is nearly always the one.
    with(|polls, _| {
        let at = polls.entries.iter().rposition(|entry| entry.key == *key)?;
        polls.entries.remove(at).member
    })
}

fn youngest<R>(f: impl FnOnce(&Entry) -> R) -> Option<R> {
    with(|polls, core| polls.entries.iter().rev().find(|entry| entry.core == core).map(f))
}

pub(super) fn member() -> Option<Arc<dyn Member>> {
    youngest(|entry| entry.member.clone()).flatten()
}

pub(super) fn waker() -> usize {
    youngest(|entry| entry.waker).unwrap_or(0)
}

/// Which task of a group is polled is not known here.
#[cfg(not(feature = "std"))]
pub(super) fn swap_task(_task: crate::tree::current::TaskOf) -> crate::tree::current::TaskOf {
    (0, 0)
}

#[cfg(not(feature = "std"))]
pub(super) fn task() -> crate::tree::current::TaskOf {
    (0, 0)
}

#[cfg(all(test, feature = "std", not(loom)))]
mod tests {
    use super::*;
    use crate::scope::member::ScopeMember;
    use crate::tree::Tree;
    use std::sync::{Barrier, Mutex as StdMutex, PoisonError};

    std::thread_local! {
        static THREAD: Cell<usize> = const { Cell::new(0) };
    }

    fn some_member() -> Arc<dyn Member> {
        ScopeMember::top(&Tree::new(crate::Dispatcher::seeded(1).runtime()))
    }

    fn is(member: &Option<Arc<dyn Member>>, other: &Arc<dyn Member>) -> bool {
        member.as_ref().is_some_and(|member| Arc::ptr_eq(member, other))
    }

    /// The list is one for the process: one test at a time.
    fn alone(test: impl FnOnce()) {
        static ALONE: StdMutex<()> = StdMutex::new(());
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        test();
        assert!(critical_section::with(|section| POLLS.borrow_ref(section).entries.is_empty()));
        identify_cores(only_core);
    }

    #[test]
    fn w12_polls_of_two_cores_end_in_any_order() {
        alone(|| {
            let (a, b) = (some_member(), some_member());
            let mut first = enter(Some(Arc::clone(&a)), 1);
            let mut second = enter(Some(Arc::clone(&b)), 2);
            assert!(is(&leave(&mut first), &a), "A enters, B enters, A leaves");
            assert!(is(&member(), &b));
            assert!(is(&leave(&mut second), &b));
            assert!(member().is_none());
        });
    }

    #[test]
    fn w12_nested_polls_put_the_outer_one_back() {
        alone(|| {
            let (a, b) = (some_member(), some_member());
            let mut outer = enter(Some(Arc::clone(&a)), 1);
            let mut inner = enter(Some(Arc::clone(&b)), 2);
            let mut nobody = enter(None, 3);
            assert!(member().is_none() && waker() == 3, "a poll of nobody hides those around it");
            assert!(leave(&mut nobody).is_none());
            assert!(is(&member(), &b) && waker() == 2);
            assert!(is(&leave(&mut inner), &b) && is(&member(), &a) && waker() == 1);
            assert!(is(&leave(&mut outer), &a));
        });
    }

    #[test]
    fn w12_two_threads_see_their_own_member_and_get_it_back() {
        alone(|| {
            identify_cores(|| THREAD.get());
            let together = Barrier::new(2);
            std::thread::scope(|threads| {
                for thread in [1, 2] {
                    let together = &together;
                    threads.spawn(move || {
                        THREAD.set(thread);
                        let own = some_member();
                        for round in 0..1_000 {
                            let mut key = enter(Some(Arc::clone(&own)), thread);
                            // Both are inside; in turn, one leaves first.
                            together.wait();
                            assert!(is(&member(), &own) && waker() == thread);
                            if round % 2 == thread % 2 {
                                assert!(is(&leave(&mut key), &own));
                                together.wait();
                            } else {
                                together.wait();
                                assert!(is(&member(), &own) && waker() == thread, "the other one has left");
                                assert!(is(&leave(&mut key), &own));
                            }
                            together.wait();
                            assert!(member().is_none());
                        }
                    });
                }
            });
        });
    }
}
