//! A5, A7, A9 and A18: the control lane, the three ends, and a loop that neither hogs nor spins.

use crate::common::{Doer, Gate, Job, Log, dead_letters};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{BoxError, DeadLetterReason, MAILBOX_CAPACITY_DEFAULT, MESSAGES_PER_POLL_MAX, SIGNALS_IN_A_ROW_MAX};
use std::sync::{Arc, OnceLock};

/// The news that an unnamed actor at `/user` has ended, of as many different actors as are asked for.
fn obituaries(sim: &Sim, system: &ActorSystem, count: usize) -> Vec<SystemMessage> {
    let lives: Vec<_> = (0..count).map(|_| system.spawn_unnamed(Doer::props(&Log::new())).unwrap()).collect();
    lives.iter().for_each(ActorRef::stop);
    sim.settle();
    lives.iter().map(|life| SystemMessage::Terminated(terminated(life))).collect()
}

fn terminated(life: &ActorRef<Job>) -> Terminated {
    Terminated { id: life.id(), path: life.path(), exit: life.exit().unwrap() }
}

#[test]
fn a5_control_goes_before_user_messages_and_is_taken_however_full_they_are() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let actor = system.spawn("doer", Doer::props(&log).mailbox(Mailbox::default())).unwrap();
        let news = obituaries(sim, &system, 3);
        assert_eq!(log.take(), ["started 0"]);
        for n in 0..MAILBOX_CAPACITY_DEFAULT as u32 {
            actor.tell(Job::Note(n)).unwrap();
        }
        assert!(matches!(actor.tell(Job::Note(0)), Err(SendError::Full(_))));
        for one in news {
            actor.try_send_system(one).expect("the control lane is never full");
        }
        sim.settle();
        let seen = log.take();
        assert!(seen[..3].iter().all(|entry| entry.starts_with("terminated")), "{:?}", &seen[..3]);
        assert_eq!(seen.len(), 3 + MAILBOX_CAPACITY_DEFAULT);
    });
}

#[test]
fn a5_a_stop_is_served_before_a_full_mailbox() {
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let letters = dead_letters(&system);
    let actor = system.spawn("doer", Doer::props(&log)).unwrap();
    sim.settle();
    (0..5_000).for_each(|n| actor.tell(Job::Note(n)).unwrap());
    actor.stop();
    sim.settle();
    assert_eq!(log.take(), ["started 0", "stopped 0 stopped"]);
    assert_eq!(letters.len(), 5_000);
}

#[test]
fn a5_repeated_control_of_one_kind_coalesces() {
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let actor = system.spawn("doer", Doer::props(&log)).unwrap();
    let news = obituaries(&sim, &system, 1).remove(0);
    log.take();
    for _ in 0..1_000 {
        actor.try_send_system(news.clone()).unwrap();
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
    assert_eq!(log.take(), ["1"], "the last word was resume");
}

#[test]
fn a5_after_a_row_of_signals_one_user_message_is_served() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let actor = system.spawn("doer", Doer::props(&log)).unwrap();
        let row = SIGNALS_IN_A_ROW_MAX as usize;
        let news = obituaries(sim, &system, 2 * row + 3);
        log.take();
        (0..4).for_each(|n| actor.tell(Job::Note(n)).unwrap());
        news.into_iter().for_each(|one| actor.try_send_system(one).unwrap());
        sim.settle();
        let signals: Vec<bool> = log.take().iter().map(|entry| entry.starts_with("terminated")).collect();
        let mut expected = vec![true; row];
        expected.push(false);
        expected.extend(vec![true; row]);
        expected.push(false);
        expected.extend([true, true, true, false, false]);
        assert_eq!(signals, expected);
    });
}

#[test]
fn a5_more_signals_than_a_row_are_all_heard_by_an_idle_and_by_a_suspended_actor() {
    for suspended in [false, true] {
        let sim = Sim::new(0);
        let (system, log) = (sim.system("s"), Log::new());
        let actor = system.spawn("doer", Doer::props(&log)).unwrap();
        let news = obituaries(&sim, &system, 1_000);
        if suspended {
            actor.try_send_system(SystemMessage::Suspend).unwrap();
            sim.settle();
        }
        log.take();
        let before = sim.polls();
        news.into_iter().for_each(|one| actor.try_send_system(one).unwrap());
        sim.settle();
        assert_eq!(log.take().len(), 1_000);
        assert!(sim.polls() - before >= 1_000 / u64::from(MESSAGES_PER_POLL_MAX), "signals do not hold the worker either");
    }
}

#[test]
fn a7_stop_finishes_the_message_in_hand_and_buries_the_rest() {
    explore(0..100, |sim| {
        let (system, log, gate) = (sim.system("s"), Log::new(), Gate::new());
        let letters = dead_letters(&system);
        let actor = system.spawn("doer", Doer::props(&log)).unwrap();
        actor.tell(Job::Pass(gate.clone(), 1)).unwrap();
        actor.tell(Job::Note(2)).unwrap();
        sim.settle();
        actor.stop();
        actor.tell(Job::Note(3)).unwrap();
        sim.settle();
        assert_eq!(log.take(), ["started 0"], "the message in hand is not cut off");
        gate.open();
        assert_eq!(sim.run(actor.exited()), Exit::Stopped);
        assert_eq!(log.take(), ["1", "stopped 0 stopped"]);
        let expected = [2, 3].map(|n| (n.to_string(), DeadLetterReason::Stopped));
        assert_eq!(letters.take(), expected);
        assert!(matches!(actor.tell(Job::Note(4)), Err(SendError::Closed(Job::Note(4)))));
        assert_eq!(actor.counts(), Counts { accepted: 3, handled: 1, failed: 0, dead_lettered: 2 });
    });
}

#[test]
fn a7_close_handles_what_is_queued_and_takes_no_more() {
    explore(0..100, |sim| {
        let (system, log, gate) = (sim.system("s"), Log::new(), Gate::new());
        let actor = system.spawn("doer", Doer::props(&log)).unwrap();
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
fn a7_cancel_drops_the_handler_at_its_await_with_the_first_cause() {
    explore(0..100, |sim| {
        let (system, log, gate) = (sim.system("s"), Log::new(), Gate::new());
        let letters = dead_letters(&system);
        let actor = system.spawn("doer", Doer::props(&log)).unwrap();
        let dropped = Arc::new(());
        let held = Arc::clone(&dropped);
        let waiting = gate.clone();
        actor
            .tell(Job::work(move |_| async move {
                let _held = held;
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
        assert_eq!(Arc::strong_count(&dropped), 1, "the handler's future is gone");
        assert_eq!(log.take(), ["started 0", "stopped 0 cancelled"]);
        assert_eq!(letters.take(), [("2".to_string(), DeadLetterReason::Cancelled)]);
        assert_eq!(actor.counts(), Counts { accepted: 2, handled: 0, failed: 1, dead_lettered: 1 });
    });
}

#[test]
fn a7_a_failure_that_is_not_restarted_is_the_fourth_exit() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let letters = dead_letters(&system);
        let crew = system.supervisor("crew", OneForOne::new().always(SupervisorDirective::Stop)).unwrap();
        let actor = crew.spawn("doer", Doer::props(&log)).unwrap();
        actor.tell(Job::Fail("no")).unwrap();
        actor.tell(Job::Note(2)).unwrap();
        let exit = sim.run(actor.exited());
        assert_eq!(exit.failure().unwrap().reason().to_string(), "no");
        assert_eq!(log.take(), ["started 0", "stopped 0 failed"]);
        assert_eq!(letters.take(), [("2".to_string(), DeadLetterReason::Failed)]);
    });
}

/// How many polls an actor takes that always has one more message to handle, told by itself or from a stream.
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
    let props = if fed { props.fed_by(futures::stream::iter(0..messages)) } else { props };
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
fn a9_a_busy_actor_yields_whatever_its_mailbox() {
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
fn a9_one_poll_handles_no_more_than_the_documented_number() {
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let actor = system.spawn("doer", Doer::props(&log)).unwrap();
    sim.settle();
    let messages = 10 * MESSAGES_PER_POLL_MAX;
    (0..messages).for_each(|n| actor.tell(Job::Note(n)).unwrap());
    let polls = sim.settle() as u32;
    assert!((10..=13).contains(&polls), "{polls} polls for {messages} messages");
    assert_eq!(log.len(), messages as usize + 1);
}

#[test]
fn a9_an_idle_system_makes_no_poll() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let kinds = [Mailbox::default(), Mailbox::conflated(), Mailbox::bounded(2).prioritised()];
        let actors: Vec<_> = kinds.map(|kind| system.spawn_unnamed(Doer::props(&log).mailbox(kind)).unwrap()).into();
        let fed = Doer::props(&log).fed_by(futures::stream::pending());
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
        // A suspended actor is not woken by messages either.
        (0..100).for_each(|n| actors[0].tell(Job::Note(n)).unwrap());
        sim.settle();
        assert_eq!(sim.polls(), before);
    });
}

#[test]
fn a9_a_million_dead_letters_are_not_buried_in_one_poll() {
    let sim = Sim::new(0);
    let system = sim.system("s");
    let props = Props::from_fn(|| (), |(): &mut (), _: u32| Ok::<(), BoxError>(())).mailbox(Mailbox::unbounded());
    let actor = system.spawn("sink", props).unwrap();
    (0..1_000_000).for_each(|n| actor.tell(n).unwrap());
    actor.stop();
    let mut polls = 0;
    let mut at_most = 0;
    let mut buried = 0;
    sim.run(async {
        while actor.exit().is_none() {
            sim.step_aside().await;
            let now = actor.counts().dead_lettered;
            at_most = at_most.max(now - buried);
            buried = now;
            polls += 1;
        }
    });
    assert_eq!(actor.counts(), Counts { accepted: 1_000_000, handled: 0, failed: 0, dead_lettered: 1_000_000 });
    assert!(polls > 1_000 && at_most < 20_000, "{polls} polls, {at_most} at most");
}

#[test]
fn a18_each_system_message_does_what_it_says() {
    explore(0..50, |sim| {
        let (system, log, heard) = (sim.system("s"), Log::new(), Log::new());
        let actor = system.spawn("doer", Doer::props(&log)).unwrap();
        let watcher = system.spawn("watcher", Doer::props(&heard)).unwrap();
        let other = system.spawn("other", Doer::props(&heard)).unwrap();
        let tell = |message| {
            actor.try_send_system(message).unwrap();
            sim.settle();
        };
        sim.settle();
        heard.take();
        tell(SystemMessage::Suspend);
        actor.tell(Job::Note(1)).unwrap();
        sim.settle();
        assert_eq!(log.take(), ["started 0"], "a suspended actor takes no message");
        tell(SystemMessage::Resume);
        assert_eq!(log.take(), ["1"]);
        tell(SystemMessage::Restart);
        assert_eq!(log.take(), ["stopped 0 stopped", "started 1"]);
        let failure = failure_of(sim);
        tell(SystemMessage::Failure(failure.clone()));
        tell(SystemMessage::Escalate(failure.clone()));
        assert_eq!(log.take(), [format!("failure {}", failure.path()), format!("escalate {}", failure.path())]);
        tell(SystemMessage::Watch(watcher.any()));
        tell(SystemMessage::Watch(other.any()));
        tell(SystemMessage::Unwatch(other.any()));
        tell(SystemMessage::Stop);
        assert_eq!(log.take(), ["stopped 1 stopped"]);
        assert_eq!(heard.take(), ["terminated /user/doer stopped"], "the watcher alone, once");
        watcher.try_send_system(SystemMessage::Terminated(terminated(&actor))).unwrap();
        sim.settle();
        assert_eq!(heard.take(), ["terminated /user/doer stopped"]);
    });
}

/// A failure of something in another system.
fn failure_of(sim: &Sim) -> FailureInfo {
    let system = sim.system("elsewhere");
    let crew = system.supervisor("crew", OneForOne::new().always(SupervisorDirective::Stop)).unwrap();
    let actor = crew.spawn("doer", Doer::props(&Log::new())).unwrap();
    actor.tell(Job::Fail("there")).unwrap();
    sim.settle();
    actor.exit().unwrap().failure().unwrap().clone()
}

#[test]
fn a18_after_the_end_a_system_message_comes_back() {
    let sim = Sim::new(0);
    let (system, heard) = (sim.system("s"), Log::new());
    let actor = system.spawn("doer", Doer::props(&Log::new())).unwrap();
    let watcher = system.spawn("watcher", Doer::props(&heard)).unwrap();
    actor.stop();
    sim.settle();
    for message in [SystemMessage::Stop, SystemMessage::Restart, SystemMessage::Suspend, SystemMessage::Resume] {
        let kind = std::mem::discriminant(&message);
        match actor.try_send_system(message) {
            Err(SendError::Closed(back)) => assert_eq!(std::mem::discriminant(&back), kind),
            sent => panic!("not given back: {sent:?}"),
        }
    }
    actor.try_send_system(SystemMessage::Watch(watcher.any())).expect("a watch of the dead is answered");
    sim.settle();
    assert_eq!(heard.take(), ["started 0", "terminated /user/doer stopped"]);
}

#[test]
fn a18_an_actor_sends_itself_control_from_inside_a_handler() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let letters = dead_letters(&system);
        let actor = system.spawn("doer", Doer::props(&log)).unwrap();
        let other = system.spawn("other", Doer::props(&Log::new())).unwrap();
        let order = |message| actor.tell(Job::act(move |cx| cx.try_send_system(message))).unwrap();
        order(SystemMessage::Restart);
        actor.tell(Job::Note(1)).unwrap();
        order(SystemMessage::Suspend);
        actor.tell(Job::Note(2)).unwrap();
        sim.settle();
        assert_eq!(log.take(), ["started 0", "stopped 0 stopped", "started 1", "1"]);
        actor.try_send_system(SystemMessage::Resume).unwrap();
        // To another actor, from inside: it watches this one, and this one tells it to stop.
        let (watched, me) = (other.clone(), actor.any());
        actor
            .tell(Job::act(move |_| {
                watched.try_send_system(SystemMessage::Watch(me)).unwrap();
                watched.try_send_system(SystemMessage::Stop).unwrap();
            }))
            .unwrap();
        sim.settle();
        assert_eq!(log.take(), ["2", "terminated /user/other stopped"]);
        order(SystemMessage::Stop);
        actor.tell(Job::Note(3)).unwrap();
        assert_eq!(sim.run(actor.exited()), Exit::Stopped);
        assert_eq!(log.take(), ["stopped 1 stopped"]);
        assert_eq!(letters.take(), [("3".to_string(), DeadLetterReason::Stopped)]);
    });
}
