//! `Sending`: a send that waits for room, against the receiver, against a drop, and against the end
//! of input.
//!
//! Proves: A3 (a rejected send returns its message; a dropped send neither loses an accepted
//! message nor leaks its room), A4 (a waiting send is accepted once there is room), W2 (a cycle of
//! sends is found), A2 (the counts). The mailbox has room for one message and contains one.

use crate::actor::cell::Cell;
use crate::actor::send::Sending;
use crate::mailbox::push::WhenFull;
use crate::mailbox::send_error::SendError;
use crate::mailbox::{Mailbox, Priority, control};
use crate::models::{ManualRuntime, Received, Receiver, block_on, cell, explore, full_cell, poll_once, send_against_close};
use crate::tree::current;
use crate::tree::member::Member;
use alloc::sync::Arc;
use alloc::vec;
use core::future::poll_fn;
use core::task::{Poll, Waker};
use loom::thread;

#[test]
fn loom_a4_waiting_send_against_the_receiver_making_room() {
    explore(|| {
        let cell = full_cell();
        let to = Arc::clone(&cell);
        let sender = thread::spawn(move || block_on(Sending::new(&to, 2)));
        let mut receiver = Receiver::of(&cell);
        (0..2).for_each(|_| assert_eq!(receiver.next(), Received::Message));
        assert_eq!(sender.join().unwrap(), Ok(()));

        assert_eq!(receiver.handled, [1, 2]);
        let counts = cell.mailbox().any().counts();
        assert!(counts.is_settled() && counts.handled == 2, "{counts}");
    });
}

/// A receiver that parks while it takes its message makes room at the same time. No send waits
/// beside an empty queue.
#[test]
fn loom_a4_waiting_send_against_a_receiver_that_parks_early() {
    explore(|| {
        let cell = full_cell();
        let to = Arc::clone(&cell);
        let sender = thread::spawn(move || block_on(Sending::new(&to, 2)));
        let mut receiver = Receiver::parking_early(&cell);
        assert_eq!(receiver.run(2), Received::Message);
        assert_eq!(sender.join().unwrap(), Ok(()));
        assert_eq!(receiver.handled, [1, 2]);
        assert!(cell.mailbox().any().counts().is_settled());
    });
}

/// The receiver makes room while a `tell` arrives and a send waits. The room belongs to the send.
#[test]
fn loom_a4_tell_does_not_overtake_a_waiting_send() {
    explore(|| {
        let cell = full_cell();
        let mut receiver = Receiver::of(&cell);
        assert!(cell.mailbox().any().refill(&mut receiver.batch, true, Waker::noop()).is_ready());
        let mut sending = Sending::new(&cell, 2);
        assert!(poll_once(&mut sending).is_pending(), "message 1 is not taken yet");
        let to = Arc::clone(&cell);
        let teller = thread::spawn(move || to.mailbox().push_message(3, WhenFull::Fail).is_ok());
        (0..2).for_each(|_| assert_eq!(receiver.next(), Received::Message));
        teller.join().unwrap();
        assert_eq!(receiver.handled, [1, 2]);
    });
}

/// Two sends wait. The first one is accepted first, and both are accepted.
#[test]
fn loom_a4_two_waiting_sends_share_one_slot() {
    explore(|| {
        let cell = full_cell();
        let senders = [2, 3].map(|message| {
            let to = Arc::clone(&cell);
            thread::spawn(move || assert_eq!(block_on(Sending::new(&to, message)), Ok(())))
        });
        let mut receiver = Receiver::of(&cell);
        (0..3).for_each(|_| assert_eq!(receiver.next(), Received::Message));
        senders.into_iter().for_each(|sender| sender.join().unwrap());

        assert_eq!(receiver.handled[0], 1);
        assert_eq!(receiver.handled.iter().sum::<u32>(), 6);
        assert!(cell.mailbox().any().counts().is_settled());
    });
}

/// A pending handler has made room: its message has left the queue.
#[test]
fn loom_a4_waiting_send_against_a_handler_that_waits() {
    explore(|| {
        let cell = full_cell();
        let to = Arc::clone(&cell);
        let sender = thread::spawn(move || block_on(Sending::new(&to, 2)));
        let mut receiver = Receiver::of(&cell);
        let mailbox = cell.mailbox();
        let waker = Waker::noop();
        assert!(mailbox.any().refill(&mut receiver.batch, true, waker).is_ready());
        assert_eq!(receiver.batch.pop(), Some(1));
        mailbox.count_taken();
        assert!(mailbox.any().park_in_handler(waker));
        assert_eq!(sender.join().unwrap(), Ok(()), "the handler need not end for it");
        assert_eq!(mailbox.any().len(), 1);
    });
}

/// A receiver that was suspended after it took its last message has made room, too.
#[test]
fn loom_a4_waiting_send_against_a_suspended_receiver() {
    explore(|| {
        let cell = full_cell();
        let to = Arc::clone(&cell);
        let sender = thread::spawn(move || block_on(Sending::new(&to, 2)));
        let mut receiver = Receiver::of(&cell);
        assert_eq!(receiver.next(), Received::Message);
        // The end of the backlog is control, too: it is applied, and the receiver parks again.
        while cell.mailbox().any().poll_control(Waker::noop()).is_ready() {
            let word = cell.mailbox().any().clear_bits(control::DRAINED);
            assert_ne!(word & control::DRAINED, 0, "no other bit keeps it from parking");
        }
        assert_eq!(sender.join().unwrap(), Ok(()), "there is room, so it does not wait for the resume");
        assert_eq!(cell.mailbox().any().len(), 1);
    });
}

/// A backlog ends while its receiver is suspended and a send waits. The receiver notices the end
/// before it parks, so the report does not wait for the resume.
#[test]
fn loom_o3_end_of_a_backlog_against_a_suspended_receiver() {
    explore(|| {
        let cell = cell(Mailbox::bounded(4));
        (1..=4).for_each(|message| assert!(cell.mailbox().try_push(message).is_ok()));
        let to = Arc::clone(&cell);
        let sender = thread::spawn(move || block_on(Sending::new(&to, 5)));
        let mut receiver = Receiver::of(&cell);
        (0..4).for_each(|_| assert_eq!(receiver.next(), Received::Message));
        let mut ends = 0;
        while cell.mailbox().any().poll_control(Waker::noop()).is_ready() {
            assert_ne!(cell.mailbox().any().clear_bits(control::DRAINED) & control::DRAINED, 0);
            ends += 1;
        }
        assert_eq!(sender.join().unwrap(), Ok(()));
        assert_eq!(cell.mailbox().control_word() & control::DRAINED, 0, "it parked beside the end of the backlog");
        assert_eq!(ends, 1);
    });
}

/// The same for a receiver that parks because there is nothing to do. It takes the whole backlog as
/// one batch, so the queue has no memory for messages then.
#[test]
fn loom_o3_end_of_a_backlog_against_an_idle_receiver() {
    explore(|| {
        let cell = cell(Mailbox::bounded(4));
        (1..=4).for_each(|message| assert!(cell.mailbox().try_push(message).is_ok()));
        let mut receiver = Receiver::of(&cell);
        (0..4).for_each(|_| assert_eq!(receiver.next(), Received::Message));
        assert!(receiver.poll_next(Waker::noop()).is_pending());
        assert_eq!(cell.mailbox().control_word() & control::DRAINED, 0, "it parked beside the end of the backlog");
        assert!(!cell.mailbox().any().end_backlog(), "the end was reported");
    });
}

/// A dropped send frees its room, which the next send needs.
#[test]
fn loom_a3_dropped_send_against_the_receiver() {
    explore(|| {
        let cell = full_cell();
        let to = Arc::clone(&cell);
        let sender = thread::spawn(move || {
            let mut sending = Sending::new(&to, 2);
            let sent = poll_once(&mut sending);
            drop(sending);
            let accepted = to.mailbox().any().counts().accepted;
            assert_eq!(block_on(Sending::new(&to, 9)), Ok(()));
            (sent, accepted)
        });
        let mut receiver = Receiver::of(&cell);
        while receiver.handled.last() != Some(&9) {
            assert_eq!(receiver.next(), Received::Message);
        }
        let (sent, accepted) = sender.join().unwrap();

        let got_in = accepted == 2;
        assert_eq!(receiver.handled, if got_in { vec![1, 2, 9] } else { vec![1, 9] });
        assert!(got_in || sent.is_pending(), "what was accepted is not taken back");
        let counts = cell.mailbox().any().counts();
        assert!(counts.is_settled() && counts.handled as usize == receiver.handled.len(), "{counts}");
    });
}

/// A send that is polled by another task than before is woken there, whether the end of input comes
/// before or after.
#[test]
fn loom_w8_send_with_another_waker_against_close() {
    explore(|| {
        let cell = full_cell();
        let to = Arc::clone(&cell);
        let sender = thread::spawn(move || {
            let mut sending = Sending::new(&to, 2);
            match poll_once(&mut sending) {
                Poll::Pending => block_on(sending),
                Poll::Ready(sent) => sent,
            }
        });
        drop(cell.mailbox().any().close());
        assert!(matches!(sender.join().unwrap(), Err(SendError::Closed(2))));
    });
}

/// The same for a send that reserves room before it creates its message.
#[test]
fn loom_w8_reservation_with_another_waker_against_close() {
    explore(|| {
        let cell = full_cell();
        let to = Arc::clone(&cell);
        let sender = thread::spawn(move || {
            let mut key = None;
            let mut poll =
                |waker: &Waker| to.mailbox().any().poll_reserve(&mut key, Priority::NORMAL, waker).map(|held| held.is_err());
            match poll(Waker::noop()) {
                Poll::Pending => block_on(poll_fn(|cx| poll(cx.waker()))),
                Poll::Ready(refused) => refused,
            }
        });
        drop(cell.mailbox().any().close());
        assert!(sender.join().unwrap(), "there never was room");
    });
}

#[test]
fn loom_a3_waiting_send_against_close() {
    explore(|| {
        let cell = full_cell();
        let to = Arc::clone(&cell);
        let mut receiver = Receiver::of(&cell);
        match send_against_close(&mut receiver, move || block_on(Sending::new(&to, 2))) {
            Ok(()) => assert_eq!(receiver.handled, [1, 2]),
            error => assert_eq!((error, &receiver.handled[..]), (Err(SendError::Closed(2)), &[1][..])),
        }
    });
}

/// The actor ends while one send waits and another one arrives late. Nothing is accepted unnoticed.
#[test]
fn loom_a2_waiting_send_against_the_end_and_a_late_tell() {
    explore(|| {
        let cell = full_cell();
        let to = Arc::clone(&cell);
        let waiting = thread::spawn(move || block_on(Sending::new(&to, 2)));
        let to = Arc::clone(&cell);
        let late = thread::spawn(move || {
            to.any().raise(control::STOP);
            to.mailbox().try_push(3)
        });
        let mut receiver = Receiver::of(&cell);
        assert_eq!(receiver.drain(), Received::Stop);
        receiver.leave();
        let accepted = 1 + usize::from(waiting.join().unwrap().is_ok()) + usize::from(late.join().unwrap().is_ok());

        assert_eq!(receiver.handled.len() + receiver.dead_letters.len(), accepted);
        let counts = cell.mailbox().any().counts();
        assert!(counts.is_settled() && counts.accepted as usize == accepted, "{counts}");
    });
}

/// A token cancelled while the send waits returns the message, unless it was accepted.
#[test]
fn loom_a3_cancelled_send_against_the_receiver() {
    explore(|| {
        let cell = full_cell();
        let token = ManualRuntime::new().token();
        let (to, gives_up) = (Arc::clone(&cell), token.clone());
        let sender = thread::spawn(move || {
            let sent = block_on(Sending::new(&to, 2).or_cancel(&gives_up));
            to.any().close();
            sent
        });
        let canceller = thread::spawn(move || token.cancel(()));
        let mut receiver = Receiver::of(&cell);
        assert_eq!(receiver.drain(), Received::End);
        let sent = sender.join().unwrap();
        canceller.join().unwrap();

        assert_eq!(receiver.handled.len(), 1 + usize::from(sent.is_ok()));
        assert!(sent.is_ok() || sent.is_err_and(|error| error.into_message() == 2));
        assert!(cell.mailbox().any().counts().is_settled());
    });
}

/// The cycle search admits a waiting send while the receiver makes room for it. It is accepted
/// once.
#[test]
fn loom_w2_admission_beyond_the_capacity_against_the_receiver() {
    explore(|| {
        let cell = full_cell();
        let to = Arc::clone(&cell);
        let sender = thread::spawn(move || block_on(Sending::new(&to, 2)));
        let to = Arc::clone(&cell);
        let admits = thread::spawn(move || to.mailbox().any().admit_beyond_capacity(1));
        let mut receiver = Receiver::of(&cell);
        (0..2).for_each(|_| assert_eq!(receiver.next(), Received::Message));
        assert_eq!(sender.join().unwrap(), Ok(()));
        admits.join().unwrap();

        assert_eq!(receiver.handled, [1, 2]);
        let counts = cell.mailbox().any().counts();
        assert!(counts.is_settled() && counts.handled == 2, "{counts}");
    });
}

/// Acts as an actor whose handler sends to another actor, and which then takes its own messages.
fn send_then_receive(own: &Arc<Cell<u32>>, to: &Arc<Cell<u32>>) {
    let mut member = Some(Arc::clone(own) as Arc<dyn Member>);
    let inside = current::enter(&mut member, Waker::noop());
    assert_eq!(block_on(Sending::new(to, 2)), Ok(()));
    drop(inside);
    let mut receiver = Receiver::of(own);
    (0..2).for_each(|_| assert_eq!(receiver.next(), Received::Message));
    assert_eq!(receiver.handled, [1, 2]);
}

/// Two actors with full mailboxes send to each other at the same time. The later one finds the
/// cycle.
#[test]
fn loom_w2_two_sends_that_close_a_cycle_at_once() {
    explore(|| {
        let (one, other) = (full_cell(), full_cell());
        let (own, to) = (Arc::clone(&one), Arc::clone(&other));
        let actor = thread::spawn(move || send_then_receive(&own, &to));
        send_then_receive(&other, &one);
        actor.join().unwrap();
        assert!([one, other].iter().all(|cell| cell.mailbox().any().counts().is_settled()));
    });
}
