//! An observer against the actors and the tree that it looks at.
//!
//! Proves: O1 (a look finds counts that fit together, and changes nothing; a walk lists a lasting
//! member exactly once while siblings start and end).

use crate::mailbox::Mailbox;
use crate::models::{ManualRuntime, Received, Receiver, cell, explore};
use crate::scope::Scope;
use crate::tree::member::Member;
use crate::tree::walk::{Step, Walk};
use alloc::sync::Arc;
use alloc::vec::Vec;
use loom::thread;

#[test]
fn loom_o1_look_against_a_sender_and_a_receiver() {
    explore(|| {
        let cell = cell(Mailbox::bounded(8));
        assert!(cell.mailbox().try_push(1).is_ok());
        let to = Arc::clone(&cell);
        let sender = thread::spawn(move || assert!(to.mailbox().try_push(2).is_ok()));
        let of = Arc::clone(&cell);
        let observer = thread::spawn(move || {
            let facts = of.mailbox().any().observe();
            let counts = facts.counts;
            assert!(counts.handled <= counts.accepted && counts.accepted <= 2, "{counts}");
            assert!(facts.queued <= counts.accepted as usize, "{} of {counts}", facts.queued);
        });
        let mut receiver = Receiver::of(&cell);
        (0..2).for_each(|_| assert_eq!(receiver.next(), Received::Message));
        sender.join().unwrap();
        observer.join().unwrap();
        let facts = cell.mailbox().any().observe();
        assert!(facts.counts.is_settled() && facts.queued == 0 && !facts.has_current(), "{}", facts.counts);
    });
}

#[test]
fn loom_o1_walk_against_a_start_and_an_end() {
    explore(|| {
        let scope = Arc::new(Scope::under(&ManualRuntime::new().token()));
        let (ends, lasts) = (scope.scope("ends").unwrap(), scope.scope("lasts").unwrap());
        let above = Arc::clone(&scope);
        let changes = thread::spawn(move || {
            ends.close();
            above.scope("new").unwrap()
        });
        let root: Arc<dyn Member> = scope.any().member;
        let (mut listed, mut position) = (Vec::new(), None);
        loop {
            // One step at a time, each continued from its position.
            let mut walk = match &position {
                None => Walk::new(Arc::clone(&root), 8),
                Some(position) => Walk::resume(Arc::clone(&root), 8, position),
            };
            match walk.step() {
                Step::Visit(member, _) => listed.push(member.node().number()),
                Step::Nothing => {}
                Step::End => break,
            }
            position = walk.position();
        }
        let lasting = lasts.any().member.node().number();
        assert_eq!(listed.iter().filter(|number| **number == lasting).count(), 1);
        let len = listed.len();
        listed.sort_unstable();
        listed.dedup();
        assert_eq!(listed.len(), len, "a member was listed twice");
        drop(changes.join().unwrap());
    });
}
