//! `Sending`: a send that waits for room, against the receiver that makes room, against being dropped, and against the end of input.
//!
//! Proves for these orders: A3 (a send that is not accepted gives its message back, a dropped one neither loses an accepted message nor
//! leaks a slot), A4 (a waiting send gets in once there is room), W2 (a cycle of sends is found), A2 (the counts). The mailbox has room for one message, and one is in
//! it.

use crate::actor::cell::Cell;
use crate::actor::send::Sending;
use crate::mailbox::send_error::SendError;
use crate::mailbox::{Mailbox, Priority, control};
use crate::models::{ByHand, Met, Receiver, block_on, cell, explore, poll_once};
use crate::tree::current;
use crate::tree::member::Member;
use alloc::sync::Arc;
use alloc::vec;
use core::future::poll_fn;
use core::task::{Poll, Waker};
use loom::thread;

/// A cell whose mailbox is full with message 1.
fn full() -> Arc<Cell<u32>> {
    let cell = cell(Mailbox::bounded(1));
    assert!(cell.mailbox().try_push(1).is_ok());
    cell
}

#[test]
fn loom_a4_waiting_send_against_the_receiver_making_room() {
    explore(|| {
        let cell = full();
        let to = Arc::clone(&cell);
        let sender = thread::spawn(move || block_on(Sending::new(&to, 2)));
        let mut receiver = Receiver::of(&cell);
        (0..2).for_each(|_| assert_eq!(receiver.next(), Met::Message));
        assert_eq!(sender.join().unwrap(), Ok(()));

        assert_eq!(receiver.handled, [1, 2]);
        let counts = cell.mailbox().counts();
        assert!(counts.is_settled() && counts.handled == 2, "{counts}");
    });
}

/// A receiver that parks as it takes its message makes room in the same moment, and leaves nobody waiting beside an empty queue.
#[test]
fn loom_a4_waiting_send_against_a_receiver_that_parks_early() {
    explore(|| {
        let cell = full();
        let to = Arc::clone(&cell);
        let sender = thread::spawn(move || block_on(Sending::new(&to, 2)));
        let mut receiver = Receiver::early(&cell);
        assert_eq!(receiver.run(2), Met::Message);
        assert_eq!(sender.join().unwrap(), Ok(()));
        assert_eq!(receiver.handled, [1, 2]);
        assert!(cell.mailbox().counts().is_settled());
    });
}

/// Two wait; the one that waited first gets in first, and nobody is forgotten.
#[test]
fn loom_a4_two_waiting_sends_share_one_place() {
    explore(|| {
        let cell = full();
        let senders = [2, 3].map(|message| {
            let to = Arc::clone(&cell);
            thread::spawn(move || assert_eq!(block_on(Sending::new(&to, message)), Ok(())))
        });
        let mut receiver = Receiver::of(&cell);
        (0..3).for_each(|_| assert_eq!(receiver.next(), Met::Message));
        senders.into_iter().for_each(|sender| sender.join().unwrap());

        assert_eq!(receiver.handled[0], 1);
        assert_eq!(receiver.handled.iter().sum::<u32>(), 6);
        assert!(cell.mailbox().counts().is_settled());
    });
}

/// A handler that is pending makes room too: its own message has left the queue.
#[test]
fn loom_a4_waiting_send_against_a_handler_that_waits() {
    explore(|| {
        let cell = full();
        let to = Arc::clone(&cell);
        let sender = thread::spawn(move || block_on(Sending::new(&to, 2)));
        let mut receiver = Receiver::of(&cell);
        let mailbox = cell.mailbox();
        let waker = Waker::noop();
        assert!(mailbox.refill(&mut receiver.batch, true, waker).is_ready());
        assert_eq!(receiver.batch.pop(), Some(1));
        mailbox.count_taken();
        assert!(mailbox.park_in_handler(waker));
        assert_eq!(sender.join().unwrap(), Ok(()), "the handler need not end for it");
        assert_eq!(mailbox.len(), 1);
    });
}

/// So does a receiver that was suspended after it began its last message.
#[test]
fn loom_a4_waiting_send_against_a_suspended_receiver() {
    explore(|| {
        let cell = full();
        let to = Arc::clone(&cell);
        let sender = thread::spawn(move || block_on(Sending::new(&to, 2)));
        let mut receiver = Receiver::of(&cell);
        assert_eq!(receiver.next(), Met::Message);
        assert!(cell.mailbox().poll_control(Waker::noop()).is_pending());
        assert_eq!(sender.join().unwrap(), Ok(()), "there is room, so it does not wait for the resume");
        assert_eq!(cell.mailbox().len(), 1);
    });
}

/// The slot of a dropped send is free again: the next send needs it.
#[test]
fn loom_a3_dropped_send_against_the_receiver() {
    explore(|| {
        let cell = full();
        let to = Arc::clone(&cell);
        let sender = thread::spawn(move || {
            let mut sending = Sending::new(&to, 2);
            let sent = poll_once(&mut sending);
            drop(sending);
            let accepted = to.mailbox().counts().accepted;
            assert_eq!(block_on(Sending::new(&to, 9)), Ok(()));
            (sent, accepted)
        });
        let mut receiver = Receiver::of(&cell);
        while receiver.handled.last() != Some(&9) {
            assert_eq!(receiver.next(), Met::Message);
        }
        let (sent, accepted) = sender.join().unwrap();

        let got_in = accepted == 2;
        assert_eq!(receiver.handled, if got_in { vec![1, 2, 9] } else { vec![1, 9] });
        assert!(got_in || sent.is_pending(), "what was accepted is not taken back");
        let counts = cell.mailbox().counts();
        assert!(counts.is_settled() && counts.handled as usize == receiver.handled.len(), "{counts}");
    });
}

/// A send that waits in another task than before is woken there, whether the end of input comes before or after that.
#[test]
fn loom_w8_send_with_another_waker_against_close() {
    explore(|| {
        let cell = full();
        let to = Arc::clone(&cell);
        let sender = thread::spawn(move || {
            let mut sending = Sending::new(&to, 2);
            match poll_once(&mut sending) {
                Poll::Pending => block_on(sending),
                Poll::Ready(sent) => sent,
            }
        });
        drop(cell.mailbox().close());
        assert!(matches!(sender.join().unwrap(), Err(SendError::Closed(2))));
    });
}

/// The same for a send whose message is made once there is room.
#[test]
fn loom_w8_place_with_another_waker_against_close() {
    explore(|| {
        let cell = full();
        let to = Arc::clone(&cell);
        let sender = thread::spawn(move || {
            let mut key = None;
            let mut poll =
                |waker: &Waker| to.mailbox().poll_reserve(&mut key, Priority::NORMAL, waker).map(|held| held.is_err());
            match poll(Waker::noop()) {
                Poll::Pending => block_on(poll_fn(|cx| poll(cx.waker()))),
                Poll::Ready(refused) => refused,
            }
        });
        drop(cell.mailbox().close());
        assert!(sender.join().unwrap(), "there never was room");
    });
}

#[test]
fn loom_a3_waiting_send_against_close() {
    explore(|| {
        let cell = full();
        let to = Arc::clone(&cell);
        let sender = thread::spawn(move || block_on(Sending::new(&to, 2)));
        let to = Arc::clone(&cell);
        let closer = thread::spawn(move || to.close());
        let mut receiver = Receiver::of(&cell);
        assert_eq!(receiver.drain(), Met::End);
        let sent = sender.join().unwrap();
        closer.join().unwrap();

        match sent {
            Ok(()) => assert_eq!(receiver.handled, [1, 2]),
            error => {
                assert_eq!((error, &receiver.handled[..]), (Err(SendError::Closed(2)), &[1][..]));
            }
        }
        let counts = cell.mailbox().counts();
        assert!(counts.is_settled() && cell.mailbox().is_empty(), "{counts}");
    });
}

/// The actor ends while a send waits, and somebody else sends to what has ended: nothing gets in behind its back.
#[test]
fn loom_a2_waiting_send_against_the_end_and_a_late_tell() {
    explore(|| {
        let cell = full();
        let to = Arc::clone(&cell);
        let waiting = thread::spawn(move || block_on(Sending::new(&to, 2)));
        let to = Arc::clone(&cell);
        let late = thread::spawn(move || {
            to.raise(control::STOP);
            to.mailbox().try_push(3)
        });
        let mut receiver = Receiver::of(&cell);
        assert_eq!(receiver.drain(), Met::Stop);
        receiver.leave();
        let accepted = 1 + usize::from(waiting.join().unwrap().is_ok()) + usize::from(late.join().unwrap().is_ok());

        assert_eq!(receiver.handled.len() + receiver.buried.len(), accepted);
        let counts = cell.mailbox().counts();
        assert!(counts.is_settled() && counts.accepted as usize == accepted, "{counts}");
    });
}

/// A token that is cancelled while the send waits gives the message back, unless it has been accepted.
#[test]
fn loom_a3_cancelled_send_against_the_receiver() {
    explore(|| {
        let cell = full();
        let token = ByHand::new().token();
        let (to, gives_up) = (Arc::clone(&cell), token.clone());
        let sender = thread::spawn(move || {
            let sent = block_on(Sending::new(&to, 2).or_cancel(&gives_up));
            to.close();
            sent
        });
        let canceller = thread::spawn(move || token.cancel(()));
        let mut receiver = Receiver::of(&cell);
        assert_eq!(receiver.drain(), Met::End);
        let sent = sender.join().unwrap();
        canceller.join().unwrap();

        assert_eq!(receiver.handled.len(), 1 + usize::from(sent.is_ok()));
        assert!(sent.is_ok() || sent.is_err_and(|error| error.into_message() == 2));
        assert!(cell.mailbox().counts().is_settled());
    });
}

/// A cycle admits a waiting send while the receiver makes room for it: it gets in once.
#[test]
fn loom_w2_admission_beyond_the_capacity_against_the_receiver() {
    explore(|| {
        let cell = full();
        let to = Arc::clone(&cell);
        let sender = thread::spawn(move || block_on(Sending::new(&to, 2)));
        let to = Arc::clone(&cell);
        let admits = thread::spawn(move || to.mailbox().admit_beyond_capacity(1));
        let mut receiver = Receiver::of(&cell);
        (0..2).for_each(|_| assert_eq!(receiver.next(), Met::Message));
        assert_eq!(sender.join().unwrap(), Ok(()));
        admits.join().unwrap();

        assert_eq!(receiver.handled, [1, 2]);
        let counts = cell.mailbox().counts();
        assert!(counts.is_settled() && counts.handled == 2, "{counts}");
    });
}

/// What an actor does whose handler sends to another, and which takes its own messages afterwards.
fn send_then_receive(own: &Arc<Cell<u32>>, to: &Arc<Cell<u32>>) {
    let mut member = Some(Arc::clone(own) as Arc<dyn Member>);
    let inside = current::enter(&mut member, Waker::noop());
    assert_eq!(block_on(Sending::new(to, 2)), Ok(()));
    drop(inside);
    let mut receiver = Receiver::of(own);
    (0..2).for_each(|_| assert_eq!(receiver.next(), Met::Message));
    assert_eq!(receiver.handled, [1, 2]);
}

/// Two actors with full mailboxes send to each other in the same moment: whoever comes last finds the cycle.
#[test]
fn loom_w2_two_sends_that_close_a_circle_at_once() {
    explore(|| {
        let (one, other) = (full(), full());
        let (own, to) = (Arc::clone(&one), Arc::clone(&other));
        let actor = thread::spawn(move || send_then_receive(&own, &to));
        send_then_receive(&other, &one);
        actor.join().unwrap();
        assert!([one, other].iter().all(|cell| cell.mailbox().counts().is_settled()));
    });
}
