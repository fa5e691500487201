//! Cancellation, causes and deadlines of tokens.

use super::*;
use crate::dispatcher::Dispatcher;

fn token() -> CancelToken {
    CancelToken::root(Dispatcher::seeded(1).runtime())
}

#[test]
fn t1_cancel_reaches_descendants_only() {
    let root = token();
    let (left, right) = (root.child(), root.child());
    let leaf = left.child();
    left.cancel(());
    assert!(leaf.is_cancelled() && left.is_cancelled());
    assert!(!root.is_cancelled() && !right.is_cancelled());
}

#[test]
fn t2_the_first_cause_wins_everywhere() {
    let root = token();
    let early = root.child();
    let leaf = early.child();
    early.cancel("early");
    root.cancel("late");
    root.cancel(());
    assert_eq!(root.cause(), Some("late".into()));
    assert_eq!(early.cause(), Some("early".into()));
    assert_eq!(leaf.cause(), Some("early".into()));
    assert_eq!(root.child().cause(), Some("late".into()));
    let plain = token();
    plain.cancel(());
    assert_eq!(plain.cause(), Some(Cause::Cancelled));
}

#[test]
fn t3_dropped_waiter_is_removed() {
    let root = token();
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..1_000_000 {
        let mut waiting = root.cancelled();
        assert!(Pin::new(&mut waiting).poll(&mut cx).is_pending());
        let _child = root.child();
    }
    assert_eq!(root.listener_counts(), (0, 0));
    assert!(root.0.state.with(|state| state.listeners.capacity()) <= 4);
}

#[test]
fn t3_waiters_before_and_after_a_cancel_are_woken() {
    let root = token();
    let mut cx = Context::from_waker(Waker::noop());
    let mut before: Vec<_> = (0..3).map(|_| root.cancelled()).collect();
    assert!(before.iter_mut().all(|waiting| Pin::new(waiting).poll(&mut cx).is_pending()));
    root.cancel("now");
    before.push(root.cancelled());
    for mut waiting in before {
        assert_eq!(Pin::new(&mut waiting).poll(&mut cx), Poll::Ready("now".into()));
    }
}

#[test]
fn t1_deep_trees_do_not_overflow_the_stack() {
    let root = token();
    let mut chain = vec![root.child()];
    (0..100_000).for_each(|_| chain.push(chain.last().unwrap().child()));
    root.cancel(());
    assert!(chain.last().unwrap().is_cancelled());
    let leaf = chain.pop();
    drop(chain);
    drop(leaf);
}

#[test]
fn t1_earliest_deadline_of_the_ancestors_wins() {
    let sim = Dispatcher::seeded(1);
    let root = CancelToken::root(sim.runtime());
    let at = |ms| Instant::after_start(Duration::from_millis(ms));
    let soon = root.child_until(at(10));
    let later = soon.child_until(at(20));
    let sooner = soon.child_until(at(5));
    assert_eq!((later.deadline(), sooner.deadline()), (Some(at(10)), Some(at(5))));
    sim.run_until_time(at(7));
    assert_eq!((sooner.cause(), soon.cause()), (Some(Cause::DeadlineExceeded), None));
    sim.run_until_time(at(10));
    assert_eq!((soon.cause(), later.cause()), (Some(Cause::DeadlineExceeded), Some(Cause::DeadlineExceeded)));
    assert_eq!(root.cause(), None);
    assert!(root.child_until(Instant::ZERO).is_cancelled());
}

#[test]
fn dropped_deadline_ends_its_task() {
    let sim = Dispatcher::seeded(1);
    let root = CancelToken::root(sim.runtime());
    for _ in 0..1_000 {
        drop(root.child_for(Duration::from_secs(3_600)));
    }
    sim.drain_ready();
    assert_eq!(sim.tasks_alive(), 0);
}
