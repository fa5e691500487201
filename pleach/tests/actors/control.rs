//! A5, A7 and A9: the control lane, the ways to end an actor, and a fair actor loop.

use crate::common::{Gate, Job, Log, TestActor, dead_letters};
use pleach::BoxError;
use pleach::actor::{MAILBOX_CAPACITY_DEFAULT, MESSAGES_PER_POLL_MAX, SIGNALS_IN_A_ROW_MAX};
use pleach::events::DeadLetterReason;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use std::sync::{Arc, OnceLock};

/// Termination messages of `count` different actors.
fn terminations(sim: &Sim, system: &ActorSystem, count: usize) -> Vec<SystemMessage> {
    let ended: Vec<_> = (0..count).map(|_| system.spawn_unnamed(TestActor::props(&Log::new())).unwrap()).collect();
    ended.iter().for_each(ActorRef::stop);
    sim.settle();
    ended.iter().map(|actor| SystemMessage::Terminated(terminated(actor))).collect()
}

pub fn terminated(actor: &ActorRef<Job>) -> Terminated {
    Terminated { id: actor.id(), path: actor.path(), exit: actor.exit().unwrap() }
}

#[test]
fn a5_control_messages_go_first_even_if_the_mailbox_is_full() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let actor = system.spawn("actor", TestActor::props(&log).mailbox(Mailbox::default())).unwrap();
        let terminations = terminations(sim, &system, 3);
        assert_eq!(log.take(), ["started 0"]);
        for n in 0..MAILBOX_CAPACITY_DEFAULT as u32 {
            actor.tell(Job::Note(n)).unwrap();
        }
        assert!(matches!(actor.tell(Job::Note(0)), Err(SendError::Full(_))));
        for termination in terminations {
            actor.try_send_system(termination).expect("the control lane is never full");
        }
        sim.settle();
        let seen = log.take();
        assert!(seen[..3].iter().all(|entry| entry.starts_with("terminated")), "{:?}", &seen[..3]);
        assert_eq!(seen.len(), 3 + MAILBOX_CAPACITY_DEFAULT);
    });
}

#[test]
fn a5_stop_is_handled_before_queued_messages() {
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let dead_letters = dead_letters(&system);
    let actor = system.spawn("actor", TestActor::props(&log)).unwrap();
    sim.settle();
    (0..5_000).for_each(|n| actor.tell(Job::Note(n)).unwrap());
    actor.stop();
    sim.settle();
    assert_eq!(log.take(), ["started 0", "stopped 0 stopped"]);
    assert_eq!(dead_letters.len(), 5_000);
}

#[test]
fn a5_repeated_control_messages_coalesce() {
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let actor = system.spawn("actor", TestActor::props(&log)).unwrap();
    let terminations = terminations(&sim, &system, 1).remove(0);
    log.take();
    for _ in 0..1_000 {
        actor.try_send_system(terminations.clone()).unwrap();
        actor.try_send_system(SystemMessage::Restart).unwrap();
        actor.try_send_system(SystemMessage::Suspend).unwrap();
        actor.try_send_system(SystemMessage::Resume).unwrap();
    }
    sim.settle();
    let seen = log.take();
    assert_eq!(seen.iter().filter(|entry| entry.starts_with("terminated")).count(), 1);
    assert_eq!(seen.iter().filter(|entry| entry.starts_with("started")).count(), 1, "one restart: {seen:?}");
    actor.tell(Job::Note(1)).unwrap();
    sim.settle();
    assert_eq!(log.take(), ["1"], "resume was last");
}

#[test]
fn a5_one_user_message_is_handled_after_a_row_of_signals() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let actor = system.spawn("actor", TestActor::props(&log)).unwrap();
        let row = SIGNALS_IN_A_ROW_MAX as usize;
        let terminations = terminations(sim, &system, 2 * row + 3);
        log.take();
        (0..4).for_each(|n| actor.tell(Job::Note(n)).unwrap());
        terminations.into_iter().for_each(|termination| actor.try_send_system(termination).unwrap());
        sim.settle();
        let signals: Vec<bool> = log.take().iter().map(|entry| entry.starts_with("terminated")).collect();
        assert_eq!(signals, rows_of_signals());
    });
}

/// Two full rows of signals, each followed by one of four messages, and three further signals.
fn rows_of_signals() -> Vec<bool> {
    let row = vec![true; SIGNALS_IN_A_ROW_MAX as usize];
    [row.clone(), vec![false], row, vec![false, true, true, true, false, false]].concat()
}

#[test]
fn e6_one_user_message_is_handled_after_a_row_of_mapped_signals() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let props = TestActor::props(&log).map_signals(|_| Some(Job::Note(100)));
        let actor = system.spawn("actor", props).unwrap();
        let terminations = terminations(sim, &system, 2 * SIGNALS_IN_A_ROW_MAX as usize + 3);
        log.take();
        (0..4).for_each(|n| actor.tell(Job::Note(n)).unwrap());
        terminations.into_iter().for_each(|termination| actor.try_send_system(termination).unwrap());
        sim.settle();
        let signals: Vec<bool> = log.take().iter().map(|entry| entry == "100").collect();
        assert_eq!(signals, rows_of_signals());
    });
}

#[test]
fn a5_one_user_message_goes_first_even_if_it_takes_others_back() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let actor = system.spawn("actor", TestActor::props(&log)).unwrap();
        let row = SIGNALS_IN_A_ROW_MAX as usize;
        let terminations = terminations(sim, &system, 2 * row);
        actor.tell(Job::Do(Box::new(|cx| drop(cx.stash(Job::Note(99)))))).unwrap();
        sim.settle();
        log.take();
        actor.tell(Job::Do(Box::new(|cx| cx.unstash_all()))).unwrap();
        actor.tell(Job::Note(1)).unwrap();
        terminations.into_iter().for_each(|termination| actor.try_send_system(termination).unwrap());
        sim.settle();
        let seen = log.take();
        assert!(seen[..2 * row].iter().all(|entry| entry.starts_with("terminated")), "{seen:?}");
        assert_eq!(seen[2 * row..], ["99", "1"]);
    });
}

#[test]
fn a5_many_signals_reach_idle_and_suspended_actors() {
    for suspended in [false, true] {
        let sim = Sim::new(0);
        let (system, log) = (sim.system("s"), Log::new());
        let actor = system.spawn("actor", TestActor::props(&log)).unwrap();
        let terminations = terminations(&sim, &system, 1_000);
        if suspended {
            actor.try_send_system(SystemMessage::Suspend).unwrap();
            sim.settle();
        }
        log.take();
        let before = sim.polls();
        terminations.into_iter().for_each(|termination| actor.try_send_system(termination).unwrap());
        sim.settle();
        assert_eq!(log.take().len(), 1_000);
        assert!(sim.polls() - before >= 1_000 / u64::from(MESSAGES_PER_POLL_MAX), "signals let other tasks run too");
    }
}

#[test]
fn a7_stop_finishes_the_current_message_and_drops_the_rest() {
    explore(0..100, |sim| {
        let (system, log, gate) = (sim.system("s"), Log::new(), Gate::new());
        let dead_letters = dead_letters(&system);
        let actor = system.spawn("actor", TestActor::props(&log)).unwrap();
        actor.tell(Job::Pass(gate.clone(), 1)).unwrap();
        actor.tell(Job::Note(2)).unwrap();
        sim.settle();
        actor.stop();
        actor.tell(Job::Note(3)).unwrap();
        sim.settle();
        assert_eq!(log.take(), ["started 0"], "the current message is not cancelled");
        gate.open();
        assert_eq!(sim.run(actor.exited()), Exit::Stopped);
        assert_eq!(log.take(), ["1", "stopped 0 stopped"]);
        let expected = [2, 3].map(|n| (n.to_string(), DeadLetterReason::Stopped));
        assert_eq!(dead_letters.take(), expected);
        assert!(matches!(actor.tell(Job::Note(4)), Err(SendError::Closed(Job::Note(4)))));
        assert_eq!(actor.counts(), Counts { accepted: 3, handled: 1, failed: 0, dead_lettered: 2 });
    });
}

#[test]
fn a7_close_handles_queued_messages_and_accepts_no_more() {
    explore(0..100, |sim| {
        let (system, log, gate) = (sim.system("s"), Log::new(), Gate::new());
        let actor = system.spawn("actor", TestActor::props(&log)).unwrap();
        actor.tell(Job::Pass(gate.clone(), 1)).unwrap();
        actor.tell(Job::Note(2)).unwrap();
        sim.settle();
        actor.close();
        assert!(matches!(actor.tell(Job::Note(3)), Err(SendError::Closed(Job::Note(3)))));
        gate.open();
        assert_eq!(sim.run(actor.exited()), Exit::Closed);
        assert_eq!(log.take(), ["started 0", "1", "2", "stopped 0 closed"]);
        assert_eq!(system.counts(), Counts { accepted: 2, handled: 2, failed: 0, dead_lettered: 0 });
    });
}

#[test]
fn a7_cancel_drops_the_handler_with_the_first_cause() {
    explore(0..100, |sim| {
        let (system, log, gate) = (sim.system("s"), Log::new(), Gate::new());
        let dead_letters = dead_letters(&system);
        let actor = system.spawn("actor", TestActor::props(&log)).unwrap();
        let dropped = Arc::new(());
        let guard = Arc::clone(&dropped);
        let waiting = gate.clone();
        actor
            .tell(Job::work(move |_| async move {
                let _guard = guard;
                waiting.pass().await;
                Ok(())
            }))
            .unwrap();
        actor.tell(Job::Note(2)).unwrap();
        sim.settle();
        assert_eq!(Arc::strong_count(&dropped), 2);
        actor.cancel("enough");
        actor.cancel("too late");
        gate.open();
        assert_eq!(sim.run(actor.exited()), Exit::Cancelled(Cause::from("enough")));
        assert_eq!(Arc::strong_count(&dropped), 1, "the handler's future is dropped");
        assert_eq!(log.take(), ["started 0", "stopped 0 cancelled"]);
        assert_eq!(dead_letters.take(), [("2".to_string(), DeadLetterReason::Cancelled)]);
        assert_eq!(actor.counts(), Counts { accepted: 2, handled: 0, failed: 1, dead_lettered: 1 });
    });
}

#[test]
fn a7_failure_without_restart_exits_as_failed() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let dead_letters = dead_letters(&system);
        let supervisor = system.supervisor("supervisor", OneForOne::new().always(SupervisorDirective::Stop)).unwrap();
        let actor = supervisor.spawn("actor", TestActor::props(&log)).unwrap();
        actor.tell(Job::Fail("no")).unwrap();
        actor.tell(Job::Note(2)).unwrap();
        let exit = sim.run(actor.exited());
        assert_eq!(exit.failure().unwrap().reason().to_string(), "no");
        assert_eq!(log.take(), ["started 0", "stopped 0 failed"]);
        assert_eq!(dead_letters.take(), [("2".to_string(), DeadLetterReason::Failed)]);
    });
}

/// Counts the polls of an actor that always has one more message, sent by the actor or read
/// from a stream.
fn polls_of_a_busy_actor(mailbox: Mailbox, fed: bool, messages: u32) -> usize {
    let sim = Sim::new(3);
    let system = sim.system("s");
    let me = Arc::new(OnceLock::<ActorRef<u32>>::new());
    let own = Arc::clone(&me);
    let handle = move |(): &mut (), left: u32| -> Result<(), BoxError> {
        if left > 1 && !fed {
            own.get().unwrap().tell(left - 1)?;
        }
        Ok(())
    };
    let props = Props::from_fn(|| (), handle).mailbox(mailbox);
    let props = if fed { props.with_stream(futures::stream::iter(0..messages)) } else { props };
    let busy = system.spawn("busy", props).unwrap();
    me.set(busy.clone()).unwrap();
    if !fed {
        busy.tell(messages).unwrap();
    }
    let polls = sim.settle();
    assert_eq!(busy.counts().handled, u64::from(messages));
    polls
}

#[test]
fn a9_busy_actor_yields_with_every_mailbox() {
    let messages = 20 * MESSAGES_PER_POLL_MAX;
    let kinds =
        [Mailbox::unbounded(), Mailbox::conflated(), Mailbox::bounded(8).drop_oldest(), Mailbox::bounded(8).prioritised()];
    for kind in kinds {
        let polls = polls_of_a_busy_actor(kind, false, messages);
        assert!((20..30).contains(&polls), "{polls} polls, {kind:?}");
    }
    let polls = polls_of_a_busy_actor(Mailbox::default(), true, messages);
    assert!((20..30).contains(&polls), "{polls} polls, fed by a stream");
}

#[test]
fn a9_one_poll_handles_at_most_the_documented_number() {
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let actor = system.spawn("actor", TestActor::props(&log)).unwrap();
    sim.settle();
    let messages = 10 * MESSAGES_PER_POLL_MAX;
    (0..messages).for_each(|n| actor.tell(Job::Note(n)).unwrap());
    let polls = sim.settle() as u32;
    assert!((10..=13).contains(&polls), "{polls} polls for {messages} messages");
    assert_eq!(log.len(), messages as usize + 1);
}

#[test]
fn a9_idle_system_makes_no_poll() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let kinds = [Mailbox::default(), Mailbox::conflated(), Mailbox::bounded(2).prioritised()];
        let actors: Vec<_> = kinds.map(|kind| system.spawn_unnamed(TestActor::props(&log).mailbox(kind)).unwrap()).into();
        let fed = TestActor::props(&log).with_stream(futures::stream::pending());
        let fed = system.spawn("fed", fed).unwrap();
        for actor in actors.iter().chain([&fed]) {
            actor.tell(Job::Note(1)).unwrap();
        }
        actors[0].try_send_system(SystemMessage::Suspend).unwrap();
        (0..100).for_each(|n| actors[0].tell(Job::Note(n)).unwrap());
        sim.settle();
        let before = sim.polls();
        for _ in 0..10 {
            sim.advance(Duration::from_secs(3_600));
        }
        // Messages do not wake a suspended actor.
        (0..100).for_each(|n| actors[0].tell(Job::Note(n)).unwrap());
        sim.settle();
        assert_eq!(sim.polls(), before);
    });
}

#[test]
fn a9_a_million_dead_letters_take_many_polls() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let props = Props::from_fn(|| (), |(): &mut (), _: u32| Ok::<(), BoxError>(())).mailbox(Mailbox::unbounded());
    let actor = system.spawn("sink", props).unwrap();
    (0..1_000_000).for_each(|n| actor.tell(n).unwrap());
    actor.stop();
    let mut polls = 0;
    let mut max_per_poll = 0;
    let mut dropped = 0;
    sim.run(async {
        while actor.exit().is_none() {
            sim.yield_now().await;
            let now = actor.counts().dead_lettered;
            max_per_poll = max_per_poll.max(now - dropped);
            dropped = now;
            polls += 1;
        }
    });
    assert_eq!(actor.counts(), Counts { accepted: 1_000_000, handled: 0, failed: 0, dead_lettered: 1_000_000 });
    assert!(polls > 1_000 && max_per_poll < 20_000, "{polls} polls, {max_per_poll} per poll");
}
