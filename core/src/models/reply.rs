//! `Reply` and `Ask`: the reply against the asker, and against either of them being dropped.
//!
//! Proves: A10 (an ask gets its reply or an error, and never hangs; an unwanted reply is dropped
//! once). The cell has no task: a thread of the model takes the question from the mailbox.

use crate::actor::ask::Ask;
use crate::actor::cell::Cell;
use crate::actor::reply::Reply;
use crate::events::cause::Cause;
use crate::mailbox::{Mailbox, control};
use crate::models::{ManualRuntime, PlainCounter, Receiver, block_on, cell, cell_in, explore, poll_once};
use crate::tree::member::Member;
use crate::tree::waits::ask_error::AskError;
use crate::tree::waits::end_ask;
use crate::tree::{Tree, current};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::poll_fn;
use core::task::Waker;
use loom::thread;

type Asked<T> = Arc<Cell<Reply<T>>>;

fn asked<T: Send + 'static>() -> Asked<T> {
    cell(Mailbox::bounded(2))
}

/// Waits for the question, as the actor would.
fn question<T: Send + 'static>(cell: &Asked<T>) -> Reply<T> {
    let mut batch = Vec::new();
    let _ = block_on(poll_fn(|cx| cell.mailbox().any().refill(&mut batch, true, cx.waker())));
    batch.pop().unwrap()
}

#[test]
fn loom_a10_answer_against_the_asker() {
    explore(|| {
        let cell = asked();
        let actor = Arc::clone(&cell);
        let answers = thread::spawn(move || question(&actor).send(7));
        assert_eq!(block_on(Ask::new(&cell, |reply| reply)).unwrap(), 7);
        answers.join().unwrap();
    });
}

#[test]
fn loom_a10_dropped_reply_against_the_asker() {
    explore(|| {
        let cell = asked::<u32>();
        let actor = Arc::clone(&cell);
        let drops = thread::spawn(move || drop(question(&actor)));
        assert!(matches!(block_on(Ask::new(&cell, |reply| reply)), Err(AskError::Dropped)));
        drops.join().unwrap();
    });
}

/// The mailbox is closed and opened again while a question waits for room, as when a permanent
/// actor is closed. An ask that fails as closed was not delivered.
#[test]
fn loom_a10_question_without_room_against_close_and_reopen() {
    explore(|| {
        let cell: Asked<u32> = cell(Mailbox::bounded(1));
        let mut first = Ask::new(&cell, |reply| reply);
        assert!(poll_once(&mut first).is_pending());
        let mut second = Ask::new(&cell, |reply| reply);
        assert!(poll_once(&mut second).is_pending(), "it waits for room");
        drop(cell.any().mailbox().close());
        let actor = Arc::clone(&cell);
        let reopens = thread::spawn(move || {
            drop(question(&actor));
            actor.mailbox().count_taken();
            actor.any().mailbox().reopen();
            actor.any().mailbox().admit();
        });
        let answered = poll_once(&mut second);
        reopens.join().unwrap();
        let is_queued = cell.any().mailbox().len() > 0;
        assert!(answered.is_pending() || !is_queued, "it failed, and its question is delivered");
    });
}

/// A reply that counts its drops.
struct Answer(PlainCounter);

impl Drop for Answer {
    fn drop(&mut self) {
        self.0.add();
    }
}

#[test]
fn loom_a10_reply_against_a_dropped_asker() {
    explore(|| {
        let cell = asked();
        let mut ask = Ask::new(&cell, |reply| reply);
        let mut polled = poll_once(&mut ask);
        assert!(polled.is_pending());
        let dropped = PlainCounter::default();
        let (actor, answer) = (Arc::clone(&cell), Answer(dropped.clone()));
        let answers = thread::spawn(move || {
            let reply = question(&actor);
            let unwanted = reply.is_closed();
            reply.send(answer);
            unwanted
        });
        polled = poll_once(&mut ask);
        drop(ask);
        let unwanted = answers.join().unwrap();
        assert_eq!(dropped.get(), usize::from(polled.is_pending()), "an unwanted reply is dropped");
        assert!(polled.is_pending() || !unwanted);
        drop(polled);
        assert_eq!(dropped.get(), 1);
    });
}

/// The actor drops the question inside a poll that then fails. The asker gets the failure, not the
/// drop.
#[test]
fn loom_a10_reply_held_for_the_outcome() {
    explore(|| {
        let cell = asked::<u32>();
        let actor = Arc::clone(&cell);
        let fails = thread::spawn(move || {
            let reply = question(&actor);
            let mut member = Some(Arc::clone(&actor) as Arc<dyn Member>);
            let inside = current::enter(&mut member, Waker::noop());
            drop(reply);
            drop(inside);
            assert!(actor.mailbox().control_word() & control::UNANSWERED != 0);
            let held = actor.any().take_unanswered();
            assert_eq!(held.len(), 1);
            held.into_iter().for_each(|reply| end_ask(reply, AskError::Cancelled(Cause::Dropped)));
        });
        let answer = block_on(Ask::new(&cell, |reply| reply));
        assert!(matches!(answer, Err(AskError::Cancelled(Cause::Dropped))), "{answer:?}");
        fails.join().unwrap();
    });
}

/// The actor ends while the question is on its way. The question is returned or becomes a dead
/// letter, and the asker gets an error in either case.
#[test]
fn loom_a10_ask_against_the_end_of_the_actor() {
    explore(|| {
        let cell = asked::<u32>();
        let actor = Arc::clone(&cell);
        let ends = thread::spawn(move || {
            let mut receiver = Receiver::of(&actor);
            receiver.leave();
            receiver.dead_letters.len()
        });
        let answer = block_on(Ask::new(&cell, |reply| reply));
        assert!(matches!(answer, Err(AskError::Closed | AskError::Dropped)), "{answer:?}");
        assert_eq!(cell.mailbox().any().counts().dead_lettered as usize, ends.join().unwrap());
        assert!(cell.mailbox().any().counts().is_settled());
    });
}

/// Two actors ask each other at the same time in their own tasks. At least one of them finds the
/// cycle.
#[test]
fn loom_a10_asks_that_close_a_cycle() {
    explore(|| {
        let tree = Tree::new(ManualRuntime::new());
        let cells = [(); 2].map(|()| cell_in(&tree, Mailbox::bounded(2)));
        let [one, other] = cells.clone();
        let asks = |from: Asked<u32>, to: Asked<u32>| {
            let mut member = Some(from as Arc<dyn Member>);
            let inside = current::enter(&mut member, Waker::noop());
            let mut ask = Ask::new(&to, |reply| reply);
            let polled = poll_once(&mut ask);
            drop(inside);
            // The wait-for edge exists as long as the ask.
            core::mem::forget(ask);
            polled.is_ready()
        };
        let thread = thread::spawn(move || asks(one, other));
        let [one, other] = cells;
        let found = asks(other, one);
        assert!(thread.join().unwrap() || found);
    });
}
