//! A10: cycle detection with answered asks and with several asks at once; asks whose message is
//! dropped.

use crate::common::{Gate, Job, Log, TestActor, poll_once};
use pleach::prelude::*;
use pleach::sim::explore;
use std::task::Poll;

#[test]
fn a10_answered_ask_closes_no_cycle() {
    explore(0..100, |sim| {
        let system = sim.system("s");
        let [a, b] = ["a", "b"].map(|name| TestActor::spawn(&system, name));
        let (answers, asked) = (Log::new(), a.clone());
        let seen = answers.clone();
        // b answers a, then asks a before a has read the answer.
        let back = move |reply: Reply<u32>| {
            Job::work(move |_| async move {
                reply.send(1);
                seen.push(asked.ask(|reply| Job::Answer(reply, 2)).await);
                Ok(())
            })
        };
        let seen = answers.clone();
        a.tell(Job::work(move |_| async move {
            seen.push(b.ask(back).await);
            Ok(())
        }))
        .unwrap();
        sim.settle();
        assert_eq!(answers.take().into_iter().map(Result::unwrap).collect::<Vec<_>>(), [1, 2]);
    });
}

#[test]
fn a10_cycle_through_one_of_several_asks_is_an_error() {
    explore(0..100, |sim| {
        let system = sim.system("s");
        let [a, b, c] = ["a", "b", "c"].map(|name| TestActor::spawn(&system, name));
        let (errors, asked, gate) = (Log::new(), a.clone(), Gate::new());
        let (seen, waiting) = (errors.clone(), gate.clone());
        let back = move |reply: Reply<u32>| {
            Job::work(move |_| async move {
                seen.push(asked.ask(|reply| Job::Answer(reply, 2)).await);
                reply.send(1);
                Ok(())
            })
        };
        let late = move |reply: Reply<u32>| {
            Job::work(move |_| async move {
                waiting.pass().await;
                reply.send(3);
                Ok(())
            })
        };
        a.tell(Job::work(move |_| async move {
            let (from_b, from_c) = futures::join!(b.ask(back), c.ask(late));
            assert_eq!((from_b.unwrap(), from_c.unwrap()), (1, 3));
            Ok(())
        }))
        .unwrap();
        sim.settle();
        assert!(matches!(&errors.take()[..], [Err(AskError::Cycle(paths))] if paths.len() == 2));
        gate.open();
        sim.settle();
        assert_eq!(system.counts().handled, 3);
    });
}

#[test]
fn a10_ask_ends_at_once_if_its_message_is_dropped() {
    let sim = pleach::sim::Sim::new(1);
    let system = sim.system("s");
    let full = system.spawn("full", TestActor::props(&Log::new()).mailbox(Mailbox::bounded(1).drop_oldest())).unwrap();
    full.try_send_system(SystemMessage::Suspend).unwrap();
    sim.settle();
    let mut ask = full.ask(|reply| Job::Answer(reply, 1));
    assert!(poll_once(&mut ask).is_pending());
    // The handler that causes the drop waits, then fails. The asker sees neither.
    let gate = Gate::new();
    let waiting = gate.clone();
    let (sender, to) = (TestActor::spawn(&system, "sender"), full.clone());
    sender
        .tell(Job::work(move |_| async move {
            to.tell(Job::Note(1)).unwrap();
            waiting.pass().await;
            Err("unrelated".into())
        }))
        .unwrap();
    sim.settle();
    assert!(matches!(poll_once(&mut ask), Poll::Ready(Err(AskError::Dropped))));
    gate.open();
    sim.settle();
}
