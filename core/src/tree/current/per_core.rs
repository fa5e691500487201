//! Without `std`: one list of the running polls of all cores.
//!
//! Each poll has an entry from its start to its end, and removes that entry only. So polls may end
//! in any order, and two overlapping cores never exchange their members. A query uses the youngest
//! entry of its core; the polls of one core nest, including those of an interrupt.

use crate::base::sync::Arc;
use crate::tree::member::Member;
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
    entries: Vec<PollEntry>,
}

/// One running poll.
struct PollEntry {
    key: usize,
    core: usize,
    member: Option<Arc<dyn Member>>,
    waker: usize,
}

/// The key of the poll's own entry.
pub(super) type Previous = usize;

pub(super) fn identify_cores(current: fn() -> usize) {
    critical_section::with(|section| CORE.borrow(section).set(current));
}

/// How many polls of all cores and interrupts a sealed system has room for.
#[cfg(not(feature = "std"))]
const POLLS_RESERVED: usize = 16;

#[cfg(not(feature = "std"))]
pub(super) fn reserve() {
    with(|polls, _| polls.entries.reserve(POLLS_RESERVED));
}

/// Runs `f` with all polls and the number of this core.
fn with<R>(f: impl FnOnce(&mut Polls, usize) -> R) -> R {
    critical_section::with(|section| {
        let core = CORE.borrow(section).get()();
        f(&mut POLLS.borrow_ref_mut(section), core)
    })
}

pub(super) fn enter(member: Option<Arc<dyn Member>>, waker: usize) -> Previous {
    with(|polls, core| {
        polls.last = polls.last.wrapping_add(1);
        let key = polls.last;
        polls.entries.push(PollEntry { key, core, member, waker });
        key
    })
}

/// Ends a poll and returns its member.
pub(super) fn leave(key: &mut Previous) -> Option<Arc<dyn Member>> {
    // The entry is nearly always the youngest.
    with(|polls, _| {
        let at = polls.entries.iter().rposition(|entry| entry.key == *key)?;
        polls.entries.remove(at).member
    })
}

fn youngest<R>(f: impl FnOnce(&PollEntry) -> R) -> Option<R> {
    with(|polls, core| polls.entries.iter().rev().find(|entry| entry.core == core).map(f))
}

pub(super) fn member() -> Option<Arc<dyn Member>> {
    youngest(|entry| entry.member.clone()).flatten()
}

pub(super) fn waker() -> usize {
    youngest(|entry| entry.waker).unwrap_or(0)
}

/// The current task of a group is not tracked in this build.
#[cfg(not(feature = "std"))]
pub(super) fn swap_task(_task: crate::tree::current::PolledTask) -> crate::tree::current::PolledTask {
    (0, 0)
}

#[cfg(not(feature = "std"))]
pub(super) fn task() -> crate::tree::current::PolledTask {
    (0, 0)
}

#[cfg(all(test, feature = "std", not(loom)))]
mod tests {
    use super::*;
    use crate::base::sync::unsize;
    use crate::scope::member::ScopeMember;
    use crate::tree::Tree;
    use std::sync::{Barrier, Mutex as StdMutex, PoisonError};

    std::thread_local! {
        static THREAD: Cell<usize> = const { Cell::new(0) };
    }

    fn some_member() -> Arc<dyn Member> {
        let tree = Tree::new(crate::dispatcher::Dispatcher::seeded(1).runtime());
        unsize!(ScopeMember::top(&tree) => dyn Member)
    }

    fn is(member: &Option<Arc<dyn Member>>, other: &Arc<dyn Member>) -> bool {
        member.as_ref().is_some_and(|member| Arc::ptr_eq(member, other))
    }

    /// The list is shared by the process, so only one test runs at a time.
    fn run_alone(test: impl FnOnce()) {
        static ALONE: StdMutex<()> = StdMutex::new(());
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        test();
        assert!(critical_section::with(|section| POLLS.borrow_ref(section).entries.is_empty()));
        identify_cores(only_core);
    }

    #[test]
    fn polls_of_two_cores_end_in_any_order() {
        run_alone(|| {
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
    fn nested_polls_put_the_outer_one_back() {
        run_alone(|| {
            let (a, b) = (some_member(), some_member());
            let mut outer = enter(Some(Arc::clone(&a)), 1);
            let mut inner = enter(Some(Arc::clone(&b)), 2);
            let mut empty = enter(None, 3);
            assert!(member().is_none() && waker() == 3, "a poll without a member hides the polls around it");
            assert!(leave(&mut empty).is_none());
            assert!(is(&member(), &b) && waker() == 2);
            assert!(is(&leave(&mut inner), &b) && is(&member(), &a) && waker() == 1);
            assert!(is(&leave(&mut outer), &a));
        });
    }

    #[test]
    fn two_threads_see_only_their_own_member() {
        run_alone(|| {
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
                            // Both are inside; they take turns in leaving first.
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
