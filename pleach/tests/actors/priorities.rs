//! A6: priorities of messages.

use crate::common::{Job, busy_actor, dead_letters, poll_once};
use crate::mailbox::{note, texts};
use pleach::events::DeadLetterReason;
use pleach::prelude::*;
use pleach::runtime::Random;
use pleach::sim::{Sim, explore};

#[test]
fn a6_higher_priority_is_handled_first_and_in_send_order() {
    explore(0..200, |sim| {
        let mut random = Random::seeded(sim.seed());
        let system = sim.system("s");
        let (actor, log, gate) = busy_actor(sim, &system, Mailbox::unbounded().prioritised());
        let mut sent = Vec::new();
        for n in 0..40 {
            let number = random.below(8) as u8;
            let priority = Priority::new(number).unwrap();
            match random.below(3) {
                0 => actor.tell_envelope(PriorityEnvelope::new(note(n), priority)).unwrap(),
                1 => sim.run(actor.send(note(n)).priority(priority)).unwrap(),
                // A plain message has the middle priority.
                _ => {
                    actor.tell(note(n)).unwrap();
                    sent.push((4, n));
                    continue;
                }
            }
            sent.push((number, n));
        }
        gate.open();
        sim.settle();
        sent.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority));
        let expected: Vec<_> = sent.iter().map(|(_, n)| n.to_string()).collect();
        assert_eq!(log.take()[1..], expected);
    });
}

#[test]
fn a6_priorities_range_from_0_to_7_and_need_a_prioritised_mailbox() {
    assert_eq!((Priority::LOWEST.get(), Priority::NORMAL.get(), Priority::HIGHEST.get()), (0, 4, 7));
    assert_eq!((Priority::default(), Priority::new(8)), (Priority::NORMAL, None));
    let sim = Sim::new(0);
    let system = sim.system("s");
    let (actor, log, gate) = busy_actor(&sim, &system, Mailbox::bounded(4));
    let urgent = |n| PriorityEnvelope::new(note(n), Priority::HIGHEST);
    assert!(matches!(actor.tell_envelope(urgent(1)), Err(SendError::NoPriorities(Job::Note(1)))));
    let sending = actor.send(note(2)).priority(Priority::LOWEST);
    assert!(matches!(sim.run(sending), Err(SendError::NoPriorities(Job::Note(2)))));
    actor.tell_envelope(PriorityEnvelope::from(note(3))).expect("every mailbox accepts the normal priority");
    gate.open();
    sim.settle();
    assert_eq!(log.take(), texts([1_000, 3]));
}

#[test]
fn a6_drop_oldest_keeps_more_urgent_messages() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let dead_letters = dead_letters(&system);
    let (actor, log, gate) = busy_actor(&sim, &system, Mailbox::bounded(2).prioritised().drop_oldest());
    let tell = |n, priority| actor.tell_envelope(PriorityEnvelope::new(note(n), Priority::new(priority).unwrap())).unwrap();
    let dropped = || {
        dead_letters
            .take()
            .into_iter()
            .map(|(text, reason)| (text, reason == DeadLetterReason::DroppedOldest))
            .collect::<Vec<_>>()
    };
    let oldest = |n: u32| vec![(n.to_string(), true)];
    tell(1, 7);
    tell(2, 5);
    tell(3, 4);
    assert_eq!(dropped(), oldest(3), "the new message has the lowest priority");
    tell(4, 5);
    assert_eq!(dropped(), oldest(2), "the older of two equal priorities");
    tell(5, 6);
    assert_eq!(dropped(), oldest(4), "the lowest priority, although it is the newest");
    actor.tell(note(6)).unwrap();
    assert_eq!(dropped(), oldest(6), "a plain message has the middle priority");
    gate.open();
    sim.settle();
    assert_eq!(log.take(), texts([1_000, 1, 5]));
    assert_eq!(actor.counts(), Counts { accepted: 7, handled: 3, failed: 0, dead_lettered: 4 });
}

#[test]
fn a6_waiting_send_keeps_its_priority() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let (actor, log, gate) = busy_actor(&sim, &system, Mailbox::bounded(2).prioritised());
    (1..=2).for_each(|n| actor.tell(note(n)).unwrap());
    let mut urgent = actor.send(note(3)).priority(Priority::HIGHEST);
    assert!(poll_once(&mut urgent).is_pending());
    assert!(matches!(actor.tell_envelope(PriorityEnvelope::new(note(4), Priority::HIGHEST)), Err(SendError::Full(_))));
    gate.open();
    sim.run(urgent).unwrap();
    sim.settle();
    assert_eq!(log.take().len(), 4);
}
