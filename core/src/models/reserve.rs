//! Pushes in two steps, through `Recipient`: reserve room, create the message, fill the
//! reservation.
//!
//! Each step runs against the receiver, the end of input, sends that wait for the same room, and a
//! drop.
//!
//! Proves: A2 (an accepted message is handled or becomes a dead letter, and the receiver does not
//! leave before it arrives), A3 (a rejected message is returned, a dropped send frees its
//! reservation), A4 (a waiting send is accepted once there is room).

use crate::actor::actor_ref::ActorRef;
use crate::actor::cell::Cell;
use crate::actor::recipient::Recipient;
use crate::actor::send::Sending;
use crate::mailbox::Mailbox;
use crate::mailbox::send_error::SendError;
use crate::models::{Received, Receiver, block_on, cell, explore, full_cell, poll_once, send_against_close, send_against_stop};
use alloc::sync::Arc;
use loom::thread;

/// An address of the cell that accepts bytes.
fn bytes(cell: &Arc<Cell<u32>>) -> Recipient<u8> {
    ActorRef::new(Arc::clone(cell)).map(u32::from)
}

/// Whether the message arrives before or after the end of input: it is handled if it was accepted.
#[test]
fn loom_a2_mapped_tell_against_close() {
    explore(|| {
        let cell = cell(Mailbox::bounded(2));
        let to = bytes(&cell);
        let mut receiver = Receiver::of(&cell);
        match send_against_close(&mut receiver, move || to.tell(7)) {
            Ok(()) => assert_eq!(receiver.handled, [7]),
            error => assert_eq!((error, receiver.handled.len()), (Err(SendError::Closed(7)), 0)),
        }
    });
}

/// The same with a stop: an accepted message that is not handled becomes a dead letter.
#[test]
fn loom_a2_mapped_tell_against_the_end() {
    explore(|| {
        let cell = cell(Mailbox::bounded(2));
        let to = bytes(&cell);
        drop(send_against_stop(&mut Receiver::of(&cell), move || to.tell(7)));
    });
}

/// A mapped send and a plain one wait for the same room. Both are accepted.
#[test]
fn loom_a4_mapped_and_plain_sends_share_one_slot() {
    explore(|| {
        let cell = full_cell();
        let to = bytes(&cell);
        let mapped = thread::spawn(move || assert_eq!(block_on(to.send(2)), Ok(())));
        let to = Arc::clone(&cell);
        let plain = thread::spawn(move || assert_eq!(block_on(Sending::new(&to, 3)), Ok(())));
        let mut receiver = Receiver::of(&cell);
        (0..3).for_each(|_| assert_eq!(receiver.next(), Received::Message));
        mapped.join().unwrap();
        plain.join().unwrap();

        assert_eq!(receiver.handled[0], 1);
        assert_eq!(receiver.handled.iter().sum::<u32>(), 6);
        assert!(cell.mailbox().any().counts().is_settled());
    });
}

/// A mapped send is dropped, possibly after it got its reservation. The send behind it is accepted.
#[test]
fn loom_a3_dropped_mapped_send_against_the_send_behind_it() {
    explore(|| {
        let cell = full_cell();
        let to = bytes(&cell);
        let mut dropped = to.send(2);
        assert!(poll_once(&mut dropped).is_pending());
        let behind = Arc::clone(&cell);
        let sender = thread::spawn(move || block_on(Sending::new(&behind, 3)));
        let mut receiver = Receiver::of(&cell);
        let receiving = thread::spawn(move || {
            (0..2).for_each(|_| assert_eq!(receiver.next(), Received::Message));
            receiver.handled
        });
        drop(dropped);
        assert_eq!(sender.join().unwrap(), Ok(()));
        assert_eq!(receiving.join().unwrap(), [1, 3]);
        let counts = cell.mailbox().any().counts();
        assert!(counts.is_settled() && counts.accepted == 2, "{counts}");
    });
}

/// The end of input revokes a reservation. The message is returned or handled.
#[test]
fn loom_a3_waiting_mapped_send_against_close() {
    explore(|| {
        let cell = full_cell();
        let to = bytes(&cell);
        let mut receiver = Receiver::of(&cell);
        match send_against_close(&mut receiver, move || block_on(to.send(2))) {
            Ok(()) => assert_eq!(receiver.handled, [1, 2]),
            error => assert_eq!((error, &receiver.handled[..]), (Err(SendError::Closed(2)), &[1][..])),
        }
    });
}
