//! The mailbox: senders, the control word and the end of input, each against a receiver that is
//! about to park.
//!
//! Proves: A1 (the order of one sender), A2 (an accepted message is handled or becomes a dead
//! letter, once, and the counts agree), A7 (stop, close and cancel), A9 (a receiver sleeps only
//! while it has nothing to do), A20 (many messages at once). The receiver works like the loop of
//! the cell.

use crate::mailbox::push::WhenFull;
use crate::mailbox::send_error::SendError;
use crate::mailbox::{Mailbox, control};
use crate::models::{Received, Receiver, block_on, cell, explore, send_against_close, send_against_stop};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::future::poll_fn;
use core::task::Poll;
use loom::thread;

#[test]
fn loom_a1_a2_two_senders_against_a_parking_receiver() {
    explore(|| {
        let cell = cell(Mailbox::bounded(8));
        let senders = [[1, 2], [3, 4]].map(|messages| {
            let to = Arc::clone(&cell);
            thread::spawn(move || messages.into_iter().for_each(|message| assert!(to.mailbox().try_push(message).is_ok())))
        });
        let mut receiver = Receiver::of(&cell);
        (0..4).for_each(|_| assert_eq!(receiver.next(), Received::Message));
        senders.into_iter().for_each(|sender| sender.join().unwrap());

        let place = |message| receiver.handled.iter().position(|handled| *handled == message).unwrap();
        assert!(place(1) < place(2) && place(3) < place(4), "{:?}", receiver.handled);
        let counts = cell.mailbox().any().counts();
        assert!(counts.is_settled() && counts.handled == 4, "{counts}");
        assert_eq!(cell.mailbox().any().len(), 0);
    });
}

/// The messages of a part arrive in order, between those of another sender, and wake the receiver.
#[test]
fn loom_a20_part_against_a_sender_and_a_parking_receiver() {
    explore(|| {
        let cell = cell(Mailbox::bounded(8));
        // The first message makes the credits for the part.
        assert!(cell.mailbox().try_push(1).is_ok());
        assert!(cell.mailbox().try_push(2).is_ok());
        let to = Arc::clone(&cell);
        let sender = thread::spawn(move || {
            let mut part = VecDeque::from([3, 4]);
            to.mailbox().push_part(&mut part);
            part.into_iter().for_each(|message| assert!(to.mailbox().try_push(message).is_ok()));
        });
        let to = Arc::clone(&cell);
        let other = thread::spawn(move || assert!(to.mailbox().try_push(5).is_ok()));
        let mut receiver = Receiver::of(&cell);
        (0..5).for_each(|_| assert_eq!(receiver.next(), Received::Message));
        sender.join().unwrap();
        other.join().unwrap();

        receiver.handled.retain(|message| *message != 5);
        assert_eq!(receiver.handled, [1, 2, 3, 4]);
        let counts = cell.mailbox().any().counts();
        assert!(counts.is_settled() && counts.handled == 5, "{counts}");
    });
}

#[test]
fn loom_a7_stop_against_push_and_parking() {
    explore(|| {
        let cell = cell(Mailbox::bounded(8));
        let to = Arc::clone(&cell);
        let sent = send_against_stop(&mut Receiver::of(&cell), move || to.mailbox().try_push(1));
        assert!(sent.is_ok() || sent == Err(SendError::Closed(1)));
    });
}

#[test]
fn loom_a7_close_against_push_and_parking() {
    explore(|| {
        let cell = cell(Mailbox::bounded(8));
        let to = Arc::clone(&cell);
        let mut receiver = Receiver::of(&cell);
        let sent = send_against_close(&mut receiver, move || to.mailbox().try_push(1));
        assert_eq!(receiver.handled.len(), usize::from(sent.is_ok()), "what was accepted before the end of input is handled");
        assert_eq!(cell.mailbox().any().counts().dead_lettered, 0);
    });
}

/// The handler of message 1 never ends. Message 2 does not wake it; a cancel does.
#[test]
fn loom_a7_cancel_against_a_pending_handler() {
    explore(|| {
        let cell = cell(Mailbox::bounded(8));
        assert!(cell.mailbox().try_push(1).is_ok());
        let to = Arc::clone(&cell);
        let sender = thread::spawn(move || to.mailbox().try_push(2));
        let to = Arc::clone(&cell);
        let canceller = thread::spawn(move || to.any().raise(control::CANCEL));
        let mut receiver = Receiver::of(&cell);
        let mailbox = cell.mailbox();
        let _ = block_on(poll_fn(|cx| mailbox.any().refill(&mut receiver.batch, true, cx.waker())));
        assert_eq!(receiver.batch.pop(), Some(1));
        mailbox.count_taken();
        block_on(poll_fn(|cx| {
            // As the guard of a pending handler does.
            while !mailbox.must_cancel() {
                if mailbox.any().park_in_handler(cx.waker()) {
                    return Poll::Pending;
                }
            }
            Poll::Ready(())
        }));
        mailbox.any().count_failed();
        receiver.leave();
        let sent = sender.join().unwrap();
        canceller.join().unwrap();

        assert_eq!(receiver.dead_letters, if sent.is_ok() { vec![2] } else { vec![] });
        let counts = mailbox.any().counts();
        assert!(counts.is_settled() && counts.failed == 1, "{counts}");
    });
}

/// A mailbox that drops the oldest has room for one message. A message dropped for room is counted.
#[test]
fn loom_a4_drop_oldest_against_the_receiver() {
    explore(|| {
        let cell = cell(Mailbox::bounded(1).drop_oldest());
        let senders = [1, 2].map(|message| {
            let to = Arc::clone(&cell);
            thread::spawn(move || {
                let (_, dropped) = to.mailbox().push_message(message, WhenFull::Drop).unwrap_or_else(|error| panic!("{error}"));
                dropped
            })
        });
        let mut receiver = Receiver::of(&cell);
        assert_eq!(receiver.next(), Received::Message);
        let mut seen: Vec<_> = senders.into_iter().flat_map(|sender| sender.join().unwrap()).collect();
        cell.any().close();
        assert_eq!(receiver.drain(), Received::End);

        seen.append(&mut receiver.handled);
        seen.sort_unstable();
        assert_eq!(seen, [1, 2]);
        assert!(cell.mailbox().any().counts().is_settled());
    });
}

/// A receiver parks while it takes the only message. Messages that arrive during its handling are
/// found.
#[test]
fn loom_a9_two_senders_against_a_receiver_that_parks_early() {
    explore(|| {
        let cell = cell(Mailbox::bounded(8));
        let senders = [1, 2].map(|message| {
            let to = Arc::clone(&cell);
            thread::spawn(move || assert!(to.mailbox().try_push(message).is_ok()))
        });
        let mut receiver = Receiver::parking_early(&cell);
        assert_eq!(receiver.run(2), Received::Message);
        senders.into_iter().for_each(|sender| sender.join().unwrap());

        assert_eq!(receiver.handled.iter().sum::<u32>(), 3);
        assert!(cell.mailbox().any().counts().is_settled() && cell.mailbox().any().is_empty());
    });
}

#[test]
fn loom_a7_stop_against_a_receiver_that_parks_early() {
    explore(|| {
        let cell = cell(Mailbox::bounded(8));
        let to = Arc::clone(&cell);
        drop(send_against_stop(&mut Receiver::parking_early(&cell), move || to.mailbox().try_push(1)));
    });
}

#[test]
fn loom_a7_close_against_a_receiver_that_parks_early() {
    explore(|| {
        let cell = cell(Mailbox::bounded(8));
        let to = Arc::clone(&cell);
        let mut receiver = Receiver::parking_early(&cell);
        let sent = send_against_close(&mut receiver, move || to.mailbox().try_push(1));
        assert_eq!(receiver.handled.len(), usize::from(sent.is_ok()));
    });
}

/// The handler of a message taken early is pending. From then on the receiver is not parked for the
/// next message, and looks for it after the handler has ended.
#[test]
fn loom_a9_a_handler_that_waits_after_parking_early() {
    explore(|| {
        let cell = cell(Mailbox::bounded(8));
        assert!(cell.mailbox().try_push(1).is_ok());
        let to = Arc::clone(&cell);
        let sender = thread::spawn(move || assert!(to.mailbox().try_push(2).is_ok()));
        let mut receiver = Receiver::parking_early(&cell);
        let mut waited = false;
        block_on(poll_fn(|cx| {
            while receiver.handled.len() < 2 {
                if receiver.poll_next(cx.waker()).is_pending() {
                    return Poll::Pending;
                }
                if !core::mem::replace(&mut waited, true) {
                    assert!(cell.mailbox().any().park_in_handler(cx.waker()));
                    // The handler's own event has arrived.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
            Poll::Ready(())
        }));
        sender.join().unwrap();
        assert_eq!(receiver.handled, [1, 2]);
    });
}
