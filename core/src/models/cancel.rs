//! `CancelToken`: a cancel against new waiters, leaving waiters, and another cancel.
//!
//! Proves: T1 (a cancel reaches a child created at that moment), T2 (the first cause is kept), T3
//! (every waiter is woken, and a dropped one leaves nothing behind).
//!
//! Not covered: loom switches threads only at its own operations, so no interleaving lies between
//! the registration of a child at its parent and the end of `Arc::new_cyclic`, where the weak
//! reference cannot be upgraded yet. The second check of the cause in `CancelToken::below` handles
//! that moment; its comment has the proof.

use crate::events::cause::Cause;
use crate::models::{ManualRuntime, block_on, explore, poll_once};
use crate::tree::token::CancelToken;
use core::task::Poll;
use loom::thread;

fn token() -> CancelToken {
    ManualRuntime::new().token()
}

fn words(text: &'static str) -> Option<Cause> {
    Some(text.into())
}

#[test]
fn loom_t3_cancel_against_register() {
    explore(|| {
        let token = token();
        let waiters = [(); 2].map(|()| {
            let token = token.clone();
            thread::spawn(move || block_on(token.cancelled()))
        });
        token.cancel("now");
        waiters.into_iter().for_each(|waiter| assert_eq!(Some(waiter.join().unwrap()), words("now")));
        assert_eq!(token.listener_counts(), (0, 0));
    });
}

/// One waiter is dropped during the cancel. The other one is still woken.
#[test]
fn loom_t3_cancel_against_register_against_drop() {
    explore(|| {
        let token = token();
        let (stays, goes) = (token.clone(), token.clone());
        let stays = thread::spawn(move || block_on(stays.cancelled()));
        let goes = thread::spawn(move || {
            let mut waiting = goes.cancelled();
            let polled = poll_once(&mut waiting);
            drop(waiting);
            polled
        });
        token.cancel("now");
        assert_eq!(Some(stays.join().unwrap()), words("now"));
        let polled = goes.join().unwrap();
        assert!(polled.is_pending() || polled == Poll::Ready("now".into()));
        assert_eq!(token.listener_counts(), (0, 0));
    });
}

/// Waiters that register and leave without a cancel leave nothing behind.
#[test]
fn loom_t3_register_against_drop() {
    explore(|| {
        let token = token();
        let others = [(); 2].map(|()| {
            let token = token.clone();
            thread::spawn(move || {
                let child = token.child();
                let mut waiting = token.cancelled();
                assert!(poll_once(&mut waiting).is_pending());
                assert!(!child.is_cancelled());
            })
        });
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(token.listener_counts(), (0, 0));
    });
}

/// A child created during the cancel of its parent is cancelled when it is returned, or when the
/// cancel returns.
#[test]
fn loom_t1_cancel_against_child() {
    explore(|| {
        let token = token();
        let parent = token.clone();
        let maker = thread::spawn(move || {
            let child = parent.child();
            let grandchild = child.child();
            (child, grandchild)
        });
        token.cancel("now");
        let (child, grandchild) = maker.join().unwrap();
        assert_eq!((child.cause(), grandchild.cause()), (words("now"), words("now")));
        drop((child, grandchild));
        assert_eq!(token.listener_counts(), (0, 0));
    });
}

/// The parent is cancelled while its waiting child is dropped on another thread.
#[test]
fn loom_t1_cancel_against_dropping_a_child() {
    explore(|| {
        let token = token();
        let (stays, goes) = (token.child(), token.child());
        let waits = stays.clone();
        let waiter = thread::spawn(move || block_on(waits.cancelled()));
        let dropper = thread::spawn(move || drop(goes));
        token.cancel("now");
        assert_eq!(Some(waiter.join().unwrap()), words("now"));
        dropper.join().unwrap();
        assert_eq!(stays.cause(), words("now"));
        assert_eq!(token.listener_counts(), (0, 0));
    });
}

/// Two cancels of one token: one cause wins, here and below, and never changes.
#[test]
fn loom_t2_two_cancels_with_different_causes() {
    explore(|| {
        let token = token();
        let child = token.child();
        let others = ["this", "that"].map(|cause| {
            let token = token.clone();
            thread::spawn(move || {
                token.cancel(cause);
                token.cause()
            })
        });
        let (first, seen) = (token.cause(), child.cause());
        let won = others.map(|other| other.join().unwrap());
        let cause = token.cause();
        assert!(cause == words("this") || cause == words("that"));
        assert_eq!(child.cause(), cause);
        assert_eq!(won, [cause.clone(), cause.clone()]);
        assert!(first.is_none() || first == cause);
        assert!(seen.is_none() || seen == cause);
    });
}

/// The parent and the child are cancelled with different causes. Each keeps its first cause, and
/// the grandchild has the child's.
#[test]
fn loom_t2_cancel_above_against_cancel_below() {
    explore(|| {
        let token = token();
        let child = token.child();
        let leaf = child.child();
        let below = child.clone();
        let other = thread::spawn(move || {
            below.cancel("below");
            below.cause()
        });
        token.cancel("above");
        let seen = leaf.cause();
        let known = other.join().unwrap();
        assert_eq!(token.cause(), words("above"));
        assert!(child.cause() == words("above") || child.cause() == words("below"));
        assert_eq!(child.cause(), known, "it does not change");
        assert_eq!(leaf.cause(), child.cause());
        assert!(seen.is_none() || seen == leaf.cause());
    });
}
